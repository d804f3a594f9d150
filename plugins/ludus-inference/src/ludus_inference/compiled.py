"""The runtime ``compile``: torch.compile, kept only where it is faster than plain torch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from ludus.environment import Leaves
from ludus.inference import Eager
from ludus.network import NetworkRequest
from torch import Tensor, nn

from ludus_inference.config import CompileConfig

__all__ = ["Compiled", "make_compiled"]

_log = logging.getLogger("ludus.inference")
_REPEATS = 15

Leaf = dict[str, Tensor]


class Compiled(Eager):
    """Runs compiled code for every slot: weights are its arguments, so one compilation serves all.

    Args:
        module: The network; slot 0 lives in it.
        request: What it was made for.
    """

    def __init__(self, module: nn.Module, request: NetworkRequest) -> None:
        super().__init__(module, request)
        self._weights = dict(module.state_dict())  # slot 0: the module's own memory

        def call(weights: Leaf, leaves: tuple[Leaf, ...]) -> tuple[Leaf, Leaf]:
            heads, state = torch.func.functional_call(module, weights, leaves)
            return heads, state

        self._call: Callable[[Leaf, tuple[Leaf, ...]], tuple[Leaf, Leaf]] = torch.compile(call, dynamic=True)

    def forward(self, leaves: tuple[Leaf, ...], slot: int) -> tuple[Leaf, Leaf]:
        """Return heads and state of one slot."""
        return self._call(self._slots[slot] if slot else self._weights, leaves)


def make_compiled(config: CompileConfig, *, module: nn.Module, request: NetworkRequest) -> Eager:
    """Make the runtime, or plain torch where compiling fails or does not pay; the factory of the component."""
    eager = Eager(module, request)
    try:
        compiled = Compiled(module, request)
        speedup = _seconds(eager, request, config.warm_up_rows) / _seconds(compiled, request, config.warm_up_rows)
    except Exception as error:  # noqa: BLE001 - a compiler may fail in any way
        _log.warning("this network cannot be compiled (%s); torch runs it as it is", _first_line(error))
        return eager
    if speedup < config.min_speedup:
        _log.info("compiled code is %.2f times as fast as torch; torch runs this network as it is", speedup)
        return eager
    return compiled


def _seconds(inference: Eager, request: NetworkRequest, rows: int) -> float:
    """Return the shortest time of one call, after calls with other numbers of rows."""
    for count in (rows // 2, rows):
        _run(inference, request, count)
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        _run(inference, request, rows)
        times.append(time.perf_counter() - start)
    return min(times)


def _run(inference: Eager, request: NetworkRequest, rows: int) -> None:
    inference.run(_zeros(request.observation, rows), privileged=_zeros(request.privileged, rows), state={})


def _zeros(spaces: Any, rows: int) -> Leaves:
    return {name: np.zeros((rows, *space.shape), space.dtype) for name, space in spaces.items()}


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().splitlines()[0]
