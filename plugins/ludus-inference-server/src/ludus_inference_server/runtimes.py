"""What the server itself runs networks by."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from ludus.environment import Leaves
from ludus.errors import ConfigError, UnsupportedNetwork
from ludus.inference import Eager, Inference, Outputs, Span
from ludus.network import NetworkRequest, to_tensor
from ludus_inference.compiled import Call, Leaf, as_function, make_compiled, warn_of
from ludus_inference.config import CompileConfig
from ludus_inference.lean import make_lean
from torch import nn

from ludus_inference_server.config import ServerConfig

__all__ = ["OnDevice", "make_runtime"]

_log = logging.getLogger("ludus.inference")


class OnDevice(Eager):
    """Runs a network on a torch device: one copy there for all rows, one back for every head.

    Args:
        module: The network; it is moved to the device.
        request: What it was made for.
        device: A torch device.
        bf16: Whether products are computed in bfloat16.
        compiled: Whether torch compiles it, once for all models; the first failure of that is the last.
    """

    def __init__(
        self, module: nn.Module, request: NetworkRequest, *, device: str, bf16: bool = False, compiled: bool = False
    ) -> None:
        super().__init__(module.to(device), request)
        self._device = torch.device(device)
        self._bf16 = bf16
        self._weights = dict(module.state_dict())
        self._plain = as_function(module)
        self._compiled: Call | None = torch.compile(self._plain, dynamic=True) if compiled else None

    def run(self, observation: Leaves, *, privileged: Leaves, state: Leaves, spans: Sequence[Span] = ()) -> Outputs:
        """Evaluate n rows; see `ludus.inference.Inference.run`."""
        groups = [
            {name: to_tensor(leaf).to(self._device, non_blocking=True) for name, leaf in group.items()}
            for group in (observation, privileged, state)
        ]
        rows = len(next(iter(observation.values())))
        with torch.inference_mode(), torch.autocast(self._device.type, torch.bfloat16) if self._bf16 else nullcontext():
            parts = []
            for slot, start, stop in spans or [Span(0, 0, rows)]:
                leaves = tuple({name: leaf[start:stop] for name, leaf in group.items()} for group in groups)
                parts.append(self.forward(leaves, slot))
            heads, states = ([part[i] for part in parts] for i in (0, 1))
            return Outputs(_joined(heads), _joined(states))

    def forward(self, leaves: tuple[Leaf, ...], slot: int) -> tuple[Leaf, Leaf]:
        """Return heads and state of one slot."""
        weights = self._slots[slot] if slot else self._weights
        if self._compiled is None:
            return self._plain(weights, leaves)
        try:
            return self._compiled(weights, leaves)
        except Exception as error:  # noqa: BLE001 - a compiler may fail in any way
            result = self._plain(weights, leaves)  # what fails here too is no fault of the compiler
            self._compiled = None
            warn_of(error)
            return result


def _joined(parts: Sequence[Leaf]) -> Leaves:
    return {name: torch.cat([part[name] for part in parts]).float().cpu().numpy() for name in parts[0]}


def make_runtime(config: ServerConfig, module: nn.Module, request: NetworkRequest) -> Inference:
    """Make the runtime that the options choose.

    Raises:
        ConfigError: The options contradict each other, or there is no such device.
    """
    if config.device == "cuda":
        if config.runtime == "lean":
            raise ConfigError("sampling.server.runtime: lean runs on the CPU; choose eager or compile for device cuda")
        if not torch.cuda.is_available():
            raise ConfigError("sampling.server.device: torch finds no GPU; choose cpu")
        bf16, compiled = config.precision == "bf16", config.runtime == "compile"
        return OnDevice(module, request, device="cuda", bf16=bf16, compiled=compiled)
    if config.runtime == "compile":
        return make_compiled(CompileConfig(), module=module, request=request)
    if config.runtime in ("auto", "lean"):
        try:
            return make_lean(None, module=module, request=request)
        except UnsupportedNetwork as error:
            _log.info("lean cannot run this network (%s); torch runs it", error)
    return Eager(module, request)
