"""The inference runtime ``dummy-torch``, which runs networks by torch."""

from __future__ import annotations

from ludus.inference import Eager
from ludus.network import NetworkRequest
from torch import nn

__all__ = ["plain"]


def plain(config: None, *, module: nn.Module, request: NetworkRequest) -> Eager:
    """Make the runtime."""
    del config
    return Eager(module, request)
