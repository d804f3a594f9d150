"""The trainer: from segments to gradient steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

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
from ludus_ppo.gradients import ChunkedGradient
from ludus_ppo.kernels import use_onednn
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
from ludus_ppo.rows import Rows, RowSource, borrow

__all__ = ["PPOTrainer"]

_METRICS = ("policy_loss", "value_loss", "entropy", "grad_norm", "approx_kl", "clip_fraction")

# Rows times weights of a chunk, about 6 ms of work: a chunk costs some hundred calls of torch besides, which threads
# have to make one after the other because of Python's lock. Smaller networks are faster with a single thread.
_CHUNK_WORK = 250_000_000
_CHUNK_ROWS = 64
_ROWS_MULTIPLE = 32


@frozen
class _ChunkResult:
    losses: Tensor  # [3]: policy loss, value loss, entropy, times the share of the chunk in its minibatch
    log_prob: Tensor  # [n, L]
    old_log_prob: Tensor  # [n, L]
    used: Tensor | None  # [n, L] bool


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
        self._weights = sum(parameter.numel() for parameter in self._parameters)
        self._device = self._parameters[0].device
        on_cpu = self._device.type == "cpu"
        self._multiple = 1
        if on_cpu and config.cpu_kernels == "onednn" and config.precision == "fp32":
            use_onednn(model)
            self._multiple = _ROWS_MULTIPLE
        threads = (config.gradient_threads or torch.get_num_threads()) if on_cpu else 1
        self._gradient = ChunkedGradient(model, threads)
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
        trainable = batch.trainable()
        chosen = np.flatnonzero(trainable)
        if not chosen.size:
            raise ContractError("ppo: a batch without a single trainable decision")
        learning_rate, ent_coef = self._schedules(progress)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        source = self._source(batch, trainable, chosen)
        before = [tensor.clone() for tensor in self._live()]
        try:
            with _torch_threads(1) if self._gradient.threads > 1 else nullcontext():
                metrics, steps = self._passes(source, chosen, ent_coef=ent_coef)
            bad = [name for name, value in metrics.items() if not math.isfinite(value)]
            if bad:
                raise ContractError(
                    f"ppo: {', '.join(bad)} not finite; the update was dropped — check observations and rewards for "
                    f"NaN, or lower learning_rate ({learning_rate:g})"
                )
        except Exception:  # whatever stopped it, an update counts as a whole or not at all
            for tensor, saved in zip(self._live(), before, strict=True):
                tensor.copy_(saved)
            raise
        self._state["updates"] += 1
        metrics |= _batch_metrics(source, chosen) | {"learning_rate": learning_rate, "ent_coef": ent_coef}
        passes = steps // min(self._config.num_minibatches, chosen.size)
        return UpdateResult(metrics=metrics, samples=passes * chosen.size, gradient_steps=steps)

    def _schedules(self, progress: float) -> tuple[float, float]:
        config = self._config
        share = min(max(progress, 0.0), 1.0)
        learning_rate = config.learning_rate * (1.0 - share if config.learning_rate_schedule == "linear" else 1.0)
        final = config.ent_coef if config.ent_coef_final is None else config.ent_coef_final
        return learning_rate, config.ent_coef + (final - config.ent_coef) * share

    def _source(self, batch: SegmentBatch, trainable: np.ndarray, chosen: np.ndarray) -> RowSource:
        advantage = self._advantage(batch, torch.from_numpy(trainable))
        returns = advantage + borrow(batch.extras["value"])
        if self._config.normalize_advantage:
            deviation, mean = torch.std_mean(advantage.flatten()[torch.from_numpy(chosen)], correction=0)
            advantage = (advantage - mean) / (deviation + 1e-8)
        source = RowSource(batch, advantage=advantage, returns=returns, device=self._device, multiple=self._multiple)
        if batch.action_mask is not None:
            self._distribution.check(source.pick("action", chosen), source.pick("action_mask", chosen))
        return source

    def _advantage(self, batch: SegmentBatch, trainable: Tensor) -> Tensor:
        elapsed = borrow(batch.elapsed_ticks).float()
        per_tick = self._config.discount_per == "tick"
        gamma = torch.tensor(self._config.gamma)
        return gae(
            borrow(batch.reward),
            borrow(batch.extras["value"]),
            terminated=borrow(batch.terminated),
            trainable=trainable,
            discount=gamma**elapsed if per_tick else gamma.expand_as(elapsed),
            gae_lambda=self._config.gae_lambda,
        )

    def _passes(self, source: RowSource, chosen: np.ndarray, *, ent_coef: float) -> tuple[dict[str, float], int]:
        """Make all gradient steps and return the means of their metrics, and how many they were."""
        config = self._config
        rng = np.random.default_rng([int(self._state["seed"]), int(self._state["updates"])])
        parts = min(config.num_minibatches, chosen.size)
        losses: list[Tensor] = []
        moved: list[Tensor] = []
        for _ in range(config.epochs):
            results: list[_ChunkResult] = []
            for entries in np.array_split(chosen[rng.permutation(chosen.size)], parts):
                of_step, grad_norm = self._gradient_step(source, entries, ent_coef=ent_coef)
                losses.append(torch.cat([torch.stack([result.losses for result in of_step]).sum(dim=0), grad_norm]))
                results += of_step
            moved.append(self._moved(results))
            if config.target_kl and not moved[-1][0].item() <= config.target_kl:
                break
        means = torch.cat([torch.stack(losses).mean(dim=0), torch.stack(moved).mean(dim=0)])
        return dict(zip(_METRICS, means.tolist(), strict=True)), len(losses)

    def _gradient_step(
        self, source: RowSource, entries: np.ndarray, *, ent_coef: float
    ) -> tuple[list[_ChunkResult], Tensor]:
        """Step along the gradient of a minibatch and return the results of its chunks, and the norm ``[1]``."""
        chunks = np.array_split(entries, self._chunks(entries.size))

        def backward(model: nn.Module, chunk: int) -> _ChunkResult:
            share = chunks[chunk].size / entries.size
            return self._backward(model, source.take(chunks[chunk]), share=share, ent_coef=ent_coef)

        results = self._gradient.compute(len(chunks), backward)
        norm = nn.utils.clip_grad_norm_(self._parameters, self._config.max_grad_norm)
        self._optimizer.step()
        return results, norm.unsqueeze(0)

    def _chunks(self, rows: int) -> int:
        """Return in how many chunks to compute the gradient of a minibatch."""
        if self._gradient.threads == 1:
            return 1
        worthwhile = rows // max(_CHUNK_ROWS, _CHUNK_WORK // self._weights)
        # two for each thread: one that gets less of its core can leave one to another
        return max(1, min(2 * self._gradient.threads, worthwhile))

    def _backward(self, model: nn.Module, rows: Rows, *, share: float, ent_coef: float) -> _ChunkResult:
        """Add the gradient of `rows`, which are a `share` of their minibatch, to that of the model."""
        config = self._config
        with torch.autocast(self._device.type, torch.bfloat16, enabled=config.precision == "bf16"):
            parameters, value = model(rows.observation, rows.privileged)
        if value is None:
            raise ContractError("ppo: the critic reads privileged leaves, but the batch carries none")
        parameters, value = parameters[: len(rows.action)], value[: len(rows.action)]
        log_prob, entropy = self._distribution.terms(
            parameters.float(), action=rows.action, extras=rows.extras, mask=rows.action_mask
        )
        used = rows.extras.get("label_used")
        losses = (
            -self._objective(log_prob, rows, used=used),
            value_loss(value.float(), rows.returns, old_value=rows.extras["value"], value_clip=config.value_clip),
            mean_over_labels_used(entropy, used=used),
        )
        weights = torch.tensor((share, share * config.vf_coef, -share * ent_coef), device=self._device)
        torch.autograd.backward(losses, weights.unbind())
        return _ChunkResult(torch.stack(losses).detach() * share, log_prob.detach(), rows.extras["log_prob"], used)

    def _moved(self, results: list[_ChunkResult]) -> Tensor:
        """Return how far the policy has moved in a pass: the two `ratio_statistics`."""
        used = (
            None
            if results[0].used is None
            else torch.cat([result.used for result in results if result.used is not None])
        )
        return torch.stack(
            ratio_statistics(
                torch.cat([result.log_prob for result in results]),
                torch.cat([result.old_log_prob for result in results]),
                clip_epsilon=self._config.clip_epsilon,
                used=used,
            )
        )

    def _objective(self, log_prob: Tensor, rows: Rows, *, used: Tensor | None) -> Tensor:
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


def _batch_metrics(source: RowSource, chosen: np.ndarray) -> dict[str, float]:
    """Describe the batch as it was played."""
    value, returns = source.pick("extras/value", chosen), source.pick("returns", chosen)
    numbers = torch.stack([explained_variance(value, returns), value.mean(), returns.mean()]).tolist()
    return dict(zip(("explained_variance", "value_mean", "return_mean"), numbers, strict=True))


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    """Let single operations of torch use so many threads meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
