"""The steps of a lean program: NumPy calls on buffers that are allocated once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
import torch
from attrs import define, field, frozen
from ludus.inference import Span
from threadpoolctl import ThreadpoolController

__all__ = [
    "Activation",
    "Buffer",
    "Cast",
    "CompiledCall",
    "Dense",
    "Join",
    "OneHot",
    "Step",
    "Table",
    "aligned_zeros",
    "fastest_tanh",
    "leaky_relu",
    "relu",
    "tanh_by_sigmoid",
]

#: Slot → one weight matrix per dense step, each ``[inputs + 1, outputs] float32``; the last row is the bias.
Table = Mapping[int, Sequence[np.ndarray]]

_LINE = 16  # floats in a cache line
_FEW = 16384  # numbers, for which four calls of torch take longer than one of NumPy

# Up to so many multiplications OpenBLAS has kernels for AVX-512 that take weights as they lie. For larger products it
# copies them first, which takes longer than to multiply so few rows, and MKL is ahead on the processors of its maker.
_SMALL = 1_000_000
_FEW_ROWS = 32
_COLUMNS = 64  # a kernel's
_WITH_SMALL_KERNELS = {"SkylakeX", "Cooperlake", "SapphireRapids"}


def aligned_zeros(rows: int, columns: int) -> np.ndarray:
    """Return zeros ``[rows, columns] float32`` that begin with a cache line, as NumPy's own mostly do not.

    Products of AVX-512 take up to a fifth longer where every number that they load at once lies in two lines.
    """
    memory = np.zeros(rows * columns + _LINE, np.float32)
    start = -memory.ctypes.data // memory.itemsize % _LINE
    return memory[start : start + rows * columns].reshape(rows, columns)


@define(eq=False)
class Buffer:
    """A matrix ``[capacity, width] float32`` with a column of ones on its right, so that a product adds the bias too.

    Args:
        width: Columns without the ones.
        base: ``[capacity, stride]``; columns beyond the ones are there for alignment only.
    """

    width: int
    base: np.ndarray = field(init=False)

    @property
    def stride(self) -> int:
        """Return the columns that memory is held for."""
        return -(-(self.width + 1) // _LINE) * _LINE

    def allocate(self, capacity: int) -> None:
        """Make room for so many rows."""
        self.base = aligned_zeros(capacity, self.stride)
        self.base[:, self.width] = 1.0


@frozen
class CompiledCall:
    """What the steps of one run share.

    Attributes:
        rows: n.
        leaves: ``[n, …]`` by group and name: ``"observation/board"``.
        table: Weights.
        spans: Empty where all rows belong to slot 0.
    """

    rows: int
    leaves: Mapping[str, np.ndarray]
    table: Table
    spans: Sequence[Span]


class Step(Protocol):
    """Computes one buffer from leaves or other buffers."""

    @property
    def out(self) -> Buffer:
        """Return the buffer it writes."""

    def run(self, call: CompiledCall) -> None:
        """Compute the first `call.rows` rows."""


@frozen
class Cast:
    """A leaf, flattened, as float32, times a factor."""

    leaf: str
    out: Buffer
    factor: np.float32 | None

    def run(self, call: CompiledCall) -> None:
        """Write the leaf."""
        leaf, into = call.leaves[self.leaf].reshape(call.rows, -1), self.out.base[: call.rows, : self.out.width]
        if self.factor is None:
            into[...] = leaf
        else:
            np.multiply(leaf, self.factor, out=into, casting="unsafe")


@frozen
class OneHot:
    """One column of an integer leaf as a one-hot vector."""

    leaf: str
    column: int
    choices: np.ndarray  # [width]: the leaf's value for each output column
    out: Buffer

    def run(self, call: CompiledCall) -> None:
        """Compare the column with the choices."""
        column = call.leaves[self.leaf].reshape(call.rows, -1)[:, self.column, None]
        np.equal(column, self.choices, out=self.out.base[: call.rows, : self.out.width])


@frozen
class Join:
    """Buffers side by side."""

    parts: Sequence[Buffer]
    out: Buffer

    def run(self, call: CompiledCall) -> None:
        """Copy the parts."""
        start = 0
        for part in self.parts:
            self.out.base[: call.rows, start : start + part.width] = part.base[: call.rows, : part.width]
            start += part.width


@frozen
class Dense:
    """One or several linear layers of the same input: a matrix product per span, with that span's weights."""

    position: int  # in the lists of the table
    source: Buffer
    out: Buffer

    def run(self, call: CompiledCall) -> None:
        """Multiply."""
        source, out = self.source.base[:, : self.source.width + 1], self.out.base[:, : self.out.width]
        table, position = call.table, self.position
        for slot, start, stop in call.spans or (Span(0, 0, call.rows),):
            multiply(source[start:stop], table[slot][position], out=out[start:stop])


def multiply(rows: np.ndarray, weights: np.ndarray, *, out: np.ndarray) -> None:
    """Write the product of rows ``[m, k]`` and weights ``[k, n]``: by MKL or in small parts where this is faster."""
    outputs = weights.shape[1]
    if len(rows) == 1 or rows.size * outputs <= _SMALL:
        np.matmul(rows, weights, out=out)
    elif prefers_mkl():
        torch.mm(torch.from_numpy(rows), torch.from_numpy(weights), out=torch.from_numpy(out))
    elif len(rows) <= _FEW_ROWS and has_small_kernels():
        width = _SMALL // rows.size // _COLUMNS * _COLUMNS or outputs
        for start in range(0, outputs, width):
            np.matmul(rows, weights[:, start : start + width], out=out[:, start : start + width])
    else:
        np.matmul(rows, weights, out=out)


@cache
def prefers_mkl() -> bool:
    """Return whether larger products are faster in torch's MKL than in NumPy's BLAS: on Intel processors.

    A rule and not a measurement, so that equal seeds give equal decisions.
    """
    has_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    capabilities: Mapping[str, Any] = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return has_mkl and "Intel" in str(capabilities.get("cpu_name"))


@cache
def has_small_kernels() -> bool:
    """Return whether NumPy's BLAS, as it runs here, has kernels of their own for small products."""
    return any(library.get("architecture") in _WITH_SMALL_KERNELS for library in ThreadpoolController().info())


@frozen
class Activation:
    """A function of every element, over whole rows of memory: the ones are put back after."""

    function: Callable[..., Any]  # of an array, with `out`
    source: Buffer
    out: Buffer  # may be the source

    def run(self, call: CompiledCall) -> None:
        """Apply the function."""
        out = self.out.base[: call.rows]
        self.function(self.source.base[: call.rows], out=out)
        out[:, self.out.width] = 1.0


def relu(array: np.ndarray, *, zeros: np.ndarray, out: np.ndarray) -> None:
    """Write max(x, 0); against a row of zeros it is three times as fast as against a number."""
    np.maximum(array, zeros, out=out)


def leaky_relu(array: np.ndarray, *, slope: np.float32, scratch: Buffer, out: np.ndarray) -> None:
    """Write max(x, slope · x), for slopes in [0, 1]."""
    np.maximum(array, np.multiply(array, slope, out=scratch.base[: len(array)]), out=out)


def fastest_tanh() -> Callable[..., Any]:
    """Return the tanh that is fastest here: NumPy's is slow on x86 without AVX-512."""
    return tanh_by_sigmoid if torch.backends.cpu.get_cpu_capability() == "AVX2" else np.tanh


def tanh_by_sigmoid(array: np.ndarray, *, out: np.ndarray) -> None:
    """Write 2 sigmoid(2x) - 1, which is tanh(x) up to 2e-7."""
    if array.size < _FEW:
        np.tanh(array, out=out)
        return
    result = torch.from_numpy(out)
    torch.mul(torch.from_numpy(array), 2, out=result).sigmoid_().mul_(2).sub_(1)
