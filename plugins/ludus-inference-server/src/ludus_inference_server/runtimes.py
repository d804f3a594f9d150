"""The runtimes by which the server evaluates networks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import numpy as np
import torch
from attrs import frozen
from ludus.environment import Leaves
from ludus.errors import ConfigError, UnsupportedNetwork
from ludus.inference import Eager, Inference, Outputs, Span
from ludus.network import NetworkRequest, to_tensor
from ludus_inference.compiled import CompiledCall, TensorLeaves, as_function, log_compile_error, make_compiled
from ludus_inference.config import CompileConfig
from ludus_inference.lean import make_lean
from ludus_torch.cuda_graphs import GraphedCallable, copy_together
from torch import Tensor, nn

from ludus_inference_server.config import ServerConfig

_log = logging.getLogger("ludus.inference")


@frozen(eq=False)
class _Rows:
    """Rows on the device: leaves ``[n, …]`` as ``GROUP/NAME``; see `ludus_torch.cuda_graphs.TensorRecord`."""

    leaves: TensorLeaves

    def named(self) -> TensorLeaves:
        """Return the leaves."""
        return self.leaves


class OnDevice(Eager):
    """Evaluates a network on a torch device: one copy to the device per leaf, one copy back.

    Args:
        module: The network; it is moved to the device.
        request: The request that it was made for.
        device: A torch device.
        bf16: Whether products are computed in bfloat16.
        compiled: Whether torch compiles it, once for all models; not tried again after a failure.
        recorded: Whether it is recorded as a CUDA graph for each of a few numbers of rows, up to which spans are
            filled; see `ludus_torch.cuda_graphs.GraphedCallable`.
    """

    def __init__(
        self,
        module: nn.Module,
        request: NetworkRequest,
        *,
        device: str,
        bf16: bool = False,
        compiled: bool = False,
        recorded: bool = False,
    ) -> None:
        super().__init__(module.to(device), request)
        self._device = torch.device(device)
        self._bf16 = bf16
        self._weights = dict(module.state_dict())
        self._plain = as_function(module)
        self._compiled: CompiledCall | None = torch.compile(self._plain, dynamic=True) if compiled else None
        self._recorded: GraphedCallable[_Rows, Tensor] | None = (
            GraphedCallable(lambda rows: self._evaluate(rows.leaves, self._held)) if recorded else None
        )
        # the weights that recordings read: those of one slot at a time
        self._held = {name: tensor.clone() for name, tensor in self._weights.items()} if recorded else {}
        self._holds = -1
        self._answers: dict[tuple[str, ...], list[tuple[str, torch.Size]]] = {}  # by the leaves given
        self._staged: dict[str, Tensor] = {}  # memory of the CPU from which and to which is copied

    def load(self, weights: Mapping[str, np.ndarray], *, slot: int = 0) -> None:
        """Copy the weights of a model into a slot; see `ludus.inference.Inference.load`."""
        super().load(weights, slot=slot)
        if slot == self._holds:
            self._holds = -1

    def run(self, observation: Leaves, *, privileged: Leaves, state: Leaves, spans: Sequence[Span] = ()) -> Outputs:
        """Evaluate n rows; see `ludus.inference.Inference.run`."""
        groups = {"observation": observation, "privileged": privileged, "state": state}
        given = {f"{group}/{name}": leaf for group, leaves in groups.items() for name, leaf in leaves.items()}
        spans = spans or [Span(0, 0, len(next(iter(observation.values()))))]
        sizes = [_filled(span.stop - span.start) if self._recorded else span.stop - span.start for span in spans]
        with torch.inference_mode(), torch.autocast(self._device.type, torch.bfloat16) if self._bf16 else nullcontext():
            there = self._send(given, spans, sizes)
            parts, at = [], 0
            for (slot, start, stop), size in zip(spans, sizes, strict=True):
                rows = _Rows({name: leaf[at : at + size] for name, leaf in there.items()})
                parts.append(self._answer(rows, slot)[: stop - start])
                at += size
            return self._receive(torch.cat(parts), self._answers[tuple(given)])

    def _send(self, given: Leaves, spans: Sequence[Span], sizes: Sequence[int]) -> TensorLeaves:
        """Return leaves on the device, the last row of every span repeated until it has its size."""
        if not self._recorded:
            return {name: to_tensor(leaf).to(self._device, non_blocking=True) for name, leaf in given.items()}
        filled = zip(spans, sizes, strict=True)
        rows = np.concatenate([np.arange(start, start + size).clip(max=stop - 1) for (_, start, stop), size in filled])
        there = {}
        for name, leaf in given.items():
            staged = self._stage(name, (len(rows), *leaf.shape[1:]), to_tensor(leaf[:0]).dtype)
            np.take(leaf, rows, axis=0, out=staged.numpy(), mode="clip")  # the default mode copies once more
            there[name] = staged.to(self._device, non_blocking=True, copy=True)
        return there

    def _answer(self, rows: _Rows, slot: int) -> Tensor:
        """Return what `_evaluate` does with the weights of a slot."""
        weights = self._slots[slot] if slot else self._weights
        if self._recorded is None:
            return self._evaluate(rows.leaves, weights)
        if slot != self._holds:
            copy_together(weights.values(), into=self._held.values())
            self._holds = slot
        return self._recorded(rows)

    def _evaluate(self, leaves: TensorLeaves, weights: TensorLeaves) -> Tensor:
        """Return heads and state side by side, ``[n, numbers] float32``."""
        groups: dict[str, TensorLeaves] = {"observation": {}, "privileged": {}, "state": {}}
        for name, leaf in leaves.items():
            group, _, leaf_name = name.partition("/")
            groups[group][leaf_name] = leaf
        heads, state = self._call(weights, tuple(groups.values()))
        named = {f"heads/{name}": head for name, head in heads.items()}
        named |= {f"state/{name}": leaf for name, leaf in state.items()}
        self._answers[tuple(leaves)] = [(name, leaf.shape[1:]) for name, leaf in named.items()]
        return torch.cat([leaf.float().reshape(len(leaf), -1) for leaf in named.values()], dim=1)

    def _call(self, weights: TensorLeaves, leaves: tuple[TensorLeaves, ...]) -> tuple[TensorLeaves, TensorLeaves]:
        if self._compiled is None:
            return self._plain(weights, leaves)
        try:
            return self._compiled(weights, leaves)
        except Exception as error:  # noqa: BLE001 - a compiler may fail in any way
            result = self._plain(weights, leaves)  # an error of the network itself is raised here
            self._compiled = None
            log_compile_error(error)
            return result

    def _receive(self, answer: Tensor, names: Sequence[tuple[str, torch.Size]]) -> Outputs:
        """Return an answer in memory of the CPU, which the next one is written to."""
        here = self._stage("answer", tuple(answer.shape), answer.dtype)
        here.copy_(answer, non_blocking=True)
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()
        found: dict[str, dict[str, np.ndarray]] = {"heads": {}, "state": {}}
        columns = np.cumsum([0, *(shape.numel() for _, shape in names)]).tolist()
        for (name, shape), start, stop in zip(names, columns, columns[1:], strict=False):
            group, _, leaf_name = name.partition("/")
            found[group][leaf_name] = here[:, start:stop].reshape(len(here), *shape).numpy()
        return Outputs(found["heads"], found["state"])

    def _stage(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return memory that a GPU can copy from and to by itself, kept for the next call."""
        kept = self._staged.get(name)
        if kept is None or len(kept) < shape[0] or kept.shape[1:] != shape[1:] or kept.dtype != dtype:
            kept = torch.empty(shape, dtype=dtype, pin_memory=self._device.type == "cuda")
            self._staged[name] = kept
        return kept[: shape[0]]


def _filled(rows: int) -> int:
    """Return the least of few numbers that is not less: 16, 32 … 256, and from there on half-way numbers, too."""
    size = max(16, 1 << (rows - 1).bit_length())
    return size * 3 // 4 if size > 256 and rows <= size * 3 // 4 else size


def make_runtime(config: ServerConfig, module: nn.Module, request: NetworkRequest) -> Inference:
    """Make the runtime of the options.

    Raises:
        ConfigError: The options contradict each other, or there is no such device.
    """
    if config.device == "cuda":
        if config.runtime == "lean":
            raise ConfigError("sampling.server.runtime: lean runs on the CPU; choose eager or compile for device cuda")
        if not torch.cuda.is_available():
            raise ConfigError("sampling.server.device: torch finds no GPU; choose cpu")
        return OnDevice(
            module,
            request,
            device="cuda",
            bf16=config.precision == "bf16",
            compiled=config.runtime == "compile",
            recorded=config.runtime == "auto",
        )
    if config.runtime == "compile":
        return make_compiled(CompileConfig(), module=module, request=request)
    if config.runtime in ("auto", "lean"):
        try:
            return make_lean(None, module=module, request=request)
        except UnsupportedNetwork as error:
            _log.info("lean cannot run this network (%s); torch runs it", error)
    return Eager(module, request)
