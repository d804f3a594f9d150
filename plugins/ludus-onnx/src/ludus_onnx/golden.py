"""Golden vectors: rows of real observations with the outputs that torch computes for them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import define, field
from ludus.algorithm import Decision, Policy, PolicyInput, Weights
from ludus.environment import Environment, Leaves, Role
from ludus.errors import ModelError
from ludus.interface import Identity, Interface, SeatView, bind_role, stack
from ludus.lineup import make_agents, make_lineup
from ludus.runs import PolicyAgent, Run, TrainedModel, play_matches
from ludus.spaces import label_sizes, leaf_spaces

from ludus_onnx.comparison import TOLERANCE, output_scales
from ludus_onnx.flat_module import Arrays, Exportable

MATCHES = 8  # played at once
_MAX_ROUNDS = 50  # of such matches, in games with few decisions


@define
class RowSample:
    """A random sample of the rows that a policy decides for, of fixed size; every row is as likely to be in it.

    Args:
        size: Number of rows to keep.
        seed: Seed of the choice.
        mask_columns: Number of choices of all labels; 0 without labels.
    """

    size: int
    seed: int
    mask_columns: int
    num_seen: int = field(init=False, default=0)
    _rows: list[dict[str, np.ndarray]] = field(init=False, factory=list)
    _rng: np.random.Generator = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def add(self, observation: Leaves, mask: np.ndarray | None, state: Leaves) -> None:
        """Add n rows.

        Args:
            observation: Leaves ``[n, …]``.
            mask: ``[n, A] bool``; None: every choice is allowed.
            state: Leaves ``[n, …]``.
        """
        count = len(next(iter(observation.values())))
        leaves = {f"observation/{name}": leaf for name, leaf in observation.items()}
        if self.mask_columns:
            leaves["action_mask"] = np.ones((count, self.mask_columns), np.bool_) if mask is None else mask
        leaves |= {f"state/{name}": leaf for name, leaf in state.items()}
        for row in range(count):
            self.num_seen += 1
            place = len(self._rows) if len(self._rows) < self.size else int(self._rng.integers(self.num_seen))
            if place < self.size:
                self._rows[place : place + 1] = [{name: leaf[row].copy() for name, leaf in leaves.items()}]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the rows side by side, ``[size, …]`` by name."""
        return {name: np.stack([row[name] for row in self._rows]) for name in self._rows[0]}


@define
class _RecordingInterface(Identity):
    """Keeps the latest view that passes it."""

    view: SeatView | None = None

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002 - rows are independent
        """Return the view itself."""
        self.view = view
        return view


@define
class _RecordingPolicy:
    """Decides as a policy does, and adds its rows to a sample as they are at a point between the interfaces."""

    policy: Policy
    point: _RecordingInterface
    sample: RowSample

    def act(self, inputs: PolicyInput, *, rng: np.random.Generator, deterministic: bool = False) -> Decision:
        """Decide for n rows."""
        assert self.point.view is not None
        self.sample.add(self.point.view.observation, self.point.view.action_mask, inputs.state)
        return self.policy.act(inputs, rng=rng, deterministic=deterministic)

    def evaluate(self, inputs: PolicyInput) -> np.ndarray:
        """Return the values of n rows."""
        return self.policy.evaluate(inputs)

    def initial_state(self, rows: int) -> Leaves:
        """Return the state at the start of a match."""
        return self.policy.initial_state(rows)

    def load(self, weights: Weights) -> None:
        """Load weights."""
        self.policy.load(weights)


def play_rows(run: Run, model: TrainedModel, environment: Environment, *, size: int, seed: int, folded: int) -> Arrays:
    """Return rows that a model decides for in matches against itself or the participants that fill its seats.

    Args:
        run: Run of the model.
        model: The model.
        environment: A batch of the run's environment; the caller closes it.
        size: Number of rows.
        seed: Seed of matches, decisions and of the choice of rows.
        folded: Number of interfaces, from the one next to the policy on, whose input is recorded instead of their
            output.

    Raises:
        ModelError: The model decides too rarely.
    """
    policy = model.algorithm.make_policy()
    policy.load(model.weights)
    interfaces, point = model.make_interfaces(), _RecordingInterface()
    place = len(interfaces) - folded
    interface = stack(*interfaces[:place], point, *interfaces[place:])
    bind_role(model.raw_role, interface)
    role = role_behind(model.raw_role, interfaces[:place])
    sample = RowSample(size, seed, sum(label_sizes(role.action_space)))
    agent = PolicyAgent(_RecordingPolicy(policy, point, sample), interface=interface)
    lineup = make_lineup(environment.spec, [model.record.participant], run)
    agents = make_agents([lineup], run, environment, user=agent)
    for batch in range(_MAX_ROUNDS):
        if sample.num_seen >= size:
            return sample.arrays()
        play_matches(environment, agents, matches=environment.num_matches, seed=seed + batch)
    raise ModelError(
        f"{model.record.participant} decided only {sample.num_seen} times in {_MAX_ROUNDS * environment.num_matches} "
        f"matches, fewer than {size}; take rows of its spaces with --golden spaces"
    )


def role_behind(role: Role, interfaces: Sequence[Interface]) -> Role:
    """Return a role behind interfaces, which are bound to it."""
    return bind_role(role, stack(*interfaces))


def sample_rows(role: Role, initial_state: Leaves, *, size: int, seed: int) -> Arrays:
    """Return rows drawn from the spaces of a role, with random masks and random states.

    Args:
        role: The role.
        initial_state: Leaves ``[1, …]``, which states differ from by normal noise.
        size: Number of rows.
        seed: Seed of the rows.
    """
    rows: dict[str, np.ndarray] = {}
    rng = np.random.default_rng(seed)
    for name, space in leaf_spaces(role.observation_space).items():
        space.seed(seed)
        rows[f"observation/{name}"] = np.stack([np.asarray(space.sample(), space.dtype) for _ in range(size)])
    if sizes := label_sizes(role.action_space):
        rows["action_mask"] = _random_masks(sizes, size, rng)
    for name, leaf in initial_state.items():
        noise = rng.standard_normal((size, *leaf.shape[1:]), np.float32)
        rows[f"state/{name}"] = (leaf + noise).astype(leaf.dtype)
    return rows


def _random_masks(sizes: Sequence[int], rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return masks ``[rows, A] bool`` that allow half of the choices, and at least one of every label."""
    masks = []
    for size in sizes:
        mask = rng.random((rows, size)) < 0.5
        mask[np.arange(rows), rng.integers(size, size=rows)] = True
        masks.append(mask)
    return np.concatenate(masks, axis=1)


def golden_values(exportable: Exportable) -> dict[str, Any]:
    """Return the golden vectors of a module as JSON values, with the errors that are allowed."""
    return {
        "tolerance": TOLERANCE,
        "scales": output_scales(exportable.outputs),
        "inputs": encode_arrays(exportable.inputs),
        "outputs": encode_arrays(exportable.outputs),
    }


def encode_arrays(arrays: Arrays) -> dict[str, dict[str, Any]]:
    """Return arrays as JSON values: dtype, shape, and the little-endian bytes in base64."""
    return {
        name: {
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "base64": base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode(),
        }
        for name, array in arrays.items()
    }


def decode_arrays(values: dict[str, dict[str, Any]]) -> dict[str, np.ndarray]:
    """Return the arrays of `encode_arrays`."""
    return {
        name: np.frombuffer(base64.b64decode(value["base64"]), np.dtype(value["dtype"]).newbyteorder("<"))
        .reshape(value["shape"])
        .astype(value["dtype"])
        for name, value in values.items()
    }
