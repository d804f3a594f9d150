"""What the public reading of runs shows is what the run is, and looking is cheap and changes nothing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from ludus._config.run_config import load_config
from ludus._plugins.manager import load_plugins
from ludus._run.runner import train
from ludus._store.store import Store
from ludus.environment import Seat
from ludus.errors import ConfigError, ModelError, RunError, StoreError
from ludus.matchmaker import PoolChange
from ludus.runs import (
    FixtureSearch,
    Run,
    RunLog,
    change_pool,
    check_model,
    find_damage,
    kept_checkpoints,
    load_checkpoint,
    load_manifest,
    open_run,
)


@pytest.fixture
def folder(toml, tmp_path):
    """Return the folder of a short run."""
    plugins = load_plugins()
    config = load_config(toml(run={"decisions": 1200}, evaluation={"final_matches": 10}), plugins=plugins)
    train(config, plugins=plugins, run_dir=tmp_path / "r", print_line=lambda line: None)
    return tmp_path / "r"


@pytest.fixture
def run(folder):
    """Return the opened run."""
    with open_run(folder) as run:
        yield run


def test_league_of_a_run(run):
    """It has players, anchors, ratings and payoffs."""
    assert list(run.league.players) == ["main"]
    assert run.league.anchors == ("random",)
    assert run.league.rating("main@1").matches > 0
    assert run.league.payoff("main@1", ["random"]).sum() > 0


def edit(folder, change):
    """Change rows of the database as another program could."""
    with closing(sqlite3.connect(folder / "league.sqlite")) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute(change)
        database.commit()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("""fixtures SET scenario = '["Bad Name", {}]'""", "name: expected a name .* got 'Bad Name'"),
        ("fixtures SET scenario = '[1'", "row 1 of table fixtures is malformed: Expecting ',' delimiter"),
        ("fixtures SET seats = '3'", "'int' object is not iterable"),
        ("models SET manifest = '{'", "Expecting property name"),
        ("models SET manifest = '-1.5'", "manifest"),
        ("models SET manifest = replace(hex(zeroblob(50000)), '0', '[')", "recursion"),
        ("models SET number = number || 'x'", "invalid literal for int"),
        ("models SET decisions = x'00ff'", "invalid literal for int"),
        ("meta SET value = 'x' WHERE key = 'seats'", "Expecting value"),
        ("meta SET value = '[0, 1]' WHERE key = 'seats'", "cannot unpack"),
        ("meta SET value = '0' WHERE key = 'anchors'", "meta value 'anchors' is malformed: expected a list, got a int"),
        (
            "meta SET value = '-1.5' WHERE key = 'matchmaking'",
            "'matchmaking' is malformed: expected a dict, got a float",
        ),
        ("meta SET value = '{\"shares\": 3}' WHERE key = 'matchmaking'", "shares: expected a table, got 3"),
        (
            'meta SET value = \'{"shares": {"main": "x"}}\' WHERE key = \'matchmaking\'',
            "shares.main: expected a number",
        ),
        ("counters SET value = 'x'", "could not convert string"),
        ("counters SET value = 9e999", "a counter is not finite"),
        ("payoffs SET wins = '[1, 2]'", "invalid literal for int"),
        *(
            (f"payoffs SET {column} = -1", "table payoffs is malformed: a count is negative")
            for column in ("wins", "draws", "losses")
        ),
        ("matches SET outcomes = 'x'", "can't concat|cannot convert|expected bytes|cannot be interpreted"),
        ("matches SET outcomes = x'00'", "cannot reshape"),
        ("matches SET outcomes = x''", "cannot reshape"),
        ("matches SET ticks = x'01'", "expected ticks"),
        ("matches SET ticks = x'01000000ff'", "expected ticks"),
        ("matches SET played = 300", "expected the numbers of 300 matches below 256"),
        ("matches SET numbers = x'00ff'", "expected the numbers of"),
        ("matches SET played = 'x'", "matches of fixture 1 from number 0 in table matches is malformed"),
        ("matches SET statistics = x'00'", "statistics: Error"),
    ],
)
def test_malformed_rows_are_store_errors(folder, change, problem):
    """The message names the file and a fix, as for damage that SQLite finds."""
    edit(folder, f"UPDATE {change}")
    text = rf"league\.sqlite: not a sound league database: .*{problem}.*; restore it from a copy of the run"
    with pytest.raises(StoreError, match=text), open_run(folder) as run:
        list(run.matches())


def test_malformed_outcomes_are_store_errors(folder):
    """Recomputing payoffs reads many outcomes at once."""
    edit(folder, "UPDATE matches SET outcomes = x'00'")
    with open_run(folder) as run, pytest.raises(StoreError, match="not a sound league database"):
        run.recompute_payoffs()


def test_damage_found_by_change_pool(folder):
    """The error is that of `open_run`."""
    edit(folder, "DROP TABLE checkpoints")
    change = PoolChange(pool="p", model="main@1", enters=True)
    with pytest.raises(StoreError, match="not a sound league database: no such table: checkpoints"):
        change_pool(folder, change)


def test_damaged_pages_are_store_errors(folder):
    """SQLite finds them while rows are read."""
    path = folder / "league.sqlite"
    data = path.read_bytes()
    path.write_bytes(data[:8192] + bytes(len(data) - 8192))
    with pytest.raises(StoreError, match=r"league\.sqlite: .*; restore it from a copy"), open_run(folder) as run:
        list(run.matches())


def test_database_errors_of_the_caller_are_not_wrapped(folder):
    """They are of another database."""
    with (
        pytest.raises(sqlite3.OperationalError, match="no such table: mine"),
        closing(sqlite3.connect(":memory:")) as own,
        open_run(folder),
    ):
        own.execute("SELECT * FROM mine")


def test_models_of_a_run(run):
    """They are in the order of freezing."""
    assert tuple(run.models) == run.league.players["main"].models
    assert [model.number for model in run.models.values()] == list(range(1, len(run.models) + 1))
    assert all((run.folder / "models" / f"{model.hash}.safetensors").is_file() for model in run.models.values())


def test_pools_of_a_run(run):
    """Names and members are those of the league."""
    assert {name: tuple(members) for name, members in run.pools.items()} == {
        name: run.league.pool(name) for name in run.pools
    }


def test_names_are_resolved(run):
    """Names are those of the command line."""
    assert run.resolve("main@latest") == list(run.models)[-1]
    with pytest.raises(ConfigError, match="did you mean"):
        run.resolve("main@latst")


def test_payoffs_of_a_run(run):
    """They are sums over the log; each match counts once from either side."""
    total = sum(int(counts.sum()) for counts in run.payoffs().values())
    between = sum(len(set(match.fixture.participants)) == 2 for match in run.matches())
    assert total == 2 * between > 0
    assert {kind for kind, _, _ in run.payoffs()} == {"train", "eval"}


def test_matches_by_kind_and_number(run):
    """Their seats are those of the run."""
    kinds = [match.fixture.kind for match in run.matches()]
    assert len(kinds) == run.num_matches()
    assert len(list(run.matches(kind="eval"))) == kinds.count("eval") > 0
    assert [match.seed for match in run.matches(last=3)] == [match.seed for match in run.matches()][-3:]
    assert all(len(match.fixture.participants) == len(run.seats) for match in run.matches(last=3))


def test_fixtures_of_a_run(run):
    """They hold their numbers of played matches, including zero."""
    played = Counter(match.fixture.id for match in run.matches())
    fixtures = list(run.fixtures())
    assert {record.fixture.id: record.played for record in fixtures} == {
        record.fixture.id: played[record.fixture.id] for record in fixtures
    }
    assert sum(record.played for record in fixtures) == run.num_matches()
    assert all(record.played <= record.fixture.matches for record in fixtures)
    assert all(record.created_s >= run.meta("created_s") for record in fixtures)
    assert {record.fixture.kind for record in run.fixtures(kind="eval")} == {"eval"}


def test_shares_of_a_run(toml, tmp_path):
    """They are the current shares, not those of a new league."""
    plugins = load_plugins()
    players = {"main": {"share": 3.0}, "other": {}}
    config = load_config(toml(run={"decisions": 600}, players=players), plugins=plugins)
    train(config, plugins=plugins, run_dir=tmp_path / "r", print_line=lambda line: None)
    with open_run(tmp_path / "r") as run:
        assert {name: view.share for name, view in run.league.players.items()} == {"main": 3.0, "other": 1.0}


def test_metrics_of_a_run(run):
    """They are in the order of writing."""
    metrics = list(run.metrics())
    assert "league/main/models" in {metric.name for metric in metrics}
    assert [metric.elapsed_s for metric in metrics] == sorted(metric.elapsed_s for metric in metrics)
    (run.folder / "metrics.jsonl").unlink()
    assert list(run.metrics()) == []


def test_change_pool(folder):
    """A run opened afterwards has the model in the pool; a second change has no effect."""
    change = PoolChange(pool="chosen", model="main@1", enters=True)
    assert change_pool(folder, change)
    assert not change_pool(folder, change)
    with open_run(folder) as run:
        assert run.league.pool("chosen") == ("main@1",)
        last = list(run.pool_log())[-1]
        assert (last.change, last.created_s > run.meta("created_s")) == (change, True)
        assert find_damage(run) == []


def test_change_pool_with_an_unknown_model(folder):
    """The lock of the folder is released."""
    for _ in range(2):
        with pytest.raises(StoreError, match="not a frozen model"):
            change_pool(folder, PoolChange(pool="chosen", model="main@99", enters=True))


def test_meta(run):
    """Unknown keys are None."""
    assert run.meta("seed") == 3
    assert run.meta("created_s") > 0
    assert run.meta("nothing") is None


def test_recompute_payoffs(run):
    """They equal the stored ones, and the files match their hashes."""
    stored, counted = run.payoffs(), run.recompute_payoffs()
    assert {key: count.tolist() for key, count in stored.items()} == {k: count.tolist() for k, count in counted.items()}
    assert run.num_matches(kind="train") + run.num_matches(kind="eval") == run.num_matches() > 0
    assert find_damage(run) == []
    saved = kept_checkpoints(run.folder)["main"][0]
    _, counters = load_checkpoint(run.folder, saved.path, saved.hash)
    assert counters["decisions"] == run.league.players["main"].decisions
    model = run.models["main@1"]
    check_model(run.folder / "models", model.hash)
    assert load_manifest(run.folder / "models", model.hash)["player"] == "main"


def test_inconsistent_pool_log_can_be_opened(folder):
    """Programs that verify a league must be able to read it."""
    connection = sqlite3.connect(folder / "league.sqlite")
    with connection:
        connection.execute("INSERT INTO pools (pool, model, enters, created_s) VALUES ('p', 'main@1', 0, 0)")
    connection.close()
    with open_run(folder) as run:
        assert run.league.pool("p") == ()


def test_open_run_with_overrides(folder):
    """The file is unchanged."""
    with open_run(folder, overrides=["run.seed=8"]) as run:
        assert run.config.run.seed == 8
    with open_run(folder) as run:
        assert run.config.run.seed == 3


@pytest.mark.parametrize("name", ["main@1", "main@latest", "random", "dummy-perfect"])
def test_participants_play(run, name):
    """Models, anchors and installed agents decide for all matches of a batch."""
    with closing(run.make_environment(4)) as environment:
        agent = run.agent(name, "player", environment=environment)
        tick = environment.reset(np.arange(4, dtype=np.uint64)).roles["player"]
        rows, seats = np.nonzero(tick.acting)
        seat_ids = rows * 2 + seats
        agent.reset(seat_ids)
        action = agent.act(
            {key: leaf[rows, seats] for key, leaf in tick.observation.items()},
            action_mask=tick.action_mask[rows, seats],
            seat_ids=seat_ids,
            rng=np.random.default_rng(0),
        )
    assert action.shape == (4, 1)
    assert tick.action_mask[rows, seats, action[:, 0]].all()


def test_anchor_takes_precedence_over_an_installed_agent(run, monkeypatch):
    """It has the options of the run."""
    with closing(run.make_environment(1)) as environment:
        monkeypatch.setattr(run.plugins, "components", lambda _kind: {"random": None})
        monkeypatch.setattr("ludus.installed.select_components", lambda *_: pytest.fail("the installed one is taken"))
        assert run.agent("random", "player", environment=environment)


def test_agent_of_a_model_has_state_for_all_seats(run):
    """The number of matches is known."""
    with closing(run.make_environment(4)) as environment:
        assert run.agent("main@1", "player", environment=environment).num_seats == 4 * 2


def test_live_player_is_no_agent(run):
    """Its weights are not stored."""
    with (
        closing(run.make_environment(1)) as environment,
        pytest.raises(ConfigError, match="main@live is no frozen model; name one, for example main@latest"),
    ):
        run.agent("main@live", "player", environment=environment)


def test_error_without_models_suggests_no_model(toml, tmp_path):
    """The run has not frozen a model yet."""
    with Store.create(tmp_path, {"seed": 1}) as store:
        store.declare(
            players={"main": ("player", None)}, anchors=(), seats=[Seat("player", team, team) for team in range(2)]
        )
        store.commit()
    toml("run.toml")
    with (
        open_run(tmp_path) as run,
        closing(run.make_environment(1)) as environment,
        pytest.raises(ConfigError, match="main@live: main has no frozen model yet; name a scripted agent, or train on"),
    ):
        run.agent("main@live", "player", environment=environment)


def test_models_that_cannot_be_loaded(folder):
    """The file is missing, or the player is not configured any more."""
    with open_run(folder) as run:
        game = run.make_environment(1)
        (folder / "models" / f"{run.models['main@2'].hash}.safetensors").unlink()
        with pytest.raises(ModelError, match="cannot be read"):
            run.agent("main@2", "player", environment=game)
    path = folder / "run.toml"
    path.write_text(path.read_text().replace("players.main", "players.other"))
    expected = "model 'main@1' belongs to no player of this run; there are other"
    with open_run(folder) as run, pytest.raises(ModelError, match=expected):
        run.agent("main@1", "player", environment=game)


def test_agents_can_be_made_after_closing(folder):
    """Long matches need no open snapshot."""
    with open_run(folder) as run:
        environment = run.make_environment(1)
    with closing(environment):
        assert run.agent("main@1", "player", environment=environment)
    assert run.league.players
    with pytest.raises(sqlite3.ProgrammingError):
        run.num_matches()


def test_running_run_can_be_read(folder):
    """The writer keeps its lock, and the snapshot does not change."""
    with Store.open(folder) as store, open_run(folder) as run:
        store.set_meta("later", 1)
        store.commit()
        assert run.meta("later") is None
    with open_run(folder) as run:
        assert run.meta("later") == 1


def test_folder_without_a_run_is_an_error(tmp_path):
    """The message is one line."""
    with pytest.raises(RunError, match="is not a run folder"):
        open_run(tmp_path)


def test_failed_open_closes_the_database(folder, monkeypatch):
    """No connection stays open."""
    closed, close = [], Store.close
    monkeypatch.setattr("ludus.runs.League.of", lambda *_: (_ for _ in ()).throw(StoreError("damaged")))
    monkeypatch.setattr(Store, "close", lambda store: (closed.append(store), close(store)))
    with pytest.raises(StoreError, match="damaged"):
        Run(folder)
    assert len(closed) == 1


def test_reading_does_not_import_torch(folder):
    """Neither the league nor the configuration needs it."""
    code = (
        "import sys; from ludus.runs import open_run\n"
        "with open_run(sys.argv[1]) as run: run.config, run.payoffs(), list(run.matches(last=1))\n"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, timeout=60)


def test_fixtures_are_searched_newest_first(folder, run):
    """By kind, participants, reason and scenario, a number of ids at a time."""
    every = {record.fixture.id: record for record in run.fixtures()}
    with RunLog(folder) as log:
        last = log.last_fixture()
        assert last == max(every)
        found = list(log.search(FixtureSearch(), before=last + 1, depth=last))
        assert found == [every[number] for number in sorted(every, reverse=True)]

        def ids(*, before=last + 1, depth=last, **values):
            return [record.fixture.id for record in log.search(FixtureSearch(**values), before=before, depth=depth)]

        def having(test):
            return [number for number in sorted(every, reverse=True) if test(every[number].fixture)]

        assert ids(kind="eval") == having(lambda fixture: fixture.kind == "eval") != []
        assert ids(participants=("main@1",)) == having(lambda fixture: "main@1" in fixture.participants) != []
        pair = {"main@1", "random"}
        assert ids(participants=tuple(pair)) == having(lambda fixture: pair <= set(fixture.participants))
        assert ids(participants=("main@",)) == having(lambda f: any(p.startswith("main@") for p in f.participants))
        assert ids(participants=("mai",)) == []
        reason = every[1].fixture.reason
        assert ids(reason=reason.upper()) == having(lambda fixture: reason in fixture.reason)
        assert ids(scenario="DEFAULT") == sorted(every, reverse=True)
        assert ids(before=4, depth=2) == [3, 2]
        assert ids(reason="' OR 1 --") == []


def test_matches_of_one_fixture(folder, run):
    """They are those of the log."""
    matches = list(run.matches())
    fixture = matches[-1].fixture.id
    with RunLog(folder) as log:
        assert list(log.matches(fixture)) == [match for match in matches if match.fixture.id == fixture]
        assert list(log.matches(10**9)) == []


def test_fixtures_from_an_id_on(run):
    """A reader that follows a run reads the new ones only."""
    assert [record.fixture.id for record in run.fixtures(first=3)] == [r.fixture.id for r in run.fixtures()][2:]


def test_damage_found_by_a_search(folder):
    """It is reported as by all other reading."""
    edit(folder, "UPDATE fixtures SET seats = '3'")
    with RunLog(folder) as log, pytest.raises(StoreError, match="not a sound league database"):
        list(log.search(FixtureSearch(), before=9, depth=9))


def test_trained_model_has_what_its_player_decides_through(run):
    """Record, role and interfaces are those of the run, and its policy loads its weights."""
    with closing(run.make_environment(1)) as environment:
        model = run.trained_model("main@1", environment.spec)
    assert model.record == run.models["main@1"]
    assert model.raw_role == environment.spec.role("player")
    assert [name for name, _ in model.interfaces] == [table.name for table in run.config.players["main"].interfaces]
    assert len(model.make_interfaces()) == len(model.interfaces)
    policy = model.algorithm.make_policy()
    policy.load(model.weights)


@pytest.mark.parametrize("name", ["random", "main@live"])
def test_only_frozen_models_are_trained_models(run, name):
    """Anchors have no weights, and those of live players are not stored."""
    with (
        closing(run.make_environment(1)) as environment,
        pytest.raises(ConfigError, match=f"{name} is no frozen model"),
    ):
        run.trained_model(name, environment.spec)
