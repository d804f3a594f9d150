"""Record the matrix products of a network and measure how long this machine takes for them alone.

That time is a lower bound of every implementation: activations, normalisation, sampling, memory traffic and
bookkeeping are added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from attrs import evolve, frozen
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ludus_bench.report import Limit
from ludus_bench.timing import Rate, Task

__all__ = ["Gemm", "flops", "gemm_limit", "gemm_tasks", "numpy_task", "torch_task", "trace_gemms"]

_Operands = TypeVar("_Operands")


@frozen(kw_only=True)
class Gemm:
    """`batch` products of ``[m, k]`` by ``[k, n]``."""

    m: int
    k: int
    n: int
    batch: int = 1
    dtype: torch.dtype = torch.float32


def flops(gemms: Iterable[Gemm]) -> int:
    """Return the number of floating-point operations; a multiplication and its addition are two."""
    return sum(2 * g.batch * g.m * g.k * g.n for g in gemms)


def trace_gemms(run: Callable[[], object]) -> list[Gemm]:
    """Return the matrix products that a function computes in torch, backward passes included, in order.

    Args:
        run: Function that is called once, with gradients enabled. Products in other threads, other libraries and
            custom kernels are not recorded.
    """
    recorder = _Recorder()
    with torch.enable_grad(), recorder:
        run()
    return recorder.gemms


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call,unused-ignore] # torch has no types here
    """Record every matrix product that torch dispatches."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self.gemms: list[Gemm] = []

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        read = _READERS.get(func.overloadpacket.__name__)
        if read is None:
            with self:  # in inference mode torch dispatches whole layers
                result = func.decompose(*args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        result = func(*args, **(kwargs or {}))
        if read is not None:
            self.gemms += [evolve(gemm, dtype=args[0].dtype) for gemm in read(args, result)]
        return result


def _product(left: Tensor, right: Tensor) -> list[Gemm]:
    batch = left.shape[0] if left.dim() == 3 else 1
    return [Gemm(batch=batch, m=left.shape[-2], k=left.shape[-1], n=right.shape[-1])]


def _convolution(args: Sequence[Any], result: Tensor) -> list[Gemm]:
    return [_unfolded(args[1], result)]


def _unfolded(weight: Tensor, output: Tensor) -> Gemm:
    """Return a convolution as the product of input patches and kernels."""
    cells = output.shape[0] * output[0, 0].numel()
    return Gemm(m=cells, k=weight[0].numel(), n=weight.shape[0])


def _convolution_backward(args: Sequence[Any], _result: object) -> list[Gemm]:
    forward = _unfolded(args[2], args[0])
    needs_input, needs_weight, _ = args[-1]
    found = [Gemm(m=forward.m, k=forward.n, n=forward.k)] if needs_input else []
    return found + ([Gemm(m=forward.k, k=forward.m, n=forward.n)] if needs_weight else [])


def _recurrent(args: Sequence[Any], _result: object) -> list[Gemm]:
    """Return the products of one layer in one direction: one for all inputs, then one per step."""
    steps, rows, width = args[0].shape
    gates, hidden = args[2].shape
    return [Gemm(m=steps * rows, k=width, n=gates), *[Gemm(m=rows, k=hidden, n=gates)] * steps]


def _recurrent_backward(args: Sequence[Any], _result: object) -> list[Gemm]:
    inputs, *steps = _recurrent(args, None)
    input_gradients = [Gemm(m=g.m, k=g.n, n=g.k) for g in (inputs, *steps)]
    return [*input_gradients, *[Gemm(m=g.k, k=g.m, n=g.n) for g in (inputs, *steps)]]


_READERS: dict[str, Callable[[Sequence[Any], Any], list[Gemm]]] = {
    "mm": lambda args, _: _product(args[0], args[1]),
    "addmm": lambda args, _: _product(args[1], args[2]),
    "bmm": lambda args, _: _product(args[0], args[1]),
    "baddbmm": lambda args, _: _product(args[1], args[2]),
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "mkldnn_rnn_layer": _recurrent,
    "mkldnn_rnn_layer_backward": _recurrent_backward,
    "_cudnn_rnn": lambda args, _: _recurrent((args[0], *args[1]), None),
    "_cudnn_rnn_backward": lambda args, _: _recurrent_backward((args[0], *args[1]), None),
}


def _allocate(gemms: Iterable[Gemm], make_operands: Callable[[Gemm], _Operands]) -> list[_Operands]:
    """Return the operands of every product, in order; equal products share their operands.

    Equal products are not grouped: computed in a row, they would find their operands in the processor's cache.
    """
    gemms = list(gemms)
    operands = {gemm: make_operands(gemm) for gemm in dict.fromkeys(gemms)}
    return [operands[gemm] for gemm in gemms]


def numpy_task(gemms: Iterable[Gemm], units: float) -> Callable[[], float]:
    """Return a task that computes products in NumPy, in float32, into preallocated arrays, and returns `units`."""
    rng = np.random.default_rng(0)

    def make_operands(gemm: Gemm) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lead = (gemm.batch,) if gemm.batch > 1 else ()
        left = rng.standard_normal((*lead, gemm.m, gemm.k), dtype=np.float32)
        right = rng.standard_normal((*lead, gemm.k, gemm.n), dtype=np.float32)
        return left, right, np.empty((*lead, gemm.m, gemm.n), np.float32)

    operands = _allocate(gemms, make_operands)

    def run() -> float:
        for left, right, out in operands:
            np.matmul(left, right, out=out)
        return units

    return run


def torch_task(
    gemms: Iterable[Gemm], units: float, *, device: str = "cpu", dtype: torch.dtype | None = None
) -> Callable[[], float]:
    """Return a task that computes products in torch, into preallocated tensors, and returns `units`.

    Args:
        gemms: Products to compute.
        units: Number of units of one round.
        device: Torch device; a GPU gets all products in one launch and is synchronized.
        dtype: Precision; None: that of each product.
    """

    def make_operands(gemm: Gemm) -> tuple[Tensor, Tensor, Tensor]:
        lead, kind = (gemm.batch,) if gemm.batch > 1 else (), dtype or gemm.dtype
        left = torch.randn(*lead, gemm.m, gemm.k, device=device, dtype=kind)
        right = torch.randn(*lead, gemm.k, gemm.n, device=device, dtype=kind)
        return left, right, torch.matmul(left, right)

    operands = _allocate(gemms, make_operands)

    def multiply() -> None:
        with torch.inference_mode():
            for left, right, out in operands:
                torch.matmul(left, right, out=out)

    launch = _record_graph(multiply, device) if device.startswith("cuda") else multiply

    def run() -> float:
        launch()
        return units

    return run


def _record_graph(function: Callable[[], None], device: str) -> Callable[[], None]:
    """Return a function that runs the same kernels on a GPU in one launch and waits for them."""
    function()  # loads libraries, which cannot be recorded
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(device), torch.cuda.graph(graph):
        function()
    return partial(_replay, graph, device, function)


def _replay(graph: torch.cuda.CUDAGraph, device: str, _function: object) -> None:
    """Replay a graph; it holds only the addresses of its tensors, the function keeps them alive."""
    graph.replay()
    torch.cuda.synchronize(device)


_PRODUCTS = "products in "


def gemm_tasks(gemms: Sequence[Gemm], units: float, *, device: str = "cpu", prefix: str = "") -> dict[str, Task]:
    """Return tasks that compute matrix products only, by library; empty if there are no products.

    Args:
        gemms: Products to compute.
        units: Number of units of one round.
        device: Torch device; NumPy multiplies on the CPU only.
        prefix: Prefix of the names.
    """
    if not gemms:
        return {}
    if device == "cpu":
        tasks = {"numpy": numpy_task(gemms, units), "torch": torch_task(gemms, units)}
    else:
        tasks = {
            "torch": torch_task(gemms, units, device=device),
            "torch, bfloat16": torch_task(gemms, units, device=device, dtype=torch.bfloat16),
        }
    return {f"{prefix}{_PRODUCTS}{name}": task for name, task in tasks.items()}


def gemm_limit(rates: Mapping[str, Rate], *, scale: float = 1.0, prefix: str = "") -> Limit | None:
    """Return the rate of the fastest library as a limit; None if there were no products.

    Args:
        rates: Results of `measure`, including those of `gemm_tasks`.
        scale: Factor of the rate.
        prefix: Prefix that was passed to `gemm_tasks`.
    """
    start = f"{prefix}{_PRODUCTS}"
    products = {name: rate.median for name, rate in rates.items() if name.startswith(start)}
    if not products:
        return None
    best = max(products, key=lambda name: products[name])
    return Limit(value=scale * products[best], description=f"the matrix products alone, in {best.removeprefix(start)}")
