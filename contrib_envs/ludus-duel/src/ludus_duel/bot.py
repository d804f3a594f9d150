"""A scripted fighter with a reaction time and random errors, and a random agent."""

from __future__ import annotations

import numpy as np
from ludus.agent import grow_states
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


#: State of a seat: kind, side and elapsed seconds of the opponent's animation when the seat last acted, the plan
#: against it, and the estimated probability that a heavy attack of the opponent is a feint.
_STATE = [
    ("kind", np.int64),
    ("side", np.int64),
    ("elapsed", np.float64),
    ("plan", np.int64),
    ("feint_rate", np.float64),
]


class DuelBot:
    """Defends against attacks it notices, punishes openings and varies its attacks.

    Args:
        config: Options of the agent.
        spec: Spec of the environment.
        role: Role that the agent plays.
    """

    def __init__(self, config: BotConfig, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - one game, one role
        self._skill = _SKILLS[config.strength]
        self._states = np.zeros(0, _STATE)

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
        self._states = grow_states(self._states, seat_ids)
        self._states[seat_ids] = 0

    def _plan(self, situation: Situation, seat_ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return ``[n] int64``: the plan against the opponent's animation, drawn once per animation."""
        self._states = grow_states(self._states, seat_ids)
        states = self._states[seat_ids]  # a copy
        same = (states["kind"] == situation.kind) & (states["side"] == situation.side)
        fresh = ~same | (situation.elapsed < states["elapsed"])
        limits = np.cumsum(self._skill.plans)[:-1]
        drawn = np.searchsorted(limits, rng.random(len(seat_ids)), side="right")
        feint_rate = self._update_feint_rate(situation, states, fresh)
        drawn = np.where(_HEAVY[situation.kind] & (rng.random(len(seat_ids)) < feint_rate), EVADE, drawn)
        plan = np.where(fresh, drawn, states["plan"])
        states["kind"], states["side"], states["elapsed"] = situation.kind, situation.side, situation.elapsed
        states["plan"] = plan
        self._states[seat_ids] = states
        return plan

    def _update_feint_rate(self, situation: Situation, states: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        """Update and return ``[n] float64``: the estimated probability that a heavy attack is a feint."""
        feinted = fresh & _FEINTS[situation.kind]
        late = (situation.landing > 0) | (fresh & situation.recovering)
        landed = _HEAVY[situation.kind] & ~situation.feintable & late
        rate: np.ndarray = states["feint_rate"]
        rate += self._skill.learn * (feinted * (1.0 - rate) - landed * rate)
        return rate
