"""DQN trainer: what the replay buffer stores, and the gradient steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from attrs import frozen
from ludus.environment import Role
from ludus.network import update_statistics
from ludus.segment import SegmentBatch
from ludus_minimax.reward import OPPONENT_VALUE, minimax_term, opponent_value, shift
from ludus_replay.gradient_step import Minibatch, StepResult
from ludus_replay.layout import ReplayLayout
from ludus_replay.optimizer import LossMinimizer
from ludus_replay.trainer import ReplayTrainer
from ludus_replay.transitions import Transitions
from torch import Tensor

from ludus_dqn.config import DQNConfig
from ludus_dqn.losses import masked, td_loss, td_target
from ludus_dqn.networks import QNetwork

_SHIFT = "opponent_shift"


@frozen(kw_only=True)
class _Schedules:
    """Scheduled values of one update."""

    learning_rate: float
    epsilon: float
    beta: float  # exponent of the importance weights


class DQNTrainer(ReplayTrainer[DQNConfig, QNetwork]):
    """Trains a Q-network from a replay buffer; see `ludus.algorithm.Trainer`.

    Args:
        config: Options.
        model: Module to train, on its device. The trainer owns it.
        role: Role that the player plays.
        seed: Seed of the samples.

    Raises:
        ConfigError: The replay buffer is too small.
    """

    def __init__(self, config: DQNConfig, model: QNetwork, *, role: Role, seed: int) -> None:
        self._minimizer = LossMinimizer(
            dict(model.named_parameters()), eps=config.adam_eps, max_grad_norm=config.max_grad_norm
        )
        sums = (OPPONENT_VALUE, _SHIFT) if config.minimax_alpha else ()
        super().__init__(
            config,
            model,
            online=model,
            minimizers=[self._minimizer],
            algorithm="dqn",
            role=role,
            layout=ReplayLayout.for_role(role, sums=sums),
            seed=seed,
            priority_exponent=config.priority_exponent if config.prioritized else None,
        )
        self._state |= {"gradient_steps": torch.tensor(0), "decisions": torch.tensor(0)}
        model.epsilon.fill_(self._schedules(0.0).epsilon)

    def _schedules(self, progress: float) -> _Schedules:
        config = self._config
        decay = config.epsilon_decisions
        decayed = min(1.0, int(self._state["decisions"]) / decay) if decay else 1.0
        return _Schedules(
            learning_rate=config.learning_rate * self._learning_rate_scale(progress),
            epsilon=config.epsilon_start + (config.epsilon - config.epsilon_start) * decayed,
            beta=config.importance_exponent + (1.0 - config.importance_exponent) * progress,
        )

    # -- opponents' evaluations ------------------------------------------------------------------------------------

    def _columns_to_sum(self, batch: SegmentBatch) -> dict[str, np.ndarray]:
        """Return the opponents' evaluations and |R_min| of these opponents, for the Minimax Exploiter."""
        config = self._config
        if not config.minimax_alpha:
            return {}
        value = opponent_value(batch, algorithm="dqn")
        return {
            OPPONENT_VALUE: np.nan_to_num(value, nan=0.0),
            _SHIFT: shift(batch, value, kind=config.minimax_shift, fixed=config.minimax_r_min),
        }

    def _minimax_reward(self, transitions: Transitions[Tensor]) -> Tensor:
        """Return the term that eq. 3 and 4 add to the rewards, ``[n]``; ``[]`` for no term."""
        config, sums = self._config, transitions.sums
        if not config.minimax_alpha:
            return torch.zeros((), device=self._device)
        return minimax_term(sums[OPPONENT_VALUE], sums[_SHIFT], alpha=config.minimax_alpha, gamma=config.minimax_gamma)

    # -- gradient steps --------------------------------------------------------------------------------------------

    def _train(self, batch: SegmentBatch, *, progress: float) -> dict[str, float]:
        config = self._config
        self._state["decisions"] += batch.num_decisions
        schedules = self._schedules(progress)
        scalars = self._step.scalars(learning_rate=schedules.learning_rate)

        def step(rng: np.random.Generator) -> Tensor:
            transitions = self._replay.sample(config.minibatch_size, rng, beta=schedules.beta)
            metrics = self._step_and_prioritize(transitions, scalars)
            self._state["gradient_steps"] += 1
            if int(self._state["gradient_steps"]) % config.target_update_steps == 0:
                self._target.update(config.tau)
            return metrics

        advice = f"check the action masks, or lower learning_rate ({schedules.learning_rate:g})"
        metrics = self._run_steps(step, advice=advice)
        self._model.epsilon.fill_(schedules.epsilon)
        return metrics | {"epsilon": schedules.epsilon, "learning_rate": schedules.learning_rate}

    def _step_and_prioritize(self, transitions: Transitions[np.ndarray], scalars: Mapping[str, Tensor]) -> Tensor:
        """Make a gradient step, set priorities by its TD errors, and return its metrics ``[m]``."""
        metrics, error = self._step(transitions, scalars)
        if self._config.prioritized:
            priority = error.cpu().numpy() + 1e-6
            if np.isfinite(priority).all():  # otherwise the update fails and is undone
                self._replay.set_priorities(transitions.index, priority)
        return metrics

    def _compute_step(self, minibatch: Minibatch) -> StepResult:
        transitions = minibatch.transitions
        minimax_reward = self._minimax_reward(transitions)  # [n] or []
        target = self._td_target(transitions, transitions.reward + minimax_reward)  # [n]
        weight = transitions.weight if self._config.prioritized else None
        all_q = self._model(transitions.observation)  # [n, A]
        self._track_lowest_value(masked(all_q.detach(), transitions.action_mask))
        q = all_q.gather(1, transitions.action).squeeze(1)  # [n]
        loss = td_loss(q, target, kind=self._config.loss, weight=weight)
        grad_norm = self._minimizer.step(loss, learning_rate=minibatch.scalars["learning_rate"])
        error = (q.detach() - target).abs()  # [n]
        metrics = {
            "loss": loss.detach(),
            "td_error": error.mean(),
            "q_mean": q.detach().mean(),
            "grad_norm": grad_norm,
        }
        if self._config.minimax_alpha:
            metrics["minimax_reward"] = minimax_reward.mean()
        return StepResult(metrics, error)

    def _track_lowest_value(self, legal_q: Tensor) -> None:
        """Update min_s V(s), which exploiters of this player shift their rewards by [Minimax §4.2]."""
        lowest = self._model.value_min
        lowest.copy_(torch.minimum(lowest, legal_q.amax(dim=1).min()))

    @torch.no_grad()
    def _td_target(self, transitions: Transitions[Tensor], reward: Tensor) -> Tensor:
        if not self._config.gamma:
            return reward
        after = transitions.next_observation
        return td_target(
            reward,
            transitions.discount,
            next_target_q=self._target.module(after),
            next_online_q=self._model(after) if self._config.double else None,
            next_mask=transitions.next_action_mask,
        )

    def _update_statistics(
        self,
        observation: Mapping[str, Tensor],
        privileged: Mapping[str, Tensor],
        action: Tensor,  # noqa: ARG002 - Q(s, ·) depends on observations alone
    ) -> None:
        update_statistics(self._model.network, observation, privileged)
