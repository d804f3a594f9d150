"""Check how an environment treats an illegal action."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import numpy as np

from ludus.environment import Role, RoleTick
from ludus.errors import ContractError
from ludus.spaces import label_sizes
from ludus.testing._rollout import Actions, Rollout, copy_tick
from ludus.testing._rollout_checks import SEQUENCES, RolloutChecks, same_indices

__all__ = ["check_illegal_action"]


def check_illegal_action(checks: RolloutChecks) -> None:
    """Check that a masked action raises ContractError or affects its own match only.

    Without masks, a choice out of range must raise: no rules can be about it.
    """
    with closing(checks.make(len(SEQUENCES))) as one, closing(checks.make(len(SEQUENCES))) as other:
        rollout, reference = checks.start(one), checks.start(other)
        masked = [role for role in checks.spec.roles if rollout.tick.roles[role.name].action_mask is not None]
        for tick in range(checks.steps):
            actions = rollout.actions()
            if _make_illegal(masked or checks.spec.roles, rollout, actions):
                rejected = _check_step(checks, rollout, reference, actions, tick)
                if not (rejected or masked):
                    checks.fail("a choice out of range was accepted; expected ContractError", match=0, tick=tick)
                return
            for each in (rollout, reference):
                each.step()
                each.restart_ended()


def _make_illegal(roles: Sequence[Role], rollout: Rollout, actions: Actions) -> bool:
    """Make one action of match 0 illegal and return whether that was possible."""
    return any(_make_role_illegal(role, rollout.tick.roles[role.name], actions[role.name]) for role in roles)


def _make_role_illegal(role: Role, role_tick: RoleTick, actions: np.ndarray) -> bool:
    start = 0
    for label, size in enumerate(label_sizes(role.action_space)):
        for seat in np.flatnonzero(role_tick.acting[0]):
            mask = role_tick.action_mask
            illegal = [size] if mask is None else np.flatnonzero(~mask[0, seat, start : start + size])
            if len(illegal):
                actions[0, seat, label] = illegal[0]
                return True
        start += size
    return False


def _check_step(checks: RolloutChecks, rollout: Rollout, reference: Rollout, actions: Actions, tick: int) -> bool:
    """Step with an illegal action in match 0 and return whether it was rejected."""
    pairs, rejected = [(1, 1), (2, 2)], False
    try:
        rollout.step(actions)
    except ContractError:
        pairs, rejected = list(same_indices(SEQUENCES)), True
        _step_after_rejection(checks, rollout, tick)
    except Exception as error:  # noqa: BLE001 - any other exception breaks the contract
        problem = f"an illegal action raised {type(error).__name__}: {error}"
        checks.fail(f"{problem}; expected ContractError or a result of the rules", match=0, tick=tick)
    reference.step()
    problem = "an illegal action in match 0 disturbed a match"
    checks.require_equal(copy_tick(rollout.tick), copy_tick(reference.tick), problem, tick=tick, pairs=pairs)
    return rejected


def _step_after_rejection(checks: RolloutChecks, rollout: Rollout, tick: int) -> None:
    try:
        rollout.step()
    except Exception as error:  # noqa: BLE001 - legal actions must not fail
        problem = f"after an illegal action was rejected, legal ones raised {type(error).__name__}: {error}"
        checks.fail(f"{problem}; a rejected step must not advance any match", tick=tick)
