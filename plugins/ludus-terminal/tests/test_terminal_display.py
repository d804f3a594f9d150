"""The live table shows what a run reports about itself."""

from __future__ import annotations

import io
import math
import re
import sys
from pathlib import Path

import click
import pytest
from ludus.metrics import Metric
from ludus_terminal.display import Lines, LiveTable, make_display
from rich.console import Console

LEARNER = {
    "samples_per_s": 5000.0,
    "updates_per_s": 2.5,
    "sample_reuse": 3.0,
    "queue_blocks": 4.0,
    "staleness_mean": 1.5,
    "staleness_max": 6.0,
    "policy_loss": -0.0123,
    "value_loss": 0.4567,
    "entropy": 1.234,
    "approx_kl": 0.0089,
    "clip_fraction": 0.321,
    "explained_variance": 0.77,
    "dropped_stale": 12.0,
    "dropped_refused": 1.0,
}
LEAGUE = {
    "decisions": 123456.0,
    "models": 3.0,
    "rating": 1234.0,
    "rating_deviation": 20.0,
    "score_v_random": 0.7,
    "score_v_random/low": 0.61,
    "score_v_random/high": 0.78,
}
VALUES = {
    "league/matches": 789.0,
    "sampling/ticks_per_s": 7000.0,
    "sampling/decisions_per_s": 6500.0,
    "sampling/return_mean": 0.25,
    **{f"league/main/{name}": value for name, value in LEAGUE.items()},
    **{f"learner/main/{name}": value for name, value in LEARNER.items()},
}


def shown(values, *, terminal=True):
    """Return the lines that a terminal shows while the table is there, without borders."""
    out = io.StringIO()
    console = Console(file=out, width=200, height=50, force_terminal=terminal, color_system=None)
    table = LiveTable(None, run_dir=Path(), console=console)
    try:
        table.write([Metric(name=name, value=value, decisions=5, elapsed_s=61.0) for name, value in values.items()])
        table._live.refresh()
        text = re.sub("\x1b\\[\\S+?[a-z]|[│┃]", " ", out.getvalue())
        return [" ".join(line.split()) for line in text.splitlines()]
    finally:
        table.close()


@pytest.mark.parametrize(
    "line",
    [
        "61 s · 789 matches",
        "decisions learned from 123,456",
        "ticks/s played 7,000",
        "decisions/s played 6,500",
        "return per match 0.25",
        "samples/s learned 5,000",
        "updates/s 2.5",
        "staleness mean 1.5",
        "staleness max 6",
        "sample reuse 3.00",
        "queued blocks 4",
        "policy loss -0.0123",
        "value loss 0.4567",
        "entropy 1.234",
        "approximate KL 0.0089",
        "clip fraction 0.321",
        "explained variance 0.77",
        "frozen models 3",
        "dropped stale 12, refused 1",
        "rating of newest 1234 ± 39",
        "score v random 70% [61%, 78%]",
    ],
)
def test_every_number_has_its_row(line):
    """Whatever tells whether a run is healthy is there."""
    assert line in shown(VALUES)


def test_a_player_that_has_just_started_is_empty():
    """Nothing is invented where nothing is known, and columns of players stay in line."""
    new = {"league/new/models": 0.0, "league/new/decisions": 0.0}
    lines = shown({**new, **VALUES})
    assert "new main" in lines
    assert "entropy - 1.234" in lines
    assert "rating of newest - 1234 ± 39" in lines
    assert "score v random - 70% [61%, 78%]" in lines


def test_anchors_may_be_called_like_a_bound_of_another():
    """Each has a row of its own."""
    other = {"score_v_random_low": 0.2, "score_v_random_low/low": 0.1, "score_v_random_low/high": 0.3}
    lines = shown({**VALUES, **{f"league/main/{name}": value for name, value in other.items()}})
    assert {"score v random 70% [61%, 78%]", "score v random_low 20% [10%, 30%]"} < set(lines)


def test_nothing_to_show_shows_nothing():
    """A sink may be handed no metrics."""
    assert not any("matches" in line for line in shown({}))


def test_every_run_in_a_terminal_shows_it():
    """It is the metric sink that the core looks for."""
    from ludus import load_plugins

    assert load_plugins(allow=["ludus-terminal"]).get("metric-sink", "terminal").load_factory() is make_display


def metrics(values):
    """Return values as what sinks get."""
    return [Metric(name=name, value=value, decisions=5, elapsed_s=61.0) for name, value in values.items()]


def test_without_a_terminal_it_prints_lines(capsys):
    """One per player and interval; they can be found in a log."""
    lines = make_display(None, run_dir=Path())
    for _ in range(2):
        lines.write(metrics(VALUES))
    lines.close()
    (line,) = capsys.readouterr().out.splitlines()
    for part in (
        "61 s",
        "main",
        "123,456 decisions",
        "6,500/s played",
        "5,000/s learned",
        "staleness 1.5",
        "entropy 1.23",
        "main@3 rated 1234 ± 39",
        "v random 70% [61%, 78%]",
    ):
        assert part in line


def test_a_line_says_nothing_of_what_is_not_known(capsys):
    """Neither ratings nor records, nor what nobody has reported, at the beginning."""
    Lines().write(metrics({"league/matches": 0.0, "league/main/models": 0.0, "league/main/decisions": 0.0}))
    (line,) = capsys.readouterr().out.splitlines()
    assert line == "    61 s  main  0 decisions"


def test_a_line_shows_numbers_that_are_none(capsys):
    """They are reported, and somebody should look into that."""
    Lines().write(metrics(VALUES | {"learner/main/entropy": math.nan}))
    assert "  entropy nan  " in capsys.readouterr().out


def test_in_a_terminal_it_is_the_table(monkeypatch):
    """And only there."""

    class Screen(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdout", Screen())
    display = make_display(None, run_dir=Path())
    display.close()
    assert isinstance(display, LiveTable)


def test_what_click_prints_meanwhile_stays_above_the_table(monkeypatch):
    """The table is taken away line by line before it is drawn anew, and nothing else with it."""

    class Screen(io.TextIOWrapper):
        def isatty(self):
            return True

    screen = Screen(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    display = make_display(None, run_dir=Path())
    display.write(metrics(VALUES))
    display._live.refresh()
    click.echo("sampler-0: restarted")
    click.echo(long := f"go on with: {'folder/' * 40} [red]")
    click.echo("[bold]", nl=False)
    display.close()
    assert sys.stdout is screen
    screen.flush()
    printed = screen.buffer.getvalue().decode()
    above, _, below = printed.partition("sampler-0: restarted")
    assert above.endswith("\x1b[2K"), "the table is gone before"
    assert "789 matches" in below, "and there again afterwards"
    assert f"{long}\n" in below, "neither broken nor read as markup"
    assert "[bold]\n" in below
