"""Discrete and continuous actions: sampled with NumPy by the policy and with torch by the trainer."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from attrs import frozen
from gymnasium import Space, spaces
from ludus.environment import Role
from ludus.errors import ContractError
from ludus.export import MASKED, ActionPart
from ludus.spaces import label_sizes, real_sizes
from torch import Tensor

from ludus_sac.losses import masked_categorical, squashed_normal

_LOG_STD_MIN, _LOG_STD_MAX = -20.0, 2.0


@frozen
class Candidates:
    """Actions that an expectation sums over; see `ludus_sac.losses`.

    Attributes:
        log_prob: ``[n, C]``.
        weight: ``[n, C]``, 0 for illegal actions.
        action: ``[n, D]`` in [-1, 1], input of the critics; None for discrete actions.
    """

    log_prob: Tensor
    weight: Tensor
    action: Tensor | None = None


class ActionKind(Protocol):
    """Operations that differ between discrete and continuous actions."""

    @property
    def policy_size(self) -> int:
        """Return the size of the policy head."""

    @property
    def critic_size(self) -> int:
        """Return the size of a critic's head, C."""

    @property
    def label_sizes(self) -> tuple[int, ...]:
        """Return the number of choices of each action label; empty for continuous actions."""

    @property
    def critic_leaf(self) -> Space[Any] | None:
        """Return the space of the action as an input of the critics; None for discrete actions."""

    def sample(
        self, parameters: np.ndarray, mask: np.ndarray | None, *, rng: np.random.Generator, deterministic: bool
    ) -> np.ndarray:
        """Sample actions ``[n, L] int64`` or ``[n, D] float32`` from ``parameters [n, P] float32``.

        Raises:
            ContractError: The parameters are not finite, or all actions of a row are masked.
        """

    def expected(self, parameters: np.ndarray, mask: np.ndarray | None) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the critics' action input ``[n, D]``, or None, and the weights ``[n, C]`` of the policy's value."""

    @property
    def part(self) -> ActionPart:
        """Return how an action follows from the outputs of `name_parameters`."""

    def name_parameters(self, parameters: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
        """Return ``parameters [n, P]`` by name, for exported models.

        Args:
            parameters: Outputs of the policy head.
            mask: ``[n, A] bool``; None for continuous actions.
        """

    def noise(self, rows: int, rng: np.random.Generator) -> Tensor | None:
        """Return the random numbers that `candidates` needs; None for discrete actions."""

    def candidates(self, parameters: Tensor, mask: Tensor | None, *, noise: Tensor | None) -> Candidates:
        """Return the candidates of expectations under the policy, with gradient."""

    def critic_action(self, action: Tensor) -> Tensor | None:
        """Return recorded actions as an input of the critics, ``[n, D]``; None for discrete actions."""

    def taken(self, q: Tensor, action: Tensor) -> Tensor:
        """Return the values of recorded actions, ``[2, n]``, from ``q [2, n, C]``."""

    def target_entropy(self, mask: Tensor | None, *, rows: Tensor, fraction: float) -> Tensor:
        """Return the default target entropy, ``[n]`` or ``[1]``, on the device of `rows`."""


class Discrete:
    """One action label: a categorical distribution over the legal actions.

    Args:
        role: Role with a discrete action space.

    Raises:
        ContractError: The action space has several labels.
    """

    def __init__(self, role: Role) -> None:
        self.label_sizes = label_sizes(role.action_space)
        if len(self.label_sizes) != 1 or real_sizes(role.action_space):
            raise ContractError(
                f"sac: expected a Discrete or Box action space, but role {role.name} has {role.action_space}; "
                f"choose another algorithm, or an interface with Discrete actions"
            )
        self._role = role.name
        self.policy_size = self.critic_size = self.label_sizes[0]
        self.critic_leaf: Space[Any] | None = None

    def sample(
        self, parameters: np.ndarray, mask: np.ndarray | None, *, rng: np.random.Generator, deterministic: bool
    ) -> np.ndarray:
        """Sample one action per row, or return the most likely one; see `ActionKind`."""
        shifted = self._shifted(parameters, mask)
        if deterministic:
            chosen = shifted.argmax(axis=1)
        else:
            cumulative = np.cumsum(np.exp(shifted), axis=1)
            # float32 samples are at most 1 - 2^-24, so the threshold never rounds up to the total, and an action of
            # probability 0 is never chosen
            threshold = rng.random(len(shifted), dtype=np.float32) * cumulative[:, -1]
            chosen = (cumulative <= threshold[:, None]).sum(axis=1)
        return np.asarray(chosen[:, None], np.int64)

    def expected(self, parameters: np.ndarray, mask: np.ndarray | None) -> tuple[None, np.ndarray]:
        """Return None and the probabilities; see `ActionKind`."""
        weight = np.exp(self._shifted(parameters, mask))
        return None, weight / weight.sum(axis=1, keepdims=True)

    def _shifted(self, parameters: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Return logits minus the largest legal logit of their row ``[n, A]``; -inf for illegal actions."""
        if not np.isfinite(parameters).all():
            raise ContractError(f"role {self._role}: the network's policy outputs are not finite")
        if mask is None:
            legal = parameters
        elif mask.any(axis=1).all():
            legal = np.where(mask, parameters, np.float32(-np.inf))
        else:
            raise ContractError(
                f"role {self._role}, label 0: the action mask forbids every choice of an acting seat; "
                f"the environment must allow at least one"
            )
        return np.asarray(legal - legal.max(axis=1, keepdims=True))

    @property
    def part(self) -> ActionPart:
        """Return one categorical label; see `ActionKind`."""
        return ActionPart(kind="categorical", outputs=("logits/0",))

    def name_parameters(self, parameters: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
        """Return the masked logits; see `ActionKind`."""
        return {"logits/0": parameters if mask is None else torch.where(mask, parameters, MASKED)}

    def noise(self, rows: int, rng: np.random.Generator) -> None:
        """Return None; see `ActionKind`."""

    def candidates(
        self,
        parameters: Tensor,
        mask: Tensor | None,
        *,
        noise: Tensor | None,  # noqa: ARG002 - nothing is sampled
    ) -> Candidates:
        """Return all actions with their probabilities; see `ActionKind`."""
        return Candidates(*masked_categorical(parameters, mask))

    def critic_action(self, action: Tensor) -> None:
        """Return None; see `ActionKind`."""

    def taken(self, q: Tensor, action: Tensor) -> Tensor:
        """Return the columns of the actions ``[n, 1]``; see `ActionKind`."""
        return q.gather(2, action.expand(len(q), -1, -1)).squeeze(2)

    def target_entropy(self, mask: Tensor | None, *, rows: Tensor, fraction: float) -> Tensor:
        """Return a share of the entropy of uniform legal actions; see `ActionKind`."""
        legal = rows.new_full((1,), self.policy_size) if mask is None else mask.sum(dim=1).to(rows.dtype)
        return fraction * legal.log()


class Continuous:
    """An action vector: normal distributions, squashed by tanh into [-1, 1] and scaled to the bounds.

    Args:
        role: Role with a one-dimensional Box action space.

    Raises:
        ContractError: The action space has another shape, or an infinite bound.
    """

    def __init__(self, role: Role) -> None:
        space = role.action_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1 or not space.is_bounded():
            raise ContractError(
                f"sac: expected a one-dimensional Box with finite bounds, but the action space of role {role.name} is "
                f"{space}; choose another algorithm, or an interface that bounds the actions"
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
        mask: np.ndarray | None,  # noqa: ARG002 - for discrete actions
        *,
        rng: np.random.Generator,
        deterministic: bool,
    ) -> np.ndarray:
        """Sample vectors, or return the squashed mean; see `ActionKind`."""
        unbounded, log_std = self._split(parameters)
        if not deterministic:
            noise = rng.standard_normal(unbounded.shape, dtype=np.float32)
            unbounded = unbounded + noise * np.exp(np.clip(log_std, _LOG_STD_MIN, _LOG_STD_MAX))
        # rounding may exceed the bounds
        return np.asarray(np.clip(self._centre + self._half * np.tanh(unbounded), self._low, self._high))

    def expected(
        self,
        parameters: np.ndarray,
        mask: np.ndarray | None,  # noqa: ARG002 - for discrete actions
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the squashed mean and weights of 1; see `ActionKind`."""
        mean, _ = self._split(parameters)
        return np.tanh(mean), np.ones((len(mean), 1), np.float32)

    def _split(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not np.isfinite(parameters).all():
            raise ContractError(f"role {self._role}: the network's policy outputs are not finite")
        mean, log_std = np.split(parameters, 2, axis=1)
        return mean, log_std

    @property
    def part(self) -> ActionPart:
        """Return all real numbers; see `ActionKind`."""
        return ActionPart(
            kind="tanh-normal",
            outputs=("mean", "log_std"),
            columns=len(self._low),
            offset=self._centre.tolist(),
            scale=self._half.tolist(),
            low=self._low.tolist(),
            high=self._high.tolist(),
        )

    def name_parameters(self, parameters: Tensor, mask: Tensor | None) -> dict[str, Tensor]:  # noqa: ARG002 - no labels
        """Return means and log standard deviations; see `ActionKind`."""
        mean, log_std = parameters.chunk(2, dim=1)
        return {"mean": mean, "log_std": log_std.clamp(_LOG_STD_MIN, _LOG_STD_MAX)}

    def noise(self, rows: int, rng: np.random.Generator) -> Tensor:
        """Return standard normal numbers ``[rows, D] float32``; see `ActionKind`."""
        return torch.from_numpy(rng.standard_normal((rows, self.policy_size // 2), dtype=np.float32))

    def candidates(
        self,
        parameters: Tensor,
        mask: Tensor | None,  # noqa: ARG002 - for discrete actions
        *,
        noise: Tensor | None,
    ) -> Candidates:
        """Return one sample per row; see `ActionKind`."""
        assert noise is not None
        mean, log_std = parameters.chunk(2, dim=1)
        action, log_prob = squashed_normal(mean, log_std.clamp(_LOG_STD_MIN, _LOG_STD_MAX), noise)
        return Candidates(log_prob, torch.ones_like(log_prob), action)

    def critic_action(self, action: Tensor) -> Tensor:
        """Scale actions from the bounds to [-1, 1]; see `ActionKind`."""
        if action.device not in self._bounds:  # once: a CUDA graph cannot copy from the CPU
            self._bounds[action.device] = tuple(
                torch.from_numpy(p).to(action.device) for p in (self._centre, self._half)
            )
        centre, half = self._bounds[action.device]
        return ((action - centre) / half.clamp(min=torch.finfo(half.dtype).tiny)).clamp(-1, 1)

    def taken(self, q: Tensor, action: Tensor) -> Tensor:  # noqa: ARG002 - an input of the critics
        """Return the only column; see `ActionKind`."""
        return q.squeeze(2)

    def target_entropy(
        self,
        mask: Tensor | None,  # noqa: ARG002 - for discrete actions
        *,
        rows: Tensor,
        fraction: float,  # noqa: ARG002 - a density has no largest entropy
    ) -> Tensor:
        """Return -D; see `ActionKind`."""
        return rows.new_full((1,), -self.policy_size / 2)


def action_kind(role: Role) -> ActionKind:
    """Return the kind of actions of `role`.

    Raises:
        ContractError: SAC does not support the action space.
    """
    return Continuous(role) if isinstance(role.action_space, spaces.Box) else Discrete(role)
