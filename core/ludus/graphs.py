"""Work on a GPU that is recorded once and repeated as a whole: CUDA graphs, and the plain call where that fails."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import torch
from attrs import define
from torch import Tensor

__all__ = ["GraphedCallable", "Recordable", "copy_together"]

_MOST = 64  # recordings: each takes memory on the GPU, and a moment to make
_UNUSED = 2000  # calls, after which a recording is given up for another one

_log = logging.getLogger("ludus.graphs")


class Recordable(Protocol):
    """What a recorded function takes."""

    def named(self) -> Mapping[str, Tensor]:
        """Return all tensors on the GPU that it consists of, by name."""


_Inputs = TypeVar("_Inputs", bound=Recordable)


@define
class _Recording:
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]  # where it reads
    outputs: tuple[Tensor, ...]  # where it writes
    used: int = 0  # the call in which it was used last


class GraphedCallable(Generic[_Inputs]):
    """A function of tensors on a GPU; from the second call with the same shapes on, one launch of a CUDA graph.

    Small kernels take less time than the CPU takes to launch them, so that hundreds of them in a row leave a GPU idle.

    Args:
        function: Called with inputs of every shape at least twice, the second time to record it. What else it reads or
            changes has to stay where it is in memory, and numbers of the CPU that it reads must not change; it must not
            wait for the GPU. One that cannot be recorded, for whatever reason, is called as it is from then on.
    """

    def __init__(self, function: Callable[[_Inputs], tuple[Tensor, ...]]) -> None:
        self._function = function
        self._calls: Counter[Hashable] = Counter()  # of what is not recorded
        self._called = 0
        self._recordings: dict[Hashable, _Recording] = {}
        self._works = True
        self._pool: Any = None  # of what versions of torch call differently

    def __call__(self, inputs: _Inputs) -> tuple[Tensor, ...]:
        """Return what the function makes of the inputs, as tensors that nobody else writes to.

        Args:
            inputs: Not to be read afterwards: later calls write there. What lies where it lay when the function was
                recorded is read there, other tensors are copied there.
        """
        if not self._works:
            return self._function(inputs)
        named = inputs.named()
        key = tuple((name, tensor.shape, tensor.dtype) for name, tensor in named.items())
        device = next(iter(named.values())).device
        recording = self._recordings.get(key)
        self._called += 1
        if recording is None:
            self._calls[key] += 1
            if self._calls[key] == 1 or not self._has_room(device):
                return self._function(inputs)
            recording = self._record(inputs, device)
            if recording is None:
                return self._function(inputs)
            self._recordings[key] = recording
            del self._calls[key]
        else:
            pairs = zip(named.values(), recording.inputs, strict=True)
            elsewhere = [(new, old) for new, old in pairs if new.data_ptr() != old.data_ptr()]
            copy_together((new for new, _ in elsewhere), into=(old for _, old in elsewhere))
        recording.used = self._called
        recording.graph.replay()
        return tuple(output.clone() for output in recording.outputs)

    def _has_room(self, device: torch.device) -> bool:
        """Return whether another one may be recorded, in place of one that has not been used for long if need be."""
        if len(self._recordings) < _MOST:
            return True
        oldest = min(self._recordings, key=lambda key: self._recordings[key].used)
        if self._called - self._recordings[oldest].used < _UNUSED:
            return False
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # it may still be at it
        del self._recordings[oldest]
        return True

    def _record(self, inputs: _Inputs, device: torch.device) -> _Recording | None:
        """Record the function, which computes nothing meanwhile; None where that fails."""
        if self._pool is None:  # of one for all: they run one after another, and what one returns is copied before
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.device(device):
                stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
                with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
                    outputs = self._function(inputs)
        except Exception as error:  # noqa: BLE001 - whatever networks do that cannot be recorded
            self._works = False
            reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            _log.warning("the work on the GPU cannot be recorded (%s); it is launched piece by piece", reason)
            return None
        return _Recording(graph, tuple(inputs.named().values()), outputs)


def copy_together(tensors: Iterable[Tensor], *, into: Iterable[Tensor]) -> None:
    """Copy tensors into others of the same shapes, dtypes and devices, by one launch per dtype."""
    alike: dict[tuple[torch.device, torch.dtype], tuple[list[Tensor], list[Tensor]]] = {}
    for new, old in zip(tensors, into, strict=True):
        news, olds = alike.setdefault((new.device, new.dtype), ([], []))
        news.append(new)
        olds.append(old)
    for news, olds in alike.values():
        torch._foreach_copy_(olds, news)
