"""``ludus levels`` finds difficulty levels, and commands play against them."""

from __future__ import annotations

import json

import attrs
import numpy as np
import pytest
from click.testing import CliRunner
from ludus._config.run_config import load_config
from ludus._plugins.manager import load_plugins
from ludus._run.runner import train
from ludus.errors import ConfigError, ModelError
from ludus.levels import LevelSet, read_levels
from ludus.runs import open_run
from ludus_terminal.evaluate import Record, evaluate
from ludus_terminal.level_search import Candidate, LevelSearch
from ludus_terminal.levels import levels, weakened
from ludus_terminal.watch import watch

# -- the search --------------------------------------------------------------------------------------------------------

#: True strengths of models in Elo points, and what full weakness costs at most.
STRENGTHS = {"main@1": 200.0, "main@2": 420.0, "main@3": 640.0}


def strength(candidate):
    """Return the true strength: weakness takes it to 0, slowly at first."""
    return STRENGTHS[candidate.model] * (1 - candidate.weakness**2)


def simulate(a, b, matches, seed):
    """Draw matches by the Elo model, up to a fifth of them draws."""
    rng = np.random.default_rng(seed)
    expected = 1 / (1 + 10 ** ((strength(b) - strength(a)) / 400))
    draws = 0.4 * min(expected, 1 - expected)
    won, drawn, lost = rng.multinomial(matches, [expected - draws / 2, draws, 1 - expected - draws / 2])
    return Record(wins=int(won), draws=int(drawn), losses=int(lost), mean_return=0.0, mean_ticks=1.0)


def search(**options):
    """Return a search among the models above."""
    defaults = {"play": simulate, "count": 5, "gap": 100.0, "tolerance": 25.0, "matches": 1000, "seed": 0}
    return LevelSearch(**{**defaults, **options})


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_levels_are_equally_far_apart(seed):
    """By their true strengths, not only by the measured ones; the strongest model is the first."""
    found = search(seed=seed).find(list(STRENGTHS))
    assert found.candidates[0] == Candidate("main@3")
    gaps = -np.diff([strength(candidate) for candidate in found.candidates])
    assert gaps == pytest.approx([100] * 4, abs=25)
    assert found.gaps() == pytest.approx([100] * 4, abs=25)


def test_a_model_at_the_right_distance_is_used_as_it_is():
    """Older models come before weakened ones."""
    found = search(gap=110.0, matches=8000).find(list(STRENGTHS))
    assert Candidate("main@2") in found.candidates
    assert {c.model for c in found.candidates} == {"main@1", "main@2", "main@3"}


def test_the_result_depends_on_new_matches_only():
    """The last round has seeds of its own, and as many matches of every pair as wanted."""
    played = {}

    def play(a, b, matches, seed):
        played.setdefault(seed, []).append(matches)
        return simulate(a, b, matches, seed)

    found = search(play=play).find(list(STRENGTHS))
    assert all(len(matches) == 1 for matches in played.values())  # no seed occurs twice
    assert [matches for (matches,) in played.values()][-10:] == [1000] * 10
    assert found.strengths.matches.tolist() == [4000] * 5
    assert [record.wins + record.draws + record.losses for record in found.next] == [1000] * 4


def test_models_that_are_too_close():
    """The message has the distance that is needed."""
    with pytest.raises(ConfigError, match=r"main@3, is \d+ Elo points above the weakest: expected 900 for 10 levels"):
        search(count=10).find(list(STRENGTHS))


# -- the command -------------------------------------------------------------------------------------------------------

RUN = """
[run]
seed = 3
workers = 0
decisions = 8000
[environment]
name = "dummy-count"
[sampling]
matches = 16
fixture_matches = 16
rows_per_fixture = 8
[players.main]
algorithm = "dummy-gradient"
matchmaker = "dummy-uniform"
freeze_every_decisions = 2000
[players.main.dummy-gradient]
segment_decisions = 4
batch_decisions = 64
learning_rate = 0.5
[evaluation]
enabled = false
matches = 128
final_matches = 0
[anchors.random]
agent = "dummy-random"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a run with its levels, made by noise."""
    tmp_path = tmp_path_factory.mktemp("runs")
    (tmp_path / "run.toml").write_text(RUN)
    config = load_config(tmp_path / "run.toml", plugins=load_plugins())
    train(config, plugins=load_plugins(), run_dir=tmp_path / "r", print_line=lambda line: None)
    invoke(levels, tmp_path / "r", "--levels", 3, "--gap", 60, "--matches", 1000, "--weaken", "noise")
    return tmp_path / "r"


def invoke(command, *arguments):
    """Run a command and return its output."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_levels_of_a_run(folder):
    """The strongest model is the last one; each level has its distance to the first, and the files are there."""
    found = read_levels(folder / "levels")
    assert (found.environment, found.role, found.matches) == ("dummy-count", "player", 1000)
    elo = [level.elo for level in found.levels]
    assert elo[0] == 0
    assert np.diff(elo) == pytest.approx([60, 60], abs=15)
    assert all(level.low <= level.elo <= level.high for level in found.levels)
    assert (found.levels[-1].noise, found.levels[-1].temperature) == (0, 1)
    assert any(level.noise for level in found.levels)
    for level in found.levels:
        assert (folder / "levels" / f"{level.hash}.safetensors").is_file()
        assert (folder / "levels" / f"{level.hash}.json").is_file()


def test_levels_are_participants(folder):
    """By a path from the run folder or the current one; matches confirm the measured distance."""
    data = json.loads(invoke(evaluate, folder, "levels/3", "levels/1", "--matches", 1000, "--seed", 77, "--json"))
    assert data["participants"] == ["levels/3", "levels/1"]
    assert data["score"] == pytest.approx(1 / (1 + 10 ** (-120 / 400)), abs=0.06)
    text = invoke(evaluate, folder, f"{folder / 'levels'}/2", "random", "--matches", 4)
    assert text.startswith(f"{folder / 'levels'}/2 against random:")


def test_levels_play_without_their_run(folder, monkeypatch):
    """The folder has all that it needs."""
    monkeypatch.chdir(folder)
    output = invoke(watch, "--env", "dummy-count", "levels/1", "dummy-random", "--delay", 0, "--seed", 1)
    assert "levels/1" in output


def test_models_with_settings_are_participants(folder):
    """A model that plays at random only is as good as the random anchor, and one at its strength is better."""
    strong, weak = (
        json.loads(invoke(evaluate, folder, name, "random", "--matches", 400, "--json"))
        for name in ("main@latest", "main@latest,noise=1")
    )
    assert weak["participants"] == [f"{strong['participants'][0]},noise=1", "random"]
    assert weak["interval"][0] < 0.5 < weak["interval"][1]
    assert strong["interval"][0] > weak["interval"][1]


def test_a_hot_model_plays_at_random(folder):
    """A temperature between keeps some of its strength."""
    scores = [
        json.loads(invoke(evaluate, folder, f"0=main@latest,temperature={t}", "random", "--matches", 400, "--json"))[
            "score"
        ]
        for t in (1, 3, 1000)
    ]
    assert scores[0] > scores[1] > scores[2]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("levels/4", "levels/4: expected levels/1 to levels/3"),
        ("levels/x", "levels/x: expected levels/1 to levels/3"),
        ("other/1", "levels.json: cannot be read: No such file or directory; `ludus levels RUN` writes it"),
    ],
)
def test_levels_that_do_not_exist(folder, name, problem):
    """The message lists those that do."""
    with pytest.raises(ConfigError, match=problem):
        invoke(evaluate, folder, name, "random")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data.pop("role"), "levels.json: role: missing"),
        (
            lambda data: data["levels"][0].update(noise=2.0),
            r"levels.json: levels.0.noise: expected a number in \[0, 1\]",
        ),
        (lambda data: data["levels"][0].update(hash="../x"), "expected …/<hash>.safetensors"),
        (lambda data: data.update(environment="chess"), "levels/1: the level plays chess, not dummy-count"),
        (lambda data: data["levels"][0].update(interfaces=[{"name": "none"}]), "no installed plugin"),
    ],
)
def test_damaged_levels(folder, tmp_path, change, problem):
    """One line with the file and the value."""
    data = json.loads((folder / "levels" / "levels.json").read_text())
    change(data)
    (tmp_path / "levels").mkdir()
    (tmp_path / "levels" / "levels.json").write_text(json.dumps(data))
    with pytest.raises((ConfigError, ModelError), match=problem):
        invoke(evaluate, folder, f"{tmp_path}/levels/1", "random")


def test_a_folder_of_levels_is_read_as_it_was_written(folder, tmp_path):
    """All fields, interfaces included."""
    found = read_levels(folder / "levels")
    delay = {"name": "delay", "tick_ms": 10.0}
    changed = attrs.evolve(found, levels=(attrs.evolve(found.levels[0], interfaces=(delay,)), *found.levels[1:]))
    changed.save(tmp_path)
    assert read_levels(tmp_path) == changed
    assert changed.levels[0].settings().endswith("delay.tick_ms=10")
    assert isinstance(changed, LevelSet)


def test_a_player_that_does_not_exist(folder):
    """The message lists the players."""
    with pytest.raises(ConfigError, match="--player: expected one of main, got 'x'"):
        invoke(levels, folder, "--player", "x")


def test_a_delay_needs_the_duration_of_a_tick(folder):
    """It is stated in milliseconds."""
    with pytest.raises(ConfigError, match="--weaken delay: dummy-count has no duration of a tick"):
        invoke(levels, folder, "--weaken", "delay", "--matches", 40)


def test_a_delay_is_an_interface_of_the_level(folder):
    """Of the share of a second that the weakness states; the model does not observe it."""
    with open_run(folder) as run:
        environment = run.make_environment(1)
    spec = attrs.evolve(environment.spec, tick_s=0.05)
    (options,) = weakened(spec, "delay", "main@1", "0" * 64, 0.25).interfaces
    assert options == {"name": "delay", "tick_ms": 50.0, "max_ms": 250.0, "fixed_ms": 250.0, "actions": -1}


def test_nothing_else_of_the_run_changes(folder):
    """The league has no new models or matches."""
    with open_run(folder) as run:
        assert run.num_matches(kind="eval") == 0
        assert set(run.models) == {f"main@{number}" for number in range(1, len(run.models) + 1)}
