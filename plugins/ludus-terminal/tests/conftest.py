"""Fixtures: a league whose writer is open, and the command ``ludus league``."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from ludus._league.league import League
from ludus._store.model_files import save_arrays
from ludus._store.store import Store
from ludus.environment import Seat
from ludus.matchmaker import PoolChange
from ludus.records import Fixture
from ludus_ratings.elo_table import EloTable
from ludus_ratings.fit import Hessian
from ludus_terminal.league import league as command

DUEL = (Seat("player", 0, 0), Seat("player", 1, 1))


class Written:
    """A league that a test writes."""

    def __init__(self, store, players, anchors, seats):
        self.store, self.folder = store, store.run_dir
        self.league = League(store, players=players, anchors=anchors, seats=seats, ratings=EloTable)

    def freeze(self, player, **manifest):
        """Write a model file and freeze it; by default its parent is the previous model."""
        models = self.league.players[player].models
        number = len(models) + 1
        parent = self.league.models[models[-1]].hash if models else None
        digest = save_arrays(self.folder / "models", {"w": np.full(3, number)}, {"player": player})
        manifest = {"parent": parent, "elapsed_s": 60.0 * number, "generation": 0, "init": "", "reason": "", **manifest}
        return self.league.freeze(player, hash=digest, decisions=1000 * number, version=number, manifest=manifest)

    def play(
        self, seats, outcomes, *, kind="eval", player="", reason="why", paired="", only=None, ticks=12, statistics=()
    ):
        """Play the first `only` matches of a fixture; `outcomes` are the points of every team, by match.

        `statistics` are rows of one value per seat by ``"ROLE/NAME"``.
        """
        plan = Fixture(
            id=0,
            kind=kind,
            player=player,
            participants=tuple(seats),
            matches=len(outcomes),
            seed=1,
            reason=reason,
            paired=str(paired),
        )
        fixture = self.league.create_fixture(plan)
        outcome = np.reshape(np.asarray(outcomes, np.float32), (-1, self.league.num_teams))[:only]
        n = len(outcome)
        self.league.record(
            {
                "fixture": np.full(n, fixture.id),
                "number": np.arange(n),
                "ticks": np.full(n, ticks, np.int32),
                "outcome": outcome,
                **{f"statistic/{name}": np.array(rows, np.float32) for name, rows in dict(statistics).items()},
            }
        )
        return fixture.id

    def duel(self, a, b, points, **options):
        """Play a fixture of a against b with the given points of a."""
        return self.play((a, b), [(won, 1 - won) for won in points], **options)

    def enter(self, pool, *models, enters=True):
        """Put models into a pool."""
        self.league.apply(PoolChange(pool=pool, model=model, enters=enters) for model in models)


@pytest.fixture
def write(tmp_path):
    """Return a function that creates leagues whose writers stay open until the test ends."""
    stores = []

    def make(players=None, *, anchors=("random", "idle"), seats=DUEL, name="run"):
        store = Store.create(tmp_path / name, {"seed": 1, "environment": "a-game"})
        stores.append(store)
        return Written(store, players or {"main": ("player", None)}, list(anchors), seats)

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def computed(monkeypatch):
    """Return a list to which the index of every participant is appended whose deviation is computed."""
    computed_indices, deviation = [], Hessian.deviation
    monkeypatch.setattr(Hessian, "deviation", lambda self, i: computed_indices.append(i) or deviation(self, i))
    return computed_indices


def invoke(*arguments, code=0):
    """Run ``ludus league`` and return what it prints."""
    result = CliRunner(env={"COLUMNS": "120"}).invoke(
        command, [str(argument) for argument in arguments], catch_exceptions=False
    )
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def show():
    """Return `invoke`."""
    return invoke


@pytest.fixture
def data():
    """Return a function that runs ``ludus league`` with --json and returns the values."""

    def read(*arguments):
        text = invoke(*arguments, "--json")
        return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    return read
