"""The random network, the one that learns to predict it, and what both read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from attrs import frozen
from gymnasium import Space, spaces
from ludus.algorithm import AlgorithmContext
from ludus.group import Alone, Group, in_turn
from ludus.network import NetworkRequest, RecurrentNetwork
from ludus.segment import SegmentBatch
from ludus.spaces import leaf_spaces
from ludus_ppo.rows import Rows, RowSource, known
from ludus_ppo.transfer import borrow
from ludus_torch.cuda_graphs import GraphedCallable
from torch import Tensor, nn

from ludus_rnd_ppo.config import RNDPPOConfig
from ludus_rnd_ppo.losses import discounted_sums, intrinsic_reward, normalised, prediction_error
from ludus_rnd_ppo.moments import RunningMoments

__all__ = ["Novelty"]

_HEAD = "rnd"
_ROWS_AT_ONCE = 4096  # where no gradient is needed
_ROWS_UNIT = 256  # calls have multiples of so many rows then: oneDNN keeps kernels for every number it meets
_LEAST_DEVIATION = 0.1  # of the mean return: returns that hardly vary are not blown up


@frozen(eq=False)
class _Seen:
    """Leaves of observations ``[n, …]``; see `ludus_torch.cuda_graphs.TensorRecord`."""

    leaves: dict[str, Tensor]

    def named(self) -> dict[str, Tensor]:
        """Return them."""
        return self.leaves


class Novelty(nn.Module):
    """How badly a network predicts another, random one: much where observations are unlike those it has learned from.

    Both are the player's network, asked for features of the observation alone; a recurrent one starts anew at every
    observation. Real and integer leaves are normalised by their running mean and deviation, the others (Discrete,
    MultiDiscrete, MultiBinary) are read as they are. All statistics are buffers, changed in place.

    Args:
        config: The options.
        context: The role and the network to build.
    """

    def __init__(self, config: RNDPPOConfig, *, context: AlgorithmContext) -> None:
        super().__init__()
        leaves = leaf_spaces(context.role.observation_space)
        request = NetworkRequest(
            observation={name: _read_as(space, config.observation_clip) for name, space in leaves.items()},
            privileged=leaf_spaces(context.role.privileged_space),  # which no head reads
            heads={_HEAD: config.rnd_features},
        )
        self._config = config
        self._names = tuple(leaves)
        self._moments_of = {name: i for i, name in enumerate(n for n in leaves if isinstance(leaves[n], spaces.Box))}
        self.target = context.build_network(request).requires_grad_(requires_grad=False)
        self.predictor = context.build_network(request)
        self.observations = nn.ModuleList([RunningMoments(leaves[name].shape or ()) for name in self._moments_of])
        self.returns = RunningMoments()
        self.reward_mean = 0.0  # of the latest batch
        self.group: Group = Alone()  # of the trainer
        self._recorded = GraphedCallable(self._measure)
        self.eval()  # networks with statistics of their own must not update these: the target has to stay as it is

    def forward(self, rows: Rows) -> Tensor:
        """Return the predictor's loss on evenly spaced rows, a share of them, times its weight: a scalar."""
        count, share = len(rows.action), self._config.predictor_share
        observation = rows.observation
        if rows.unrolled is not None:
            kept = rows.unrolled.kept
            observation = {name: leaf.flatten(0, 1).index_select(0, kept) for name, leaf in observation.items()}
        wanted = max(1, round(share * count))
        # as the model does, read a number of rows of which few occur; those behind the ones wanted only fill up
        filled = len(observation[self._names[0]])
        index = torch.arange(max(wanted, round(share * filled)), device=rows.advantage.device) * count // wanted
        index = index.clamp(max=count - 1)
        error = self._errors({name: leaf.index_select(0, index) for name, leaf in observation.items()})
        error = error[:wanted]
        if rows.weight is None:
            return self._config.predictor_coef * error.mean()
        weight = rows.weight.index_select(0, index[:wanted])  # rows that only fill up weigh nothing
        return self._config.predictor_coef * (error * weight).sum() / weight.sum()

    @torch.no_grad()
    def reward(self, batch: SegmentBatch) -> np.ndarray:
        """Return the intrinsic rewards ``[T+1, N] float32`` of a batch, to be called once for each.

        Its observations count among the running statistics before they are normalised, and so do its returns.
        """
        trainable, decided = batch.trainable(), known(batch) & batch.decided
        chosen = torch.from_numpy(trainable)
        error = torch.zeros(decided.size)
        error[torch.from_numpy(np.flatnonzero(decided))] = self._count_and_measure(batch, trainable, decided)
        terminated = borrow(batch.terminated)
        reward = intrinsic_reward(error.view(decided.shape), decided=torch.from_numpy(decided), terminated=terminated)
        elapsed = borrow(batch.elapsed_ticks).float() if self._config.discount_per == "tick" else torch.ones(())
        returns = discounted_sums(
            reward,
            terminated=terminated if self._config.intrinsic_ends else torch.zeros_like(terminated),
            trainable=chosen,
            discount=(self._config.intrinsic_gamma**elapsed).expand_as(reward),
        )
        rows = returns[chosen].to(self._device)
        in_turn(self.group, lambda: self.returns.add(rows), [*self.returns.buffers()])
        reward = reward / self._scale()
        mean = reward[chosen].mean()
        self.group.mean([mean], weight=int(trainable.sum()))
        self.reward_mean = mean.item()
        return reward.numpy()

    def _scale(self) -> float:
        """Return what raw rewards are divided by."""
        deviation, mean = torch.stack([self.returns.deviation, self.returns.mean]).tolist()
        return float(max(deviation, _LEAST_DEVIATION * mean))

    def _count_and_measure(self, batch: SegmentBatch, trainable: np.ndarray, decided: np.ndarray) -> Tensor:
        """Count the trainable observations among the running statistics, and return the errors where decided, ``[n]``.

        A GPU keeps the observations in between: to send them takes longer than what it computes.
        """
        source = RowSource(batch, trainable=decided, more={}, device=self._device)
        parts, learned = _parts(decided), trainable.ravel()
        rows: Iterable[dict[str, Tensor]] = (source.observe(self._filled(part)) for part in parts)
        if self._device.type == "cuda":
            rows = [*rows]
            indices = [torch.from_numpy(np.flatnonzero(learned[part])).to(self._device) for part in parts]
            counted: Iterable[dict[str, Tensor]] = (
                {name: leaf.index_select(0, index) for name, leaf in leaves.items()}
                for leaves, index in zip(rows, indices, strict=True)
                if len(index)
            )
        else:
            counted = map(source.observe, _parts(trainable))

        def count() -> None:
            for leaves in counted:
                for name, moments in self._moments_of.items():
                    self._moments(moments).add(leaves[name])

        in_turn(self.group, count, [*self.observations.buffers()])
        measure = self._recorded if self._records else self._measure
        errors = [measure(_Seen(leaves))[0][: part.size] for part, leaves in zip(parts, rows, strict=True)]
        return torch.cat(errors).cpu()

    @property
    def _device(self) -> torch.device:
        return self.returns.mean.device

    @property
    def _records(self) -> bool:
        """Return whether errors are measured by recorded CUDA graphs, as `PPOTrainer` makes its gradient steps."""
        config = self._config
        return config.cuda_graphs and self._device.type == "cuda" and not config.compile and self.group.size == 1

    def _filled(self, part: np.ndarray) -> np.ndarray:
        """Return entries with the last one repeated, so that their number is one of few."""
        few = 1 << (part.size - 1).bit_length() if self._device.type == "cuda" else 0
        return np.pad(part, (0, -part.size % max(_ROWS_UNIT, few)), mode="edge")

    def _measure(self, seen: _Seen) -> tuple[Tensor, ...]:
        kind = self._device.type
        # what was rounded for one call must not be read by recordings of the next
        with torch.autocast(
            kind,
            torch.get_autocast_dtype(kind),
            enabled=torch.is_autocast_enabled(kind),
            cache_enabled=False,
        ):
            return (self._errors(seen.leaves),)

    def _errors(self, leaves: dict[str, Tensor]) -> Tensor:
        """Return the predictor's error at observations ``[n, …]``, ``[n] float32``."""
        read = {name: self._read(name, leaf) for name, leaf in leaves.items()}
        with torch.no_grad():
            target = _features(self.target, read)
        return prediction_error(_features(self.predictor, read), target)

    def _read(self, name: str, leaf: Tensor) -> Tensor:
        """Return a leaf as the networks read it."""
        if name not in self._moments_of:
            return leaf
        moments = self._moments(self._moments_of[name])
        mean, deviation = moments.mean.float(), moments.deviation.float()
        return normalised(leaf, mean=mean, deviation=deviation, clip=self._config.observation_clip)

    def _moments(self, position: int) -> RunningMoments:
        moments = self.observations[position]
        assert isinstance(moments, RunningMoments)
        return moments


def _parts(chosen: np.ndarray) -> list[np.ndarray]:
    """Return the entries ``[T+1, N] bool`` that are chosen, t · N + segment each, some thousands at a time."""
    entries = np.flatnonzero(chosen)
    return np.split(entries, range(_ROWS_AT_ONCE, entries.size, _ROWS_AT_ONCE))


def _read_as(space: Space[Any], clip: float) -> Space[Any]:
    """Return the space of a leaf after normalisation."""
    return spaces.Box(-clip, clip, space.shape, np.float32) if isinstance(space, spaces.Box) else space


def _features(network: nn.Module, leaves: dict[str, Tensor]) -> Tensor:
    """Return the features ``[n, K] float32``."""
    rows = len(next(iter(leaves.values())))
    state = network.initial_state(rows) if isinstance(network, RecurrentNetwork) else {}
    heads, _ = network(leaves, {}, state)
    features: Tensor = heads[_HEAD]
    return features.float()
