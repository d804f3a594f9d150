"""A run loses nothing when its processes are killed, stopped or interrupted."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from ludus._league.league import League
from ludus._store.store import Store

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LIGHT = Path(__file__).with_name("light.toml")
RULES_ACT_SOON = ("league.restart-from.decisions=1000", "league.alphastar.most_decisions=2000")


def is_training(state):
    """Return whether a run has got so far that there is something to lose."""
    return len(state.models) >= 2 and state.rated > 0


@pytest.mark.slow
def test_whatever_is_killed_the_run_goes_on(campaign, league):
    """Workers are replaced; after the coordinator `ludus resume` goes on; nothing committed is lost, nobody stays."""
    run = league()
    run.train()
    run.wait_for(is_training)
    kills = [campaign.kill(run, victim) for victim in ("learner", "sampler", "evaluator", "coordinator", "sampler")]
    assert [(kill.lost_matches, kill.lost_models, kill.problems, kill.orphans) for kill in kills] == [(0, 0, (), 0)] * 5
    assert all(kill.recovered_s < 60 for kill in kills)
    assert kills[3].gone_s < 5
    for name in ("learner-main_agent", "sampler-0", "evaluator-0"):
        assert f"{name}: was killed by signal 9 — restarted; see " in run.output
    with Store.read(run.folder) as store:
        assert store.counters()["sessions"] == 2


@pytest.fixture
def league_with_rules(campaign, tmp_path, monkeypatch):
    """Return a league of four algorithms whose shares, pools and generations change all the time."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    run = campaign.league_with_rules(tmp_path / "run", settings=("run.workers=1", *RULES_ACT_SOON))
    yield run
    run.close()


def generations(run):
    """Return how often players of a run have started anew."""
    with Store.read(run.folder) as store:
        return sum(len(view.generation_starts) - 1 for view in League.of(store).players.values())


@pytest.mark.slow
def test_a_league_with_rules_is_what_its_log_says_whatever_is_killed(campaign, league_with_rules):
    """Workers of each kind, the coordinator, and everything at once: pools, payoffs and the rest are as logged."""
    run = league_with_rules
    run.train()
    run.wait_for(lambda state: len(state.learned) == 5 and state.rated > 0 and generations(run))
    assert run.problems() == []
    pids, before = run.pids, run.state
    assert len(pids) == 8
    for name in ("sampler-0", "evaluator-0", "learner-dqn_explorer"):
        os.kill(pids[name], signal.SIGKILL)
    run.wait_for(lambda state: state.has_passed(before) and run.pids.keys() == pids.keys())
    kill = campaign.kill(run, "coordinator")
    assert (kill.lost_matches, kill.lost_models, kill.problems, kill.orphans) == (0, 0, (), 0)
    pids = run.pids
    for pid in pids.values():
        with suppress(ProcessLookupError):  # it ended with the coordinator
            os.kill(pid, signal.SIGKILL)
    campaign.wait(lambda: run.process.poll() is not None and not any(map(campaign.is_alive, pids.values())))
    assert run.problems() == []


@pytest.mark.slow
def test_an_interrupt_stops_cleanly(check_stop, league):
    """While all that there is to do is being done."""
    run = league()
    run.train()
    run.wait_for(is_training)
    check_stop(run, signal.SIGINT, processes=4)


def test_a_termination_saves_the_last_weights(check_stop, light_league):
    """Where nothing has been saved so far."""
    run = light_league("run.checkpoint_s=3600", "players.main_agent.freeze_every_decisions=1000000000")
    run.train()
    run.wait_for(lambda state: state.trained > 300)
    assert not run.state.models
    check_stop(run, signal.SIGTERM, processes=4)


def test_a_second_interrupt_stops_at_once(campaign, light_league):
    """Though a worker cannot end by itself; what was committed stays."""
    run = light_league()
    run.train()
    run.wait_for(is_training)
    pids, before = run.pids, run.state
    os.kill(pids["evaluator-0"], signal.SIGSTOP)
    os.kill(pids["coordinator"], signal.SIGINT)
    campaign.wait(lambda: "stopping cleanly" in run.output, timeout_s=10)
    os.kill(pids["coordinator"], signal.SIGINT)
    assert run.process.wait(10) == 130
    assert "interrupted" in run.output
    assert "Traceback" not in run.output
    assert not any(map(campaign.is_alive, pids.values()))
    assert run.state.matches >= before.matches
    assert run.problems() == []


def test_an_interrupt_while_workers_start_stops_soon(campaign, league):
    """Nobody waits for those that have said nothing yet, as they have nothing to lose."""
    run = league()
    run.train()
    campaign.wait(lambda: len(run.pids) == 4, timeout_s=30)
    pids = run.pids
    os.kill(pids["coordinator"], signal.SIGINT)
    assert run.process.wait(25) == 130
    assert "did not stop" not in run.output
    assert not any(map(campaign.is_alive, pids.values()))


def test_a_start_that_was_killed_halfway_can_be_resumed(light_league):
    """The database is there first; it holds what the missing run.toml said."""
    run = light_league()
    run.train()
    run.wait_for(is_training)
    run.close()
    (run.folder / "run.toml").unlink()
    before = run.state
    run.resume()
    run.wait_for(lambda state: state.has_passed(before))
    assert (run.folder / "run.toml").read_text(encoding="utf-8").startswith("[run]")


def test_a_run_whose_folder_is_moved_can_be_resumed_where_it_lies(light_league, tmp_path):
    """It ends with one line, and leaves nothing by the old name that belongs to the league."""
    run = light_league()
    run.train()
    run.wait_for(is_training)
    moved = run.folder.rename(tmp_path / "moved")
    assert run.process.wait(40) == 1
    assert f"\nerror: {run.folder} was moved or removed while the run wrote it; " in run.output
    assert not run.folder.exists()
    run.folder = moved
    before = run.state
    assert run.problems() == []
    run.resume()
    run.wait_for(lambda state: state.has_passed(before))


@pytest.fixture(scope="module")
def impatient(campaign, tmp_path_factory):
    """Return a league that replaces a worker after 6 seconds of silence."""
    run = campaign.League(tmp_path_factory.mktemp("impatient") / "run", settings=("run.stall_s=6",), source=LIGHT)
    run.train()
    yield run
    run.close()


@pytest.mark.slow
def test_a_stopped_sampler_is_replaced(campaign, impatient):
    """After `run.stall_s` of silence."""
    run = impatient
    run.wait_for(is_training)
    first = run.pids["sampler-0"]
    os.kill(first, signal.SIGSTOP)
    before = run.state
    run.wait_for(lambda state: state.has_passed(before) and run.pids.get("sampler-0", first) != first)
    assert not campaign.is_alive(first)
    assert re.search(r"^sampler-0: was silent for \d+ s and was killed — restarted; see ", run.output, re.MULTILINE)


@pytest.mark.slow
def test_a_stopped_coordinator_blames_nobody(impatient):
    """While it hears nothing itself, workers are not silent; afterwards the same ones go on."""
    run = impatient
    run.wait_for(is_training)
    pids, said = run.pids, len(run.output)
    os.kill(pids["coordinator"], signal.SIGSTOP)
    time.sleep(8)
    os.kill(pids["coordinator"], signal.SIGCONT)
    before = run.state
    run.wait_for(lambda state: state.has_passed(before))
    assert run.pids == pids
    assert "restarted" not in run.output[said:]
