"""Adam, with a state that can be saved before the first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ludus_ppo.config import PPOConfig

__all__ = ["adam_state", "make_adam"]


def make_adam(parameters: Sequence[nn.Parameter], config: PPOConfig) -> torch.optim.Adam:
    """Make the optimiser of parameters that lie on one device."""
    return torch.optim.Adam(
        parameters,
        lr=config.learning_rate,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_eps,
        fused=parameters[0].device.type in ("cpu", "cuda"),
    )


def adam_state(optimizer: torch.optim.Adam, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """Give Adam its moments now rather than at the first step, and return them.

    Args:
        optimizer: Has not made a step.
        parameters: Its parameters by name; those that need no gradient are left out.

    Returns:
        The live tensors, ``"adam/step/NAME"``, ``"adam/exp_avg/NAME"`` and ``"adam/exp_avg_sq/NAME"``.
    """
    named: dict[str, Tensor] = {}
    for name, parameter in parameters.items():
        if not parameter.requires_grad:
            continue
        moments = optimizer.state[parameter]
        moments["step"] = torch.zeros((), device=parameter.device)
        moments["exp_avg"] = torch.zeros_like(parameter, requires_grad=False)
        moments["exp_avg_sq"] = torch.zeros_like(parameter, requires_grad=False)
        named |= {f"adam/{key}/{name}": tensor for key, tensor in moments.items()}
    return named
