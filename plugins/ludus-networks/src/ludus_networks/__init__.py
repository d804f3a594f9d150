"""Network plugins of ludus: ``mlp``, ``conv``, ``modular``, and those of papers made of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def describe(module: nn.Module, *, depth: int = 3) -> str:
    """Return a network's structure and numbers of parameters; see `ludus_networks.description.describe`."""
    from ludus_networks.description import describe as describe_module  # noqa: PLC0415 - torch takes a second

    return describe_module(module, depth=depth)
