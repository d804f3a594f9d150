"""Changes of pools and shares that another process requests while a run goes on."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from ludus._league.change_requests import ChangeRequests, write_request
from ludus._league.league import League
from ludus._messaging.messages import ModelFrozen
from ludus._store.model_files import save_arrays
from ludus._store.store import Store
from ludus.errors import RunError, StoreError
from ludus.matchmaker import PoolChange
from ludus.rule import Share
from ludus.runs import change_pool, change_share, open_run

CHANGE = PoolChange(pool="chosen", model="main@1", enters=True)


@pytest.fixture
def running(league):
    """Return a running league with two models."""
    runner = league()
    for number in (1, 2):
        digest = save_arrays(runner.run_dir / "models", {"w": np.full(3, number)}, {"player": "main"})
        frozen = ModelFrozen(player="main", number=number, hash=digest, decisions=number, version=number)
        runner.coordinator.handle("learner-main", frozen)
    runner.coordinator.flush()
    return runner


def pools(folder):
    """Return the committed members of all pools but those of the matchmaker."""
    with open_run(folder) as run:
        return {name: list(members) for name, members in run.pools.items() if name.startswith("chosen")}


def requests(folder):
    """Return the request files of a run."""
    return sorted((folder / "requests").glob("*.json"))


def test_a_running_run_makes_the_change(running):
    """The caller returns once the change is committed, and no file is left."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(change_pool, running.run_dir, CHANGE, timeout_s=30)
        while not answer.done():
            running.now_s += 0.01
            running.coordinator.flush()
            time.sleep(0.001)
        assert answer.result()
    assert pools(running.run_dir) == {"chosen": ["main@1"]}
    assert list(running.coordinator.league.pool("chosen")) == ["main@1"]
    assert requests(running.run_dir) == []
    assert not change_pool(running.run_dir, CHANGE)


def test_requests_are_applied_in_their_order(running):
    """Several callers wait for one commit."""
    for change in (
        CHANGE,
        PoolChange(pool="chosen", model="main@2", enters=True),
        PoolChange(pool="chosen", model="main@1", enters=False),
    ):
        write_request(running.run_dir, change)
        time.sleep(0.001)
    running.now_s += 1
    running.coordinator.flush()
    assert pools(running.run_dir) == {"chosen": ["main@2"]}
    assert requests(running.run_dir) == []


def test_the_folder_is_read_every_half_second(running):
    """A request waits at most that long where nothing else is committed."""
    running.now_s += 1
    running.coordinator.flush()
    write_request(running.run_dir, CHANGE)
    running.coordinator.flush()
    assert pools(running.run_dir) == {}
    running.now_s += 0.5
    running.coordinator.flush()
    assert pools(running.run_dir) == {"chosen": ["main@1"]}


def test_an_unanswered_request_is_kept(running):
    """After the time limit the error names the file, and the run makes the change when it answers."""
    with pytest.raises(RunError, match=r"has not answered within 0 s; the change is requested by .*json") as error:
        change_pool(running.run_dir, CHANGE, timeout_s=0.2)
    assert "\n" not in str(error.value)
    assert len(requests(running.run_dir)) == 1
    running.now_s += 1
    running.coordinator.flush()
    assert pools(running.run_dir) == {"chosen": ["main@1"]}


def test_a_request_survives_the_end_of_the_run(running):
    """The caller takes over as soon as the run is no longer in use."""
    running.coordinator.flush()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(change_pool, running.run_dir, CHANGE, timeout_s=30)
        while not requests(running.run_dir):
            time.sleep(0.001)
        running.store.close()
        assert answer.result()
    assert pools(running.run_dir) == {"chosen": ["main@1"]}
    assert requests(running.run_dir) == []


def test_a_crash_before_the_commit_loses_no_request(running):
    """The next writer of the league applies it."""
    write_request(running.run_dir, CHANGE)
    running.coordinator.change_requests.apply()
    running.store.close()  # drops what was not committed
    assert pools(running.run_dir) == {}
    with Store.open(running.run_dir) as store:
        again = ChangeRequests(League.of(store))
        again.apply()
        store.commit()
        again.acknowledge()
    assert pools(running.run_dir) == {"chosen": ["main@1"]}


def test_a_crash_after_the_commit_applies_no_request_twice(running):
    """A rule has removed the model since; the file that the crash has left adds it no second time."""
    write_request(running.run_dir, CHANGE)
    running.coordinator.change_requests.apply()
    running.store.commit()  # the crash comes before the file is deleted
    running.store.close()
    with Store.open(running.run_dir) as store:
        league = League.of(store)
        league.apply([PoolChange(pool="chosen", model="main@1", enters=False)])
        again = ChangeRequests(league)
        again.apply()
        store.commit()
        again.acknowledge()
    assert pools(running.run_dir) == {"chosen": []}
    assert requests(running.run_dir) == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"pool": "chosen", "model": "main@9", "enters": true}', "\xff"])
def test_a_malformed_request_is_logged_and_dropped(running, caplog, text):
    """It ends neither the run nor the requests after it."""
    (running.run_dir / "requests").mkdir()
    (running.run_dir / "requests" / "0.json").write_bytes(text.encode("latin-1"))
    write_request(running.run_dir, CHANGE)
    running.now_s += 1
    running.coordinator.flush()
    assert pools(running.run_dir) == {"chosen": ["main@1"]}
    assert requests(running.run_dir) == []
    assert "ignored the request" in caplog.text


def test_many_callers_at_once(running):
    """Every change is made exactly once."""
    changes = [PoolChange(pool=f"chosen/{i}", model=f"main@{1 + i % 2}", enters=True) for i in range(8)]
    barrier = threading.Barrier(len(changes))

    def request(change):
        barrier.wait()
        return change_pool(running.run_dir, change, timeout_s=30)

    with ThreadPoolExecutor(len(changes)) as pool:
        answers = [pool.submit(request, change) for change in changes]
        while not all(answer.done() for answer in answers):
            running.now_s += 0.1
            running.coordinator.flush()
            time.sleep(0.001)
        assert all(answer.result() for answer in answers)
    assert pools(running.run_dir) == {change.pool: [change.model] for change in changes}


@pytest.fixture
def two_players(league):
    """Return a running league with the players main and other."""
    runner = league(players={"main": {}, "other": {}})
    runner.coordinator.flush()
    runner.coordinator.commit()
    return runner


def shares(folder):
    """Return the committed shares of all players."""
    with open_run(folder) as run:
        return {name: view.share for name, view in run.league.players.items()}


def test_a_running_run_changes_a_share(two_players):
    """The scheduler uses it at once, and a paused player gets no more fixtures."""
    write_request(two_players.run_dir, Share(player="other", share=0.0))
    two_players.now_s += 1
    two_players.coordinator.flush()
    assert shares(two_players.run_dir) == {"main": 1.0, "other": 0.0}
    assert {two_players.coordinator.training.create().player for _ in range(10)} == {"main"}
    assert requests(two_players.run_dir) == []


def test_a_stopped_run_keeps_a_changed_share(two_players):
    """It is resumed with it."""
    two_players.store.close()
    assert change_share(two_players.run_dir, Share(player="other", share=3.0))
    assert not change_share(two_players.run_dir, Share(player="other", share=3.0))
    assert shares(two_players.run_dir) == {"main": 1.0, "other": 3.0}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (Share(player="main", share=0.0), "main is the only player that trains; stop the run to pause it"),
        (Share(player="ghost", share=1.0), "there is no player 'ghost'; the players are main"),
    ],
)
def test_a_share_that_cannot_be_set(running, change, problem, caplog):
    """The caller gets the problem, and the run ignores such a request."""
    with pytest.raises(StoreError, match=problem):
        change_share(running.run_dir, change)
    write_request(running.run_dir, change)
    running.now_s += 1
    running.coordinator.flush()
    assert shares(running.run_dir) == {"main": 1.0}
    assert problem in caplog.text


def test_a_share_before_the_first_match(tmp_path):
    """There is no state that a resumed run would take it from."""
    with Store.create(tmp_path, {}) as store:
        League(store, players={"main": ("player", None)}, anchors=(), seats=())
        store.commit()
    with pytest.raises(StoreError, match="the run has assigned no match yet; set the share in its run"):
        change_share(tmp_path, Share(player="main", share=2.0))
