"""Adam for one part of a model, with a state that can be saved from the first moment on."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

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
        self._eps = eps
        self._max_grad_norm = max_grad_norm
        self._moments = [
            {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter, requires_grad=False),
                "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
            }
            for parameter in self._parameters
        ]
        #: Adam's step counts and moments by name, made now rather than at the first step.
        self.state: dict[str, Tensor] = {
            f"adam/{key}/{name}": tensor
            for name, moments in zip(parameters, self._moments, strict=True)
            for key, tensor in moments.items()
        }

    def step(self, loss: Tensor, *, learning_rate: float) -> Tensor:
        """Step down the gradient of `loss` and return its norm before scaling, ``[]``."""
        for parameter in self._parameters:
            parameter.grad = None
        torch.autograd.backward(loss, inputs=self._parameters)
        norm = nn.utils.clip_grad_norm_(self._parameters, self._max_grad_norm)
        self._adam(learning_rate)
        return norm

    def _adam(self, learning_rate: float) -> None:
        """Do what `torch.optim.Adam` does; an object of that class imports torch's compiler, seconds and 70 MB."""
        used = [(p, p.grad, m) for p, m in zip(self._parameters, self._moments, strict=True) if p.grad is not None]
        with torch.no_grad():
            adam(
                [parameter for parameter, _, _ in used],
                [gradient for _, gradient, _ in used],
                [moments["exp_avg"] for _, _, moments in used],
                [moments["exp_avg_sq"] for _, _, moments in used],
                [],
                [moments["step"] for _, _, moments in used],
                fused=self._parameters[0].device.type in ("cpu", "cuda"),
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=learning_rate,
                weight_decay=0.0,
                eps=self._eps,
                maximize=False,
            )
