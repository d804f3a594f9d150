"""Groups: trainers of one player in several processes that compute every update together, each on a part of the batch.

All of a group begin an update with equal weights and state and leave it with equal ones. What must be known of the
whole batch for that, such as the gradient, they exchange; every one of them calls the same methods in the same order.
One that raises in between leaves the group, so that nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["Alone", "Group", "in_turn", "mean_gradients"]


class Group(Protocol):
    """What the trainers of a group exchange by. Every method waits for all of them.

    Raises:
        LinkError: One of them is gone, or has not come for too long; the group is of no use any more.
    """

    @property
    def rank(self) -> int:
        """Return the number of this trainer, from 0."""

    @property
    def size(self) -> int:
        """Return how many there are."""

    def mean(self, tensors: Sequence[Tensor], *, weight: float = 1.0) -> None:
        """Replace tensors by their means over the group, in place.

        Args:
            tensors: Of one floating dtype on one device, with the same shapes everywhere.
            weight: What those of this trainer count, for example the decisions that they are means of; ≥ 0.
        """

    def least(self, number: float) -> float:
        """Return the least of the numbers that all call this with."""

    def copy(self, tensors: Sequence[Tensor], *, source: int) -> None:
        """Replace tensors by those of one trainer, in place.

        Args:
            tensors: With the same shapes and dtypes everywhere.
            source: Whose.
        """


class Alone:
    """A group of one; see `Group`."""

    rank, size = 0, 1

    def mean(self, tensors: Sequence[Tensor], *, weight: float = 1.0) -> None:
        """Leave tensors as they are."""

    def least(self, number: float) -> float:
        """Return the number."""
        return number

    def copy(self, tensors: Sequence[Tensor], *, source: int) -> None:
        """Leave tensors as they are."""


def in_turn(group: Group, change: Callable[[], None], tensors: Sequence[Tensor]) -> None:
    """Let all of a group change tensors one after the other, each going on from what the one before has made.

    So running statistics count what all of them have seen.

    Args:
        group: Whose tensors are equal before, and will be.
        change: Changes them in place.
        tensors: All that it changes.
    """
    for rank in range(group.size):
        if rank == group.rank:
            change()
        group.copy(tensors, source=rank)


def mean_gradients(group: Group, parameters: Sequence[nn.Parameter], *, weight: float) -> None:
    """Replace gradients by their means over a group: those of what all of them have computed a loss of.

    Args:
        group: All of which call this.
        parameters: With gradients; those of others count as 0.
        weight: See `Group.mean`.
    """
    if group.size == 1:
        return
    gradients = []
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = parameter.new_zeros(parameter.shape)
        gradients.append(parameter.grad)
    group.mean(gradients, weight=weight)
