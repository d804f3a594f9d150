"""`check_inference`: compare an inference runtime with torch, for several batch sizes and slots."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from ludus.environment import Leaves, Role
from ludus.errors import ModelError, UnsupportedNetwork
from ludus.inference import Eager, Inference, Outputs, Span
from ludus.network import NetworkRequest, RecurrentNetwork, get_weights
from ludus.spaces import leaf_spaces
from ludus.testing._errors import expect_type, rejects, require, require_array
from ludus.testing._synthetic import check_roles, random_leaves

if TYPE_CHECKING:
    from torch import nn


_SLOTS = (0, 5, 2)
_TOLERANCE = 1e-5


def check_inference(
    make: Callable[[nn.Module, NetworkRequest], Inference],
    *,
    build_network: Callable[[NetworkRequest], nn.Module] | None = None,
    roles: Sequence[Role] | None = None,
) -> None:
    """Check that an inference runtime keeps its contract.

    Networks for which `make` raises `UnsupportedNetwork` are skipped.

    Args:
        make: Makes the runtime, usually ``lambda module, request: factory(config, module=module, request=request)``.
        build_network: Makes the networks to run; None: a tiny network.
        roles: Roles whose observations the networks read; None: `algorithm_roles`.

    Raises:
        ContractError: The runtime breaks its contract, or rejects every network.
    """
    from ludus.testing._tiny_network import TinyNetwork  # noqa: PLC0415 - importing torch takes a second

    def make_case(role: Role) -> _Case:
        request = NetworkRequest(
            observation=leaf_spaces(role.observation_space),
            privileged=leaf_spaces(role.privileged_space),
            heads={"policy": 3, "other": 2},
            critic_heads={"value": 1},
        )
        modules = [(build_network or TinyNetwork)(request).eval() for _ in _SLOTS]
        return _Case(role, request, modules, make(copy.deepcopy(modules[0]), request))

    check_roles(roles, make_case, (_check_rows, _check_slots, _check_loading), rejection=UnsupportedNetwork)


@frozen
class _Case:
    role: Role
    request: NetworkRequest
    modules: Sequence[nn.Module]
    inference: Inference

    def leaves(self, rows: int, seed: int) -> tuple[Leaves, Leaves]:
        """Return random observation and privileged leaves."""
        rng = np.random.default_rng(seed)
        spaces = self.role.observation_space, self.role.privileged_space
        observation, privileged = (random_leaves(space, rows, rng) for space in spaces)
        return observation, privileged

    def compare(self, observation: Leaves, privileged: Leaves, spans: Sequence[Span], expected: Sequence[int]) -> None:
        """Compare a run with torch, two steps of a recurrent network; `expected` has the module of each span."""
        bounds = _bounds(observation, spans)
        state = _initial_state(self.modules[0], bounds[-1][1])
        for _ in range(2 if state else 1):
            found = expect_type(
                Outputs, self.inference.run(observation, privileged=privileged, state=state, spans=spans), "run"
            )
            names, given = sorted(found.state), sorted(state)
            require(names == given, f"run returned a state with leaves {names}, expected {given}")
            for index, (start, stop) in zip(expected, bounds, strict=True):
                parts = [
                    {name: leaf[start:stop] for name, leaf in group.items()}
                    for group in (observation, privileged, state)
                ]
                eager = Eager(self.modules[index], self.request).run(parts[0], privileged=parts[1], state=parts[2])
                _require_equal("head", found.heads, eager.heads, slice(start, stop))
                _require_equal("state", found.state, eager.state, slice(start, stop))
            state = {name: leaf.copy() for name, leaf in found.state.items()}


def _initial_state(module: nn.Module, rows: int) -> Leaves:
    state = module.initial_state(rows) if isinstance(module, RecurrentNetwork) else {}
    return {name: leaf.numpy() for name, leaf in state.items()}


def _bounds(observation: Leaves, spans: Sequence[Span]) -> list[tuple[int, int]]:
    rows = len(next(iter(observation.values())))
    return [(span.start, span.stop) for span in spans] or [(0, rows)]


def _require_equal(kind: str, found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], rows: slice) -> None:
    require(found.keys() == expected.keys(), f"run returned {kind}s {sorted(found)}, expected {sorted(expected)}")
    for name, array in expected.items():
        part = found[name][rows]
        require_array(f"{kind} {name!r}", part, array.shape, np.float32)
        error = float(np.abs(part - array).max(initial=0))
        require(error <= _TOLERANCE, f"{kind} {name!r} differs from torch by {error:.1e}, more than {_TOLERANCE}")


def _check_rows(case: _Case) -> None:
    case.inference.load(get_weights(case.modules[0]))
    for seed, rows in enumerate((1, 7, 200, 3)):
        observation, privileged = case.leaves(rows, seed)
        for leaf in observation.values():
            leaf.flags.writeable = False
        case.compare(observation, privileged, (), [0])
        case.compare(observation, {}, (), [0])
        backwards = {name: leaf[::-1] for name, leaf in observation.items()}
        case.compare(backwards, {}, (), [0])


def _check_slots(case: _Case) -> None:
    for slot, module in zip(_SLOTS, case.modules, strict=True):
        case.inference.load(get_weights(module), slot=slot)
    observation, privileged = case.leaves(12, seed=9)
    spans = [Span(5, 0, 1), Span(0, 1, 6), Span(2, 6, 10), Span(5, 10, 12)]
    for leaves in (privileged, {}):
        case.compare(observation, leaves, spans, [1, 0, 2, 1])
        case.compare(observation, leaves, (), [0])
    case.inference.drop(5)
    case.compare(observation, {}, [Span(2, 0, 12)], [2])
    case.inference.load(get_weights(case.modules[0]), slot=5)
    case.compare(observation, {}, [Span(5, 0, 12)], [0])


def _check_loading(case: _Case) -> None:
    observation, privileged = case.leaves(4, seed=10)
    for index in (1, 2):
        weights = get_weights(case.modules[index])
        case.inference.load(weights)
        for array in weights.values():
            array[...] = 0
        case.compare(observation, privileged, (), [index])
    for wrong in ({}, {name: array[..., None] for name, array in get_weights(case.modules[0]).items()}):
        require(rejects(ModelError, case.inference.load, wrong), "load accepted weights of another network")
        case.compare(observation, privileged, (), [2])
