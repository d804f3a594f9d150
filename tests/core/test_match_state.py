"""The running matches of a batch."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus._sampling.match_state import RunningMatches, SeatTotals, TickChecks
from ludus.environment import EnvironmentSpec, Role, allocate_tick
from ludus.errors import ContractError


@pytest.mark.parametrize(("names", "seat"), [((), "seat 1"), (("red", "blue"), r"seat 1 \(blue\)")])
def test_messages_name_the_seat(names, seat):
    """Adapters name seats after the agents of their libraries."""
    box = spaces.Box(0, 1, (2,))
    role = Role(name="side", observation_space=box, action_space=spaces.Discrete(2), teams=(0, 1), seat_names=names)
    spec = EnvironmentSpec(name="game", roles=(role,), turn="simultaneous")
    running, tick = RunningMatches(3), allocate_tick(spec, 3)
    running.start(np.arange(3))
    tick.roles["side"].acting[:] = True
    tick.roles["side"].observation["obs"][2, 1, 0] = np.nan
    checks, totals = TickChecks(spec, running), SeatTotals(spec, 3)
    message = f"^environment 'game': leaf 'obs' of role 'side' {seat} in match 2 after 0 ticks is not finite; expected"
    with pytest.raises(ContractError, match=message):
        checks.check_observations(totals.roles, tick, ContractError("no number"))
