"""`check_algorithm`: what every algorithm must do, on synthetic roles and with a tiny network."""

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
from ludus.segment import Field, SegmentBatch
from ludus.spaces import action_dtype, action_width, legal_actions
from ludus.testing._errors import expect_type, wrap_errors
from ludus.testing._group import Leaving, update_together
from ludus.testing._synthetic import SyntheticRows, algorithm_roles, synthetic_batch

__all__ = ["check_algorithm"]

_ROWS = 7
_MAX_WARM_UP_UPDATES = 20


def check_algorithm(make: Callable[[AlgorithmContext], Algorithm], *, roles: Sequence[Role] | None = None) -> None:
    """Check that an algorithm keeps its contract.

    A role that the algorithm refuses with a `ContractError` when it is made is skipped.

    Args:
        make: Makes the algorithm, usually ``lambda context: factory(config, context=context)``.
        roles: What to try it on; None means `algorithm_roles`.

    Raises:
        ContractError: The algorithm breaks its contract, or refuses every role.
    """
    from ludus.testing._tiny_network import TinyNetwork  # noqa: PLC0415 - importing torch takes a second

    tried = dict(enumerate(roles)) if roles is not None else algorithm_roles()
    refusals = []
    for name, role in tried.items():
        try:
            algorithm = make(AlgorithmContext(role=role, build_network=TinyNetwork))
        except ContractError as refusal:
            refusals.append(f"{name}: {refusal}")
            continue
        with wrap_errors(f"on role {name!r}"):
            for check in _CHECKS:
                check(_Case(algorithm, role))
    _require(len(refusals) < len(tried), f"refuses every role — {'; '.join(refusals)}")


@frozen
class _Case:
    algorithm: Algorithm
    role: Role

    def pair(self, seed: int = 0) -> tuple[Trainer, Policy]:
        """Return a trainer and a policy that has its weights."""
        trainer, policy = self.algorithm.make_trainer(seed=seed), self.algorithm.make_policy()
        policy.load(trainer.weights())
        return trainer, policy

    def batch(self, policy: Policy, seed: int) -> SegmentBatch:
        """Return fresh segments of a policy, read-only as those of a run."""
        return synthetic_batch(self.algorithm, self.role, policy, rng=np.random.default_rng(seed)).read_only()


def _require(condition: object, problem: str) -> None:
    if not condition:
        raise ContractError(problem)


def _check_fields(case: _Case) -> None:
    check_fields(case.algorithm)


def check_fields(algorithm: Algorithm) -> None:
    """Check what an algorithm declares of its segments.

    Raises:
        ContractError: Fields are none, not unique, or such as samplers cannot fill; or segments have no decision.
    """
    fields = expect_type(tuple, algorithm.fields, "fields")
    names = [expect_type(Field, declared, "fields").name for declared in fields]
    _require(len(set(names)) == len(names), f"fields {names} are not unique")
    noted = [(one.shape, one.dtype) for one in fields if one.source == "opponents"]
    _require(all(one == ((), "float32") for one in noted), "fields of source 'opponents' must be scalar float32")
    _require(algorithm.segment_decisions >= 1, "segment_decisions must be at least 1")


def _check_decisions(case: _Case) -> None:
    rng = np.random.default_rng(1)
    _, policy = case.pair()
    for rows in (1, _ROWS, 200):
        for deterministic in (False, True):
            drawn = SyntheticRows.draw(case.role, rows, rng)
            decision = drawn.act(policy, rng, deterministic=deterministic)
            _check_decision(case, drawn, decision)
            values = drawn.evaluate(policy)
            _check_values("evaluate", values, rows)
            said = decision.value
            _require(said is None or np.allclose(said, values, atol=1e-4), "act's value is not what evaluate returns")


def _check_decision(case: _Case, rows: SyntheticRows, decision: Decision) -> None:
    check_decision(decision, case.algorithm, case.role, rows=len(next(iter(rows.observation.values()))), mask=rows.mask)


def check_decision(decision: Any, algorithm: Algorithm, role: Role, *, rows: int, mask: np.ndarray | None) -> None:
    """Check what a policy decided.

    Args:
        decision: What `act` returned.
        algorithm: Declares the extras.
        role: As the player sees it.
        rows: How many rows it was to decide for.
        mask: Of their actions.

    Raises:
        ContractError: It is no decision, has other arrays than declared, an illegal action or what is not finite.
    """
    expect_type(Decision, decision, "act")
    space, action = role.action_space, expect_type(np.ndarray, decision.action, "act's action")
    expected, dtype = (rows, action_width(space)), action_dtype(space)
    _require(
        action.shape == expected and action.dtype == dtype,
        f"act returned an action {action.shape} {action.dtype}, expected {expected} {dtype}",
    )
    _require(legal_actions(space, action).all(), f"act left the bounds of {space}")
    _require(legal_actions(space, action, mask).all(), "act chose a masked action")
    declared = {one.name: one for one in algorithm.fields if one.source == "policy"}
    _require(set(decision.extras) == set(declared), f"act returned {sorted(decision.extras)}, not {sorted(declared)}")
    for name, array in decision.extras.items():
        one = declared[name]
        _require(
            array.shape == (rows, *one.shape) and array.dtype == np.dtype(one.dtype),
            f"extra {name!r} is {array.shape} {array.dtype}, expected {(rows, *one.shape)} {one.dtype}",
        )
        _require(array.dtype.kind != "f" or np.isfinite(array).all(), f"extra {name!r} is not finite")
    if decision.value is not None:
        _check_values("act's value", decision.value, rows)


def _check_values(what: str, values: np.ndarray, count: int) -> None:
    _require(
        isinstance(values, np.ndarray) and values.shape == (count,) and values.dtype == np.float32,
        f"{what} must be [n] float32",
    )
    _require(np.isfinite(values).all(), f"{what} is not finite")


def _check_randomness(case: _Case) -> None:
    import torch  # noqa: PLC0415 - importing torch takes a second

    _, policy = case.pair()
    rows = SyntheticRows.draw(case.role, 50, np.random.default_rng(2))
    torch.manual_seed(1)
    first = rows.act(policy, 5)
    torch.manual_seed(2)
    again = rows.act(policy, 5)
    _require(np.array_equal(first.action, again.action), "act is not a function of its arguments and rng alone")
    best, other = rows.act(policy, 5, deterministic=True), rows.act(policy, 6, deterministic=True)
    _require(np.array_equal(best.action, other.action), "deterministic decisions depend on rng")


def _check_rows_are_independent(case: _Case) -> None:
    _, policy = case.pair()
    rows = SyntheticRows.draw(case.role, _ROWS, np.random.default_rng(3))
    whole, part = (drawn.act(policy, deterministic=True) for drawn in (rows, rows.first(3)))
    _require(
        np.allclose(whole.action[:3], part.action, atol=1e-4),
        "a row's decision depends on the other rows of the call",
    )
    values = rows.evaluate(policy)[:3], rows.first(3).evaluate(policy)
    _require(np.allclose(*values, atol=1e-4), "a row's value depends on the other rows of the call")


def _check_plays_without_privileged(case: _Case) -> None:
    _, policy = case.pair()
    rows = SyntheticRows.draw(case.role, _ROWS, np.random.default_rng(4))
    blind = attrs.evolve(rows, privileged={})
    seeing, not_seeing = rows.act(policy, deterministic=True), blind.act(policy, deterministic=True)
    _check_decision(case, blind, not_seeing)
    _require(np.array_equal(seeing.action, not_seeing.action), "privileged leaves change what the policy does")


def _check_plays_without_masks(case: _Case) -> None:
    _, policy = case.pair()
    rows = SyntheticRows.draw(case.role, _ROWS, np.random.default_rng(6))
    if rows.mask is None:
        return
    without, everything = (attrs.evolve(rows, mask=mask) for mask in (None, np.ones_like(rows.mask)))
    decision, expected = (drawn.act(policy, deterministic=True) for drawn in (without, everything))
    _check_decision(case, without, decision)
    _require(
        np.array_equal(decision.action, expected.action), "no mask is not the same as a mask that allows everything"
    )


def _check_weights(case: _Case) -> None:
    trainer, policy = case.pair(seed=1)
    rows = SyntheticRows.draw(case.role, _ROWS, np.random.default_rng(5))
    weights = trainer.weights()
    policy.load(weights)
    before = rows.act(policy, deterministic=True)
    other = case.algorithm.make_trainer(seed=2)
    other.load_weights(weights)
    _require(_same(other.weights(), weights), "load_weights and weights are not inverse")
    _require(_same(case.algorithm.make_trainer(seed=1).weights(), weights), "initial weights do not follow from seed")
    for array in weights.values():
        array[...] = 0
    _require(not _same(trainer.weights(), weights), "weights() is not a copy")
    after = rows.act(policy, deterministic=True)
    _require(np.array_equal(before.action, after.action), "the policy shares memory with the weights it loaded")
    _require(_refuses(policy.load), "the policy accepts weights without any array")
    _require(_refuses(trainer.load_weights), "the trainer accepts weights without any array")


def _refuses(load: Callable[[dict[str, np.ndarray]], None]) -> bool:
    try:
        load({})
    except ModelError:
        return True
    return False


def _check_update(case: _Case) -> None:
    trainer, policy = case.pair()
    _require(trainer.batch_decisions >= 1, "batch_decisions must be at least 1")
    before = trainer.weights()
    for seed in range(_MAX_WARM_UP_UPDATES):  # algorithms with a replay memory may wait for it to fill
        result = expect_type(UpdateResult, trainer.update(case.batch(policy, seed), progress=0.5), "update")
        wrong = sorted(name for name, value in result.metrics.items() if not math.isfinite(value))
        _require(not wrong, f"update returned metrics that are not finite: {', '.join(wrong)}")
        _require((result.samples > 0) == (result.gradient_steps > 0), "samples and gradient_steps disagree")
        if result.gradient_steps:
            break
    _require(not _same(before, trainer.weights()), f"{seed + 1} updates changed no weight")
    _require(all(np.isfinite(array).all() for array in trainer.weights().values()), "weights are not finite")


def _check_resume(case: _Case) -> None:
    trainer, policy = case.pair()
    for seed in range(3):
        trainer.update(case.batch(policy, seed), progress=0.1)
    resumed = case.algorithm.make_trainer(seed=99)
    resumed.load_weights(trainer.weights())
    resumed.load_state(trainer.state())
    _require(_same(resumed.state(), trainer.state()), "load_state and state are not inverse")
    for seed in range(3, 6):
        for one in (trainer, resumed):
            one.update(case.batch(policy, seed), progress=0.2)
        _require(_same(trainer.weights(), resumed.weights()), "a resumed trainer goes another way")


def _check_refuses_nan(case: _Case) -> None:
    trainer, policy = case.pair()
    trainer.update(case.batch(policy, 0), progress=0.0)
    weights, state = trainer.weights(), trainer.state()
    try:
        trainer.update(_with_nan(case.batch(policy, 1)), progress=0.0)
    except ContractError:
        _require(_same(trainer.weights(), weights), "a refused update changed the weights")
        _require(_same(trainer.state(), state), "a refused update changed the trainer's state")
    else:
        raise ContractError("update accepted rewards that are not numbers")


def _with_nan(batch: SegmentBatch) -> SegmentBatch:
    reward = batch.reward.copy()
    reward[0] = np.nan
    return attrs.evolve(batch, reward=reward).read_only()


def _check_groups(case: _Case) -> None:
    trainers = [case.algorithm.make_trainer(seed=0) for _ in range(2)]
    together = [trainer for trainer in trainers if isinstance(trainer, GroupTrainer)]
    if not together:
        return
    _, policy = case.pair()

    def check_equal(what: str) -> None:
        for got, expected in zip(*((trainer.weights(), trainer.state()) for trainer in trainers), strict=True):
            differing = sorted(name for name in got if not np.array_equal(got[name], expected[name]))
            _require(not differing, f"{what} leaves trainers with different {', '.join(differing[:4])}")

    for seed in range(_MAX_WARM_UP_UPDATES):
        one, _ = update_together(together, case.batch(policy, seed).divide(2), progress=0.5)
        check_equal("an update in a group")
        if one.gradient_steps:
            break
    before = trainers[0].weights(), trainers[0].state()
    parts = case.batch(policy, seed + 1).divide(2)
    parts[1] = _with_nan(parts[1])
    try:
        update_together(together, parts, progress=0.5)
    except ContractError:
        check_equal("an update that one of a group refused")
        after = trainers[0].weights(), trainers[0].state()
        _require(all(map(_same, before, after)), "an update that another one of its group refused changed a trainer")
    else:
        raise ContractError("an update in a group accepted rewards that are not numbers")


def _check_lost_groups(case: _Case) -> None:
    """Let the other trainer of a group leave at the first exchange of an update, in its middle, and at the last one."""
    trainer, policy = case.pair()
    if not isinstance(trainer, GroupTrainer):
        return
    batch = case.batch(policy, 0).divide(2)[0]
    whole = Leaving()
    trainer.join(whole)
    trainer.update(batch, progress=0.0)
    _require(whole.exchanges > 0, "an update in a group asked the others for nothing")
    weights, state = trainer.weights(), trainer.state()
    for last in {0, whole.exchanges // 2, whole.exchanges - 1}:
        trainer.join(Leaving(last))
        try:
            trainer.update(batch, progress=0.0)
        except LinkError:
            same = _same(trainer.weights(), weights) and _same(trainer.state(), state)
            _require(same, f"an update that lost its group after {last} exchanges changed the trainer")
        else:
            raise ContractError("an update went on without its group")


def _same(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


_CHECKS = (
    _check_fields,
    _check_decisions,
    _check_randomness,
    _check_rows_are_independent,
    _check_plays_without_privileged,
    _check_plays_without_masks,
    _check_weights,
    _check_update,
    _check_resume,
    _check_refuses_nan,
    _check_groups,
    _check_lost_groups,
)
