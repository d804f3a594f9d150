"""The trainer: the gradient steps of SAC."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import torch
from ludus.environment import Role
from ludus.network import update_statistics
from ludus.segment import SegmentBatch
from ludus_replay import ReplayLayout
from ludus_replay.optimizer import PartOptimizer
from ludus_replay.trainer import Learned, Minibatch, ReplayTrainer
from torch import Tensor

from ludus_sac.actions import ActionKind, Candidates
from ludus_sac.config import SACConfig
from ludus_sac.losses import critic_loss, entropy, soft_target, soft_value, temperature_loss
from ludus_sac.networks import ActorCritics

__all__ = ["SACTrainer"]

_METRICS = ("q_loss", "q_mean", "critic_grad_norm", "policy_loss", "grad_norm", "entropy", "target_entropy", "alpha")


class SACTrainer(ReplayTrainer[SACConfig, ActorCritics]):
    """Learns from segments by way of a replay memory; see `ludus.algorithm.Trainer`.

    Args:
        config: The options.
        model: The module to train, on its device; the trainer owns it.
        kind: The kind of actions.
        role: What it plays.
        seed: Seeds the draws.

    Raises:
        ConfigError: The replay's memory is too small.
    """

    def __init__(self, config: SACConfig, model: ActorCritics, *, kind: ActionKind, role: Role, seed: int) -> None:
        named = dict(model.named_parameters())
        self._optimizers = {
            part: PartOptimizer(
                {name: parameter for name, parameter in named.items() if name.startswith(part)},
                eps=config.adam_eps,
                max_grad_norm=config.max_grad_norm,
            )
            for part in ("actor.", "critics.", "log_alpha")
        }
        super().__init__(
            config,
            model,
            slow=model.critics,
            optimizers=self._optimizers.values(),
            algorithm="sac",
            role=role,
            layout=ReplayLayout.of(role, privileged=role.privileged_space is not None),
            seed=seed,
        )
        self._kind = kind

    def _learn(self, batch: SegmentBatch, *, progress: float) -> Learned:  # noqa: ARG002 - it is in the memory
        config, scale = self._config, self._learning_rate_scale(progress)
        knobs = self._knobs(scale=scale)

        def step(rng: np.random.Generator) -> Tensor:
            drawn = self._replay.sample(config.minibatch_size, rng)
            (metrics,) = self._computed(drawn, knobs, self._noise(len(drawn.reward), rng))
            return metrics

        advice = (
            f"check the action masks and the size of rewards, or lower critic_learning_rate "
            f"({config.critic_learning_rate:g})"
        )
        learned = self._steps(step, metrics=_METRICS, advice=advice)
        return attrs.evolve(learned, metrics={**learned.metrics, "learning_rate": scale * config.learning_rate})

    def _noise(self, rows: int, rng: np.random.Generator) -> dict[str, Tensor]:
        """Return what the actions of the next observations and those of these are drawn by."""
        drawn = ((name, self._kind.noise(rows, rng)) for name in ("next", "now"))
        return {name: noise for name, noise in drawn if noise is not None}

    def _compute(self, minibatch: Minibatch) -> tuple[Tensor, ...]:
        """Step the critics, then the policy and the temperature; returns the metrics ``[len(_METRICS)]``."""
        config, drawn, scale = self._config, minibatch.drawn, minibatch.knobs["scale"]
        alpha = self._model.log_alpha.detach().exp()  # []
        target = self._target_of(minibatch, alpha=alpha)  # [n]
        q = self._model.critics(drawn.observation, drawn.privileged, self._kind.critic_action(drawn.action))
        taken = self._kind.taken(q, drawn.action)  # [2, n]
        q_loss = critic_loss(taken, target)
        critic_norm = self._optimizers["critics."].step(q_loss, learning_rate=scale * config.critic_learning_rate)

        policy_loss, policy_entropy = self._policy_terms(minibatch, alpha=alpha)
        norm = self._optimizers["actor."].step(policy_loss, learning_rate=scale * config.learning_rate)
        wanted = self._target_entropy(drawn.action_mask, rows=policy_entropy)  # [n] or [1]
        if config.learn_alpha:
            alpha_loss = temperature_loss(self._model.log_alpha, policy_entropy, wanted)
            self._optimizers["log_alpha"].step(alpha_loss, learning_rate=scale * config.alpha_learning_rate)
        self._update_target()
        metrics = [
            q_loss.detach(),
            taken.detach().mean(),
            critic_norm,
            policy_loss.detach(),
            norm,
            policy_entropy.mean(),
            wanted.mean(),
            alpha,
        ]
        return (torch.stack(metrics),)

    @torch.no_grad()
    def _target_of(self, minibatch: Minibatch, *, alpha: Tensor) -> Tensor:
        drawn, noise = minibatch.drawn, minibatch.noise.get("next")
        after = drawn.next_observation
        candidates = self._kind.candidates(self._model.policy(after), drawn.next_action_mask, noise=noise)
        q = self._target(after, drawn.next_privileged, candidates.action).amin(dim=0)  # [n, C]
        value = soft_value(q, candidates.log_prob, candidates.weight, alpha=alpha)
        return soft_target(drawn.reward, drawn.discount, value)

    def _policy_terms(self, minibatch: Minibatch, *, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return the policy loss ``[]``, and the entropy ``[n]`` without gradient."""
        drawn, noise = minibatch.drawn, minibatch.noise.get("now")
        parameters = self._model.policy(drawn.observation)
        candidates: Candidates = self._kind.candidates(parameters, drawn.action_mask, noise=noise)
        q = self._model.critics(drawn.observation, drawn.privileged, candidates.action).amin(dim=0)  # [n, C]
        value = soft_value(q, candidates.log_prob, candidates.weight, alpha=alpha)
        return -value.mean(), entropy(candidates.log_prob.detach(), candidates.weight.detach())

    def _update_statistics(
        self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor], action: Tensor
    ) -> None:
        update_statistics(self._model.actor, observation, {})
        self._model.critics.update_statistics(observation, privileged, self._kind.critic_action(action))

    def _target_entropy(self, mask: Tensor | None, *, rows: Tensor) -> Tensor:
        given = self._config.target_entropy
        if given is not None:
            return rows.new_full((1,), given)
        return self._kind.target_entropy(mask, rows=rows, fraction=self._config.target_entropy_fraction)
