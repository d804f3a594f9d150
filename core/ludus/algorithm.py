"""The algorithm contract: how decisions are made and how they are learned from.

An *algorithm* makes two things for a role: a `Policy`, which runs inside samplers and evaluators, and a `Trainer`,
which runs inside the learner. They meet in two places only: the weights (named arrays) that the trainer
publishes and the policy loads, and the `Field` records that the policy adds to every decision for the trainer.
On-policy and off-policy algorithms alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from attrs import define, field, frozen

from ludus.environment import Leaves, Role
from ludus.inference import Eager, Inference, Span
from ludus.network import NetworkRequest
from ludus.segment import Field, SegmentBatch

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from ludus.group import Group

__all__ = [
    "Algorithm",
    "AlgorithmContext",
    "Decision",
    "GroupTrainer",
    "OffPolicyTrainer",
    "Policy",
    "PolicyInput",
    "StackedPolicy",
    "Trainer",
    "UpdateResult",
    "Weights",
]

#: Weights as they travel and as they are stored: parameter and buffer names to arrays.
Weights: TypeAlias = "Mapping[str, np.ndarray]"


@frozen
class PolicyInput:
    """The n rows that a policy decides for or evaluates.

    Attributes:
        observation: Leaves ``[n, …]`` in the environment's dtypes.
        action_mask: ``[n, A] bool``; a masked action has probability exactly 0. None: all actions are legal.
        privileged: Leaves ``[n, …]`` for the critic; empty for frozen models, unless an opponent records their values.
        state: Leaves ``[n, …]``, as returned by `Policy.initial_state` or in the last `Decision`.
        spans: Rows of each slot of a `StackedPolicy`; empty: all rows belong to slot 0.
    """

    observation: Leaves
    action_mask: np.ndarray | None = field(default=None, kw_only=True)
    privileged: Leaves = field(factory=dict, kw_only=True)
    state: Leaves = field(factory=dict, kw_only=True)
    spans: Sequence[Span] = field(default=(), kw_only=True)


@define(kw_only=True)
class Decision:
    """The decisions of a policy for n rows.

    Attributes:
        action: ``[n, L] int64`` or ``[n, D] float32``.
        extras: The algorithm's declared fields of source ``"policy"``, each ``[n, …]``.
        state: Recurrent state after the decision, leaves ``[n, …]``; empty for stateless policies.
        value: ``[n] float32``, what `Policy.evaluate` returns for the same input, if `act` computes it anyway.
            Players that learn from their opponents' evaluations record it.
    """

    action: np.ndarray
    extras: dict[str, np.ndarray] = field(factory=dict)
    state: Leaves = field(factory=dict)
    value: np.ndarray | None = None


class Policy(Protocol):
    """Decides for any number of rows at once. Used by one thread; NumPy in, NumPy out, no autograd."""

    def act(self, inputs: PolicyInput, *, rng: np.random.Generator, deterministic: bool = False) -> Decision:
        """Decide for n rows.

        Args:
            inputs: The rows.
            rng: The only source of randomness.
            deterministic: Take the most likely action instead of sampling.
        """

    def evaluate(self, inputs: PolicyInput) -> np.ndarray:
        """Return ``[n] float32``: this policy's own estimate of its expected return (V(s) or max_a Q(s, a))."""

    def initial_state(self, rows: int) -> Leaves:
        """Return the recurrent state at the start of a match, leaves ``[rows, …]``; empty if stateless."""

    def load(self, weights: Weights) -> None:
        """Copy `weights` into the policy.

        Raises:
            ModelError: Names or shapes do not fit.
        """


@runtime_checkable
class StackedPolicy(Policy, Protocol):
    """A policy that holds the weights of several models in numbered slots; an optional part of the contract.

    One call of `act` decides for all frozen opponents of one architecture, each row by the model in the slot of its
    span (`PolicyInput.spans`).
    """

    def load(self, weights: Weights, *, slot: int = 0) -> None:
        """Copy `weights` into a slot; see `ludus.inference.Inference.load`."""

    def drop(self, slot: int) -> None:
        """Forget the model in a slot."""


@frozen(kw_only=True)
class UpdateResult:
    """What one `Trainer.update` did.

    Args:
        metrics: Name to value, for example ``"policy_loss"``, ``"entropy"``, ``"approx_kl"``.
        samples: Decisions trained on, counted once per pass over them.
        gradient_steps: Optimiser steps taken.
    """

    metrics: dict[str, float]
    samples: int
    gradient_steps: int


class Trainer(Protocol):
    """Learns from segments. Lives in the learner process of one player."""

    @property
    def batch_decisions(self) -> int:
        """Return how many fresh decisions `update` wants at once."""

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Learn from fresh segments.

        Args:
            batch: About `batch_decisions` trainable decisions: as many blocks of samplers as come closest. Read-only,
                and gone once this returns: its arrays may lie in memory that samplers write to again.
            progress: Share of the training budget used so far in [0, 1], for schedules.

        Raises:
            ContractError: The batch, a loss or a gradient is not finite; weights and state are left as they were.
        """

    def weights(self) -> dict[str, np.ndarray]:
        """Return a copy of the weights that a policy loads."""

    def load_weights(self, weights: Weights) -> None:
        """Start from the weights of a model.

        Raises:
            ModelError: Names or shapes do not fit.
        """

    def state(self) -> dict[str, np.ndarray]:
        """Return everything else needed to go on exactly here: optimiser, counters, random state."""

    def load_state(self, state: Weights) -> None:
        """Go on from `state()`; call `load_weights` first."""


@runtime_checkable
class OffPolicyTrainer(Trainer, Protocol):
    """A trainer that may not care how old the weights were that decided; an optional part of the contract."""

    @property
    def off_policy(self) -> bool:
        """Return whether it learns from decisions of any weights, so that none are dropped as too old.

        For trainers with a replay memory: what it holds is older by far than `sampling.max_staleness`.
        """


@runtime_checkable
class GroupTrainer(Trainer, Protocol):
    """A trainer whose updates several processes can compute together; an optional part of the contract."""

    def join(self, group: Group) -> None:
        """Compute updates as one of a group from now on.

        `update` gets a part of the batch then, as it does in all others of the group at the same time, and comes to
        what an update with the whole batch comes to, as near as the division allows; `batch_decisions` stays that of
        the whole. It raises `LinkError` where another one is gone, and leaves weights and state as they were then.

        Args:
            group: Whose trainers have equal weights and state; `ludus.group.Alone` to leave.
        """


class Algorithm(Protocol):
    """Makes the policy and the trainer of one role."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the fields that segments carry in `extras`: the policy's own, and what samplers find out for it."""

    @property
    def segment_decisions(self) -> int:
        """Return T, the maximal length of a segment in decisions."""

    def make_policy(self) -> Policy:
        """Make a policy with arbitrary weights; `Policy.load` follows."""

    def make_trainer(self, *, seed: int, device: str = "cpu") -> Trainer:
        """Make a trainer with freshly initialised weights.

        Args:
            seed: Seeds initialisation and minibatch order.
            device: A torch device.
        """


@frozen(kw_only=True)
class AlgorithmContext:
    """What the factory of an algorithm is given besides its own configuration.

    Args:
        role: The role to be learned, as the player sees it (after its interfaces).
        build_network: Makes the network configured for this player.
        build_inference: Makes the runtime that a policy runs such a network by; it takes the module over. Torch, where
            not given.
    """

    role: Role
    build_network: Callable[[NetworkRequest], nn.Module]
    build_inference: Callable[[nn.Module, NetworkRequest], Inference] = Eager
