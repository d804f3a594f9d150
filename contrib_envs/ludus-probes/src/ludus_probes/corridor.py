"""``corridor``: a long way to a large reward, and a small reward beside the start. Solved by exploration."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves, RoleTick
from ludus.random import random_bits, random_integers

from ludus_probes.config import CorridorConfig
from ludus_probes.environment import Indices, ProbeEnvironment, StatelessAgent, highlight, probe_spec


def right_actions(length: int) -> np.ndarray:
    """Return ``[length] int64``: the action that leads forward from each cell, the same in every match."""
    return random_integers(random_bits(np.arange(length, dtype=np.uint64), 0), 2)


def make_corridor(config: CorridorConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches."""
    return ProbeEnvironment(_Corridor(config), num_matches=num_matches)


def make_corridor_agent(config: None, *, spec: EnvironmentSpec, role: str) -> StatelessAgent:  # noqa: ARG001 - no options
    """Return a perfect agent."""
    (places,) = spec.role(role).observation_space.shape or ()
    way = right_actions(places - 2)

    def decide(observation: Leaves) -> np.ndarray:
        place = np.minimum(observation["obs"].argmax(axis=1), len(way) - 1)
        return np.asarray(way[place][:, None])

    return StatelessAgent(decide, value=1.0)


class _Corridor:
    """In every cell one of two actions leads forward, the other back to the start, and from the start out of the door.

    Places are the cells, the end (reward 1) and the outside of the door (reward `distraction`); the last two end the
    match. The observation is the one-hot place times √places, whose mean square is 1, so that the output of a network
    for an unvisited place differs.
    """

    def __init__(self, config: CorridorConfig) -> None:
        self._length, self._distraction = config.length, config.distraction
        self._end, self._outside = config.length, config.length + 1
        places = config.length + 2
        self.spec = probe_spec(
            "corridor",
            observation_space=spaces.Box(0.0, float(np.float32(np.sqrt(places))), (places,), np.float32),
            action_space=spaces.Discrete(2),
            max_ticks=config.max_ticks or 4 * config.length,
            perfect_information=True,
            reward_range=(0.0, 1.0),
        )
        self.choice_names = (("a", "b"),)
        self._shown = np.eye(places, dtype=np.float32) * np.float32(np.sqrt(places))
        self._way = right_actions(config.length)

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Store the arrays, and allocate the state."""
        self._obs, self._reward = player.observation["obs"][:, 0], player.reward[:, 0]
        self._outcome = outcome[:, 0]
        self._place = np.zeros(len(outcome), np.int64)

    def start(self, at: Indices, seeds: np.ndarray) -> None:  # noqa: ARG002 - nothing is random
        """Move to the start."""
        self._place[at] = 0
        self._obs[at] = self._shown[0]

    def advance(self, at: Indices, actions: np.ndarray) -> np.ndarray:
        """Move forward, back to the start, or out."""
        before = self._place[at]
        fallen = np.where(before == 0, self._outside, 0)
        place = np.where(actions[:, 0, 0] == self._way[before], before + 1, fallen)
        arrived, left = place == self._end, place == self._outside
        self._place[at] = place
        self._obs[at] = self._shown[place]
        self._reward[at] = arrived + left * self._distraction
        self._outcome[at] = arrived
        return np.asarray(arrived | left)

    def render_match(self, match: int) -> str:
        """Return the corridor with an @ where the seat is; the door is on the left, the end on the right."""
        place = int(self._place[match])
        marks = ["."] * self._length + ["$", "|"]
        marks[place] = highlight("@")
        return " ".join([marks[-1], *marks[:-1]])
