"""The trainer: from segments to gradient steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, TypeAlias

import attrs
import numpy as np
import torch
from attrs import frozen
from ludus.algorithm import UpdateResult, Weights
from ludus.errors import ContractError
from ludus.group import Alone, Group, in_turn, mean_gradients
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
from ludus_torch.adam import Adam
from ludus_torch.cuda_graphs import GraphedCallable
from ludus_torch.linear import choose_kernels, fuse_linear_layers, has_bf16
from torch import Tensor, nn

from ludus_ppo.advantages import Present, RewardStream, estimate
from ludus_ppo.compiling import Compilable
from ludus_ppo.config import PPOConfig
from ludus_ppo.distributions import Distribution
from ludus_ppo.losses import (
    PolicyLoss,
    explained_variance,
    joint_log_prob,
    mean_over_labels_used,
    policy_loss,
    value_loss,
)
from ludus_ppo.networks import ActorCritic
from ludus_ppo.rows import Chosen, Rows, RowSource, SequenceSource, Source, known
from ludus_ppo.schedules import Schedules
from ludus_ppo.transfer import StagingBuffer

__all__ = ["PPOTrainer"]

_LOSSES = ("policy_loss", "value_loss", "entropy")
_STEPS = ("grad_norm", "approx_kl", "clip_fraction")  # what else is told of gradient steps

_ROWS_AT_ONCE = 8192  # where no gradient is needed

# Of the running mean and mean square of returns, per update.
_MOMENTS_DECAY = 0.99
_LEAST_VARIANCE = 1e-4

_Losses: TypeAlias = tuple[tuple[Tensor, ...], Sequence[Tensor]]
_LossFunction: TypeAlias = Callable[[Rows, Tensor], _Losses]


@frozen
class _Knobs:
    """What schedules set, once for an update: tensors ``[]`` where gradient steps are recorded."""

    clip_epsilon: Tensor  # always one: code is compiled for every number
    ent_coef: float | Tensor
    learning_rate: float | Tensor


@frozen
class _Minibatches:
    """What gradient steps depend on."""

    chosen: Chosen
    knobs: _Knobs

    def named(self) -> dict[str, Tensor]:
        """Return all tensors by name; see `ludus_torch.cuda_graphs.TensorRecord`."""
        knobs = attrs.asdict(self.knobs, recurse=False)
        return self.chosen.named() | {name: knob for name, knob in knobs.items() if isinstance(knob, Tensor)}


class PPOTrainer:
    """Learns from segments, alone or in a group; see `ludus.algorithm.GroupTrainer`.

    Other algorithms build on it by rewards of their own, each with a value head, and by a loss of their own.

    Args:
        config: The options.
        model: The module to train, on its device; the trainer owns it.
        distribution: What the policy head parametrises.
        seed: Seeds the minibatch order.
        streams: The rewards learned from; by default those of the batch alone.
        auxiliary: A module on the same device that makes another loss, a scalar, of `Rows`. It is trained with the
            model and saved with the optimiser's state, but is no part of the weights. The metric ``auxiliary_loss``
            tells of it.
    """

    def __init__(
        self,
        config: PPOConfig,
        model: ActorCritic,
        *,
        distribution: Distribution,
        seed: int,
        streams: Sequence[RewardStream] = (),
        auxiliary: nn.Module | None = None,
    ) -> None:
        self._config = config
        self._group: Group = Alone()
        self._model = model
        self._auxiliary = auxiliary
        self._distribution = distribution
        self._streams = tuple(streams) or (RewardStream(gamma=config.gamma),)
        trained = nn.ModuleList([model] if auxiliary is None else [model, auxiliary])
        self._parameters = [parameter for parameter in trained.parameters() if parameter.requires_grad]
        self._device = self._parameters[0].device
        self._bf16 = config.precision == "bf16"
        kernels, backward = self._kernels(), self._backward()
        self._compiles_shapes = kernels == "onednn" or backward is torch.bfloat16
        fuse_linear_layers(
            trained, kernels, hidden_dtype=torch.bfloat16 if self._bf16 else torch.float32, backward_dtype=backward
        )
        # not networks with memory: the compiler would unroll their loops over the entries of segments
        self._losses_of = Compilable(self._losses, compiled=config.compile and model.recurrent is None)
        self._recorded, self._landing = GraphedCallable(self._gradient_steps), StagingBuffer(self._device)
        self._recorded_knobs = torch.zeros(3, device=self._device)
        named = dict(model.named_parameters())
        if auxiliary is not None:
            named |= {f"auxiliary/{name}": parameter for name, parameter in auxiliary.named_parameters()}
        self._optimizer = Adam(named, betas=(config.adam_beta1, config.adam_beta2), eps=config.adam_eps)
        self._state = {"seed": torch.tensor(seed), "updates": torch.tensor(0), **self._optimizer.state}
        if config.normalize_value:
            # Σw·mean, Σw·mean square, Σw; 64 bits, as the variance is a small difference of large numbers
            self._state["value_moments"] = torch.zeros(len(self._streams), 3, dtype=torch.float64)
        if auxiliary is not None:
            self._state |= {f"auxiliary/{name}": tensor for name, tensor in auxiliary.state_dict().items()}

    @property
    def batch_decisions(self) -> int:
        """Return how many fresh decisions an update wants."""
        return self._config.batch_decisions

    def join(self, group: Group) -> None:
        """Compute updates as one of a group; see `ludus.algorithm.GroupTrainer.join`.

        Minibatches are as many as alone, each of a part in every process. What is averaged over labels that actions
        use, or over the segments of networks with a memory, counts by decisions.
        """
        self._group = group

    @property
    def _records(self) -> bool:
        """Return whether gradient steps are recorded as CUDA graphs; those of a group exchange gradients midway."""
        return (
            self._config.cuda_graphs
            and self._device.type == "cuda"
            and not self._config.compile
            and self._group.size == 1
        )

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Pass `epochs` times over the batch in minibatches.

        Raises:
            ContractError: The batch has nothing to train on, or a loss or gradient is not finite; the trainer is
                left as it was.
            LinkError: Another one of the group is gone; likewise.
        """
        schedules = Schedules.at(progress, self._config)
        with restored_on_error(self._live):  # an update counts as a whole or not at all
            source = self._source(batch, self._trainable(batch))
            names, means, samples, steps = self._passes(source, schedules)
            metrics: dict[str, float] = {}
            for stream in self._streams:  # a GPU is at the steps meanwhile
                metrics |= _batch_metrics(source, stream.head, self._group)
            metrics |= zip(names, means.tolist(), strict=True)
            bad = [name for name in names if not math.isfinite(metrics[name])]
            if bad:
                raise ContractError(
                    f"ppo: {', '.join(bad)} not finite; the update was dropped — check observations and rewards for "
                    f"NaN, or lower learning_rate ({schedules.learning_rate:g})"
                )
            self._update_statistics(source, batch)
        self._state["updates"] += 1
        metrics |= attrs.asdict(schedules)
        return UpdateResult(metrics=metrics, samples=samples, gradient_steps=steps)

    def _kernels(self) -> str:
        """Return what computes linear layers, as `fuse_linear_layers` understands it."""
        wanted = self._config.cpu_kernels
        if wanted == "auto" and (self._bf16 or self._config.compile):
            wanted = "onednn"
        return choose_kernels(wanted, self._device)

    def _backward(self) -> torch.dtype:
        """Return what is multiplied for gradients where the network computes in 32 bits."""
        chosen = self._config.precision
        rounded = chosen == "bf16-backward" or (chosen == "auto" and has_bf16())
        return torch.bfloat16 if rounded and self._device.type == "cpu" else torch.float32

    # -- what is learned -------------------------------------------------------------------------------------------

    def _source(self, batch: SegmentBatch, trainable: np.ndarray) -> Source:
        more = self._estimates(batch, trainable)
        if self._config.normalize_advantage:
            more["advantage"] = self._normalised(more["advantage"], trainable)
        landing = self._landing if self._records else None
        source = self._make_source(batch, trainable, more, burn_in=self._config.burn_in, landing=landing)
        if batch.action_mask is not None:
            self._distribution.check(source.pick("action"), source.pick("action_mask"))
        if self._model.value_scale is not None:
            self._rescale(source, self._model.value_scale)
        return source

    def _trainable(self, batch: SegmentBatch) -> np.ndarray:
        """Return the decisions to learn from, ``[T+1, N] bool``, of a batch that there is something to learn from."""
        batch.check()
        trainable = batch.trainable()
        if not trainable.any():
            raise ContractError("ppo: a batch without a single trainable decision")
        if self._model.recurrent is not None and not batch.initial_state:
            raise ContractError("ppo: the network is recurrent, but the batch carries no state")
        if batch.initial_state:
            burn_in = self._config.burn_in
            trainable[:burn_in] = False
            if not trainable.any():
                raise ContractError(f"ppo: no decision to train on after the first {burn_in} of each segment (burn_in)")
        return trainable

    def _estimates(self, batch: SegmentBatch, trainable: np.ndarray) -> dict[str, Tensor]:
        """Return ``"advantage"``, summed over streams, and ``"returns/HEAD"`` of each, ``[T+1, N]``."""
        config = self._config
        present = self._present(batch, trainable) if config.advantage == "vtrace" else None
        advantage, more = torch.zeros(trainable.shape), {}
        for stream in self._streams:
            of_stream, returns = estimate(
                batch,
                stream,
                trainable=trainable,
                gae_lambda=config.gae_lambda,
                per_tick=config.discount_per == "tick",
                present=present,
            )
            advantage = advantage + stream.weight * of_stream
            more[f"returns/{stream.head}"] = returns
        return {"advantage": advantage, **more}

    def _normalised(self, advantage: Tensor, trainable: np.ndarray) -> Tensor:
        """Return advantages less their mean, divided by their deviation, over all that the group learns from."""
        mean, variance = _moments(advantage[torch.from_numpy(trainable)].double(), self._group)
        return (advantage - mean.float()) / (variance.sqrt().float() + 1e-8)

    def _make_source(
        self,
        batch: SegmentBatch,
        trainable: np.ndarray,
        more: Mapping[str, Tensor],
        *,
        burn_in: int = 0,
        landing: StagingBuffer | None = None,
    ) -> Source:
        """Return the batch as it is learned from; so that steps can be recorded if it is to land where others have."""
        given: dict[str, Any] = {"trainable": trainable, "more": more, "device": self._device, "landing": landing}
        if batch.initial_state:
            return SequenceSource(batch, **given, burn_in=burn_in)
        # an auxiliary module reads the rows, too; and a GPU would wait for their comparison
        merged = self._auxiliary is None and self._device.type == "cpu"
        return RowSource(batch, **given, few_shapes=self._compiles_shapes, merged=merged)

    def _present(self, batch: SegmentBatch, trainable: np.ndarray) -> Present:
        """Ask today's weights about every decision of the batch and what it may bootstrap from."""
        asked = known(batch)
        source = self._make_source(batch, asked, {"advantage": torch.zeros(trainable.shape)})
        log_ratio = torch.zeros(trainable.size)
        values = {stream.head: torch.zeros(trainable.size) for stream in self._streams}
        count = -(-int(asked.sum()) // _ROWS_AT_ONCE)
        for part in source.minibatches(np.random.default_rng(0), count=count):
            entries, rows = source.entries(part), source.take(part)
            with torch.no_grad(), self._autocast():
                parameters, found = self._evaluate(rows)
            decided = torch.from_numpy(trainable.ravel()[entries])
            log_prob, _ = self._distribution.terms(
                parameters[decided],
                action=rows.action[decided],
                extras={name: extra[decided] for name, extra in rows.extras.items()},
                mask=None if rows.action_mask is None else rows.action_mask[decided],
            )
            moved = joint_log_prob(
                log_prob - rows.extras["log_prob"][decided],
                used=self._distribution.labels_used(rows.action[decided]),
            )
            log_ratio[torch.from_numpy(entries)[decided]] = moved.squeeze(1).cpu()
            for head, value in found.items():
                values[head][torch.from_numpy(entries)] = value.float().cpu()
        shape = trainable.shape
        return Present(log_ratio=log_ratio.view(shape), values={head: v.view(shape) for head, v in values.items()})

    def _update_statistics(self, source: Source, batch: SegmentBatch) -> None:
        """Let the network count what was learned from, once, now that no pass depends on its statistics any more."""
        network = self._model.network

        def leaves(group: str, names: Iterable[str]) -> LazyLeaves:
            return LazyLeaves(names, lambda name: source.pick(f"{group}/{name}", self._device))

        def count() -> None:
            update_statistics(network, leaves("observation", batch.observation), leaves("privileged", batch.privileged))

        if isinstance(network, NormalizingNetwork):
            in_turn(self._group, count, list(network.buffers()))

    def _rescale(self, source: Source, scale: Tensor) -> None:
        """Bring the value heads to the scale of the latest returns, as an exponential moving average over updates."""
        moments = self._state["value_moments"]
        for index, stream in enumerate(self._streams):
            returns = source.pick(f"returns/{stream.head}").double()
            now = torch.stack([returns.mean(), returns.square().mean(), returns.new_ones(())])
            self._group.mean([now], weight=len(returns))
            moments[index] = _MOMENTS_DECAY * moments[index] + (1 - _MOMENTS_DECAY) * now
            mean, square = moments[index, :2] / moments[index, 2]
            scale[index, 0] = mean
            scale[index, 1] = (square - mean.square()).clamp(min=_LEAST_VARIANCE).sqrt()

    # -- gradient steps --------------------------------------------------------------------------------------------

    def _passes(self, source: Source, schedules: Schedules) -> tuple[tuple[str, ...], Tensor, int, int]:
        """Make all gradient steps; return names and means of their metrics, the rows of all, and how many they were."""
        config, knobs = self._config, self._knobs(schedules)
        rng = np.random.default_rng([int(self._state["seed"]), int(self._state["updates"])])
        names = (*_LOSSES, *(["auxiliary_loss"] if self._auxiliary is not None else []), *_STEPS)
        steps: list[Tensor] = []
        samples = 0
        whole = int(config.epochs)
        for share in [1.0] * whole + [config.epochs - whole] * (config.epochs > whole):
            count = max(1, round(share * config.num_minibatches))
            parts = source.minibatches(rng, count=count, share=share)
            fewest = int(self._group.least(len(parts)))
            if fewest < len(parts):
                parts = np.array_split(np.concatenate(parts), fewest)
            passed, passed_samples = [], 0
            for chosen in source.choose(parts):
                passed.append(self._steps(_Minibatches(chosen, knobs)))
                passed_samples += chosen.count
            steps += passed
            samples += passed_samples
            if config.target_kl:
                moved = torch.cat(passed)[:, names.index("approx_kl")].mean()
                self._group.mean([moved], weight=passed_samples)
                if not moved.item() <= config.target_kl:
                    break
        metrics = torch.cat(steps)
        means = metrics.mean(dim=0)
        counted = torch.tensor(float(samples), dtype=torch.float64)
        self._group.mean([means], weight=samples)
        self._group.mean([counted])
        samples = round(counted.item() * self._group.size)
        return names, means, samples, len(metrics)

    def _knobs(self, schedules: Schedules) -> _Knobs:
        numbers = torch.tensor([schedules.clip_epsilon, schedules.ent_coef, schedules.learning_rate])
        if self._records:
            return _Knobs(*self._recorded_knobs.copy_(numbers).unbind())
        return _Knobs(numbers[0].to(self._device), schedules.ent_coef, schedules.learning_rate)

    def _steps(self, minibatches: _Minibatches) -> Tensor:
        """Make gradient steps and return their metrics, ``[steps, 6 or 7]``."""
        steps = self._recorded if self._records else self._gradient_steps
        (metrics,) = steps(minibatches)
        return metrics

    def _gradient_steps(self, minibatches: _Minibatches) -> tuple[Tensor]:
        steps = [self._gradient_step(rows, minibatches.knobs) for rows in minibatches.chosen.parts()]
        return (torch.stack(steps),)

    def _gradient_step(self, rows: Rows, knobs: _Knobs) -> Tensor:
        """Step along the gradient of a minibatch and return the metrics, ``[6 or 7]``."""

        def differentiated(losses_of: _LossFunction) -> _Losses:
            self._optimizer.zero_grad()
            losses, moved = losses_of(rows, knobs.clip_epsilon)
            of_policy, of_values, entropy, *others = losses
            total = of_policy + self._config.vf_coef * of_values - knobs.ent_coef * entropy
            torch.autograd.backward(sum(others, total))  # one scalar: for several, torch imports sympy, half a second
            return losses, moved

        losses, moved = self._losses_of.used_by(differentiated)
        mean_gradients(self._group, self._parameters, weight=len(rows.action))
        norm = self._optimizer.step(learning_rate=knobs.learning_rate, max_norm=self._config.max_grad_norm)
        return torch.stack([*losses, norm, *moved]).detach()

    def _losses(self, rows: Rows, clip_epsilon: Tensor) -> _Losses:
        """Return the losses of `_LOSSES` and the auxiliary one, and how far the policy has moved."""
        with self._autocast():
            parameters, values = self._evaluate(rows)
            others = [] if self._auxiliary is None else [self._auxiliary(rows).float()]
        used = self._distribution.labels_used(rows.action)
        log_prob, entropy = self._distribution.terms(
            parameters, action=rows.action, extras=rows.extras, mask=rows.action_mask
        )
        of_policy, *moved = self._policy_loss(log_prob, rows, used=used, clip_epsilon=clip_epsilon)
        of_values = self._value_loss(values, rows)
        return (of_policy, of_values, mean_over_labels_used(entropy, used=used, weight=rows.weight), *others), moved

    def _autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self._device.type, torch.bfloat16) if self._bf16 else nullcontext()

    def _evaluate(self, rows: Rows) -> tuple[Tensor, dict[str, Tensor]]:
        """Return distribution parameters ``[n, P] float32`` and values ``[n] float32`` by head."""
        parameters, values = self._model(rows.observation, rows.privileged, rows.unrolled)
        if not values:
            raise ContractError("ppo: the critic reads privileged leaves, but the batch carries none")
        if rows.seen is not None:
            parameters = parameters.index_select(0, rows.seen)
            values = {head: value.index_select(0, rows.seen) for head, value in values.items()}
        elif len(parameters) > (count := len(rows.action)):  # what follows only fills up
            parameters, values = parameters[:count], {head: value[:count] for head, value in values.items()}
        return parameters.float(), {head: value.float() for head, value in values.items()}

    def _value_loss(self, values: Mapping[str, Tensor], rows: Rows) -> Tensor:
        losses = []
        for index, stream in enumerate(self._streams):
            loss = value_loss(
                values[stream.head],
                rows.returns[stream.head],
                old_value=rows.extras[stream.head],
                value_clip=self._config.value_clip,
                weight=rows.weight,
            )
            scale = self._model.value_scale
            losses.append(stream.value_weight * (loss if scale is None else loss / scale[index, 1].square()))
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def _policy_loss(self, log_prob: Tensor, rows: Rows, *, used: Tensor | None, clip_epsilon: Tensor) -> PolicyLoss:
        log_prob, old_log_prob, used = self._compared(log_prob, rows, used=used)
        return policy_loss(
            log_prob,
            old_log_prob,
            rows.advantage,
            clip_epsilon=clip_epsilon,
            dual_clip=self._config.dual_clip,
            used=used,
            weight=rows.weight,
        )

    def _compared(self, log_prob: Tensor, rows: Rows, *, used: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the log-probabilities that make a ratio, ``[n, L or 1]``, and which of them are used."""
        old_log_prob = rows.extras["log_prob"]
        if self._config.label_objective == "per-label":
            return log_prob, old_log_prob, used
        return joint_log_prob(log_prob, used=used), joint_log_prob(old_log_prob, used=used), None

    # -- weights and state -----------------------------------------------------------------------------------------

    def weights(self) -> dict[str, np.ndarray]:
        """Return a copy of the weights."""
        return to_arrays(self._weights)

    def load_weights(self, weights: Weights) -> None:
        """Start from the weights of a model.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        set_weights(self._model, weights)

    def state(self) -> dict[str, np.ndarray]:
        """Return the seed, the count of updates and Adam's step counts and moments by parameter name."""
        return to_arrays(self._state)

    def load_state(self, state: Weights) -> None:
        """Go on from `state()`.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        copy_arrays(state, into=self._state)

    @cached_property
    def _weights(self) -> dict[str, Tensor]:
        """Return the weights by name; they stay in the same memory."""
        return dict(self._model.state_dict())

    @property
    def _live(self) -> list[Tensor]:
        """Return all that an update changes; it stays in the same memory."""
        return [*self._weights.values(), *self._state.values()]


def _moments(numbers: Tensor, group: Group) -> tuple[Tensor, Tensor]:
    """Return mean and variance, ``[]`` each, of all numbers ``[n]`` of a group."""
    mean = numbers.mean()
    group.mean([mean], weight=len(numbers))
    variance = (numbers - mean).square().mean()
    group.mean([variance], weight=len(numbers))
    return mean, variance


def _batch_metrics(source: Source, head: str, group: Group) -> dict[str, float]:
    """Describe the batch as it was played; the metrics of a head ``x`` or ``x_value`` begin with ``x_``."""
    value, returns = source.pick(f"extras/{head}").double(), source.pick(f"returns/{head}").double()
    return_mean, variance = _moments(returns, group)
    error_mean, unexplained = _moments(returns - value, group)
    numbers = torch.stack([explained_variance(unexplained, variance), return_mean - error_mean, return_mean])
    kind = head.removesuffix("value").removesuffix("_")
    names = ("explained_variance", "value_mean", "return_mean")
    return {f"{kind}_{name}".lstrip("_"): number for name, number in zip(names, numbers.tolist(), strict=True)}
