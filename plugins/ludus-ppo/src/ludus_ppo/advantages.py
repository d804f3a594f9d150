"""Advantages and returns of a batch, summed over its reward signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from attrs import frozen
from ludus.group import Group
from ludus.network import to_tensor
from ludus.segment import SegmentBatch
from torch import Tensor

from ludus_ppo.estimators import gae, vtrace
from ludus_ppo.group_moments import group_moments


@frozen(kw_only=True)
class RewardSignal:
    """One reward that PPO learns from, and the value head that predicts its discounted sum.

    Attributes:
        head: Value head, and the recorded field with its values.
        gamma: Discount per decision or tick.
        weight: Weight of its advantages in the advantage of the policy.
        value_weight: Weight of its value loss.
        ends_with_match: Whether returns end with the match. Otherwise they continue in the next match of the seat.
            Where a segment ends with its match, the next match has the value of the last decision.
        metric_prefix: Prefix of the names of its metrics.
        reward: Returns the rewards ``[T+1, N] float32`` of a batch; called once per update by every process of the
            group.
    """

    head: str = "value"
    gamma: float
    weight: float = 1.0
    value_weight: float = 1.0
    ends_with_match: bool = True
    metric_prefix: str = ""
    reward: Callable[[SegmentBatch, Group], np.ndarray] = lambda batch, _: batch.reward


@frozen(kw_only=True)
class Reevaluation:
    """What the current weights compute for the decisions of a batch, for V-trace.

    Attributes:
        log_ratio: ``[T+1, N] float32``: log-probability of every action less the recorded one.
        values: ``[T+1, N] float32`` by value head.
    """

    log_ratio: Tensor
    values: Mapping[str, Tensor]


@frozen(kw_only=True)
class Targets:
    """What a batch is learned from.

    Attributes:
        advantage: ``[T+1, N] float32``, the weighted sum over reward signals.
        returns: ``[T+1, N] float32`` by value head.
    """

    advantage: Tensor
    returns: Mapping[str, Tensor]

    def columns(self) -> dict[str, np.ndarray]:
        """Return all arrays by the names that minibatches use."""
        returns = {f"returns/{head}": returns.numpy() for head, returns in self.returns.items()}
        return {"advantage": self.advantage.numpy(), **returns}


def estimate_targets(
    batch: SegmentBatch,
    signals: Sequence[RewardSignal],
    *,
    trainable: np.ndarray,
    gae_lambda: float,
    per_tick: bool,
    group: Group,
    reevaluation: Reevaluation | None = None,
) -> Targets:
    """Return the targets of all reward signals; see `estimate_signal`."""
    advantage, returns = torch.zeros(trainable.shape), {}
    for signal in signals:
        signal_advantage, returns[signal.head] = estimate_signal(
            batch,
            signal,
            trainable=trainable,
            gae_lambda=gae_lambda,
            per_tick=per_tick,
            group=group,
            reevaluation=reevaluation,
        )
        advantage = advantage + signal.weight * signal_advantage
    return Targets(advantage=advantage, returns=returns)


def estimate_signal(
    batch: SegmentBatch,
    signal: RewardSignal,
    *,
    trainable: np.ndarray,
    gae_lambda: float,
    per_tick: bool,
    group: Group,
    reevaluation: Reevaluation | None = None,
) -> tuple[Tensor, Tensor]:
    """Return advantages and returns of one reward signal, both ``[T+1, N] float32``.

    Args:
        batch: Segments with recorded values in `extras`.
        signal: The signal to estimate.
        trainable: ``[T+1, N] bool``.
        gae_lambda: λ.
        per_tick: Whether `RewardSignal.gamma` counts elapsed ticks instead of decisions.
        group: Process group of the trainer.
        reevaluation: Use V-trace with the values of the current weights; None: GAE with the recorded values.
    """
    elapsed = to_tensor(batch.elapsed_ticks).float()
    gamma = torch.tensor(signal.gamma)
    discount = gamma**elapsed if per_tick else gamma.expand_as(elapsed)
    reward = to_tensor(signal.reward(batch, group))
    value = to_tensor(batch.extras[signal.head]) if reevaluation is None else reevaluation.values[signal.head]
    terminated = to_tensor(batch.terminated)
    if not signal.ends_with_match:
        terminated = terminated & ~_has_next_entry(batch)
        reward = torch.where(terminated, reward + discount * value, reward)
    common = {
        "terminated": terminated,
        "trainable": torch.from_numpy(trainable),
        "discount": discount,
        "gae_lambda": gae_lambda,
    }
    if reevaluation is None:
        advantage = gae(reward, value, **common)  # type: ignore[arg-type]
        return advantage, advantage + value
    return vtrace(reward, value, log_ratio=reevaluation.log_ratio, **common)  # type: ignore[arg-type]


def normalize_advantages(targets: Targets, trainable: np.ndarray, group: Group) -> Targets:
    """Return targets with advantages of mean 0 and deviation 1 over all trainable decisions of the group."""
    trained = targets.advantage[torch.from_numpy(trainable)]
    mean, variance = group_moments(trained.double(), group)
    advantage = (targets.advantage - mean.float()) / (variance.sqrt().float() + 1e-8)
    return Targets(advantage=advantage, returns=targets.returns)


def _has_next_entry(batch: SegmentBatch) -> Tensor:
    """Return ``[T+1, N] bool``: entries after which the segment has another decision."""
    entries = np.arange(batch.decided.shape[0])[:, None]
    return torch.from_numpy(entries + 1 < batch.length)
