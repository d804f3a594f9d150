"""From rewards and values to what is learned: advantages and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from attrs import frozen
from ludus.segment import SegmentBatch
from torch import Tensor

from ludus_ppo.losses import gae, vtrace
from ludus_ppo.transfer import borrow

__all__ = ["Present", "RewardStream", "estimate"]


@frozen(kw_only=True)
class RewardStream:
    """One kind of reward and the value head that predicts its discounted sum.

    Args:
        head: The value head, and the field in which its values were recorded.
        gamma: Discount per decision or tick.
        weight: Of its advantages in those of the policy.
        value_weight: Of the loss of its value head beside those of the others.
        ends: Whether returns end with the match; else they go on through the next one of the same seat. Where a segment
            ends with its match, the next one is taken to be worth what the last decision was.
        reward: Makes the rewards ``[T+1, N] float32`` of a batch.
    """

    head: str = "value"
    gamma: float
    weight: float = 1.0
    value_weight: float = 1.0
    ends: bool = True
    reward: Callable[[SegmentBatch], np.ndarray] = lambda batch: batch.reward


@frozen(kw_only=True)
class Present:
    """What today's weights say of a batch, for V-trace.

    Args:
        log_ratio: ``[T+1, N] float32``: today's log-probability of every action less that when it was decided.
        values: ``[T+1, N] float32`` by value head.
        rho_clip: Largest weight of a temporal difference.
        c_clip: Largest weight of what follows it.
    """

    log_ratio: Tensor
    values: Mapping[str, Tensor]
    rho_clip: float = 1.0
    c_clip: float = 1.0


def estimate(
    batch: SegmentBatch,
    stream: RewardStream,
    *,
    trainable: np.ndarray,
    gae_lambda: float,
    per_tick: bool,
    present: Present | None = None,
) -> tuple[Tensor, Tensor]:
    """Return advantages and returns of one stream, both ``[T+1, N] float32``.

    Args:
        batch: With the values that were recorded in `extras`.
        stream: What to estimate.
        trainable: ``[T+1, N] bool``.
        gae_lambda: λ.
        per_tick: Whether `RewardStream.gamma` counts elapsed ticks instead of decisions.
        present: V-trace with today's values; None: generalised advantage estimates with those recorded.
    """
    elapsed = borrow(batch.elapsed_ticks).float()
    gamma = torch.tensor(stream.gamma)
    discount = gamma**elapsed if per_tick else gamma.expand_as(elapsed)
    terminated = borrow(batch.terminated if stream.ends else batch.terminated & ~_followed(batch))
    reward = borrow(stream.reward(batch))
    value = borrow(batch.extras[stream.head]) if present is None else present.values[stream.head]
    if not stream.ends:
        reward = torch.where(terminated, reward + discount * value, reward)
    common = {
        "terminated": terminated,
        "trainable": torch.from_numpy(trainable),
        "discount": discount,
        "gae_lambda": gae_lambda,
    }
    if present is None:
        advantage = gae(reward, value, **common)  # type: ignore[arg-type]
        return advantage, advantage + value
    return vtrace(
        reward,
        value,
        log_ratio=present.log_ratio,
        rho_clip=present.rho_clip,
        c_clip=present.c_clip,
        **common,  # type: ignore[arg-type]
    )


def _followed(batch: SegmentBatch) -> np.ndarray:
    """Return ``[T+1, N] bool``: entries after which the segment has another one."""
    entries = np.arange(batch.decided.shape[0])[:, None]
    return entries + 1 < batch.length
