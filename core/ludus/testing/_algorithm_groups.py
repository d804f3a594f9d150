"""Check trainers that learn as a group of processes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ludus.algorithm import GroupTrainer, Policy
from ludus.errors import ContractError, LinkError
from ludus.testing._algorithm_case import MAX_WARM_UP_UPDATES, AlgorithmCase, same_arrays, with_nan
from ludus.testing._errors import require
from ludus.testing._group import BreakingGroup, update_together

__all__ = ["check_broken_groups", "check_group_updates"]


def check_group_updates(case: AlgorithmCase) -> None:
    """Check that the trainers of a group stay equal, also if one of them rejects its part of a batch."""
    made = [case.algorithm.make_trainer(seed=0) for _ in range(2)]
    trainers = [trainer for trainer in made if isinstance(trainer, GroupTrainer)]
    if not trainers:
        return
    _, policy = case.make_pair()
    updates = _update_until_learned(case, trainers, policy)
    before = trainers[0].weights(), trainers[0].state()
    parts = case.make_batch(policy, updates).divide(2)
    try:
        update_together(trainers, [parts[0], with_nan(parts[1])], progress=0.5)
    except ContractError:
        _require_equal(trainers, "an update that one trainer of a group rejected")
        after = trainers[0].weights(), trainers[0].state()
        require(all(map(same_arrays, before, after)), "an update that another trainer rejected changed a trainer")
    else:
        raise ContractError("an update of a group accepted NaN rewards; expected ContractError")


def _update_until_learned(case: AlgorithmCase, trainers: Sequence[GroupTrainer], policy: Policy) -> int:
    """Update the group until it makes a gradient step and return the number of updates."""
    for number in range(MAX_WARM_UP_UPDATES):
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


def check_broken_groups(case: AlgorithmCase) -> None:
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
        try:
            trainer.update(batch, progress=0.0)
        except LinkError:
            same = same_arrays(trainer.weights(), weights) and same_arrays(trainer.state(), state)
            require(same, f"an update whose group broke after {exchanges} exchanges changed the trainer")
        else:
            raise ContractError("an update continued after its group broke; expected LinkError")
