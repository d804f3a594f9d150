"""A match that tests arrange by hand and advance by naming actions."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.environment import Scenario
from ludus_chase.actions import CAT_ACTIONS, MOUSE_ACTIONS, parse_action
from ludus_chase.config import ChaseConfig
from ludus_chase.environment import Chase
from ludus_chase.world import THINGS, Status, Thing

ALL = slice(None)


class Scene:
    """One match without a preparation: the cat in the south-east, the mice in the north-west, all things far away."""

    def __init__(self, *, scenario=None, tidy=True, **options):
        self.environment = Chase(ChaseConfig(**options), num_matches=1)
        parameters = {"preparation": 0, **(scenario or {})}
        self.tick = self.environment.reset(
            np.array([7], np.uint64), scenarios=[Scenario(name="custom", parameters=parameters)]
        )
        if tidy:
            self.world.known[:] = self.world.spotted[:] = False
            self.things(range(THINGS), 70.0, 20.0)
            self.agent(0, 60.0, 40.0)
            for mouse in range(1, 5):
                self.agent(mouse, 2.0 + 4.0 * mouse, 8.0)
            self.look()

    @property
    def world(self):
        """Return the state."""
        return self.environment._world

    def agent(self, number, x, y, **fields):
        """Put an agent somewhere and set some of its fields."""
        for name, value in {"x": x, "y": y, **fields}.items():
            getattr(self.world, name)[0, number] = value
        return self

    def things(self, numbers, x, y):
        """Put things somewhere."""
        for number in numbers:
            self.world.thing_x[0, number], self.world.thing_y[0, number] = x, y
        return self

    def look(self):
        """Update the observations of all agents after something was moved."""
        self.environment._observe(ALL, gains=False)
        return self

    def cheese_at(self, x, y):
        """Put cheese 0 somewhere."""
        return self.things([Thing.CHEESES.start], x, y).look()

    def beside(self, mouse=1, **fields):
        """Put the cat beside a mouse."""
        x, y = self.place(mouse)
        return self.agent(0, x + 1.0, y, **fields).look()

    def captured(self):
        """Let the cat catch mouse 1."""
        return self.agent(1, 6, 8, status=Status.DOWN, clock=40).beside().step(cat="catch")

    def legal(self, agent):
        """Return the names of what an agent may do."""
        role, seat = ("mouse", agent - 1) if agent else ("cat", 0)
        names = MOUSE_ACTIONS if agent else CAT_ACTIONS
        return {names[n] for n in np.flatnonzero(self.tick.roles[role].action_mask[0, seat, :18])}

    def acting(self, agent):
        """Return whether an agent decides now."""
        role, seat = ("mouse", agent - 1) if agent else ("cat", 0)
        return bool(self.tick.roles[role].acting[0, seat])

    def step(self, *, cat="stay", times=1, **mice):
        """Advance by ticks in which agents do what is named (``m1="push"``), the others nothing."""
        for _ in range(times):
            actions = {"cat": np.zeros((1, 1, 2), np.int64), "mouse": np.zeros((1, 4, 2), np.int64)}
            chosen = {0: cat, **{int(name[1]): text for name, text in mice.items()}}
            for agent, text in chosen.items():
                role, seat = ("mouse", agent - 1) if agent else ("cat", 0)
                actions[role][0, seat] = parse_action(role, text)
                assert text == "stay" or (self.acting(agent) and text.split(":")[0] in self.legal(agent)), (agent, text)
            self.tick = self.environment.step(actions)
        return self

    def part(self, role, name):
        """Return a part of the reward of a role's seats."""
        return [round(float(value), 5) for value in self.tick.roles[role].reward_parts[name][0]]

    def place(self, agent):
        """Return where an agent is."""
        return round(float(self.world.x[0, agent]), 3), round(float(self.world.y[0, agent]), 3)


@pytest.fixture
def scene():
    """Return the class `Scene`."""
    return Scene


def random_play(environment, *, seed, steps, scenarios=None):
    """Yield every tick of matches with random legal actions, without resets."""
    rng = np.random.default_rng(seed)
    tick = environment.reset(np.arange(environment.num_matches, dtype=np.uint64), scenarios=scenarios)
    yield tick
    for _ in range(steps):
        actions = {}
        for name, role in tick.roles.items():
            keys = rng.random(role.action_mask.shape) * role.action_mask
            actions[name] = np.stack([keys[..., :18].argmax(axis=2), keys[..., 18:].argmax(axis=2)], axis=2)
        tick = environment.step(actions)
        yield tick


@pytest.fixture
def play():
    """Return a function that plays random matches."""
    return random_play
