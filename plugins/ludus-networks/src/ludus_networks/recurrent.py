"""Memory: an LSTM or GRU that is stepped where decisions are made and unrolled where they are learned."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

__all__ = ["Core"]

#: Names of the tensors that a kind of memory remembers.
_REMEMBERED = {"lstm": ("h", "c"), "gru": ("h",)}


class Core(nn.Module):
    """One recurrent layer. It computes in 32 bits, also under autocast: rounding would add up over a match.

    Args:
        kind: ``"lstm"`` or ``"gru"``.
        inputs: Features per row.
        size: Units.
    """

    def __init__(self, kind: str, inputs: int, size: int) -> None:
        super().__init__()
        self.kind = kind
        self.names = _REMEMBERED[kind]
        self.size = size
        gates = 4 if kind == "lstm" else 3
        # as in torch's own layers, which compiled code cannot contain
        self.weight_ih = nn.Parameter(torch.empty(gates * size, inputs))
        self.weight_hh = nn.Parameter(torch.empty(gates * size, size))
        self.bias_ih = nn.Parameter(torch.zeros(gates * size))
        self.bias_hh = nn.Parameter(torch.zeros(gates * size))
        self._initialise()

    @torch.no_grad()
    def _initialise(self) -> None:
        """Make the weights of every gate orthogonal, and let an LSTM keep what it remembers at first."""
        for weight in (self.weight_ih, self.weight_hh):
            for gate in torch.split(weight, self.size):
                nn.init.orthogonal_(gate)
        if len(self.names) == 2:
            nn.init.ones_(self.bias_ih[self.size : 2 * self.size])

    def initial(self, rows: int) -> dict[str, Tensor]:
        """Return zeros ``[rows, size]`` by the names of what is remembered."""
        return {name: torch.zeros(rows, self.size, device=self.weight_hh.device) for name in self.names}

    def step(self, features: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Advance ``features [n, inputs]`` by one entry and return ``[n, size] float32`` and the new state."""
        before = [state[name] for name in self.names]
        with torch.autocast(features.device.type, enabled=False):
            after: tuple[Tensor, ...]
            if len(before) == 2:
                after = torch.lstm_cell(features.float(), before, *self._weights())
            else:
                after = (torch.gru_cell(features.float(), before[0], *self._weights()),)
        return after[0], dict(zip(self.names, after, strict=True))

    def unroll(self, features: Tensor, state: dict[str, Tensor], *, starts: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Step through T entries, span by span: within a span no match starts, so one call advances all of it.

        On a GPU every entry is a span: where matches start is not known without waiting for it.

        Args:
            features: ``[T, N, inputs]``.
            state: ``[N, size]`` each, before entry 0.
            starts: ``[T, N] bool``: the state is put back to zeros before that entry.

        Returns:
            ``[T, N, size] float32``, and the state after the last entry.
        """
        if features.device.type != "cpu":
            return self._unroll_by_entry(features, state, starts=starts)
        inside = starts[1:].any(dim=1).nonzero().flatten() + 1
        outputs = []
        with torch.autocast(features.device.type, enabled=False):
            for start, stop in pairwise([0, *inside.tolist(), len(features)]):
                reset = starts[start].unsqueeze(1)
                before = [torch.where(reset, 0.0, state[name]).unsqueeze(0) for name in self.names]
                output, *after = self._advance(features[start:stop].float(), before)
                outputs.append(output)
                state = {name: leaf.squeeze(0) for name, leaf in zip(self.names, after, strict=True)}
        return torch.cat(outputs), state

    def _unroll_by_entry(
        self, features: Tensor, state: dict[str, Tensor], *, starts: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        outputs = []
        for entry, reset in zip(features.unbind(), starts.unsqueeze(2).unbind(), strict=True):
            output, state = self.step(entry, {name: torch.where(reset, 0.0, leaf) for name, leaf in state.items()})
            outputs.append(output)
        return torch.stack(outputs), state

    def _advance(self, features: Tensor, before: list[Tensor]) -> tuple[Tensor, ...]:
        """Return outputs and state of several entries at once, by what torch's own layers call."""
        weights, layers, dropout = self._weights(), 1, 0.0
        if len(before) == 2:
            return torch.lstm(features, before, weights, True, layers, dropout, self.training, False, False)
        return torch.gru(features, before[0], weights, True, layers, dropout, self.training, False, False)

    def _weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
