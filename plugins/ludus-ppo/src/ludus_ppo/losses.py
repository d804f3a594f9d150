"""The formulas of PPO as pure functions of tensors.

Shapes: n rows, L action labels, A discrete choices over all labels, D continuous dimensions, T + 1 entries of N
segments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

__all__ = [
    "PolicyLoss",
    "categorical_terms",
    "explained_variance",
    "gae",
    "gaussian_terms",
    "joint_log_prob",
    "mean_over_labels_used",
    "policy_loss",
    "value_loss",
    "vtrace",
]

# Beyond e^20 a ratio is clipped anyway, and its exponential would overflow into NaN gradients.
_MAX_LOG_RATIO = 20.0

# A mean per row: of hardly any labels used, a share is 0.
_LEAST_LABELS = 1e-9

# Rounding alone gives equal returns a variance.
_NO_VARIANCE = 1e-8


def categorical_terms(
    logits: Tensor, action: Tensor, *, mask: Tensor | None, sizes: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return log-probability and entropy of every label under masked categorical distributions.

    A masked choice has probability exactly 0 and its logit no gradient.

    Args:
        logits: ``[n, A] float32``, the labels side by side.
        action: ``[n, L] int64``.
        mask: ``[n, A] bool``, True where legal, at least once per label; None: all legal.
        sizes: Choices of each label; they sum to A.

    Returns:
        Log-probability ``[n, L]`` and entropy in nats ``[n, L]``.
    """
    log_prob, entropy = _CategoricalTerms.apply(logits, action, mask, tuple(sizes))  # type: ignore[no-untyped-call]
    return log_prob, entropy


class _CategoricalTerms(torch.autograd.Function):
    """Log-probability and entropy with their gradient, choices first: torch is slow along short last dimensions."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, action: Tensor, mask: Tensor | None, sizes: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """See `categorical_terms`."""
        if mask is not None:
            logits = torch.where(mask, logits, torch.finfo(logits.dtype).min)  # finite: 0 · log 0 must be 0, not NaN
        log_p = _by_label(logits.t().contiguous(), sizes, lambda part: part.log_softmax(dim=0))  # [A, n]
        chosen = action.t()  # [L, n], in 0..A
        if len(sizes) > 1:
            starts = (sum(sizes[:label]) for label in range(len(sizes)))
            chosen = chosen + _numbers(starts, action.device).unsqueeze(1)
        probability = log_p.exp()
        weighted = probability * log_p
        negative_entropy = _by_label(weighted, sizes, lambda part: part.sum(dim=0, keepdim=True))  # [L, n]
        ctx.save_for_backward(probability, weighted, negative_entropy, chosen)
        ctx.sizes = sizes
        return log_p.gather(0, chosen).t(), negative_entropy.neg().t()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_log_prob: Tensor, of_entropy: Tensor) -> tuple[Tensor | None, ...]:
        """Return d/dlogit: ``[chosen] - p`` of log-probability, ``-p (log p + entropy)`` of entropy."""
        probability, weighted, negative_entropy, chosen = ctx.saved_tensors
        of_log_prob, of_entropy = of_log_prob.t(), of_entropy.t()

        def per_choice(term: Tensor) -> Tensor:  # [L, n] -> [A, n]
            if len(ctx.sizes) == 1:
                return term
            labels = (label for label, size in enumerate(ctx.sizes) for _ in range(size))
            return term.index_select(0, _numbers(labels, chosen.device))

        gradient = probability * per_choice(of_entropy * negative_entropy - of_log_prob)
        gradient = gradient.addcmul_(weighted, per_choice(of_entropy), value=-1)
        return gradient.scatter_add_(0, chosen, of_log_prob).t(), None, None, None


def _numbers(numbers: Iterable[int], device: torch.device) -> Tensor:
    """Return numbers as ``[n] int64``, sent to a device once for all: a GPU is waited for while they are sent."""
    if torch.compiler.is_compiling():  # they are part of the code then
        return torch.tensor([*numbers], device=device)
    return _sent((*numbers,), device)


@cache
def _sent(numbers: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(numbers, device=device)


def _by_label(choices: Tensor, sizes: Sequence[int], function: Callable[[Tensor], Tensor]) -> Tensor:
    """Return what a function makes of the choices of each label, ``[A, n]``, one below the other."""
    if len(sizes) == 1:
        return function(choices)
    return torch.cat([function(part) for part in torch.split(choices, list(sizes))])


def gaussian_terms(parameters: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-density and entropy of independent normal distributions, joined into one label.

    Args:
        parameters: ``[n, 2 D]``: means, then log standard deviations.
        action: ``[n, D] float32``.

    Returns:
        Log-density ``[n, 1]`` and entropy in nats ``[n, 1]``.
    """
    mean, log_std = parameters.chunk(2, dim=1)  # [n, D] each
    half_log_two_pi = 0.5 * math.log(2 * math.pi)
    scaled = (action - mean) * torch.exp(-log_std)
    log_prob = -0.5 * scaled.square() - log_std - half_log_two_pi  # [n, D]
    entropy = log_std + half_log_two_pi + 0.5  # [n, D]
    return log_prob.sum(dim=1, keepdim=True), entropy.sum(dim=1, keepdim=True)


def joint_log_prob(log_prob: Tensor, *, used: Tensor | None = None) -> Tensor:
    """Return the log-probability ``[n, 1]`` of the whole action from that of its labels ``[n, L]``."""
    if used is None and log_prob.shape[1] == 1:
        return log_prob
    return (log_prob if used is None else log_prob * used).sum(dim=1, keepdim=True)


def mean_over_labels_used(terms: Tensor, *, used: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Return the mean over rows of the sum over labels of `terms` ``[n, L]``, labels not used left out.

    Args:
        terms: ``[n, L]``.
        used: ``[n, L] bool``; None: all.
        weight: ``[n]``, what each row counts, 1 in all; None: all the same.
    """
    counted = terms if used is None else terms * used
    if weight is not None:
        return (counted.sum(dim=1) * weight).sum()
    return counted.mean() if terms.shape[1] == 1 else counted.sum() / terms.shape[0]


class PolicyLoss(NamedTuple):
    """What `policy_loss` returns: scalars, of which only the loss has a gradient.

    Attributes:
        loss: The mean over rows of the sum over labels of the negative objective.
        divergence: The estimate E[r - 1 - log r] of the KL divergence from the old policy to the new in nats, r being
            the ratio of whole actions.
        clip_fraction: The share of the labels' ratios outside of the clip range.
    """

    loss: Tensor
    divergence: Tensor
    clip_fraction: Tensor


def policy_loss(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    *,
    clip_epsilon: float | Tensor,
    dual_clip: float,
    used: Tensor | None = None,
    weight: Tensor | None = None,
) -> PolicyLoss:
    """Return the clipped objective, negative, and how far the policy has moved [AET §3.2.1; DIS eq. 1; HoK eq. 3].

    With ratio r = exp(log_prob - old_log_prob) and r_c = clip(r, 1 - clip_epsilon, 1 + clip_epsilon), the objective of
    every row and label is::

        advantage ≥ 0:  min(r · advantage, r_c · advantage)
        advantage < 0:  max(min(r · advantage, r_c · advantage), dual_clip · advantage)

    Args:
        log_prob: ``[n, L]``, or ``[n, 1]`` for the joint ratio.
        old_log_prob: The same of the policy that decided.
        advantage: ``[n]``, shared by the labels.
        clip_epsilon: ε; as a tensor ``[]`` it may change without compiling anew.
        dual_clip: η > 1; 0 switches the lower bound off.
        used: ``[n, L] bool``, the labels to count; None: all.
        weight: ``[n]``, what each row counts, 1 in all; None: all the same.
    """
    return PolicyLoss(
        *_PolicyLoss.apply(  # type: ignore[no-untyped-call]
            log_prob, old_log_prob, advantage, clip_epsilon, dual_clip, used, weight
        )
    )


class _PolicyLoss(torch.autograd.Function):
    """The loss with its gradient: that of r · advantage where this is what counts, else 0."""

    @staticmethod
    def forward(
        ctx: Any,
        log_prob: Tensor,
        old_log_prob: Tensor,
        advantage: Tensor,
        clip_epsilon: float | Tensor,
        dual_clip: float,
        used: Tensor | None,
        weight: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """See `policy_loss`."""
        log_ratio = log_prob - old_log_prob  # [n, L]
        bounded = log_ratio.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
        ratio = bounded.exp()
        clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)  # type: ignore[arg-type] # it takes both
        advantage = advantage.unsqueeze(1)  # [n, 1]
        free = ratio * advantage
        objective = torch.minimum(free, clipped * advantage)
        if dual_clip:
            objective = torch.maximum(objective, dual_clip * advantage.clamp(max=0))  # it is ≥ 0 at advantages ≥ 0
        ctx.save_for_backward(free * ((objective == free) & (bounded == log_ratio)), used, weight)

        joint, of_joint = bounded, ratio  # [n, 1]
        if used is not None or log_ratio.shape[1] > 1:
            joint = joint_log_prob(log_ratio, used=used).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
            of_joint = joint.exp()
        labels: int | Tensor = log_ratio.shape[1]
        if used is not None:
            labels = mean_over_labels_used(used.float(), weight=weight).clamp(min=_LEAST_LABELS)
        results = (
            mean_over_labels_used(objective, used=used, weight=weight).neg(),
            mean_over_labels_used(of_joint - 1 - joint, weight=weight),
            mean_over_labels_used((ratio != clipped).float(), used=used, weight=weight) / labels,
        )
        ctx.mark_non_differentiable(*results[1:])
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Return d/dlog_prob: d(r · advantage)/dlog_prob is r · advantage itself."""
        slope, used, weight = ctx.saved_tensors
        slope = slope if used is None else slope * used
        share = gradient / -len(slope) if weight is None else -gradient * weight.unsqueeze(1)
        return slope * share, *[None] * 6


def value_loss(
    value: Tensor, returns: Tensor, *, old_value: Tensor, value_clip: float = 0.0, weight: Tensor | None = None
) -> Tensor:
    """Return the mean squared error E[(value - returns)²] [AET §3.2.1], a scalar.

    Args:
        value: ``[n]``.
        returns: ``[n]``, G = old_value + advantage.
        old_value: ``[n]``, the value when the decision was made.
        value_clip: If > 0, moving further than this from `old_value` earns nothing.
        weight: ``[n]``, what each row counts, 1 in all; None: all the same.
    """
    if not value_clip and weight is None:
        return functional.mse_loss(value, returns)
    error = (value - returns).square()
    if value_clip:
        near = old_value + (value - old_value).clamp(-value_clip, value_clip)
        error = torch.maximum(error, (near - returns).square())
    return error.mean() if weight is None else (error * weight).sum()


def explained_variance(unexplained: Tensor, variance: Tensor) -> Tensor:
    """Return the share of the variance of returns that values predict, a scalar ≤ 1; 0 if they do not vary.

    Args:
        unexplained: The variance of returns less values, ``[]``.
        variance: That of returns, ``[]``.
    """
    return torch.where(variance > _NO_VARIANCE, 1 - unexplained / variance, torch.zeros_like(variance))


def gae(
    reward: Tensor, value: Tensor, *, terminated: Tensor, trainable: Tensor, discount: Tensor, gae_lambda: float
) -> Tensor:
    """Return generalised advantage estimates over the decisions of each segment.

    The successor of entry t is entry t + 1 unless ``terminated[t]``. Entries that are not trainable (bootstrap
    entries, final observations) lend their value to the entry before and have advantage 0 themselves::

        delta[t] = reward[t] + discount[t] · value[t+1] - value[t]
        advantage[t] = delta[t] + discount[t] · gae_lambda · advantage[t+1]

    Args:
        reward: ``[T+1, N] float32``.
        value: ``[T+1, N] float32``; undefined entries may hold anything.
        terminated: ``[T+1, N] bool``.
        trainable: ``[T+1, N] bool``; False in the last entry.
        discount: ``[T+1, N] float32``: gamma, or gamma to the power of the elapsed ticks.
        gae_lambda: λ.

    Returns:
        ``[T+1, N] float32``.
    """
    advantage = torch.zeros_like(value)
    zero = value.new_zeros(())
    follows = trainable[:-1] & ~terminated[:-1]
    successor = torch.where(follows, value[1:], zero)
    delta = torch.where(trainable[:-1], reward[:-1] + discount[:-1] * successor - value[:-1], zero)
    decay = torch.where(follows, discount[:-1] * gae_lambda, zero)
    _discounted_sums(delta, decay, out=advantage)
    return advantage


def vtrace(
    reward: Tensor,
    value: Tensor,
    *,
    log_ratio: Tensor,
    terminated: Tensor,
    trainable: Tensor,
    discount: Tensor,
    gae_lambda: float,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return advantages and returns corrected for decisions of older weights: V-trace [IMPALA, eq. 1].

    With r = exp(log_ratio), rho = min(rho_clip, r) and c = gae_lambda · min(c_clip, r)::

        delta[t] = rho[t] · (reward[t] + discount[t] · value[t+1] - value[t])
        correction[t] = delta[t] + discount[t] · c[t] · correction[t+1]
        returns[t] = value[t] + correction[t]
        advantage[t] = reward[t] + discount[t] · returns[t+1] - value[t]

    The advantage is not weighted by rho: the ratio of PPO's objective does that.

    Args:
        reward: ``[T+1, N] float32``.
        value: ``[T+1, N] float32``, today's; undefined entries may hold anything.
        log_ratio: ``[T+1, N] float32``; log π_today(a|s) - log π_then(a|s) of whole actions.
        terminated: As for `gae`, and so are the following.
        trainable: ``[T+1, N] bool``.
        discount: ``[T+1, N] float32``.
        gae_lambda: λ; 1 is V-trace as published.
        rho_clip: Decides what values converge to.
        c_clip: Decides how far corrections reach back.

    Returns:
        ``[T+1, N] float32`` each; advantages are 0 and returns today's values where nothing is trainable.
    """
    zero = value.new_zeros(())
    value = torch.where(trainable | torch.isfinite(value), value, zero)
    follows = trainable[:-1] & ~terminated[:-1]
    ratio = log_ratio[:-1].clamp(max=_MAX_LOG_RATIO).exp()
    successor = torch.where(follows, value[1:], zero)
    delta = reward[:-1] + discount[:-1] * successor - value[:-1]
    delta = torch.where(trainable[:-1], ratio.clamp(max=rho_clip) * delta, zero)
    decay = torch.where(follows, discount[:-1] * gae_lambda * ratio.clamp(max=c_clip), zero)
    correction = torch.zeros_like(value)
    _discounted_sums(delta, decay, out=correction)
    returns = value + correction
    target = reward[:-1] + discount[:-1] * torch.where(follows, returns[1:], zero)
    advantage = torch.zeros_like(value)
    advantage[:-1] = torch.where(trainable[:-1], target - value[:-1], zero)
    return advantage, returns


def _discounted_sums(delta: Tensor, decay: Tensor, *, out: Tensor) -> None:
    """Write ``out[t] = delta[t] + decay[t] · out[t+1]``; `out` is ``[T+1, N]`` and its last entry given."""
    deltas, decays, sums = delta.unbind(), decay.unbind(), out.unbind()
    for t in range(len(deltas) - 1, -1, -1):
        torch.addcmul(deltas[t], decays[t], sums[t + 1], out=sums[t])
