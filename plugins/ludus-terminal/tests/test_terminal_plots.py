"""``ludus league plot``: every plot shows data of the log."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from ludus.errors import ConfigError
from ludus.runs import open_run
from ludus_terminal import plots
from matplotlib.figure import Figure

NAMES = ("payoffs", "ratings", "lineage", "pools", "opponents", "shares")


@pytest.fixture
def made(write):
    """Return a league of two players, with a reset, a pool that a model leaves, and metrics."""
    made = write({"main": ("player", None), "other": ("player", None)})
    made.freeze("main")
    made.freeze("other")
    made.freeze("main", generation=1, init="", reason="converged")
    made.freeze("main", generation=1)
    made.enter("history", "main@1", "main@2", "other@1")
    made.enter("history", "main@1", enters=False)
    for a, b, points in (("main@1", "random", [1, 0]), ("main@2", "main@3", [1, 0.5]), ("other@1", "main@3", [0] * 4)):
        made.duel(a, b, points)
    made.duel("main@3+", "other@1", [1] * 6, kind="train", player="main", reason="pfsp: win rate 0.1")
    made.duel("main@3+", "main@3+", [1] * 2, kind="train", player="main", reason="self")
    made.duel("other@1+", "main@3", [1] * 2, kind="train", player="other", reason="pfsp: win rate 0.7")
    made.store.commit()
    values = {"league/main/share": 0.7, "league/other/share": 0.3}
    (made.folder / "metrics.jsonl").write_text(json.dumps({"t": 30.0, "d": 1, "m": values}) + "\n")
    return made


def draw(made, name):
    """Draw one plot and return its first axes."""
    figure = Figure()
    with open_run(made.folder) as run:
        assert plots._DRAWINGS[name](run, figure)
    return figure.axes


def test_every_plot_is_written(made, data, tmp_path):
    """The folder is created, and the PNG files are not empty."""
    files = data("plot", made.folder, "--out", tmp_path / "a" / "b")["files"]
    assert files == [str(tmp_path / "a" / "b" / f"{name}.png") for name in NAMES]
    for name in NAMES:
        content = (tmp_path / "a" / "b" / f"{name}.png").read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 5000


def test_plots_are_written_into_the_run_folder(made, data):
    """The option --out is not needed."""
    files = data("plot", made.folder)["files"]
    assert f"{made.folder}/plots/payoffs.png" in files
    assert all(Path(file).is_file() for file in files)


def test_an_empty_league_has_no_plots(write, show, tmp_path):
    """A line states that there is nothing to draw."""
    made = write()
    made.store.commit()
    assert "nothing to draw yet" in show("plot", made.folder, "--out", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_earlier_plots_are_replaced(made, write, show, tmp_path):
    """Plots without data are removed; other files stay."""
    show("plot", made.folder, "--out", tmp_path / "out")
    (tmp_path / "out" / "mine.png").write_text("kept")
    fresh = write(name="fresh")
    fresh.freeze("main")
    fresh.store.commit()
    shown = show("plot", fresh.folder, "--out", tmp_path / "out").split()
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left == {"mine.png", "lineage.png"}
    assert [line.rpartition("/")[2] for line in shown] == ["lineage.png"]


def test_payoffs_are_a_heat_map(made):
    """Cells are shares of points; pairs without matches are empty."""
    axes = draw(made, "payoffs")[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["main@1", "main@2", "main@3", "other@1", "random"]
    shares = np.ma.filled(axes.images[0].get_array(), np.nan)
    assert shares[1, 2] == 0.75
    assert shares[3, 2] == 0
    assert np.isnan(shares[0, 1])


def test_ratings_are_curves_by_generation(made):
    """A new generation starts a new curve; bands are 95 % intervals."""
    axes = draw(made, "ratings")[0]
    curves = [line for line in axes.lines if line.get_marker() == "."]
    assert [len(line.get_xdata()) for line in curves] == [2, 1, 1]
    assert curves[0].get_xdata().tolist() == [1.0, 2.0]
    rating = made.league.rating("main@1")
    assert curves[0].get_ydata()[0] == pytest.approx(rating.mean)
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert max(band) >= rating.mean + 1.95 * rating.deviation
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["main", "other"]


def test_lineage_marks_resets(made):
    """A cross ends a generation, and a line connects every model with its parent."""
    axes = draw(made, "lineage")[0]
    assert [line.get_marker() for line in axes.lines] == ["o", "o", "X", "o"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["main", "other"]
    arrows = [text for text in axes.texts if text.arrow_patch is not None]
    assert len(arrows) == 1  # of main@2; main@3 begins a new generation
    assert "generation 1" in {text.get_text() for text in axes.texts}


def test_pools_show_when_models_were_members(made):
    """Every stay of a model is one bar, which ends when the model leaves."""
    axes = draw(made, "pools")[0]
    assert axes.get_ylabel() == "history"
    assert [len(bars.get_paths()) for bars in axes.collections] == [1, 1, 1]
    ends = [bars.get_paths()[0].vertices[:, 0].max() for bars in axes.collections]
    assert ends[0] < ends[1] == ends[2]


def test_opponents_are_bars_of_shares(made):
    """Scheduled matches are above, played matches below."""
    axes = draw(made, "opponents")[0]
    bars = [(bar.get_x(), bar.get_width()) for bars in axes.containers for bar in bars if bar.get_width()]
    assert bars == [(0, 0.75), (0, 0.75), (0.75, 0.25), (0.75, 0.25), (0, 1), (0, 1)]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["pfsp (other, past)", "self (itself)", "pfsp (main, past)"]


def test_shares_are_played_and_configured(made):
    """Steps are played shares, dashed lines configured shares."""
    axes = draw(made, "shares")[0]
    played = [patch.get_data().values for patch in axes.patches]
    total = played[0] + played[1]
    assert total.max() == 1
    assert np.isin(total, [0, 1]).all()
    assert played[0].max() > 0 < played[1].max()
    assert [line.get_ydata().tolist() for line in axes.lines] == [[0.7], [0.3]]


def test_a_missing_matplotlib_is_one_line(made, show, tmp_path, monkeypatch):
    """The message names the package to install."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="pip install"):
        show("plot", made.folder, "--out", tmp_path / "out")


def test_time_is_time_of_training(made):
    """Breaks between sessions are removed: times are interpolated between models, up to the time of the run."""
    made.store.set_counter("elapsed_s", 240.0)
    made.store.commit()
    with open_run(made.folder) as run:
        created = [model.created_s for model in run.models.values()]
        asked = [run.meta("created_s"), created[0], created[-1] + 30, created[-1] + 10_000]
        minutes = plots._minutes(run, asked)
    assert minutes.tolist() == pytest.approx([0.0, 1.0, 3.5, 4.0], abs=1e-6)
