"""Common part of trainers with a replay buffer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

import numpy as np
import torch
from ludus.activity import UPDATING, track
from ludus.algorithm import UpdateResult, Weights
from ludus.environment import Role
from ludus.errors import ContractError
from ludus.network import LazyLeaves, copy_arrays, get_weights, restored_on_error, set_weights, to_arrays
from ludus.segment import SegmentBatch
from ludus_torch.linear import choose_kernels, fuse_linear_layers
from torch import Tensor, nn

from ludus_replay.buffer import ReplayBuffer
from ludus_replay.config import ReplayOptions
from ludus_replay.gradient_step import GradientStep, Minibatch, StepResult
from ludus_replay.layout import ReplayLayout
from ludus_replay.optimizer import LossMinimizer
from ludus_replay.rows import Rows, make_rows
from ludus_replay.target import TargetNetwork

_REPLAY = "replay/"

_Options = TypeVar("_Options", bound=ReplayOptions)
_Model = TypeVar("_Model", bound=nn.Module)


class ReplayTrainer(ABC, Generic[_Options, _Model]):
    """Base class of trainers that learn from a replay buffer; see `ludus.algorithm.OffPolicyTrainer`.

    A subclass implements `_train`, `_compute_step` and `_update_statistics`, and overrides `_columns_to_sum` if
    transitions include more than the reward.

    Args:
        config: Options of the algorithm.
        model: Module to train, on its device. The trainer owns it.
        online: Part of the model that the target network follows.
        minimizers: Optimizers of the parts of the model.
        algorithm: Name of the algorithm, for messages.
        role: Role that the player plays.
        layout: Arrays of a row in the replay buffer.
        seed: Seed of the samples.
        priority_exponent: See `ReplayBuffer`.

    Raises:
        ConfigError: The replay buffer is too small.
    """

    def __init__(
        self,
        config: _Options,
        model: _Model,
        *,
        online: nn.Module,
        minimizers: Iterable[LossMinimizer],
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
        self._target = TargetNetwork(online)
        self._step = GradientStep(self._compute_step, device=self._device, record=config.cuda_graphs)
        self._algorithm = algorithm
        self._role = role.name
        self._layout = layout
        self._replay = ReplayBuffer(
            layout,
            capacity=config.replay_capacity,
            memory_mb=config.replay_memory_mb,
            min_rows=config.learning_starts,
            priority_exponent=priority_exponent,
        )
        # saved in checkpoints besides the weights and the replay buffer, and restored if an update fails
        self._state = {"seed": torch.tensor(seed), "updates": torch.tensor(0), **self._target.state()}
        for minimizer in minimizers:
            self._state |= minimizer.state

    @property
    def batch_decisions(self) -> int:
        """Return how many fresh decisions an update takes."""
        return self._config.batch_decisions

    @property
    def off_policy(self) -> bool:
        """Return True: decisions of any weights are used."""
        return True

    # -- for subclasses --------------------------------------------------------------------------------------------

    @abstractmethod
    def _train(self, batch: SegmentBatch, *, progress: float) -> dict[str, float]:
        """Make the gradient steps of an update with `_run_steps` and return the metrics.

        Args:
            batch: Fresh decisions, which the replay buffer contains already.
            progress: Share of the training budget that is used, in [0, 1].
        """

    @abstractmethod
    def _compute_step(self, minibatch: Minibatch) -> StepResult:
        """Make a gradient step; see `GradientStep` for what it may do."""

    @abstractmethod
    def _update_statistics(
        self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor], action: Tensor
    ) -> None:
        """Add fresh decisions to the networks' statistics with `ludus.network.update_statistics`.

        Args:
            observation: Leaves ``[n, …]`` on the trainer's device.
            privileged: Leaves ``[n, …]``, or empty.
            action: ``[n, L]`` or ``[n, D]``, as recorded.
        """

    def _columns_to_sum(self, batch: SegmentBatch) -> dict[str, np.ndarray]:  # noqa: ARG002 - for subclasses
        """Return further columns to sum over the decisions of a transition, ``[T+1, N] float32`` each."""
        return {}

    # -- updates ---------------------------------------------------------------------------------------------------

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Store the batch and make `updates_per_batch` gradient steps once the replay buffer is filled enough.

        Raises:
            ContractError: The batch has no trainable decision, or the batch, a loss or a gradient is not finite; the
                trainer and the replay buffer are unchanged.
        """
        batch.check()
        fresh = batch.num_decisions
        if not fresh:
            raise ContractError(f"{self._algorithm}: the batch has no trainable decision")
        rows = self._make_rows(batch)
        tensors = [*self._model.state_dict().values(), *self._state.values()]
        with restored_on_error(tensors), self._replay.transaction():
            self._replay.add(rows)
            metrics = self._train(batch, progress=min(max(progress, 0.0), 1.0))
            self._add_to_statistics(batch)
        self._state["updates"] += 1
        gradient_steps = self._config.updates_per_batch if self._can_sample else 0
        samples = gradient_steps * self._config.minibatch_size
        metrics |= {"replay_size": float(len(self._replay)), "reuse": samples / fresh}
        return UpdateResult(metrics=metrics, samples=samples, gradient_steps=gradient_steps)

    @property
    def _can_sample(self) -> bool:
        """Return whether there is enough to sample from; a full buffer may have fewer transitions than rows."""
        return len(self._replay) >= self._config.learning_starts or self._replay.full

    def _add_to_statistics(self, batch: SegmentBatch) -> None:
        """Add the decisions of a batch to the networks' statistics, each once."""
        trainable = batch.trainable()
        to_tensor = self._step.to_tensor

        def select(arrays: Mapping[str, np.ndarray]) -> LazyLeaves:
            return LazyLeaves(arrays, lambda name: to_tensor(arrays[name][trainable]))

        self._update_statistics(select(batch.observation), select(batch.privileged), to_tensor(batch.action[trainable]))

    def _make_rows(self, batch: SegmentBatch) -> Rows:
        """Return the rows of a batch.

        Raises:
            ContractError: The batch is not finite, or a recorded action is masked.
        """
        config = self._config
        rows = make_rows(
            batch,
            self._layout,
            gamma=config.gamma,
            n_step=config.n_step,
            discount_per=config.discount_per,
            sums=self._columns_to_sum(batch),
        )
        mask = rows.arrays.get("action_mask")
        if mask is not None:
            legal = np.take_along_axis(mask, rows.arrays["action"], axis=1)[:, 0]
            if not legal[rows.arrays["offset"] > 0].all():
                raise ContractError(f"role {self._role}, label 0: the action mask forbids a recorded action")
        return rows

    def _run_steps(self, step: Callable[[np.random.Generator], Tensor], *, advice: str) -> dict[str, float]:
        """Make the gradient steps of an update and return the means of their metrics; empty before `learning_starts`.

        Args:
            step: Makes one step with random numbers from the generator and returns its metrics ``[m]``.
            advice: What to do if a metric is not finite.

        Raises:
            ContractError: A metric is not finite.
        """
        if not self._can_sample:
            return {}
        rng = np.random.default_rng([int(self._state["seed"]), int(self._state["updates"])])
        values = [step(rng) for _ in track(UPDATING, range(self._config.updates_per_batch))]
        means = dict(zip(self._step.metric_names, torch.stack(values).mean(dim=0).tolist(), strict=True))
        bad = [name for name, value in means.items() if not math.isfinite(value)]
        if bad:
            raise ContractError(f"{self._algorithm}: {', '.join(bad)} not finite; the update was dropped — {advice}")
        return means

    def _learning_rate_scale(self, progress: float) -> float:
        """Return the factor of the learning rate."""
        return 1.0 - progress if self._config.learning_rate_schedule == "linear" else 1.0

    # -- weights and state -----------------------------------------------------------------------------------------

    def weights(self) -> dict[str, np.ndarray]:
        """Return a copy of the weights."""
        return get_weights(self._model)

    def load_weights(self, weights: Weights) -> None:
        """Load the weights of a model and copy them to the target network.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        set_weights(self._model, weights)
        self._target.reset()

    def state(self) -> dict[str, np.ndarray]:
        """Return counters, Adam's moments, the target network and, with `checkpoint_replay`, the replay buffer."""
        state = to_arrays(self._state)
        if self._config.checkpoint_replay:
            state |= {f"{_REPLAY}{name}": array for name, array in self._replay.state().items()}
        return state

    def load_state(self, state: Weights) -> None:
        """Restore `state()`; the replay buffer stays as it is if the state does not include it.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        replay = {name[len(_REPLAY) :]: array for name, array in state.items() if name.startswith(_REPLAY)}
        others = {name: array for name, array in state.items() if not name.startswith(_REPLAY)}
        copy_arrays(others, into=self._state)
        if replay:
            self._replay.load_state(replay)
