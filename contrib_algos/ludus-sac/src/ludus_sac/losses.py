"""Formulas of soft actor-critic as pure functions of tensors.

Expectations over actions are weighted sums over C *candidates*: for discrete actions all of them with their
probabilities, for continuous ones a single sample of weight 1. So both kinds of actions share the formulas.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


def masked_categorical(logits: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and probabilities of all actions, both ``[n, A]``.

    An illegal action has probability 0 and no gradient; its log-probability is given as 0, so that the product of both
    is 0 too.

    Args:
        logits: ``[n, A]``.
        mask: ``[n, A] bool``, with a legal action in every row; None: all legal.
    """
    if mask is None:
        log_prob = torch.log_softmax(logits, dim=1)
        return log_prob, log_prob.exp()
    log_prob = torch.log_softmax(logits.masked_fill(~mask, -torch.inf), dim=1)
    return log_prob.masked_fill(~mask, 0.0), log_prob.exp()


def squashed_normal(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions a = tanh(u), u = mean + std · noise, in (-1, 1) ``[n, D]``, and their log-density ``[n, 1]``.

    log π(a) = Σ_d log N(u_d) - log(1 - tanh²(u_d)). The last term is computed as 2 (log 2 - u - softplus(-2u)), which
    is exact even where tanh rounds to 1.

    Args:
        mean: ``[n, D]``.
        log_std: ``[n, D]``.
        noise: ``[n, D]``, standard normal.
    """
    u = mean + log_std.exp() * noise
    log_normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    log_slope = 2 * (math.log(2) - u - functional.softplus(-2 * u))
    return torch.tanh(u), (log_normal - log_slope).sum(dim=1, keepdim=True)


def soft_value(q: Tensor, log_prob: Tensor, weight: Tensor, *, alpha: Tensor) -> Tensor:
    """Return V(s) = E[Q(s, a) - alpha log π(a|s)] ``[n]``; the policy maximizes its mean.

    Args:
        q: ``[n, C]``.
        log_prob: ``[n, C]``.
        weight: ``[n, C]``.
        alpha: ``[]``.
    """
    return (weight * (q - alpha * log_prob)).sum(dim=1)


def entropy(log_prob: Tensor, weight: Tensor) -> Tensor:
    """Return -E[log π(a|s)] ``[n]`` from ``[n, C]`` each."""
    return -(weight * log_prob).sum(dim=1)


def soft_target(reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """Return the target of Q(s, a), ``[n]``: reward + discount · V(s').

    Args:
        reward: ``[n]``, summed over the decisions of a transition.
        discount: ``[n]``; 0 where the seat terminated.
        next_value: ``[n]``, soft value of s' by the target critics.
    """
    return reward + discount * next_value


def critic_loss(q: Tensor, target: Tensor) -> Tensor:
    """Return the mean over rows of ½ (Q(s, a) - target)², summed over critics.

    Args:
        q: ``[2, n]``, values of the actions taken by both critics.
        target: ``[n]``, without gradient.
    """
    return 0.5 * (q - target).square().mean(dim=1).sum()


def temperature_loss(log_alpha: Tensor, entropy: Tensor, target_entropy: Tensor) -> Tensor:
    """Return log alpha · (H - H_target): its descent lowers the temperature while the entropy exceeds its target.

    Args:
        log_alpha: ``[]``.
        entropy: ``[n]``, without gradient.
        target_entropy: ``[n]``.
    """
    return log_alpha * (entropy - target_entropy).mean()
