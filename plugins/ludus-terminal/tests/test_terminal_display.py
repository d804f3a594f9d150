"""The live table and the lines show the metrics of a run."""

from __future__ import annotations

import io
import math
import re
import sys
from pathlib import Path

import click
import pytest
from ludus.metrics import Metric
from ludus_terminal.display import Lines, LiveTable, _rate, _Rates, _time_left, make_display
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
    "rated_model": 2.0,
    "score_v_random": 0.7,
    "score_v_random/low": 0.61,
    "score_v_random/high": 0.78,
}
VALUES = {
    "league/matches": 789.0,
    "sampling/ticks_per_s": 7000.0,
    "sampling/decisions_per_s": 6500.0,
    "sampling/return_mean": 0.5,
    "sampling/return_mean/main": 0.25,
    **{f"league/main/{name}": value for name, value in LEAGUE.items()},
    **{f"learner/main/{name}": value for name, value in LEARNER.items()},
}


def shown(values, *, terminal=True):
    """Return the lines of the table in a terminal, without borders."""
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
        "newest rating main@2 1234 ± 39",
        "score v random 70% [61%, 78%]",
    ],
)
def test_every_number_has_its_row(line):
    """The table has a row for every metric that shows the health of a run."""
    assert line in shown(VALUES)


def test_a_new_player_has_empty_cells():
    """Unknown values are dashes, and the columns of players stay aligned."""
    new = {"league/new/models": 0.0, "league/new/decisions": 0.0}
    lines = shown({**new, **VALUES})
    assert "new main" in lines
    assert "entropy - 1.234" in lines
    assert "newest rating - main@2 1234 ± 39" in lines
    assert "score v random - 70% [61%, 78%]" in lines


def test_anchor_names_may_end_like_a_bound():
    """Each anchor has its own row."""
    other = {"score_v_random_low": 0.2, "score_v_random_low/low": 0.1, "score_v_random_low/high": 0.3}
    lines = shown({**VALUES, **{f"league/main/{name}": value for name, value in other.items()}})
    assert {"score v random 70% [61%, 78%]", "score v random_low 20% [10%, 30%]"} < set(lines)


def test_no_metrics_show_nothing():
    """An empty list of metrics is allowed."""
    assert not any("matches" in line for line in shown({}))


def test_the_display_is_registered_as_the_default_sink():
    """The core looks for a metric sink of this name."""
    from ludus import load_plugins

    assert load_plugins(allow=["ludus-terminal"]).get("metric-sink", "terminal").load_factory() is make_display


def metrics(values):
    """Return values as metrics."""
    return [Metric(name=name, value=value, decisions=5, elapsed_s=61.0) for name, value in values.items()]


def test_without_a_terminal_it_prints_lines(capsys):
    """Print one line per player and interval, which can be searched in a log."""
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
        "main@2 rated 1234 ± 39",
        "v random 70% [61%, 78%]",
    ):
        assert part in line


def test_a_line_omits_unknown_values(capsys):
    """At the start a line has no rating, no score and no metrics of samplers or learners."""
    Lines().write(metrics({"league/matches": 0.0, "league/main/models": 0.0, "league/main/decisions": 0.0}))
    (line,) = capsys.readouterr().out.splitlines()
    assert line == "    61 s  main  0 decisions"


def test_a_line_shows_nan(capsys):
    """Values that are not numbers are printed, because they point to a problem."""
    Lines().write(metrics(VALUES | {"learner/main/entropy": math.nan}))
    assert "  entropy nan  " in capsys.readouterr().out


def test_in_a_terminal_it_is_the_table(monkeypatch):
    """The table is used only if standard output is a terminal."""

    class Screen(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdout", Screen())
    display = make_display(None, run_dir=Path())
    display.close()
    assert isinstance(display, LiveTable)


def test_output_of_click_stays_above_the_table(monkeypatch):
    """Redrawing clears only the lines of the table."""

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


@pytest.mark.parametrize(
    ("progress", "text"), [(0.0, ""), (0.5, ", 60 s left"), (0.1, ", 9 min left"), (0.001, ", 999 min left"), (1.0, "")]
)
def test_the_time_left_is_shown(progress, text):
    """In a run with a limit."""
    elapsed = 60.0
    assert _time_left({"league/progress": progress}, elapsed) == text
    assert "61 s, 61 s left · 789 matches" in shown({**VALUES, "league/progress": 0.5})


def test_slow_games_do_not_seem_to_stand_still():
    """The window grows until the rate is not 0; fast rates are those of the last ten seconds."""
    rates, means = _Rates(), []
    for second in range(700):
        slow, fast = (30.0 if second % 60 == 5 else 0.0), float(second)
        values = {"sampling/decisions_per_s": slow, "learner/main/samples_per_s": fast, "league/matches": 7.0}
        means.append(rates.average(values, float(second)))
    assert all(mean["sampling/decisions_per_s"] > 0.4 for mean in means[5:])
    assert means[-1]["learner/main/samples_per_s"] == pytest.approx(699 - 5)
    assert means[-1]["league/matches"] == 7.0
    assert len(rates._reports) <= 601
    assert means[4]["sampling/decisions_per_s"] == 0.0


@pytest.mark.parametrize(("rate", "text"), [(0.0, "0"), (0.0321, "0.032"), (4.26, "4.3"), (1234.5, "1,234")])
def test_small_rates_have_digits(rate, text):
    """So that a slow game is not shown as 0/s."""
    assert _rate(rate) == text
