"""``exits``: staying pays on every tick, leaving pays once and ends the seat. Solved where the dead expect nothing."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves, RoleTick

from ludus_probes.config import ExitsConfig
from ludus_probes.environment import Indices, ProbeEnvironment, StatelessAgent, highlight, probe_spec


def make_exits(config: ExitsConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches."""
    return ProbeEnvironment(_Exits(config), num_matches=num_matches)


def make_exits_agent(config: None, *, spec: EnvironmentSpec, role: str) -> StatelessAgent:  # noqa: ARG001 - no options
    """Return a perfect agent."""

    def decide(observation: Leaves) -> np.ndarray:
        return np.zeros((len(observation["obs"]), 1), np.int64)

    return StatelessAgent(decide, value=1.0)


class _Exits:
    """Staying is worth 1 / ticks on every tick; leaving is worth `prize` once, and the seat plays no more.

    A match is truncated after `ticks`, or ends when all seats have left. It is won if all seats stayed. The observation
    is constant, so that the end of a match cannot be foreseen.
    """

    def __init__(self, config: ExitsConfig) -> None:
        self._stay, self._prize, self._cut = 1 / config.ticks, config.prize, config.leaving == "truncated"
        self.spec = probe_spec(
            "exits",
            observation_space=spaces.Box(0.0, 1.0, (1,), np.float32),
            action_space=spaces.Discrete(2),
            teams=(0,) * config.seats,
            seat_endings=True,
            max_ticks=config.ticks,
            perfect_information=True,
            reward_range=(0.0, max(self._stay, config.prize)),
        )
        self.choice_names = (("stay", "leave"),)

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Store the arrays, and allocate the state."""
        ends = player.truncated if self._cut else player.terminated
        assert ends is not None
        self._obs, self._reward, self._ends = player.observation["obs"], player.reward, ends
        self._outcome = outcome[:, 0]
        self._stays = np.zeros(player.acting.shape, bool)

    def start(self, at: Indices, seeds: np.ndarray) -> None:  # noqa: ARG002 - nothing is random
        """Let all seats stay."""
        self._stays[at] = True
        self._obs[at] = 1.0

    def advance(self, at: Indices, actions: np.ndarray) -> np.ndarray:
        """Pay the seats that are in, and let some of them leave."""
        before = self._stays[at]
        leaves = before & (actions[:, :, 0] == 1)
        stays = before & ~leaves
        self._stays[at], self._ends[at] = stays, leaves
        self._reward[at] = stays * self._stay + leaves * self._prize
        self._outcome[at] = stays.all(axis=1)
        return np.asarray(~stays.any(axis=1))

    def render_match(self, match: int) -> str:
        """Return an @ for every seat that is in and a . for every other one."""
        return " ".join(highlight("@") if stays else "." for stays in self._stays[match])
