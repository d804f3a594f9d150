"""The runtime ``compile``: torch.compile, kept only where it is faster than plain torch."""

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

__all__ = ["Compiled", "CompiledCall", "Leaf", "as_function", "make_compiled", "warn_of"]

_log = logging.getLogger("ludus.inference")
_REPEATS = 15

Leaf = dict[str, Tensor]
#: Weights and groups of leaves to heads and state.
CompiledCall: TypeAlias = Callable[[Leaf, tuple[Leaf, ...]], tuple[Leaf, Leaf]]


class _Batch(TypedDict):
    """What `run` takes."""

    observation: Leaves
    privileged: Leaves
    state: Leaves


class Compiled(Eager):
    """Runs compiled code for every slot: weights are its arguments, so one compilation serves all.

    Args:
        module: The network; slot 0 lives in it.
        request: What it was made for.
    """

    def __init__(self, module: nn.Module, request: NetworkRequest) -> None:
        super().__init__(module, request)
        self._weights = dict(module.state_dict())  # slot 0: the module's own memory
        self._call: CompiledCall = torch.compile(as_function(module), dynamic=True)

    def forward(self, leaves: tuple[Leaf, ...], slot: int) -> tuple[Leaf, Leaf]:
        """Return heads and state of one slot."""
        return self._call(self._slots[slot] if slot else self._weights, leaves)


def as_function(module: nn.Module) -> CompiledCall:
    """Return a network as a function of its weights, too: one compilation serves all models."""

    def call(weights: Leaf, leaves: tuple[Leaf, ...]) -> tuple[Leaf, Leaf]:
        heads, state = torch.func.functional_call(module, weights, leaves)
        return heads, state

    return call


def warn_of(error: Exception) -> None:
    """Log why a network is not compiled."""
    reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    _log.warning("this network cannot be compiled (%s); torch runs it as it is", reason)


def make_compiled(config: CompileConfig, *, module: nn.Module, request: NetworkRequest) -> Eager:
    """Make the runtime, or plain torch where compiling fails or does not pay; the factory of the component."""
    eager = Eager(module, request)
    try:
        compiled = Compiled(module, request)
        batches = [_batch(module, request, rows) for rows in (config.warm_up_rows // 2, config.warm_up_rows)]
        speedup = _seconds(eager, *batches) / _seconds(compiled, *batches)
    except Exception as error:  # noqa: BLE001 - a compiler may fail in any way
        warn_of(error)
        return eager
    if speedup < config.min_speedup:
        _log.info("compiled code is %.2f times as fast as torch; torch runs this network as it is", speedup)
        return eager
    return compiled


def _seconds(inference: Eager, half: _Batch, full: _Batch) -> float:
    """Return the shortest time of one call, after calls with other numbers of rows."""
    for warm_up in (half, full):
        inference.run(**warm_up)
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        inference.run(**full)
        times.append(time.perf_counter() - start)
    return min(times)


def _batch(module: nn.Module, request: NetworkRequest, rows: int) -> _Batch:
    """Return rows at the start of a match."""
    state = module.initial_state(rows) if isinstance(module, RecurrentNetwork) else {}
    return {
        "observation": _lowest(request.observation, rows),
        "privileged": _lowest(request.privileged, rows),
        "state": {name: leaf.detach().numpy() for name, leaf in state.items()},
    }


def _lowest(spaces: Mapping[str, Space[Any]], rows: int) -> Leaves:
    """Return zeros, or the first number of spaces that start elsewhere: networks may refuse what is not in a space."""
    return {
        name: np.full((rows, *(space.shape or ())), getattr(space, "start", 0), space.dtype)
        for name, space in spaces.items()
    }
