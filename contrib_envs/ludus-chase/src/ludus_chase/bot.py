"""Scripted cats and mice of three strengths, and a random agent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves

from ludus_chase.bot_cat import decide_cat
from ludus_chase.bot_mouse import decide_mouse
from ludus_chase.bot_policy import SKILLS, Choice, DoorMemory, Observations, Skill
from ludus_chase.config import BotConfig

__all__ = ["ChaseBot", "RandomAgent", "make_bot", "make_random"]

_ACTIONS = 18
_Decide = Callable[[Observations, Choice, Skill], None]


def make_bot(config: BotConfig, *, spec: EnvironmentSpec, role: str) -> ChaseBot:
    """Return a scripted cat or mouse."""
    walls = spec.role(role).observation_space["doors"].shape[0]  # type: ignore[index]
    return ChaseBot(SKILLS[config.strength], role, decide_cat if role == "cat" else decide_mouse, walls=walls)


def make_random(config: None, *, spec: EnvironmentSpec, role: str) -> RandomAgent:  # noqa: ARG001 - it has no options
    """Return a random agent."""
    return RandomAgent()


class ChaseBot:
    """Decides by rules, and with the probability `Skill.error` draws a legal action instead.

    Args:
        skill: Strength of the agent.
        role: ``"cat"`` or ``"mouse"``.
        decide: Rules of that role.
        walls: Number of inner walls of a house.
    """

    def __init__(self, skill: Skill, role: str, decide: _Decide, *, walls: int) -> None:
        self._skill, self._role, self._decide = skill, role, decide
        self._doors = DoorMemory(walls)

    def act(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        assert action_mask is not None, "the chase always has masks"
        observed = Observations(observation, self._role)
        choice = Choice(action_mask[:, :_ACTIONS])
        choice.walk(np.ones(len(seat_ids), bool), *self._doors.oldest_door_direction(observed, seat_ids))
        self._decide(observed, choice, self._skill)
        chosen = np.stack([choice.action, choice.direction], axis=1)
        errs = rng.random(len(seat_ids)) < self._skill.error
        return np.where(errs[:, None], _draw_legal(action_mask, rng), chosen)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the state of these seats."""
        self._doors.reset(seat_ids)


class RandomAgent:
    """Draws legal actions and directions uniformly."""

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - the agent ignores observations
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,  # noqa: ARG002 - it has no state
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        assert action_mask is not None, "the chase always has masks"
        return _draw_legal(action_mask, rng)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""


def _draw_legal(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw legal actions and directions, ``[n, 2] int64``, for ``mask [n, 34]``."""
    keys = rng.random(mask.shape, dtype=np.float32) * mask
    return np.stack([keys[:, :_ACTIONS].argmax(axis=1), keys[:, _ACTIONS:].argmax(axis=1)], axis=1)
