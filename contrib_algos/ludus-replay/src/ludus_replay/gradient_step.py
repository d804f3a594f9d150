"""Gradient steps on sampled transitions, recorded as CUDA graphs on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import numpy as np
import torch
from attrs import field, frozen
from ludus_torch.cuda_graphs import GraphedCallable
from torch import Tensor

from ludus_replay.transitions import Transitions


@frozen(eq=False)
class Minibatch:
    """Inputs of a gradient step, on the trainer's device.

    Attributes:
        transitions: Sampled transitions.
        scalars: Numbers that change from update to update, ``[]`` each, by name.
        noise: Random numbers of the step by name.
    """

    transitions: Transitions[Tensor]
    scalars: Mapping[str, Tensor]
    noise: Mapping[str, Tensor] = field(factory=dict)

    def named(self) -> dict[str, Tensor]:
        """Return all tensors by name; see `ludus_torch.cuda_graphs.TensorRecord`."""
        groups = {**attrs.asdict(self.transitions, recurse=False), "scalars": self.scalars, "noise": self.noise}
        named = {name: value for name, value in groups.items() if isinstance(value, Tensor)}
        for group, leaves in groups.items():
            if isinstance(leaves, Mapping):
                named |= {f"{group}/{name}": leaf for name, leaf in leaves.items()}
        return named


@frozen(eq=False)
class StepResult:
    """Result of a gradient step.

    Attributes:
        metrics: Metrics ``[]`` by name, without gradient.
        error: ``[n] float32``, absolute TD errors; empty for algorithms without priorities.
    """

    metrics: dict[str, Tensor]
    error: Tensor = field(factory=lambda: torch.empty(0))


class GradientStep:
    """Makes gradient steps on transitions.

    Args:
        compute: Makes a gradient step. It must not wait for a GPU, nor read a number on the CPU that may change.
        device: Device of the model.
        record: Whether to record steps on a GPU as CUDA graphs.

    Attributes:
        metric_names: Names of the metrics; empty before the first step.
    """

    def __init__(self, compute: Callable[[Minibatch], StepResult], *, device: torch.device, record: bool) -> None:
        self._compute = compute
        self._device = device
        self.metric_names: tuple[str, ...] = ()
        self._run = GraphedCallable(self._compute_flat) if record and device.type == "cuda" else self._compute_flat

    def __call__(
        self,
        transitions: Transitions[np.ndarray],
        scalars: Mapping[str, Tensor],
        noise: Mapping[str, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Make a gradient step.

        Args:
            transitions: Sample from the replay buffer.
            scalars: See `Minibatch`.
            noise: See `Minibatch`.

        Returns:
            The metrics ``[m]`` in the order of `metric_names`, and `StepResult.error`.
        """
        metrics, error = self._run(self.minibatch(transitions, scalars, noise))
        return metrics, error

    def minibatch(
        self,
        transitions: Transitions[np.ndarray],
        scalars: Mapping[str, Tensor],
        noise: Mapping[str, Tensor] | None = None,
    ) -> Minibatch:
        """Return the inputs of a step on the trainer's device."""
        moved = {name: tensor.to(self._device) for name, tensor in (noise or {}).items()}
        return Minibatch(transitions.map(self.to_tensor), scalars, moved)

    def scalars(self, **numbers: float) -> dict[str, Tensor]:
        """Return numbers as tensors ``[]`` on the device."""
        return {name: torch.tensor(number, device=self._device) for name, number in numbers.items()}

    def to_tensor(self, array: np.ndarray) -> Tensor:
        """Return an array as a tensor on the device."""
        return torch.from_numpy(array).to(self._device)

    def _compute_flat(self, minibatch: Minibatch) -> tuple[Tensor, Tensor]:
        """Return the metrics ``[m]``, and the TD errors."""
        result = self._compute(minibatch)
        self.metric_names = tuple(result.metrics)
        return torch.stack(list(result.metrics.values())), result.error
