"""Seats that end before their match, behind interfaces and as parts of joint seats."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, Scenario, allocate_tick
from ludus.errors import ContractError
from ludus.interface import Identity
from ludus.testing import check_environment
from ludus_interfaces.environment import wrap_environment
from ludus_interfaces.teams import as_team

#: Seat → tick on which it ends, and how. Seats 0 and 1 are a team, seats 2 and 3 the other one.
ENDS = {0: (1, "terminated"), 1: (2, "truncated"), 2: (3, "terminated")}


class Leavers:
    """Every seat earns 1 on every tick of its match, which is truncated on tick 4, whatever it does."""

    def __init__(self, num_matches):
        role = Role(
            name="unit",
            observation_space=spaces.Box(0, 9, (1,), np.float32),
            action_space=spaces.Discrete(3),
            teams=(0, 0, 1, 1),
            seat_endings=True,
            statistics=("age",),
        )
        self.spec = EnvironmentSpec(name="leavers", roles=(role,), turn="simultaneous", max_ticks=4)
        self.num_matches = num_matches
        self.now = allocate_tick(self.spec, num_matches, masked_roles=("unit",))
        self.clock = np.full(num_matches, 4)

    def reset(self, seeds, *, indices=None, scenarios=None):
        if any(scenario != Scenario() for scenario in scenarios or ()):
            raise ContractError("leavers has no scenarios")
        indices = slice(None) if indices is None else indices
        self.clock[indices] = 0
        self.now.clear(indices)
        return self.show()

    def step(self, actions):
        running = self.clock < 4
        unit = self.now.roles["unit"]
        if ((actions["unit"][:, :, 0] == 2) & unit.acting).any():
            raise ContractError("2 is masked")
        self.clock += running
        self.now.clear(slice(None))
        unit.reward[running] = 1
        for seat, (end, how) in ENDS.items():
            getattr(unit, how)[:, seat] = running & (self.clock == end)
        self.now.truncated[:] = running & (self.clock == 4)
        return self.show()

    def show(self):
        unit = self.now.roles["unit"]
        unit.observation["obs"][:] = self.clock[:, None, None]
        ends = np.array([ENDS.get(seat, (4, ""))[0] for seat in range(4)])
        unit.acting[:] = self.clock[:, None] < ends
        unit.action_mask[..., :2] = True
        unit.statistics["age"][:] = np.minimum(self.clock[:, None], ends)
        return self.now

    def close(self):
        pass


def play(environment):
    """Play one match and return, per tick: acting, terminated and truncated seats, and rewards."""
    tick = environment.reset(np.zeros(1, np.uint64))
    (role,), ticks = environment.spec.roles, []
    while not ticks or not tick.truncated[0]:
        width = 1 if isinstance(role.action_space, spaces.Discrete) else len(role.action_space.nvec)
        tick = environment.step({"unit": np.zeros((1, role.num_seats, width), np.int64)})
        unit = tick.roles["unit"]
        seats = [np.flatnonzero(flags[0]).tolist() for flags in (unit.acting, unit.terminated, unit.truncated)]
        ticks.append((*seats, unit.reward[0].tolist()))
    return ticks


@pytest.mark.parametrize(
    "wrap",
    [lambda game: game, lambda game: wrap_environment(game, {"unit": Identity()}), lambda game: as_team(game, "unit")],
    ids=["bare", "behind an interface", "as a team"],
)
def test_the_contract_is_kept(wrap):
    """Flags, masks and observations of seats that end."""
    check_environment(lambda num_matches: wrap(Leavers(num_matches)), steps=30)


def test_interfaces_get_the_reward_of_a_seat_until_its_end():
    """Later rewards are passed on when the match ends."""
    assert play(wrap_environment(Leavers(1), {"unit": Identity()})) == [
        ([1, 2, 3], [0], [], [1, 1, 1, 1]),
        ([2, 3], [], [1], [0, 1, 1, 1]),
        ([3], [2], [], [0, 0, 1, 1]),
        ([], [], [], [3, 2, 1, 1]),
    ]


def test_a_joint_seat_ends_with_the_last_of_its_seats():
    """The first team is truncated with its second seat; the second team ends with the match."""
    assert play(as_team(Leavers(1), "unit")) == [
        ([0, 1], [], [], [2, 2]),
        ([1], [], [0], [2, 2]),
        ([1], [], [], [2, 2]),
        ([], [], [], [2, 2]),
    ]


def test_the_final_mask_of_a_truncated_seat_holds_what_would_be_legal():
    """Its team bootstraps from it; the seats of the team that ended before have choice 0 only."""
    environment = as_team(Leavers(1), "unit")
    environment.reset(np.zeros(1, np.uint64))
    for _ in range(2):
        tick = environment.step({"unit": np.zeros((1, 2, 2), np.int64)})
    mask = tick.roles["unit"].action_mask[0].astype(int).tolist()
    assert mask == [[1, 0, 0, 1, 1, 0], [1, 1, 0, 1, 1, 0]]


def test_a_joint_seat_starts_again_with_every_match():
    """Ends of earlier matches do not count."""
    environment = as_team(Leavers(1), "unit")
    assert play(environment) == play(environment)


@pytest.mark.parametrize(
    ("wrap", "ages"),
    [
        (lambda game: wrap_environment(game, {"unit": Identity()}), [1, 2, 3, 4]),
        (lambda game: as_team(game, "unit"), [1.5, 3.5]),
    ],
    ids=["behind an interface", "as a team"],
)
def test_statistics_are_kept(wrap, ages):
    """Those of a joint seat are means over its seats."""
    environment = wrap(Leavers(1))
    play(environment)
    assert environment.spec.role("unit").statistics == ("age",)
    tick = environment.step({"unit": np.zeros((1, len(ages), 4 // len(ages)), np.int64)})
    assert tick.roles["unit"].statistics["age"].tolist() == [ages]
