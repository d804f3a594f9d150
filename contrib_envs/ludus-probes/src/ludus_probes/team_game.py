"""``team-game``: a reward shared by a team, blurred by luck that only a critic of the global state observes."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces
from ludus.environment import EnvironmentSpec, Leaves, RoleTick
from ludus.random import random_bits, random_floats, random_integers

from ludus_probes.config import TeamGameConfig
from ludus_probes.environment import Indices, ProbeEnvironment, StatelessAgent, highlight, probe_spec


def make_team_game(config: TeamGameConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches."""
    return ProbeEnvironment(_TeamGame(config), num_matches=num_matches)


def make_team_game_agent(config: None, *, spec: EnvironmentSpec, role: str) -> StatelessAgent:  # noqa: ARG001 - no options
    """Return a perfect agent; its value is that of a match between such agents."""

    def decide(observation: Leaves) -> np.ndarray:
        return np.asarray(observation["obs"].argmax(axis=1)[:, None])

    return StatelessAgent(decide, value=1.0 if spec.num_teams == 1 else 0.0)


def _spec(config: TeamGameConfig) -> EnvironmentSpec:
    seats = config.teams * config.members
    hidden: dict[str, Space[Any]] = {
        "signs": spaces.Box(0.0, 1.0, (seats, config.choices), np.float32),
        "offset": spaces.Box(-config.offset, config.offset, (1,), np.float32),
    }
    lowest = 0.0 if config.teams == 1 else -1.0
    return probe_spec(
        "team-game",
        observation_space=spaces.Box(0.0, 1.0, (config.choices,), np.float32),
        action_space=spaces.Discrete(config.choices),
        teams=tuple(team for team in range(config.teams) for _ in range(config.members)),
        privileged_space=spaces.Dict(hidden),
        max_ticks=1,
        zero_sum=config.teams == 2,
        constant_sum=config.teams == 2,
        reward_range=(lowest - config.offset, 1.0 + config.offset),
    )


class _TeamGame:
    """One decision: every seat answers a sign of its own; the share of right answers of a team is its score.

    The reward of each seat is the score (with two teams, the lead over the other) plus the offset of the match, which
    has the opposite sign for the second team. Critics observe all signs, those of the own team first, and the offset
    with its sign. A single team wins if every answer is right; of two, the higher score wins.
    """

    def __init__(self, config: TeamGameConfig) -> None:
        self.spec = _spec(config)
        self._teams, self._members, self._choices = config.teams, config.members, config.choices
        self._width = config.offset
        self.choice_names = ([str(choice) for choice in range(config.choices)],)
        self._one_hot = np.eye(config.choices, dtype=np.float32)

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Store the arrays, and allocate signs and offsets."""
        seats = self._teams * self._members
        self._obs, self._reward, self._outcome = player.observation["obs"], player.reward, outcome
        self._hidden_signs, self._hidden_offset = player.privileged["signs"], player.privileged["offset"]
        self._signs = np.zeros((len(outcome), seats), np.int64)
        self._offset = np.zeros(len(outcome))

    def start(self, at: Indices, seeds: np.ndarray) -> None:
        """Draw signs and offset."""
        seats, first = self._teams * self._members, slice(0, self._members)
        numbers = random_bits(seeds[:, None], np.arange(seats + 1))
        signs = random_integers(numbers[:, :seats], self._choices)
        offset = ((2.0 * random_floats(numbers[:, seats]) - 1.0) * self._width).astype(np.float32)
        shown = self._one_hot[signs]  # [n, S, choices]
        self._signs[at] = signs
        self._offset[at] = offset
        self._obs[at] = shown
        self._hidden_signs[at, first] = shown[:, None]
        self._hidden_offset[at, first, 0] = offset[:, None]
        if self._teams == 2:
            self._hidden_signs[at, self._members :] = np.roll(shown, -self._members, axis=1)[:, None]
            self._hidden_offset[at, self._members :, 0] = -offset[:, None]

    def advance(self, at: Indices, actions: np.ndarray) -> np.ndarray:
        """Write rewards and outcomes."""
        right = actions[:, :, 0] == self._signs[at]
        counts = right.reshape(len(right), self._teams, self._members).sum(axis=2)  # [n, teams]
        offset = self._offset[at]
        if self._teams == 1:
            self._reward[at] = (counts[:, 0] / self._members + offset)[:, None]
            self._outcome[at, 0] = counts[:, 0] == self._members
        else:
            lead = counts[:, 0] - counts[:, 1]
            paid = (lead / self._members + offset)[:, None]
            self._reward[at, : self._members] = paid
            self._reward[at, self._members :] = -paid
            self._outcome[at, 0] = 0.5 + 0.5 * np.sign(lead)
            self._outcome[at, 1] = 0.5 - 0.5 * np.sign(lead)
        return np.ones(len(right), bool)

    def render_match(self, match: int) -> str:
        """Return all signs and the offset as text."""
        signs = self._signs[match].reshape(self._teams, self._members)
        shown = " against ".join(highlight(" ".join(str(sign) for sign in team)) for team in signs)
        return f"signs {shown}, offset {self._offset[match]:+.2f}"
