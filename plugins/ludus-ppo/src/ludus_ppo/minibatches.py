"""Minibatches: the rows of one gradient step, and what they are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from attrs import frozen
from ludus.errors import ContractError
from ludus.segment import SegmentBatch
from torch import Tensor

from ludus_ppo.networks import ActorCritic, Unrolled


@frozen(kw_only=True, eq=False)
class Minibatch:
    """The n rows of one gradient step, on the device of the trainer; a row is one decision.

    Attributes:
        observation: Leaves ``[≥ n, …]``, of which rows from n on are padding; ``[T, N, …]`` where unrolled.
        privileged: Likewise; empty where the role has none.
        unrolled: How a recurrent network reads the observation; None for other networks.
        action: ``[n, L] int64``, or ``[n, L + D] float32`` with D real numbers behind the labels.
        action_mask: ``[n, A] bool`` or None.
        extras: The fields that the algorithm records, each ``[n, …]``.
        advantage: ``[n]``.
        returns: ``[n]`` by value head.
    """

    observation: dict[str, Tensor]
    privileged: dict[str, Tensor]
    unrolled: Unrolled | None = None
    action: Tensor
    action_mask: Tensor | None
    extras: dict[str, Tensor]
    advantage: Tensor
    returns: dict[str, Tensor]

    @property
    def num_rows(self) -> int:
        """Return n."""
        return len(self.action)

    def named(self) -> dict[str, Tensor]:
        """Return all tensors by name, those of `unrolled` excepted; see `ludus_torch.cuda_graphs.TensorRecord`."""
        groups = {"observation": self.observation, "privileged": self.privileged}
        groups |= {"extras": self.extras, "returns": self.returns}
        named = {f"{group}/{name}": leaf for group, leaves in groups.items() for name, leaf in leaves.items()}
        named |= {"action": self.action, "advantage": self.advantage}
        return named if self.action_mask is None else named | {"action_mask": self.action_mask}


class MinibatchSource(Protocol):
    """The decisions of a batch that are trained on."""

    def draw(self, rng: np.random.Generator, *, count: int, share: float = 1.0) -> list[np.ndarray]:
        """Return indices of `count` minibatches of about equal size in random order, or of fewer if the batch is small.

        Args:
            rng: Draws the order.
            count: Number of minibatches, ≥ 1.
            share: Share of the decisions to draw, (0, 1].
        """

    def take(self, index: np.ndarray) -> Minibatch:
        """Return copies of the rows of a minibatch, on the device."""

    def num_rows_read(self, index: np.ndarray) -> int:
        """Return how many rows the network reads for a minibatch: all entries of segments, where it is recurrent."""

    def entries(self, index: np.ndarray) -> np.ndarray:
        """Return the entry t · N + segment of every row of a minibatch, ``[n] int64``."""


def row_columns(batch: SegmentBatch, targets: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays ``[T+1, N, …]`` that minibatches consist of, by name.

    Args:
        batch: The segments.
        targets: ``"advantage"`` and ``"returns/HEAD"``.
    """
    groups = ("observation/", "privileged/", "extras/")
    arrays = batch.arrays()
    columns = {name: array for name, array in arrays.items() if name in ("action", "action_mask")}
    return columns | {name: array for name, array in arrays.items() if name.startswith(groups)} | dict(targets)


def build_minibatch(rows: Mapping[str, Tensor], unrolled: Unrolled | None = None) -> Minibatch:
    """Return a minibatch of tensors by the names of `row_columns`."""

    def group(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in rows.items() if name.startswith(prefix)}

    return Minibatch(
        observation=group("observation/"),
        privileged=group("privileged/"),
        unrolled=unrolled,
        action=rows["action"],
        action_mask=rows.get("action_mask"),
        extras=group("extras/"),
        advantage=rows["advantage"],
        returns=group("returns/"),
    )


def evaluate(model: ActorCritic, minibatch: Minibatch) -> tuple[Tensor, dict[str, Tensor]]:
    """Return distribution parameters ``[n, P] float32`` and values ``[n] float32`` by head.

    Raises:
        ContractError: The critic needs privileged leaves and the minibatch has none.
    """
    parameters, values = model(minibatch.observation, minibatch.privileged, minibatch.unrolled)
    if not values:
        raise ContractError("ppo: the critic reads privileged leaves, but the batch carries none")
    if len(parameters) > (n := minibatch.num_rows):  # drop the padding
        parameters, values = parameters[:n], {head: value[:n] for head, value in values.items()}
    return parameters.float(), {head: value.float() for head, value in values.items()}


def has_observation(batch: SegmentBatch) -> np.ndarray:
    """Return ``[T+1, N] bool``: entries that hold an observation. Other entries are undefined."""
    entries = np.arange(batch.decided.shape[0])[:, None]
    holds = entries < batch.length
    holds[1:] |= (entries[1:] == batch.length) & ~batch.terminated[:-1]  # bootstrap entries
    holds[:, batch.length == 0] = False
    return np.asarray(holds)
