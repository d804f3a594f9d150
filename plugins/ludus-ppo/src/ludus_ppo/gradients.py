"""The gradient of a minibatch, computed in chunks by several threads."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

__all__ = ["ChunkedGradient", "torch_threads"]

_Result = TypeVar("_Result")


class ChunkedGradient:
    """Sums the gradients of chunks, computed at the same time by several threads.

    Chunks are handed out one by one, so a thread that shares its core with another process simply does fewer of
    them. Gradients are added in the order of the chunks: the sum depends neither on timing nor on the number of
    threads.

    Args:
        model: The module to differentiate.
        threads: How many work at most, the calling one included; ≥ 1.
    """

    def __init__(self, model: nn.Module, threads: int) -> None:
        self.threads = threads
        self._models = [model, *(_replica(model) for _ in range(threads - 1))]
        # every thread of a process has its own number of OpenMP threads, at first that of the environment
        self._pool = ThreadPoolExecutor(
            max(1, threads - 1), thread_name_prefix="gradient", initializer=torch.set_num_threads, initargs=(1,)
        )

    def compute(self, chunks: int, backward: Callable[[nn.Module, int], _Result]) -> list[_Result]:
        """Leave the sum of the chunks' gradients in the model's parameters and return their results in order.

        Args:
            chunks: How many; ≥ 1.
            backward: Gets the module to use and the number of a chunk, and adds the gradient of that chunk to the
                `grad` of the module's parameters. Called by several threads at once, with different modules.

        Raises:
            Exception: `backward` raised it.
        """
        work = _Work(chunks, backward)
        helpers = [self._pool.submit(work.run, model) for model in self._models[1:chunks]]
        try:
            work.run(self._models[0])
        finally:
            begun = [helper for helper in helpers if not helper.cancel()]
            errors = [error for helper in begun if (error := helper.exception())]
        if errors:
            raise errors[0]
        for parameter, gradient in zip(self._models[0].parameters(), work.total, strict=True):
            parameter.grad = gradient
        return [work.results[chunk] for chunk in range(chunks)]


class _Work(Generic[_Result]):
    """The chunks of one minibatch."""

    def __init__(self, chunks: int, backward: Callable[[nn.Module, int], _Result]) -> None:
        self.results: dict[int, _Result] = {}
        self.total: list[Tensor | None] = []
        self._chunks = chunks
        self._backward = backward
        self._next = itertools.count()
        self._lock = threading.Lock()
        self._early: dict[int, list[Tensor | None]] = {}  # gradients that wait for those of chunks before them
        self._added = 0

    def run(self, model: nn.Module) -> None:
        """Compute chunks until none is left."""
        parameters = list(model.parameters())
        while (chunk := next(self._next)) < self._chunks:
            for parameter in parameters:
                parameter.grad = None
            try:
                self.results[chunk] = self._backward(model, chunk)
            except Exception:  # of any kind: it is raised again, and no thread need begin another chunk
                self._next = itertools.count(self._chunks)
                raise
            gradients = [parameter.grad for parameter in parameters]
            with self._lock:
                self._early[chunk] = gradients
                self._add()

    def _add(self) -> None:
        while (gradients := self._early.pop(self._added, None)) is not None:
            if not self._added:
                self.total = gradients
            else:
                for total, gradient in zip(self.total, gradients, strict=True):
                    if total is not None and gradient is not None:
                        total.add_(gradient)
            self._added += 1


def _replica(model: nn.Module) -> nn.Module:
    """Return a copy that shares the values of parameters and buffers, but has gradients of its own."""
    shared: dict[int, object] = {id(buffer): buffer for buffer in model.buffers()}
    shared |= {
        id(parameter): nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad)
        for parameter in model.parameters()
    }
    return copy.deepcopy(model, shared)


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let single operations of torch use so many threads meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
