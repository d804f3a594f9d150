"""Adam for one part of a model, with a state that can be saved from the first moment on."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from ludus_torch.adam import Adam
from torch import Tensor, nn

__all__ = ["PartOptimizer"]


class PartOptimizer:
    """Steps along the gradient of some parameters, whatever else a loss depends on.

    Args:
        parameters: By name.
        eps: Adam's term against division by zero.
        max_grad_norm: Gradients are scaled down to this L2 norm.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, eps: float, max_grad_norm: float) -> None:
        self._parameters = list(parameters.values())
        self._max_grad_norm = max_grad_norm
        self._adam = Adam(parameters, eps=eps)
        #: Adam's step counts and moments by name.
        self.state: dict[str, Tensor] = self._adam.state

    def step(self, loss: Tensor, *, learning_rate: float | Tensor) -> Tensor:
        """Step down the gradient of `loss` and return its norm before scaling, ``[]``; see `ludus_torch.adam.Adam`."""
        self._adam.zero_grad()
        torch.autograd.backward(loss, inputs=self._parameters)
        return self._adam.step(learning_rate=learning_rate, max_norm=self._max_grad_norm)
