"""Loss terms: what plugins add to the loss of PPO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import define
from torch import Tensor

from ludus_ppo.minibatches import Minibatch


@define(kw_only=True, eq=False)  # torch.compile cannot trace the construction of frozen classes
class PolicyOutputs:
    """What the model being trained computes for a minibatch of n rows, with gradients.

    Attributes:
        parameters: Parameters of the action distribution, ``[n, P] float32``: logits, the labels side by side, then
            means and log standard deviations.
        log_prob: Log-probability of the recorded action, ``[n, K]``: one term per label, then one per Box.
        entropy: Entropy in nats, ``[n, K]``.
        used: Terms that the recorded action uses, ``[n, K] bool``; None: all of them.
        values: ``[n] float32`` by value head.
    """

    parameters: Tensor
    log_prob: Tensor
    entropy: Tensor
    used: Tensor | None
    values: Mapping[str, Tensor]


class LossTerm(Protocol):
    """A summand of the loss.

    A term that is an `nn.Module` is moved to the device of the trainer, its parameters that require a gradient are
    trained with the model, and its parameters and buffers are part of the trainer's state, but not of the weights.
    """

    def __call__(self, minibatch: Minibatch, outputs: PolicyOutputs) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Return the weighted loss ``[]`` and metrics ``[]`` by name.

        Called once per gradient step, or once for each of its parts where it would need more memory than it may take,
        within the autocast context of the trainer, which reports the means of the metrics over an update. Metrics must
        have no gradient.

        Args:
            minibatch: The rows of the gradient step.
            outputs: Outputs of the model for these rows.
        """
