"""Scripted agents: a cat or a mouse of three strengths, and one that acts at random."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves

from ludus_chase.bot_cat import decide_cat
from ludus_chase.bot_mind import SKILLS, Choice, Doors, Sight, Skill
from ludus_chase.bot_mouse import decide_mouse
from ludus_chase.config import BotConfig

__all__ = ["ChaseBot", "RandomAgent", "make_bot", "make_random"]

_ACTIONS = 18
_Decide = Callable[[Sight, Choice, Skill], None]


def make_bot(config: BotConfig, *, spec: EnvironmentSpec, role: str) -> ChaseBot:
    """Return the scripted cat or mouse."""
    walls = spec.role(role).observation_space["doors"].shape[0]  # type: ignore[index]
    return ChaseBot(SKILLS[config.strength], role, decide_cat if role == "cat" else decide_mouse, walls=walls)


def make_random(config: None, *, spec: EnvironmentSpec, role: str) -> RandomAgent:  # noqa: ARG001 - one for all
    """Return the agent that acts at random."""
    return RandomAgent()


class ChaseBot:
    """Decides by rules; errs as often as its skill says by doing anything legal instead.

    Args:
        skill: How well it plays.
        role: ``"cat"`` or ``"mouse"``.
        decide: The rules of that role.
        walls: How many doors a house may have.
    """

    def __init__(self, skill: Skill, role: str, decide: _Decide, *, walls: int) -> None:
        self._skill, self._role, self._decide = skill, role, decide
        self._doors = Doors(walls)

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        assert action_mask is not None, "the chase always has masks"
        sight = Sight(observation, self._role)
        choice = Choice(action_mask[:, :_ACTIONS])
        choice.walk(np.ones(len(seat_ids), bool), *self._doors.least_used(sight, seat_ids))
        self._decide(sight, choice, self._skill)
        chosen = np.stack([choice.action, choice.direction], axis=1)
        errs = rng.random(len(seat_ids)) < self._skill.error
        return np.where(errs[:, None], _any_legal(action_mask, rng), chosen)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Forget which doors were used in these streams."""
        self._doors.forget(seat_ids)


class RandomAgent:
    """Takes any legal action and direction, each with the same chance."""

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - it does not look
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,  # noqa: ARG002 - it remembers nothing
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        assert action_mask is not None, "the chase always has masks"
        return _any_legal(action_mask, rng)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing: it remembers nothing."""


def _any_legal(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return ``[n, 2] int64``: legal actions and directions for ``mask [n, 34]``."""
    keys = rng.random(mask.shape, dtype=np.float32) * mask
    return np.stack([keys[:, :_ACTIONS].argmax(axis=1), keys[:, _ACTIONS:].argmax(axis=1)], axis=1)
