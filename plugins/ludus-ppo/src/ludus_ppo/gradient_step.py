"""The gradient step: losses of a minibatch, gradients, one step of Adam."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import torch
from attrs import field, frozen
from ludus.group import Alone, Group, mean_gradients
from ludus_torch import ppo_losses as fused
from ludus_torch.adam import Adam
from ludus_torch.cuda_graphs import GraphedCallable
from torch import Tensor, nn

from ludus_ppo import losses
from ludus_ppo.advantages import RewardSignal
from ludus_ppo.compiling import Compilable
from ludus_ppo.config import PPOConfig
from ludus_ppo.distributions import Distribution
from ludus_ppo.loss_terms import LossTerm, PolicyOutputs
from ludus_ppo.micro_batches import Parts
from ludus_ppo.minibatches import Minibatch, evaluate
from ludus_ppo.networks import ActorCritic
from ludus_ppo.numerics import Numerics
from ludus_ppo.row_minibatches import size_unit
from ludus_ppo.schedules import ScheduleValues

_Metrics: TypeAlias = dict[str, Tensor]  # scalars without gradient
_LossFunction: TypeAlias = Callable[[Minibatch, float | Tensor, float | Tensor], tuple[Tensor, _Metrics]]


@frozen(eq=False)
class StepSettings:
    """Scheduled values of the gradient steps of an update: tensors ``[]`` where code is compiled or recorded."""

    clip_epsilon: float | Tensor
    ent_coef: float | Tensor
    learning_rate: float | Tensor


@frozen(eq=False)
class _StepInputs:
    """What one gradient step depends on; see `ludus_torch.cuda_graphs.TensorRecord`."""

    minibatch: Minibatch
    settings: StepSettings
    group: Group = field(factory=Alone)

    def named(self) -> Mapping[str, Tensor]:
        """Return all tensors by name."""
        settings = {name: getattr(self.settings, name) for name in ("clip_epsilon", "ent_coef", "learning_rate")}
        return {**self.minibatch.named(), **settings}


class GradientStep:
    """Makes gradient steps; calling it makes one.

    Args:
        config: The options.
        model: The module to train.
        optimizer: Adam over the parameters of the model and of the loss terms.
        parameters: The same parameters.
        distribution: Action distribution of the policy.
        signals: Reward signals, one for every value head.
        loss_terms: Further terms of the loss.
        numerics: How networks compute.
    """

    def __init__(
        self,
        config: PPOConfig,
        model: ActorCritic,
        *,
        optimizer: Adam,
        parameters: Iterable[nn.Parameter],
        distribution: Distribution,
        signals: Sequence[RewardSignal],
        loss_terms: Sequence[LossTerm],
        numerics: Numerics,
    ) -> None:
        self._config = config
        self._model = model
        self._optimizer = optimizer
        self._parameters = list(parameters)
        self._distribution = distribution
        self._signals = signals
        self._loss_terms = loss_terms
        self._numerics = numerics
        # the compiler would unroll the loops of recurrent networks over the entries of segments
        self._losses = Compilable(self._compute_losses, compiled=config.compile and model.recurrent is None)
        self._graphed_step = GraphedCallable(self._step)

    def settings(self, schedule: ScheduleValues) -> StepSettings:
        """Return the settings of the steps of an update."""
        values = (schedule.clip_epsilon, schedule.ent_coef, schedule.learning_rate)
        if self._numerics.graphed or self._config.compile:
            return StepSettings(*torch.tensor(values, device=self._numerics.device).unbind())
        return StepSettings(*values)

    def __call__(self, parts: Parts, settings: StepSettings, group: Group) -> _Metrics:
        """Make one step, together with the other processes of the group, and return its metrics.

        Args:
            parts: The minibatch.
            settings: Scheduled values.
            group: Process group of the trainer.
        """
        if len(parts.indices) > 1:
            return self._step_in_parts(parts, settings, group)
        (minibatch,) = parts.take()
        inputs = _StepInputs(minibatch, settings, group)
        return self._graphed_step(inputs) if self._is_graphed(inputs) else self._step(inputs)

    def evaluate(self, minibatch: Minibatch) -> list[Tensor]:
        """Return what the losses of a minibatch depend on, with its graph."""
        outputs = self._evaluate(minibatch)
        return [outputs.log_prob, outputs.entropy, *outputs.values.values()]

    def _is_graphed(self, inputs: _StepInputs) -> bool:
        """Return whether a step runs as a CUDA graph: alone, and with a size that recurs."""
        rows, recurrent = inputs.minibatch.num_rows, inputs.minibatch.unrolled is not None
        return self._numerics.graphed and inputs.group.size == 1 and not recurrent and rows % size_unit(rows) == 0

    def _step(self, inputs: _StepInputs) -> _Metrics:
        self._optimizer.zero_grad()
        metrics = self._losses.run(partial(self._backward, inputs, 1.0))
        return metrics | self._apply_gradients(inputs.settings, inputs.group, rows=inputs.minibatch.num_rows)

    def _step_in_parts(self, parts: Parts, settings: StepSettings, group: Group) -> _Metrics:
        """Make a step whose gradient and metrics are the means over the parts, weighted by their rows."""
        self._optimizer.zero_grad()
        means: _Metrics = {}
        rows = parts.num_rows
        for minibatch in parts.take():
            share = minibatch.num_rows / rows
            inputs = _StepInputs(minibatch, settings, group)
            for name, metric in self._losses.run(partial(self._backward, inputs, share)).items():
                means[name] = means[name] + share * metric if name in means else share * metric
        return means | self._apply_gradients(settings, group, rows=rows)

    def _apply_gradients(self, settings: StepSettings, group: Group, *, rows: int) -> _Metrics:
        mean_gradients(group, self._parameters, weight=rows)
        norm = self._optimizer.step(learning_rate=settings.learning_rate, max_norm=self._config.max_grad_norm)
        return {"grad_norm": norm}

    def _backward(self, inputs: _StepInputs, share: float, compute_losses: _LossFunction) -> _Metrics:
        """Add the gradient of a share of the loss to those of the parameters."""
        settings = inputs.settings
        loss, metrics = compute_losses(inputs.minibatch, settings.clip_epsilon, settings.ent_coef)
        torch.autograd.backward(loss if share == 1.0 else loss * share)
        return metrics

    def _compute_losses(
        self, minibatch: Minibatch, clip_epsilon: float | Tensor, ent_coef: float | Tensor
    ) -> tuple[Tensor, _Metrics]:
        """Return the loss and the metrics of a minibatch."""
        outputs = self._evaluate(minibatch)
        policy_loss, approx_kl, clip_fraction = self._policy_loss(minibatch, outputs, clip_epsilon)
        value_loss = self._value_loss(minibatch, outputs)
        entropy = losses.mean_over_labels(outputs.entropy, outputs.used)
        loss = policy_loss + self._config.vf_coef * value_loss - ent_coef * entropy
        metrics = {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "approx_kl": approx_kl,
            "clip_fraction": clip_fraction,
        }
        for term in self._loss_terms:
            with self._numerics.autocast():
                term_loss, term_metrics = term(minibatch, outputs)
            loss = loss + term_loss.float()
            metrics |= term_metrics
        return loss, metrics

    def _evaluate(self, minibatch: Minibatch) -> PolicyOutputs:
        with self._numerics.autocast():
            parameters, values = evaluate(self._model, minibatch)
        log_prob, entropy = self._distribution.terms(
            parameters, action=minibatch.action, extras=minibatch.extras, mask=minibatch.action_mask
        )
        used = self._distribution.labels_used(minibatch.action)
        return PolicyOutputs(parameters=parameters, log_prob=log_prob, entropy=entropy, used=used, values=values)

    def _policy_loss(
        self, minibatch: Minibatch, outputs: PolicyOutputs, clip_epsilon: float | Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        log_prob, old_log_prob, used = outputs.log_prob, minibatch.extras["log_prob"], outputs.used
        if self._config.label_objective == "joint":
            log_prob, old_log_prob = (losses.joint_log_prob(labels, used) for labels in (log_prob, old_log_prob))
            used = None
        compute = fused.policy_loss if fused.prefers_fused(log_prob) else losses.policy_loss
        return compute(
            log_prob,
            old_log_prob,
            minibatch.advantage,
            clip_epsilon=clip_epsilon,
            dual_clip=self._config.dual_clip,
            used=used,
        )

    def _value_loss(self, minibatch: Minibatch, outputs: PolicyOutputs) -> Tensor:
        """Return the weighted sum over value heads; errors are divided by the scale of the head."""
        scale, weighted = self._model.value_scale, []
        for index, signal in enumerate(self._signals):
            loss = losses.value_loss(
                outputs.values[signal.head],
                minibatch.returns[signal.head],
                old_value=minibatch.extras[signal.head],
                value_clip=self._config.value_clip,
            )
            weighted.append(signal.value_weight * (loss if scale is None else loss / scale[index, 1].square()))
        return weighted[0] if len(weighted) == 1 else torch.stack(weighted).sum()
