"""Fixtures: runs that tests write, and clients of a dashboard that shows them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ludus._league.league import League
from ludus._league.matchmaking_state import MatchmakingState
from ludus._store.model_files import save_arrays
from ludus._store.store import Store
from ludus.environment import Scenario, Seat
from ludus.matchmaker import PoolChange
from ludus.records import Fixture
from ludus_dashboard.access import Access
from ludus_dashboard.app import make_app
from ludus_ratings.elo_table import EloTable
from starlette.testclient import TestClient

DUEL = (Seat("player", 0, 0), Seat("player", 1, 1))
TOML = '[run]\nminutes = 1.0\n\n[environment]\nname = "a-game"\n\n[players.main]\nalgorithm = "dummy-a"\n'
DUMMY_RUN = """
[run]
seed = 1
workers = 0
minutes = 10.0

[environment]
name = "dummy-count"

[sampling]
matches = 8

[players.main]
algorithm = "dummy-gradient"
matchmaker = "dummy-uniform"
freeze_every_decisions = 500

[anchors]
random = { agent = "dummy-random" }
"""


@pytest.fixture(scope="session")
def dummy_run():
    """Return the TOML text of a run that goes on until it is stopped, and freezes models all the time."""
    return DUMMY_RUN


class WrittenRun:
    """A run that a test writes; its writer is open."""

    def __init__(self, folder, players, anchors, seats):
        self.folder = folder
        self.store = Store.create(folder, {"seed": 1, "environment": "a-game"})
        self.league = League(self.store, players=players, anchors=anchors, seats=seats, ratings=EloTable)
        MatchmakingState(rng=np.random.default_rng(1).bit_generator.state).save(self.store)
        (folder / "run.toml").write_text(TOML)

    def freeze(self, player, **manifest):
        """Freeze a model whose parent is the previous one."""
        models = self.league.players[player].models
        number = len(models) + 1
        parent = self.league.models[models[-1]].hash if models else None
        digest = save_arrays(self.folder / "models", {"w": np.full(3, number)}, {"player": player})
        manifest = {"parent": parent, "elapsed_s": 60.0 * number, "generation": 0, "init": "", "reason": "", **manifest}
        return self.league.freeze(player, hash=digest, decisions=1000 * number, version=number, manifest=manifest)

    def play(self, a, b, points, *, kind="eval", player="", reason="why", scenario=None, statistics=()):
        """Play a fixture of a against b with the given points of a, and return its id."""
        fixture = self.league.create_fixture(
            Fixture(
                id=0,
                kind=kind,
                player=player,
                participants=(a, b),
                matches=len(points),
                seed=1,
                reason=reason,
                scenario=scenario or Scenario(),
            )
        )
        n = len(points)
        outcome = np.array([(won, 1 - won) for won in points], np.float32)
        arrays = {"fixture": np.full(n, fixture.id), "number": np.arange(n), "ticks": np.full(n, 12, np.int32)}
        named = {f"statistic/{name}": np.array(rows, np.float32) for name, rows in dict(statistics).items()}
        self.league.record({**arrays, "outcome": outcome, **named})
        return fixture.id

    def enter(self, pool, *models, enters=True):
        """Put models into a pool."""
        self.league.apply(PoolChange(pool=pool, model=model, enters=enters) for model in models)

    def report(self, elapsed_s, decisions, **values):
        """Append metrics."""
        line = json.dumps({"t": elapsed_s, "d": decisions, "m": values})
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(f"{line}\n")


@pytest.fixture
def write(tmp_path):
    """Return a function that creates runs below the folder ``runs``; their writers stay open until the test ends."""
    written = []

    def make(name="run", *, players=None, anchors=("random", "idle"), seats=DUEL):
        players = players or {"main": ("player", None)}
        written.append(WrittenRun(tmp_path / "runs" / name, players, list(anchors), seats))
        return written[-1]

    yield make
    for run in written:
        run.store.close()


@pytest.fixture
def run(write):
    """Return a run with two models, pools, matches and metrics."""
    made = write()
    made.freeze("main")
    made.freeze("main", reason="stagnation")
    made.enter("history", "main@1", "main@2")
    made.enter("history", "main@1", enters=False)
    made.play("main@1", "random", [1, 1, 0, 0.5], statistics={"player/hits": [(3, 1), (5, 1), (4, 1), (4, 1)]})
    made.play("random", "main@2", [0, 0, 1, 0.5], statistics={"player/hits": [(1, 7), (1, 9), (1, 8), (1, 8)]})
    past = Scenario(name="late", parameters={"ticks": 3})
    made.play("main@2+", "main@1", [1] * 60, kind="train", player="main", reason="pfsp: win rate 0.31", scenario=past)
    made.play("main@2+", "idle", [0, 1], kind="train", player="main", reason="anchors")
    values = {"sampling/decisions_per_s": 1234.0, "league/matches": 70.0, "league/main/score_v_random": 0.625}
    for minute in (1, 2, 3):
        made.report(
            60.0 * minute,
            1000 * minute,
            **values,
            **{"league/main/share": 1.0, "league/main/ticks": 100.0 * minute, "learner/main/staleness_mean": 2.5},
        )
    made.store.commit()
    return made


@pytest.fixture
def browse(tmp_path):
    """Return a function that makes a client of a dashboard of the folder ``runs``."""

    def make(*, token="", hosts=("testserver",), root=None, **options):
        access = Access(token=token, port=80, hosts=None if hosts is None else frozenset(hosts))
        app = make_app(root or tmp_path / "runs", access=access, **options)
        return TestClient(app, raise_server_exceptions=False, follow_redirects=False)

    (tmp_path / "runs").mkdir(exist_ok=True)
    return make
