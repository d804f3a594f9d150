"""Log-probabilities and entropies of actions, for gradient steps.

Shapes: n rows, L action labels, A discrete choices over all labels, D continuous dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# Its exponential is 0 in float32. Without a bound, 0 · log 0 would have the gradient NaN.
_MIN_LOG_P = -200.0


def categorical_terms(
    logits: Tensor, action: Tensor, *, mask: Tensor | None, sizes: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return log-probability and entropy of every label under masked categorical distributions.

    A masked choice has probability exactly 0 and its logit no gradient. `ludus_torch.ppo_losses` has a faster
    equivalent.

    Args:
        logits: ``[n, A] float32``, the labels side by side.
        action: ``[n, L] int64``.
        mask: ``[n, A] bool``, True where legal, at least once per label; None: all legal.
        sizes: Choices of each label; they sum to A.

    Returns:
        Log-probability ``[n, L]`` and entropy in nats ``[n, L]``.
    """
    if mask is not None:
        logits = torch.where(mask, logits, torch.finfo(logits.dtype).min)
    log_probs, entropies = [], []
    for label, label_logits in enumerate(torch.split(logits, list(sizes), dim=1)):
        log_p = label_logits.log_softmax(dim=1)  # [n, choices]
        log_probs.append(log_p.gather(1, action[:, label : label + 1]))
        entropies.append(-(log_p.exp() * log_p.clamp(min=_MIN_LOG_P)).sum(dim=1, keepdim=True))
    return torch.cat(log_probs, dim=1), torch.cat(entropies, dim=1)


def gaussian_terms(parameters: Tensor, action: Tensor, *, sizes: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
    """Return log-density and entropy of independent normal distributions, joined into one term for each Box.

    Args:
        parameters: ``[n, 2 D]``: means, then log standard deviations.
        action: ``[n, D] float32``.
        sizes: Dimensions of the K boxes; they sum to D. None: one Box.

    Returns:
        Log-density ``[n, K]`` and entropy in nats ``[n, K]``.
    """
    mean, log_std = parameters.chunk(2, dim=1)  # [n, D] each
    half_log_two_pi = 0.5 * math.log(2 * math.pi)
    scaled = (action - mean) * torch.exp(-log_std)
    log_prob = -0.5 * scaled.square() - log_std - half_log_two_pi  # [n, D]
    entropy = log_std + half_log_two_pi + 0.5  # [n, D]
    if sizes is None or len(sizes) == 1:
        return log_prob.sum(dim=1, keepdim=True), entropy.sum(dim=1, keepdim=True)
    return _sum_boxes(log_prob, sizes), _sum_boxes(entropy, sizes)


def _sum_boxes(terms: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the sums ``[n, K]`` over the dimensions of each Box of ``terms [n, D]``."""
    return torch.cat([box.sum(dim=1, keepdim=True) for box in torch.split(terms, list(sizes), dim=1)], dim=1)
