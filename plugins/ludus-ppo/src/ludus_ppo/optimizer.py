"""Adam, with a state that can be saved before the first step."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from ludus_ppo.config import PPOConfig

__all__ = ["Adam"]


class Adam:
    """Computes what `torch.optim.Adam` computes.

    An object of that class imports torch's compiler, which costs every learner seconds and 70 MB; the function that
    does its work does not.

    Args:
        parameters: By name, on one device; those that need no gradient are left out.
        config: Whose options of Adam count.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], config: PPOConfig) -> None:
        named = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
        self._config = config
        self._parameters = list(named.values())
        self._moments = [
            {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter, requires_grad=False),
                "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
            }
            for parameter in self._parameters
        ]
        #: The live tensors, ``"adam/step/NAME"``, ``"adam/exp_avg/NAME"`` and ``"adam/exp_avg_sq/NAME"``.
        self.state: dict[str, Tensor] = {
            f"adam/{key}/{name}": tensor
            for name, moments in zip(named, self._moments, strict=True)
            for key, tensor in moments.items()
        }

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    def step(self, *, learning_rate: float) -> None:
        """Step along the gradients of the parameters that have one."""
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
                beta1=self._config.adam_beta1,
                beta2=self._config.adam_beta2,
                lr=learning_rate,
                weight_decay=0.0,
                eps=self._config.adam_eps,
                maximize=False,
            )
