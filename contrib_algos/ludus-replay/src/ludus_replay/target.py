"""Target networks."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


class TargetNetwork:
    """A copy of a module that follows it with a delay and that needs no gradient.

    Args:
        online: Module that is trained.

    Attributes:
        module: The copy.
    """

    def __init__(self, online: nn.Module) -> None:
        self._online = online
        self.module = copy.deepcopy(online).requires_grad_(requires_grad=False)
        # lists, because walking through the modules takes longer than the update
        self._target_parameters: list[Tensor] = list(self.module.parameters())
        self._online_parameters: list[Tensor] = list(online.parameters())
        self._buffers = list(zip(self.module.buffers(), online.buffers(), strict=True))

    @torch.no_grad()
    def update(self, tau: float) -> None:
        """Move the parameters by the share `tau` towards those of the online module, and copy its buffers."""
        torch._foreach_lerp_(self._target_parameters, self._online_parameters, tau)
        for target, online in self._buffers:
            target.copy_(online)

    def reset(self) -> None:
        """Copy the online module."""
        self.module.load_state_dict(self._online.state_dict())

    def state(self) -> dict[str, Tensor]:
        """Return the live parameters and buffers as ``"target/NAME"``."""
        return {f"target/{name}": tensor for name, tensor in self.module.state_dict().items()}
