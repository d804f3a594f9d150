"""`check_algorithm`: check an algorithm on synthetic roles with a tiny network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from ludus.algorithm import Algorithm, AlgorithmContext, Decision, UpdateResult
from ludus.environment import Role
from ludus.errors import ContractError, ModelError
from ludus.segment import Field
from ludus.spaces import action_dtype, action_width, legal_actions
from ludus.testing._algorithm_case import MAX_WARM_UP_UPDATES, AlgorithmCase, same_arrays, with_nan
from ludus.testing._algorithm_groups import check_broken_groups, check_group_updates
from ludus.testing._errors import expect_type, require
from ludus.testing._synthetic import SyntheticRows, check_roles

__all__ = ["check_algorithm", "check_decision", "check_fields"]

_ROWS = 7


def check_algorithm(make: Callable[[AlgorithmContext], Algorithm], *, roles: Sequence[Role] | None = None) -> None:
    """Check that an algorithm keeps its contract.

    Roles for which `make` raises a `ContractError` are skipped.

    Args:
        make: Makes the algorithm, usually ``lambda context: factory(config, context=context)``.
        roles: Roles to check; None: `algorithm_roles`.

    Raises:
        ContractError: The algorithm breaks its contract, or rejects every role.
    """
    from ludus.testing._tiny_network import TinyNetwork  # noqa: PLC0415 - importing torch takes a second

    def make_case(role: Role) -> AlgorithmCase:
        return AlgorithmCase(make(AlgorithmContext(role=role, build_network=TinyNetwork)), role)

    check_roles(roles, make_case, _CHECKS, rejection=ContractError)


def _check_fields(case: AlgorithmCase) -> None:
    check_fields(case.algorithm)


def check_fields(algorithm: Algorithm) -> None:
    """Check the declared fields and the length of segments.

    Raises:
        ContractError: A field is no `Field`, not unique, or cannot be recorded; or segments have no decision.
    """
    fields = expect_type(tuple, algorithm.fields, "fields")
    names = [expect_type(Field, declared, "fields").name for declared in fields]
    require(len(set(names)) == len(names), f"fields {names} are not unique")
    opponent_fields = [(field.shape, field.dtype) for field in fields if field.source == "opponents"]
    scalar = all(field == ((), "float32") for field in opponent_fields)
    require(scalar, "fields of source 'opponents' must be scalar float32")
    require(algorithm.segment_decisions >= 1, "segment_decisions must be at least 1")


def _check_decisions(case: AlgorithmCase) -> None:
    rng = np.random.default_rng(1)
    _, policy = case.make_pair()
    for rows in (1, _ROWS, 200):
        for deterministic in (False, True):
            inputs = SyntheticRows.draw(case.role, rows, rng)
            decision = inputs.act(policy, rng, deterministic=deterministic)
            _check_decision(case, inputs, decision)
            values = inputs.evaluate(policy)
            _check_values("evaluate", values, rows)
            equal = decision.value is None or np.allclose(decision.value, values, atol=1e-4)
            require(equal, "act's value is not what evaluate returns")


def _check_decision(case: AlgorithmCase, rows: SyntheticRows, decision: Decision) -> None:
    check_decision(decision, case.algorithm, case.role, rows=len(next(iter(rows.observation.values()))), mask=rows.mask)


def check_decision(decision: Any, algorithm: Algorithm, role: Role, *, rows: int, mask: np.ndarray | None) -> None:
    """Check a decision of a policy.

    Args:
        decision: Return value of `act`.
        algorithm: Algorithm that declares the extras.
        role: Role of the player, after its interfaces.
        rows: Number of rows.
        mask: Action mask of the rows.

    Raises:
        ContractError: It is no `Decision`, has undeclared arrays, illegal actions or values that are not finite.
    """
    expect_type(Decision, decision, "act")
    space, action = role.action_space, expect_type(np.ndarray, decision.action, "act's action")
    expected, dtype = (rows, action_width(space)), action_dtype(space)
    require(
        action.shape == expected and action.dtype == dtype,
        f"act returned an action {action.shape} {action.dtype}, expected {expected} {dtype}",
    )
    require(legal_actions(space, action).all(), f"act returned an action outside of {space}")
    require(legal_actions(space, action, mask).all(), "act chose a masked action")
    declared = {field.name: field for field in algorithm.fields if field.source == "policy"}
    require(set(decision.extras) == set(declared), f"act returned {sorted(decision.extras)}, not {sorted(declared)}")
    for name, array in decision.extras.items():
        shape, dtype = (rows, *declared[name].shape), np.dtype(declared[name].dtype)
        require(
            array.shape == shape and array.dtype == dtype,
            f"extra {name!r} is {array.shape} {array.dtype}, expected {shape} {dtype}",
        )
        require(array.dtype.kind != "f" or np.isfinite(array).all(), f"extra {name!r} is not finite")
    if decision.value is not None:
        _check_values("act's value", decision.value, rows)


def _check_values(name: str, values: np.ndarray, count: int) -> None:
    require(
        isinstance(values, np.ndarray) and values.shape == (count,) and values.dtype == np.float32,
        f"{name} must be [n] float32",
    )
    require(np.isfinite(values).all(), f"{name} is not finite")


def _check_randomness(case: AlgorithmCase) -> None:
    import torch  # noqa: PLC0415 - importing torch takes a second

    _, policy = case.make_pair()
    rows = SyntheticRows.draw(case.role, 50, np.random.default_rng(2))
    torch.manual_seed(1)
    first = rows.act(policy, 5)
    torch.manual_seed(2)
    again = rows.act(policy, 5)
    require(np.array_equal(first.action, again.action), "act is not a function of its arguments and rng alone")
    best, other = rows.act(policy, 5, deterministic=True), rows.act(policy, 6, deterministic=True)
    require(np.array_equal(best.action, other.action), "deterministic decisions depend on rng")


def _check_rows_are_independent(case: AlgorithmCase) -> None:
    _, policy = case.make_pair()
    rows = SyntheticRows.draw(case.role, _ROWS, np.random.default_rng(3))
    whole, part = (inputs.act(policy, deterministic=True) for inputs in (rows, rows.first(3)))
    require(
        np.allclose(whole.action[:3], part.action, atol=1e-4),
        "a row's decision depends on the other rows of the call",
    )
    values, part_values = rows.evaluate(policy)[:3], rows.first(3).evaluate(policy)
    require(np.allclose(values, part_values, atol=1e-4), "a row's value depends on the other rows of the call")


def _check_acts_without_privileged(case: AlgorithmCase) -> None:
    _, policy = case.make_pair()
    rows = SyntheticRows.draw(case.role, _ROWS, np.random.default_rng(4))
    without = attrs.evolve(rows, privileged={})
    expected, decision = (inputs.act(policy, deterministic=True) for inputs in (rows, without))
    _check_decision(case, without, decision)
    require(np.array_equal(decision.action, expected.action), "privileged leaves change the actions of the policy")


def _check_acts_without_masks(case: AlgorithmCase) -> None:
    _, policy = case.make_pair()
    rows = SyntheticRows.draw(case.role, _ROWS, np.random.default_rng(6))
    if rows.mask is None:
        return
    without, all_legal = (attrs.evolve(rows, mask=mask) for mask in (None, np.ones_like(rows.mask)))
    decision, expected = (inputs.act(policy, deterministic=True) for inputs in (without, all_legal))
    _check_decision(case, without, decision)
    require(
        np.array_equal(decision.action, expected.action), "no mask is not the same as a mask that allows everything"
    )


def _check_weights(case: AlgorithmCase) -> None:
    trainer, policy = case.make_pair(seed=1)
    rows = SyntheticRows.draw(case.role, _ROWS, np.random.default_rng(5))
    weights = trainer.weights()
    policy.load(weights)
    before = rows.act(policy, deterministic=True)
    other = case.algorithm.make_trainer(seed=2)
    other.load_weights(weights)
    require(same_arrays(other.weights(), weights), "load_weights and weights are not inverse")
    again = case.algorithm.make_trainer(seed=1)
    require(same_arrays(again.weights(), weights), "initial weights do not follow from the seed")
    for array in weights.values():
        array[...] = 0
    require(not same_arrays(trainer.weights(), weights), "weights() is not a copy")
    after = rows.act(policy, deterministic=True)
    require(np.array_equal(before.action, after.action), "the policy shares memory with the weights it loaded")
    require(_rejects_empty(policy.load), "the policy accepts weights without any array")
    require(_rejects_empty(trainer.load_weights), "the trainer accepts weights without any array")


def _rejects_empty(load: Callable[[dict[str, np.ndarray]], None]) -> bool:
    try:
        load({})
    except ModelError:
        return True
    return False


def _check_update(case: AlgorithmCase) -> None:
    trainer, policy = case.make_pair()
    require(trainer.batch_decisions >= 1, "batch_decisions must be at least 1")
    before = trainer.weights()
    for seed in range(MAX_WARM_UP_UPDATES):
        result = expect_type(UpdateResult, trainer.update(case.make_batch(policy, seed), progress=0.5), "update")
        invalid = sorted(name for name, value in result.metrics.items() if not math.isfinite(value))
        require(not invalid, f"update returned metrics that are not finite: {', '.join(invalid)}")
        require((result.samples > 0) == (result.gradient_steps > 0), "samples and gradient_steps disagree")
        if result.gradient_steps:
            break
    require(not same_arrays(before, trainer.weights()), f"{seed + 1} updates changed no weight")
    require(all(np.isfinite(array).all() for array in trainer.weights().values()), "weights are not finite")


def _check_resume(case: AlgorithmCase) -> None:
    trainer, policy = case.make_pair()
    for seed in range(3):
        trainer.update(case.make_batch(policy, seed), progress=0.1)
    resumed = case.algorithm.make_trainer(seed=99)
    resumed.load_weights(trainer.weights())
    resumed.load_state(trainer.state())
    require(same_arrays(resumed.state(), trainer.state()), "load_state and state are not inverse")
    for seed in range(3, 6):
        for each in (trainer, resumed):
            each.update(case.make_batch(policy, seed), progress=0.2)
        require(same_arrays(trainer.weights(), resumed.weights()), "a resumed trainer learns other weights")


def _check_rejects_nan(case: AlgorithmCase) -> None:
    trainer, policy = case.make_pair()
    trainer.update(case.make_batch(policy, 0), progress=0.0)
    weights, state = trainer.weights(), trainer.state()
    try:
        trainer.update(with_nan(case.make_batch(policy, 1)), progress=0.0)
    except ContractError:
        require(same_arrays(trainer.weights(), weights), "a rejected update changed the weights")
        require(same_arrays(trainer.state(), state), "a rejected update changed the state of the trainer")
    else:
        raise ContractError("update accepted NaN rewards; expected ContractError")


_CHECKS = (
    _check_fields,
    _check_decisions,
    _check_randomness,
    _check_rows_are_independent,
    _check_acts_without_privileged,
    _check_acts_without_masks,
    _check_weights,
    _check_update,
    _check_resume,
    _check_rejects_nan,
    check_group_updates,
    check_broken_groups,
)
