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

import pytest
import tomli_w
from ludus._config.run_config import load_config
from ludus._learning.learner import LearnerOptions
from ludus._messaging.in_process import InProcessPool
from ludus._messaging.messages import Failure, FixtureRequest
from ludus._plugins.manager import load_plugins
from ludus._run import session as _session
from ludus._run.metrics import read_metrics
from ludus._run.runner import resume, train
from ludus._store.model_files import load_arrays
from ludus._store.store import Store
from ludus.errors import ConfigError, ContractError, LudusError, ModelError, PluginError, RunError, WorkerError
from ludus.launcher import COORDINATOR
from ludus_dummy.count import Count
from ludus_dummy.matchmaker import Uniform
from ludus_dummy.sink import MemorySink


@pytest.fixture
def run(toml):
    """Return a trainer of small runs in this process."""

    def make(run_dir, **given):
        said = []
        plugins = load_plugins()
        config = load_config(toml(**given), plugins=plugins)
        return train(config, plugins=plugins, run_dir=run_dir, print_line=said.append), said

    return make


def again(run_dir, *overrides):
    """Resume a run."""
    return resume(run_dir, plugins=load_plugins(), print_line=lambda line: None, overrides=overrides)


def traces(run_dir):
    """Return what a run left, apart from times."""
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
    """Model files, match log and league metrics agree bit for bit; another seed gives another run."""
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(tmp_path / name, run={"seed": seed}, anchors=("random", "perfect"))
    first, second, other = (traces(tmp_path / name) for name in "abc")
    assert first == second
    assert len(first["models"]) >= 4
    assert any("score_v_perfect" in name for name in first["league"])
    assert other["models"] != first["models"]
    assert other["matches"] != first["matches"]


def test_speed_does_not_change_a_run(run, tmp_path, monkeypatch):
    """On a machine that is a thousand times slower the run is the same."""
    run(tmp_path / "fast", anchors=("random", "perfect"))
    monotonic = time.monotonic
    monkeypatch.setattr("ludus._run.session._STOP_TIMEOUT_S", math.inf)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() * 1000)
    run(tmp_path / "slow", anchors=("random", "perfect"))
    fast, slow = traces(tmp_path / "fast"), traces(tmp_path / "slow")
    assert slow["models"] == fast["models"]
    assert slow["matches"] == fast["matches"]


def test_slow_reports_come_less_often(run, tmp_path, monkeypatch):
    """Reports of half a second are made at most every ten seconds, however often they are wanted."""
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
    monkeypatch.setattr("ludus._run.reporting.collect_metrics", slow)
    run(tmp_path / "run", anchors=("random",))
    *regular, _last = started
    assert len(regular) > 2
    assert min(later - earlier for earlier, later in itertools.pairwise(regular)) >= 10


def test_the_outcome_and_the_last_evaluation_are_recorded(run, tmp_path):
    """The reason, the newest model against every anchor with paired seats, and it is said beforehand."""
    outcome, said = run(tmp_path / "run", anchors=("random", "perfect"))
    assert (outcome.reason, outcome.interrupted) == ("2,000 decisions are learned", False)
    newest = outcome.summary["players"]["main"]["newest"]
    assert f"final evaluation: {newest} against perfect, 20 matches" in said
    with Store.read(tmp_path / "run") as store:
        final = [m for m in store.matches.records(kind="eval") if m.fixture.reason == "final evaluation"]
    for anchor in ("random", "perfect"):
        seats = [m.fixture.participants for m in final if anchor in m.fixture.participants]
        assert seats.count((newest, anchor)) == seats.count((anchor, newest)) == 10
        record = outcome.summary["players"]["main"]["anchors"][anchor]
        assert record["wins"] + record["draws"] + record["losses"] >= 20


def test_it_learns(run, tmp_path):
    """Against itself, up to beating chance by far."""
    outcome, _ = run(tmp_path / "run", run={"decisions": 6000}, evaluation={"final_matches": 100})
    assert outcome.summary["players"]["main"]["anchors"]["random"]["interval"][0] > 0.6


def test_a_resumed_run_counts_on(run, tmp_path):
    """Decisions, models, matches and metrics go on from where they were."""
    first, _ = run(tmp_path / "run")
    before = traces(tmp_path / "run")
    second = again(tmp_path / "run", "run.decisions=4000")
    after = traces(tmp_path / "run")
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


def test_a_resumed_run_goes_on_from_its_weights(run, tmp_path):
    """A run that has nothing left to do leaves the models it had."""
    run(tmp_path / "run")
    before = traces(tmp_path / "run")["models"]
    assert again(tmp_path / "run").reason == "2,000 decisions are learned"
    assert traces(tmp_path / "run")["models"] == before
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
def test_what_the_run_cannot_go_on_with_is_not_written(run, tmp_path, setting, problem):
    """The folder stays as it was, and a plain resume goes on."""
    run(tmp_path / "run", run={"decisions": 64})
    before = (tmp_path / "run" / "run.toml").read_bytes()
    with pytest.raises(LudusError, match=problem):
        again(tmp_path / "run", setting)
    assert (tmp_path / "run" / "run.toml").read_bytes() == before
    assert again(tmp_path / "run").reason == "64 decisions are learned"


def test_a_run_whose_player_lacks_its_network_does_not_begin(toml, tmp_path):
    """The folder is not made either."""
    path, plugins = toml(), load_plugins()
    path.write_text(re.sub(r"\n\[players\.main\.dummy-gradient\][^[]*", "\n", path.read_text()))
    config = load_config(path, plugins=plugins, overrides=["players.main.algorithm='ppo'"])
    with pytest.raises(ConfigError, match=r"run\.toml:players\.main\.network: missing; .*'ppo' needs a network"):
        train(config, plugins=plugins, run_dir=tmp_path / "run", print_line=str)
    assert not (tmp_path / "run").exists()


def test_a_setting_that_the_saved_state_refuses_is_not_written(run, tmp_path, monkeypatch):
    """Whatever the trainer raises; here one that remembers how large its batches were."""

    def load_state(trainer, state):
        if trainer.batch_decisions != 64:
            raise ModelError("expected batches of 64")

    monkeypatch.setattr("ludus_dummy.algorithm.GradientTrainer.load_state", load_state)
    run(tmp_path / "run", run={"decisions": 64})
    before = (tmp_path / "run" / "run.toml").read_bytes()
    with pytest.raises(ModelError, match="player 'main' in environment 'dummy-count': expected batches of 64"):
        again(tmp_path / "run", "players.main.dummy-gradient.batch_decisions=32", "run.decisions=128")
    assert (tmp_path / "run" / "run.toml").read_bytes() == before
    assert again(tmp_path / "run", "run.decisions=128").reason == "128 decisions are learned"


def test_options_of_what_models_rest_on_stay(run, tmp_path):
    """Whoever sets them, and however; to what they are already is no change, and what is learned may change."""
    folder = tmp_path / "run"
    scaled = {"interfaces": ["dummy-scale"]}
    run(folder, run={"decisions": 64}, players={"main": scaled, "other": {}})
    other = r"players\.main\.dummy-scale\.observation: was 1\.0, got 2\.0: models of 'main' would play differently"
    with pytest.raises(ConfigError, match=rf"--set {other}"):
        again(folder, "players.main.dummy-scale.observation=2.0")
    same, changed = "dummy-scale.observation=1.0", ("dummy-scale.reward=0.5", "dummy-gradient.learning_rate=1.0")
    again(folder, *(f"players.main.{setting}" for setting in (same, *changed)))
    text = (folder / "run.toml").read_text()
    (folder / "run.toml").write_text(text.replace("observation = 1.0", "observation = 2.0"))
    with pytest.raises(ConfigError, match=rf"run\.toml:{other}"):
        again(folder)
    tables = tomllib.loads(text)
    tables["players"]["other"] = {"algorithm": "ppo", "matchmaker": "dummy-uniform"}
    (folder / "run.toml").write_text(tomli_w.dumps(tables))
    with pytest.raises(ConfigError, match=r"players\.other\.algorithm: was 'dummy-gradient', got 'ppo'"):
        again(folder)


def test_a_player_keeps_its_role(run, tmp_path):
    """Also where weights would fit the other one."""
    players = {"main": {"role": "hider"}, "other": {"role": "seeker"}}
    run(tmp_path / "run", run={"decisions": 64}, environment="dummy-guess", players=players)
    with pytest.raises(ConfigError, match=r"players\.main\.role: was 'hider', got 'seeker'"):
        again(tmp_path / "run", "players.main.role='seeker'", "players.other.role='hider'")


def test_a_player_that_has_saved_nothing_may_become_another(run, tmp_path, monkeypatch):
    """As where its network was too large for the first update; no model of it would play differently."""
    with monkeypatch.context() as broken:
        broken.setattr("ludus_dummy.algorithm.GradientTrainer.update", lambda trainer, batch, progress: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(tmp_path / "run")
    assert again(tmp_path / "run", "players.main.interfaces=['dummy-scale']").reason == "2,000 decisions are learned"


def test_a_player_that_comes_back_is_as_its_models_are(run, toml, tmp_path):
    """One that was added later and removed since, too."""
    folder, both = tmp_path / "run", {"main": {}, "second": {"interfaces": ["dummy-scale"]}}
    run(folder, run={"decisions": 64})
    for players, decisions in ((both, 1000), ({"main": {}}, 1500)):
        toml(folder / "run.toml", players=players, run={"decisions": decisions})
        again(folder)
    toml(folder / "run.toml", players={**both, "second": {}}, run={"decisions": 2000})
    with pytest.raises(ConfigError, match=r"players\.second\.interfaces: was \['dummy-scale'\], got \[\]"):
        again(folder)
    toml(folder / "run.toml", players=both, run={"decisions": 2000})
    assert again(folder).reason == "2,000 decisions are learned"


def killed(monkeypatch, start, player):
    """Start a run that dies as soon as a checkpoint of a player is committed."""
    commit = Store.commit

    def commit_and_die(store):
        commit(store)
        assert player not in store.checkpoints.latest(), "killed"

    with monkeypatch.context() as often:
        often.setattr(
            "ludus._run.learner_factory.LearnerOptions", lambda **given: LearnerOptions(**given | {"checkpoint_s": 0.0})
        )
        often.setattr(Store, "commit", commit_and_die)
        with pytest.raises(AssertionError, match="killed"):
            start()


@pytest.mark.parametrize("added", [True, False])
def test_a_player_without_a_model_is_as_its_checkpoint_is(run, toml, tmp_path, monkeypatch, added):
    """Whether it was added later or had saved nothing when it was changed; the run before was killed."""
    folder, scaled = tmp_path / "run", {"interfaces": ["dummy-scale"], "freeze_every_decisions": 0}
    before = {"main": {}} if added else {"main": {}, "second": {"share": 0.0}}
    killed(monkeypatch, lambda: run(folder, players=before), "main")
    toml(folder / "run.toml", players={"main": {}, "second": scaled})
    killed(monkeypatch, lambda: again(folder), "second")
    with Store.read(folder) as store:
        assert "second" not in {model.player for model in store.models.records()}
    with pytest.raises(ConfigError, match=r"players\.second\.interfaces: was \['dummy-scale'\], got \[\]"):
        again(folder, "players.second.interfaces=[]")
    assert again(folder).reason == "2,000 decisions are learned"


def finals(run_dir):
    """Return participants and seed of the fixtures of final evaluations, oldest first."""
    with Store.read(run_dir) as store:
        fixtures = [record.fixture for record in store.fixtures.records(kind="eval")]
    return [(fixture.participants, fixture.seed) for fixture in fixtures if fixture.reason == "final evaluation"]


def test_final_evaluations_are_of_what_is_new_on_new_seeds(run, tmp_path):
    """A resume without a new model plays none; an anchor that is new is met."""
    run(tmp_path / "run", run={"decisions": 600})
    first = finals(tmp_path / "run")
    again(tmp_path / "run")
    assert finals(tmp_path / "run") == first
    again(tmp_path / "run", "anchors.perfect.agent=dummy-perfect")
    assert {name for seats, _ in finals(tmp_path / "run")[len(first) :] for name in seats} == {
        first[0][0][0],
        "perfect",
    }
    again(tmp_path / "run", "run.decisions=1200")
    last = finals(tmp_path / "run")
    assert len(last) > 2 * len(first)
    assert len({seed for _, seed in last}) == len(last) / 2  # those with exchanged seats have one seed


def test_a_folder_takes_one_run(run, tmp_path):
    """The line says how to go on instead, as a shell reads it."""
    folder = tmp_path / "a run"
    run(folder, run={"decisions": 64})
    with pytest.raises(RunError, match=f"already holds a run: continue it with `ludus resume '{folder}'`"):
        run(folder)


def test_a_failed_start_gives_its_folder_back(run, tmp_path, monkeypatch):
    """The corrected run begins where the broken one was, and there is nothing of that."""
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
def test_a_foreign_file_is_not_replaced(run, tmp_path, text):
    """A run.toml that says something else belongs to somebody."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_text(text)
    with pytest.raises(RunError, match=r"run\.toml differs from the configuration of this run: train it as it is"):
        run(tmp_path / "run", run={"decisions": 64})
    assert (tmp_path / "run" / "run.toml").read_text() == text


def test_a_folder_may_hold_the_file_of_its_run(run, tmp_path):
    """It is trained there, and keeps its comments; before, `resume` says how to start."""
    folder = tmp_path / "run"
    run(tmp_path / "other", run={"decisions": 64})
    folder.mkdir()
    text = "# mine\n" + (tmp_path / "other" / "run.toml").read_text()
    (folder / "run.toml").write_text(text)
    with pytest.raises(RunError, match=r"run holds no run yet: start it with `ludus train .*run\.toml --run .*run`"):
        again(folder)
    outcome, _ = run(folder, run={"decisions": 64})
    assert outcome.reason == "64 decisions are learned"
    assert (folder / "run.toml").read_text() == text
    again(folder, "run.decisions=128")


def test_models_without_a_league_are_no_place_for_a_run(run, tmp_path):
    """Somebody may still find the database."""
    run(tmp_path / "run", run={"decisions": 64})
    for path in (tmp_path / "run").glob("league.sqlite*"):
        path.unlink()
    with pytest.raises(RunError, match="already holds a run"):
        run(tmp_path / "run", run={"decisions": 64})
    with pytest.raises(RunError, match="is not a run folder"):
        again(tmp_path / "run")


@pytest.mark.parametrize("limit", ["run.decisions=100", "run.minutes=1e-6"])
def test_a_limit_that_is_over_changes_nothing(run, tmp_path, limit):
    """It is one line, and the limits stay as they were."""
    folder = tmp_path / "run"
    run(folder)
    before = traces(folder), (folder / "run.toml").read_bytes()
    with pytest.raises(RunError, match=r"already over after .* minutes and 2,\d+ decisions; nothing to do — give more"):
        again(folder, limit)
    assert (traces(folder), (folder / "run.toml").read_bytes()) == before


def test_what_a_crash_lost_is_learned_again(run, tmp_path):
    """Decisions that no checkpoint and no model holds reach no limit."""
    folder = tmp_path / "run"
    run(folder, run={"decisions": 64})
    with Store.open(folder) as store:
        store.set_counter("decisions/main", 5000)
        store.commit()
    outcome = again(folder, "run.decisions=1000")
    assert outcome.reason == "1,000 decisions are learned"
    assert 1000 <= outcome.summary["decisions"] < 2000
    assert 1000 <= traces(folder)["models"][-1][2] < 2000


def test_only_a_run_can_be_resumed(tmp_path):
    """The line says how to start one."""
    with pytest.raises(RunError, match=r"holds no run \(no run.toml in it\): start one with `ludus train"):
        again(tmp_path)


def test_two_processes_do_not_share_a_run(run, tmp_path):
    """The second one is told that the folder is in use."""
    run(tmp_path / "run", run={"decisions": 64})
    with Store.open(tmp_path / "run"), pytest.raises(RunError, match="in use"):
        again(tmp_path / "run")


def test_a_run_in_which_nothing_moves_says_so(run, tmp_path, monkeypatch):
    """Once, with what to do; here nobody hears that samplers ask for matches, and no worker has a log."""

    class Deaf(InProcessPool):
        def receive(self, timeout_s):
            return [(peer, said) for peer, said in super().receive(timeout_s) if not isinstance(said, FixtureRequest)]

    monkeypatch.setattr(_session, "InProcessPool", Deaf)
    limits = {"decisions": 0, "minutes": 0.1, "stall_s": 1.0}
    _, said = run(tmp_path / "run", run=limits, evaluation={"final_matches": 0})
    (line,) = said
    assert line == (
        f"nothing was played for 1 s: samplers have no matches, or make no progress in them; "
        f"stop and `ludus resume {tmp_path / 'run'}`"
    )


def test_an_environment_that_waits_for_ever_is_told(run, tmp_path, monkeypatch):
    """It is stepped all the time, which comes to nothing."""

    def wait(game, actions):
        game._player.acting[:] = False
        return game._tick

    monkeypatch.setattr(Count, "step", wait)
    limits = {"decisions": 0, "minutes": 0.1, "stall_s": 1.0}
    _, said = run(tmp_path / "run", run=limits, evaluation={"final_matches": 0})
    (line,) = said
    assert re.fullmatch(
        r"no seat has acted and no match has ended for 1 s: the environment plays [\d,]+ ticks/s; expected seats "
        r"that act, or matches that end; stop and `ludus resume .*run`",
        line,
    )


def test_a_matchmaker_that_fails_costs_nothing_that_was_learned(run, tmp_path, monkeypatch):
    """The run ends with the line, but cleanly: learners save their last weights first."""
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


def test_a_metric_sink_that_cannot_be_made_leaves_none_open(run, tmp_path, monkeypatch):
    """Those before it are closed."""
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
def test_a_metric_sink_that_fails_is_left_out(run, tmp_path, monkeypatch, broken, kind):
    """It is told of once; the run and the other sinks go on, also where it wants to exit."""

    def fail(*_):
        raise kind("no server")

    monkeypatch.setattr(MemorySink, broken, fail)
    outcome, said = run(tmp_path / "run", metrics={"sinks": ["dummy-memory"], "interval_s": 0.1})
    assert outcome.reason == "2,000 decisions are learned"
    assert said.count(f"metric sink 'dummy-memory' failed: {kind.__name__}: no server — it gets no more metrics") == 1
    assert len(list(read_metrics(tmp_path / "run" / "metrics.jsonl"))) > 1


def test_an_answer_that_is_wrong_from_the_beginning_ends_the_run_at_once(run, tmp_path, monkeypatch):
    """Before anything was played, also where it is asked for the first time after hours only."""
    monkeypatch.setattr(Uniform, "next_evaluation", lambda *_: ("main@0+", "random"))
    with pytest.raises(ContractError, match="matchmaker of the evaluation: next_evaluation: 'main@0\\+' cannot play"):
        run(tmp_path / "run", evaluation={"share": 1e-9})
    with Store.read(tmp_path / "run") as store:
        assert list(store.matches.records()) == []


def test_who_cannot_be_told_ends_no_run(toml, tmp_path):
    """The terminal may be gone; all is played and learned, the last evaluation too."""
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
def test_schedules_without_a_budget_are_told_of_at_the_start(toml, tmp_path):
    """By the paths of their options, and how to give one; here that ends the run."""
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


def test_a_worker_that_has_failed_for_good_is_not_restarted(run, tmp_path, monkeypatch):
    """The run ends before anybody looks who is still there."""
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


def test_a_worker_that_fails_as_the_folder_was_moved_is_not_the_reason(run, tmp_path, monkeypatch):
    """What it misses is where the folder lies now."""

    class Failing(InProcessPool):
        def check(self, *, last_seen_s, errors):
            if (tmp_path / "run").exists():
                (tmp_path / "run").rename(tmp_path / "moved")
            raise WorkerError("sampler-0: could not be started")

    monkeypatch.setattr(_session, "InProcessPool", Failing)
    with pytest.raises(RunError, match="was moved or removed while the run wrote it"):
        run(tmp_path / "run")


def test_a_worker_that_fails_while_it_stops_is_told(run, tmp_path, monkeypatch):
    """What it had not saved is lost, so that must not look like a good end."""

    class Failing(InProcessPool):
        def finish(self, **given):
            failure = Failure(error="no memory", fatal=False)
            self.endpoint("learner-main").send(COORDINATOR, failure)
            return super().finish(**given)

    monkeypatch.setattr(_session, "InProcessPool", Failing)
    _, said = run(tmp_path / "run", evaluation={"final_matches": 0})
    assert said == ["learner-main: no memory, while it stopped; its unsaved work is lost"]


def test_a_learner_that_dies_at_the_limit_is_restarted_first(run, tmp_path, monkeypatch):
    """It had said that it was there and not saved that; its successor is, with a model."""
    deaths = []

    class Mortal(InProcessPool):
        def __init__(self, workers, make):
            super().__init__(workers, make)
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
            if not deaths and learner.decisions >= 2000:
                deaths.append((learner.name, "dead"))

    monkeypatch.setattr(_session, "InProcessPool", Mortal)
    outcome, _ = run(tmp_path / "run", players={"main": {"freeze_every_decisions": 0}})
    assert deaths == [("learner-main", "restarted")]
    assert outcome.reason == "2,000 decisions are learned"
    assert [2000 <= decisions < 3000 for _, _, decisions in traces(tmp_path / "run")["models"]] == [True]


def test_a_learner_that_is_lost_while_it_stops_does_not_change_why(run, tmp_path, monkeypatch):
    """Its successor begins where it was saved, below the limit that was reached."""

    class Mortal(InProcessPool):
        def __init__(self, workers, make):
            super().__init__(workers, make)
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


def children(pid):
    """Return the ids of the children of a process."""
    shown = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in shown.stdout.split()]


@pytest.fixture
def started(toml, tmp_path):
    """Return a starter of endless runs, `tmp_path / "run"`, that returns once there is something to lose."""
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
def test_an_interrupt_stops_cleanly(started, tmp_path, is_alive, workers, number):
    """As does a terminal that goes away: the state is saved, it is said how to go on, and no process is left."""
    process = started(subprocess.PIPE, workers=workers, stderr=subprocess.STDOUT)
    workers_pids = children(process.pid)
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


def test_an_interrupt_ends_the_last_evaluation_at_once(toml, tmp_path):
    """A pair that was being played is as if it had never begun; what was played before counts, the rest is resumed."""
    said, plugins, folder = [], load_plugins(), tmp_path / "run"

    def print_line(line):
        said.append(line)
        if line.startswith("final evaluation") and len(said) == 2:
            signal.raise_signal(signal.SIGINT)

    config = load_config(toml(anchors={"perfect": {"agent": "dummy-perfect"}}), plugins=plugins)
    outcome = train(config, plugins=plugins, run_dir=folder, print_line=print_line)
    assert outcome.interrupted
    assert said[-1] == "SIGINT: stopping cleanly (again: at once)"
    played = finals(folder)
    assert len(played) == 2
    with Store.read(folder) as store:
        assert not [fixture for fixture in store.fixtures.unfinished() if fixture.reason == "final evaluation"]
    again(folder)
    pairs = {frozenset(seats) for seats, _ in finals(folder)}
    assert len(finals(folder)) == 2 * len(pairs) > len(played)


@pytest.mark.parametrize("ends", [pty.openpty, os.pipe])
def test_a_run_outlives_who_reads_it(started, tmp_path, ends):
    """A closed terminal or pipe ends the talking alone: a worker is restarted, and what was learned is saved."""
    reader, writer = ends()
    process = started(writer)
    os.close(writer)
    os.close(reader)
    sampler = children(process.pid)[-1]
    os.kill(sampler, signal.SIGKILL)
    deadline = time.monotonic() + 40
    while len(left := children(process.pid)) < 3 or sampler in left:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 141
    check_saved(tmp_path / "run")
