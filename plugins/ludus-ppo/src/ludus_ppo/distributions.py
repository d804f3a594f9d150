"""Action distributions: policies sample them with NumPy, trainers evaluate them with torch."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from attrs import define
from gymnasium import spaces
from ludus.environment import Role
from ludus.errors import ContractError
from ludus.segment import Field
from ludus.spaces import label_sizes
from ludus_torch import ppo_losses as fused
from torch import Tensor

from ludus_ppo.action_terms import categorical_terms, gaussian_terms


@define
class Sample:
    """Actions drawn for n rows.

    Attributes:
        action: ``[n, L] int64`` or ``[n, D] float32``.
        extras: The distribution's `fields`.
    """

    action: np.ndarray
    extras: dict[str, np.ndarray]


class Distribution(Protocol):
    """A distribution over the actions of a role, with a vector of parameters per row."""

    @property
    def head_size(self) -> int:
        """Return the size of the policy head."""

    @property
    def label_sizes(self) -> tuple[int, ...]:
        """Return the choices of each action label; empty for continuous actions."""

    @property
    def log_std_size(self) -> int:
        """Return the number of state-independent log standard deviations behind the head's outputs."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the fields that a decision records, ``"log_prob"`` first."""

    def sample(
        self,
        parameters: np.ndarray,
        mask: np.ndarray | None,
        *,
        rng: np.random.Generator,
        deterministic: bool,
    ) -> Sample:
        """Draw actions from ``parameters [n, P] float32``; the most likely ones if `deterministic`.

        Raises:
            ContractError: The parameters are not finite, or every choice of a label is masked.
        """

    def probabilities(self, parameters: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Return the probability of every choice, ``[n, A] float32``.

        Raises:
            ContractError: Actions are continuous.
        """

    def terms(
        self, parameters: Tensor, *, action: Tensor, extras: dict[str, Tensor], mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return log-probability and entropy of recorded actions, each ``[n, L]``.

        Args:
            parameters: ``[n, P] float32``.
            action: ``[n, L] int64`` or ``[n, D] float32``.
            extras: Recorded fields of the decisions, which include the distribution's `fields`.
            mask: ``[n, A] bool`` or None.
        """

    def labels_used(self, action: Tensor) -> Tensor | None:
        """Return the labels that the actions ``[n, L]`` use, ``[n, L] bool``; None: all of them."""

    def check(self, action: Tensor, mask: Tensor) -> None:
        """Check that recorded masks allow the recorded actions.

        Raises:
            ContractError: A recorded action is masked.
        """


class Categorical:
    """One masked categorical distribution per action label.

    Args:
        role: A role with a discrete action space.
    """

    def __init__(self, role: Role) -> None:
        self._role = role.name
        self._sizes = self.label_sizes = label_sizes(role.action_space)
        self._labels_used = (
            None if role.labels_used is None else torch.tensor(role.labels_used)
        )  # [n_0, L]; moved to the device of the actions
        ends = np.cumsum(self._sizes)
        self._slices = [slice(int(end) - size, int(end)) for end, size in zip(ends, self._sizes, strict=True)]
        self._offsets = torch.tensor([part.start for part in self._slices])
        self.head_size = int(ends[-1])
        self.log_std_size = 0
        self.fields: tuple[Field, ...] = (Field("log_prob", (len(self._sizes),)),)

    def sample(
        self, parameters: np.ndarray, mask: np.ndarray | None, *, rng: np.random.Generator, deterministic: bool
    ) -> Sample:
        """Draw one choice per label by inversion of the cumulative distribution; see `Distribution`."""
        rows, labels = parameters.shape[0], len(self._sizes)
        # choices first: reductions then are a few operations on long vectors
        logits = np.full((self.head_size, rows), -np.inf, np.float32)
        np.copyto(logits, parameters.T, where=True if mask is None else mask.T)
        uniform = None if deterministic else rng.random((rows, labels), dtype=np.float32)
        action = np.empty((rows, labels), np.int64)
        log_prob = np.empty((rows, labels), np.float32)
        every_row = np.arange(rows)
        for label, part in enumerate(self._slices):
            shifted = logits[part]
            largest = shifted.max(axis=0)
            if not np.isfinite(largest).all():
                raise self._error(parameters, label)
            shifted -= largest
            cumulative = _cumulative_sums(np.exp(shifted))
            total = cumulative[-1]
            if uniform is None:
                chosen = shifted.argmax(axis=0)
            else:
                # float32 draws are at most 1 - 2^-24, so the threshold never rounds up to the total: a choice of
                # probability 0 is never reached.
                chosen = (cumulative <= uniform[:, label] * total).sum(axis=0)
            action[:, label] = chosen
            np.subtract(shifted[chosen, every_row], np.log(total), out=log_prob[:, label])
        return Sample(action, {"log_prob": log_prob})

    def probabilities(self, parameters: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Return the softmax of every label's legal choices; see `Distribution`."""
        logits = parameters if mask is None else np.where(mask, parameters, -np.inf)
        found = np.empty(parameters.shape, np.float32)
        for part in self._slices:
            weights = np.exp(logits[:, part] - logits[:, part].max(axis=1, keepdims=True))
            found[:, part] = weights / weights.sum(axis=1, keepdims=True)
        return found

    def _error(self, parameters: np.ndarray, label: int) -> ContractError:
        if not np.isfinite(parameters).all():
            return ContractError(f"role {self._role}: the network's policy outputs are not finite")
        return ContractError(
            f"role {self._role}, label {label}: the action mask forbids every choice of an acting seat; "
            f"the environment must leave at least one legal"
        )

    def terms(
        self,
        parameters: Tensor,
        *,
        action: Tensor,
        extras: dict[str, Tensor],  # noqa: ARG002 - the actions suffice
        mask: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return log-probability and entropy per label, each ``[n, L]``."""
        terms = fused.categorical_terms if fused.prefers_fused(parameters) else categorical_terms
        return terms(parameters, action, mask=mask, sizes=self._sizes)

    def labels_used(self, action: Tensor) -> Tensor | None:
        """Return the used labels, which depend on the choice of the first label; see `Distribution`."""
        if self._labels_used is None:
            return None
        self._labels_used = self._labels_used.to(action.device)
        return self._labels_used.index_select(0, action[:, 0])

    def check(self, action: Tensor, mask: Tensor) -> None:
        """Check that every recorded choice is legal; see `Distribution`."""
        legal = mask.gather(1, action + self._offsets.to(action.device)).all(dim=0)  # [L]
        if not legal.all():
            label = int(legal.logical_not().nonzero()[0])
            raise ContractError(f"role {self._role}, label {label}: a recorded action is forbidden by its own mask")


def _cumulative_sums(weights: np.ndarray) -> np.ndarray:
    """Return cumulative sums over the choices of ``weights [choices, n]``, in place."""
    choices, rows = weights.shape
    if choices > rows:
        return np.cumsum(weights, axis=0, out=weights)
    for choice in range(1, choices):  # twice as fast as cumsum along this axis
        weights[choice] += weights[choice - 1]
    return weights


class Gaussian:
    """Independent normal distributions over a Box, scaled so that finite bounds lie at -1 and 1.

    The sample is recorded as ``"unbounded_action"``; the action is the sample clipped to the bounds.

    Args:
        role: A role with a one-dimensional Box action space.
    """

    def __init__(self, role: Role) -> None:
        space = role.action_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise ContractError(f"role {role.name}: continuous actions must be a one-dimensional Box, got {space}")
        self._role = role.name
        self._low, self._high = space.low.astype(np.float32), space.high.astype(np.float32)
        bounded = np.isfinite(self._low) & np.isfinite(self._high)
        low, high = np.where(bounded, self._low, -1), np.where(bounded, self._high, 1)
        self._centre, self._half = (low / 2 + high / 2).astype(np.float32), (high / 2 - low / 2).astype(np.float32)
        self.head_size = self.log_std_size = int(space.shape[0])
        self.label_sizes: tuple[int, ...] = ()
        self.fields: tuple[Field, ...] = (Field("log_prob", (1,)), Field("unbounded_action", (self.head_size,)))

    def sample(
        self,
        parameters: np.ndarray,
        mask: np.ndarray | None,  # noqa: ARG002 - masks do not apply
        *,
        rng: np.random.Generator,
        deterministic: bool,
    ) -> Sample:
        """Draw vectors; see `Distribution`."""
        if not np.isfinite(parameters).all():
            raise ContractError(f"role {self._role}: the network's policy outputs are not finite")
        mean, log_std = np.split(parameters, 2, axis=1)
        noise = np.zeros_like(mean) if deterministic else rng.standard_normal(mean.shape, dtype=np.float32)
        unbounded = mean + noise * np.exp(log_std)
        log_density = -0.5 * noise**2 - log_std - np.float32(0.5 * np.log(2 * np.pi))
        action = np.clip(self._centre + self._half * unbounded, self._low, self._high)
        return Sample(action, {"log_prob": log_density.sum(axis=1, keepdims=True), "unbounded_action": unbounded})

    def probabilities(self, parameters: np.ndarray, mask: np.ndarray | None) -> np.ndarray:  # noqa: ARG002
        """Raise an error, as vectors have densities; see `Distribution`."""
        raise ContractError(f"role {self._role}: continuous actions have no probabilities")

    def terms(
        self,
        parameters: Tensor,
        *,
        action: Tensor,  # noqa: ARG002 - clipped; the extras hold the sample
        extras: dict[str, Tensor],
        mask: Tensor | None,  # noqa: ARG002 - masks do not apply
    ) -> tuple[Tensor, Tensor]:
        """Return log-density and entropy of the whole vector, each ``[n, 1]``."""
        return gaussian_terms(parameters, extras["unbounded_action"])

    def labels_used(self, action: Tensor) -> Tensor | None:  # noqa: ARG002 - there are no labels
        """Return None: every dimension is used."""
        return None

    def check(self, action: Tensor, mask: Tensor) -> None:
        """Return without a check: masks do not apply."""


def distribution_for(role: Role) -> Distribution:
    """Return the distribution that fits the action space of `role`.

    Raises:
        ContractError: No distribution fits.
    """
    return Gaussian(role) if isinstance(role.action_space, spaces.Box) else Categorical(role)
