"""Transforms of rewards."""

from __future__ import annotations

import attrs
import numpy as np
from attrs import define
from ludus.interface import Identity, View


@define
class ScaleReward(Identity):
    """Multiplies rewards, and clips them where `clip` is not 0.

    Args:
        factor: Multiplies every reward.
        clip: Scaled rewards end in [-clip, clip]; 0 for no clipping.
    """

    factor: float = 1.0
    clip: float = attrs.field(default=0.0, kw_only=True)

    def observe(self, view: View, streams: np.ndarray) -> View:  # noqa: ARG002
        """Return the view with scaled rewards."""
        reward = view.reward * np.float32(self.factor)
        if self.clip:
            reward = np.clip(reward, -np.float32(self.clip), np.float32(self.clip))
        return attrs.evolve(view, reward=reward)
