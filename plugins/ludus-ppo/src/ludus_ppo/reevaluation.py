"""Evaluate a batch with the current weights, for V-trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from ludus.activity import UPDATING, track
from torch import Tensor

from ludus_ppo.advantages import Reevaluation
from ludus_ppo.distributions import Distribution
from ludus_ppo.losses import joint_log_prob
from ludus_ppo.minibatches import Minibatch, MinibatchSource

_MAX_ROWS = 8192  # per call of the network


@torch.no_grad()
def reevaluate(
    source: MinibatchSource,
    *,
    evaluate: Callable[[Minibatch], tuple[Tensor, dict[str, Tensor]]],
    distribution: Distribution,
    trainable: np.ndarray,
    num_rows: int,
    heads: Sequence[str],
) -> Reevaluation:
    """Return log-ratios of all decisions, and values of all observations that the returns of these may depend on.

    Args:
        source: All entries with an observation.
        evaluate: Returns distribution parameters ``[n, P]`` and values ``[n]`` by head.
        distribution: Action distribution of the policy.
        trainable: ``[T+1, N] bool``.
        num_rows: Number of entries of `source`.
        heads: Value heads.
    """
    log_ratio = torch.zeros(trainable.size)
    values = {head: torch.zeros(trainable.size) for head in heads}
    for index in track(UPDATING, source.draw(np.random.default_rng(0), count=-(-num_rows // _MAX_ROWS))):
        entries, minibatch = torch.from_numpy(source.entries(index)), source.take(index)
        parameters, new_values = evaluate(minibatch)
        for head, value in new_values.items():
            values[head][entries] = value.cpu()
        decided = torch.from_numpy(trainable.ravel())[entries]
        change = _log_ratio(minibatch, parameters, decided.to(parameters.device), distribution)
        log_ratio[entries[decided]] = change.cpu()
    return Reevaluation(
        log_ratio=log_ratio.view(trainable.shape),
        values={head: value.view(trainable.shape) for head, value in values.items()},
    )


def _log_ratio(minibatch: Minibatch, parameters: Tensor, decided: Tensor, distribution: Distribution) -> Tensor:
    """Return log π(a|s) - log π_old(a|s) ``[m]`` of whole actions, of the m rows that are decisions."""
    action = minibatch.action[decided]
    log_prob, _ = distribution.terms(
        parameters[decided],
        action=action,
        extras={name: extra[decided] for name, extra in minibatch.extras.items()},
        mask=None if minibatch.action_mask is None else minibatch.action_mask[decided],
    )
    change = log_prob - minibatch.extras["log_prob"][decided]
    return joint_log_prob(change, distribution.labels_used(action)).squeeze(1)
