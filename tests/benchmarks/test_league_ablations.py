"""The studies of leagues: their settings, what is trained, and that everything fits together."""

from __future__ import annotations

import csv
import itertools
import json
import subprocess
from pathlib import Path

import pytest
from ludus import load_plugins
from ludus._config.run_config import load_config

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
VARIANTS = [
    *[
        ("dis", name)
        for name in ("all pools", "no DMMP", "no DPMP", "no SMP", "no LHMP", "self-play", "random", "alone")
    ],
    *[("minimax", name) for name in ("minimax", "vanilla")],
    *[("aet", name) for name in ("ada", "1:1", "1:4", "no ER", "history 0 %", "history 50 %")],
]


@pytest.fixture
def leagues(monkeypatch):
    """Return the script as a module."""
    pytest.importorskip("ludus_ratings")
    monkeypatch.syspath_prepend(BENCHMARKS)
    import league_ablations

    return league_ablations


@pytest.fixture
def training(leagues, monkeypatch):
    """Return the commands that were started; they succeed and do nothing."""
    started = []

    def run(command, **options):
        started.append(command)
        folder = Path(command[command.index("--run") + 1])
        assert not folder.exists()
        folder.mkdir(parents=True)

    monkeypatch.setattr(subprocess, "run", run)
    return started


def configured(leagues, study, variant):
    """Return the configuration of a variant."""
    settings = leagues.STUDIES[study].variants[variant]
    return load_config(BENCHMARKS / "league_ablations" / f"{study}.toml", overrides=settings, plugins=load_plugins())


def test_all_variants_are_known_here(leagues):
    """A variant that is added is tested too."""
    assert [(name, variant) for name, study in leagues.STUDIES.items() for variant in study.variants] == VARIANTS


@pytest.mark.parametrize(("study", "variant"), VARIANTS)
def test_variants_are_valid_configurations(leagues, study, variant):
    """No option is misspelt, and who is compared and who is met exists."""
    config = configured(leagues, study, variant)
    stated = leagues.STUDIES[study]
    assert set(stated.players) <= set(config.players)
    assert set(stated.anchors.values()) <= {*config.anchors, *load_plugins().components("agent")}


@pytest.mark.parametrize("study", ["dis", "minimax", "aet"])
def test_variants_differ(leagues, study):
    """No two variants are the same league."""
    told = [json.dumps(configured(leagues, study, name).data, default=str) for name in leagues.STUDIES[study].variants]
    assert len(set(told)) == len(told)


@pytest.mark.parametrize("study", ["dis", "minimax", "aet"])
def test_claims_are_about_what_is_there(leagues, study):
    """They name variants of the study and players of its league."""
    stated = leagues.STUDIES[study]
    players = configured(leagues, study, next(iter(stated.variants))).players
    for claim in stated.claims:
        assert {claim.better, claim.worse} <= set(stated.variants)
        assert claim.better != claim.worse
        assert claim.player in (stated.players if claim.figure == "rating" else players)


def test_pools_are_removed_one_by_one(leagues):
    """Each row of the table has one pool less, and DPMP belongs to the main agent and the policy explorer."""
    rows = [
        configured(leagues, "dis", name).players for name in ("all pools", "no DMMP", "no DPMP", "no SMP", "no LHMP")
    ]
    mine = [set(players["main_agent"].matchmaker.config.pools) for players in rows]
    assert [before - after for before, after in itertools.pairwise(mine)] == [
        {"methods"},
        {"policies"},
        {"own/superior"},
        {"own/long"},
    ]
    theirs = [set(players["rnd_explorer"].matchmaker.config.pools) for players in rows]
    assert theirs == [pools - {"policies"} for pools in mine]


def test_every_seed_begins_with_another_variant(leagues):
    """Whatever disturbs the beginning does not hit the same variant always; nothing is left out."""
    order = list(leagues.trainings("s", variants=["a", "b", "c"], seeds=[1, 2], runs=Path("runs")))
    assert order == [("a", 1), ("b", 1), ("c", 1), ("b", 2), ("c", 2), ("a", 2)]


def test_runs_have_folders_of_their_own(leagues):
    """Names of variants become names of folders."""
    variants = list(leagues.STUDIES["aet"].variants)
    folders = leagues.trainings("aet", variants=variants, seeds=[1, 2, 3], runs=Path("runs"))
    assert folders["history 0 %", 2] == Path("runs/aet-history_0__-2")
    assert len(set(folders.values())) == 3 * len(variants)


def folders_of(leagues, tmp_path, *, seeds=(1,)):
    """Return the runs of a small study."""
    return leagues.trainings("minimax", variants=["minimax", "vanilla"], seeds=seeds, runs=tmp_path)


def test_every_variant_gets_the_same_budget(leagues, training, tmp_path):
    """Only the settings of the variant differ between the commands."""
    assert leagues.train_all("minimax", folders_of(leagues, tmp_path), budget=("run.minutes=2",))
    first, second = training
    assert "run.minutes=2" in first
    own = "players.exploiter.dqn.minimax_alpha=0"
    same = [part for part in second if part != own]
    assert own in second
    assert len(same) == len(second) - 1
    assert sorted(set(first) ^ set(same)) == sorted(
        str(tmp_path / f"minimax-{name}-1") for name in ("minimax", "vanilla")
    )


def test_what_is_trained_is_not_trained_again(leagues, training, tmp_path):
    """A seed that is added is all that is trained."""
    for seeds in ([1], [1], [1, 2]):
        leagues.train_all("minimax", folders_of(leagues, tmp_path, seeds=seeds), budget=("run.minutes=2",))
    assert len(training) == 4


def test_another_budget_is_another_training(leagues, training, tmp_path):
    """Runs of different length are not compared by mistake."""
    for minutes in (2, 3):
        leagues.train_all("minimax", folders_of(leagues, tmp_path), budget=(f"run.minutes={minutes}",))
    assert len(training) == 4


def test_a_training_that_was_disturbed_is_repeated(leagues, training, tmp_path):
    """The one that had a third of a core, if half of one is wanted."""
    folders = folders_of(leagues, tmp_path)
    leagues.train_all("minimax", folders, budget=("run.minutes=2",))
    for name, cpu_s in (("minimax", 8.0), ("vanilla", 4.0)):
        told = tmp_path / f"minimax-{name}-1.json"
        known = json.loads(told.read_text(encoding="utf-8"))
        told.write_text(json.dumps({**known, "took": {"cpu_s": cpu_s, "wall_s": 12.0}}), encoding="utf-8")
    leagues.train_all("minimax", folders, budget=("run.minutes=2",), least_share=0.3)
    assert len(training) == 2
    leagues.train_all("minimax", folders, budget=("run.minutes=2",), least_share=0.5)
    assert [command[command.index("--run") + 1] for command in training[2:]] == [str(folders["vanilla", 1])]


def test_a_training_that_failed_is_repeated(leagues, training, tmp_path, monkeypatch):
    """What it left is thrown away."""
    done = subprocess.run

    def fail(command, **options):
        done(command, **options)
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(subprocess.CalledProcessError):
        leagues.train_all("minimax", folders_of(leagues, tmp_path), budget=("run.minutes=2",))
    monkeypatch.setattr(subprocess, "run", done)
    assert leagues.train_all("minimax", folders_of(leagues, tmp_path), budget=("run.minutes=2",))
    assert len(training) == 3


def test_trainings_can_be_left_to_another_time(leagues, training, tmp_path):
    """With a limit, it says whether something is missing."""
    complete = [
        leagues.train_all("minimax", folders_of(leagues, tmp_path), budget=("run.minutes=2",), most=1) for _ in range(3)
    ]
    assert complete == [False, True, True]
    assert len(training) == 2


def test_settings_can_be_added_for_all_variants(leagues):
    """For example a model that all start from."""
    given = leagues.read(["dis", "--minutes", "2", "--set", "players.main_agent.init=m", "--set", "a.b=1"])
    assert leagues.budget(given) == ("run.minutes=2", "players.main_agent.init=m", "a.b=1")


def test_unknown_variants_are_told(leagues, capsys):
    """A misspelt name is no empty study."""
    with pytest.raises(SystemExit):
        leagues.read(["dis", "--variants", "all pool"])
    assert "unknown: all pool; there are all pools" in capsys.readouterr().err


@pytest.mark.slow
def test_a_whole_study(leagues, tmp_path, capsys):
    """Trainings, matches, tables and files; the second time nothing is trained or played."""
    pytest.importorskip("openskill")
    options = ["dis", "--variants", "all pools", "alone", "--seeds", "1", "--decisions", "25000", "--matches", "10"]
    options += ["--points", "2", "--curve-matches", "6", "--runs", str(tmp_path / "runs"), "--json"]
    assert leagues.main([*options, str(tmp_path / "a.json")]) == 0
    printed = capsys.readouterr().out
    assert "| main_agent | Elo |" in printed
    results = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert [run["variant"] for run in results["runs"]] == ["all pools", "alone"]
    assert results["runs"][1]["players"]["rnd_explorer"]["decisions"] == 0
    assert len(results["pairs"]) == 1 + 2 * 3
    with (tmp_path / "a.csv").open(encoding="utf-8") as file:
        assert {row["variant"] for row in csv.DictReader(file)} == {"all pools", "alone"}
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.[js]*") if "sqlite" not in path.name}
    assert {path.suffix for path in kept} == {".json", ".jsonl", ".safetensors"}
    leagues.main([*options, str(tmp_path / "b.json")])
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert json.loads((tmp_path / "b.json").read_text(encoding="utf-8")) == results
