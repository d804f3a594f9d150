"""Sums over the match log are counted again if they do not agree with it, unless the log is damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from ludus._config.run_config import load_config
from ludus._plugins.manager import load_plugins
from ludus._run.runner import resume, train
from ludus._store.checksums import stored_sums
from ludus.runs import find_damage, open_run, repair_files


@pytest.fixture
def folder(toml, tmp_path):
    """Return the folder of a run that has ended."""
    plugins = load_plugins()
    train(load_config(toml(), plugins=plugins), plugins=plugins, run_dir=tmp_path / "run", print_line=print)
    return tmp_path / "run"


def damage(folder, *statements):
    """Change rows as another program could."""
    with closing(sqlite3.connect(folder / "league.sqlite")) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def tables(folder):
    """Return the rows of the tables of sums."""
    with closing(sqlite3.connect(folder / "league.sqlite")) as database:
        names = ("payoffs", "behaviour", "totals")
        return {name: sorted(database.execute(f"SELECT * FROM {name}").fetchall()) for name in names}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE payoffs SET wins = wins + 5",
        "UPDATE payoffs SET wins = 'many'",
        "UPDATE payoffs SET draws = -7",
        "UPDATE totals SET matches = 1",
        "UPDATE totals SET matches = x'00ff'",
        "DELETE FROM payoffs",
        "DELETE FROM totals",
        "INSERT INTO payoffs VALUES ('eval', 'main@1', 'nobody', 9, 0, 0)",
        "DELETE FROM checksums WHERE name = 'payoffs'",
    ],
)
def test_sums_are_counted_again(folder, statement):
    """Rows and checksums are those of before."""
    before = tables(folder)
    damage(folder, statement)
    [line] = repair_files(folder)
    assert line.startswith("payoffs, behaviour and numbers of matches: did not agree with the log of ")
    assert tables(folder) == before
    with open_run(folder) as run:
        assert find_damage(run) == []
    assert repair_files(folder) == []


@pytest.mark.parametrize("change", ["UPDATE counters SET value = 1", "DELETE FROM counters"])
def test_the_counter_of_matches_is_corrected(folder, change):
    """It limits the rate of rating matches."""
    with open_run(folder) as run:
        before = run.counters()
    damage(folder, f"{change} WHERE name = 'matches'")
    assert repair_files(folder) == [
        f"counter of training matches: did not agree with the log; set to {before['matches']:,.0f}"
    ]
    with open_run(folder) as run:
        assert run.counters() == before
        assert find_damage(run) == []


def test_other_counters_have_no_other_source(folder):
    """They stay as they are, and the damage is still found."""
    damage(folder, "UPDATE counters SET value = value + 1")
    assert repair_files(folder) == []
    with open_run(folder) as run:
        assert find_damage(run)


def test_a_repaired_run_goes_on(folder):
    """What it adds agrees with the checksums of the repair."""
    damage(folder, "UPDATE payoffs SET wins = wins + 5", "DELETE FROM totals")
    repair_files(folder)
    resume(folder, plugins=load_plugins(), print_line=print, overrides=("run.decisions=3000",))
    with open_run(folder) as run:
        assert find_damage(run) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE fixtures SET seed = seed + 1 WHERE id = 2",
        "UPDATE matches SET played = played + 1 WHERE fixture = 2",
        "DELETE FROM fixtures WHERE id = 2",
    ],
)
def test_a_damaged_log_is_no_source(folder, statement):
    """The sums may be all that is left of it."""
    damage(folder, "UPDATE payoffs SET wins = wins + 5", statement)
    before = tables(folder)
    assert not [line for line in repair_files(folder) if line.startswith("payoffs")]
    assert tables(folder) == before
    with open_run(folder) as run:
        assert find_damage(run)


def test_a_sound_run_is_not_changed(folder):
    """Not even its checksums."""
    with open_run(folder) as run:
        before = stored_sums(run._store)
    assert repair_files(folder) == []
    with open_run(folder) as run:
        assert stored_sums(run._store) == before
