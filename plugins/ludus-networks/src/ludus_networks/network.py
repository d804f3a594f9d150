"""The networks: encoders with heads on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from gymnasium import Space
from ludus.network import NetworkRequest
from ludus_torch.linear import apply_heads
from torch import Tensor, nn

from ludus_networks.config import ConvConfig, MLPConfig
from ludus_networks.encoders import ConvEncoder, MLPEncoder, initialised

__all__ = ["HeadedNetwork", "make_conv", "make_mlp"]

Encoder = MLPEncoder | ConvEncoder


class HeadedNetwork(nn.Module):
    """Linear heads on the features of encoders.

    The policy's encoder reads `observation` alone. Critic heads read the same features, or those of an encoder of
    their own, joined with the features of an encoder of the privileged leaves; so nothing privileged can reach the
    other heads.

    Args:
        request: The heads wanted and the leaves there are.
        encode: Makes an encoder of observation leaves.
        encode_privileged: Makes an encoder of privileged leaves.
        separate_critic: Whether critic heads get an observation encoder of their own.
    """

    def __init__(
        self,
        request: NetworkRequest,
        *,
        encode: Callable[[Mapping[str, Space[Any]]], Encoder],
        encode_privileged: Callable[[Mapping[str, Space[Any]]], Encoder],
        separate_critic: bool,
    ) -> None:
        super().__init__()
        self.torso = encode(request.observation)
        self.critic_torso = encode(request.observation) if separate_critic and request.critic_heads else None
        wanted = request.privileged and request.critic_heads
        self.privileged_torso = encode_privileged(request.privileged) if wanted else None
        width = self.torso.width
        critic_width = width + (self.privileged_torso.width if self.privileged_torso else 0)
        self.heads = _heads(request.heads, width, request.head_gain)
        self.critic_heads = _heads(request.critic_heads, critic_width, request.head_gain)

    def forward(
        self, observation: dict[str, Tensor], privileged: dict[str, Tensor], state: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the heads ``[n, size] float32`` and the unchanged, empty state; see `ludus.network`."""
        features = self.torso(observation)
        heads, critics = dict(self.heads.items()), dict(self.critic_heads.items())
        if self.critic_torso is None and self.privileged_torso is None:
            return apply_heads(heads | critics, features), state
        outputs = apply_heads(heads, features)
        if self.privileged_torso is not None and not privileged:
            return outputs, state
        if self.critic_torso is not None:
            features = self.critic_torso(observation)
        if self.privileged_torso is not None:
            features = torch.cat([features, self.privileged_torso(privileged)], dim=1)
        return outputs | apply_heads(critics, features), state


def _heads(sizes: Mapping[str, int], width: int, gains: Mapping[str, float]) -> nn.ModuleDict:
    return nn.ModuleDict(
        {name: initialised(nn.Linear(width, size), gains.get(name, 1.0)) for name, size in sizes.items()}
    )


def make_mlp(config: MLPConfig, *, request: NetworkRequest) -> HeadedNetwork:
    """Make a multi-layer perceptron."""
    return HeadedNetwork(
        request,
        encode=lambda leaves: MLPEncoder(leaves, config),
        encode_privileged=lambda leaves: MLPEncoder(leaves, config),
        separate_critic=config.separate_critic,
    )


def make_conv(config: ConvConfig, *, request: NetworkRequest) -> HeadedNetwork:
    """Make a convolutional network; privileged leaves pass through hidden layers alone.

    Raises:
        ContractError: No observation leaf is an image.
    """
    flat = MLPConfig(hidden=config.hidden, activation=config.activation, scale=config.scale)
    return HeadedNetwork(
        request,
        encode=lambda leaves: ConvEncoder(leaves, config),
        encode_privileged=lambda leaves: MLPEncoder(leaves, flat),
        separate_critic=config.separate_critic,
    )
