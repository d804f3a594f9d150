"""Runs: the same twice, resumed where they were, stopped cleanly, with nothing left behind."""

from __future__ import annotations

import errno
import itertools
import math
import os
import pty
import re
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import ExitStack

import numpy as np
import pytest
import tomli_w
from ludus._config.run_config import load_config
from ludus._learning.state import LearnerOptions
from ludus._messaging.in_process import InProcessPool
from ludus._messaging.messages import Failure, FixtureRequest
from ludus._plugins.manager import load_plugins
from ludus._run import session as _session
from ludus._run.metric_file import read_metrics
from ludus._run.runner import resume, train
from ludus._store.foreign_files import check_folder
from ludus._store.model_files import load_arrays
from ludus._store.store import Store
from ludus.errors import ConfigError, ContractError, LudusError, ModelError, PluginError, RunError, WorkerError
from ludus.launcher import COORDINATOR
from ludus.runs import open_run
from ludus_dummy.count import Count
from ludus_dummy.events import MemorySink
from ludus_dummy.league import Uniform


@pytest.fixture
def run(toml):
    """Return a function that trains a small run in this process."""

    def make(run_dir, **given):
        printed = []
        plugins = load_plugins()
        config = load_config(toml(**given), plugins=plugins)
        return train(config, plugins=plugins, run_dir=run_dir, print_line=printed.append), printed

    return make


def resume_run(run_dir, *overrides):
    """Resume a run."""
    return resume(run_dir, plugins=load_plugins(), print_line=lambda line: None, overrides=overrides)


def read_run(run_dir):
    """Return the contents of a run, except times."""
    with Store.read(run_dir) as store:
        matches = [
            (m.fixture.id, m.fixture.participants, m.number, m.ticks, tuple(m.outcome)) for m in store.matches.records()
        ]
        models = [(model.participant, model.hash, model.decisions) for model in store.models.records()]
    last = {metric.name: metric.value for metric in read_metrics(run_dir / "metrics.jsonl")}
    league = {name: value for name, value in last.items() if name.startswith("league/")}
    files = {path.name: path.read_bytes() for path in (run_dir / "models").glob("*.safetensors")}
    return {"matches": matches, "models": models, "league": league, "files": files}


def test_equal_seeds_give_equal_runs(run, tmp_path):
    """Model files, match log and league metrics are identical; another seed gives another run."""
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(tmp_path / name, run={"seed": seed}, anchors=("random", "perfect"))
    first, second, other = (read_run(tmp_path / name) for name in "abc")
    assert first == second
    assert len(first["models"]) >= 4
    assert any("score_v_perfect" in name for name in first["league"])
    assert other["models"] != first["models"]
    assert other["matches"] != first["matches"]


def test_speed_does_not_change_a_run(run, tmp_path, monkeypatch):
    """A host that is a thousand times slower gives the same run."""
    run(tmp_path / "fast", anchors=("random", "perfect"))
    monotonic = time.monotonic
    monkeypatch.setattr("ludus._run.session._STOP_TIMEOUT_S", math.inf)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() * 1000)
    run(tmp_path / "slow", anchors=("random", "perfect"))
    fast, slow = read_run(tmp_path / "fast"), read_run(tmp_path / "slow")
    assert slow["models"] == fast["models"]
    assert slow["matches"] == fast["matches"]


def test_slow_reports_are_made_less_often(run, tmp_path, monkeypatch):
    """Reports of half a second are made at most every ten seconds, regardless of the interval."""
    clock = [0.0]
    started = []

    def slow(coordinator):
        started.append(clock[0])
        clock[0] += 0.5
        return []

    def passing():
        clock[0] += 0.03
        return clock[0]

    monkeypatch.setattr(time, "monotonic", passing)
    monkeypatch.setattr("ludus._run.session._STOP_TIMEOUT_S", math.inf)
    monkeypatch.setattr("ludus._run.metrics.collect_metrics", slow)
    run(tmp_path / "run", anchors=("random",))
    *regular, _last = started
    assert len(regular) > 2
    assert min(later - earlier for earlier, later in itertools.pairwise(regular)) >= 10


def test_result_and_final_evaluation_are_recorded(run, tmp_path):
    """The newest model plays every anchor on paired seeds, which is printed in advance."""
    outcome, printed = run(tmp_path / "run", anchors=("random", "perfect"))
    assert (outcome.reason, outcome.interrupted) == ("2,000 decisions are learned", False)
    newest = outcome.summary["players"]["main"]["newest"]
    assert f"final evaluation: {newest} against perfect, 20 matches" in printed
    with Store.read(tmp_path / "run") as store:
        final = [m for m in store.matches.records(kind="eval") if m.fixture.reason == "final evaluation"]
    for anchor in ("random", "perfect"):
        seats = [m.fixture.participants for m in final if anchor in m.fixture.participants]
        assert seats.count((newest, anchor)) == seats.count((anchor, newest)) == 10
        record = outcome.summary["players"]["main"]["anchors"][anchor]
        assert record["wins"] + record["draws"] + record["losses"] >= 20


def test_statistics_of_all_evaluations_are_recorded(run, tmp_path):
    """Those during the run and the final ones, but none of training matches."""
    outcome, _ = run(tmp_path / "run")
    newest = outcome.summary["players"]["main"]["newest"]
    with Store.read(tmp_path / "run") as store:
        matches = list(store.matches.records())
    evaluations = [match for match in matches if match.fixture.kind == "eval"]
    assert {match.fixture.reason == "final evaluation" for match in evaluations} == {True, False}
    for match in evaluations:
        assert 0 < sum(match.statistics["player/added"]) <= 21
    assert not any(match.statistics for match in matches if match.fixture.kind == "train")
    with open_run(tmp_path / "run") as opened:
        own = [
            match.statistics["player/added"][match.fixture.participants.index(newest)]
            for match in evaluations
            if newest in match.fixture.participants
        ]
        found = opened.league.statistics(newest)["player/added"]
        assert (found.mean, found.matches) == (pytest.approx(np.mean(own)), len(own))


def test_run_learns(run, tmp_path):
    """Self-play reaches a score far above chance."""
    outcome, _ = run(tmp_path / "run", run={"decisions": 6000}, evaluation={"final_matches": 100})
    assert outcome.summary["players"]["main"]["anchors"]["random"]["interval"][0] > 0.6


def test_resumed_run_continues_its_counts(run, tmp_path):
    """Decisions, models, matches and metrics continue from their previous values."""
    first, _ = run(tmp_path / "run")
    before = read_run(tmp_path / "run")
    second = resume_run(tmp_path / "run", "run.decisions=4000")
    after = read_run(tmp_path / "run")
    assert second.reason == "4,000 decisions are learned"
    assert second.summary["matches"] > first.summary["matches"]
    assert second.summary["elapsed_s"] > first.summary["elapsed_s"]
    assert after["models"][: len(before["models"])] == before["models"]
    assert len(after["models"]) > len(before["models"])
    assert set(before["matches"]) < set(after["matches"])  # evaluations cut short are played to their end
    assert len(after["matches"]) == len(set(after["matches"]))
    decisions = [metric.decisions for metric in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    assert decisions == sorted(decisions)
    assert decisions[0] <= 2100
    assert decisions[-1] >= 4000


def test_resumed_run_continues_from_its_weights(run, tmp_path):
    """A run without remaining budget keeps its models."""
    run(tmp_path / "run")
    before = read_run(tmp_path / "run")["models"]
    assert resume_run(tmp_path / "run").reason == "2,000 decisions are learned"
    assert read_run(tmp_path / "run")["models"] == before
    newest = load_arrays(tmp_path / "run" / "models", before[-1][1])
    assert abs(newest["policy"]).max() > 0.1


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("environment.dummy-count.most=4", r"player 'main' in environment 'dummy-count': .* expected weights"),
        ("players.main.role='nobody'", "nobody"),
        (
            "environment.name='dummy-guess'",
            r"environment\.name: was 'dummy-count', got 'dummy-guess': .* start a new run",
        ),
        ("players.main.network='dummy-linear'", r"players\.main\.network: was None, got 'dummy-linear'"),
        ("players.main.interfaces=['dummy-scale']", r"players\.main\.interfaces: was \[\], got \['dummy-scale'\]"),
        ("league={rules=['superior'], superior={players=['nobody']}}", r"rule 'superior': there is no player 'nobody'"),
    ],
)
def test_invalid_overrides_are_not_written(run, tmp_path, setting, problem):
    """The folder is unchanged, and a resume without overrides succeeds."""
    run(tmp_path / "run", run={"decisions": 64})
    before = (tmp_path / "run" / "run.toml").read_bytes()
    with pytest.raises(LudusError, match=problem):
        resume_run(tmp_path / "run", setting)
    assert (tmp_path / "run" / "run.toml").read_bytes() == before
    assert resume_run(tmp_path / "run").reason == "64 decisions are learned"


def test_missing_network_is_found_before_the_start(toml, tmp_path):
    """The run folder is not created."""
    path, plugins = toml(), load_plugins()
    path.write_text(re.sub(r"\n\[players\.main\.dummy-gradient\][^[]*", "\n", path.read_text()))
    config = load_config(path, plugins=plugins, overrides=["players.main.algorithm='ppo'"])
    with pytest.raises(ConfigError, match=r"run\.toml:players\.main\.network: missing; .*'ppo' needs a network"):
        train(config, plugins=plugins, run_dir=tmp_path / "run", print_line=str)
    assert not (tmp_path / "run").exists()


def test_overrides_that_the_trainer_rejects_are_not_written(run, tmp_path, monkeypatch):
    """The trainer here rejects another batch size than that of its saved state."""

    def load_state(trainer, state):
        if trainer.batch_decisions != 64:
            raise ModelError("expected batches of 64")

    monkeypatch.setattr("ludus_dummy.algorithm.GradientTrainer.load_state", load_state)
    run(tmp_path / "run", run={"decisions": 64})
    before = (tmp_path / "run" / "run.toml").read_bytes()
    with pytest.raises(ModelError, match="player 'main' in environment 'dummy-count': expected batches of 64"):
        resume_run(tmp_path / "run", "players.main.dummy-gradient.batch_decisions=32", "run.decisions=128")
    assert (tmp_path / "run" / "run.toml").read_bytes() == before
    assert resume_run(tmp_path / "run", "run.decisions=128").reason == "128 decisions are learned"


def test_options_that_models_depend_on_cannot_change(run, tmp_path):
    """Equal values are accepted, and so are changes of options that only affect learning."""
    folder = tmp_path / "run"
    scaled = {"interfaces": ["dummy-scale"]}
    run(folder, run={"decisions": 64}, players={"main": scaled, "other": {}})
    other = r"players\.main\.dummy-scale\.observation: was 1\.0, got 2\.0: models of 'main' would play differently"
    with pytest.raises(ConfigError, match=rf"--set {other}"):
        resume_run(folder, "players.main.dummy-scale.observation=2.0")
    same, changed = "dummy-scale.observation=1.0", ("dummy-scale.reward=0.5", "dummy-gradient.learning_rate=1.0")
    resume_run(folder, *(f"players.main.{setting}" for setting in (same, *changed)))
    text = (folder / "run.toml").read_text()
    (folder / "run.toml").write_text(text.replace("observation = 1.0", "observation = 2.0"))
    with pytest.raises(ConfigError, match=rf"run\.toml:{other}"):
        resume_run(folder)
    tables = tomllib.loads(text)
    tables["players"]["other"] = {"algorithm": "ppo", "matchmaker": "dummy-uniform"}
    (folder / "run.toml").write_text(tomli_w.dumps(tables))
    with pytest.raises(ConfigError, match=r"players\.other\.algorithm: was 'dummy-gradient', got 'ppo'"):
        resume_run(folder)


def test_role_of_a_player_cannot_change(run, tmp_path):
    """The role is checked even if weights of the other role would fit."""
    players = {"main": {"role": "hider"}, "other": {"role": "seeker"}}
    run(tmp_path / "run", run={"decisions": 64}, environment="dummy-guess", players=players)
    with pytest.raises(ConfigError, match=r"players\.main\.role: was 'hider', got 'seeker'"):
        resume_run(tmp_path / "run", "players.main.role='seeker'", "players.other.role='hider'")


def test_player_without_saved_state_can_change(run, tmp_path, monkeypatch):
    """Without a model or checkpoint of the player, any option may change."""
    with monkeypatch.context() as broken:
        broken.setattr("ludus_dummy.algorithm.GradientTrainer.update", lambda trainer, batch, progress: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(tmp_path / "run")
    result = resume_run(tmp_path / "run", "players.main.interfaces=['dummy-scale']")
    assert result.reason == "2,000 decisions are learned"


def test_returning_player_must_fit_its_models(run, toml, tmp_path):
    """The check covers players that were added later and removed since."""
    folder, both = tmp_path / "run", {"main": {}, "second": {"interfaces": ["dummy-scale"]}}
    run(folder, run={"decisions": 64})
    for players, decisions in ((both, 1000), ({"main": {}}, 1500)):
        toml(folder / "run.toml", players=players, run={"decisions": decisions})
        resume_run(folder)
    toml(folder / "run.toml", players={**both, "second": {}}, run={"decisions": 2000})
    with pytest.raises(ConfigError, match=r"players\.second\.interfaces: was \['dummy-scale'\], got \[\]"):
        resume_run(folder)
    toml(folder / "run.toml", players=both, run={"decisions": 2000})
    assert resume_run(folder).reason == "2,000 decisions are learned"


def kill_at_checkpoint(monkeypatch, start, player):
    """Start a run that is killed when the first checkpoint of a player is committed."""
    commit = Store.commit

    def commit_and_die(store):
        commit(store)
        assert player not in store.checkpoints.latest(), "killed"

    with monkeypatch.context() as often:
        often.setattr(
            "ludus._run.worker_factories.LearnerOptions",
            lambda **given: LearnerOptions(**given | {"checkpoint_s": 0.0}),
        )
        often.setattr(Store, "commit", commit_and_die)
        with pytest.raises(AssertionError, match="killed"):
            start()


@pytest.mark.parametrize("added", [True, False])
def test_player_without_a_model_must_fit_its_checkpoint(run, toml, tmp_path, monkeypatch, added):
    """The check covers players that were added later, or changed before their first checkpoint."""
    folder, scaled = tmp_path / "run", {"interfaces": ["dummy-scale"], "freeze_every_decisions": 0}
    before = {"main": {}} if added else {"main": {}, "second": {"share": 0.0}}
    kill_at_checkpoint(monkeypatch, lambda: run(folder, players=before), "main")
    toml(folder / "run.toml", players={"main": {}, "second": scaled})
    kill_at_checkpoint(monkeypatch, lambda: resume_run(folder), "second")
    with Store.read(folder) as store:
        assert "second" not in {model.player for model in store.models.records()}
    with pytest.raises(ConfigError, match=r"players\.second\.interfaces: was \['dummy-scale'\], got \[\]"):
        resume_run(folder, "players.second.interfaces=[]")
    assert resume_run(folder).reason == "2,000 decisions are learned"


def final_fixtures(run_dir):
    """Return participants and seeds of the fixtures of final evaluations, oldest first."""
    with Store.read(run_dir) as store:
        fixtures = [record.fixture for record in store.fixtures.records(kind="eval")]
    return [(fixture.participants, fixture.seed) for fixture in fixtures if fixture.reason == "final evaluation"]


def test_final_evaluation_plays_new_pairs_on_new_seeds(run, tmp_path):
    """A resume without a new model plays no pair again; a new anchor is played."""
    run(tmp_path / "run", run={"decisions": 600})
    first = final_fixtures(tmp_path / "run")
    resume_run(tmp_path / "run")
    assert final_fixtures(tmp_path / "run") == first
    resume_run(tmp_path / "run", "anchors.perfect.agent=dummy-perfect")
    assert {name for seats, _ in final_fixtures(tmp_path / "run")[len(first) :] for name in seats} == {
        first[0][0][0],
        "perfect",
    }
    resume_run(tmp_path / "run", "run.decisions=1200")
    last = final_fixtures(tmp_path / "run")
    assert len(last) > 2 * len(first)
    assert len({seed for _, seed in last}) == len(last) / 2  # those with exchanged seats have one seed


def test_folder_of_a_run_is_rejected(run, tmp_path):
    """The message holds the shell command that resumes the run."""
    folder = tmp_path / "a run"
    run(folder, run={"decisions": 64})
    with pytest.raises(RunError, match=f"already holds a run: continue it with `ludus resume '{folder}'`"):
        run(folder)


def test_folder_of_a_failed_start_can_be_reused(run, tmp_path, monkeypatch):
    """The corrected run starts without any state of the failed one."""
    folder = tmp_path / "run"
    with monkeypatch.context() as broken:
        broken.setattr("ludus._run.session.configure_process", lambda threads: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(folder, run={"seed": 5})
    assert (folder / "run.toml").exists()
    outcome, _ = run(folder, run={"decisions": 64})
    assert outcome.reason == "64 decisions are learned"
    with Store.read(folder) as store:
        assert store.counters()["sessions"] == 1
        assert store.meta("seed") == load_config(folder / "run.toml", plugins=load_plugins()).run.seed == 3


@pytest.mark.parametrize("text", ["mine", "[run]\ndecisions = 65\n"])
def test_other_run_file_is_not_replaced(run, tmp_path, text):
    """A run.toml with another configuration is an error."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_text(text)
    with pytest.raises(RunError, match=r"run\.toml differs from the configuration of this run: train it as it is"):
        run(tmp_path / "run", run={"decisions": 64})
    assert (tmp_path / "run" / "run.toml").read_text() == text


def test_folder_may_contain_its_run_file(run, tmp_path):
    """The file keeps its comments; before the first start, `resume` suggests `train`."""
    folder = tmp_path / "run"
    run(tmp_path / "other", run={"decisions": 64})
    folder.mkdir()
    text = "# mine\n" + (tmp_path / "other" / "run.toml").read_text()
    (folder / "run.toml").write_text(text)
    with pytest.raises(RunError, match=r"run holds no run yet: start it with `ludus train .*run\.toml --run .*run`"):
        resume_run(folder)
    outcome, _ = run(folder, run={"decisions": 64})
    assert outcome.reason == "64 decisions are learned"
    assert (folder / "run.toml").read_text() == text
    resume_run(folder, "run.decisions=128")


def test_folder_with_models_but_no_database_is_rejected(run, tmp_path):
    """The database may have been moved."""
    run(tmp_path / "run", run={"decisions": 64})
    for path in (tmp_path / "run").glob("league.sqlite*"):
        path.unlink()
    with pytest.raises(RunError, match="already holds a run"):
        run(tmp_path / "run", run={"decisions": 64})
    with pytest.raises(RunError, match="is not a run folder"):
        resume_run(tmp_path / "run")


@pytest.mark.parametrize("limit", ["run.decisions=100", "run.minutes=1e-6"])
def test_reached_limit_is_an_error(run, tmp_path, limit):
    """The stored limits are unchanged."""
    folder = tmp_path / "run"
    run(folder)
    before = read_run(folder), (folder / "run.toml").read_bytes()
    with pytest.raises(RunError, match=r"already over after .* minutes and 2,\d+ decisions; nothing to do — give more"):
        resume_run(folder, limit)
    assert (read_run(folder), (folder / "run.toml").read_bytes()) == before


def test_decisions_lost_in_a_crash_are_learned_again(run, tmp_path):
    """Decisions without a checkpoint or model do not count towards limits."""
    folder = tmp_path / "run"
    run(folder, run={"decisions": 64})
    with Store.open(folder) as store:
        store.set_counter("decisions/main", 5000)
        store.commit()
    outcome = resume_run(folder, "run.decisions=1000")
    assert outcome.reason == "1,000 decisions are learned"
    assert 1000 <= outcome.summary["decisions"] < 2000
    assert 1000 <= read_run(folder)["models"][-1][2] < 2000


@pytest.mark.parametrize("name", ["logs", "metrics.jsonl", "models/more", "checkpoints"])
def test_links_out_of_the_run_folder_are_refused(run, tmp_path, name):
    """A folder from another person could let the run write to any file."""
    folder, outside = tmp_path / "run", tmp_path / "outside"
    run(folder)
    outside.mkdir()
    (folder / "inside").symlink_to("models")
    link = folder / name
    if link.is_dir():
        link.rename(tmp_path / "moved")
    link.unlink(missing_ok=True)
    link.symlink_to(outside)
    with pytest.raises(RunError, match=rf"run/{name} is a link to .*outside, outside of the run folder: a run writes"):
        resume(folder, plugins=load_plugins(), print_line=print)
    assert list(outside.iterdir()) == []
    link.unlink()
    link.symlink_to(link.name)  # a loop
    check_folder(folder)


def test_links_in_a_folder_for_a_new_run_are_refused(run, tmp_path):
    """It may hold a run file and logs."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "logs").symlink_to(tmp_path)
    with pytest.raises(RunError, match="run/logs is a link to"):
        run(tmp_path / "run")


def test_resume_needs_a_run(tmp_path):
    """The message suggests how to start one."""
    with pytest.raises(RunError, match=r"holds no run \(no run.toml in it\): start one with `ludus train"):
        resume_run(tmp_path)


def test_folder_in_use_is_an_error(run, tmp_path):
    """The second process reports that the folder is in use."""
    run(tmp_path / "run", run={"decisions": 64})
    with Store.open(tmp_path / "run"), pytest.raises(RunError, match="in use"):
        resume_run(tmp_path / "run")


def test_stalled_run_prints_a_warning(run, tmp_path, monkeypatch):
    """The warning is printed once, with a fix; here fixture requests are lost."""

    class Deaf(InProcessPool):
        def receive(self, timeout_s):
            return [
                (peer, printed)
                for peer, printed in super().receive(timeout_s)
                if not isinstance(printed, FixtureRequest)
            ]

    monkeypatch.setattr(_session, "InProcessPool", Deaf)
    limits = {"decisions": 0, "minutes": 0.1, "stall_s": 1.0}
    _, printed = run(tmp_path / "run", run=limits, evaluation={"final_matches": 0})
    (line,) = printed
    assert line == (
        f"nothing was played for 1 s: samplers have no matches, or make no progress in them; "
        f"stop and `ludus resume {tmp_path / 'run'}`"
    )


def test_stalled_environment_prints_a_warning(run, tmp_path, monkeypatch):
    """The environment is stepped, but no seat acts."""

    def wait(game, actions):
        game._player.acting[:] = False
        return game._tick

    monkeypatch.setattr(Count, "step", wait)
    limits = {"decisions": 0, "minutes": 0.1, "stall_s": 1.0}
    _, printed = run(tmp_path / "run", run=limits, evaluation={"final_matches": 0})
    (line,) = printed
    assert re.fullmatch(
        r"no seat has acted and no match has ended for 1 s: the environment plays [\d,]+ ticks/s; expected seats "
        r"that act, or matches that end; stop and `ludus resume .*run`",
        line,
    )


def test_failing_matchmaker_loses_no_decisions(run, tmp_path, monkeypatch):
    """The run ends with an error after learners have saved their weights."""
    answer, asked = Uniform.next_fixture, []

    def fail(matchmaker, league, player, rng):
        asked.append(player)
        return answer(matchmaker, league, player, rng) if len(asked) < 40 else 1 / 0

    monkeypatch.setattr(Uniform, "next_fixture", fail)
    with pytest.raises(PluginError, match="matchmaker of player 'main' failed: ZeroDivisionError"):
        run(tmp_path / "run", run={"decisions": 0, "minutes": 1.0, "checkpoint_s": 1000.0})
    with Store.read(tmp_path / "run") as store:
        learned = store.counters()["decisions/main"]
        assert store.checkpoints.latest()["main"].decisions == learned > 0
        assert store.models.records()[-1].decisions == learned


def test_failing_metric_sink_factory_closes_other_sinks(run, tmp_path, monkeypatch):
    """Sinks that were made before are closed."""
    made = []

    def make(sink, config, *, run_dir):
        if made:
            raise ConnectionError("no server")
        made.append(sink)

    monkeypatch.setattr(MemorySink, "__init__", make)
    with pytest.raises(PluginError, match="'dummy-memory' failed: ConnectionError: no server"):
        run(tmp_path / "run", metrics={"sinks": ["dummy-memory", "dummy-memory"]})
    assert made[0].closed


@pytest.mark.parametrize("kind", [ConnectionError, SystemExit])
@pytest.mark.parametrize("broken", ["write", "close"])
def test_failing_metric_sink_is_dropped(run, tmp_path, monkeypatch, broken, kind):
    """One line is printed; the run and other sinks continue, even if the sink calls exit."""

    def fail(*_):
        raise kind("no server")

    monkeypatch.setattr(MemorySink, broken, fail)
    outcome, printed = run(tmp_path / "run", metrics={"sinks": ["dummy-memory"], "interval_s": 0.1})
    assert outcome.reason == "2,000 decisions are learned"
    assert (
        printed.count(f"metric sink 'dummy-memory' failed: {kind.__name__}: no server — it gets no more metrics") == 1
    )
    assert len(list(read_metrics(tmp_path / "run" / "metrics.jsonl"))) > 1


def test_invalid_matchmaker_result_is_found_before_the_start(run, tmp_path, monkeypatch):
    """A dry run calls all methods, including those that are otherwise called late."""
    monkeypatch.setattr(Uniform, "next_evaluation", lambda *_: ("main@0+", "random"))
    with pytest.raises(ContractError, match="matchmaker of the evaluation: next_evaluation: 'main@0\\+' cannot play"):
        run(tmp_path / "run", evaluation={"share": 1e-9})
    with Store.read(tmp_path / "run") as store:
        assert list(store.matches.records()) == []


def test_closed_terminal_does_not_end_the_run(toml, tmp_path):
    """The callback raises an OSError; the run and its final evaluation finish."""
    told = []

    def print_line(line):
        told.append(line)
        raise OSError(errno.EIO, "Input/output error")

    plugins = load_plugins()
    outcome = train(
        load_config(toml(), plugins=plugins), plugins=plugins, run_dir=tmp_path / "run", print_line=print_line
    )
    assert outcome.reason == "2,000 decisions are learned"
    assert told[0].startswith("final evaluation: main@")


@pytest.mark.usefixtures("ent_coef_final")
def test_schedules_without_a_budget_print_a_warning(toml, tmp_path):
    """The warning lists the options and how to set a budget."""
    players, plugins = {"main": {"dummy-gradient": {"ent_coef_final": 0.0}}}, load_plugins()
    config = load_config(toml(players=players, run={"decisions": 0}), plugins=plugins)

    def print_line(line):
        raise KeyboardInterrupt(line)

    expected = (
        "there is no training budget (run.minutes, run.decisions), so these have no effect: "
        "players.main.dummy-gradient.ent_coef_final — give one with --minutes or --set run.decisions="
    )
    with pytest.raises(KeyboardInterrupt, match=re.escape(expected)):
        train(config, plugins=plugins, run_dir=tmp_path / "run", print_line=print_line)


def test_fatal_failure_ends_the_run_before_a_restart(run, tmp_path, monkeypatch):
    """The coordinator checks for failures before the pool restarts workers."""
    looked = []

    class Failing(InProcessPool):
        def receive(self, timeout_s):
            return [("learner-main", Failure(error="no room", fatal=True))]

        def check(self, *, last_seen_s, errors):
            looked.append(dict(errors))

        def finish(self, *, timeout_s, poll):
            return []

    monkeypatch.setattr(_session, "InProcessPool", Failing)
    with pytest.raises(RunError, match="no room"):
        run(tmp_path / "run")
    assert looked == []


def test_moved_folder_is_reported_instead_of_worker_errors(run, tmp_path, monkeypatch):
    """The files that the worker misses are in the new folder."""

    class Failing(InProcessPool):
        def check(self, *, last_seen_s, errors):
            if (tmp_path / "run").exists():
                (tmp_path / "run").rename(tmp_path / "moved")
            raise WorkerError("sampler-0: could not be started")

    monkeypatch.setattr(_session, "InProcessPool", Failing)
    with pytest.raises(RunError, match="was moved or removed while the run wrote it"):
        run(tmp_path / "run")


def test_worker_failure_while_stopping_is_printed(run, tmp_path, monkeypatch):
    """The unsaved work of the worker is lost."""

    class Failing(InProcessPool):
        def finish(self, **given):
            failure = Failure(error="no memory", fatal=False)
            self.endpoint("learner-main").send(COORDINATOR, failure)
            return super().finish(**given)

    monkeypatch.setattr(_session, "InProcessPool", Failing)
    _, printed = run(tmp_path / "run", evaluation={"final_matches": 0})
    assert printed == ["learner-main: no memory, while it stopped; its unsaved work is lost"]


def test_learner_lost_at_the_limit_is_restarted(run, tmp_path, monkeypatch):
    """Unsaved decisions are learned again before the run ends with a model."""
    deaths = []

    class Mortal(InProcessPool):
        def __init__(self, workers, make, check_limits):
            super().__init__(workers, make, check_limits)
            self.make = make

        @property
        def alive(self):
            return [name for name in super().alive if (name, "dead") not in deaths]

        def check(self, **given):
            (learner, link), *others = self._workers
            if self.alive != super().alive:
                deaths[:] = [(learner.name, "restarted")]
                self._workers = [(self.make(learner.name, link), link), *others]
                self._workers[0][0].start()
            super().check(**given)
            if not deaths and learner.state.decisions >= 2000:
                deaths.append((learner.name, "dead"))

    monkeypatch.setattr(_session, "InProcessPool", Mortal)
    outcome, _ = run(tmp_path / "run", players={"main": {"freeze_every_decisions": 0}})
    assert deaths == [("learner-main", "restarted")]
    assert outcome.reason == "2,000 decisions are learned"
    assert [2000 <= decisions < 3000 for _, _, decisions in read_run(tmp_path / "run")["models"]] == [True]


def test_learner_lost_while_stopping_keeps_the_reason(run, tmp_path, monkeypatch):
    """The limit remains the reason, although its checkpoint is below the limit."""

    class Mortal(InProcessPool):
        def __init__(self, workers, make, check_limits):
            super().__init__(workers, make, check_limits)
            self.make = make

        def finish(self, **given):
            (learner, link), *others = self._workers
            self._workers = [(self.make(learner.name, link), link), *others]
            self._workers[0][0].start()
            return super().finish(**given)

    monkeypatch.setattr(_session, "InProcessPool", Mortal)
    outcome, _ = run(tmp_path / "run", players={"main": {"freeze_every_decisions": 0}})
    assert outcome.reason == "2,000 decisions are learned"
    assert outcome.summary["decisions"] < 2000


# -- signals ---------------------------------------------------------------------------------------------------------


def child_processes(pid):
    """Return the ids of the child processes of a process."""
    shown = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in shown.stdout.split()]


@pytest.fixture
def start_run(toml, tmp_path):
    """Return a function that starts an endless run in `tmp_path / "run"` and waits for its first checkpoint."""
    with ExitStack() as stack:

        def start(stdout, *, workers=1, stderr=subprocess.DEVNULL):
            path, folder = toml(run={"decisions": 0, "workers": workers}), tmp_path / "run"
            process = subprocess.Popen(
                [sys.executable, "-m", "ludus", "train", str(path), "--run", str(folder)],
                stdout=stdout,
                stderr=stderr,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509 - nohup is inherited
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            deadline = time.monotonic() + 40
            while len(list((folder / "models").glob("*.safetensors"))) < 2:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
            return process

        yield start


def check_saved(folder):
    """Check that the last weights were saved."""
    with Store.read(folder) as store:
        (saved,) = store.checkpoints.latest().values()
        assert saved.decisions == store.models.records()[-1].decisions > 0


@pytest.mark.parametrize(("workers", "number"), [(0, signal.SIGINT), (1, signal.SIGINT), (1, signal.SIGHUP)])
def test_an_interrupt_stops_cleanly(start_run, tmp_path, is_alive, workers, number):
    """SIGINT, SIGTERM and SIGHUP save the state, print how to resume, and leave no process."""
    process = start_run(subprocess.PIPE, workers=workers, stderr=subprocess.STDOUT)
    workers_pids = child_processes(process.pid)
    assert len(workers_pids) == (3 if workers else 0)
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130, output
    assert f"{number.name}: stopping cleanly" in output
    assert f"stopped: {number.name}" in output
    assert f"ludus resume {tmp_path / 'run'}" in "".join(output.splitlines())
    assert "Traceback" not in output
    assert not any(is_alive(pid) for pid in workers_pids)
    check_saved(tmp_path / "run")


def test_interrupt_ends_the_final_evaluation(toml, tmp_path):
    """The current pair is dropped, earlier pairs are kept, and a resume plays the rest."""
    printed, plugins, folder = [], load_plugins(), tmp_path / "run"

    def print_line(line):
        printed.append(line)
        if line.startswith("final evaluation") and len(printed) == 2:
            signal.raise_signal(signal.SIGINT)

    config = load_config(toml(anchors={"perfect": {"agent": "dummy-perfect"}}), plugins=plugins)
    outcome = train(config, plugins=plugins, run_dir=folder, print_line=print_line)
    assert outcome.interrupted
    assert printed[-1] == "SIGINT: stopping cleanly (again: at once)"
    played = final_fixtures(folder)
    assert len(played) == 2
    with Store.read(folder) as store:
        assert not [fixture for fixture in store.fixtures.unfinished() if fixture.reason == "final evaluation"]
    resume_run(folder)
    pairs = {frozenset(seats) for seats, _ in final_fixtures(folder)}
    assert len(final_fixtures(folder)) == 2 * len(pairs) > len(played)


@pytest.mark.parametrize("ends", [pty.openpty, os.pipe])
def test_run_continues_after_its_output_is_closed(start_run, tmp_path, ends):
    """A worker is restarted and the state is saved, although nothing can be printed."""
    reader, writer = ends()
    process = start_run(writer)
    os.close(writer)
    os.close(reader)
    sampler = child_processes(process.pid)[-1]
    os.kill(sampler, signal.SIGKILL)
    deadline = time.monotonic() + 40
    while len(left := child_processes(process.pid)) < 3 or sampler in left:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 141
    check_saved(tmp_path / "run")
