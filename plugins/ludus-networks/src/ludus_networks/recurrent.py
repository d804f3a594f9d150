"""Recurrent layers that are stepped by policies and unrolled by trainers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise

import torch
from torch import Tensor, nn

#: Names of the state tensors by kind of layer.
_STATE_NAMES = {"lstm": ("h", "c"), "gru": ("h",)}


def _without_autocast(device: str) -> AbstractContextManager[object]:
    """Return a context without autocast; it does not read the device of a tensor, so that `torch.fx` can trace it."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


class RecurrentCore(nn.Module):
    """One LSTM or GRU layer. It computes in float32 even under autocast, because rounding errors accumulate.

    Args:
        kind: ``"lstm"`` or ``"gru"``.
        inputs: Number of input features.
        size: Number of units.

    Attributes:
        names: Names of the state tensors.
    """

    def __init__(self, kind: str, inputs: int, size: int) -> None:
        super().__init__()
        self.kind = kind
        self.names = _STATE_NAMES[kind]
        self.size = size
        gates = 4 if kind == "lstm" else 3
        # parameters like those of nn.LSTM and nn.GRU, which compiled code cannot contain
        self.weight_ih = nn.Parameter(torch.empty(gates * size, inputs))
        self.weight_hh = nn.Parameter(torch.empty(gates * size, size))
        self.bias_ih = nn.Parameter(torch.zeros(gates * size))
        self.bias_hh = nn.Parameter(torch.zeros(gates * size))
        self._init_parameters()

    @torch.no_grad()
    def _init_parameters(self) -> None:
        """Make the weights of every gate orthogonal, and the biases of an LSTM's forget gates 1."""
        for weight in (self.weight_ih, self.weight_hh):
            for gate in torch.split(weight, self.size):
                nn.init.orthogonal_(gate)
        if self.kind == "lstm":
            nn.init.ones_(self.bias_ih[self.size : 2 * self.size])

    def initial(self, rows: int) -> dict[str, Tensor]:
        """Return zeros ``[rows, size]`` by the names of the state."""
        return {name: torch.zeros(rows, self.size, device=self.weight_hh.device) for name in self.names}

    def step(self, features: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the output ``[n, size] float32`` for ``features [n, inputs]`` and the new state."""
        before = [state[name] for name in self.names]
        with _without_autocast("cpu"), _without_autocast("cuda"):
            if self.kind == "lstm":
                after = torch.lstm_cell(features.float(), before, *self._weights())
                return after[0], {name: after[i] for i, name in enumerate(self.names)}
            output = torch.gru_cell(features.float(), before[0], *self._weights())
        return output, {self.names[0]: output}

    def unroll(self, features: Tensor, state: dict[str, Tensor], *, starts: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the outputs of T steps and the state after them.

        On the CPU, the steps between two entries at which a match starts are one call. On a GPU every step is a call,
        because reading `starts` would wait for the GPU.

        Args:
            features: ``[T, N, inputs]``.
            state: State before entry 0, ``[N, size]`` each.
            starts: ``[T, N] bool``; the state is reset to zeros before that entry.

        Returns:
            ``[T, N, size] float32``, and the state after the last entry.
        """
        if features.device.type != "cpu":
            return self._unroll_step_by_step(features, state, starts=starts)
        inner_starts = starts[1:].any(dim=1).nonzero().flatten() + 1
        outputs = []
        with torch.autocast(features.device.type, enabled=False):
            for start, stop in pairwise([0, *inner_starts.tolist(), len(features)]):
                reset = starts[start].unsqueeze(1)
                before = [torch.where(reset, 0.0, state[name]).unsqueeze(0) for name in self.names]
                output, *after = self._run_layer(features[start:stop].float(), before)
                outputs.append(output)
                state = {name: leaf.squeeze(0) for name, leaf in zip(self.names, after, strict=True)}
        return torch.cat(outputs), state

    def _unroll_step_by_step(
        self, features: Tensor, state: dict[str, Tensor], *, starts: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        outputs = []
        for entry, reset in zip(features.unbind(), starts.unsqueeze(2).unbind(), strict=True):
            output, state = self.step(entry, {name: torch.where(reset, 0.0, leaf) for name, leaf in state.items()})
            outputs.append(output)
        return torch.stack(outputs), state

    def _run_layer(self, features: Tensor, before: list[Tensor]) -> tuple[Tensor, ...]:
        """Return outputs and state after several entries, by the functions behind `nn.LSTM` and `nn.GRU`."""
        weights, layers, dropout = self._weights(), 1, 0.0
        if self.kind == "lstm":
            return torch.lstm(features, before, weights, True, layers, dropout, self.training, False, False)
        return torch.gru(features, before[0], weights, True, layers, dropout, self.training, False, False)

    def _weights(self) -> list[Tensor]:
        return [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh]
