"""Random network distillation: the random target network, the predictor, and the statistics of what both read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from ludus.algorithm import AlgorithmContext
from ludus.group import Group, in_turn
from ludus.network import NetworkRequest, RecurrentNetwork, to_tensor
from ludus.segment import SegmentBatch
from ludus.spaces import leaf_spaces
from ludus_ppo.loss_terms import PolicyOutputs
from ludus_ppo.minibatches import Minibatch, has_observation
from torch import Tensor, nn

from ludus_rnd_ppo.config import RNDPPOConfig
from ludus_rnd_ppo.losses import discounted_sums, intrinsic_reward, normalized, prediction_error
from ludus_rnd_ppo.moments import RunningMoments

_HEAD = "rnd"
_MAX_ROWS = 4096  # per call without gradients
_ROW_UNIT = 256  # the rows of such calls are a multiple of this, as oneDNN keeps kernels for every number of rows
_MIN_DEVIATION = 0.1  # in mean returns, so that returns that hardly vary are not scaled up


class Novelty(nn.Module):
    """A predictor of a random network, whose error is high for observations that it was not trained on.

    It makes the intrinsic rewards and is the loss term that trains the predictor; see `ludus_ppo.loss_terms.LossTerm`.

    Both networks are the player's network with a head for features of the observation. A recurrent network starts from
    its initial state at every observation. Real and integer leaves are normalized by running mean and deviation; others
    (Discrete, MultiDiscrete, MultiBinary) are read unchanged. All statistics are buffers that change in place.

    Args:
        config: The options.
        context: The role and the network to build.

    Attributes:
        reward_mean: Mean intrinsic reward of the latest batch.
    """

    def __init__(self, config: RNDPPOConfig, *, context: AlgorithmContext) -> None:
        super().__init__()
        leaves = leaf_spaces(context.role.observation_space)
        request = NetworkRequest(
            observation={name: _normalized_space(space, config.observation_clip) for name, space in leaves.items()},
            privileged=leaf_spaces(context.role.privileged_space),  # not read by any head
            heads={_HEAD: config.rnd_features},
        )
        self._config = config
        normalized_leaves = [name for name, space in leaves.items() if isinstance(space, spaces.Box)]
        self._moments_index = {name: index for index, name in enumerate(normalized_leaves)}
        self.target = context.build_network(request).requires_grad_(requires_grad=False)
        self.predictor = context.build_network(request)
        self.observations = nn.ModuleList([RunningMoments(leaves[name].shape or ()) for name in normalized_leaves])
        self.returns = RunningMoments()
        self.reward_mean = 0.0
        self.eval()  # networks must not update statistics of their own: the target never changes

    def forward(self, minibatch: Minibatch, outputs: PolicyOutputs) -> tuple[Tensor, dict[str, Tensor]]:  # noqa: ARG002
        """Return the weighted loss of the predictor on a share of the rows, evenly spaced, and its metric."""
        count, observation = minibatch.num_rows, minibatch.observation
        if minibatch.unrolled is not None:
            kept = minibatch.unrolled.kept
            observation = {name: leaf.flatten(0, 1).index_select(0, kept) for name, leaf in observation.items()}
        num_used = max(1, round(self._config.predictor_share * count))
        # keep the padding of the minibatch, so that few different numbers of rows occur
        num_read = max(num_used, round(self._config.predictor_share * len(next(iter(observation.values())))))
        index = torch.arange(num_read, device=minibatch.advantage.device) * count // num_used
        index = index.clamp(max=count - 1)
        errors = self._errors({name: leaf.index_select(0, index) for name, leaf in observation.items()})
        loss = errors[:num_used].mean()
        return self._config.predictor_coef * loss, {"predictor_loss": loss.detach()}

    @torch.no_grad()
    def reward(self, batch: SegmentBatch, group: Group) -> np.ndarray:
        """Return the intrinsic rewards ``[T+1, N] float32`` of a batch; call it once per batch.

        The observations and returns of the batch enter the running statistics before these normalize them.

        Args:
            batch: The segments.
            group: Process group of the trainer.
        """
        trainable, decided = batch.trainable(), has_observation(batch) & batch.decided
        self._add_observations(batch, trainable, group)
        error = torch.zeros(decided.shape)
        error[torch.from_numpy(decided)] = self._measure(batch, decided)
        terminated = to_tensor(batch.terminated)
        reward = intrinsic_reward(error, decided=torch.from_numpy(decided), terminated=terminated)
        self._add_returns(batch, reward, trainable, group)
        reward = reward / self._scale()
        mean = reward[torch.from_numpy(trainable)].mean()
        group.mean([mean], weight=int(trainable.sum()))
        self.reward_mean = mean.item()
        return reward.numpy()

    def _add_observations(self, batch: SegmentBatch, trainable: np.ndarray, group: Group) -> None:
        def add() -> None:
            for leaves in self._observations(batch, trainable):
                for name, index in self._moments_index.items():
                    self._moments(index).add(leaves[name])

        in_turn(group, add, [*self.observations.buffers()])

    def _add_returns(self, batch: SegmentBatch, reward: Tensor, trainable: np.ndarray, group: Group) -> None:
        config, terminated = self._config, to_tensor(batch.terminated)
        elapsed = to_tensor(batch.elapsed_ticks).float() if config.discount_per == "tick" else torch.ones(())
        mask = torch.from_numpy(trainable)
        returns = discounted_sums(
            reward,
            terminated=terminated if config.intrinsic_ends else torch.zeros_like(terminated),
            trainable=mask,
            discount=(config.intrinsic_gamma**elapsed).expand_as(reward),
        )
        rows = returns[mask].to(self._device)
        in_turn(group, lambda: self.returns.add(rows), [*self.returns.buffers()])

    def _scale(self) -> float:
        """Return the divisor of raw rewards."""
        deviation, mean = torch.stack([self.returns.deviation, self.returns.mean]).tolist()
        return float(max(deviation, _MIN_DEVIATION * mean))

    def _measure(self, batch: SegmentBatch, entries: np.ndarray) -> Tensor:
        """Return the errors at entries ``[T+1, N] bool``, ``[n] float32`` on the CPU."""
        errors = []
        for leaves in self._observations(batch, entries):
            rows = len(next(iter(leaves.values())))
            padded = torch.arange(rows + -rows % _ROW_UNIT, device=self._device).clamp(max=rows - 1)
            errors.append(self._errors({name: leaf.index_select(0, padded) for name, leaf in leaves.items()})[:rows])
        return torch.cat(errors).cpu()

    def _observations(self, batch: SegmentBatch, entries: np.ndarray) -> Iterator[dict[str, Tensor]]:
        """Yield the leaves of the observations at entries ``[T+1, N] bool``, at most some thousand rows at once."""
        step, segment = np.nonzero(entries)
        for start in range(0, step.size, _MAX_ROWS):
            rows = slice(start, start + _MAX_ROWS)
            yield {
                name: torch.from_numpy(leaf[step[rows], segment[rows]]).to(self._device)
                for name, leaf in batch.observation.items()
            }

    @property
    def _device(self) -> torch.device:
        return self.returns.mean.device

    def _errors(self, leaves: dict[str, Tensor]) -> Tensor:
        """Return the predictor's error at observations ``[n, …]``, ``[n] float32``."""
        read = {name: self._normalize(name, leaf) for name, leaf in leaves.items()}
        with torch.no_grad():
            target = _features(self.target, read)
        return prediction_error(_features(self.predictor, read), target)

    def _normalize(self, name: str, leaf: Tensor) -> Tensor:
        """Return a leaf as the networks read it."""
        if name not in self._moments_index:
            return leaf
        moments = self._moments(self._moments_index[name])
        mean, deviation = moments.mean.float(), moments.deviation.float()
        return normalized(leaf, mean=mean, deviation=deviation, clip=self._config.observation_clip)

    def _moments(self, index: int) -> RunningMoments:
        moments = self.observations[index]
        assert isinstance(moments, RunningMoments)
        return moments


def _normalized_space(space: Space[Any], clip: float) -> Space[Any]:
    """Return the space of a leaf after normalization."""
    return spaces.Box(-clip, clip, space.shape, np.float32) if isinstance(space, spaces.Box) else space


def _features(network: nn.Module, leaves: dict[str, Tensor]) -> Tensor:
    """Return the features ``[n, K] float32``."""
    rows = len(next(iter(leaves.values())))
    state = network.initial_state(rows) if isinstance(network, RecurrentNetwork) else {}
    heads, _ = network(leaves, {}, state)
    features: Tensor = heads[_HEAD]
    return features.float()
