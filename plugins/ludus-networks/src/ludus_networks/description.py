"""Describe networks as text."""

from __future__ import annotations

from torch import nn

from ludus_networks.recurrent import RecurrentCore


def count_parameters(module: nn.Module) -> int:
    """Return the number of parameters of `module`."""
    return sum(parameter.numel() for parameter in module.parameters())


def describe(module: nn.Module, *, depth: int = 3) -> str:
    """Return the parts of a module that have parameters, one per line, with their numbers of parameters.

    Args:
        module: Any module.
        depth: Number of levels to show; deeper levels are summed up.
    """
    rows = [("all", module), *_parts(module, 0, depth)]
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label:<{width}}  {count_parameters(part):>12,}  {_format_sizes(part)}" for label, part in rows)


def _parts(module: nn.Module, level: int, depth: int) -> list[tuple[str, nn.Module]]:
    rows: list[tuple[str, nn.Module]] = []
    for name, part in module.named_children():
        if level < depth and count_parameters(part):
            rows += [("  " * (level + 1) + name, part), *_parts(part, level + 1, depth)]
    return rows


def _format_sizes(part: nn.Module) -> str:
    """Return the sizes of a layer; an empty text for modules that consist of others."""
    if isinstance(part, nn.Linear):
        return f"linear {part.in_features} → {part.out_features}"
    if isinstance(part, nn.Conv2d):
        kernel = " by ".join(map(str, part.kernel_size))
        return f"convolution {kernel}, {part.in_channels} → {part.out_channels}"
    if isinstance(part, RecurrentCore):
        return f"{part.kind} {part.weight_ih.shape[1]} → {part.size}"
    return ""
