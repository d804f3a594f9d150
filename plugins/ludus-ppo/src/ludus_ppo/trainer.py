"""The trainer: one update from segments to gradient steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import attrs
import numpy as np
import torch
from ludus.algorithm import UpdateResult, Weights
from ludus.errors import ContractError
from ludus.group import Alone, Group, in_turn
from ludus.network import (
    LazyLeaves,
    NormalizingNetwork,
    copy_arrays,
    restored_on_error,
    set_weights,
    to_arrays,
    update_statistics,
)
from ludus.segment import SegmentBatch
from ludus_torch.activation_memory import memory_budget
from ludus_torch.adam import Adam
from torch import Tensor, nn

from ludus_ppo.advantages import Reevaluation, RewardSignal, Targets, estimate_targets, normalize_advantages
from ludus_ppo.batch_metrics import batch_metrics
from ludus_ppo.config import PPOConfig
from ludus_ppo.distributions import Distribution
from ludus_ppo.gradient_step import GradientStep
from ludus_ppo.loss_terms import LossTerm
from ludus_ppo.micro_batches import MicroBatches, Parts
from ludus_ppo.minibatches import MinibatchSource, evaluate, has_observation
from ludus_ppo.networks import ActorCritic
from ludus_ppo.numerics import Numerics
from ludus_ppo.passes import PassesResult, run_passes
from ludus_ppo.reevaluation import reevaluate
from ludus_ppo.row_minibatches import RowMinibatches
from ludus_ppo.schedules import ScheduleValues
from ludus_ppo.segment_minibatches import SegmentMinibatches
from ludus_ppo.value_scale import make_value_moments, update_value_scale


class PPOTrainer:
    """Learns from segments, alone or in a process group; see `ludus.algorithm.GroupTrainer`.

    Other algorithms build on it with their own reward signals and loss terms.

    Args:
        config: The options.
        model: The module to train, on its device; the trainer owns it.
        distribution: Action distribution of the policy.
        seed: Seed of the minibatch order.
        reward_signals: Rewards to learn from, one for every value head; default: the rewards of the batch.
        loss_terms: Further terms of the loss by name, on the device of the model.
    """

    def __init__(
        self,
        config: PPOConfig,
        model: ActorCritic,
        *,
        distribution: Distribution,
        seed: int,
        reward_signals: Sequence[RewardSignal] = (),
        loss_terms: Mapping[str, LossTerm] | None = None,
    ) -> None:
        self._config = config
        self._model = model
        self._distribution = distribution
        self._signals = tuple(reward_signals) or (RewardSignal(gamma=config.gamma),)
        self._group: Group = Alone()
        loss_terms = loss_terms or {}
        modules = nn.ModuleDict({name: term for name, term in loss_terms.items() if isinstance(term, nn.Module)})
        parameters = dict(model.named_parameters()) | dict(modules.named_parameters())
        self._numerics = Numerics.choose(config, next(model.parameters()).device)
        self._numerics.fuse_layers(model)
        self._numerics.fuse_layers(modules)
        optimizer = Adam(parameters, betas=(config.adam_beta1, config.adam_beta2), eps=config.adam_eps)
        self._gradient_step = GradientStep(
            config,
            model,
            optimizer=optimizer,
            parameters=[parameter for parameter in parameters.values() if parameter.requires_grad],
            distribution=distribution,
            signals=self._signals,
            loss_terms=tuple(loss_terms.values()),
            numerics=self._numerics,
        )
        budget = memory_budget(config.activation_mb, self._numerics.device)
        self._micro_batches = MicroBatches(budget, self._gradient_step.evaluate)
        self._state = {"seed": torch.tensor(seed), "updates": torch.tensor(0), **optimizer.state}
        self._state |= modules.state_dict()
        if config.normalize_value:
            self._state["value_moments"] = make_value_moments(len(self._signals))

    @property
    def batch_decisions(self) -> int:
        """Return the number of fresh decisions of an update."""
        return self._config.batch_decisions

    def join(self, group: Group) -> None:
        """Compute updates as a member of a group; see `ludus.algorithm.GroupTrainer.join`.

        The number of minibatches stays the same; every process reads its shard of each. Means over labels that actions
        use, and over segments of recurrent networks, are weighted by decisions.
        """
        self._group = group

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Learn from a batch: advantages, minibatches, gradient steps.

        Raises:
            ContractError: The batch has no trainable decision, or a loss or gradient is not finite. The trainer is
                unchanged.
            LinkError: Another process of the group is gone. The trainer is unchanged.
        """
        schedule = ScheduleValues.at(progress, self._config)
        with restored_on_error(self._live):
            trainable = self._trainable_decisions(batch)
            targets = self._estimate_targets(batch, trainable)
            self._update_value_scale(targets, trainable)
            self._track_lowest_value(batch, trainable)
            source = self._make_source(batch, trainable, targets.columns())
            passes = self._run_passes(source, schedule)
            metrics = batch_metrics(batch, targets, self._signals, trainable=trainable, group=self._group)
            metrics |= passes.metrics
            _check_finite(passes.metrics, schedule)
            self._update_statistics(batch, trainable)
        self._state["updates"] += 1
        return UpdateResult(
            metrics=metrics | attrs.asdict(schedule), samples=passes.samples, gradient_steps=passes.gradient_steps
        )

    def _trainable_decisions(self, batch: SegmentBatch) -> np.ndarray:
        """Return the decisions to learn from, ``[T+1, N] bool``, of a checked batch."""
        batch.check()
        trainable = batch.trainable()
        if not trainable.any():
            raise ContractError("ppo: a batch without a single trainable decision")
        if batch.action_mask is not None:
            action, mask = batch.action[trainable], batch.action_mask[trainable]
            self._distribution.check(torch.from_numpy(action), torch.from_numpy(mask))
        if self._model.recurrent is not None and not batch.initial_state:
            raise ContractError("ppo: the network is recurrent, but the batch carries no state")
        if batch.initial_state:
            burn_in = self._config.burn_in
            trainable[:burn_in] = False
            if not trainable.any():
                raise ContractError(f"ppo: no decision to train on after the first {burn_in} of each segment (burn_in)")
        return trainable

    def _estimate_targets(self, batch: SegmentBatch, trainable: np.ndarray) -> Targets:
        targets = estimate_targets(
            batch,
            self._signals,
            trainable=trainable,
            gae_lambda=self._config.gae_lambda,
            per_tick=self._config.discount_per == "tick",
            group=self._group,
            reevaluation=self._reevaluate(batch, trainable) if self._config.advantage == "vtrace" else None,
        )
        return normalize_advantages(targets, trainable, self._group) if self._config.normalize_advantage else targets

    def _reevaluate(self, batch: SegmentBatch, trainable: np.ndarray) -> Reevaluation:
        """Evaluate all decisions, and all observations to bootstrap from, with the current weights."""
        entries = has_observation(batch)
        source = self._make_source(batch, entries, {"advantage": np.zeros(entries.shape, np.float32)}, burn_in=0)
        with self._numerics.autocast():
            return reevaluate(
                source,
                evaluate=lambda minibatch: evaluate(self._model, minibatch),
                distribution=self._distribution,
                trainable=trainable,
                num_rows=int(entries.sum()),
                heads=[signal.head for signal in self._signals],
            )

    def _update_value_scale(self, targets: Targets, trainable: np.ndarray) -> None:
        if self._model.value_scale is not None:
            mask = torch.from_numpy(trainable)
            returns = [targets.returns[signal.head][mask] for signal in self._signals]
            update_value_scale(self._model.value_scale, self._state["value_moments"], returns, self._group)

    def _track_lowest_value(self, batch: SegmentBatch, trainable: np.ndarray) -> None:
        """Update min_s V(s), which exploiters of this player shift their rewards by [Minimax §4.2]."""
        lowest = float(batch.extras[self._signals[0].head].min(where=trainable, initial=0.0))
        self._model.value_min.clamp_(max=self._group.least(lowest))

    def _make_source(
        self,
        batch: SegmentBatch,
        trainable: np.ndarray,
        targets: Mapping[str, np.ndarray],
        *,
        burn_in: int | None = None,
    ) -> MinibatchSource:
        device = self._numerics.device
        if batch.initial_state:
            burn_in = self._config.burn_in if burn_in is None else burn_in
            return SegmentMinibatches(batch, trainable=trainable, targets=targets, device=device, burn_in=burn_in)
        few_sizes = self._numerics.few_sizes
        return RowMinibatches(batch, trainable=trainable, targets=targets, device=device, few_sizes=few_sizes)

    def _run_passes(self, source: MinibatchSource, schedule: ScheduleValues) -> PassesResult:
        settings = self._gradient_step.settings(schedule)

        def step(parts: Parts) -> dict[str, Tensor]:
            return self._gradient_step(parts, settings, self._group)

        return run_passes(
            source,
            step,
            divide=self._micro_batches.divide,
            epochs=self._config.epochs,
            num_minibatches=self._config.num_minibatches,
            target_kl=self._config.target_kl,
            rng=np.random.default_rng([int(self._state["seed"]), int(self._state["updates"])]),
            group=self._group,
        )

    def _update_statistics(self, batch: SegmentBatch, trainable: np.ndarray) -> None:
        """Add the decisions to the statistics of a normalizing network, once, after all passes that read these."""
        network = self._model.network

        def leaves(arrays: Mapping[str, np.ndarray]) -> LazyLeaves:
            return LazyLeaves(arrays, lambda name: torch.from_numpy(arrays[name][trainable]).to(self._numerics.device))

        def add() -> None:
            update_statistics(network, leaves(batch.observation), leaves(batch.privileged))

        if isinstance(network, NormalizingNetwork):
            in_turn(self._group, add, list(network.buffers()))

    def weights(self) -> dict[str, np.ndarray]:
        """Return a copy of the weights."""
        return to_arrays(self._weights)

    def load_weights(self, weights: Weights) -> None:
        """Copy the weights of a model into the trainer.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        set_weights(self._model, weights)

    def state(self) -> dict[str, np.ndarray]:
        """Return the seed, the number of updates, Adam's state and the state of loss terms, by name."""
        return to_arrays(self._state)

    def load_state(self, state: Weights) -> None:
        """Resume from the result of `state`.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        copy_arrays(state, into=self._state)

    @cached_property
    def _weights(self) -> dict[str, Tensor]:
        """The live weights by name; an update changes them in place."""
        return dict(self._model.state_dict())

    @property
    def _live(self) -> list[Tensor]:
        """Return all tensors that an update changes; it does so in place."""
        return [*self._weights.values(), *self._state.values()]


def _check_finite(metrics: Mapping[str, float], schedule: ScheduleValues) -> None:
    bad: Iterable[str] = [name for name, value in metrics.items() if not math.isfinite(value)]
    if bad:
        raise ContractError(
            f"ppo: {', '.join(bad)} not finite; the update was dropped — check observations and rewards for NaN, "
            f"or lower learning_rate ({schedule.learning_rate:g})"
        )
