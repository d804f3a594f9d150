"""The environment ``agent-indicator`` shows seats their number."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Playable, Role, allocate_tick, checked_scenarios
from ludus.errors import ContractError
from ludus.testing import check_environment
from ludus_interfaces.config import AgentIndicatorConfig
from ludus_interfaces.factories import agent_indicator
from ludus_interfaces.indicator import indicate_agents


class Still:
    """A cat and four mice, of which nothing changes; a match lasts three ticks."""

    def __init__(self, num_matches=2, *, mice=4):
        self.num_matches, self.ticks = num_matches, np.zeros(num_matches, np.int64)
        made = [
            Role(name=name, observation_space=spaces.Box(0, 9, (1,)), action_space=spaces.Discrete(2), teams=teams)
            for name, teams in (("cat", (0,)), ("mouse", (1,) * mice))
        ]
        self.spec = EnvironmentSpec(name="still", roles=tuple(made), turn="simultaneous", max_ticks=3)
        self.tick = allocate_tick(self.spec, num_matches)

    def reset(self, seeds, *, indices=None, scenarios=None):
        at = np.arange(self.num_matches) if indices is None else indices
        checked_scenarios(scenarios, len(seeds), known={})
        self.ticks[at] = 0
        self.tick.clear(at)
        return self.show()

    def step(self, actions):
        if any((chosen > 1).any() or (chosen < 0).any() for chosen in actions.values()):
            raise ContractError("expected 0 or 1")
        self.ticks += 1
        return self.show()

    def show(self):
        self.tick.terminated[:] = self.ticks == 3
        self.tick.outcome[:] = 0.5
        for role in self.tick.roles.values():
            role.acting[:] = (self.ticks < 3)[:, None]
            role.observation["obs"][:] = np.minimum(self.ticks, 3)[:, None, None]
        return self.tick

    def close(self):
        pass


class PlayableStill(Still):
    """The playable variant."""

    def render(self, match):
        return f"match {match}"

    def action_name(self, role, action):
        return f"{role} {action[0]}"

    def parse_action(self, role, text):
        return np.array([int(text)])


def start(env):
    """Start all matches and return the tick."""
    return env.reset(np.arange(env.num_matches, dtype=np.uint64))


def test_contract():
    """Observations lie in the new spaces."""
    check_environment(lambda num_matches: indicate_agents(Still(num_matches), leaf="number"), steps=10)


def test_the_component_makes_it(monkeypatch):
    """The options reach the wrapper."""
    monkeypatch.setattr("ludus_interfaces.factories._game", lambda config, num_matches, _: Still(num_matches))
    env = agent_indicator(AgentIndicatorConfig(game="still", leaf="who", by="team", roles=("cat",)), num_matches=1)
    assert start(env).roles["cat"].observation["who"].tolist() == [[0]]
    assert isinstance(env.spec.role("mouse").observation_space, spaces.Box)


def test_seats_of_a_role_observe_their_number():
    """The four mice are 0 to 3 in every match; the cat is alone and does not change."""
    env = indicate_agents(Still())
    assert start(env).roles["mouse"].observation["agent"].tolist() == [[0, 1, 2, 3]] * 2
    assert env.spec.role("mouse").observation_space["agent"].n == 4
    assert isinstance(env.spec.role("cat").observation_space, spaces.Box)


def test_seats_observe_their_team():
    """The cat is team 0, all mice are team 1."""
    roles = start(indicate_agents(Still(), by="team", roles=["mouse", "cat"])).roles
    assert [roles[name].observation["agent"][0].tolist() for name in ("cat", "mouse")] == [[0], [1, 1, 1, 1]]


def test_a_playable_environment_stays_playable():
    """Actions are named, typed and drawn as before."""
    env = indicate_agents(PlayableStill())
    start(env)
    assert isinstance(env, Playable)
    assert not isinstance(indicate_agents(Still()), Playable)
    assert env.render(1) == "match 1"
    assert env.action_name("cat", env.parse_action("cat", "1")) == "cat 1"


def test_unknown_roles_are_one_line():
    """The error lists the roles."""
    with pytest.raises(ContractError, match="has no role 'dog'; it has cat, mouse"):
        start(indicate_agents(Still(), roles=["dog"]))


def test_a_leaf_of_the_same_name_is_refused():
    """The option leaf names another."""
    with pytest.raises(ContractError, match="role 'mouse' already observes 'obs'; set leaf"):
        start(indicate_agents(Still(), leaf="obs"))


def test_single_seats_need_no_number():
    """No role has several seats."""
    with pytest.raises(ContractError, match=r"no role of .* has several seats"):
        start(indicate_agents(Still(mice=1)))
