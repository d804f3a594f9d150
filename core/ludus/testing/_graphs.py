"""Graphs without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from unittest import mock

from attrs import define, field

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ludus.graphs import GraphedCallable, _Recording


@define
class _Repeated:
    """Calls the function again with the inputs where they lie, which is what a graph does."""

    function: Callable[[Any], tuple[Tensor, ...]]
    inputs: Any
    recording: _Recording = field(init=False)

    def replay(self) -> None:
        self.recording.outputs = self.function(self.inputs)


@contextmanager
def recorded_on_cpu() -> Iterator[list[Callable[[Any], tuple[Tensor, ...]]]]:
    """Let `ludus.graphs.GraphedCallable` work without a GPU, with the same calls and the same tensors written to.

    Returns:
        The functions that were recorded, one for each recording.
    """
    from ludus.graphs import GraphedCallable, _Recording  # noqa: PLC0415 - importing torch takes seconds

    made: list[Callable[[Any], tuple[Tensor, ...]]] = []

    def record(recorded: GraphedCallable[Any], inputs: Any, _: torch.device) -> _Recording:
        graph = _Repeated(recorded._function, inputs)
        graph.recording = _Recording(cast("torch.cuda.CUDAGraph", graph), tuple(inputs.named().values()), ())
        made.append(recorded._function)
        return graph.recording

    with mock.patch.object(GraphedCallable, "_record", record):
        yield made
