"""The network ``dummy-linear``: one linear layer per head on the flattened observation."""

from __future__ import annotations

import math
from typing import Any

import torch
from gymnasium import Space
from ludus.inference import Eager
from ludus.network import NetworkRequest
from torch import Tensor, nn

from ludus_dummy.config import LinearConfig


class _Linear(nn.Module):
    """Linear heads on the flattened leaves, ordered by name; critics also read privileged leaves."""

    def __init__(self, config: LinearConfig, request: NetworkRequest) -> None:
        super().__init__()
        self._names = sorted(request.observation)
        self._privileged_names = sorted(request.privileged)
        width = sum(_width(request.observation[name]) for name in self._names)
        extra = sum(_width(request.privileged[name]) for name in self._privileged_names)
        self.heads = nn.ModuleDict(
            {name: nn.Linear(width, size, bias=config.bias) for name, size in request.heads.items()}
        )
        self.critics = nn.ModuleDict(
            {name: nn.Linear(width + extra, size, bias=config.bias) for name, size in request.critic_heads.items()}
        )
        for name, layer in (*self.heads.items(), *self.critics.items()):
            assert isinstance(layer, nn.Linear)
            nn.init.orthogonal_(layer.weight, request.head_gain.get(name, 1.0))

    def forward(
        self, observation: dict[str, Tensor], privileged: dict[str, Tensor], state: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return heads ``[n, size]`` and the unchanged state; see `ludus.network`."""
        features = torch.cat([observation[name].flatten(1).float() for name in self._names], dim=1)  # [n, F]
        out = {name: head(features) for name, head in self.heads.items()}
        if self.critics and len(privileged) == len(self._privileged_names):
            more = [privileged[name].flatten(1).float() for name in self._privileged_names]
            all_features = torch.cat([features, *more], dim=1)  # [n, F + P]
            out |= {name: critic(all_features) for name, critic in self.critics.items()}
        return out, state


def linear(config: LinearConfig, *, request: NetworkRequest) -> nn.Module:
    """Make the network."""
    return _Linear(config, request)


def _width(space: Space[Any]) -> int:
    return math.prod(space.shape or ())


def plain(config: None, *, module: nn.Module, request: NetworkRequest) -> Eager:
    """Make the runtime."""
    del config
    return Eager(module, request)
