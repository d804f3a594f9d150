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
from ludus_replay import ReplayBuffer, ReplayLayout, Rows, Transitions, collect, minimax_term
from torch import Tensor, nn

from ludus_dqn.config import DQNConfig
from ludus_dqn.losses import td_loss, td_target
from ludus_dqn.networks import QNetwork

__all__ = ["OPPONENT_VALUE", "DQNTrainer"]

#: The field that samplers fill with the opponents' evaluation, NaN where there is none.
OPPONENT_VALUE = "opponent_value"

_SEEN = "opponent_seen"
_REPLAY = "replay/"
_METRICS = ("loss", "td_error", "q_mean", "grad_norm", "minimax_reward")


@frozen(kw_only=True)
class _Schedules:
    learning_rate: float
    epsilon: float
    beta: float


class DQNTrainer:
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
        self._config = config
        self._role = role.name
        self._model = model
        self._target = copy.deepcopy(model).requires_grad_(requires_grad=False)
        self._parameters = list(model.parameters())
        self._device = self._parameters[0].device
        self._optimizer = torch.optim.Adam(
            self._parameters, lr=config.learning_rate, eps=config.adam_eps, fused=self._device.type in ("cpu", "cuda")
        )
        self._layout = ReplayLayout.of(role, sums=(OPPONENT_VALUE, _SEEN) if config.minimax_alpha else ())
        self._replay = ReplayBuffer(
            self._layout,
            capacity=config.replay_capacity,
            memory_mb=config.replay_memory_mb,
            fewest=config.learning_starts,
            priority_exponent=config.priority_exponent if config.prioritized else None,
        )
        self._state = {
            "seed": torch.tensor(seed),
            "updates": torch.tensor(0),
            "gradient_steps": torch.tensor(0),
            "decisions": torch.tensor(0),
            "opponent_min": torch.tensor(math.inf, dtype=torch.float64),
            **{f"target/{name}": tensor for name, tensor in self._target.state_dict().items()},
            **self._adam_state(),
        }
        model.epsilon.fill_(self._schedules(0.0).epsilon)

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
            raise ContractError("dqn: a batch without a single trainable decision")
        rows = self._collect(batch)
        before = [tensor.clone() for tensor in self._live()]
        try:
            with self._replay.transaction():
                self._replay.add(rows)
                self._state["decisions"] += fresh
                self._see(batch)
                schedules = self._schedules(progress)
                metrics, steps = self._learn(schedules)
        except Exception:  # whatever stopped it, an update counts as a whole or not at all
            for tensor, saved in zip(self._live(), before, strict=True):
                tensor.copy_(saved)
            raise
        self._state["updates"] += 1
        self._model.epsilon.fill_(schedules.epsilon)
        samples = steps * self._config.minibatch_size
        metrics |= {
            "epsilon": schedules.epsilon,
            "learning_rate": schedules.learning_rate,
            "replay_size": float(len(self._replay)),
            "reuse": samples / fresh,
        }
        return UpdateResult(metrics=metrics, samples=samples, gradient_steps=steps)

    def _schedules(self, progress: float) -> _Schedules:
        config = self._config
        share = min(max(progress, 0.0), 1.0)
        decay = config.epsilon_decisions
        explored = min(1.0, int(self._state["decisions"]) / decay) if decay else 1.0
        return _Schedules(
            learning_rate=config.learning_rate * (1.0 - share if config.learning_rate_schedule == "linear" else 1.0),
            epsilon=config.epsilon_start + (config.epsilon - config.epsilon_start) * explored,
            beta=config.importance_exponent + (1.0 - config.importance_exponent) * share,
        )

    def _collect(self, batch: SegmentBatch) -> Rows:
        """Return what to remember of a batch."""
        config, sums = self._config, None
        if config.minimax_alpha:
            value = self._opponent_value(batch)
            sums = {OPPONENT_VALUE: np.nan_to_num(value, nan=0.0), _SEEN: (~np.isnan(value)).astype(np.float32)}
        rows = collect(
            batch,
            self._layout,
            gamma=config.gamma,
            n_step=config.n_step,
            discount_per=config.discount_per,
            sums=sums,
        )
        starts = rows.arrays["offset"] > 0
        taken = np.take_along_axis(rows.arrays["action_mask"], rows.arrays["action"], axis=1)[:, 0]
        if not taken[starts].all():
            raise ContractError(f"role {self._role}, label 0: a recorded action is forbidden by its own mask")
        return rows

    def _opponent_value(self, batch: SegmentBatch) -> np.ndarray:
        """Return V_opp(s_{t+1}) ``[T+1, N]``, NaN where there is none or nothing is learned.

        Raises:
            ContractError: Segments do not carry it, or a value is infinite.
        """
        if OPPONENT_VALUE not in batch.extras:
            raise ContractError(f"dqn: the segments carry no {OPPONENT_VALUE}, which minimax_alpha > 0 needs")
        value = np.where(batch.trainable(), batch.extras[OPPONENT_VALUE], np.float32(np.nan))
        if np.isinf(value).any():
            raise ContractError(f"dqn: {OPPONENT_VALUE} is infinite; the update was dropped")
        return value

    def _see(self, batch: SegmentBatch) -> None:
        """Track the least that an opponent expected [Minimax §4.2]."""
        if self._config.minimax_alpha and self._config.minimax_shift == "tracked":
            least = np.fmin.reduce(self._opponent_value(batch), axis=None, initial=math.inf)
            self._state["opponent_min"].clamp_(max=float(least))

    @property
    def _r_min(self) -> float:
        """Return R_min of eq. 4; 0 for no shift."""
        if self._config.minimax_shift == "fixed":
            return self._config.minimax_r_min
        least = float(self._state["opponent_min"])
        return least if math.isfinite(least) else 0.0

    def _learn(self, schedules: _Schedules) -> tuple[dict[str, float], int]:
        """Make the gradient steps of an update and return the means of their metrics, and how many they were.

        Raises:
            ContractError: A metric is not finite.
        """
        config = self._config
        if len(self._replay) < config.learning_starts:
            return {}, 0
        for group in self._optimizer.param_groups:
            group["lr"] = schedules.learning_rate
        rng = np.random.default_rng([int(self._state["seed"]), int(self._state["updates"])])
        found: list[Tensor] = []
        for _ in range(config.updates_per_batch):
            drawn = self._replay.sample(config.minibatch_size, rng, beta=schedules.beta)
            found.append(self._gradient_step(drawn))
            self._state["gradient_steps"] += 1
            if int(self._state["gradient_steps"]) % config.target_update_steps == 0:
                self._update_target()
        means = dict(zip(_METRICS, torch.stack(found).mean(dim=0).tolist(), strict=True))
        bad = [name for name, value in means.items() if not math.isfinite(value)]
        if bad:
            raise ContractError(
                f"dqn: {', '.join(bad)} not finite; the update was dropped — check the action masks, or lower "
                f"learning_rate ({schedules.learning_rate:g})"
            )
        if not config.minimax_alpha:
            del means["minimax_reward"]
        return means, config.updates_per_batch

    def _gradient_step(self, drawn: Transitions) -> Tensor:
        """Step along the gradient of a minibatch and return its metrics, ``[len(_METRICS)]``."""
        added = self._minimax(drawn)  # [n] or []
        reward = self._tensor(drawn.reward) + added
        target = self._target_of(drawn, reward)  # [n]
        weight = self._tensor(drawn.weight) if self._config.prioritized else None
        q = self._model(self._tensors(drawn.observation)).gather(1, self._tensor(drawn.action)).squeeze(1)  # [n]
        loss = td_loss(q, target, kind=self._config.loss, weight=weight)
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        norm = nn.utils.clip_grad_norm_(self._parameters, self._config.max_grad_norm)
        self._optimizer.step()
        error = (q.detach() - target).abs()  # [n]
        if self._config.prioritized:
            self._replay.set_priorities(drawn.index, error.cpu().numpy() + 1e-6)
        return torch.stack([loss.detach(), error.mean(), q.detach().mean(), norm, added.mean()])

    def _minimax(self, drawn: Transitions) -> Tensor:
        """Return what eq. 3 and 4 add to the rewards, by the R_min of today."""
        config = self._config
        if not config.minimax_alpha:
            return torch.zeros((), device=self._device)
        value, seen = self._tensor(drawn.sums[OPPONENT_VALUE]), self._tensor(drawn.sums[_SEEN])
        r_min = 0.0 if config.minimax_shift == "none" else self._r_min
        return minimax_term(value, seen, alpha=config.minimax_alpha, gamma=config.minimax_gamma, r_min=r_min)

    @torch.no_grad()
    def _target_of(self, drawn: Transitions, reward: Tensor) -> Tensor:
        if not self._config.gamma:
            return reward
        after = self._tensors(drawn.next_observation)
        return td_target(
            reward,
            self._tensor(drawn.discount),
            next_target_q=self._target(after),
            next_online_q=self._model(after) if self._config.double else None,
            next_mask=None if drawn.next_action_mask is None else self._tensor(drawn.next_action_mask),
        )

    @torch.no_grad()
    def _update_target(self) -> None:
        for old, new in zip(self._target.parameters(), self._parameters, strict=True):
            old.lerp_(new, self._config.tau)
        for kept, buffer in zip(self._target.buffers(), self._model.buffers(), strict=True):
            kept.copy_(buffer)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _tensors(self, leaves: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
        return {name: self._tensor(leaf) for name, leaf in leaves.items()}

    # -- weights and state -------------------------------------------------------------------------------------

    def weights(self) -> dict[str, np.ndarray]:
        """Return a copy of the weights, epsilon among them."""
        return get_weights(self._model)

    def load_weights(self, weights: Weights) -> None:
        """Start from the weights of a model; the target network too.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        set_weights(self._model, weights)
        set_weights(self._target, weights)

    def state(self) -> dict[str, np.ndarray]:
        """Return counters, Adam's moments, the target network, and the replay memory if checkpoints hold it."""
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
