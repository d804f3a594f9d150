"""Views of a league trained with coordinator, samplers and learners in one process."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from ludus.runs import open_run
from ludus.testing import league_runner
from ludus_terminal.league import league
from ludus_terminal.verify import verify

PLAYER = {
    "algorithm": "dummy-gradient",
    "dummy-gradient": {"segment_decisions": 4, "batch_decisions": 32},
    "matchmaker": "dummy-uniform",
    "freeze_every_decisions": 400,
}
TABLES = {
    "run": {"seed": 3, "workers": 0},
    "environment": {"name": "dummy-count"},
    "sampling": {"matches": 8, "fixture_matches": 8, "rows_per_fixture": 4},
    "players": {"main": {**PLAYER, "share": 3.0}, "other": PLAYER},
    "anchors": {"random": {"agent": "dummy-random"}},
    "league": {"rules": ["dummy-reset"], "every_matches": 8, "dummy-reset": {"models": 2}},
    "evaluation": {"matches": 8, "fixture_matches": 5},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a run that has trained and stopped."""
    run_dir = tmp_path_factory.mktemp("league") / "run"
    with league_runner(TABLES, run_dir) as runner:
        runner.train(4000)
        runner.until(lambda: runner.coordinator.league.rating("main@2").matches >= 40)
        runner.finish()
    return run_dir


def test_evaluations_come_in_pairs(folder, data):
    """Every seed is played twice, with exchanged seats."""
    with open_run(folder) as run:
        paired = (match.fixture.participants for match in run.matches(kind="eval") if match.fixture.paired)
        pair = next(seats for seats in paired if len(set(seats)) == 2)
    direct = data("compare", folder, *pair)["direct"]
    assert direct["matches"] > 0
    assert direct["matches"] // 2 <= direct["seeds"] <= direct["matches"] // 2 + 10  # a pair may be half played


def test_the_mix_counts_the_training_matches(folder, data):
    """Every match is counted once, for its player, and shares are as configured."""
    mix = data("mix", folder)
    with open_run(folder) as run:
        trained = sum(1 for _ in run.matches(kind="train"))
    assert sum(row["matches"] for row in mix["players"]) == sum(row["played"] for row in mix["opponents"]) == trained
    wanted, played = ({row["player"]: row[key] for row in mix["players"]} for key in ("share_wanted", "share_played"))
    assert wanted == {"main": 0.75, "other": 0.25}
    assert played["main"] == pytest.approx(0.75, abs=0.1)
    assert {row["reason"] for row in mix["opponents"]} == {"uniform"}


def test_lineage_shows_the_player_resets(folder, data):
    """The resets agree with the generations of the players."""
    models = data("lineage", folder)["models"]
    resets = [model for model in models if model["reset"]]
    assert resets
    with open_run(folder) as run:
        generation_starts = sum(len(view.generation_starts) - 1 for view in run.league.players.values())
    assert len(resets) == generation_starts
    assert {model["reason"] for model in resets} >= {"generation 0 has 2 models"}


def test_ratings_are_those_of_the_coordinator(folder, data):
    """They are computed from the log alone."""
    with open_run(folder) as run:
        for row in data("ratings", folder)["ratings"]:
            rating = run.league.rating(row["participant"])
            assert (row["mean"], row["deviation"]) == pytest.approx((rating.mean, rating.deviation), abs=1e-3)
            assert row["matches"] == rating.matches


def test_everything_can_be_drawn(folder, data, tmp_path):
    """All eight plots have data."""
    assert len(data("plot", folder, "--out", tmp_path)["files"]) == 8


def test_a_resumed_league_has_the_promoted_model(folder, show):
    """The pool exists when the run is resumed, and stays."""
    show("promote", folder, "main@1", "chosen")
    with league_runner(TABLES, folder) as runner:
        assert runner.coordinator.league.pool("chosen") == ("main@1",)
        runner.train(4200)
        runner.finish()
    with open_run(folder) as run:
        assert list(run.pools["chosen"]) == ["main@1"]
        assert verify(run).problems == ()


@pytest.mark.parametrize(
    "command",
    ["overview", "payoffs", "ratings", "mix", "matches", "lineage", "pools", "promote", "compare main@1 other@1"],
)
def test_tables_fit_100_columns(folder, command):
    """Output to a file or pipe is at most 100 columns wide."""
    name, *more = command.split()
    result = CliRunner(env={"COLUMNS": ""}).invoke(league, [name, str(folder), *more], catch_exceptions=False)
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if len(line) > 100] == []
