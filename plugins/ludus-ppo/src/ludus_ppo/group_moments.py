"""Mean and variance over a process group."""

from __future__ import annotations

from ludus.group import Group
from torch import Tensor


def group_moments(numbers: Tensor, group: Group) -> tuple[Tensor, Tensor]:
    """Return mean and variance, ``[]`` each, of the numbers ``[n]`` of all processes of a group."""
    mean = numbers.mean()
    group.mean([mean], weight=len(numbers))
    variance = (numbers - mean).square().mean()
    group.mean([variance], weight=len(numbers))
    return mean, variance
