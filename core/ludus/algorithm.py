"""The algorithm contract: a policy that decides, and a trainer that learns from recorded decisions.

An *algorithm* makes a `Policy` for samplers and evaluators, and a `Trainer` for learners. Policy and trainer exchange
two kinds of data only: weights (named arrays), which the trainer returns and the policy loads, and `Field` records,
which the policy adds to every decision and the trainer reads. The contract covers on-policy and off-policy algorithms.
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
    "BoundedPolicy",
    "Decision",
    "GroupTrainer",
    "OffPolicyTrainer",
    "Policy",
    "PolicyInput",
    "ProbabilityPolicy",
    "StackedPolicy",
    "TemperedPolicy",
    "Trainer",
    "UpdateResult",
    "Weights",
]

#: Arrays by the names of parameters and buffers.
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
        action: ``[n, L] int64``; ``[n, L + D] float32`` if there are real numbers, which follow the labels.
        extras: The algorithm's declared fields of source ``"policy"``, each ``[n, …]``.
        state: Recurrent state after the decision, leaves ``[n, …]``; empty if there is none.
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
        """Return the recurrent state at the start of a match, leaves ``[rows, …]``; empty if there is none."""

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
        """Drop the model in a slot."""


@runtime_checkable
class BoundedPolicy(Policy, Protocol):
    """A policy whose weights hold the lowest value that they gave while they learned; an optional part of the contract.

    An exploiter shifts its rewards by it [Minimax §4.2].
    """

    def lowest_values(self, rows: int, spans: Sequence[Span]) -> np.ndarray:
        """Return min_s V(s) ``[rows] float32`` of the model that decides for each row; see `PolicyInput.spans`."""


@runtime_checkable
class TemperedPolicy(Policy, Protocol):
    """A policy that can sample more or less randomly than it learned to; an optional part of the contract.

    Attributes:
        temperature: Divisor of the log-probabilities before they are normalized, > 0; 1 when the policy is made. For
            normal distributions it multiplies the variance.
    """

    temperature: float


@runtime_checkable
class ProbabilityPolicy(Policy, Protocol):
    """A policy that returns the probabilities of its choices; an optional part of the contract."""

    def probabilities(self, observation: Leaves, *, action_mask: np.ndarray | None, state: Leaves) -> np.ndarray:
        """Return the probability of every choice, ``[n, A] float32``, the labels side by side.

        Args:
            observation: Leaves ``[n, …]``.
            action_mask: ``[n, A] bool``; None: all actions are legal.
            state: Recurrent state before the decisions, leaves ``[n, …]``.

        Raises:
            ContractError: Actions are continuous.
        """


@frozen(kw_only=True)
class UpdateResult:
    """Metrics and counts of one `Trainer.update`.

    Args:
        metrics: Values by name, for example ``"policy_loss"``, ``"entropy"``, ``"approx_kl"``.
        samples: Number of decisions, counted once per pass over them.
        gradient_steps: Number of optimizer steps.
    """

    metrics: dict[str, float]
    samples: int
    gradient_steps: int


class Trainer(Protocol):
    """Updates the weights of one player from segments, in the learner process."""

    @property
    def batch_decisions(self) -> int:
        """Return the number of new decisions that `update` should get."""

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Learn from new segments.

        Args:
            batch: About `batch_decisions` trainable decisions in whole blocks. Read-only, and valid only during the
                call: samplers may write to its memory later.
            progress: Share of the training budget that is used, in [0, 1], for schedules.

        Raises:
            ContractError: The batch, a loss or a gradient is not finite; weights and state are unchanged.
        """

    def weights(self) -> dict[str, np.ndarray]:
        """Return a copy of the policy's weights."""

    def load_weights(self, weights: Weights) -> None:
        """Replace the weights by those of a model.

        Raises:
            ModelError: Names or shapes do not fit.
        """

    def state(self) -> dict[str, np.ndarray]:
        """Return the state besides the weights that resuming needs: optimizer, counters, random generators."""

    def load_state(self, state: Weights) -> None:
        """Restore the result of `state`; call `load_weights` first."""


@runtime_checkable
class OffPolicyTrainer(Trainer, Protocol):
    """A trainer that can learn from decisions of old weights; an optional part of the contract."""

    @property
    def off_policy(self) -> bool:
        """Return whether decisions of any age are used, so that the learner drops none as too old.

        Trainers with a replay buffer return True: its decisions are much older than `sampling.max_staleness`.
        """


@runtime_checkable
class GroupTrainer(Trainer, Protocol):
    """A trainer whose updates a process group can compute; an optional part of the contract."""

    def join(self, group: Group) -> None:
        """Compute later updates as a member of a group.

        Each member's `update` then gets a shard of the batch, and all members together compute the update of the whole
        batch, up to the effects of sharding. `batch_decisions` still refers to the whole batch. `update` raises
        `LinkError`, with weights and state unchanged, if another member fails.

        Args:
            group: Group whose trainers have equal weights and state; `ludus.group.Alone` to leave a group.
        """


class Algorithm(Protocol):
    """Makes the policy and the trainer of one role."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the fields that segments record in `extras`, from the policy and from opponents."""

    @property
    def segment_decisions(self) -> int:
        """Return T, the maximal length of a segment in decisions."""

    def make_policy(self) -> Policy:
        """Make a policy with arbitrary weights; `Policy.load` is called before it decides."""

    def make_trainer(self, *, seed: int, device: str = "cpu") -> Trainer:
        """Make a trainer with newly initialized weights.

        Args:
            seed: Seed of initialization and minibatch order.
            device: Torch device.
        """


@frozen(kw_only=True)
class AlgorithmContext:
    """Arguments of an algorithm's factory besides its configuration.

    Args:
        role: Role to learn, behind the player's interfaces.
        build_network: Makes the network that is configured for the player.
        build_inference: Makes the runtime of a policy for such a network, which the runtime owns from then on. The
            default is plain torch.
    """

    role: Role
    build_network: Callable[[NetworkRequest], nn.Module]
    build_inference: Callable[[nn.Module, NetworkRequest], Inference] = Eager
