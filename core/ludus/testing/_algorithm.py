"""`check_algorithm`: check an algorithm on synthetic roles with a tiny network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from attrs import frozen

from ludus.algorithm import Algorithm, AlgorithmContext, Decision, GroupTrainer, Policy, Trainer, UpdateResult
from ludus.environment import Role
from ludus.errors import ContractError, LinkError, ModelError
from ludus.export import ExportableAlgorithm
from ludus.segment import Field, SegmentBatch
from ludus.spaces import action_dtype, action_width, legal_actions
from ludus.testing._errors import expect_type, rejects, require, require_array
from ludus.testing._export import check_decision_module
from ludus.testing._group import BreakingGroup, update_together
from ludus.testing._synthetic import SyntheticRows, check_roles, synthetic_batch

_ROWS = 7
#: Updates after which an algorithm must have learned something; replay buffers may have to fill first.
_MAX_WARM_UP_UPDATES = 20


@frozen
class _Case:
    """An algorithm and the role that it was made for.

    Args:
        algorithm: Algorithm to check.
        role: Role of the player.
    """

    algorithm: Algorithm
    role: Role

    def make_pair(self, seed: int = 0) -> tuple[Trainer, Policy]:
        """Return a trainer and a policy with its weights."""
        trainer, policy = self.algorithm.make_trainer(seed=seed), self.algorithm.make_policy()
        policy.load(trainer.weights())
        return trainer, policy

    def make_batch(self, policy: Policy, seed: int) -> SegmentBatch:
        """Return new segments of a policy, read-only as in a run."""
        return synthetic_batch(self.algorithm, self.role, policy, rng=np.random.default_rng(seed)).read_only()


def _same_arrays(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    """Return whether two sets of arrays have equal names and values."""
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


def _with_nan(batch: SegmentBatch) -> SegmentBatch:
    """Return the batch with NaN as the first rewards."""
    reward = batch.reward.copy()
    reward[0] = np.nan
    return attrs.evolve(batch, reward=reward).read_only()


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

    def make_case(role: Role) -> _Case:
        return _Case(make(AlgorithmContext(role=role, build_network=TinyNetwork)), role)

    check_roles(roles, make_case, _CHECKS, rejection=ContractError)


def _check_fields(case: _Case) -> None:
    check_fields(case.algorithm)


def check_fields(algorithm: Algorithm) -> None:
    """Check the declared fields and the length of segments.

    Raises:
        ContractError: A field is no `Field`, not unique, or cannot be recorded; or segments have no decision.
    """
    fields = expect_type(tuple, algorithm.fields, "fields")
    names = [expect_type(Field, declared, "fields").name for declared in fields]
    require(len(set(names)) == len(names), f"fields {names} are not unique")
    dtypes = {"opponents": "float32", "opponent-minima": "float32", "seat": "int32"}
    for declared in fields:
        dtype = dtypes.get(declared.source, declared.dtype)
        is_valid = declared.source == "policy" or (declared.shape, declared.dtype) == ((), dtype)
        require(is_valid, f"field {declared.name!r} of source {declared.source!r} must be scalar {dtype}")
    require(algorithm.segment_decisions >= 1, "segment_decisions must be at least 1")


def _check_decisions(case: _Case) -> None:
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


def _check_decision(case: _Case, rows: SyntheticRows, decision: Decision) -> None:
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
    space, action = role.action_space, decision.action
    require_array("act's action", action, (rows, action_width(space)), action_dtype(space))
    require(legal_actions(space, action).all(), f"act returned an action outside of {space}")
    require(legal_actions(space, action, mask).all(), "act chose a masked action")
    declared = {field.name: field for field in algorithm.fields if field.source == "policy"}
    require(set(decision.extras) == set(declared), f"act returned {sorted(decision.extras)}, not {sorted(declared)}")
    for name, array in decision.extras.items():
        require_array(f"extra {name!r}", array, (rows, *declared[name].shape), declared[name].dtype)
        require(array.dtype.kind != "f" or np.isfinite(array).all(), f"extra {name!r} is not finite")
    if decision.value is not None:
        _check_values("act's value", decision.value, rows)


def _check_values(name: str, values: np.ndarray, count: int) -> None:
    require_array(name, values, (count,), np.float32)
    require(np.isfinite(values).all(), f"{name} is not finite")


def _check_randomness(case: _Case) -> None:
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


def _check_rows_are_independent(case: _Case) -> None:
    _, policy = case.make_pair()
    rows = SyntheticRows.draw(case.role, _ROWS, np.random.default_rng(3))
    whole, part = (inputs.act(policy, deterministic=True) for inputs in (rows, rows.first(3)))
    require(
        np.allclose(whole.action[:3], part.action, atol=1e-4),
        "a row's decision depends on the other rows of the call",
    )
    values, part_values = rows.evaluate(policy)[:3], rows.first(3).evaluate(policy)
    require(np.allclose(values, part_values, atol=1e-4), "a row's value depends on the other rows of the call")


def _check_acts_without_privileged(case: _Case) -> None:
    _, policy = case.make_pair()
    rows = SyntheticRows.draw(case.role, _ROWS, np.random.default_rng(4))
    without = attrs.evolve(rows, privileged={})
    expected, decision = (inputs.act(policy, deterministic=True) for inputs in (rows, without))
    _check_decision(case, without, decision)
    require(np.array_equal(decision.action, expected.action), "privileged leaves change the actions of the policy")


def _check_acts_without_masks(case: _Case) -> None:
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


def _check_weights(case: _Case) -> None:
    trainer, policy = case.make_pair(seed=1)
    rows = SyntheticRows.draw(case.role, _ROWS, np.random.default_rng(5))
    weights = trainer.weights()
    policy.load(weights)
    before = rows.act(policy, deterministic=True)
    other = case.algorithm.make_trainer(seed=2)
    other.load_weights(weights)
    require(_same_arrays(other.weights(), weights), "load_weights and weights are not inverse")
    again = case.algorithm.make_trainer(seed=1)
    require(_same_arrays(again.weights(), weights), "initial weights do not follow from the seed")
    for array in weights.values():
        array[...] = 0
    require(not _same_arrays(trainer.weights(), weights), "weights() is not a copy")
    after = rows.act(policy, deterministic=True)
    require(np.array_equal(before.action, after.action), "the policy shares memory with the weights it loaded")
    require(rejects(ModelError, policy.load, {}), "the policy accepts weights without any array")
    require(rejects(ModelError, trainer.load_weights, {}), "the trainer accepts weights without any array")


def _check_decision_module(case: _Case) -> None:
    if isinstance(case.algorithm, ExportableAlgorithm):
        trainer, policy = case.make_pair(seed=3)
        rows = SyntheticRows.draw(case.role, _ROWS, np.random.default_rng(7))
        check_decision_module(case.algorithm, policy, trainer.weights(), rows)


def _check_update(case: _Case) -> None:
    trainer, policy = case.make_pair()
    require(trainer.batch_decisions >= 1, "batch_decisions must be at least 1")
    before = trainer.weights()
    for seed in range(_MAX_WARM_UP_UPDATES):
        result = expect_type(UpdateResult, trainer.update(case.make_batch(policy, seed), progress=0.5), "update")
        invalid = sorted(name for name, value in result.metrics.items() if not math.isfinite(value))
        require(not invalid, f"update returned metrics that are not finite: {', '.join(invalid)}")
        require((result.samples > 0) == (result.gradient_steps > 0), "samples and gradient_steps disagree")
        if result.gradient_steps:
            break
    require(not _same_arrays(before, trainer.weights()), f"{seed + 1} updates changed no weight")
    require(all(np.isfinite(array).all() for array in trainer.weights().values()), "weights are not finite")


def _check_resume(case: _Case) -> None:
    trainer, policy = case.make_pair()
    for seed in range(3):
        trainer.update(case.make_batch(policy, seed), progress=0.1)
    resumed = case.algorithm.make_trainer(seed=99)
    resumed.load_weights(trainer.weights())
    resumed.load_state(trainer.state())
    require(_same_arrays(resumed.state(), trainer.state()), "load_state and state are not inverse")
    for seed in range(3, 6):
        for each in (trainer, resumed):
            each.update(case.make_batch(policy, seed), progress=0.2)
        require(_same_arrays(trainer.weights(), resumed.weights()), "a resumed trainer learns other weights")


def _check_rejects_nan(case: _Case) -> None:
    trainer, policy = case.make_pair()
    trainer.update(case.make_batch(policy, 0), progress=0.0)
    weights, state = trainer.weights(), trainer.state()
    rejected = rejects(ContractError, trainer.update, _with_nan(case.make_batch(policy, 1)), progress=0.0)
    require(rejected, "update accepted NaN rewards; expected ContractError")
    require(_same_arrays(trainer.weights(), weights), "a rejected update changed the weights")
    require(_same_arrays(trainer.state(), state), "a rejected update changed the state of the trainer")


def _check_group_updates(case: _Case) -> None:
    """Check that the trainers of a group stay equal, also if one of them rejects its part of a batch."""
    made = [case.algorithm.make_trainer(seed=0) for _ in range(2)]
    trainers = [trainer for trainer in made if isinstance(trainer, GroupTrainer)]
    if not trainers:
        return
    _, policy = case.make_pair()
    updates = _update_until_learned(case, trainers, policy)
    before = trainers[0].weights(), trainers[0].state()
    parts = case.make_batch(policy, updates).divide(2)
    rejected = rejects(ContractError, update_together, trainers, [parts[0], _with_nan(parts[1])], progress=0.5)
    require(rejected, "an update of a group accepted NaN rewards; expected ContractError")
    _require_equal(trainers, "an update that one trainer of a group rejected")
    after = trainers[0].weights(), trainers[0].state()
    require(all(map(_same_arrays, before, after)), "an update that another trainer rejected changed a trainer")


def _update_until_learned(case: _Case, trainers: Sequence[GroupTrainer], policy: Policy) -> int:
    """Update the group until it makes a gradient step and return the number of updates."""
    for number in range(_MAX_WARM_UP_UPDATES):
        result, _ = update_together(trainers, case.make_batch(policy, number).divide(2), progress=0.5)
        _require_equal(trainers, "an update of a group")
        if result.gradient_steps:
            break
    return number + 1


def _require_equal(trainers: Sequence[GroupTrainer], subject: str) -> None:
    first, second = trainers
    for got, expected in ((second.weights(), first.weights()), (second.state(), first.state())):
        differing = sorted(name for name in got if not np.array_equal(got[name], expected[name]))
        require(not differing, f"{subject} leaves trainers with different {', '.join(differing[:4])}")


def _check_broken_groups(case: _Case) -> None:
    """Check that a trainer is unchanged if its group breaks at the first, a middle or the last exchange."""
    trainer, policy = case.make_pair()
    if not isinstance(trainer, GroupTrainer):
        return
    batch = case.make_batch(policy, 0).divide(2)[0]
    intact = BreakingGroup()
    trainer.join(intact)
    trainer.update(batch, progress=0.0)
    require(intact.exchanges > 0, "an update of a group exchanged nothing")
    weights, state = trainer.weights(), trainer.state()
    for exchanges in {0, intact.exchanges // 2, intact.exchanges - 1}:
        trainer.join(BreakingGroup(exchanges))
        broken = rejects(LinkError, trainer.update, batch, progress=0.0)
        require(broken, "an update continued after its group broke; expected LinkError")
        same = _same_arrays(trainer.weights(), weights) and _same_arrays(trainer.state(), state)
        require(same, f"an update whose group broke after {exchanges} exchanges changed the trainer")


_CHECKS = (
    _check_fields,
    _check_decisions,
    _check_randomness,
    _check_rows_are_independent,
    _check_acts_without_privileged,
    _check_acts_without_masks,
    _check_weights,
    _check_decision_module,
    _check_update,
    _check_resume,
    _check_rejects_nan,
    _check_group_updates,
    _check_broken_groups,
)
