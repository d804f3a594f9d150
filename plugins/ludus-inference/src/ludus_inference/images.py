"""Steps on images, by torch: its convolutions are as fast as possible, and choose the layout in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from attrs import define, field, frozen
from torch import Tensor

from ludus_inference.steps import Buffer, RunInputs


@define(eq=False)
class ImageValue:
    """A tensor ``[n, …]`` of a run.

    Args:
        example: Tensor of its shape for `EXAMPLE_ROWS` rows, on torch's device ``meta``.
        owned: Whether the tensor shares no memory with another value, so that a step may overwrite it.

    Attributes:
        tensor: The tensor.
    """

    example: Tensor
    owned: bool = False
    tensor: Tensor = field(init=False)


EXAMPLE_ROWS = 3


@frozen
class SlotTensor:
    """A parameter, as an argument of an operation: its position in the weight table."""

    position: int


@define(eq=False)
class LoadImage:
    """Converts a leaf to float32 and multiplies it by a factor.

    Args:
        leaf: Leaf ``[n, …]``.
        shape: Shape of one row of the leaf.
        axes: Order of the axes of the result.
        factor: Factor.
        out: Result.
    """

    leaf: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    factor: np.float32 | None
    out: ImageValue
    _memory: np.ndarray = field(init=False)

    def allocate(self, capacity: int) -> None:
        """Allocate memory for this number of rows."""
        self._memory = np.zeros((capacity, *self.shape), np.float32)

    def run(self, inputs: RunInputs) -> None:
        """Convert."""
        image = self._memory[: inputs.rows]
        if self.factor is None:
            image[...] = inputs.leaves[self.leaf]
        else:
            np.multiply(inputs.leaves[self.leaf], self.factor, out=image, casting="unsafe")
        self.out.tensor = torch.from_numpy(image).permute(self.axes)


@frozen
class ImageOperation:
    """Calls a function of torch; with the parameters of each slot, if it has any.

    Args:
        function: Function of tensors.
        arguments: Arguments: `ImageValue`, `SlotTensor`, or plain values.
        options: Keyword arguments.
        out: Result.
    """

    function: Callable[..., Tensor]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    out: ImageValue

    def run(self, inputs: RunInputs) -> None:
        """Call the function."""
        spans = inputs.spans
        if len(spans) > 1 and any(isinstance(one, SlotTensor) for one in self.arguments):
            parts = [self._call(inputs.weights[slot], slice(start, stop)) for slot, start, stop in spans]
            self.out.tensor = torch.cat(parts)
        else:
            self.out.tensor = self._call(inputs.weights[spans[0].slot], None)

    def _call(self, weights: Any, rows: slice | None) -> Tensor:
        arguments = []
        for argument in self.arguments:
            if isinstance(argument, ImageValue):
                arguments.append(argument.tensor if rows is None else argument.tensor[rows])
            elif isinstance(argument, SlotTensor):
                arguments.append(torch.from_numpy(weights[argument.position]))
            else:
                arguments.append(argument)
        return self.function(*arguments, **self.options)


@frozen
class CopyImage:
    """Copies a tensor ``[n, width]`` to a buffer."""

    source: ImageValue
    out: Buffer

    def run(self, inputs: RunInputs) -> None:
        """Copy."""
        self.out.base[: inputs.rows, : self.out.width] = self.source.tensor.numpy()
