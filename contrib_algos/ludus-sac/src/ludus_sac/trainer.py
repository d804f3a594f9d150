"""SAC trainer: the gradient steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from ludus.environment import Role
from ludus.network import update_statistics
from ludus.segment import SegmentBatch
from ludus_replay.gradient_step import Minibatch, StepResult
from ludus_replay.layout import ReplayLayout
from ludus_replay.optimizer import LossMinimizer
from ludus_replay.trainer import ReplayTrainer
from torch import Tensor

from ludus_sac.actions import ActionKind
from ludus_sac.config import SACConfig
from ludus_sac.losses import critic_loss, entropy, soft_target, soft_value, temperature_loss
from ludus_sac.networks import ActorCritics


class SACTrainer(ReplayTrainer[SACConfig, ActorCritics]):
    """Trains an actor and two critics from a replay buffer; see `ludus.algorithm.Trainer`.

    Args:
        config: Options.
        model: Module to train, on its device. The trainer owns it.
        kind: Kind of actions.
        role: Role that the player plays.
        seed: Seed of the samples and of the actions in losses.

    Raises:
        ConfigError: The replay buffer is too small.
    """

    def __init__(self, config: SACConfig, model: ActorCritics, *, kind: ActionKind, role: Role, seed: int) -> None:
        named = dict(model.named_parameters())
        self._minimizers = {
            part: LossMinimizer(
                {name: parameter for name, parameter in named.items() if name.startswith(part)},
                eps=config.adam_eps,
                max_grad_norm=config.max_grad_norm,
            )
            for part in ("actor.", "critics.", "log_alpha")
        }
        super().__init__(
            config,
            model,
            online=model.critics,
            minimizers=self._minimizers.values(),
            algorithm="sac",
            role=role,
            layout=ReplayLayout.for_role(role, privileged=role.privileged_space is not None),
            seed=seed,
        )
        self._kind = kind

    def _train(self, batch: SegmentBatch, *, progress: float) -> dict[str, float]:  # noqa: ARG002 - in the buffer
        config, scale = self._config, self._learning_rate_scale(progress)
        scalars = self._step.scalars(learning_rate_scale=scale)

        def step(rng: np.random.Generator) -> Tensor:
            transitions = self._replay.sample(config.minibatch_size, rng)
            metrics, _ = self._step(transitions, scalars, self._noise(len(transitions.reward), rng))
            return metrics

        advice = (
            f"check the action masks and the magnitude of rewards, or lower critic_learning_rate "
            f"({config.critic_learning_rate:g})"
        )
        metrics = self._run_steps(step, advice=advice)
        return metrics | {"learning_rate": scale * config.learning_rate}

    def _noise(self, rows: int, rng: np.random.Generator) -> dict[str, Tensor]:
        """Return the random numbers that sample the actions at the next and at the current observations."""
        noise = {name: self._kind.noise(rows, rng) for name in ("next", "current")}
        return {name: tensor for name, tensor in noise.items() if tensor is not None}

    def _compute_step(self, minibatch: Minibatch) -> StepResult:
        """Update the critics, then the policy and the temperature, then the target critics."""
        config, transitions = self._config, minibatch.transitions
        scale = minibatch.scalars["learning_rate_scale"]
        alpha = self._model.log_alpha.detach().exp()  # []
        target = self._soft_target(minibatch, alpha=alpha)  # [n]
        action = self._kind.critic_action(transitions.action)
        q = self._model.critics(transitions.observation, transitions.privileged, action)  # [2, n, C]
        q_taken = self._kind.taken(q, transitions.action)  # [2, n]
        q_loss = critic_loss(q_taken, target)
        critic_grad_norm = self._minimizers["critics."].step(q_loss, learning_rate=scale * config.critic_learning_rate)

        policy_loss, policy_entropy = self._policy_terms(minibatch, alpha=alpha)
        grad_norm = self._minimizers["actor."].step(policy_loss, learning_rate=scale * config.learning_rate)
        target_entropy = self._target_entropy(transitions.action_mask, rows=policy_entropy)  # [n] or [1]
        if config.learn_alpha:
            alpha_loss = temperature_loss(self._model.log_alpha, policy_entropy, target_entropy)
            self._minimizers["log_alpha"].step(alpha_loss, learning_rate=scale * config.alpha_learning_rate)
        self._target.update(config.tau)
        return StepResult(
            {
                "q_loss": q_loss.detach(),
                "q_mean": q_taken.detach().mean(),
                "critic_grad_norm": critic_grad_norm,
                "policy_loss": policy_loss.detach(),
                "grad_norm": grad_norm,
                "entropy": policy_entropy.mean(),
                "target_entropy": target_entropy.mean(),
                "alpha": alpha,
            }
        )

    @torch.no_grad()
    def _soft_target(self, minibatch: Minibatch, *, alpha: Tensor) -> Tensor:
        """Return the target of Q(s, a), ``[n]``."""
        transitions, noise = minibatch.transitions, minibatch.noise.get("next")
        after = transitions.next_observation
        candidates = self._kind.candidates(self._model.policy(after), transitions.next_action_mask, noise=noise)
        q = self._target.module(after, transitions.next_privileged, candidates.action).amin(dim=0)  # [n, C]
        value = soft_value(q, candidates.log_prob, candidates.weight, alpha=alpha)
        return soft_target(transitions.reward, transitions.discount, value)

    def _policy_terms(self, minibatch: Minibatch, *, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return the policy loss ``[]``, and the entropy ``[n]`` without gradient."""
        transitions, noise = minibatch.transitions, minibatch.noise.get("current")
        parameters = self._model.policy(transitions.observation)
        candidates = self._kind.candidates(parameters, transitions.action_mask, noise=noise)
        q = self._model.critics(transitions.observation, transitions.privileged, candidates.action)  # [2, n, C]
        value = soft_value(q.amin(dim=0), candidates.log_prob, candidates.weight, alpha=alpha)
        return -value.mean(), entropy(candidates.log_prob.detach(), candidates.weight.detach())

    def _target_entropy(self, mask: Tensor | None, *, rows: Tensor) -> Tensor:
        if self._config.target_entropy is not None:
            return rows.new_full((1,), self._config.target_entropy)
        return self._kind.target_entropy(mask, rows=rows, fraction=self._config.target_entropy_fraction)

    def _update_statistics(
        self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor], action: Tensor
    ) -> None:
        update_statistics(self._model.actor, observation, {})
        self._model.critics.update_statistics(observation, privileged, self._kind.critic_action(action))
