"""CUDA graphs: record a function of tensors once per shape and replay it with a single launch."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import torch
from attrs import define
from torch import Tensor
from torch.utils._pytree import tree_map

_MAX_RECORDINGS = 64  # each takes memory on the GPU

_log = logging.getLogger("ludus.torch")


class TensorRecord(Protocol):
    """The argument of a graphed function: a record of tensors."""

    def named(self) -> Mapping[str, Tensor]:
        """Return all tensors of the record, which lie on the GPU, by name."""


_Inputs = TypeVar("_Inputs", bound=TensorRecord)
_Outputs = TypeVar("_Outputs")


@define
class _Recording(Generic[_Outputs]):
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]  # the tensors that the graph reads
    outputs: _Outputs  # the tensors that the graph writes


class GraphedCallable(Generic[_Inputs, _Outputs]):
    """A function of tensors on a GPU that becomes a CUDA graph.

    Launching a small kernel takes the CPU longer than the kernel takes the GPU. A graph launches hundreds of them at
    once. The first call with new shapes calls the function, the second one records it, later calls replay the
    recording. At most 64 shapes are recorded; others call the function.

    Args:
        function: Returns a tensor, or a dict, tuple or list of tensors. Other tensors that it reads or changes must
            keep their addresses, and numbers that it reads must not change. It must not wait for the GPU. If recording
            fails, a warning is logged and the function is called from then on.
    """

    def __init__(self, function: Callable[[_Inputs], _Outputs]) -> None:
        self._function = function
        self._calls: Counter[Hashable] = Counter()  # by the shapes that are not recorded
        self._recordings: dict[Hashable, _Recording[_Outputs]] = {}
        self._is_recordable = True
        self._pool: Any = None  # memory pool of all recordings; its type depends on the version of torch

    def __call__(self, inputs: _Inputs) -> _Outputs:
        """Return the outputs of the function, in tensors that later calls do not overwrite.

        Args:
            inputs: The argument. Later calls may overwrite its tensors.
        """
        if not self._is_recordable:
            return self._function(inputs)
        tensors = inputs.named()
        key = tuple((name, tensor.shape, tensor.dtype) for name, tensor in tensors.items())
        recording = self._recordings.get(key)
        if recording is not None:
            _copy_inputs(tensors.values(), recording.inputs)
        elif self._should_record(key):
            recording = self._record(inputs, next(iter(tensors.values())).device)
        if recording is None:
            return self._function(inputs)
        self._recordings[key] = recording
        recording.graph.replay()
        outputs: _Outputs = tree_map(torch.clone, recording.outputs)
        return outputs

    def _should_record(self, key: Hashable) -> bool:
        self._calls[key] += 1
        return self._calls[key] > 1 and len(self._recordings) < _MAX_RECORDINGS

    def _record(self, inputs: _Inputs, device: torch.device) -> _Recording[_Outputs] | None:
        """Record the function, which computes nothing meanwhile. Return None if that fails."""
        if self._pool is None:  # shared: recordings run one after another, and their outputs are copied
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.device(device):
                stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
                with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
                    outputs = self._function(inputs)
        except Exception as error:  # noqa: BLE001 - networks may run anything that cannot be recorded
            self._is_recordable = False
            reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            _log.warning("GPU work cannot be recorded as a CUDA graph (%s); kernels are launched one by one", reason)
            return None
        return _Recording(graph, tuple(inputs.named().values()), outputs)


def _copy_inputs(tensors: Iterable[Tensor], into: Iterable[Tensor]) -> None:
    """Copy the tensors that do not share memory with the input of the recording."""
    moved = [(new, old) for new, old in zip(tensors, into, strict=True) if new.data_ptr() != old.data_ptr()]
    copy_together((new for new, _ in moved), into=(old for _, old in moved))


def copy_together(tensors: Iterable[Tensor], *, into: Iterable[Tensor]) -> None:
    """Copy tensors into others of the same shapes, dtypes and devices, with one launch per dtype."""
    groups: dict[tuple[torch.device, torch.dtype], tuple[list[Tensor], list[Tensor]]] = {}
    for source, target in zip(tensors, into, strict=True):
        sources, targets = groups.setdefault((source.device, source.dtype), ([], []))
        sources.append(source)
        targets.append(target)
    for sources, targets in groups.values():
        torch._foreach_copy_(targets, sources)
