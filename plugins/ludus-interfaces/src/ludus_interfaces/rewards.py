"""Transforms of rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from attrs import define
from ludus.errors import ContractError
from ludus.interface import Identity, SeatView

WHOLE_REWARD = "reward"  # the part that stands for a reward without parts


@define
class ScaleReward(Identity):
    """Multiplies rewards, and clips them where `clip` is not 0.

    Args:
        factor: Multiplies every reward.
        clip: Scaled rewards end in [-clip, clip]; 0 for no clipping.
    """

    factor: float = 1.0
    clip: float = attrs.field(default=0.0, kw_only=True)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view with scaled rewards."""
        reward = view.reward * np.float32(self.factor)
        if self.clip:
            reward = np.clip(reward, -np.float32(self.clip), np.float32(self.clip))
        return attrs.evolve(view, reward=reward)


class RewardParts(Identity):
    """Puts the reward together anew from the named parts that the environment gives [AET Appendix C].

    What a part earned is multiplied by its weight. A *guidance* part shows the way at the start of training and then
    leaves: its weight falls linearly to 0 while `fade[part]` of the training budget is used. A part in `once` counts
    only the first time that it is not 0 in a match.

    Whatever the reward was is replaced by the sum of its parts, so what scales rewards belongs on top of this.

    Args:
        weights: Of the parts; those not named keep what they earned.
        fade: Share of the training budget, in (0, 1], at whose end the part counts no more.
        once: Parts that count once per match and seat.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        fade: Mapping[str, float] | None = None,
        once: Sequence[str] = (),
    ) -> None:
        self._weights = dict(weights)
        self._fade = dict(fade or {})
        self._once = tuple(once)
        self._progress = 0.0
        self._had = {part: np.zeros(0, bool) for part in self._once}  # by stream

    def reset(self, seat_ids: np.ndarray) -> None:
        """Let what counts once count again."""
        for part in self._once:
            self._grown(part, seat_ids)[seat_ids] = False

    def set_progress(self, progress: float) -> None:
        """Hear how much of the training budget is used."""
        self._progress = progress

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        """Return the view with the reward made of its parts.

        Raises:
            ContractError: The environment gives no part of a name that the options know, or a reward without parts.
        """
        parts = view.reward_parts
        unknown = [name for name in (*self._weights, *self._fade, *self._once) if name not in parts]
        if unknown and (parts or view.reward.any()):
            raise ContractError(
                f"reward-parts: the environment gives no reward part {unknown[0]!r}; it gives "
                f"{', '.join(parts) or 'none'}"
            )
        if not parts:  # nothing has been received yet, or whoever decides sees no rewards
            return view
        made = {name: self._part(name, values, seat_ids) for name, values in parts.items()}
        reward = np.asarray(np.sum(list(made.values()), axis=0), np.float32)
        return attrs.evolve(view, reward=reward, reward_parts=made)

    def _part(self, name: str, values: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        weight = self._weights.get(name, 1.0)
        if name in self._fade:
            weight *= max(0.0, 1.0 - self._progress / self._fade[name])
        if name in self._once:
            had = self._grown(name, seat_ids)
            values = np.where(had[seat_ids], 0, values)
            had[seat_ids] |= values != 0
        return np.asarray(values * np.float32(weight), np.float32)

    def _grown(self, part: str, seat_ids: np.ndarray) -> np.ndarray:
        had = self._had[part]
        missing = int(seat_ids.max(initial=-1)) + 1 - had.size
        if missing > 0:
            had = self._had[part] = np.concatenate([had, np.zeros(missing, bool)])
        return had
