"""The interfaces of Arena, on hand-made states."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.installed import open_interfaces
from ludus.interface import SeatView, Spaces
from ludus.testing import check_interface
from ludus_vizdoom.config import BUTTONS, PostRuleConfig
from ludus_vizdoom.interfaces import ACTIONS, DiscreteAction7, PostRuleAction, ScreenAsObs, SegmentationAsObs
from ludus_vizdoom.observations import CLASSES

HEIGHT, WIDTH = 4, 9
PRESSES = spaces.MultiDiscrete([2] * len(BUTTONS))
RAW = Spaces(
    spaces.Dict(
        {
            "screen": spaces.Box(0, 255, (HEIGHT, WIDTH, 3), np.uint8),
            "labels": spaces.Box(0, len(CLASSES) - 1, (HEIGHT, WIDTH, 1), np.uint8),
            "variables": spaces.Box(-np.inf, np.inf, (3,), np.float32),
        }
    ),
    PRESSES,
)
SEAT = np.array([7])


def state(classes=(), *, ammo=0.5) -> SeatView:
    """Return the view of a seat that sees objects: (row, column, class), and whose screen is grey."""
    labels = np.zeros((1, HEIGHT, WIDTH, 1), np.uint8)
    for row, column, name in classes:
        labels[0, row, column] = CLASSES.index(name)
    observation = {
        "screen": np.full((1, HEIGHT, WIDTH, 3), 90, np.uint8),
        "labels": labels,
        "variables": np.array([[1.0, 0.0, ammo]], np.float32),
    }
    return SeatView(observation=observation, action_mask=None, reward=np.zeros(1, np.float32))


def buttons(*names) -> np.ndarray:
    """Return the action that presses buttons."""
    return np.array([[int(name in names) for name in BUTTONS]])


def pressed(action) -> set[str]:
    """Return the names of the pressed buttons."""
    return {name for name, is_pressed in zip(BUTTONS, action[0], strict=True) if is_pressed}


def open_bound(name):
    """Open an interface by its name, and bind it."""
    interface = open_interfaces([name])
    return interface, interface.bind(RAW)


@pytest.mark.parametrize(
    "make",
    [
        ScreenAsObs,
        SegmentationAsObs,
        functools.partial(DiscreteAction7, BUTTONS),
        functools.partial(PostRuleAction, PostRuleConfig()),
    ],
)
def test_interfaces_keep_the_contract(make):
    """The kit finds no violation."""
    check_interface(make, RAW, masked=False)


def test_screen_as_obs():
    """The screen in RGB and the variables of the panel stay, the classes do not."""
    interface, bound = open_bound("screen-as-obs")
    seen = interface.observe(state([(0, 0, "player")]), SEAT).observation
    assert {name: leaf.shape for name, leaf in bound.observation.spaces.items()} == {
        "screen": (HEIGHT, WIDTH, 3),
        "variables": (3,),
    }
    assert set(seen) == {"screen", "variables"}
    assert (seen["screen"] == 90).all()
    assert set(ScreenAsObs(variables=False).bind(RAW).observation.spaces) == {"screen"}


def test_segmentation_as_obs():
    """Every pixel has a one in the channel of its class."""
    interface, bound = open_bound("segmentation-as-obs")
    seen = interface.observe(state([(1, 2, "player"), (3, 8, "hazard")]), SEAT).observation
    image = seen["segmentation"][0]
    assert bound.observation["segmentation"].shape == image.shape == (HEIGHT, WIDTH, len(CLASSES))
    assert image.dtype == np.uint8
    assert (image.sum(axis=2) == 1).all()
    assert np.argwhere(image[:, :, CLASSES.index("player")]).tolist() == [[1, 2]]
    assert np.argwhere(image[:, :, CLASSES.index("hazard")]).tolist() == [[3, 8]]
    assert set(seen) == {"screen", "variables", "segmentation"}


def test_discrete_action_7():
    """Each of the seven choices presses its button."""
    interface, bound = open_bound("discrete-action-7")
    assert bound.action == spaces.Discrete(7)
    for choice, name in enumerate(ACTIONS):
        assert pressed(interface.act(np.array([[choice]]), SEAT)) == {name}


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (("MOVE_FORWARD",), {"MOVE_FORWARD", "SPEED"}),
        (("MOVE_LEFT",), {"MOVE_LEFT"}),
        (("TURN_LEFT",), {"TURN_LEFT"}),
        (("ATTACK",), {"ATTACK"}),
    ],
)
def test_post_rules_run_forward(before, expected):
    """A player runs forward, and the first turns stay slow."""
    interface, bound = open_bound("post-rule-action")
    assert bound == RAW
    interface.observe(state([(2, 4, "player")]), SEAT)
    assert pressed(interface.act(buttons(*before), SEAT)) == expected


def test_post_rules_turn_faster_after_some_decisions():
    """The third turn to the same side is fast; another direction or match resets the count."""
    interface, _ = open_bound("post-rule-action")
    interface.observe(state(), SEAT)
    fast = ["SPEED" in pressed(interface.act(buttons(f"TURN_{side}"), SEAT)) for side in ["LEFT"] * 4 + ["RIGHT"] * 3]
    assert fast == [False, False, True, True, False, False, True]
    interface.reset(SEAT)
    assert pressed(interface.act(buttons("TURN_RIGHT"), SEAT)) == {"TURN_RIGHT"}


@pytest.mark.parametrize(
    ("seen", "shoots"),
    [
        (state([(2, 4, "player")]), True),
        (state([(0, 4, "monster")]), True),
        (state([(2, 0, "player")]), False),
        (state([(2, 4, "health")]), False),
        (state([(2, 4, "player")], ammo=0.0), False),
        (state([(2, 4, "player")], ammo=-0.01), True),  # a weapon without ammunition, such as a fist
    ],
)
def test_post_rules_hold_fire(seen, shoots):
    """Shots without a target in the middle of the image or without ammunition are dropped."""
    interface, _ = open_bound("post-rule-action")
    interface.observe(seen, SEAT)
    assert pressed(interface.act(buttons("ATTACK", "MOVE_LEFT"), SEAT)) == {"MOVE_LEFT"} | (
        {"ATTACK"} if shoots else set()
    )


def test_post_rules_step_aside_from_a_barrel():
    """A barrel in the middle third blocks the way forward, and one at the side does not."""
    interface, _ = open_bound("post-rule-action")
    interface.observe(state([(2, 4, "hazard")]), SEAT)
    assert pressed(interface.act(buttons("MOVE_FORWARD"), SEAT)) == {"MOVE_RIGHT", "SPEED"}
    interface.observe(state([(2, 0, "hazard")]), SEAT)
    assert pressed(interface.act(buttons("MOVE_FORWARD"), SEAT)) == {"MOVE_FORWARD", "SPEED"}


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("screen-as-obs", Spaces(spaces.Discrete(2), PRESSES), "screen-as-obs: the observation has no leaf 'screen'"),
        ("segmentation-as-obs", Spaces(spaces.Discrete(2), PRESSES), 'set the environment\'s labels = "observation"'),
        ("discrete-action-7", Spaces(RAW.observation, spaces.Discrete(9)), 'actions = "buttons"'),
        ("post-rule-action", Spaces(RAW.observation, spaces.MultiDiscrete([2, 3])), "expected an action of 8 labels"),
    ],
)
def test_other_games_are_refused(name, raw, message):
    """The message names what to set."""
    with pytest.raises(ContractError, match=message):
        open_interfaces([name]).bind(raw)
