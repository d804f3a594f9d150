"""What trainers with a replay memory share: all but what they remember, and their losses and targets."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

import attrs
import numpy as np
import torch
from attrs import frozen
from ludus.algorithm import UpdateResult, Weights
from ludus.environment import Role
from ludus.errors import ContractError
from ludus.network import LazyLeaves, copy_arrays, get_weights, restored_on_error, set_weights, to_arrays
from ludus.segment import SegmentBatch
from ludus_torch.cuda_graphs import GraphedCallable
from ludus_torch.linear import choose_kernels, fuse_linear_layers
from torch import Tensor, nn

from ludus_replay.buffer import ReplayBuffer, Transitions
from ludus_replay.layout import ReplayLayout
from ludus_replay.optimizer import PartOptimizer
from ludus_replay.rows import Rows, collect

__all__ = ["Learned", "Minibatch", "ReplayOptions", "ReplayTrainer"]

_REPLAY = "replay/"


class ReplayOptions(Protocol):
    """The options that the common part reads."""

    @property
    def learning_rate_schedule(self) -> str:
        """Return ``"constant"``, or ``"linear"``: to 0 over the training budget."""

    @property
    def gamma(self) -> float:
        """Return the discount of a decision or tick."""

    @property
    def discount_per(self) -> str:
        """Return ``"decision"`` or ``"tick"``."""

    @property
    def n_step(self) -> int:
        """Return how many decisions a transition spans at most."""

    @property
    def tau(self) -> float:
        """Return the share of what is learned that its target takes over at a time."""

    @property
    def batch_decisions(self) -> int:
        """Return how many fresh decisions an update wants."""

    @property
    def updates_per_batch(self) -> int:
        """Return how many gradient steps an update makes."""

    @property
    def minibatch_size(self) -> int:
        """Return how many transitions a gradient step draws."""

    @property
    def learning_starts(self) -> int:
        """Return how many transitions are remembered before the first gradient step."""

    @property
    def replay_capacity(self) -> int:
        """Return the rows of the memory."""

    @property
    def replay_memory_mb(self) -> float:
        """Return the memory's size at most, in MiB."""

    @property
    def checkpoint_replay(self) -> bool:
        """Return whether checkpoints hold the memory."""

    @property
    def cpu_kernels(self) -> str:
        """Return what computes linear layers on a CPU, as `ludus_torch.linear.choose_kernels` understands it."""

    @property
    def cuda_graphs(self) -> bool:
        """Return whether gradient steps on a GPU are recorded."""


_Options = TypeVar("_Options", bound=ReplayOptions)
_Model = TypeVar("_Model", bound=nn.Module)


@frozen
class Learned:
    """What an update has learned.

    Attributes:
        metrics: What there is to say of it.
        gradient_steps: How many they were.
    """

    metrics: dict[str, float]
    gradient_steps: int


@frozen(eq=False)
class Minibatch:
    """What a gradient step depends on, on the trainer's device.

    Attributes:
        drawn: Transitions as tensors.
        knobs: What changes from update to update: tensors ``[]`` where steps are recorded.
        noise: What was drawn for it besides.
    """

    drawn: Transitions[Tensor]
    knobs: Mapping[str, float | Tensor]
    noise: Mapping[str, Tensor]

    def named(self) -> dict[str, Tensor]:
        """Return all tensors by name; see `ludus_torch.cuda_graphs.TensorRecord`."""
        groups = {**attrs.asdict(self.drawn, recurse=False), "knobs": self.knobs, "noise": self.noise}
        found = {name: value for name, value in groups.items() if isinstance(value, Tensor)}
        for group, leaves in groups.items():
            if isinstance(leaves, Mapping):
                found |= {f"{group}/{name}": leaf for name, leaf in leaves.items() if isinstance(leaf, Tensor)}
        return found


class ReplayTrainer(ABC, Generic[_Options, _Model]):
    """Learns from segments by way of a replay memory; see `ludus.algorithm.OffPolicyTrainer`.

    An algorithm adds `_learn`, `_compute`, `_update_statistics`, and `_sums` where it remembers more than the reward.

    Args:
        config: The algorithm's options.
        model: The module to train, on its device; the trainer owns it.
        slow: The part of it of which a copy that lags behind, `_target`, serves for targets.
        optimizers: Of the parts of the model.
        algorithm: Its name, for messages.
        role: What it plays.
        layout: What is remembered of a decision.
        priority_exponent: As for `ReplayBuffer`.
        seed: Seeds the draws.

    Raises:
        ConfigError: The replay's memory is too small.
    """

    def __init__(
        self,
        config: _Options,
        model: _Model,
        *,
        slow: nn.Module,
        optimizers: Iterable[PartOptimizer],
        algorithm: str,
        role: Role,
        layout: ReplayLayout,
        seed: int,
        priority_exponent: float | None = None,
    ) -> None:
        self._config = config
        self._device = next(model.parameters()).device
        fuse_linear_layers(model, choose_kernels(config.cpu_kernels, self._device))
        self._model = model
        self._slow = slow
        self._target = copy.deepcopy(slow).requires_grad_(requires_grad=False)
        self._recorded = GraphedCallable(self._compute)
        self._algorithm = algorithm
        self._role = role.name
        self._layout = layout
        self._replay = ReplayBuffer(
            layout,
            capacity=config.replay_capacity,
            memory_mb=config.replay_memory_mb,
            fewest=config.learning_starts,
            priority_exponent=priority_exponent,
        )
        #: What checkpoints hold besides the weights and the memory; an update that fails leaves all of it as it was.
        self._state = {
            "seed": torch.tensor(seed),
            "updates": torch.tensor(0),
            **{f"target/{name}": tensor for name, tensor in self._target.state_dict().items()},
        }
        for optimizer in optimizers:
            self._state |= optimizer.state

    @property
    def batch_decisions(self) -> int:
        """Return how many fresh decisions an update wants."""
        return self._config.batch_decisions

    @property
    def off_policy(self) -> bool:
        """Return True: decisions of any weights are remembered."""
        return True

    # -- for algorithms to fill in ---------------------------------------------------------------------------------

    @abstractmethod
    def _learn(self, batch: SegmentBatch, *, progress: float) -> Learned:
        """Learn from the memory, which holds `batch` by now; by `_steps`, as a rule.

        Args:
            batch: The fresh decisions.
            progress: In [0, 1].
        """

    @abstractmethod
    def _compute(self, minibatch: Minibatch) -> tuple[Tensor, ...]:
        """Make a gradient step; without waiting for a GPU, and reading no number of the CPU that may change.

        Returns:
            What there is to say of it.
        """

    @abstractmethod
    def _update_statistics(
        self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor], action: Tensor
    ) -> None:
        """Let the networks add fresh decisions to their statistics; by `ludus.network.update_statistics`.

        Args:
            observation: Leaves ``[n, …]``, on the trainer's device.
            privileged: Leaves ``[n, …]``, or empty.
            action: ``[n, L]`` or ``[n, D]``, as recorded.
        """

    def _sums(self, batch: SegmentBatch) -> dict[str, np.ndarray]:  # noqa: ARG002 - for others to read
        """Return what to sum over the decisions of a transition besides the reward, ``[T+1, N] float32`` each."""
        return {}

    # -- updates ---------------------------------------------------------------------------------------------------

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Remember the batch and make `updates_per_batch` gradient steps, once there is enough to draw from.

        Raises:
            ContractError: The batch has nothing to train on, or it, a loss or a gradient is not finite; the trainer is
                left as it was.
        """
        batch.check()
        fresh = batch.num_decisions
        if not fresh:
            raise ContractError(f"{self._algorithm}: a batch without a single trainable decision")
        rows = self._collect(batch)
        with restored_on_error(self._live()), self._replay.transaction():  # it counts as a whole or not at all
            self._replay.add(rows)
            learned = self._learn(batch, progress=min(max(progress, 0.0), 1.0))
            self._count(batch)
        self._state["updates"] += 1
        samples = learned.gradient_steps * self._config.minibatch_size
        metrics = {**learned.metrics, "replay_size": float(len(self._replay)), "reuse": samples / fresh}
        return UpdateResult(metrics=metrics, samples=samples, gradient_steps=learned.gradient_steps)

    def _count(self, batch: SegmentBatch) -> None:
        """Let the networks count the decisions of a batch, each once, however often it will be drawn."""
        trainable = batch.trainable()

        def leaves(arrays: Mapping[str, np.ndarray]) -> LazyLeaves:
            return LazyLeaves(arrays, lambda name: self._tensor(arrays[name][trainable]))

        self._update_statistics(
            leaves(batch.observation), leaves(batch.privileged), self._tensor(batch.action[trainable])
        )

    def _collect(self, batch: SegmentBatch) -> Rows:
        """Return what to remember of a batch.

        Raises:
            ContractError: It is not finite, or an action is forbidden by its own mask.
        """
        config = self._config
        rows = collect(
            batch,
            self._layout,
            gamma=config.gamma,
            n_step=config.n_step,
            discount_per=config.discount_per,
            sums=self._sums(batch),
        )
        mask = rows.arrays.get("action_mask")
        if mask is not None:
            taken = np.take_along_axis(mask, rows.arrays["action"], axis=1)[:, 0]
            if not taken[rows.arrays["offset"] > 0].all():
                raise ContractError(f"role {self._role}, label 0: a recorded action is forbidden by its own mask")
        return rows

    def _steps(
        self, step: Callable[[np.random.Generator], Tensor], *, metrics: tuple[str, ...], advice: str
    ) -> Learned:
        """Make the gradient steps of an update, none while there is too little to draw from.

        Args:
            step: Makes one with what it draws from the generator, and returns metrics ``[len(metrics)]``.
            metrics: Their names; the means over all steps are reported.
            advice: What to do if one is not finite.

        Raises:
            ContractError: One is not.
        """
        config = self._config
        if len(self._replay) < config.learning_starts and not self._replay.full:  # some rows start no transition
            return Learned({}, 0)
        rng = np.random.default_rng([int(self._state["seed"]), int(self._state["updates"])])
        found = [step(rng) for _ in range(config.updates_per_batch)]
        means = dict(zip(metrics, torch.stack(found).mean(dim=0).tolist(), strict=True))
        bad = [name for name, value in means.items() if not math.isfinite(value)]
        if bad:
            raise ContractError(f"{self._algorithm}: {', '.join(bad)} not finite; the update was dropped — {advice}")
        return Learned(means, config.updates_per_batch)

    @property
    def _records(self) -> bool:
        """Return whether gradient steps are recorded as CUDA graphs."""
        return self._config.cuda_graphs and self._device.type == "cuda"

    def _computed(
        self, drawn: Transitions[np.ndarray], knobs: Mapping[str, float | Tensor], noise: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """Make a gradient step and return what `_compute` does."""
        return (self._recorded if self._records else self._compute)(self._minibatch(drawn, knobs, noise))

    def _minibatch(
        self, drawn: Transitions[np.ndarray], knobs: Mapping[str, float | Tensor], noise: Mapping[str, Tensor]
    ) -> Minibatch:
        sent = {name: leaf.to(self._device) for name, leaf in noise.items()}
        return Minibatch(drawn.mapped(self._tensor), knobs, sent)

    def _knobs(self, **numbers: float) -> dict[str, float | Tensor]:
        """Return what a `Minibatch` has of numbers that hold for an update."""
        if not self._records:
            return {**numbers}
        return {name: torch.tensor(number, device=self._device) for name, number in numbers.items()}

    def _learning_rate_scale(self, progress: float) -> float:
        """Return the share of the learning rate that is left."""
        return 1.0 - progress if self._config.learning_rate_schedule == "linear" else 1.0

    @torch.no_grad()
    def _update_target(self) -> None:
        for old, new in zip(self._target.parameters(), self._slow.parameters(), strict=True):
            old.lerp_(new, self._config.tau)
        for kept, buffer in zip(self._target.buffers(), self._slow.buffers(), strict=True):
            kept.copy_(buffer)

    def _tensor(self, array: np.ndarray) -> Tensor:
        """Return an array on the trainer's device."""
        return torch.from_numpy(array).to(self._device)

    # -- weights and state -----------------------------------------------------------------------------------------

    def weights(self) -> dict[str, np.ndarray]:
        """Return a copy of the weights."""
        return get_weights(self._model)

    def load_weights(self, weights: Weights) -> None:
        """Start from the weights of a model; the target too.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        set_weights(self._model, weights)
        self._target.load_state_dict(self._slow.state_dict())

    def state(self) -> dict[str, np.ndarray]:
        """Return counters, Adam's moments, the target, and the replay memory if checkpoints hold it."""
        state = to_arrays(self._state)
        if self._config.checkpoint_replay:
            state |= {f"{_REPLAY}{name}": array for name, array in self._replay.state().items()}
        return state

    def load_state(self, state: Weights) -> None:
        """Go on from `state()`; where that holds no replay memory, with an empty one.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        replay = {name[len(_REPLAY) :]: array for name, array in state.items() if name.startswith(_REPLAY)}
        others = {name: array for name, array in state.items() if not name.startswith(_REPLAY)}
        copy_arrays(others, into=self._state)
        if replay:
            self._replay.load_state(replay)

    def _live(self) -> list[Tensor]:
        return [*self._model.state_dict().values(), *self._state.values()]
