"""The trainer of MAPPO: the objective of a team is the mean over its seats."""

from __future__ import annotations

import attrs
import numpy as np
import torch
from ludus.group import Group
from ludus.segment import Field, SegmentBatch
from ludus_ppo.advantages import Targets
from ludus_ppo.trainer import PPOTrainer

#: Field that samplers fill with the number of the seat.
SEAT = Field("seat", dtype="int32", source="seat")


class MAPPOTrainer(PPOTrainer):
    """Learns from L_p = Σ_k L_p^k / n, where L_p^k is the mean over the decisions of seat k [DIS §3.2.1].

    Attributes:
        num_seats: Number of seats of the role.
    """

    num_seats: int

    def _estimate_targets(self, batch: SegmentBatch, trainable: np.ndarray) -> Targets:
        """Return targets whose advantages are weighted by seat.

        The clipped objective is homogeneous in the advantage: a weighted advantage gives a weighted objective.
        """
        targets = super()._estimate_targets(batch, trainable)
        if SEAT.name not in batch.extras:
            return targets
        weight = seat_weights(batch.extras[SEAT.name], trainable, num_seats=self.num_seats, group=self._group)
        return attrs.evolve(targets, advantage=targets.advantage * torch.from_numpy(weight))


def seat_weights(seat: np.ndarray, trainable: np.ndarray, *, num_seats: int, group: Group) -> np.ndarray:
    """Return weights of decisions by which the mean over decisions is the mean over seats.

    The weight of a decision of seat k is N / (n N_k), where N_k are the decisions of that seat, N all decisions and n
    the seats with a decision.

    Args:
        seat: Number of the seat, ``[T+1, N] int``; undefined where not trainable.
        trainable: ``[T+1, N] bool``.
        num_seats: Number of seats.
        group: Process group, whose processes hold parts of the batch.

    Returns:
        ``[T+1, N] float32``; 0 where not trainable.
    """
    counts = torch.from_numpy(np.bincount(seat[trainable], minlength=num_seats).astype(np.float64))
    group.mean([counts])
    total, present = counts.sum(), int((counts > 0).sum())
    by_seat = torch.where(counts > 0, total / (present * counts), 0.0).numpy()
    weights: np.ndarray = np.where(trainable, by_seat[np.where(trainable, seat, 0)], 0.0).astype(np.float32)
    return weights
