"""The losses of PPO, in the order of the papers [AET §3.2.1; DIS eq. 1-2; HoK §4].

Shapes: n rows of a minibatch, L action labels. `ludus_torch.ppo_losses` computes the same faster on a CPU.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

# A ratio beyond e^20 is clipped anyway, and its exponential could overflow into NaN gradients.
_MAX_LOG_RATIO = 20.0


def policy_loss(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    *,
    clip_epsilon: float | Tensor,
    dual_clip: float,
    used: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the negative clipped objective with dual clip, and how far the policy has moved.

    Args:
        log_prob: log π(a|s), ``[n, L]``; ``[n, 1]`` for one ratio of the whole action.
        old_log_prob: log π_old(a|s) of the policy that made the decisions, same shape.
        advantage: ``[n]``, shared by the labels.
        clip_epsilon: ε.
        dual_clip: η > 1; 0 disables the lower bound.
        used: Labels that count, ``[n, L] bool``; None: all of them.

    Returns:
        The loss ``[]``: the mean over rows of the sum over labels; without gradient, the estimate E[r - 1 - log r] of
        the KL divergence ``[]`` from π_old to π in nats, r being the ratio of whole actions; and the share ``[]`` of
        ratios outside of the clip range.
    """
    advantage = advantage.unsqueeze(1)  # [n, 1]
    log_ratio = (log_prob - old_log_prob).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)  # [n, L]
    ratio = log_ratio.exp()  # r = π(a|s) / π_old(a|s)
    clipped_ratio = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)  # type: ignore[arg-type] # r_c; clamp takes both
    objective = torch.minimum(ratio * advantage, clipped_ratio * advantage)
    if dual_clip:
        objective = torch.where(advantage < 0, torch.maximum(objective, dual_clip * advantage), objective)
    loss = -mean_over_labels(objective, used)
    with torch.no_grad():
        joint = joint_log_prob(log_prob - old_log_prob, used).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
        approx_kl = (joint.exp() - 1 - joint).mean()
        clipped = ratio != clipped_ratio
        clip_fraction = clipped.float().mean() if used is None else (clipped & used).sum() / used.sum().clamp(min=1)
    return loss, approx_kl, clip_fraction


def value_loss(value: Tensor, returns: Tensor, *, old_value: Tensor, value_clip: float = 0.0) -> Tensor:
    """Return the mean squared error E[(V(s) - G)²], ``[]``.

    Args:
        value: V(s), ``[n]``.
        returns: G = V_old(s) + advantage, ``[n]``.
        old_value: V_old(s), the value when the decision was made, ``[n]``.
        value_clip: If > 0, an error that shrinks because the value moved further than this does not count as smaller.
    """
    if not value_clip:
        return functional.mse_loss(value, returns)
    clipped_value = old_value + (value - old_value).clamp(-value_clip, value_clip)
    return torch.maximum((value - returns).square(), (clipped_value - returns).square()).mean()


def mean_over_labels(terms: Tensor, used: Tensor | None = None) -> Tensor:
    """Return the mean over rows of the sum over used labels, ``[]``; of entropies, it is the entropy bonus.

    Args:
        terms: ``[n, L]``.
        used: Labels that count, ``[n, L] bool``; None: all of them.
    """
    if used is not None:
        terms = terms * used
    return terms.mean() if terms.shape[1] == 1 else terms.sum() / terms.shape[0]


def joint_log_prob(log_prob: Tensor, used: Tensor | None = None) -> Tensor:
    """Return the log-probability ``[n, 1]`` of whole actions from that of their labels ``[n, L]``."""
    if used is not None:
        log_prob = log_prob * used
    return log_prob if log_prob.shape[1] == 1 else log_prob.sum(dim=1, keepdim=True)
