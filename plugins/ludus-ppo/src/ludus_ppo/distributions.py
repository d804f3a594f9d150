"""Action distributions: policies sample them with NumPy, trainers evaluate them with torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch
from attrs import define
from gymnasium import spaces
from ludus.environment import Role
from ludus.errors import ContractError
from ludus.segment import Field
from ludus.spaces import action_parts, is_continuous, is_hybrid, label_sizes, real_box, real_sizes
from ludus_torch import ppo_losses as fused
from torch import Tensor

from ludus_ppo.action_terms import categorical_terms, gaussian_terms


@define
class Sample:
    """Actions drawn for n rows.

    Attributes:
        action: ``[n, L] int64``, ``[n, D] float32``, or ``[n, L + D] float32`` with labels and real numbers.
        extras: The distribution's `fields`.
    """

    action: np.ndarray
    extras: dict[str, np.ndarray]


class Distribution(Protocol):
    """A distribution over the actions of a role, with a vector of P parameters per row.

    An action has *terms*, one log-probability and one entropy each: its labels, then its Box parts. They are
    independent, so the terms of an action add up. K is their number.
    """

    @property
    def head_sizes(self) -> Mapping[str, int]:
        """Return the sizes of the heads whose outputs, side by side, are the first parameters."""

    @property
    def label_sizes(self) -> tuple[int, ...]:
        """Return the choices of each action label, which the head ``"policy"`` concatenates; empty without labels."""

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

    def temper(self, parameters: np.ndarray, temperature: float) -> np.ndarray:
        """Return the parameters of the distribution whose log-probabilities are divided by `temperature`."""

    def probabilities(self, parameters: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Return the probability of every choice, ``[n, A] float32``.

        Raises:
            ContractError: Actions are continuous.
        """

    def terms(
        self, parameters: Tensor, *, action: Tensor, extras: dict[str, Tensor], mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return log-probability and entropy of recorded actions, each ``[n, K]``.

        Args:
            parameters: ``[n, P] float32``.
            action: Recorded actions, as in `Sample`.
            extras: Recorded fields of the decisions, which include the distribution's `fields`.
            mask: ``[n, A] bool`` or None.
        """

    def labels_used(self, action: Tensor) -> Tensor | None:
        """Return the terms that the actions use, ``[n, K] bool``; None: all of them."""

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
        self.head_sizes: Mapping[str, int] = {"policy": int(ends[-1])}
        self.log_std_size = 0
        self.fields: tuple[Field, ...] = (Field("log_prob", (len(self._sizes),)),)

    def sample(
        self, parameters: np.ndarray, mask: np.ndarray | None, *, rng: np.random.Generator, deterministic: bool
    ) -> Sample:
        """Draw one choice per label by inversion of the cumulative distribution; see `Distribution`."""
        rows, labels = parameters.shape[0], len(self._sizes)
        # choices first: reductions then are a few operations on long vectors
        logits = np.full((self.head_sizes["policy"], rows), -np.inf, np.float32)
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

    def temper(self, parameters: np.ndarray, temperature: float) -> np.ndarray:
        """Return the logits divided by `temperature`."""
        return np.asarray(parameters / np.float32(temperature))

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
    """Independent normal distributions over real numbers, scaled so that finite bounds lie at -1 and 1.

    The sample is recorded as ``"unbounded_action"``; the action is the sample clipped to the bounds. The numbers of one
    Box have one log-density together.

    Args:
        role: A role whose actions have Box parts.
        head: Name of the head of the means.

    Raises:
        ContractError: A Box is not one-dimensional.
    """

    def __init__(self, role: Role, *, head: str = "policy") -> None:
        for part in action_parts(role.action_space):
            if isinstance(part, spaces.Box) and len(part.shape) != 1:
                raise ContractError(f"role {role.name}: continuous actions must be a one-dimensional Box, got {part}")
        box = real_box(role.action_space)
        assert box is not None
        self._role, self._sizes = role.name, real_sizes(role.action_space)
        self._low, self._high = box.low.astype(np.float32), box.high.astype(np.float32)
        self._centre, self._half = real_scale(box)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self.log_std_size = int(box.shape[0])
        self.head_sizes: Mapping[str, int] = {head: self.log_std_size}
        self.label_sizes: tuple[int, ...] = ()
        self.fields: tuple[Field, ...] = (
            Field("log_prob", (len(self._sizes),)),
            Field("unbounded_action", (self.log_std_size,)),
        )

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
        log_prob = np.add.reduceat(log_density, self._starts.tolist(), axis=1)
        return Sample(action, {"log_prob": log_prob, "unbounded_action": unbounded})

    def temper(self, parameters: np.ndarray, temperature: float) -> np.ndarray:
        """Return the parameters with the variance multiplied by `temperature`."""
        mean, log_std = np.split(parameters, 2, axis=1)
        return np.concatenate([mean, log_std + np.float32(0.5 * np.log(temperature))], axis=1)

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
        """Return log-density and entropy of every Box, each ``[n, K]``."""
        return gaussian_terms(parameters, extras["unbounded_action"], sizes=self._sizes)

    def labels_used(self, action: Tensor) -> Tensor | None:  # noqa: ARG002 - there are no labels
        """Return None: every dimension is used."""
        return None

    def check(self, action: Tensor, mask: Tensor) -> None:
        """Return without a check: masks do not apply."""


def real_scale(box: spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """Return centre and half width of a Box, each ``[D] float32``: 0 and 1 where a bound is infinite."""
    low, high = box.low.astype(np.float32), box.high.astype(np.float32)
    bounded = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(bounded, low, -1), np.where(bounded, high, 1)
    return (low / 2 + high / 2).astype(np.float32), (high / 2 - low / 2).astype(np.float32)


class Hybrid:
    """Labels and real numbers: `Categorical` for the labels and `Gaussian` for the real numbers, independently.

    Parameters are the logits of all labels, the means, and the log standard deviations.

    Args:
        role: A role whose actions have labels and Box parts.
    """

    def __init__(self, role: Role) -> None:
        self._role = role.name
        self._labels, self._reals = Categorical(role), Gaussian(role, head="reals")
        self.label_sizes, self.log_std_size = self._labels.label_sizes, self._reals.log_std_size
        self._num_labels, self._num_reals = len(self.label_sizes), len(real_sizes(role.action_space))
        self._num_logits = sum(self.label_sizes)
        self.head_sizes: Mapping[str, int] = {**self._labels.head_sizes, **self._reals.head_sizes}
        self.fields: tuple[Field, ...] = (
            Field("log_prob", (self._num_labels + self._num_reals,)),
            *self._reals.fields[1:],
        )

    def sample(
        self, parameters: np.ndarray, mask: np.ndarray | None, *, rng: np.random.Generator, deterministic: bool
    ) -> Sample:
        """Draw choices, then vectors; see `Distribution`."""
        logits, numbers = np.split(parameters, [self._num_logits], axis=1)
        labels = self._labels.sample(logits, mask, rng=rng, deterministic=deterministic)
        reals = self._reals.sample(numbers, None, rng=rng, deterministic=deterministic)
        log_prob = np.concatenate([labels.extras["log_prob"], reals.extras["log_prob"]], axis=1)
        action = np.concatenate([labels.action.astype(np.float32), reals.action], axis=1)
        return Sample(action, reals.extras | {"log_prob": log_prob})

    def temper(self, parameters: np.ndarray, temperature: float) -> np.ndarray:
        """Return the parameters of both parts for `temperature`."""
        logits, numbers = np.split(parameters, [self._num_logits], axis=1)
        parts = (self._labels.temper(logits, temperature), self._reals.temper(numbers, temperature))
        return np.concatenate(parts, axis=1)

    def probabilities(self, parameters: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Raise an error, as vectors have densities; see `Distribution`."""
        return self._reals.probabilities(parameters, mask)

    def terms(
        self, parameters: Tensor, *, action: Tensor, extras: dict[str, Tensor], mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return log-probability and entropy of every label and Box, each ``[n, K]``."""
        logits, numbers = parameters.tensor_split([self._num_logits], dim=1)
        labels = self._labels.terms(logits, action=self._choices(action), extras=extras, mask=mask)
        reals = self._reals.terms(numbers, action=action, extras=extras, mask=None)
        log_prob, entropy = (torch.cat(pair, dim=1) for pair in zip(labels, reals, strict=True))
        return log_prob, entropy

    def labels_used(self, action: Tensor) -> Tensor | None:
        """Return the used labels and every Box; see `Distribution`."""
        used = self._labels.labels_used(self._choices(action))
        return None if used is None else torch.cat([used, used.new_ones(len(used), self._num_reals)], dim=1)

    def check(self, action: Tensor, mask: Tensor) -> None:
        """Check that every recorded choice is legal; see `Distribution`."""
        self._labels.check(self._choices(action), mask)

    def _choices(self, action: Tensor) -> Tensor:
        return action[:, : self._num_labels].long()


def distribution_for(role: Role) -> Distribution:
    """Return the distribution that fits the action space of `role`.

    Raises:
        ContractError: No distribution fits.
    """
    if is_hybrid(role.action_space):
        return Hybrid(role)
    return Gaussian(role) if is_continuous(role.action_space) else Categorical(role)
