"""The matrix products and convolutions of a task alone: the time that no runtime saves."""

from __future__ import annotations

import time
import timeit
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from attrs import frozen
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ludus_bench.timing import Task

#: Operators of torch that multiply; recurrent layers are one operator each.
_OPERATORS = frozenset(
    {
        "aten::addmm",
        "aten::baddbmm",
        "aten::bmm",
        "aten::convolution",
        "aten::convolution_backward",
        "aten::mkldnn_rnn_layer",
        "aten::mkldnn_rnn_layer_backward",
        "aten::mm",
        "mkldnn::_linear_pointwise",
    }
)


@frozen
class _Shape:
    """What distinguishes tensors in calls: two calls with equal shapes take equally long."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def make(self) -> Tensor:
        """Return a tensor of this shape with random numbers."""
        made = torch.empty_strided(self.size, self.stride, dtype=self.dtype)
        return made.normal_() if self.dtype.is_floating_point else made.zero_()


@frozen
class _Call:
    operator: Callable[..., Any]
    arguments: tuple[Any, ...]

    def prepare(self) -> Callable[[], Any]:
        """Return a function that repeats the call with tensors of its own."""
        arguments = _map_tensors(self.arguments, lambda value: value.make() if isinstance(value, _Shape) else value)
        return lambda: self.operator(*arguments)

    def prepare_numpy(self) -> Callable[[], Any] | None:
        """Return a function that multiplies the same matrices by NumPy; None if it cannot."""
        name, matrices = self.operator.name(), [one for one in self.arguments if isinstance(one, _Shape)][-2:]  # type: ignore[attr-defined]
        if name not in ("aten::mm", "aten::addmm") or any(one.dtype != torch.float32 for one in matrices):
            return None
        (rows, inner), (_, columns) = (one.size for one in matrices)
        left, right = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
        out = np.empty((rows, columns), np.float32)
        return lambda: np.matmul(left, right, out=out)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the calls of multiplying operators in this thread, gradients included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[_Call] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func.name().partition(".")[0] in _OPERATORS and not kwargs:
            self.counts[_Call(func, _map_tensors(tuple(args), _shape_of))] += 1
            return func(*args)
        with self:  # without autograd, operators arrive before they are decomposed
            result = func.decompose(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {})) if result is NotImplemented else result


def _shape_of(value: Any) -> Any:
    """Return the shape of a tensor; a weight in a layout of oneDNN is kept itself."""
    if isinstance(value, Tensor) and value.layout is torch.strided:
        return _Shape(tuple(value.shape), value.stride(), value.dtype)
    return value


def _map_tensors(arguments: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return arguments, and those in lists, as a function changes them."""
    return tuple(
        _map_tensors(tuple(one), change) if isinstance(one, list | tuple) else change(one) for one in arguments
    )


def products_task(task: Task) -> Task | None:
    """Run a task once, and return one that repeats its products alone; None if it has none.

    Every product reads and writes the same memory each time, so the new task needs little of it, and is a limit: where
    NumPy multiplies faster than torch, it is used.

    Args:
        task: Task on the CPU that multiplies by torch, in the calling thread.

    Returns:
        Task with as many units as the given one.
    """
    with _Recorder() as recorder:
        units = task()
    if not recorder.counts:
        return None
    calls = [(_fastest(call), count) for call, count in recorder.counts.items()]

    def repeat() -> float:
        with torch.no_grad():
            for call, count in calls:
                for _ in range(count):
                    call()
        return units

    return repeat


def _fastest(call: _Call) -> Callable[[], Any]:
    candidates = [call.prepare()]
    if (by_numpy := call.prepare_numpy()) is not None:
        candidates.append(by_numpy)
    if len(candidates) == 1:
        return candidates[0]
    with torch.no_grad():
        return min(candidates, key=lambda one: min(timeit.repeat(one, number=10, repeat=5, timer=time.process_time)))
