"""Groups of trainers without other processes: in threads, or with a simulated second trainer."""

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


_TIMEOUT_S = 60.0


@define
class _Exchange:
    """Shared memory of the threads of a group.

    Args:
        size: Number of threads.
    """

    size: int
    _values: list[Any] = field(init=False)
    _barrier: threading.Barrier = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._values = [None] * self.size
        self._barrier = threading.Barrier(self.size, timeout=_TIMEOUT_S)

    def gather(self, rank: int, value: Any) -> list[Any]:
        """Return the values of all threads, by rank."""
        self._values[rank] = value
        try:
            self._barrier.wait()
            values = [*self._values]
            self._barrier.wait()
        except threading.BrokenBarrierError:
            raise LinkError("another trainer of the group failed") from None
        return values

    def abort(self) -> None:
        """Make all current and later calls of `gather` fail."""
        self._barrier.abort()


@define
class _ThreadGroup:
    """The group of one thread; see `ludus.group.Group`."""

    exchange: _Exchange
    rank: int

    @property
    def size(self) -> int:
        """Return the number of threads."""
        return self.exchange.size

    def mean(self, tensors: Sequence[Tensor], *, weight: float = 1.0) -> None:
        """Replace tensors by their weighted means."""
        shares = self.exchange.gather(self.rank, (weight, [tensor.detach().clone() for tensor in tensors]))
        _require_same_shapes([copies for _, copies in shares])
        total = sum(weight for weight, _ in shares)
        for i, tensor in enumerate(tensors):
            tensor.copy_(sum(weight * copies[i] for weight, copies in shares) / total)

    def least(self, number: float) -> float:
        """Return the least number."""
        return float(min(self.exchange.gather(self.rank, number)))

    def copy(self, tensors: Sequence[Tensor], *, source: int) -> None:
        """Replace tensors by those of one thread."""
        shares = self.exchange.gather(self.rank, [tensor.detach().clone() for tensor in tensors])
        _require_same_shapes(shares)
        for tensor, copied in zip(tensors, shares[source], strict=True):
            tensor.copy_(copied)


def _require_same_shapes(shares: list[list[Tensor]]) -> None:
    first, *others = ([(tensor.shape, tensor.dtype) for tensor in tensors] for tensors in shares)
    if any(other != first for other in others):
        raise ContractError(f"the trainers of a group exchange different tensors: {first}, {others}")


@define
class BreakingGroup:
    """A group of two whose other trainer has the same values, until the group breaks; see `ludus.group.Group`.

    Args:
        last: Number of exchanges after which the group breaks.

    Attributes:
        exchanges: Number of exchanges so far.
    """

    last: float = math.inf
    exchanges: int = field(default=0, init=False)
    rank: int = field(default=0, init=False)
    size: int = field(default=2, init=False)

    def _count_exchange(self) -> None:
        if self.exchanges == self.last:
            raise LinkError("the other trainer of the group failed")
        self.exchanges += 1

    def mean(self, tensors: Sequence[Tensor], *, weight: float = 1.0) -> None:  # noqa: ARG002 - see the protocol
        """Keep the tensors."""
        self._count_exchange()

    def least(self, number: float) -> float:
        """Return the number."""
        self._count_exchange()
        return number

    def copy(self, tensors: Sequence[Tensor], *, source: int) -> None:  # noqa: ARG002 - see the protocol
        """Keep the tensors."""
        self._count_exchange()


def update_together(
    trainers: Sequence[GroupTrainer], parts: Sequence[SegmentBatch], *, progress: float = 0.0
) -> list[UpdateResult]:
    """Compute one update of a group of trainers, each in its own thread.

    Args:
        trainers: Trainers with equal weights and state; they leave the group afterwards.
        parts: Part of the batch of each trainer; see `SegmentBatch.divide`.
        progress: See `ludus.algorithm.Trainer.update`.

    Raises:
        ContractError: A trainer raised it, which also ends the update of the others.
    """
    exchange = _Exchange(len(trainers))

    def update(rank: int) -> UpdateResult:
        trainers[rank].join(_ThreadGroup(exchange, rank))
        try:
            return trainers[rank].update(parts[rank], progress=progress)
        except BaseException:
            exchange.abort()
            raise
        finally:
            trainers[rank].join(Alone())

    with ThreadPoolExecutor(len(trainers)) as pool:
        updates = [pool.submit(update, rank) for rank in range(len(trainers))]
    errors = [error for update in updates if (error := update.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, LinkError)):  # others cause a LinkError
        raise error
    return [update.result() for update in updates]
