"""Games with all kinds of spaces are played and checked; each action arrives in its own space."""

from __future__ import annotations

import copy

import gymnasium
import numpy as np
import pytest
from ludus.errors import ContractError
from ludus.testing import check_environment
from ludus_copies.testing import ACTIONS, OBSERVATIONS, PAIRS
from ludus_gymnasium.config import GymnasiumConfig
from ludus_gymnasium.environment import make_environment


class Kinds(gymnasium.Env):
    """Shows samples of one space, and refuses actions outside of another."""

    def __init__(self, observation="nested", action="start", masked=False):
        self.observation_space = copy.deepcopy(OBSERVATIONS[observation])  # with a generator of its own
        self.action_space, self.masked = ACTIONS[action], masked

    def answer(self):
        return self.observation_space.sample(), {"action_mask": ([1, 0, 1], None)} if self.masked else {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.now = 0
        return self.answer()

    def step(self, action):
        assert self.action_space.contains(action), f"{action} is not in {self.action_space}"
        assert not self.masked or action[0] != 1
        self.now += 1
        observation, info = self.answer()
        return observation, 1.0, self.now == 3, False, info


gymnasium.register("LudusKinds-v0", Kinds)


@pytest.mark.parametrize(("observation", "action"), PAIRS)
def test_the_contract_is_kept(observation, action) -> None:
    """Ticks, seeds, matches and random actions pass all checks; illegal actions reach no game."""
    config = GymnasiumConfig(id="LudusKinds-v0", options={"observation": observation, "action": action})
    check_environment(lambda num_matches: make_environment(config, num_matches=num_matches), steps=20)


def test_masks_of_hybrid_actions() -> None:
    """They have an entry for each part; a masked choice is refused before the game steps."""
    config = GymnasiumConfig(id="LudusKinds-v0", options={"action": "hybrid", "masked": True})
    env = make_environment(config, num_matches=1)
    tick = env.reset(np.zeros(1, np.uint64))
    assert tick.roles["player"].action_mask.tolist() == [[[True, False, True]]]
    for wrong in ([1, 0, 0], [0.5, 0, 0], [3, 0, 0], [np.nan, 0, 0]):
        with pytest.raises(ContractError, match=r"illegal action .* of role 'player', match 0, seat 0"):
            env.step({"player": np.array([[wrong]], np.float32)})
    env.step({"player": np.array([[[2, 0.5, 0.5]]], np.float32)})
