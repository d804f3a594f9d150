"""Fused equivalents of PPO's losses for CPUs: autograd functions with their own backward pass.

`ludus_ppo.losses` and `ludus_ppo.action_terms` hold the plain formulas and describe the arguments. Shapes: n rows, L
action labels, A discrete choices over all labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_MAX_LOG_RATIO = 20.0  # as in the plain formula


def prefers_fused(inputs: Tensor) -> bool:
    """Return whether the functions of this module are faster for `inputs` than the plain formulas."""
    return inputs.device.type == "cpu" and not torch.compiler.is_compiling()


def policy_loss(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    *,
    clip_epsilon: float | Tensor,
    dual_clip: float,
    used: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss, the KL divergence and the clip fraction; see `ludus_ppo.losses.policy_loss`."""
    arguments = (log_prob, old_log_prob, advantage, clip_epsilon, dual_clip, used)
    loss, approx_kl, clip_fraction = _PolicyLoss.apply(*arguments)  # type: ignore[no-untyped-call]
    return loss, approx_kl, clip_fraction


class _PolicyLoss(torch.autograd.Function):
    """The gradient of the objective is r · advantage where this is the active term of min and max, else 0."""

    @staticmethod
    def forward(
        ctx: Any,
        log_prob: Tensor,
        old_log_prob: Tensor,
        advantage: Tensor,
        clip_epsilon: float | Tensor,
        dual_clip: float,
        used: Tensor | None,
    ) -> tuple[Tensor, ...]:
        log_ratio = log_prob - old_log_prob  # [n, L]
        bounded = log_ratio.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
        ratio = bounded.exp()
        clipped_ratio = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)  # type: ignore[arg-type] # clamp takes both
        advantage = advantage.unsqueeze(1)  # [n, 1]
        unclipped = ratio * advantage
        objective = torch.minimum(unclipped, clipped_ratio * advantage)
        if dual_clip:
            objective = torch.maximum(objective, dual_clip * advantage.clamp(max=0))  # it is ≥ 0 at advantages ≥ 0
        gradient = unclipped * ((objective == unclipped) & (bounded == log_ratio))
        clipped = ratio != clipped_ratio
        if used is not None:
            gradient, objective, clipped, log_ratio = (x * used for x in (gradient, objective, clipped, log_ratio))
        ctx.save_for_backward(gradient)
        joint, joint_ratio = bounded, ratio  # [n, 1]
        if used is not None or log_ratio.shape[1] > 1:
            joint = log_ratio.sum(dim=1, keepdim=True).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
            joint_ratio = joint.exp()
        num_labels: int | Tensor = clipped.numel() if used is None else used.sum().clamp(min=1)
        results = (
            objective.sum() / -len(objective),
            (joint_ratio - 1 - joint).mean(),
            clipped.sum() / num_labels,
        )
        ctx.mark_non_differentiable(*results[1:])
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * (loss_gradient / -len(gradient)), *[None] * 5


def categorical_terms(
    logits: Tensor, action: Tensor, *, mask: Tensor | None, sizes: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return log-probability and entropy of every label; see `ludus_ppo.action_terms.categorical_terms`."""
    log_prob, entropy = _CategoricalTerms.apply(logits, action, mask, tuple(sizes))  # type: ignore[no-untyped-call]
    return log_prob, entropy


class _CategoricalTerms(torch.autograd.Function):
    """Choices come first in memory, as torch is slow along short last dimensions."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, action: Tensor, mask: Tensor | None, sizes: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        if mask is not None:
            logits = torch.where(mask, logits, torch.finfo(logits.dtype).min)  # finite: 0 · log 0 must be 0, not NaN
        log_p = _map_labels(logits.t().contiguous(), sizes, lambda part: part.log_softmax(dim=0))  # [A, n]
        chosen = action.t()  # [L, n], indices into A
        if len(sizes) > 1:
            offsets = [sum(sizes[:label]) for label in range(len(sizes))]
            chosen = chosen + torch.tensor(offsets, device=action.device).unsqueeze(1)
        probability = log_p.exp()
        weighted = probability * log_p
        negative_entropy = _map_labels(weighted, sizes, lambda part: part.sum(dim=0, keepdim=True))  # [L, n]
        ctx.save_for_backward(probability, weighted, negative_entropy, chosen)
        ctx.sizes = sizes
        return log_p.gather(0, chosen).t(), negative_entropy.neg().t()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, log_prob_gradient: Tensor, entropy_gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return d/dlogit: ``[chosen] - p`` of log-probability, ``-p (log p + entropy)`` of entropy."""
        probability, weighted, negative_entropy, chosen = ctx.saved_tensors
        log_prob_gradient, entropy_gradient = log_prob_gradient.t(), entropy_gradient.t()

        def per_choice(term: Tensor) -> Tensor:  # [L, n] -> [A, n]
            if len(ctx.sizes) == 1:
                return term
            return term.repeat_interleave(torch.tensor(ctx.sizes, device=term.device), dim=0)

        gradient = probability * per_choice(entropy_gradient * negative_entropy - log_prob_gradient)
        gradient = gradient.addcmul_(weighted, per_choice(entropy_gradient), value=-1)
        return gradient.scatter_add_(0, chosen, log_prob_gradient).t(), None, None, None


def _map_labels(choices: Tensor, sizes: Sequence[int], function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function to the choices of each label, ``[A, n]``, and concatenate the results."""
    if len(sizes) == 1:
        return function(choices)
    return torch.cat([function(part) for part in torch.split(choices, list(sizes))])
