"""The trainer: what DQN remembers, and its gradient steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import attrs
import numpy as np
import torch
from attrs import frozen
from ludus.environment import Role
from ludus.network import update_statistics
from ludus.segment import SegmentBatch
from ludus_minimax.reward import OPPONENT_VALUE, lowest, minimax_term, opponent_value, shift
from ludus_replay import ReplayLayout, Transitions
from ludus_replay.optimizer import PartOptimizer
from ludus_replay.trainer import Learned, Minibatch, ReplayTrainer
from torch import Tensor

from ludus_dqn.config import DQNConfig
from ludus_dqn.losses import td_loss, td_target
from ludus_dqn.networks import QNetwork

__all__ = ["DQNTrainer"]

_SEEN = "opponent_seen"
_METRICS = ("loss", "td_error", "q_mean", "grad_norm", "minimax_reward")


@frozen(kw_only=True)
class _Schedules:
    learning_rate: float
    epsilon: float
    beta: float


class DQNTrainer(ReplayTrainer[DQNConfig, QNetwork]):
    """Learns from segments by way of a replay memory; see `ludus.algorithm.Trainer`.

    Args:
        config: The options.
        model: The module to train, on its device; the trainer owns it.
        role: What it plays.
        seed: Seeds the draws.

    Raises:
        ConfigError: The replay's memory is too small.
    """

    def __init__(self, config: DQNConfig, model: QNetwork, *, role: Role, seed: int) -> None:
        self._optimizer = PartOptimizer(
            dict(model.named_parameters()), eps=config.adam_eps, max_grad_norm=config.max_grad_norm
        )
        super().__init__(
            config,
            model,
            slow=model,
            optimizers=[self._optimizer],
            algorithm="dqn",
            role=role,
            layout=ReplayLayout.of(role, sums=(OPPONENT_VALUE, _SEEN) if config.minimax_alpha else ()),
            seed=seed,
            priority_exponent=config.priority_exponent if config.prioritized else None,
        )
        self._state |= {
            "gradient_steps": torch.tensor(0),
            "decisions": torch.tensor(0),
            "opponent_min": torch.tensor(math.inf, dtype=torch.float64),
        }
        model.epsilon.fill_(self._schedules(0.0).epsilon)

    def _schedules(self, progress: float) -> _Schedules:
        config = self._config
        decay = config.epsilon_decisions
        explored = min(1.0, int(self._state["decisions"]) / decay) if decay else 1.0
        return _Schedules(
            learning_rate=config.learning_rate * self._learning_rate_scale(progress),
            epsilon=config.epsilon_start + (config.epsilon - config.epsilon_start) * explored,
            beta=config.importance_exponent + (1.0 - config.importance_exponent) * progress,
        )

    # -- the opponents' evaluation ---------------------------------------------------------------------------------

    def _sums(self, batch: SegmentBatch) -> dict[str, np.ndarray]:
        """Return the opponents' evaluation and where there is one, for the Minimax Exploiter."""
        if not self._config.minimax_alpha:
            return {}
        value = opponent_value(batch, algorithm="dqn")
        return {OPPONENT_VALUE: np.nan_to_num(value, nan=0.0), _SEEN: (~np.isnan(value)).astype(np.float32)}

    def _see(self, batch: SegmentBatch) -> None:
        """Track the least that an opponent expected [Minimax §4.2]."""
        if self._config.minimax_alpha and self._config.minimax_shift == "tracked":
            self._state["opponent_min"].clamp_(max=lowest(opponent_value(batch, algorithm="dqn")))

    @property
    def _r_min(self) -> float:
        """Return R_min of eq. 4; 0 for no shift."""
        config = self._config
        return shift(config.minimax_shift, fixed=config.minimax_r_min, tracked=float(self._state["opponent_min"]))

    def _minimax(self, minibatch: Minibatch) -> Tensor:
        """Return what eq. 3 and 4 add to the rewards, by the R_min of today, ``[n]``; ``[]`` where it adds nothing."""
        config, drawn = self._config, minibatch.drawn
        if not config.minimax_alpha:
            return torch.zeros((), device=self._device)
        value, seen = drawn.sums[OPPONENT_VALUE], drawn.sums[_SEEN]
        r_min = cast("float", minibatch.knobs["r_min"])  # or a tensor, which is as good
        return minimax_term(value, seen, alpha=config.minimax_alpha, gamma=config.minimax_gamma, r_min=r_min)

    def _update_statistics(
        self,
        observation: Mapping[str, Tensor],
        privileged: Mapping[str, Tensor],
        action: Tensor,  # noqa: ARG002 - Q(s, ·) reads observations alone
    ) -> None:
        update_statistics(self._model.network, observation, privileged)

    # -- gradient steps --------------------------------------------------------------------------------------------

    def _learn(self, batch: SegmentBatch, *, progress: float) -> Learned:
        config = self._config
        self._state["decisions"] += batch.num_decisions
        self._see(batch)
        schedules = self._schedules(progress)
        knobs = self._knobs(learning_rate=schedules.learning_rate, r_min=self._r_min)

        def step(rng: np.random.Generator) -> Tensor:
            drawn = self._replay.sample(config.minibatch_size, rng, beta=schedules.beta)
            found = self._gradient_step(drawn, knobs)
            self._state["gradient_steps"] += 1
            if int(self._state["gradient_steps"]) % config.target_update_steps == 0:
                self._update_target()
            return found

        advice = f"check the action masks, or lower learning_rate ({schedules.learning_rate:g})"
        learned = self._steps(step, metrics=_METRICS, advice=advice)
        self._model.epsilon.fill_(schedules.epsilon)
        metrics = {**learned.metrics, "epsilon": schedules.epsilon, "learning_rate": schedules.learning_rate}
        if not config.minimax_alpha:
            metrics.pop("minimax_reward", None)
        return attrs.evolve(learned, metrics=metrics)

    def _gradient_step(self, drawn: Transitions[np.ndarray], knobs: Mapping[str, float | Tensor]) -> Tensor:
        """Step along the gradient of a minibatch and return its metrics, ``[len(_METRICS)]``."""
        metrics, error = self._computed(drawn, knobs, {})
        if self._config.prioritized:
            priority = error.cpu().numpy() + 1e-6
            if np.isfinite(priority).all():  # else the update will be dropped
                self._replay.set_priorities(drawn.index, priority)
        return metrics

    def _compute(self, minibatch: Minibatch) -> tuple[Tensor, ...]:
        """Make a gradient step; returns its metrics ``[len(_METRICS)]`` and the sizes of the TD errors ``[n]``."""
        drawn, added = minibatch.drawn, self._minimax(minibatch)  # [n] or []
        target = self._target_of(drawn, drawn.reward + added)  # [n]
        weight = drawn.weight if self._config.prioritized else None
        q = self._model(drawn.observation).gather(1, drawn.action).squeeze(1)  # [n]
        loss = td_loss(q, target, kind=self._config.loss, weight=weight)
        norm = self._optimizer.step(loss, learning_rate=minibatch.knobs["learning_rate"])
        error = (q.detach() - target).abs()  # [n]
        return torch.stack([loss.detach(), error.mean(), q.detach().mean(), norm, added.mean()]), error

    @torch.no_grad()
    def _target_of(self, drawn: Transitions[Tensor], reward: Tensor) -> Tensor:
        if not self._config.gamma:
            return reward
        after = drawn.next_observation
        return td_target(
            reward,
            drawn.discount,
            next_target_q=self._target(after),
            next_online_q=self._model(after) if self._config.double else None,
            next_mask=drawn.next_action_mask,
        )
