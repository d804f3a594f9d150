"""The trainer: remembers segments and learns from draws."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

import numpy as np
import torch
from attrs import frozen
from ludus.algorithm import UpdateResult, Weights
from ludus.environment import Role
from ludus.errors import ContractError
from ludus.network import copy_arrays, get_weights, set_weights
from ludus.segment import SegmentBatch
from ludus_replay import ReplayBuffer, ReplayLayout, Rows, Transitions, collect
from torch import Tensor

from ludus_sac.actions import ActionKind, Candidates
from ludus_sac.config import SACConfig
from ludus_sac.losses import critic_loss, entropy, soft_target, soft_value, temperature_loss
from ludus_sac.networks import ActorCritics
from ludus_sac.optimizer import PartOptimizer

__all__ = ["SACTrainer"]

_REPLAY = "replay/"
_METRICS = ("q_loss", "q_mean", "critic_grad_norm", "policy_loss", "grad_norm", "entropy", "target_entropy", "alpha")


@frozen
class _Minibatch:
    """Transitions on the trainer's device."""

    observation: dict[str, Tensor]
    privileged: dict[str, Tensor]
    action: Tensor  # [n, L] or [n, D], as recorded
    mask: Tensor | None  # [n, A] bool
    target: Tensor  # [n]


class SACTrainer:
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
        self._config = config
        self._role = role.name
        self._model = model
        self._kind = kind
        self._device = model.log_alpha.device
        self._target = copy.deepcopy(model.critics).requires_grad_(requires_grad=False)
        self._optimizers = {name: self._optimizer(name) for name in ("actor.", "critics.", "log_alpha")}
        self._layout = ReplayLayout.of(role, privileged=role.privileged_space is not None)
        self._replay = ReplayBuffer(
            self._layout,
            capacity=config.replay_capacity,
            memory_mb=config.replay_memory_mb,
            fewest=config.learning_starts,
        )
        self._state = {
            "seed": torch.tensor(seed),
            "updates": torch.tensor(0),
            **{f"target/{name}": tensor for name, tensor in self._target.state_dict().items()},
        }
        for optimizer in self._optimizers.values():
            self._state |= optimizer.state

    def _optimizer(self, prefix: str) -> PartOptimizer:
        named = {name: one for name, one in self._model.named_parameters() if name.startswith(prefix)}
        return PartOptimizer(named, eps=self._config.adam_eps, max_grad_norm=self._config.max_grad_norm)

    @property
    def batch_decisions(self) -> int:
        """Return how many fresh decisions an update wants."""
        return self._config.batch_decisions

    # -- learning ----------------------------------------------------------------------------------------------

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Remember the batch and make `updates_per_batch` gradient steps, once there is enough to draw from.

        Raises:
            ContractError: The batch has nothing to train on, or it, a loss or a gradient is not finite; the trainer is
                left as it was.
        """
        batch.check()
        fresh = batch.num_decisions
        if not fresh:
            raise ContractError("sac: a batch without a single trainable decision")
        rows = self._collect(batch)
        share = min(max(progress, 0.0), 1.0)
        scale = 1.0 - share if self._config.learning_rate_schedule == "linear" else 1.0
        before = [tensor.clone() for tensor in self._live()]
        try:
            with self._replay.transaction():
                self._replay.add(rows)
                metrics, steps = self._learn(scale)
        except Exception:  # whatever stopped it, an update counts as a whole or not at all
            for tensor, saved in zip(self._live(), before, strict=True):
                tensor.copy_(saved)
            raise
        self._state["updates"] += 1
        samples = steps * self._config.minibatch_size
        metrics |= {
            "learning_rate": scale * self._config.learning_rate,
            "replay_size": float(len(self._replay)),
            "reuse": samples / fresh,
        }
        return UpdateResult(metrics=metrics, samples=samples, gradient_steps=steps)

    def _collect(self, batch: SegmentBatch) -> Rows:
        """Return what to remember of a batch."""
        config = self._config
        rows = collect(batch, self._layout, gamma=config.gamma, n_step=config.n_step, discount_per=config.discount_per)
        mask = rows.arrays.get("action_mask")
        if mask is not None:
            starts = rows.arrays["offset"] > 0
            if not np.take_along_axis(mask, rows.arrays["action"], axis=1)[starts].all():
                raise ContractError(f"role {self._role}, label 0: a recorded action is forbidden by its own mask")
        return rows

    def _learn(self, scale: float) -> tuple[dict[str, float], int]:
        """Make the gradient steps of an update and return the means of their metrics, and how many they were.

        Args:
            scale: Of the learning rates.

        Raises:
            ContractError: A metric is not finite.
        """
        config = self._config
        if len(self._replay) < config.learning_starts:
            return {}, 0
        rng = np.random.default_rng([int(self._state["seed"]), int(self._state["updates"])])
        found = [
            self._gradient_step(self._replay.sample(config.minibatch_size, rng), rng, scale=scale)
            for _ in range(config.updates_per_batch)
        ]
        means = dict(zip(_METRICS, torch.stack(found).mean(dim=0).tolist(), strict=True))
        bad = [name for name, value in means.items() if not math.isfinite(value)]
        if bad:
            raise ContractError(
                f"sac: {', '.join(bad)} not finite; the update was dropped — check the action masks and the size of "
                f"rewards, or lower critic_learning_rate ({config.critic_learning_rate:g})"
            )
        return means, config.updates_per_batch

    def _gradient_step(self, drawn: Transitions, rng: np.random.Generator, *, scale: float) -> Tensor:
        """Step the critics, then the policy and the temperature; return the metrics ``[len(_METRICS)]``."""
        config = self._config
        alpha = self._model.log_alpha.detach().exp()  # []
        batch = self._minibatch(drawn, rng, alpha=alpha)
        q = self._model.critics(batch.observation, batch.privileged, self._kind.critic_action(batch.action))
        taken = self._kind.taken(q, batch.action)  # [2, n]
        q_loss = critic_loss(taken, batch.target)
        critic_norm = self._optimizers["critics."].step(q_loss, learning_rate=scale * config.critic_learning_rate)

        policy_loss, policy_entropy = self._policy_terms(batch, rng, alpha=alpha)
        norm = self._optimizers["actor."].step(policy_loss, learning_rate=scale * config.learning_rate)
        wanted = self._target_entropy(batch.mask, rows=policy_entropy)  # [n] or [1]
        if config.learn_alpha:
            alpha_loss = temperature_loss(self._model.log_alpha, policy_entropy, wanted)
            self._optimizers["log_alpha"].step(alpha_loss, learning_rate=scale * config.alpha_learning_rate)
        self._update_target()
        return torch.stack(
            [
                q_loss.detach(),
                taken.detach().mean(),
                critic_norm,
                policy_loss.detach(),
                norm,
                policy_entropy.mean(),
                wanted.mean(),
                alpha,
            ]
        )

    def _minibatch(self, drawn: Transitions, rng: np.random.Generator, *, alpha: Tensor) -> _Minibatch:
        return _Minibatch(
            observation=self._tensors(drawn.observation),
            privileged=self._tensors(drawn.privileged),
            action=self._tensor(drawn.action),
            mask=None if drawn.action_mask is None else self._tensor(drawn.action_mask),
            target=self._target_of(drawn, rng, alpha=alpha),
        )

    @torch.no_grad()
    def _target_of(self, drawn: Transitions, rng: np.random.Generator, *, alpha: Tensor) -> Tensor:
        after = self._tensors(drawn.next_observation)
        mask = None if drawn.next_action_mask is None else self._tensor(drawn.next_action_mask)
        candidates = self._kind.candidates(self._model.policy(after), mask, rng=rng)
        q = self._target(after, self._tensors(drawn.next_privileged), candidates.action).amin(dim=0)  # [n, C]
        value = soft_value(q, candidates.log_prob, candidates.weight, alpha=alpha)
        return soft_target(self._tensor(drawn.reward), self._tensor(drawn.discount), value)

    def _policy_terms(self, batch: _Minibatch, rng: np.random.Generator, *, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return the policy loss ``[]``, and the entropy ``[n]`` without gradient."""
        candidates: Candidates = self._kind.candidates(self._model.policy(batch.observation), batch.mask, rng=rng)
        q = self._model.critics(batch.observation, batch.privileged, candidates.action).amin(dim=0)  # [n, C]
        value = soft_value(q, candidates.log_prob, candidates.weight, alpha=alpha)
        return -value.mean(), entropy(candidates.log_prob.detach(), candidates.weight.detach())

    def _target_entropy(self, mask: Tensor | None, *, rows: Tensor) -> Tensor:
        given = self._config.target_entropy
        if given is not None:
            return rows.new_full((1,), given)
        return self._kind.target_entropy(mask, rows=rows, fraction=self._config.target_entropy_fraction)

    @torch.no_grad()
    def _update_target(self) -> None:
        for old, new in zip(self._target.parameters(), self._model.critics.parameters(), strict=True):
            old.lerp_(new, self._config.tau)
        for kept, buffer in zip(self._target.buffers(), self._model.critics.buffers(), strict=True):
            kept.copy_(buffer)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _tensors(self, leaves: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
        return {name: self._tensor(leaf) for name, leaf in leaves.items()}

    # -- weights and state -------------------------------------------------------------------------------------

    def weights(self) -> dict[str, np.ndarray]:
        """Return a copy of the weights: actor, critics, log temperature."""
        return get_weights(self._model)

    def load_weights(self, weights: Weights) -> None:
        """Start from the weights of a model; the target critics too.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        set_weights(self._model, weights)
        self._target.load_state_dict(self._model.critics.state_dict())

    def state(self) -> dict[str, np.ndarray]:
        """Return counters, Adam's moments, the target critics, and the replay memory if checkpoints hold it."""
        state = {name: tensor.cpu().numpy().copy() for name, tensor in self._state.items()}
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
