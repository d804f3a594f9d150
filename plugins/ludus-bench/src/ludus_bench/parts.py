"""Policy and trainer of one player as tasks that are measured alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing

import numpy as np
import torch
from attrs import frozen
from ludus.algorithm import Policy, PolicyInput, UpdateResult
from ludus.errors import ConfigError
from ludus.segment import SegmentBatch
from ludus.service import Network

from ludus_bench._setup import Player, Setup
from ludus_bench.timing import Task

_MAX_UPDATES = 1_000  # before a trainer with a replay buffer must have begun to learn


def policy_task(policy: Policy, rows: Mapping[str, np.ndarray]) -> Task:
    """Return a task that decides once for all rows and returns their number.

    Args:
        policy: Policy to measure.
        rows: Arrays ``[n, …]`` by flat name; see `rows_of`.
    """
    rng, count = np.random.default_rng(0), _count(rows)

    def act() -> float:
        inputs = PolicyInput(
            _group(rows, "observation"),
            action_mask=rows.get("action_mask"),
            privileged=_group(rows, "privileged"),
            state=policy.initial_state(count),
        )
        policy.act(inputs, rng=rng)
        return float(count)

    return act


@frozen(kw_only=True)
class TrainerPart:
    """A trainer that learns from the same batch again and again.

    Args:
        player: Player to measure.
        batch: About as many decisions as the trainer requests.
        first: Result of the first update that learned from samples.
    """

    player: Player
    batch: SegmentBatch
    first: UpdateResult

    @classmethod
    def prepare(cls, player: Player, recorded: Sequence[SegmentBatch]) -> TrainerPart:
        """Take one batch from recorded segments and update until the trainer learns.

        Raises:
            ConfigError: The trainer has not learned after a thousand updates.
        """
        trainer = player.trainer
        batch = SegmentBatch.concatenate(list(recorded)).split(trainer.batch_decisions)[0]
        for _ in range(_MAX_UPDATES):
            result = trainer.update(batch, progress=0.0)
            if result.samples:
                return cls(player=player, batch=batch, first=result)
        raise ConfigError(
            f"player {player.name!r}: the first {_MAX_UPDATES:,} updates, with {batch.num_decisions:,} decisions "
            f"each, learned nothing — let the algorithm begin to learn earlier, or with larger batches"
        )

    @property
    def decisions(self) -> int:
        """Return the number of decisions in the batch."""
        return self.batch.num_decisions

    def update(self) -> float:
        """Make one update and return the number of decisions in the batch."""
        self.player.trainer.update(self.batch, progress=0.0)
        return float(self.decisions)

    @property
    def samples_per_decision(self) -> float:
        """Return the number of samples trained on for every decision of the batch."""
        return self.first.samples / self.decisions

    @property
    def minibatch(self) -> int:
        """Return the number of samples of one gradient step."""
        return round(self.first.samples / max(1, self.first.gradient_steps))


def network_task(policy: Policy, network: Network, rows: Mapping[str, np.ndarray], device: str) -> Task:
    """Return a task that runs a network alone on a device, from NumPy inputs to heads on the CPU.

    Args:
        policy: Policy of the network.
        network: Network to measure.
        rows: Arrays ``[n, …]`` by flat name; see `rows_of`.
        device: Torch device.
    """
    module, count = network.module.to(device), _count(rows)
    groups: tuple[Mapping[str, np.ndarray], ...] = (
        {name: rows[f"observation/{name}"] for name in network.request.observation},
        {name: rows[f"privileged/{name}"] for name in network.request.privileged},
        policy.initial_state(count),
    )

    def run() -> float:
        inputs = [{name: torch.from_numpy(a).to(device) for name, a in leaves.items()} for leaves in groups]
        with torch.inference_mode():
            heads, _ = module(*inputs)
            for head in heads.values():
                head.cpu()
        return float(count)

    return run


def record_segments(setup: Setup, decisions: int) -> list[SegmentBatch]:
    """Return segments of the first player with at least this many decisions, from matches that are out of step."""
    with closing(setup.sampler(matches=min(setup.config.sampling.matches, max(8, decisions)))) as sampler:
        return sampler.record(decisions, skip=decisions)


def rows_of(batches: Iterable[SegmentBatch], rows: int) -> dict[str, np.ndarray]:
    """Return the first decisions of segments, repeated if there are fewer than requested.

    Args:
        batches: Recorded segments.
        rows: Number of decisions n.

    Returns:
        Arrays ``[n, …]`` by their flat names in `SegmentBatch.arrays`.
    """
    batch = SegmentBatch.concatenate(list(batches))
    entries, columns = np.nonzero(batch.trainable())
    chosen = np.arange(rows) % entries.size
    per_segment = {"length", "version"}
    return {
        name: np.ascontiguousarray(array[entries[chosen], columns[chosen]])
        for name, array in batch.arrays().items()
        if name not in per_segment and not name.startswith("initial_state/")
    }


def _count(rows: Mapping[str, np.ndarray]) -> int:
    return len(next(iter(rows.values())))


def _group(rows: Mapping[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    prefix = f"{group}/"
    return {name.removeprefix(prefix): array for name, array in rows.items() if name.startswith(prefix)}
