"""``corridor``: one long way to the only reward worth having, and a small one beside the start."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves, Role, RoleTick
from ludus.random import random_bits, random_integers

from ludus_probes.batch import ROLE, ProbeEnvironment, Rows
from ludus_probes.config import CorridorConfig
from ludus_probes.reflex import ReflexAgent
from ludus_probes.terminal import highlight

__all__ = ["make_corridor", "make_corridor_agent", "right_actions"]


def right_actions(length: int) -> np.ndarray:
    """Return ``[length] int64``: the action that leads on from each cell, the same in every match."""
    return random_integers(random_bits(np.arange(length, dtype=np.uint64), 0), 2)


def make_corridor(config: CorridorConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches."""
    return ProbeEnvironment(_Corridor(config), num_matches=num_matches)


def make_corridor_agent(config: None, *, spec: EnvironmentSpec, role: str) -> ReflexAgent:  # noqa: ARG001 - no options
    """Return an agent that knows the way."""
    (places,) = spec.role(role).observation_space.shape or ()
    way = right_actions(places - 2)

    def decide(observation: Leaves) -> np.ndarray:
        place = np.minimum(observation["obs"].argmax(axis=1), len(way) - 1)
        return np.asarray(way[place][:, None])

    return ReflexAgent(decide, value=1.0)


class _Corridor:
    """In every cell one of two actions leads on, the other back to the start; in the start it leads out of the door.

    The places are the cells, the end behind them (reward 1) and what is outside the door (reward `distraction`); both
    end the match. The observation is the place, one-hot times √places: its mean square is 1, so that a network that has
    never seen a place says something new about it.
    """

    def __init__(self, config: CorridorConfig) -> None:
        self._length, self._distraction = config.length, config.distraction
        self._end, self._outside = config.length, config.length + 1
        places = config.length + 2
        player = Role(
            name=ROLE,
            observation_space=spaces.Box(0.0, float(np.float32(np.sqrt(places))), (places,), np.float32),
            action_space=spaces.Discrete(2),
            teams=(0,),
        )
        self.spec = EnvironmentSpec(
            name="corridor",
            roles=(player,),
            turn="simultaneous",
            max_ticks=config.max_ticks or 4 * config.length,
            perfect_information=True,
            reward_range=(0.0, 1.0),
        )
        self.words = (("a", "b"),)
        self._shown = np.eye(places, dtype=np.float32) * np.float32(np.sqrt(places))
        self._way = right_actions(config.length)

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Put everybody to the start."""
        self._obs, self._reward = player.observation["obs"][:, 0], player.reward[:, 0]
        self._outcome = outcome[:, 0]
        self._place = np.zeros(len(outcome), np.int64)

    def start(self, at: Rows, seeds: np.ndarray) -> None:  # noqa: ARG002 - nothing is drawn by lot
        """Put the rows to the start."""
        self._place[at] = 0
        self._obs[at] = self._shown[0]

    def advance(self, at: Rows, actions: np.ndarray) -> np.ndarray:
        """Walk on, back to the start, or out."""
        before = self._place[at]
        fallen = np.where(before == 0, self._outside, 0)
        place = np.where(actions[:, 0, 0] == self._way[before], before + 1, fallen)
        arrived, left = place == self._end, place == self._outside
        self._place[at] = place
        self._obs[at] = self._shown[place]
        self._reward[at] = arrived + left * self._distraction
        self._outcome[at] = arrived
        return np.asarray(arrived | left)

    def draw(self, match: int) -> str:
        """Return the corridor with an @ where the seat is; the door is on the left, the end on the right."""
        place = int(self._place[match])
        marks = ["."] * self._length + ["$", "|"]
        marks[place] = highlight("@")
        return " ".join([marks[-1], *marks[:-1]])
