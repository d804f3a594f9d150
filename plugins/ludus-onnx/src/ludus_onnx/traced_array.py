"""NumPy code on torch tensors: arrays that exporters can trace through interfaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from torch import Tensor

_DTYPES: dict[np.dtype[Any], torch.dtype] = {
    np.dtype(name): getattr(torch, name)
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")
}
_NUMPY = {value: key for key, value in _DTYPES.items()}

_UFUNCS: dict[np.ufunc, Callable[..., Tensor]] = {
    np.absolute: torch.abs,
    np.add: torch.add,
    np.bitwise_and: torch.bitwise_and,
    np.bitwise_or: torch.bitwise_or,
    np.divide: torch.true_divide,
    np.equal: torch.eq,
    np.exp: torch.exp,
    np.floor: torch.floor,
    np.greater: torch.gt,
    np.greater_equal: torch.ge,
    np.invert: torch.bitwise_not,
    np.less: torch.lt,
    np.less_equal: torch.le,
    np.log: torch.log,
    np.logical_and: torch.logical_and,
    np.logical_not: torch.logical_not,
    np.logical_or: torch.logical_or,
    np.matmul: torch.matmul,
    np.maximum: torch.maximum,
    np.minimum: torch.minimum,
    np.multiply: torch.mul,
    np.negative: torch.neg,
    np.not_equal: torch.ne,
    np.rint: torch.round,
    np.sqrt: torch.sqrt,
    np.subtract: torch.sub,
    np.tanh: torch.tanh,
}


class TracedArray(NDArrayOperatorsMixin):
    """A tensor that NumPy functions and operators accept, with NumPy's rules for dtypes.

    It has the methods that array code without branches on values needs. Whatever else is called on it raises
    TypeError or AttributeError; so does a conversion to an array, which would end the trace.

    Args:
        tensor: The tensor.

    Raises:
        TypeError: NumPy has no such dtype.
    """

    def __init__(self, tensor: Tensor) -> None:
        if tensor.dtype not in _NUMPY:
            raise TypeError(f"no NumPy dtype for {tensor.dtype}")
        self.tensor = tensor

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the NumPy dtype."""
        return _NUMPY[self.tensor.dtype]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape; the number of rows is symbolic while an exporter traces."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return self.tensor.dim()

    @property
    def size(self) -> int:
        """Return the number of entries."""
        return self.tensor.numel()

    def __len__(self) -> int:
        return len(self.tensor)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("a traced array cannot become a NumPy array")

    def __getitem__(self, key: Any) -> TracedArray:
        keys = key if isinstance(key, tuple) else (key,)
        return TracedArray(self.tensor[tuple(_to_index(part) for part in keys)])

    def astype(self, dtype: Any, *, copy: bool = True) -> TracedArray:  # noqa: ARG002 - tensors are never changed
        """Return the array in another dtype."""
        return TracedArray(self.tensor.to(_torch_dtype(dtype)))

    def reshape(self, *shape: Any) -> TracedArray:
        """Return the array in another shape."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return TracedArray(self.tensor.reshape(*sizes))

    def swapaxes(self, first: int, second: int) -> TracedArray:
        """Return the array with two axes exchanged."""
        return TracedArray(self.tensor.transpose(first, second))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply a universal function in the dtypes that NumPy chooses."""
        if method != "__call__" or options or ufunc not in _UFUNCS:
            return NotImplemented
        kinds = [type(value) if type(value) in (int, float) else _as_traced(value).dtype for value in inputs]
        *dtypes, result = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))
        operands = [
            torch.as_tensor(value, dtype=_torch_dtype(dtype))
            if type(value) in (int, float)
            else _as_traced(value).tensor.to(_torch_dtype(dtype))
            for value, dtype in zip(inputs, dtypes, strict=True)
        ]
        return TracedArray(_UFUNCS[ufunc](*operands).to(_torch_dtype(result)))

    def __array_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Apply one of a few other NumPy functions."""
        if func not in _FUNCTIONS:
            return NotImplemented
        return _FUNCTIONS[func](*args, **kwargs)


def _torch_dtype(dtype: Any) -> torch.dtype:
    found = _DTYPES.get(np.dtype(dtype))
    if found is None:
        raise TypeError(f"torch cannot compute with {np.dtype(dtype)}")
    return found


def _as_traced(value: Any) -> TracedArray:
    if isinstance(value, TracedArray):
        return value
    return TracedArray(torch.from_numpy(np.array(value)))


def _to_index(part: Any) -> Any:
    if isinstance(part, TracedArray):
        return part.tensor
    return torch.from_numpy(part) if isinstance(part, np.ndarray) else part


def _joined(arrays: Sequence[Any]) -> list[Tensor]:
    """Return arrays as tensors of the dtype that NumPy gives to their concatenation."""
    traced = [_as_traced(array) for array in arrays]
    dtype = _torch_dtype(np.result_type(*(array.dtype for array in traced)))
    return [array.tensor.to(dtype) for array in traced]


def _where(condition: Any, first: Any, second: Any) -> TracedArray:
    chosen, other = _joined([first, second])
    return TracedArray(torch.where(_as_traced(condition).tensor, chosen, other))


_FUNCTIONS: dict[Callable[..., Any], Callable[..., TracedArray]] = {
    np.broadcast_to: lambda array, shape: TracedArray(_as_traced(array).tensor.expand(*shape)),
    np.clip: lambda array, low, high: np.minimum(np.maximum(array, low), high),
    np.concatenate: lambda arrays, axis=0: TracedArray(torch.cat(_joined(arrays), dim=axis)),
    np.stack: lambda arrays, axis=0: TracedArray(torch.stack(_joined(arrays), dim=axis)),
    np.where: _where,
}
