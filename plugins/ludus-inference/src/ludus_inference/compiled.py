"""The runtime ``compile``: torch.compile, if it is faster than plain torch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np
import torch
from ludus.environment import Leaves
from ludus.inference import Eager
from ludus.network import NetworkRequest, RecurrentNetwork
from torch import Tensor, nn

from ludus_inference.config import CompileConfig

if TYPE_CHECKING:
    from gymnasium import Space


_log = logging.getLogger("ludus.inference")
_REPEATS = 15

TensorLeaves: TypeAlias = dict[str, Tensor]
#: Weights and groups of leaves → heads and state.
CompiledCall: TypeAlias = Callable[[TensorLeaves, tuple[TensorLeaves, ...]], tuple[TensorLeaves, TensorLeaves]]


class _Batch(TypedDict):
    """Arguments of `ludus.inference.Inference.run`."""

    observation: Leaves
    privileged: Leaves
    state: Leaves


class Compiled(Eager):
    """Runs compiled code. Weights are arguments of it, so one compilation serves all slots.

    Args:
        module: Network; it holds the weights of slot 0.
        request: Request that the network was made for.
    """

    def __init__(self, module: nn.Module, request: NetworkRequest) -> None:
        super().__init__(module, request)
        self._weights = dict(module.state_dict())  # of slot 0, in the memory of the module
        self._call: CompiledCall = torch.compile(as_function(module), dynamic=True)

    def forward(self, leaves: tuple[TensorLeaves, ...], slot: int) -> tuple[TensorLeaves, TensorLeaves]:
        """Return heads and state of one slot."""
        return self._call(self._slots[slot] if slot else self._weights, leaves)


def as_function(module: nn.Module) -> CompiledCall:
    """Return a network as a function of weights and leaves."""

    def call(weights: TensorLeaves, leaves: tuple[TensorLeaves, ...]) -> tuple[TensorLeaves, TensorLeaves]:
        heads, state = torch.func.functional_call(module, weights, leaves)
        return heads, state

    return call


def log_compile_error(error: Exception) -> None:
    """Log why a network is not compiled."""
    reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    _log.warning("torch.compile failed for this network (%s); it runs uncompiled", reason)


def make_compiled(config: CompileConfig, *, module: nn.Module, request: NetworkRequest) -> Eager:
    """Make the runtime, or plain torch if compilation fails or is not faster; the factory of the component."""
    eager = Eager(module, request)
    try:
        compiled = Compiled(module, request)
        batches = [_batch(module, request, rows) for rows in (config.warm_up_rows // 2, config.warm_up_rows)]
        speedup = _seconds(eager, *batches) / _seconds(compiled, *batches)
    except Exception as error:  # noqa: BLE001 - a compiler may fail in any way
        log_compile_error(error)
        return eager
    if speedup < config.min_speedup:
        _log.info("compiled code is only %.2f times as fast as plain torch; this network runs uncompiled", speedup)
        return eager
    return compiled


def _seconds(inference: Eager, half: _Batch, full: _Batch) -> float:
    """Return the shortest time of one call, after warm-up calls with different numbers of rows."""
    for warm_up in (half, full):
        inference.run(**warm_up)
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        inference.run(**full)
        times.append(time.perf_counter() - start)
    return min(times)


def _batch(module: nn.Module, request: NetworkRequest, rows: int) -> _Batch:
    """Return inputs for rows at the start of a match."""
    state = module.initial_state(rows) if isinstance(module, RecurrentNetwork) else {}
    return {
        "observation": _lowest(request.observation, rows),
        "privileged": _lowest(request.privileged, rows),
        "state": {name: leaf.detach().numpy() for name, leaf in state.items()},
    }


def _lowest(spaces: Mapping[str, Space[Any]], rows: int) -> Leaves:
    """Return valid observations: zeros, or the start of spaces that do not start at 0."""
    return {
        name: np.full((rows, *(space.shape or ())), getattr(space, "start", 0), space.dtype)
        for name, space in spaces.items()
    }
