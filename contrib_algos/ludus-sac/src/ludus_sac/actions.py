"""Kinds of actions: drawn in NumPy where decisions are made, in torch where they are learned."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from attrs import frozen
from gymnasium import Space, spaces
from ludus.environment import Role
from ludus.errors import ContractError
from ludus.spaces import label_sizes
from torch import Tensor

from ludus_sac.losses import masked_categorical, squashed_normal

__all__ = ["ActionKind", "Candidates", "Continuous", "Discrete", "action_kind"]

_LOG_STD_MIN, _LOG_STD_MAX = -20.0, 2.0


@frozen
class Candidates:
    """Actions over which expectations are taken; see `ludus_sac.losses`.

    Attributes:
        log_prob: ``[n, C]``.
        weight: ``[n, C]``, 0 for illegal actions.
        action: ``[n, D]`` in [-1, 1], what the critics are asked about; None where they value all C at once.
    """

    log_prob: Tensor
    weight: Tensor
    action: Tensor | None = None


class ActionKind(Protocol):
    """What differs between discrete and continuous actions."""

    @property
    def policy_size(self) -> int:
        """Return the size of the policy head."""

    @property
    def critic_size(self) -> int:
        """Return the size of a critic's head, C."""

    @property
    def label_sizes(self) -> tuple[int, ...]:
        """Return the choices of each action label; empty for continuous actions."""

    @property
    def critic_leaf(self) -> Space[Any] | None:
        """Return the space of the action as the critics read it; None if they do not."""

    def sample(
        self, parameters: np.ndarray, mask: np.ndarray | None, *, rng: np.random.Generator, deterministic: bool
    ) -> np.ndarray:
        """Draw actions ``[n, L] int64`` or ``[n, D] float32`` from ``parameters [n, P] float32``.

        Raises:
            ContractError: The parameters are not finite, or every action is masked.
        """

    def expected(self, parameters: np.ndarray, mask: np.ndarray | None) -> tuple[np.ndarray | None, np.ndarray]:
        """Return what a policy's own value is made of: the action leaf ``[n, D]``, if any, and weights ``[n, C]``."""

    def noise(self, rows: int, rng: np.random.Generator) -> Tensor | None:
        """Return what `candidates` draw so many rows by; None where they draw nothing."""

    def candidates(self, parameters: Tensor, mask: Tensor | None, *, noise: Tensor | None) -> Candidates:
        """Return the actions that expectations under the policy are taken over, with gradient."""

    def critic_action(self, action: Tensor) -> Tensor | None:
        """Return recorded actions as the critics read them, ``[n, D]``; None if they do not."""

    def taken(self, q: Tensor, action: Tensor) -> Tensor:
        """Return ``[2, n]``: of ``q [2, n, C]`` the values of recorded actions."""

    def target_entropy(self, mask: Tensor | None, *, rows: Tensor, fraction: float) -> Tensor:
        """Return the entropy to keep where none is given, ``[n]`` or ``[1]``, on the device of `rows`."""


class Discrete:
    """One label: a categorical distribution over the legal actions, expectations over all of them.

    Args:
        role: A role with a discrete action space.

    Raises:
        ContractError: It has several labels.
    """

    def __init__(self, role: Role) -> None:
        self.label_sizes = label_sizes(role.action_space)
        if len(self.label_sizes) != 1:
            raise ContractError(
                f"sac needs a Discrete or Box action space, but that of role {role.name} is {role.action_space}; "
                f"choose another algorithm, or an interface that makes it Discrete"
            )
        self._role = role.name
        self.policy_size = self.critic_size = self.label_sizes[0]
        self.critic_leaf: Space[Any] | None = None

    def sample(
        self, parameters: np.ndarray, mask: np.ndarray | None, *, rng: np.random.Generator, deterministic: bool
    ) -> np.ndarray:
        """Draw one action per row, or take the most likely one; see `ActionKind`."""
        shifted = self._shifted(parameters, mask)
        if deterministic:
            chosen = shifted.argmax(axis=1)
        else:
            cumulative = np.cumsum(np.exp(shifted), axis=1)
            # float32 draws are at most 1 - 2^-24, so the threshold never rounds up to the total: an action of
            # probability 0 is never reached
            threshold = rng.random(len(shifted), dtype=np.float32) * cumulative[:, -1]
            chosen = (cumulative <= threshold[:, None]).sum(axis=1)
        return np.asarray(chosen[:, None], np.int64)

    def expected(self, parameters: np.ndarray, mask: np.ndarray | None) -> tuple[None, np.ndarray]:
        """Return the probabilities; see `ActionKind`."""
        weight = np.exp(self._shifted(parameters, mask))
        return None, weight / weight.sum(axis=1, keepdims=True)

    def _shifted(self, parameters: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Return logits less the largest legal one of their row ``[n, A]``; -inf where illegal."""
        if not np.isfinite(parameters).all():
            raise ContractError(f"role {self._role}: the network's policy outputs are not finite")
        if mask is None:
            legal = parameters
        elif mask.any(axis=1).all():
            legal = np.where(mask, parameters, np.float32(-np.inf))
        else:
            raise ContractError(
                f"role {self._role}, label 0: the action mask forbids every choice of an acting seat; "
                f"the environment must leave at least one legal"
            )
        return np.asarray(legal - legal.max(axis=1, keepdims=True))

    def noise(self, rows: int, rng: np.random.Generator) -> None:
        """Return None; see `ActionKind`."""

    def candidates(
        self,
        parameters: Tensor,
        mask: Tensor | None,
        *,
        noise: Tensor | None,  # noqa: ARG002 - nothing is drawn
    ) -> Candidates:
        """Return all actions with their probabilities; see `ActionKind`."""
        return Candidates(*masked_categorical(parameters, mask))

    def critic_action(self, action: Tensor) -> None:
        """Return None; see `ActionKind`."""

    def taken(self, q: Tensor, action: Tensor) -> Tensor:
        """Pick the columns of the actions ``[n, 1]``; see `ActionKind`."""
        return q.gather(2, action.expand(len(q), -1, -1)).squeeze(2)

    def target_entropy(self, mask: Tensor | None, *, rows: Tensor, fraction: float) -> Tensor:
        """Return a share of the largest entropy that the legal actions allow; see `ActionKind`."""
        legal = rows.new_full((1,), self.policy_size) if mask is None else mask.sum(dim=1).to(rows.dtype)
        return fraction * legal.log()


class Continuous:
    """A vector: normal distributions squashed by tanh into the bounds, which are -1 and 1 to networks.

    Args:
        role: A role with a one-dimensional Box action space.

    Raises:
        ContractError: It has another shape, or an infinite bound.
    """

    def __init__(self, role: Role) -> None:
        space = role.action_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1 or not space.is_bounded():
            raise ContractError(
                f"sac needs continuous actions to be a one-dimensional Box with finite bounds, but those of role "
                f"{role.name} are {space}"
            )
        self._role = role.name
        self._low, self._high = space.low.astype(np.float32), space.high.astype(np.float32)
        self._centre, self._half = self._low / 2 + self._high / 2, self._high / 2 - self._low / 2
        self._bounds: dict[torch.device, tuple[Tensor, ...]] = {}
        size = int(space.shape[0])
        self.policy_size, self.critic_size = 2 * size, 1
        self.label_sizes: tuple[int, ...] = ()
        self.critic_leaf: Space[Any] | None = spaces.Box(-1.0, 1.0, (size,), np.float32)

    def sample(
        self,
        parameters: np.ndarray,
        mask: np.ndarray | None,  # noqa: ARG002 - masks do not apply
        *,
        rng: np.random.Generator,
        deterministic: bool,
    ) -> np.ndarray:
        """Draw vectors, or take the squashed mean; see `ActionKind`."""
        unbounded, log_std = self._split(parameters)
        if not deterministic:
            noise = rng.standard_normal(unbounded.shape, dtype=np.float32)
            unbounded = unbounded + noise * np.exp(np.clip(log_std, _LOG_STD_MIN, _LOG_STD_MAX))
        # rounding may lead out of the bounds
        return np.asarray(np.clip(self._centre + self._half * np.tanh(unbounded), self._low, self._high))

    def expected(
        self,
        parameters: np.ndarray,
        mask: np.ndarray | None,  # noqa: ARG002 - masks do not apply
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the squashed mean; see `ActionKind`."""
        mean, _ = self._split(parameters)
        return np.tanh(mean), np.ones((len(mean), 1), np.float32)

    def _split(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not np.isfinite(parameters).all():
            raise ContractError(f"role {self._role}: the network's policy outputs are not finite")
        mean, log_std = np.split(parameters, 2, axis=1)
        return mean, log_std

    def noise(self, rows: int, rng: np.random.Generator) -> Tensor:
        """Return standard normal numbers ``[rows, D] float32``; see `ActionKind`."""
        return torch.from_numpy(rng.standard_normal((rows, self.policy_size // 2), dtype=np.float32))

    def candidates(
        self,
        parameters: Tensor,
        mask: Tensor | None,  # noqa: ARG002 - masks do not apply
        *,
        noise: Tensor | None,
    ) -> Candidates:
        """Return one sample per row; see `ActionKind`."""
        assert noise is not None
        mean, log_std = parameters.chunk(2, dim=1)
        action, log_prob = squashed_normal(mean, log_std.clamp(_LOG_STD_MIN, _LOG_STD_MAX), noise)
        return Candidates(log_prob, torch.ones_like(log_prob), action)

    def critic_action(self, action: Tensor) -> Tensor:
        """Bring the bounds to -1 and 1; see `ActionKind`."""
        if action.device not in self._bounds:  # once: a recorded CUDA graph cannot send anything to the GPU
            self._bounds[action.device] = tuple(
                torch.from_numpy(p).to(action.device) for p in (self._centre, self._half)
            )
        centre, half = self._bounds[action.device]
        return ((action - centre) / half.clamp(min=torch.finfo(half.dtype).tiny)).clamp(-1, 1)

    def taken(self, q: Tensor, action: Tensor) -> Tensor:  # noqa: ARG002 - they were part of the question
        """Return the only column; see `ActionKind`."""
        return q.squeeze(2)

    def target_entropy(
        self,
        mask: Tensor | None,  # noqa: ARG002 - masks do not apply
        *,
        rows: Tensor,
        fraction: float,  # noqa: ARG002 - a density has no largest entropy to take a share of
    ) -> Tensor:
        """Return -D; see `ActionKind`."""
        return rows.new_full((1,), -self.policy_size / 2)


def action_kind(role: Role) -> ActionKind:
    """Return the kind of actions of `role`.

    Raises:
        ContractError: SAC does not support them.
    """
    return Continuous(role) if isinstance(role.action_space, spaces.Box) else Discrete(role)
