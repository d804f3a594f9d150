"""The network contract: from named observation leaves to named heads.

An algorithm says which heads it needs and a network plugin supplies the body, so that any algorithm runs on any
network. The module's forward signature is fixed::

    forward(observation: dict[str, Tensor], privileged: dict[str, Tensor], state: dict[str, Tensor])
        -> tuple[dict[str, Tensor], dict[str, Tensor]]          # heads, new recurrent state

Observations arrive in the environment's dtypes (uint8 images stay uint8) and are widened inside. Head outputs
are ``[n, size] float32``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from gymnasium import Space

__all__ = ["NetworkRequest"]


@frozen(kw_only=True)
class NetworkRequest:
    """What an algorithm asks of a network.

    Args:
        observation: Spaces of the observation leaves that every head may read.
        privileged: Spaces of the leaves that only critic heads may read; may be empty.
        heads: Output sizes of the heads that read `observation` alone, by name.
        critic_heads: Output sizes of the heads that also read `privileged`.
        head_gain: Orthogonal initialisation gain of a head's last layer; 1 where not given.
    """

    observation: Mapping[str, Space[Any]]
    privileged: Mapping[str, Space[Any]] = field(factory=dict)
    heads: Mapping[str, int]
    critic_heads: Mapping[str, int] = field(factory=dict)
    head_gain: Mapping[str, float] = field(factory=dict)
