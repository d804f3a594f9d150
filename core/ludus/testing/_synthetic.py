"""Synthetic roles, rows and segments to check algorithms without an environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from attrs import frozen
from gymnasium import Space, spaces

from ludus.algorithm import Algorithm, Decision, Policy, PolicyInput
from ludus.environment import Leaves, Role
from ludus.segment import SegmentBatch
from ludus.spaces import label_sizes, leaf_spaces
from ludus.testing._errors import require, wrap_errors

_Case = TypeVar("_Case")


def algorithm_roles() -> dict[str, Role]:
    """Return the roles that `check_algorithm` uses, by description."""
    vector = spaces.Box(-1.0, 1.0, (5,), np.float32)
    mixed = spaces.Dict({"board": spaces.Box(0, 255, (3, 3, 2), np.uint8), "turn": spaces.Discrete(3), "speed": vector})
    hidden = spaces.Dict({"hidden": spaces.Box(-1.0, 1.0, (2,), np.float32)})

    def role(observation: Space[Any], action: Space[Any], privileged: spaces.Dict | None = None) -> Role:
        return Role(
            name="player", observation_space=observation, action_space=action, teams=(0, 1), privileged_space=privileged
        )

    return {
        "discrete": role(vector, spaces.Discrete(4)),
        "multi-discrete": role(mixed, spaces.MultiDiscrete([3, 2])),
        "privileged": role(vector, spaces.Discrete(3), hidden),
        "hybrid": role(vector, spaces.Tuple((spaces.MultiDiscrete([3, 2]), spaces.Box(-1.0, 1.0, (2,), np.float32)))),
        "continuous": role(vector, spaces.Box(np.array([-1, 0], np.float32), np.array([1, 5], np.float32))),
    }


def check_roles(
    roles: Sequence[Role] | None,
    make_case: Callable[[Role], _Case],
    checks: Sequence[Callable[[_Case], None]],
    *,
    rejection: type[Exception],
) -> None:
    """Run checks on every role that is not rejected.

    Args:
        roles: Roles to check; None: `algorithm_roles`.
        make_case: Makes the argument of the checks.
        checks: Functions that raise a ContractError.
        rejection: Exception with which `make_case` rejects a role.

    Raises:
        ContractError: A check failed, or all roles are rejected; the message names the role.
    """
    rejections = []
    named_roles = algorithm_roles() if roles is None else dict(enumerate(roles))
    for name, role in named_roles.items():
        try:
            case = make_case(role)
        except rejection as error:
            rejections.append(f"{name}: {error}")
            continue
        with wrap_errors(f"on role {name!r}"):
            for check in checks:
                check(case)
    require(len(rejections) < len(named_roles), f"rejects every role — {'; '.join(rejections)}")


@frozen(kw_only=True)
class SyntheticRows:
    """Random inputs of n seats.

    Args:
        observation: Leaves ``[n, …]``.
        privileged: Leaves ``[n, …]``; empty if the role has none.
        mask: ``[n, A] bool``; None for continuous actions.
    """

    observation: Leaves
    privileged: Leaves
    mask: np.ndarray | None

    @classmethod
    def draw(cls, role: Role, rows: int, rng: np.random.Generator) -> SyntheticRows:
        """Return random rows with at least one legal choice per label."""
        return cls(
            observation=random_leaves(role.observation_space, rows, rng),
            privileged=random_leaves(role.privileged_space, rows, rng),
            mask=random_mask(role.action_space, rows, rng),
        )

    def first(self, rows: int) -> SyntheticRows:
        """Return the first rows only."""
        return SyntheticRows(
            observation={name: leaf[:rows] for name, leaf in self.observation.items()},
            privileged={name: leaf[:rows] for name, leaf in self.privileged.items()},
            mask=None if self.mask is None else self.mask[:rows],
        )

    def act(self, policy: Policy, rng: np.random.Generator | int = 0, *, deterministic: bool = False) -> Decision:
        """Return the decisions of a policy at the start of a match."""
        return policy.act(self._inputs(policy), rng=np.random.default_rng(rng), deterministic=deterministic)

    def evaluate(self, policy: Policy) -> np.ndarray:
        """Return the values of a policy at the start of a match."""
        return policy.evaluate(self._inputs(policy))

    def _inputs(self, policy: Policy) -> PolicyInput:
        state = policy.initial_state(len(next(iter(self.observation.values()))))
        return PolicyInput(self.observation, action_mask=self.mask, privileged=self.privileged, state=state)


def random_mask(action: Space[Any], rows: int, rng: np.random.Generator) -> np.ndarray | None:
    """Return ``[rows, A] bool`` with a legal choice for every label, None for continuous actions."""
    labels = []
    for size in label_sizes(action):
        legal = rng.random((rows, size)) < 0.6
        legal[np.arange(rows), rng.integers(0, size, rows)] = True
        labels.append(legal)
    return np.concatenate(labels, axis=1) if labels else None


def random_leaves(space: Space[Any] | None, rows: int, rng: np.random.Generator) -> Leaves:
    """Return random observations: leaves ``[rows, …]``."""
    leaves = {}
    for name, leaf in leaf_spaces(space).items():
        leaf.seed(int(rng.integers(2**31)))
        leaves[name] = np.stack([np.asarray(leaf.sample(), leaf.dtype) for _ in range(rows)])
    return leaves


def synthetic_batch(
    algorithm: Algorithm, role: Role, policy: Policy, *, rng: np.random.Generator, segments: int = 6
) -> SegmentBatch:
    """Return segments with random observations and rewards, which cover every case of a segment.

    There are full and short segments, terminated and truncated matches within segments, and undefined entries, which
    are NaN if their dtype allows it.

    Args:
        algorithm: Algorithm that declares the recorded fields and the length T of segments (at most 8 here).
        role: Role of the player.
        policy: Policy that decides.
        rng: Generator of all random numbers.
        segments: Number of segments N.
    """
    steps = min(algorithm.segment_decisions, 8) + 1
    shape = (steps, segments)
    rows = SyntheticRows.draw(role, steps * segments, rng)
    decision = rows.act(policy, rng)
    entry = np.arange(steps)[:, None]
    length = rng.integers(1, steps, segments).astype(np.int32)
    length[0] = steps - 1
    ended = rng.random(shape)
    truncated = (ended < 0.15) & (entry < length)
    truncated[1:] &= ~truncated[:-1]  # the entry after a truncated decision is a final observation
    decided = np.ones(shape, bool)
    decided[1:] &= ~truncated[:-1]
    truncated &= decided
    reward = rng.standard_normal(shape, dtype=np.float32)
    reward[~decided | (entry >= length)] = np.nan

    sampled = {}  # fields that samplers fill
    for declared in algorithm.fields:
        if declared.source == "seat":
            sampled[declared.name] = rng.integers(0, role.num_seats, steps * segments).astype(declared.dtype)
        elif declared.source != "policy":
            values = rng.standard_normal(steps * segments, dtype=np.float32)
            sampled[declared.name] = np.where(rng.random(values.size) < 0.3, np.float32(np.nan), values)

    def by_entry(array: np.ndarray) -> np.ndarray:
        array = array.reshape(*shape, *array.shape[1:])
        if array.dtype.kind == "f":
            array[entry > length] = np.nan
        return array

    return SegmentBatch(
        observation={name: leaf.reshape(*shape, *leaf.shape[1:]) for name, leaf in rows.observation.items()},
        privileged={name: leaf.reshape(*shape, *leaf.shape[1:]) for name, leaf in rows.privileged.items()},
        action=decision.action.reshape(*shape, -1),
        action_mask=None if rows.mask is None else rows.mask.reshape(*shape, -1),
        reward=reward,
        terminated=(ended > 0.85) & decided & (entry < length),
        truncated=truncated,
        decided=decided & (entry <= length),
        elapsed_ticks=rng.integers(1, 4, shape).astype(np.int32),
        extras={name: by_entry(array.copy()) for name, array in (decision.extras | sampled).items()},
        initial_state=policy.initial_state(segments),
        length=length,
        version=np.zeros(segments, np.int64),
    )
