"""The trainer: from segments to gradient steps."""

from __future__ import annotations

import math

import numpy as np
import torch
from attrs import frozen
from ludus.algorithm import UpdateResult, Weights
from ludus.errors import ContractError
from ludus.network import copy_arrays, get_weights, set_weights
from ludus.segment import SegmentBatch
from torch import Tensor, nn

from ludus_ppo.config import PPOConfig
from ludus_ppo.distributions import Distribution
from ludus_ppo.losses import (
    explained_variance,
    gae,
    joint_log_prob,
    mean_over_labels_used,
    policy_objective,
    ratio_statistics,
    value_loss,
)
from ludus_ppo.networks import ActorCritic
from ludus_ppo.policy import to_tensor

__all__ = ["PPOTrainer"]

_PER_STEP = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm")


@frozen(kw_only=True)
class _Rows:
    """Decisions to train on, one per row of every tensor; shapes as in `SegmentBatch` less the leading two axes."""

    observation: dict[str, Tensor]
    privileged: dict[str, Tensor]
    action: Tensor  # [n, L] int64 or [n, D] float32
    action_mask: Tensor | None  # [n, A] bool
    extras: dict[str, Tensor]
    advantage: Tensor  # [n]
    returns: Tensor  # [n]

    def take(self, index: Tensor) -> _Rows:
        """Return copies of the rows ``index [m] int64``."""

        def group(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: tensor.index_select(0, index) for name, tensor in tensors.items()}

        return _Rows(
            observation=group(self.observation),
            privileged=group(self.privileged),
            action=self.action.index_select(0, index),
            action_mask=None if self.action_mask is None else self.action_mask.index_select(0, index),
            extras=group(self.extras),
            advantage=self.advantage.index_select(0, index),
            returns=self.returns.index_select(0, index),
        )


class PPOTrainer:
    """Learns from segments; see `ludus.algorithm.Trainer`.

    Segments may carry the extra array ``"label_used" [T+1, N, L] bool``: labels that an action did not use
    contribute neither objective nor entropy.

    Args:
        config: The options.
        model: The module to train, on its device; the trainer owns it.
        distribution: What the policy head parametrises.
        seed: Seeds the minibatch order.
    """

    def __init__(self, config: PPOConfig, model: ActorCritic, *, distribution: Distribution, seed: int) -> None:
        self._config = config
        self._model = model
        self._distribution = distribution
        self._parameters = list(model.parameters())
        self._device = self._parameters[0].device
        self._optimizer = torch.optim.Adam(
            self._parameters,
            lr=config.learning_rate,
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_eps,
            fused=self._device.type in ("cpu", "cuda"),
        )
        self._state = {"seed": torch.tensor(seed), "updates": torch.tensor(0), **self._adam_state()}

    def _adam_state(self) -> dict[str, Tensor]:
        """Give Adam its moments now rather than at the first step, and return them by name."""
        named: dict[str, Tensor] = {}
        for name, parameter in self._model.named_parameters():
            moments = self._optimizer.state[parameter]
            moments["step"] = torch.zeros((), device=self._device)
            moments["exp_avg"] = torch.zeros_like(parameter, requires_grad=False)
            moments["exp_avg_sq"] = torch.zeros_like(parameter, requires_grad=False)
            named |= {f"adam/{key}/{name}": tensor for key, tensor in moments.items()}
        return named

    @property
    def batch_decisions(self) -> int:
        """Return how many fresh decisions an update wants."""
        return self._config.batch_decisions

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Pass `epochs` times over the batch in minibatches.

        Raises:
            ContractError: The batch has nothing to train on, or a loss or gradient is not finite; the trainer is
                left as it was.
        """
        batch.check()
        learning_rate, ent_coef = self._schedules(progress)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        rows, chosen = self._rows(batch)
        before = [tensor.clone() for tensor in self._live()]
        steps = self._passes(rows, chosen, ent_coef=ent_coef)
        means = dict(zip(_PER_STEP, torch.stack(steps).mean(dim=0).tolist(), strict=True))
        bad = [name for name, value in means.items() if not math.isfinite(value)]
        if bad:
            for tensor, saved in zip(self._live(), before, strict=True):
                tensor.copy_(saved)
            raise ContractError(
                f"ppo: {', '.join(bad)} not finite; the update was dropped — check observations and rewards for NaN, "
                f"or lower learning_rate ({learning_rate:g})"
            )
        self._state["updates"] += 1
        passes = len(steps) // min(self._config.num_minibatches, chosen.shape[0])
        metrics = means | self._batch_metrics(rows, chosen) | {"learning_rate": learning_rate, "ent_coef": ent_coef}
        return UpdateResult(metrics=metrics, samples=passes * chosen.shape[0], gradient_steps=len(steps))

    def _schedules(self, progress: float) -> tuple[float, float]:
        config = self._config
        share = min(max(progress, 0.0), 1.0)
        learning_rate = config.learning_rate * (1.0 - share if config.learning_rate_schedule == "linear" else 1.0)
        final = config.ent_coef if config.ent_coef_final is None else config.ent_coef_final
        return learning_rate, config.ent_coef + (final - config.ent_coef) * share

    def _rows(self, batch: SegmentBatch) -> tuple[_Rows, Tensor]:
        """Return all entries of the batch as rows, and which of them to train on ``[n] int64``."""
        trainable = to_tensor(batch.trainable())
        chosen = trainable.flatten().nonzero().squeeze(1)
        if not chosen.shape[0]:
            raise ContractError("ppo: a batch without a single trainable decision")
        advantage = self._advantage(batch, trainable)
        returns = advantage + to_tensor(batch.extras["value"])
        if self._config.normalize_advantage:
            deviation, mean = torch.std_mean(advantage.flatten()[chosen], correction=0)
            advantage = (advantage - mean) / (deviation + 1e-8)

        def flat(array: np.ndarray) -> Tensor:
            return to_tensor(array).to(self._device).flatten(0, 1)

        rows = _Rows(
            observation={name: flat(leaf) for name, leaf in batch.observation.items()},
            privileged={name: flat(leaf) for name, leaf in batch.privileged.items()},
            action=flat(batch.action),
            action_mask=None if batch.action_mask is None else flat(batch.action_mask),
            extras={name: flat(array) for name, array in batch.extras.items()},
            advantage=advantage.flatten().to(self._device),
            returns=returns.flatten().to(self._device),
        )
        chosen = chosen.to(self._device)
        if rows.action_mask is not None:
            self._distribution.check(rows.action[chosen], rows.action_mask[chosen])
        return rows, chosen

    def _advantage(self, batch: SegmentBatch, trainable: Tensor) -> Tensor:
        elapsed = to_tensor(batch.elapsed_ticks).float()
        per_tick = self._config.discount_per == "tick"
        gamma = torch.tensor(self._config.gamma)
        return gae(
            to_tensor(batch.reward),
            to_tensor(batch.extras["value"]),
            terminated=to_tensor(batch.terminated),
            trainable=trainable,
            discount=gamma**elapsed if per_tick else gamma.expand_as(elapsed),
            gae_lambda=self._config.gae_lambda,
        )

    def _passes(self, rows: _Rows, chosen: Tensor, *, ent_coef: float) -> list[Tensor]:
        """Make all gradient steps and return the metrics of each, ``[len(_PER_STEP)]``."""
        rng = np.random.default_rng([int(self._state["seed"]), int(self._state["updates"])])
        parts = min(self._config.num_minibatches, chosen.shape[0])
        steps: list[Tensor] = []
        for _ in range(self._config.epochs):
            order = torch.from_numpy(rng.permutation(chosen.shape[0])).to(self._device)
            steps += [
                self._gradient_step(rows.take(index), ent_coef=ent_coef)
                for index in chosen.index_select(0, order).tensor_split(parts)
            ]
            kl = torch.stack(steps[-parts:])[:, _PER_STEP.index("approx_kl")]
            if self._config.target_kl and not kl.mean().item() <= self._config.target_kl:
                break
        return steps

    def _gradient_step(self, rows: _Rows, *, ent_coef: float) -> Tensor:
        config = self._config
        parameters, value = self._model(rows.observation, rows.privileged)
        if value is None:
            raise ContractError("ppo: the critic reads privileged leaves, but the batch carries none")
        log_prob, entropy = self._distribution.terms(
            parameters, action=rows.action, extras=rows.extras, mask=rows.action_mask
        )
        used = rows.extras.get("label_used")
        policy_loss = -self._objective(log_prob, rows, used=used)
        critic_loss = value_loss(value, rows.returns, old_value=rows.extras["value"], value_clip=config.value_clip)
        mean_entropy = mean_over_labels_used(entropy, used=used)
        self._optimizer.zero_grad()
        torch.autograd.backward(policy_loss + config.vf_coef * critic_loss - ent_coef * mean_entropy)
        grad_norm = nn.utils.clip_grad_norm_(self._parameters, config.max_grad_norm)
        self._optimizer.step()
        with torch.no_grad():
            moved = ratio_statistics(log_prob, rows.extras["log_prob"], clip_epsilon=config.clip_epsilon, used=used)
            return torch.stack([policy_loss, critic_loss, mean_entropy, *moved, grad_norm])

    def _objective(self, log_prob: Tensor, rows: _Rows, *, used: Tensor | None) -> Tensor:
        old_log_prob = rows.extras["log_prob"]
        if self._config.label_objective == "joint":
            log_prob, old_log_prob = joint_log_prob(log_prob, used=used), joint_log_prob(old_log_prob, used=used)
            used = None
        objective = policy_objective(
            log_prob,
            old_log_prob,
            rows.advantage,
            clip_epsilon=self._config.clip_epsilon,
            dual_clip=self._config.dual_clip,
        )
        return mean_over_labels_used(objective, used=used)

    def _batch_metrics(self, rows: _Rows, chosen: Tensor) -> dict[str, float]:
        value, returns = rows.extras["value"][chosen], rows.returns[chosen]
        numbers = torch.stack([explained_variance(value, returns), value.mean(), returns.mean()]).tolist()
        return dict(zip(("explained_variance", "value_mean", "return_mean"), numbers, strict=True))

    def weights(self) -> dict[str, np.ndarray]:
        """Return a copy of the weights."""
        return get_weights(self._model)

    def load_weights(self, weights: Weights) -> None:
        """Start from the weights of a model.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        set_weights(self._model, weights)

    def state(self) -> dict[str, np.ndarray]:
        """Return the seed, the count of updates and Adam's step counts and moments by parameter name."""
        return {name: tensor.cpu().numpy().copy() for name, tensor in self._state.items()}

    def load_state(self, state: Weights) -> None:
        """Go on from `state()`.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        copy_arrays(state, into=self._state)

    def _live(self) -> list[Tensor]:
        return [*self._model.state_dict().values(), *self._state.values()]
