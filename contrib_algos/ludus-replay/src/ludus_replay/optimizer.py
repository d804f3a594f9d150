"""Adam for one part of a model, with a state that can be saved from the first moment on."""

from __future__ import annotations

from collections.abc import Mapping

import torch
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
        device = self._parameters[0].device
        self._adam = torch.optim.Adam(self._parameters, eps=eps, fused=device.type in ("cpu", "cuda"))
        #: Adam's step counts and moments by name, made now rather than at the first step.
        self.state: dict[str, Tensor] = {}
        for name, parameter in parameters.items():
            moments = self._adam.state[parameter]
            moments["step"] = torch.zeros((), device=device)
            moments["exp_avg"] = torch.zeros_like(parameter, requires_grad=False)
            moments["exp_avg_sq"] = torch.zeros_like(parameter, requires_grad=False)
            self.state |= {f"adam/{key}/{name}": tensor for key, tensor in moments.items()}

    def step(self, loss: Tensor, *, learning_rate: float) -> Tensor:
        """Step down the gradient of `loss` and return its norm before scaling, ``[]``."""
        for group in self._adam.param_groups:
            group["lr"] = learning_rate
        self._adam.zero_grad()
        torch.autograd.backward(loss, inputs=self._parameters)
        norm = nn.utils.clip_grad_norm_(self._parameters, self._max_grad_norm)
        self._adam.step()
        return norm
