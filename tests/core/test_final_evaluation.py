"""The final matches of a run have a time limit."""

from __future__ import annotations

import json

import pytest
from ludus.__main__ import main
from ludus._run.final_evaluation import limit_minutes

RUN = """
[run]
seed = 3
workers = 0
decisions = 300
[environment]
name = "dummy-count"
[sampling]
matches = 4
rows_per_fixture = 4
[players.main]
algorithm = "dummy-gradient"
network = "dummy-linear"
matchmaker = "latest-self-play"
[anchors.random]
agent = "random"
[anchors.perfect]
agent = "dummy-perfect"
[evaluation]
enabled = false
final_matches = 40
final_minutes = {minutes}
"""


def final_matches(folder, minutes, capsys):
    """Train for a moment; return the final matches by anchor, and the lines of the run."""
    folder.mkdir()
    (folder / "run.toml").write_text(RUN.format(minutes=minutes), encoding="utf-8")
    run = str(folder / "run")
    assert main(["train", str(folder / "run.toml"), "--run", run]) == 0
    lines = capsys.readouterr().out
    assert main(["report", run, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)["players"]["main"]["records"]
    assert main(["league", "verify", run]) == 0
    return {name: row["wins"] + row["draws"] + row["losses"] for name, row in records.items()}, lines


@pytest.mark.parametrize("minutes", [0.0, 10.0])
def test_all_matches_count_within_the_time(tmp_path, capsys, minutes):
    """0 is no limit."""
    played, lines = final_matches(tmp_path / "run", minutes, capsys)
    assert (played["random"] >= 40, played["perfect"] >= 40) == (True, True)
    assert "evaluation.final_minutes" not in lines


@pytest.mark.parametrize(
    ("final_minutes", "run_minutes", "limit"),
    [(None, 0.0, 10.0), (None, 4.0, 4.0), (None, 60.0, 10.0), (30.0, 4.0, 30.0)],
)
def test_final_matches_take_no_longer_than_the_run(final_minutes, run_minutes, limit):
    """Unless the option gives them more time."""
    assert limit_minutes(final_minutes, run_minutes) == limit


def test_a_run_ends_when_the_time_of_its_final_matches_is_over(tmp_path, capsys):
    """A line names the option, and the next pairs are played with what is left."""
    _, lines = final_matches(tmp_path / "run", 1e-9, capsys)
    assert "final evaluation: main@1 against random: 0 of 40 matches count, as the time is over" in lines
    assert "final evaluation: main@1 against perfect: 0 of 40 matches count, as the time is over" in lines
