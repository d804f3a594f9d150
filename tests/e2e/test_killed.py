"""A run loses no committed work when its processes are killed, suspended or interrupted."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress

import pytest
from chaos.league import LEAGUE, LIGHT, League, run_verify
from chaos.league_audit import LeagueAudit
from chaos.processes import is_alive, wait
from ludus._league.league import League as StoredLeague
from ludus._store.store import Store

RULES_ACT_SOON = ("league.restart-from.decisions=1000", "league.alphastar.most_decisions=2000")


def is_training(state):
    """Return whether there is committed work that could be lost."""
    return len(state.models) >= 2 and state.rated > 0


@pytest.mark.slow
def test_a_run_survives_any_killed_process(check_kill, league):
    """Workers are replaced; `ludus resume` follows the coordinator. No committed work is lost, no process is left."""
    run = league()
    run.train()
    run.wait_for(is_training)
    names = ("learner-main_agent", "sampler-0", "evaluator-0")
    for name in (*names, "coordinator"):
        check_kill(run, name)
    for name in names:
        assert f"{name}: was killed by signal 9 — restarted; see " in run.output
    with Store.read(run.folder) as store:
        assert store.counters()["sessions"] == 2


@pytest.fixture
def league_with_rules(tmp_path):
    """Return a league of four algorithms with changing shares, pools and generations."""
    run = League(tmp_path / "run", settings=RULES_ACT_SOON, source=LEAGUE, checks=(run_verify, LeagueAudit()))
    yield run
    run.close()


def generations(run):
    """Return how often players of a run were reset."""
    with Store.read(run.folder) as store:
        return sum(len(view.generation_starts) - 1 for view in StoredLeague.of(store).players.values())


@pytest.mark.slow
def test_a_league_with_rules_matches_its_log_after_kills(check_kill, league_with_rules):
    """Workers of each kind, the coordinator, and all at once: pools, payoffs and the rest."""
    run = league_with_rules
    run.train()
    run.wait_for(lambda state: len(state.learned) == 5 and state.rated > 0 and generations(run))
    assert run.problems() == []
    pids, before = run.pids, run.state
    assert len(pids) == 8
    for name in ("sampler-0", "evaluator-0", "learner-dqn_explorer"):
        os.kill(pids[name], signal.SIGKILL)
    run.wait_for(lambda state: state.has_passed(before) and run.pids.keys() == pids.keys())
    check_kill(run, "coordinator")
    pids = run.pids
    for pid in pids.values():
        with suppress(ProcessLookupError):  # it ended with the coordinator
            os.kill(pid, signal.SIGKILL)
    wait(lambda: run.process.poll() is not None and not any(map(is_alive, pids.values())))
    assert run.problems() == []


@pytest.mark.slow
def test_an_interrupt_stops_cleanly(check_stop, league):
    """While all kinds of workers are busy."""
    run = league()
    run.train()
    run.wait_for(is_training)
    check_stop(run, signal.SIGINT, processes=4)


def test_a_termination_saves_the_last_weights(check_stop, light_league):
    """Even if no checkpoint was written before."""
    run = light_league("run.checkpoint_s=3600", "players.main_agent.freeze_every_decisions=1000000000")
    run.train()
    run.wait_for(lambda state: state.trained > 300)
    assert not run.state.models
    check_stop(run, signal.SIGTERM, processes=4)


def test_a_second_interrupt_stops_at_once(light_league):
    """Even if a worker hangs; committed work stays."""
    run = light_league()
    run.train()
    run.wait_for(is_training)
    pids, before = run.pids, run.state
    os.kill(pids["evaluator-0"], signal.SIGSTOP)
    os.kill(pids["coordinator"], signal.SIGINT)
    wait(lambda: "stopping cleanly" in run.output, timeout_s=10)
    os.kill(pids["coordinator"], signal.SIGINT)
    # Python ends itself by SIGINT (130 in a shell) if the interrupt passed through code compiled from a string.
    assert run.process.wait(10) in {130, -signal.SIGINT}
    assert "interrupted" in run.output
    assert "Traceback" not in run.output
    assert not any(map(is_alive, pids.values()))
    assert run.state.matches >= before.matches
    assert run.problems() == []


def test_an_interrupt_while_workers_start_stops_soon(league):
    """Starting workers are not waited for, since they hold no unsaved state."""
    run = league()
    run.train()
    wait(lambda: len(run.pids) == 4, timeout_s=30)
    pids = run.pids
    os.kill(pids["coordinator"], signal.SIGINT)
    assert run.process.wait(25) == 130
    assert "did not stop" not in run.output
    assert not any(map(is_alive, pids.values()))


def test_a_start_that_was_killed_halfway_can_be_resumed(light_league):
    """The database is written first, with the configuration of the missing run.toml."""
    run = light_league()
    run.train()
    run.wait_for(is_training)
    run.close()
    (run.folder / "run.toml").unlink()
    before = run.state
    run.resume()
    run.wait_for(lambda state: state.has_passed(before))
    assert (run.folder / "run.toml").read_text(encoding="utf-8").startswith("[run]")


def test_a_run_can_be_resumed_after_its_folder_was_moved(light_league, tmp_path):
    """It ends with one line, and writes nothing under the old name."""
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
def short_timeout(tmp_path_factory):
    """Return a league that replaces a worker after 6 seconds of silence."""
    run = League(tmp_path_factory.mktemp("short_timeout") / "run", settings=("run.stall_s=6",), source=LIGHT)
    run.train()
    yield run
    run.close()


@pytest.mark.slow
def test_a_suspended_sampler_is_replaced(short_timeout):
    """After `run.stall_s` of silence."""
    run = short_timeout
    run.wait_for(is_training)
    first = run.pids["sampler-0"]
    os.kill(first, signal.SIGSTOP)
    before = run.state
    run.wait_for(lambda state: state.has_passed(before) and run.pids.get("sampler-0", first) != first)
    assert not is_alive(first)
    assert re.search(r"^sampler-0: was silent for \d+ s and was killed — restarted; see ", run.output, re.MULTILINE)


@pytest.mark.slow
def test_workers_of_a_suspended_coordinator_are_not_restarted(short_timeout):
    """It receives no messages meanwhile; afterwards the same workers go on."""
    run = short_timeout
    run.wait_for(is_training)
    pids, start = run.pids, len(run.output)
    os.kill(pids["coordinator"], signal.SIGSTOP)
    time.sleep(8)
    os.kill(pids["coordinator"], signal.SIGCONT)
    before = run.state
    run.wait_for(lambda state: state.has_passed(before))
    assert run.pids == pids
    assert "restarted" not in run.output[start:]
