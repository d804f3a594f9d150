"""Test helpers: run graphed functions without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from unittest import mock

import torch
from attrs import define, field

from ludus_torch.cuda_graphs import GraphedCallable, _Recording


@define
class _FakeGraph:
    """Stands in for a CUDA graph: a replay calls the function again with the recorded input tensors."""

    function: Callable[[Any], Any]
    inputs: Any
    recording: _Recording[Any] = field(init=False)

    def replay(self) -> None:
        self.recording.outputs = self.function(self.inputs)


@contextmanager
def recorded_on_cpu() -> Iterator[list[Callable[[Any], Any]]]:
    """Let `GraphedCallable` record and replay on the CPU, with the calls and the copies that a GPU would see.

    Yields:
        List that receives the recorded function once per recording.
    """
    recorded: list[Callable[[Any], Any]] = []

    def record(graphed: GraphedCallable[Any, Any], inputs: Any, _: torch.device) -> _Recording[Any]:
        graph = _FakeGraph(graphed._function, inputs)
        graph.recording = _Recording(cast("torch.cuda.CUDAGraph", graph), tuple(inputs.named().values()), None)
        recorded.append(graphed._function)
        return graph.recording

    with mock.patch.object(GraphedCallable, "_record", record):
        yield recorded
