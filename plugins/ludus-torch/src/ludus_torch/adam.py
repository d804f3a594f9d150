"""Adam for trainers: light to import, and with a state that exists before the first step."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

_NORM_EPSILON = 1e-6  # as in `torch.nn.utils.clip_grad_norm_`


class Adam:
    """The Adam optimizer, equal to `torch.optim.Adam` with gradient clipping.

    `torch.optim.Adam` imports torch's compiler, which takes seconds and 70 MB in every learner. This class calls the
    function that does its work.

    Args:
        parameters: Parameters by name, on one device. Those that need no gradient are ignored.
        betas: Decay of the means of gradients and of squared gradients, [0, 1).
        eps: Term added to the denominator, > 0.

    Attributes:
        state: The live tensors ``"adam/step/NAME"`` ``[]``, ``"adam/exp_avg/NAME"`` and ``"adam/exp_avg_sq/NAME"`` of
            the parameter's shape. To resume, copy saved values into them.
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
        """Reset the gradients to None."""
        for parameter in self._parameters:
            parameter.grad = None

    def step(self, *, learning_rate: float | Tensor, max_norm: float = math.inf) -> Tensor:
        """Make one step with the parameters that have a gradient, and return the gradient norm ``[]`` before clipping.

        Args:
            learning_rate: Step size, > 0. A tensor ``[]`` on the parameters' device may change between the replays of a
                CUDA graph.
            max_norm: Largest L2 norm of all gradients together, > 0. Larger ones are scaled down, possibly in place.
        """
        used = [(p, p.grad, m) for p, m in zip(self._parameters, self._moments, strict=True) if p.grad is not None]
        if not used:
            return torch.zeros((), device=self._parameters[0].device)
        parameters, gradients, moments = (list(column) for column in zip(*used, strict=True))
        fused = self._parameters[0].device.type in ("cpu", "cuda")
        with torch.no_grad():
            norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
            divisor = ((norm + _NORM_EPSILON) / max_norm).clamp_(min=1)
            if not fused:
                torch._foreach_div_(gradients, divisor)
            adam(
                parameters,
                gradients,
                [moment["exp_avg"] for moment in moments],
                [moment["exp_avg_sq"] for moment in moments],
                [],
                [moment["step"] for moment in moments],
                fused=fused,
                grad_scale=divisor if fused else None,  # clips within the same kernel
                amsgrad=False,
                beta1=self._betas[0],
                beta2=self._betas[1],
                lr=learning_rate,
                weight_decay=0.0,
                eps=self._eps,
                maximize=False,
            )
        return norm
