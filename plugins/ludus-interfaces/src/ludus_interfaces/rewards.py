"""Transforms of rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from attrs import define
from ludus.errors import ContractError
from ludus.interface import Identity, SeatView

WHOLE_REWARD = "reward"  # name of the only part of a reward without parts


@define
class ScaleReward(Identity):
    """Multiplies rewards by a factor and clips them.

    Args:
        factor: Factor of all rewards.
        clip: Scaled rewards are clipped to [-clip, clip]; 0: no clipping.
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
    """Replaces the reward by the weighted sum of its named parts [AET Appendix C].

    The weight of a *guidance* part falls linearly to 0 during the share `fade[part]` of the training budget; parts that
    the role declares as guidance do so over the whole budget by default. A part in `once` counts only the first time
    that it is not 0 in a match.

    Interfaces that scale rewards belong after this one.

    Args:
        weights: Weights of parts; 1 for all others.
        fade: Shares of the training budget, in (0, 1], after which the weight of a part is 0.
        once: Parts that count once per match and seat.
    """

    def __init__(
        self, weights: Mapping[str, float], *, fade: Mapping[str, float] | None = None, once: Sequence[str] = ()
    ) -> None:
        self._weights = dict(weights)
        self._fade = dict(fade or {})
        self._once = tuple(once)
        self._progress = 0.0
        self._received = {part: np.zeros(0, bool) for part in self._once}  # by seat id

    @property
    def faded_parts(self) -> tuple[str, ...]:
        """Return the parts in `fade`, whose guidance does not fade by default."""
        return tuple(self._fade)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Let the parts in `once` count again."""
        for part in self._once:
            self._received_flags(part, seat_ids)[seat_ids] = False

    def set_progress(self, progress: float) -> None:
        """Set the share of the training budget that is used."""
        self._progress = progress

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        """Return the view with weighted parts and their sum.

        Raises:
            ContractError: The environment has no part that an option names.
        """
        parts = view.reward_parts
        unknown = [name for name in (*self._weights, *self._fade, *self._once) if name not in parts]
        if unknown and (parts or view.reward.any()):
            raise ContractError(
                f"reward-parts: the environment gives no reward part {unknown[0]!r}; it gives "
                f"{', '.join(parts) or 'none'}"
            )
        if not parts:  # before the first reward, and for frozen models
            return view
        weighted = {name: self._weighted(name, values, seat_ids) for name, values in parts.items()}
        reward = np.asarray(np.sum(list(weighted.values()), axis=0), np.float32)
        return attrs.evolve(view, reward=reward, reward_parts=weighted)

    def _weighted(self, name: str, values: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        weight = self._weights.get(name, 1.0)
        if name in self._fade:
            weight *= max(0.0, 1.0 - self._progress / self._fade[name])
        if name in self._once:
            received = self._received_flags(name, seat_ids)
            values = np.where(received[seat_ids], 0, values)
            received[seat_ids] |= values != 0
        return np.asarray(values * np.float32(weight), np.float32)

    def _received_flags(self, part: str, seat_ids: np.ndarray) -> np.ndarray:
        """Return the flags of a part by seat id, with room for these seats."""
        flags = self._received[part]
        missing = int(seat_ids.max(initial=-1)) + 1 - flags.size
        if missing > 0:
            flags = self._received[part] = np.concatenate([flags, np.zeros(missing, bool)])
        return flags
