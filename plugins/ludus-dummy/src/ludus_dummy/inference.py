"""The inference runtime ``dummy-torch``: the one that ludus falls back to, under a name of its own."""

from __future__ import annotations

from ludus.inference import Eager
from ludus.network import NetworkRequest
from torch import nn

__all__ = ["plain"]


def plain(config: None, *, module: nn.Module, request: NetworkRequest) -> Eager:
    """Make the runtime; the factory of the component."""
    del config
    return Eager(module, request)
