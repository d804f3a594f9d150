"""Adam with clipped gradients for some of a model's parameters."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from ludus_torch.adam import Adam
from torch import Tensor, nn


class LossMinimizer:
    """Minimizes losses over some of the parameters that they depend on.

    Args:
        parameters: Parameters to change, by name.
        eps: Adam's term against division by zero.
        max_grad_norm: Largest L2 norm of the gradient; longer gradients are scaled down to it.

    Attributes:
        state: Adam's step counts and moments by name; complete before the first step.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, eps: float, max_grad_norm: float) -> None:
        self._parameters = list(parameters.values())
        self._max_grad_norm = max_grad_norm
        self._adam = Adam(parameters, eps=eps)
        self.state: dict[str, Tensor] = self._adam.state

    def step(self, loss: Tensor, *, learning_rate: float | Tensor) -> Tensor:
        """Make one Adam step on `loss` and return the norm of its gradient before clipping, ``[]``."""
        self._adam.zero_grad()
        torch.autograd.backward(loss, inputs=self._parameters)
        return self._adam.step(learning_rate=learning_rate, max_norm=self._max_grad_norm)
