"""Groups of trainers in the threads of one process: what `ludus.group.Group` promises, without other processes."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ludus.algorithm import GroupTrainer, UpdateResult
from ludus.errors import ContractError, LinkError
from ludus.group import Alone
from ludus.segment import SegmentBatch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Leaving", "update_together"]

_PATIENCE_S = 60.0


@define
class _Room:
    """Where the threads of a group lay down what they exchange."""

    size: int
    said: list[Any] = field(init=False)
    barrier: threading.Barrier = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.said = [None] * self.size
        self.barrier = threading.Barrier(self.size, timeout=_PATIENCE_S)

    def exchange(self, rank: int, value: Any) -> list[Any]:
        """Return what all of them say, by rank."""
        self.said[rank] = value
        try:
            self.barrier.wait()
            everything = [*self.said]
            self.barrier.wait()
        except threading.BrokenBarrierError:
            raise LinkError("another trainer of the group is gone") from None
        return everything


@define
class _ThreadGroup:
    """A thread's place in a group; see `ludus.group.Group`."""

    room: _Room
    rank: int

    @property
    def size(self) -> int:
        """Return how many threads there are."""
        return self.room.size

    def mean(self, tensors: Sequence[Tensor], *, weight: float = 1.0) -> None:
        """Replace tensors by their means."""
        said = self.room.exchange(self.rank, (weight, [tensor.detach().clone() for tensor in tensors]))
        _check_alike([theirs for _, theirs in said])
        total = sum(weight for weight, _ in said)
        for i, tensor in enumerate(tensors):
            tensor.copy_(sum(weight * theirs[i] for weight, theirs in said) / total)

    def least(self, number: float) -> float:
        """Return the least number."""
        return float(min(self.room.exchange(self.rank, number)))

    def copy(self, tensors: Sequence[Tensor], *, source: int) -> None:
        """Replace tensors by those of one trainer."""
        said = self.room.exchange(self.rank, [tensor.detach().clone() for tensor in tensors])
        _check_alike(said)
        for tensor, theirs in zip(tensors, said[source], strict=True):
            tensor.copy_(theirs)


@define
class Leaving:
    """A group whose other trainer says the same as this one, until it leaves; see `ludus.group.Group`.

    Args:
        last: After so many exchanges it is gone.

    Attributes:
        exchanges: How many there have been.
    """

    last: float = math.inf
    exchanges: int = field(default=0, init=False)
    rank: int = field(default=0, init=False)
    size: int = field(default=2, init=False)

    def _exchange(self) -> None:
        if self.exchanges == self.last:
            raise LinkError("the other trainer of the group is gone")
        self.exchanges += 1

    def mean(self, tensors: Sequence[Tensor], *, weight: float = 1.0) -> None:  # noqa: ARG002 - the contract's
        """Leave tensors as they are."""
        self._exchange()

    def least(self, number: float) -> float:
        """Return the number."""
        self._exchange()
        return number

    def copy(self, tensors: Sequence[Tensor], *, source: int) -> None:  # noqa: ARG002 - the contract's
        """Leave tensors as they are."""
        self._exchange()


def _check_alike(said: list[list[Tensor]]) -> None:
    first, *others = ([(tensor.shape, tensor.dtype) for tensor in tensors] for tensors in said)
    if any(other != first for other in others):
        raise ContractError(f"the trainers of a group exchange different things: {first}, {others}")


def update_together(
    trainers: Sequence[GroupTrainer], parts: Sequence[SegmentBatch], *, progress: float = 0.0
) -> list[UpdateResult]:
    """Let trainers compute one update as a group, each in a thread of its own, and then be alone again.

    Args:
        trainers: With equal weights and state.
        parts: Of the batch, one for each; see `SegmentBatch.divide`.
        progress: See `ludus.algorithm.Trainer.update`.

    Raises:
        ContractError: Of the first of them that raised it; of the others this ended the update, too.
    """
    room = _Room(len(trainers))

    def update(rank: int) -> UpdateResult:
        trainers[rank].join(_ThreadGroup(room, rank))
        try:
            return trainers[rank].update(parts[rank], progress=progress)
        except BaseException:
            room.barrier.abort()
            raise
        finally:
            trainers[rank].join(Alone())

    with ThreadPoolExecutor(len(trainers)) as pool:
        updates = [pool.submit(update, rank) for rank in range(len(trainers))]
    errors = [error for update in updates if (error := update.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, LinkError)):
        raise error
    return [update.result() for update in updates]
