"""The matrix products of a network, and how long this machine takes for them and nothing else.

That time bounds what any implementation can reach: activations, normalisation, sampling, memory traffic and the
bookkeeping around them come on top.
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

__all__ = ["Gemm", "flops", "numpy_work", "torch_work", "trace_gemms"]

_Job = TypeVar("_Job")


@frozen(kw_only=True)
class Gemm:
    """`batch` products of ``[m, k]`` by ``[k, n]``."""

    m: int
    k: int
    n: int
    batch: int = 1
    dtype: torch.dtype = torch.float32


def flops(gemms: Iterable[Gemm]) -> int:
    """Return the floating-point operations of these products, two per multiplication and addition."""
    return sum(2 * g.batch * g.m * g.k * g.n for g in gemms)


def trace_gemms(run: Callable[[], object]) -> list[Gemm]:
    """Return the products that `run` makes in torch, forwards and backwards, in order.

    Args:
        run: Called once, with gradients enabled; it may call `backward`. What it does in other threads, by other
            libraries and in kernels of its own is not seen.
    """
    recorder = _Recorder()
    with torch.enable_grad(), recorder:
        run()
    return recorder.gemms


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call,unused-ignore] # torch has no types here
    """Notes every product that torch dispatches."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self.gemms: list[Gemm] = []

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        read = _READERS.get(func.overloadpacket.__name__)
        if read is None:
            with self:  # in inference mode torch dispatches a whole layer, which is made of products
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
    """Return a convolution as the product of its patches and its kernels."""
    cells = output.shape[0] * output[0, 0].numel()
    return Gemm(m=cells, k=weight[0].numel(), n=weight.shape[0])


def _convolution_backward(args: Sequence[Any], _result: object) -> list[Gemm]:
    forward = _unfolded(args[2], args[0])
    needs_input, needs_weight, _ = args[-1]
    found = [Gemm(m=forward.m, k=forward.n, n=forward.k)] if needs_input else []
    return found + ([Gemm(m=forward.k, k=forward.m, n=forward.n)] if needs_weight else [])


def _recurrent(args: Sequence[Any], _result: object) -> list[Gemm]:
    """Return one layer in one direction: all inputs at once, then one product per step."""
    steps, rows, width = args[0].shape
    gates, hidden = args[2].shape
    return [Gemm(m=steps * rows, k=width, n=gates), *[Gemm(m=rows, k=hidden, n=gates)] * steps]


def _recurrent_backward(args: Sequence[Any], _result: object) -> list[Gemm]:
    inputs, *steps = _recurrent(args, None)
    turned = [Gemm(m=g.m, k=g.n, n=g.k) for g in (inputs, *steps)]
    return [*turned, *[Gemm(m=g.k, k=g.m, n=g.n) for g in (inputs, *steps)]]


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


def _in_order(gemms: Iterable[Gemm], job: Callable[[Gemm], _Job]) -> list[_Job]:
    """Return the job of every product; equal ones share theirs.

    They are not grouped: made several times in a row, a product would find its numbers in the processor's cache.
    """
    gemms = list(gemms)
    jobs = {gemm: job(gemm) for gemm in dict.fromkeys(gemms)}
    return [jobs[gemm] for gemm in gemms]


def numpy_work(gemms: Iterable[Gemm], units: float) -> Callable[[], float]:
    """Return a function that makes these products in numpy, in 32 bits, without allocating, and returns `units`."""
    rng = np.random.default_rng(0)

    def job(gemm: Gemm) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lead = (gemm.batch,) if gemm.batch > 1 else ()
        left = rng.standard_normal((*lead, gemm.m, gemm.k), dtype=np.float32)
        right = rng.standard_normal((*lead, gemm.k, gemm.n), dtype=np.float32)
        return left, right, np.empty((*lead, gemm.m, gemm.n), np.float32)

    jobs = _in_order(gemms, job)

    def work() -> float:
        for left, right, out in jobs:
            np.matmul(left, right, out=out)
        return units

    return work


def torch_work(
    gemms: Iterable[Gemm], units: float, *, device: str = "cpu", dtype: torch.dtype | None = None
) -> Callable[[], float]:
    """Return a function that makes these products in torch, without allocating, and returns `units`.

    Args:
        gemms: What to multiply.
        units: What to return.
        device: Where; a GPU is waited for, and gets all of them by one launch.
        dtype: In which precision; None: each in its own.
    """

    def job(gemm: Gemm) -> tuple[Tensor, Tensor, Tensor]:
        lead, kind = (gemm.batch,) if gemm.batch > 1 else (), dtype or gemm.dtype
        left = torch.randn(*lead, gemm.m, gemm.k, device=device, dtype=kind)
        right = torch.randn(*lead, gemm.k, gemm.n, device=device, dtype=kind)
        return left, right, torch.matmul(left, right)

    jobs = _in_order(gemms, job)

    def multiply() -> None:
        with torch.inference_mode():
            for left, right, out in jobs:
                torch.matmul(left, right, out=out)

    launch = _recorded(multiply, device) if device.startswith("cuda") else multiply

    def work() -> float:
        launch()
        return units

    return work


def _recorded(function: Callable[[], None], device: str) -> Callable[[], None]:
    """Return what lets a GPU do the same, all at once, and waits for it."""
    function()  # libraries are loaded then
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(device), torch.cuda.graph(graph):
        function()
    return partial(_replay, graph, device, function)


def _replay(graph: torch.cuda.CUDAGraph, device: str, _function: object) -> None:
    """Repeat what a function did on a GPU; the graph has the addresses of its tensors, the function keeps them."""
    graph.replay()
    torch.cuda.synchronize(device)
