"""Every installed interface keeps its contract on all kinds of spaces that it supports."""

from __future__ import annotations

import pytest
from gymnasium import spaces
from ludus._plugins.manager import load_plugins
from ludus.errors import ContractError
from ludus.interface import Spaces
from ludus.testing import check_environment, check_interface

INTERFACES = load_plugins().components("interface")
#: Options that have no default, by component.
OPTIONS = {
    "combine": {"parts": (["frame-stack"], []), "widths": (2, 1)},
    "delay": {"tick_ms": 100.0},
    "select-leaves": {"keep": ("obs",)},
}
#: Interfaces for environments without action masks, or whose masks always allow some choices.
WITHOUT_MASKS = {
    "act-mask",
    "discrete-action-7",
    "post-rule-action",
    "zerg-combat-act",
    "zerg-flat-act",
    "zerg-prod-act",
    "zerg-resource-act",
}
ACTIONS = {
    "one-label": spaces.Discrete(5),
    "moves": spaces.Discrete(6),
    "labels": spaces.MultiDiscrete([3, 2, 2]),
    "army": spaces.MultiDiscrete([14, 14]),
    "managers": spaces.MultiDiscrete([64, 4, 122]),
    "buttons": spaces.MultiDiscrete([2] * 8),
    "real": spaces.Box(-1, 1, (2,)),
    "hybrid": spaces.Tuple((spaces.MultiDiscrete([3, 2]), spaces.Box(-1, 1, (2,)))),
}
OBSERVATIONS = {
    "vector": spaces.Box(-2, 2, (4,)),
    "football": spaces.Box(-2, 2, (214,)),
    "picture": spaces.Box(0, 255, (2, 3, 3), "uint8"),
    "screen": spaces.Dict(
        {
            "screen": spaces.Box(0, 255, (2, 3, 3), "uint8"),
            "labels": spaces.Box(0, 8, (2, 3, 1), "uint8"),
            "side": spaces.Discrete(2),
        }
    ),
    "leaves": spaces.Dict(
        {"obs": spaces.Box(-float("inf"), 1, (2,)), "n": spaces.Discrete(4, start=1), "m": spaces.MultiBinary(3)}
    ),
    "armies": spaces.Dict(
        {
            "own": spaces.Box(-5, 5, (2, 18)),
            "own_present": spaces.MultiBinary(2),
            "enemy": spaces.Box(-5, 5, (2, 18)),
            "enemy_present": spaces.MultiBinary(2),
        }
    ),
    "pommerman": spaces.Dict(
        {
            "board": spaces.Box(0, 13, (11, 11), "uint8"),
            "bomb_blast_strength": spaces.Box(0, 10, (11, 11), "uint8"),
            "bomb_life": spaces.Box(0, 9, (11, 11), "uint8"),
            "bomb_moving_direction": spaces.Box(0, 4, (11, 11), "uint8"),
            "flame_life": spaces.Box(0, 3, (11, 11), "uint8"),
            "position": spaces.Box(0, 10, (2,), "uint8"),
            **{name: spaces.Box(0, 10, (1,), "uint8") for name in ("ammo", "blast_strength")},
            "can_kick": spaces.Box(0, 1, (1,), "uint8"),
            "teammate": spaces.Box(0, 13, (1,), "uint8"),
            "enemies": spaces.Box(0, 13, (3,), "uint8"),
            "alive": spaces.MultiBinary(4),
            "step_count": spaces.Box(0, 800, (1,), "int32"),
        }
    ),
    "starcraft": spaces.Dict(
        {
            "own": spaces.Box(0, 40, (2, 12)),
            "own_present": spaces.MultiBinary(2),
            "enemy": spaces.Box(0, 40, (2, 12)),
            "enemy_present": spaces.MultiBinary(2),
            "resources": spaces.Box(0, 40, (2, 4)),
            "resources_present": spaces.MultiBinary(2),
            "areas": spaces.Box(0, 1, (16, 2)),
            "areas_present": spaces.MultiBinary(16),
            "player": spaces.Box(0, 40, (9,)),
            "score": spaces.Box(0, 40, (13,)),
            "upgrades": spaces.MultiBinary(27),
            "in_progress": spaces.Box(0, 1, (44,)),
            "time": spaces.Box(0, 1, (1,)),
        }
    ),
    "joint": spaces.Dict(
        {"0.obs": spaces.Box(-1, 1, (2,)), "1.n": spaces.Discrete(3), "1.obs": spaces.Box(0, 1, (1,))}
    ),
}

#: Combinations to check: spaces of StarCraft II only with each other.
PAIRS = [
    (observation, action)
    for observation in sorted(OBSERVATIONS)
    for action in sorted(ACTIONS)
    if (observation == "starcraft") == (action == "managers")
]


@pytest.mark.parametrize(("observation", "action"), PAIRS)
@pytest.mark.parametrize("name", sorted(INTERFACES))
def test_interface_keeps_its_contract(name, observation, action):
    """The interface passes `check_interface` with default options, or rejects the spaces with ContractError."""
    component = INTERFACES[name]
    factory, options = component.load_factory(), component.load_config()
    config = None if options is None else options(**OPTIONS.get(name, {}))
    raw = Spaces(OBSERVATIONS[observation], ACTIONS[action])
    try:
        factory(config).bind(raw)
    except ContractError:
        pytest.skip(f"{name} does not work on {action} actions with {observation} observations")
    if name not in WITHOUT_MASKS:
        check_interface(lambda: factory(config), raw)
    check_interface(lambda: factory(config), raw, masked=False)


@pytest.mark.parametrize("name", sorted(INTERFACES))
def test_interface_supports_at_least_one_space(name):
    """The contract test skips no interface on all spaces."""
    component = INTERFACES[name]
    factory, options = component.load_factory(), component.load_config()
    config = None if options is None else options(**OPTIONS.get(name, {}))

    def accepts(raw):
        try:
            factory(config).bind(raw)
        except ContractError:
            return False
        return True

    assert any(accepts(Spaces(seen, action)) for seen in OBSERVATIONS.values() for action in ACTIONS.values())


def test_interfaces_wrap_a_game_with_gymnasium_wrappers():
    """Gymnasium wrappers apply below the adapter, interfaces above it [Arena §2.4.4]."""
    for package in ("ludus_gymnasium", "ludus_interfaces"):
        pytest.importorskip(package)
    from ludus_gymnasium.config import GymnasiumConfig
    from ludus_gymnasium.environment import make_environment
    from ludus_interfaces.environment import wrap_environment
    from ludus_interfaces.frames import FrameStack

    options = GymnasiumConfig(id="CartPole-v1", wrappers=("gymnasium.wrappers:FlattenObservation",))

    def make(num_matches):
        return wrap_environment(make_environment(options, num_matches=num_matches), {"player": FrameStack(3)})

    assert make(1).spec.role("player").observation_space.shape == (3, 4)
    check_environment(make, steps=30)
