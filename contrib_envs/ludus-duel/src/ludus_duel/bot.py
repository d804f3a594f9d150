"""A scripted fighter with a reaction time and random errors, and a random agent."""

from __future__ import annotations

import numpy as np
from attrs import define
from ludus.environment import EnvironmentSpec, Leaves

from ludus_duel.config import BotConfig, RandomConfig
from ludus_duel.tactics import EVADE, Situation, Skill, Tactics, kind_mask, read_observation


class RandomAgent:
    """Waits with a given probability, and else draws uniformly among the other legal actions.

    Args:
        config: Options of the agent.
        spec: Spec of the environment.
        role: Role that the agent plays.
    """

    def __init__(self, config: RandomConfig, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - one game, one role
        self._idle = config.idle

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - the agent ignores observations
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        assert action_mask is not None, "the duel always has masks"
        keys = rng.random(action_mask.shape, dtype=np.float32) * action_mask
        keys[:, 0] = 1.0 * (rng.random(len(seat_ids)) < self._idle)
        return np.expand_dims(keys.argmax(axis=1), 1)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""


_HEAVY, _FEINTS = kind_mask("heavy", "lunge"), kind_mask("feint", "feint-light")

_SKILLS = {
    "weak": Skill(
        delay_s=0.3,
        plans=(0.12, 0.68, 0.1, 0.05, 0.05),
        learn=0.0,
        punish=0.45,
        counter=0.4,
        attack=0.2,
        feint=0.02,
        follow=0.2,
        read=0.5,
        wander=0.05,
    ),
    "strong": Skill(
        delay_s=0.1,
        plans=(0.03, 0.25, 0.47, 0.15, 0.1),
        learn=0.3,
        punish=0.8,
        counter=0.7,
        attack=0.3,
        feint=0.1,
        follow=0.5,
        read=0.8,
        wander=0.1,
    ),
}


@define
class _Memory:
    """State per seat id.

    Attributes:
        kind: ``int64``: kind of the opponent's animation when the seat last acted; likewise `side` and `elapsed`.
        side: ``int64``.
        elapsed: ``float64`` in seconds.
        plan: ``int64``: plan against that animation.
        feint_rate: ``float64``: estimated probability that a heavy attack of the opponent is a feint.
    """

    kind: np.ndarray
    side: np.ndarray
    elapsed: np.ndarray
    plan: np.ndarray
    feint_rate: np.ndarray

    def grow(self, seat_ids: np.ndarray) -> None:
        """Extend the arrays to hold ``seat_ids [n] int64``."""
        missing = int(seat_ids.max(initial=-1)) + 1 - len(self.kind)
        if missing > 0:
            self.kind, self.side, self.elapsed, self.plan, self.feint_rate = (
                np.append(array, np.zeros(missing, array.dtype))
                for array in (self.kind, self.side, self.elapsed, self.plan, self.feint_rate)
            )


class DuelBot:
    """Defends against attacks it notices, punishes openings and varies its attacks.

    Args:
        config: Options of the agent.
        spec: Spec of the environment.
        role: Role that the agent plays.
    """

    def __init__(self, config: BotConfig, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - one game, one role
        self._skill = _SKILLS[config.strength]
        none = np.zeros(0, np.int64)
        self._memory = _Memory(kind=none, side=none, elapsed=np.zeros(0), plan=none, feint_rate=np.zeros(0))

    def act(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        assert action_mask is not None, "the duel always has masks"
        situation = read_observation(observation["obs"])
        tactics = Tactics(self._skill, situation, rng)
        plan = self._plan(situation, seat_ids, rng)
        chosen = tactics.neutral()
        answers = (
            tactics.punish(),
            tactics.expect(plan),
            tactics.defend(plan),
            tactics.feint(),
            tactics.follow(),
            tactics.grip(),
            tactics.counter(),
        )
        for answer in answers:  # later answers take precedence
            chosen = np.where(answer.applies, answer.action, chosen)
        chosen = chosen[:, None]
        return np.where(np.take_along_axis(action_mask, chosen, axis=1), chosen, 0)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the state of these seats."""
        self._memory.grow(seat_ids)
        self._memory.kind[seat_ids] = 0
        self._memory.feint_rate[seat_ids] = 0.0

    def _plan(self, situation: Situation, seat_ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return ``[n] int64``: the plan against the opponent's animation, drawn once per animation."""
        memory = self._memory
        memory.grow(seat_ids)
        same = (memory.kind[seat_ids] == situation.kind) & (memory.side[seat_ids] == situation.side)
        fresh = ~same | (situation.elapsed < memory.elapsed[seat_ids])
        limits = np.cumsum(self._skill.plans)[:-1]
        drawn = np.searchsorted(limits, rng.random(len(seat_ids)), side="right")
        feint_rate = self._update_feint_rate(situation, seat_ids, fresh)
        drawn = np.where(_HEAVY[situation.kind] & (rng.random(len(seat_ids)) < feint_rate), EVADE, drawn)
        plan = np.where(fresh, drawn, memory.plan[seat_ids])
        memory.kind[seat_ids], memory.side[seat_ids] = situation.kind, situation.side
        memory.elapsed[seat_ids] = situation.elapsed
        memory.plan[seat_ids] = plan
        return plan

    def _update_feint_rate(self, situation: Situation, seat_ids: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        """Update and return ``[n] float64``: the estimated probability that a heavy attack is a feint."""
        feinted = fresh & _FEINTS[situation.kind]
        late = (situation.landing > 0) | (fresh & situation.recovering)
        landed = _HEAVY[situation.kind] & ~situation.feintable & late
        rate: np.ndarray = self._memory.feint_rate[seat_ids]
        rate += self._skill.learn * (feinted * (1.0 - rate) - landed * rate)
        self._memory.feint_rate[seat_ids] = rate
        return rate
