"""A network for checks without a network plugin, in a module of its own because importing torch takes a second."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space
from torch import Tensor, nn

from ludus.network import NetworkRequest


class TinyNetwork(nn.Module):
    """One hidden layer per kind of head; see `ludus.network`. The heads are in another order than in the request.

    Args:
        request: Requested heads and available leaves.
    """

    def __init__(self, request: NetworkRequest) -> None:
        super().__init__()
        self._privileged = tuple(request.privileged)
        size = sum(_size(space) for space in request.observation.values())
        critic_size = size + sum(_size(space) for space in request.privileged.values())
        self.actor = nn.Sequential(nn.Linear(size, 16), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(critic_size, 16), nn.Tanh())
        self.heads = nn.ModuleDict({name: nn.Linear(16, n) for name, n in request.heads.items()})
        self.critic_heads = nn.ModuleDict({name: nn.Linear(16, n) for name, n in request.critic_heads.items()})

    def forward(
        self, observation: dict[str, Tensor], privileged: dict[str, Tensor], state: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the heads and the unchanged, empty state."""
        flat = [leaf.reshape(leaf.shape[0], -1).float() for leaf in observation.values()]
        features = self.actor(torch.cat(flat, dim=1))
        outputs = {name: head(features) for name, head in self.heads.items()}
        if self._privileged and not privileged:
            return outputs, state
        flat += [privileged[name].reshape(privileged[name].shape[0], -1).float() for name in self._privileged]
        features = self.critic(torch.cat(flat, dim=1))
        values = {name: self.critic_heads[name](features) for name in reversed(list(self.critic_heads))}
        return values | outputs, state


def _size(space: Space[Any]) -> int:
    return int(np.prod(space.shape or ()))
