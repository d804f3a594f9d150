"""``ludus report``: scores and ratings of the newest models."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from ludus._store.store import Store
from ludus.environment import Seat
from ludus.runs import open_run
from ludus_terminal.report import report


@pytest.fixture
def folder(write):
    """Return a run folder: a player of three models that played one of two anchors, and one without models."""
    made = write(players={"main": ("player", None), "idle": ("player", None)}, anchors=("random", "strong"))
    made.freeze("main")
    made.duel("main@1", "random", [1.0] * 6 + [0.0] * 4)
    made.freeze("main")
    made.freeze("main")
    made.duel("main@3", "random", [1.0] * 30 + [0.5] * 10 + [0.0] * 10)
    made.duel("main@3", "main@1", [1.0] * 40 + [0.0] * 10)
    made.store.set_counter("elapsed_s", 61.4)
    made.store.set_counter("matches", 1789)
    made.league.set_decisions("main", 123456)
    made.store.commit()
    return made.folder


def shown(*arguments):
    """Return the output of the command."""
    result = CliRunner().invoke(report, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_it_shows_scores_and_rating_history(folder):
    """Show counts, score and interval against every anchor with matches, and the ratings from first to last."""
    title, *table, rise, idle = (line.rstrip() for line in shown(folder).splitlines())
    assert title == "61 s, 123,456 decisions, 1,789 training matches"
    assert [line.split() for line in table] == [
        ["main@3", "matches", "wins", "draws", "losses", "score", "95", "%", "interval"],
        ["against", "random", "50", "30", "10", "10", "70.0%", "57.1%", "to", "80.1%"],
        ["against", "main@1", "50", "40", "0", "10", "80.0%", "67.0%", "to", "88.8%"],
    ]
    assert rise.startswith("rating ")
    assert rise.count("→") == 2
    assert "→ ? →" in rise  # no model is left out
    with open_run(folder) as run:
        assert rise.endswith(f"(± {1.96 * run.league.rating('main@3').deviation:.0f})")
    assert idle == "idle: no model frozen yet"


def test_a_run_that_was_stopped_while_it_started(tmp_path):
    """Its store has neither players nor seats yet."""
    Store.create(tmp_path, {"seed": 3, "environment": "dummy-count"}).close()
    assert shown(tmp_path) == "0 s, 0 decisions, 0 training matches\n"


def test_json(folder):
    """JSON has all values, unrounded."""
    data = json.loads(shown(folder, "--json"))
    assert (data["elapsed_s"], data["decisions"], data["matches"]) == (61.4, 123456, 1789)
    main = data["players"]["main"]
    assert (main["newest"], main["records"]["random"]["score"], len(main["ratings"])) == ("main@3", 0.7, 3)
    assert data["players"]["idle"] == {"newest": "", "records": {}, "returns": [], "ratings": []}


def test_it_computes_the_deviation_that_it_shows(folder, computed):
    """A deviation is slow to compute with many models; JSON has all of them."""
    assert "(± " in shown(folder)
    assert len(computed) == 1
    computed.clear()
    ratings = json.loads(shown(folder, "--json"))["players"]["main"]["ratings"]
    assert len(computed) == 2
    assert [rating and rating["deviation"] > 0 for rating in ratings] == [True, None, True]


@pytest.mark.parametrize(
    ("teams", "output"),
    [
        (2, "main@1: no evaluation matches"),
        (1, "main@1: no evaluation matches; ludus eval RUN main@1 measures its return"),
    ],
)
def test_a_model_without_matches_has_no_table(write, teams, output):
    """A line states the reason instead of a header without rows."""
    made = write(seats=tuple(Seat("player", team, team) for team in range(teams)))
    made.freeze("main")
    made.store.commit()
    assert shown(made.folder).splitlines()[1:] == [output]


def test_a_closed_pipe_is_no_failure(folder):
    """The exit status is that of all commands whose pipe is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "ludus", "report", str(folder)]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    finally:
        os.close(writer)
    assert (done.stderr, done.returncode) == ("", 141)
