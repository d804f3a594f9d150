"""Passes over a batch: minibatches and a gradient step for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from attrs import frozen
from ludus.activity import UPDATING, track
from ludus.group import Group
from torch import Tensor

from ludus_ppo.micro_batches import Parts
from ludus_ppo.minibatches import MinibatchSource


@frozen(kw_only=True)
class PassesResult:
    """What the passes of an update have done.

    Attributes:
        metrics: Means over the gradient steps of all processes of the group.
        samples: Rows of all gradient steps of all processes.
        gradient_steps: Number of gradient steps.
    """

    metrics: dict[str, float]
    samples: int
    gradient_steps: int


def run_passes(
    source: MinibatchSource,
    step: Callable[[Parts], dict[str, Tensor]],
    *,
    divide: Callable[[MinibatchSource, np.ndarray], list[np.ndarray]],
    epochs: float,
    num_minibatches: int,
    target_kl: float,
    rng: np.random.Generator,
    group: Group,
) -> PassesResult:
    """Pass `epochs` times over the batch and make one gradient step per minibatch.

    Args:
        source: The batch.
        step: Makes one gradient step from the parts of a minibatch and returns its metrics.
        divide: Returns the indices of the parts of a minibatch.
        epochs: Passes, ≥ 1. The last one of a fractional number draws a share of the batch.
        num_minibatches: Minibatches per pass, ≥ 1.
        target_kl: Stop after a pass whose mean `approx_kl` exceeds this, in nats; 0: never.
        rng: Draws the order of the minibatches.
        group: Process group of the trainer.
    """
    steps: list[dict[str, Tensor]] = []
    samples = 0
    for share in _pass_shares(epochs):
        pass_steps, pass_samples = [], 0
        indices = _draw(source, rng, count=max(1, round(share * num_minibatches)), share=share, group=group)
        for index in track(UPDATING, indices):
            parts = Parts(source, divide(source, index))
            pass_steps.append(step(parts))
            pass_samples += parts.num_rows
        steps += pass_steps
        samples += pass_samples
        if target_kl and not _mean_kl(pass_steps, pass_samples, group) <= target_kl:
            break
    return _summarize(steps, samples, group)


def _pass_shares(epochs: float) -> list[float]:
    whole = int(epochs)
    return [1.0] * whole + [epochs - whole] * (epochs > whole)


def _draw(
    source: MinibatchSource, rng: np.random.Generator, *, count: int, share: float, group: Group
) -> list[np.ndarray]:
    """Return as many minibatches in every process of the group."""
    indices = source.draw(rng, count=count, share=share)
    fewest = int(group.least(len(indices)))
    return indices if len(indices) == fewest else np.array_split(np.concatenate(indices), fewest)


def _mean_kl(steps: Sequence[dict[str, Tensor]], samples: int, group: Group) -> float:
    mean = torch.stack([metrics["approx_kl"] for metrics in steps]).mean()
    group.mean([mean], weight=samples)
    return mean.item()


def _summarize(steps: Sequence[dict[str, Tensor]], samples: int, group: Group) -> PassesResult:
    means = torch.stack([torch.stack(list(metrics.values())) for metrics in steps]).mean(dim=0)
    group.mean([means], weight=samples)
    mean_samples = torch.tensor(float(samples), dtype=torch.float64)
    group.mean([mean_samples])
    return PassesResult(
        metrics=dict(zip(steps[0], means.tolist(), strict=True)),
        samples=round(mean_samples.item() * group.size),
        gradient_steps=len(steps),
    )
