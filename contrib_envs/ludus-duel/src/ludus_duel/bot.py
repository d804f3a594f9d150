"""A scripted fighter that reacts late and errs, both by chance, and more so when it is weak."""

from __future__ import annotations

import numpy as np
from attrs import define
from ludus.environment import EnvironmentSpec, Leaves

from ludus_duel.config import BotConfig
from ludus_duel.sight import Sight, among, look
from ludus_duel.tactics import EVADE, Skill, Tactics

__all__ = ["DuelBot"]

_HEAVY, _FEINTS = among("heavy", "lunge"), among("feint", "feint-light")

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
    """What it remembers of each stream: the animation it faces, by kind, side and age, and its plan against that.

    Besides, how likely it is that a heavy attack is a feint, from what it has seen in this match.
    """

    kind: np.ndarray
    side: np.ndarray
    elapsed: np.ndarray
    plan: np.ndarray
    bluff: np.ndarray

    def grow(self, seat_ids: np.ndarray) -> None:
        """Make room for streams ``[n] int64``."""
        missing = int(seat_ids.max(initial=-1)) + 1 - len(self.kind)
        if missing > 0:
            self.kind, self.side, self.elapsed, self.plan, self.bluff = (
                np.append(array, np.zeros(missing, array.dtype))
                for array in (self.kind, self.side, self.elapsed, self.plan, self.bluff)
            )


class DuelBot:
    """Defends against the attacks it notices, punishes openings, and attacks in different ways.

    Args:
        config: Its strength.
        spec: The environment's.
        role: Whose seats it fills.
    """

    def __init__(self, config: BotConfig, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - one game, one role
        self._skill = _SKILLS[config.strength]
        none = np.zeros(0, np.int64)
        self._memory = _Memory(kind=none, side=none, elapsed=np.zeros(0), plan=none, bluff=np.zeros(0))

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        assert action_mask is not None, "the duel always has masks"
        sight = look(observation["obs"])
        tactics = Tactics(self._skill, sight, rng)
        plan = self._plan(sight, seat_ids, rng)
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
        for answer in answers:  # the later ones count for more
            chosen = np.where(answer.where, answer.action, chosen)
        chosen = chosen[:, None]
        return np.where(np.take_along_axis(action_mask, chosen, axis=1), chosen, 0)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Forget what was seen in these streams."""
        self._memory.grow(seat_ids)
        self._memory.kind[seat_ids] = 0
        self._memory.bluff[seat_ids] = 0.0

    def _plan(self, sight: Sight, seat_ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return ``[n] int64``: what to do about the opponent's animation, drawn once for each."""
        memory = self._memory
        memory.grow(seat_ids)
        same = (memory.kind[seat_ids] == sight.kind) & (memory.side[seat_ids] == sight.side)
        fresh = ~same | (sight.elapsed < memory.elapsed[seat_ids])
        limits = np.cumsum(self._skill.plans)[:-1]
        drawn = np.searchsorted(limits, rng.random(len(seat_ids)), side="right")
        bluff = self._expect(sight, seat_ids, fresh)
        drawn = np.where(_HEAVY[sight.kind] & (rng.random(len(seat_ids)) < bluff), EVADE, drawn)
        plan = np.where(fresh, drawn, memory.plan[seat_ids])
        memory.kind[seat_ids], memory.side[seat_ids], memory.elapsed[seat_ids] = sight.kind, sight.side, sight.elapsed
        memory.plan[seat_ids] = plan
        return plan

    def _expect(self, sight: Sight, seat_ids: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        """Return ``[n] float64``: how likely a heavy attack is a feint, after what is seen now."""
        feinted = fresh & _FEINTS[sight.kind]
        meant = _HEAVY[sight.kind] & ~sight.feintable & ((sight.landing > 0) | (fresh & sight.recovering))
        bluff: np.ndarray = self._memory.bluff[seat_ids]
        bluff += self._skill.learn * (feinted * (1.0 - bluff) - meant * bluff)
        self._memory.bluff[seat_ids] = bluff
        return bluff
