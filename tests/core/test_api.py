"""The Python API of the package: training, resuming and playing matches without the command line."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import ludus
import numpy as np
import pytest

BEST_OF_TWO = ("main@latest", "random")


@pytest.fixture(scope="module")
def tables_of_a_small_run():
    """Return the tables of a run of a few seconds in this process."""
    player = {
        "algorithm": "dummy-gradient",
        "dummy-gradient": {"segment_decisions": 4, "batch_decisions": 64},
        "matchmaker": "dummy-uniform",
        "freeze_every_decisions": 200,
    }
    return {
        "run": {"workers": 0, "decisions": 600},
        "environment": {"name": "dummy-count"},
        "sampling": {"matches": 8, "fixture_matches": 8, "rows_per_fixture": 4},
        "players": {"main": player},
        "anchors": {"random": {"agent": "dummy-random"}},
        "evaluation": {"enabled": False, "final_matches": 0},
    }


@pytest.fixture(scope="module")
def run(tables_of_a_small_run, tmp_path_factory):
    """Return an opened run that was trained by the API."""
    with ludus.train(tables_of_a_small_run, run_dir=tmp_path_factory.mktemp("api") / "run") as opened:
        yield opened


def test_train_with_tables_returns_the_opened_run(run):
    """The run has trained up to its limit and has frozen models."""
    assert isinstance(run, ludus.Run)
    assert run.league.players["main"].decisions >= 600
    assert run.models


def test_train_with_a_file_and_overrides(toml, tmp_path):
    """Overrides replace values of the file; progress is passed to the callback."""
    lines = []
    path = toml(evaluation={"final_matches": 2})
    with ludus.train(path, run_dir=tmp_path / "r", overrides=["run.decisions=300"], print_line=lines.append) as run:
        assert run.config.run.decisions == 300
    assert lines[-1].startswith("final evaluation: main@")


def test_train_does_not_change_the_given_tables(tables_of_a_small_run, tmp_path):
    """Overrides apply to a copy."""
    with ludus.train(tables_of_a_small_run, run_dir=tmp_path / "r", overrides=["run.decisions=64"]):
        assert tables_of_a_small_run["run"] == {"workers": 0, "decisions": 600}


def test_train_raises_config_error_for_every_mistake(tables_of_a_small_run, tmp_path):
    """Nothing is printed and the process goes on; overrides are named as such."""
    wrong = {**tables_of_a_small_run, "anchors": {"random": {"agent": "missing"}}}
    with pytest.raises(ludus.ConfigError) as error:
        ludus.train(wrong, run_dir=tmp_path / "r", overrides=["run.seed=-1"])
    first, second = sorted(error.value.problems)
    assert first.startswith("--set run.seed: expected a number ≥ 0")
    assert second.startswith("config:anchors.random.agent: no installed plugin provides the agent 'missing'")
    assert not (tmp_path / "r").exists()


def test_train_raises_run_error_for_a_used_folder(run, tables_of_a_small_run):
    """An existing run is not replaced."""
    with pytest.raises(ludus.RunError, match="already holds a run"):
        ludus.train(tables_of_a_small_run, run_dir=run.folder)


def test_resume_trains_further(tables_of_a_small_run, tmp_path):
    """The new limit counts from the first start."""
    with ludus.train(tables_of_a_small_run, run_dir=tmp_path / "r") as run:
        before = run.league.players["main"].decisions
    with ludus.resume(tmp_path / "r", overrides=["run.decisions=1200"]) as run:
        assert run.league.players["main"].decisions >= 1200 > before
    with pytest.raises(ludus.RunError, match="holds no run"):
        ludus.resume(tmp_path / "missing")


def test_play_match_returns_outcome_and_length(run):
    """The points of both teams add up to one; the same seed gives the same match."""
    result = ludus.play_match(run, *BEST_OF_TWO, seed=7)
    assert sum(result.outcome) == 1.0
    assert len(result.returns) == len(run.seats)
    assert result.ticks > 0
    assert result.participants == BEST_OF_TWO
    assert ludus.play_match(run, *BEST_OF_TWO, seed=7) == result


def test_play_match_seats_participants_in_the_order_of_teams(run):
    """An almost perfect agent wins most matches from either side."""
    first = [ludus.play_match(run, "dummy-perfect", "dummy-random", seed=seed).outcome[0] for seed in range(20)]
    second = [ludus.play_match(run, "dummy-random", "dummy-perfect", seed=seed).outcome[1] for seed in range(20)]
    assert min(np.mean(first), np.mean(second)) > 0.6


def test_play_match_fills_seats_that_are_not_named(run):
    """The opponent of a single participant is another one; a seat may be chosen by its number."""
    assert ludus.play_match(run, "main@latest").participants == ("main@latest", "random")
    newest = run.resolve("main@latest")
    assert ludus.play_match(run, "1=random").participants == (newest, "random")


@pytest.mark.parametrize(
    ("participants", "problem"),
    [
        (("main@latest", "random", "main@1"), "main@1: no free seat of role player; dummy-count has 2 teams"),
        (("mouse=random",), "dummy-count has no role or seat 'mouse'; its roles are player, its seats 0 to 1"),
        (("main@latest", "nobody"), "nobody"),
        (("main@99", "random"), "main@99"),
    ],
)
def test_play_match_rejects_wrong_participants(run, participants, problem):
    """The error names the participant, or the number of teams."""
    with pytest.raises(ludus.ConfigError, match=problem):
        ludus.play_match(run, *participants)


def test_frozen_model_loads_as_an_agent(run):
    """By its name within a run, and from its file alone."""
    model = run.models["main@1"]
    with closing(run.make_environment(1)) as environment:
        spec = environment.spec
        agent = run.agent("main@1", "player", environment=environment, deterministic=True)
    file = run.folder / "models" / f"{model.hash}.safetensors"
    loaded = ludus.load_agent(file, "player", spec=spec, deterministic=True)
    observation = {"obs": np.eye(*spec.role("player").observation_space.shape, dtype=np.float32)}
    mask, seat_ids = np.ones((len(observation["obs"]), 3), bool), np.arange(len(observation["obs"]))
    actions = [
        made.act(observation, action_mask=mask, seat_ids=seat_ids, rng=np.random.default_rng(0)).tolist()
        for made in (agent, loaded)
    ]
    assert actions[0] == actions[1]


def test_open_run_reads_a_trained_run(run):
    """The function is that of `ludus.runs`."""
    with ludus.open_run(run.folder) as again:
        assert list(again.models) == list(run.models)


def test_unknown_attributes_are_errors():
    """The lazy names are listed by `dir`."""
    with pytest.raises(AttributeError, match="module 'ludus' has no attribute 'trian'"):
        ludus.trian  # noqa: B018 - the access raises
    assert {"train", "play_match", "open_run"} <= set(dir(ludus))


def test_type_checkers_see_the_lazy_names(tmp_path):
    """Mypy --strict knows the signatures, and rejects names that do not exist."""
    pytest.importorskip("mypy")
    (tmp_path / "good.py").write_text(
        "import ludus\n\n\ndef best(run: ludus.Run) -> float:\n"
        "    return ludus.play_match(run, 'a', 'b').outcome[0]\n\n\n"
        "with ludus.train('x.toml', run_dir='r') as opened:\n    best(opened)\n"
    )
    (tmp_path / "bad.py").write_text("import ludus\n\nludus.trian('x.toml')\n")
    for name, status in (("good.py", 0), ("bad.py", 1)):
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout
