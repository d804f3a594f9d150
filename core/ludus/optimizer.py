"""Adam for trainers: without torch's compiler, and with a state that can be saved before the first step."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

__all__ = ["Adam"]

_LEAST_NORM = 1e-6  # added as `torch.nn.utils.clip_grad_norm_` does


class Adam:
    """Computes what `torch.optim.Adam` computes.

    An object of that class imports torch's compiler, which costs every learner seconds and 70 MB; the function that
    does its work does not.

    Args:
        parameters: By name, on one device; those that need no gradient are left out.
        betas: Decay of the means of gradients and of their squares, [0, 1).
        eps: Added to the denominator, > 0.

    Attributes:
        state: The live tensors, ``"adam/step/NAME"`` ``[]``, ``"adam/exp_avg/NAME"`` and ``"adam/exp_avg_sq/NAME"`` of
            the parameter's shape; what is copied into them is gone on from.
    """

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], *, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        named = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
        self._betas, self._eps = betas, eps
        self._parameters = list(named.values())
        self._moments = [
            {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter, requires_grad=False),
                "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
            }
            for parameter in self._parameters
        ]
        self.state: dict[str, Tensor] = {
            f"adam/{key}/{name}": tensor
            for name, moments in zip(named, self._moments, strict=True)
            for key, tensor in moments.items()
        }

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    def step(self, *, learning_rate: float | Tensor, max_norm: float = math.inf) -> Tensor:
        """Step along the gradients of the parameters that have one, and return their norm ``[]`` as they were.

        Args:
            learning_rate: > 0; as a tensor ``[]`` on the parameters' device it may change in a recorded CUDA graph.
            max_norm: > 0; gradients, which need not stay as they are, are scaled down to this L2 norm of all together.
        """
        used = [(p, p.grad, m) for p, m in zip(self._parameters, self._moments, strict=True) if p.grad is not None]
        if not used:
            return torch.zeros((), device=self._parameters[0].device)
        gradients = [gradient for _, gradient, _ in used]
        fused = self._parameters[0].device.type in ("cpu", "cuda")
        with torch.no_grad():
            norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
            divisor = ((norm + _LEAST_NORM) / max_norm).clamp_(min=1)
            if not fused:
                torch._foreach_div_(gradients, divisor)
            adam(
                [parameter for parameter, _, _ in used],
                gradients,
                [moments["exp_avg"] for _, _, moments in used],
                [moments["exp_avg_sq"] for _, _, moments in used],
                [],
                [moments["step"] for _, _, moments in used],
                fused=fused,
                grad_scale=divisor if fused else None,  # scaled in passing
                amsgrad=False,
                beta1=self._betas[0],
                beta2=self._betas[1],
                lr=learning_rate,
                weight_decay=0.0,
                eps=self._eps,
                maximize=False,
            )
        return norm
