"""What a study found: figures over seeds, verdicts, and files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def tables(monkeypatch):
    """Return the module."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import league_tables

    return league_tables


@pytest.fixture
def study(tables):
    """Return a study of two variants."""
    from league_studies import Claim, Study

    return Study(
        title="Good against bad",
        variants={"good": (), "bad": ("x=1",)},
        players=("main",),
        anchors={"bot": "random"},
        claims=[
            Claim(better="good", worse="bad", player="main"),
            Claim(better="good", worse="bad", player="other", figure="generations"),
            Claim(better="good", worse="absent", player="main"),
        ],
    )


def entrant(variant, seed, elo):
    """Return a final model, or a scripted agent."""
    name = f"{variant} {seed}" if variant else "bot"
    rating = {"elo": elo, "low": elo - 9, "high": elo + 9, "mu": 25 + elo / 40, "sigma": 1.0}
    return {"name": name, "variant": variant, "seed": seed, "player": "main" if variant else "", "rating": rating}


def run(variant, seed, converged):
    """Return what is known of a run."""
    points = [{"minutes": m, "decisions": 100 * m, "score": m / 4, "anchors": {"bot": m / 4}} for m in (1.0, 2.0)]
    main = {"decisions": 200, "models": 2, "converged": [], "curve": points}
    players = {"main": main, "other": {"decisions": 50, "models": 3, "converged": converged}}
    return {"variant": variant, "seed": seed, "cpu_s": 90.0, "wall_s": 100.0, "players": players}


@pytest.fixture
def results(tables, study):
    """Return results of two seeds: good models are 200 points better and beat bad ones in nine of ten matches."""
    order = [("good", 1), ("good", 2), ("bad", 1), ("bad", 2)]
    elo = {("good", 1): 195.0, ("good", 2): 205.0, ("bad", 1): -5.0, ("bad", 2): 5.0}
    found = {
        "study": "dis",
        "title": study.title,
        "budget": ["run.minutes=2"],
        "seeds": [1, 2],
        "matches": 10,
        "settings": {name: list(settings) for name, settings in study.variants.items()},
        "entrants": [*(entrant(*who, elo[who]) for who in order), entrant("", 0, -400.0)],
        "pairs": [
            ["good 1", "good 2", 10, 0, 0],
            ["good 1", "bad 1", 9, 0, 1],
            ["good 1", "bad 2", 8, 2, 0],
            ["good 2", "bad 1", 9, 0, 1],
            ["bad 2", "good 2", 1, 0, 9],
            ["bad 1", "bot", 10, 0, 0],
        ],
        "runs": [run(*who, [0.5, 1.5] if who[0] == "good" else [1.0]) for who in order],
    }
    return found | tables.summarize(found, study)


def test_figures_are_means_over_seeds(results):
    """Rating, matches against other variants and bots, decisions."""
    good = results["variants"]["good"]["main"]
    assert good["rating"]["mean"] == 200.0
    assert good["rating"]["low"] == pytest.approx(200 - 12.706 * 5, abs=0.1)
    assert good["against others"]["mean"] == pytest.approx(0.9)
    assert good["against bots"]["mean"] == 0.5
    assert good["decisions"] == {"mean": 200.0, "low": 200.0, "high": 200.0}


def test_players_that_were_not_rated_have_no_rating(results):
    """They only trained and converged."""
    other = results["variants"]["bad"]["other"]
    assert set(other) == {"generations", "decisions"}
    assert other["generations"]["mean"] == 1.0


def test_claims_get_verdicts(results):
    """One about a variant that was not trained gets none."""
    assert [(claim["figure"], claim["mean"], claim["verdict"]) for claim in results["claims"]] == [
        ("rating", 200.0, "yes"),
        ("generations", 1.0, "yes"),
    ]


def test_the_summary_shows_everything(tables, results):
    """Figures, who beats whom, who else trained, verdicts, and how undisturbed it was."""
    lines = list(tables.markdown(results))
    assert "| main | Elo | openskill | against others | against bots | decisions |" in lines
    assert "| points of main against | good | bad | bot |" in lines
    assert "| good | 1.00 | 0.90 |  |" not in lines  # 10 of 10, and 0 of 10 the other way round
    assert "| good | 0.50 | 0.90 |  |" in lines
    assert "| bad | 0.10 |  | 1.00 |" in lines
    assert "| other | converged | decisions |" in lines
    assert any(line.startswith("| good | bad | other | generations | +1.0") for line in lines)
    assert lines[-1].endswith("90 to 90 % of a core.")


def test_results_are_written_beside_each_other(tables, results, tmp_path):
    """JSON with everything, CSV with the curves, Markdown, and a picture."""
    pytest.importorskip("matplotlib")
    path = tmp_path / "new" / "study.json"
    tables.write(results, path)
    assert json.loads(path.read_text(encoding="utf-8")) == results
    with path.with_suffix(".csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert rows[1] == {
        "variant": "good",
        "seed": "1",
        "player": "main",
        "minutes": "2.0",
        "decisions": "200.0",
        "score": "0.5",
    }
    assert path.with_suffix(".md").read_text(encoding="utf-8").splitlines() == list(tables.markdown(results))
    assert path.with_suffix(".png").stat().st_size > 1000
