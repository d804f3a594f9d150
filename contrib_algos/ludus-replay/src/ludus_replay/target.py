"""Target networks."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

__all__ = ["TargetNetwork"]


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

    @torch.no_grad()
    def update(self, tau: float) -> None:
        """Move the parameters by the share `tau` towards those of the online module, and copy its buffers."""
        for target, online in zip(self.module.parameters(), self._online.parameters(), strict=True):
            target.lerp_(online, tau)
        for target_buffer, online_buffer in zip(self.module.buffers(), self._online.buffers(), strict=True):
            target_buffer.copy_(online_buffer)

    def reset(self) -> None:
        """Copy the online module."""
        self.module.load_state_dict(self._online.state_dict())

    def state(self) -> dict[str, Tensor]:
        """Return the live parameters and buffers as ``"target/NAME"``."""
        return {f"target/{name}": tensor for name, tensor in self.module.state_dict().items()}
