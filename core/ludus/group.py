"""Process groups: trainers of one player in several processes that compute every update together.

Each process reads a shard of the batch. All processes of a group begin an update with equal weights and state, and end
it with equal ones; they exchange what depends on the whole batch, such as gradients. All call the same methods in the
same order. A process that raises in between leaves the group, so that the others do not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["Alone", "Group", "in_turn", "mean_gradients"]


class Group(Protocol):
    """Exchanges values between the trainers of a group. Every method waits for all of them.

    Raises:
        LinkError: A process has left or timed out; the group cannot be used any more.
    """

    @property
    def rank(self) -> int:
        """Return the rank of this process, from 0."""

    @property
    def size(self) -> int:
        """Return the number of processes."""

    def mean(self, tensors: Sequence[Tensor], *, weight: float = 1.0) -> None:
        """Replace tensors by their weighted means over the group, in place.

        Args:
            tensors: Tensors of one floating dtype on one device, with the same shapes in all processes.
            weight: Weight of this process, ≥ 0, for example its number of decisions.
        """

    def least(self, number: float) -> float:
        """Return the least of the numbers that the processes pass."""

    def copy(self, tensors: Sequence[Tensor], *, source: int) -> None:
        """Replace tensors by those of one process, in place.

        Args:
            tensors: Tensors with the same shapes and dtypes in all processes.
            source: Rank of the process to copy from.
        """


class Alone:
    """A group of one process; see `Group`."""

    rank, size = 0, 1

    def mean(self, tensors: Sequence[Tensor], *, weight: float = 1.0) -> None:
        """Leave tensors unchanged."""

    def least(self, number: float) -> float:
        """Return the number."""
        return number

    def copy(self, tensors: Sequence[Tensor], *, source: int) -> None:
        """Leave tensors unchanged."""


def in_turn(group: Group, change: Callable[[], None], tensors: Sequence[Tensor]) -> None:
    """Let the processes of a group change tensors one after another, each starting from the result of the one before.

    So running statistics include the data of all processes.

    Args:
        group: Group whose tensors are equal before and after.
        change: Changes the tensors in place.
        tensors: All tensors that `change` changes.
    """
    for rank in range(group.size):
        if rank == group.rank:
            change()
        group.copy(tensors, source=rank)


def mean_gradients(group: Group, parameters: Sequence[nn.Parameter], *, weight: float) -> None:
    """Replace gradients by their weighted means over a group.

    Args:
        group: Group whose processes all call this.
        parameters: Parameters with gradients; a missing gradient counts as 0.
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
