"""How much memory a player's processes need, and how long an update takes, before they are made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from ludus.errors import ConfigError
from ludus.processes import memory_bytes
from ludus.spaces import action_width, label_sizes, leaf_spaces
from ludus.testing._finding import Finding

if TYPE_CHECKING:
    from gymnasium import Space

    from ludus._config.sections import PlayerConfig, RunConfig
    from ludus.environment import Role

BYTES_PER_WEIGHT = 16  # weight, gradient and the two moments of Adam, in single precision
_WEIGHT_BYTES = 4
_OTHER_BYTES = 64  # of a recorded decision: reward, flags, log-probabilities, values
_TIGHT = 0.5  # share of the memory above which there is a warning


@frozen(kw_only=True)
class MemoryEstimate:
    """Bytes that one process of a kind needs for a player.

    Attributes:
        weights: Weights, gradients and moments in the learner.
        segments: Segments that a sampler records.
        batch: Batch that the learner reads, and the next one.
    """

    weights: int
    segments: int
    batch: int

    @property
    def learner(self) -> int:
        """Return the bytes of the learner."""
        return self.weights + self.batch

    @property
    def sampler(self) -> int:
        """Return the bytes of a sampler."""
        return self.segments + self.weights * _WEIGHT_BYTES // BYTES_PER_WEIGHT


def decision_bytes(role: Role) -> int:
    """Return the bytes of one recorded decision: observation, mask, action and what algorithms add."""
    leaves = _leaf_bytes(role.observation_space) + _leaf_bytes(role.privileged_space)
    return leaves + sum(label_sizes(role.action_space)) + 8 * action_width(role.action_space) + _OTHER_BYTES


def _leaf_bytes(space: Space[np.ndarray] | None) -> int:
    return sum(math.prod(leaf.shape or ()) * np.dtype(leaf.dtype).itemsize for leaf in leaf_spaces(space).values())


def estimate_memory(
    config: RunConfig, player: PlayerConfig, role: Role, *, num_weights: int, segment_decisions: int
) -> MemoryEstimate:
    """Return what a player's processes need.

    Args:
        config: Configuration of the run.
        player: The player.
        role: Its role behind its interfaces.
        num_weights: Weights of its network.
        segment_decisions: T, the longest segment.
    """
    size, matches = decision_bytes(role), config.sampling.matches
    batch = getattr(player.algorithm.config, "batch_decisions", 0)
    return MemoryEstimate(
        weights=num_weights * BYTES_PER_WEIGHT,
        segments=(segment_decisions + 1) * matches * role.num_seats * size,
        batch=2 * batch * size,
    )


def check_memory(
    config: RunConfig, player: PlayerConfig, estimate: MemoryEstimate, *, samplers: int
) -> Iterator[str | Finding]:
    """Yield a line about the memory of a player's processes, and a warning where it is tight.

    Args:
        config: Configuration of the run.
        player: The player.
        estimate: What its processes need.
        samplers: Number of samplers.

    Raises:
        ConfigError: They need more than this machine has.
    """
    total = samplers * estimate.sampler + player.learner_processes * estimate.learner
    machine = memory_bytes()
    parts = (
        f"weights with Adam {_format(estimate.weights)}, batch {_format(estimate.batch)}, "
        f"segments of {samplers} sampler{'s' * (samplers > 1)} {_format(samplers * estimate.segments)}"
    )
    yield f"memory: {parts}; activations and the game come on top"
    if total <= _TIGHT * machine:
        return
    table = f"players.{player.name}"
    algorithm, network = f"{table}.{player.algorithm.name}", (player.network or player.algorithm).name
    segments_advice = (
        f"fewer sampling.matches (now {config.sampling.matches:,}), shorter {algorithm}.segment_decisions (now "
        f"{_option(player, 'segment_decisions'):,}), or fewer run.workers"
    )
    _, advice = max(
        (estimate.weights, f"fewer or smaller layers in {table}.{network}, or smaller observations"),
        (estimate.batch, f"fewer {algorithm}.batch_decisions (now {_option(player, 'batch_decisions'):,})"),
        (samplers * estimate.segments, segments_advice),
    )
    text = f"{parts} make {_format(total)} of the {_format(machine)} of this machine; expected {advice}"
    if total > machine:
        raise ConfigError(f"players.{player.name}: {text}")
    yield Finding("warn", f"player {player.name}", text)


def _option(player: PlayerConfig, name: str) -> int:
    return int(getattr(player.algorithm.config, name, 0))


def check_update_time(config: RunConfig, player: PlayerConfig, *, update_s: float, batch: int) -> Iterator[Finding]:
    """Yield a warning about an update that takes long, from the time of a smaller one.

    Args:
        config: Configuration of the run.
        player: The player.
        update_s: Estimated seconds of one update.
        batch: Decisions of one update.
    """
    if update_s > config.run.stall_s / 2:
        table = f"players.{player.name}.{player.algorithm.name}"
        yield Finding(
            "warn",
            f"player {player.name}",
            f"an update of {batch:,} decisions takes about {update_s:,.0f} s on one core, and a learner is restarted "
            f"if one gradient step takes run.stall_s = {config.run.stall_s:g} s, or the whole update of an algorithm "
            f"that does not report its steps; choose a smaller network, smaller images, fewer {table}.batch_decisions, "
            f"or a longer run.stall_s",
        )


def _format(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:,.1f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:,.1f} MB"
