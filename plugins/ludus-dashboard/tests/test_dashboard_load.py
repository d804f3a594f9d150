"""A long log and many clients: a page costs the same, and one reader serves all clients."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest
from ludus._store.match_arrays import NUMBERS_PER_ROW, MatchArrays, pack
from ludus_dashboard.events import Broadcast, TooManyClients
from ludus_dashboard.reader import RunReader

FIXTURES = 10_000
MATCHES = 128


@pytest.fixture
def long_run(write):
    """Return a run of 1.28 million matches, which are written as rows, without results messages."""
    made = write()
    for _ in range(20):
        made.freeze("main")
    arrays = MatchArrays(
        number=np.arange(MATCHES),
        outcome=np.tile(np.float32([[1, 0], [0, 1]]), (MATCHES // 2, 1)),
        ticks=np.full(MATCHES, 30, np.int32),
        statistics={},
    )
    assert MATCHES <= NUMBERS_PER_ROW
    packed = pack(arrays, first=0)
    store = made.store
    store.write_many(
        "INSERT INTO fixtures VALUES (NULL, 'train', 'main', ?, 1, ?, '[\"default\", {}]', ?, '', ?, 1)",
        (
            (f'["main@20+", "main@{1 + i % 20}"]', MATCHES, f"pfsp: win rate 0.{i % 100}", 1.7e9 + i)
            for i in range(FIXTURES)
        ),
    )
    columns = ", ".join("?" * len(packed))
    store.write_many(f"INSERT INTO matches VALUES (?, 0, {columns})", ((i + 1, *packed) for i in range(FIXTURES)))
    store.write("INSERT INTO totals VALUES ('train', ?)", FIXTURES * MATCHES)
    half = FIXTURES * MATCHES // 40
    store.write_many(
        "INSERT INTO payoffs VALUES ('train', ?, ?, ?, 0, ?)",
        [(*pair, half, half) for i in range(1, 21) for pair in (("main@20+", f"main@{i}"), (f"main@{i}", "main@20+"))],
    )
    store.commit()
    return made


@pytest.mark.parametrize(
    "page", ["", "/payoffs", "/matches", "/opponents", "/matches?a=main@3&outcome=lost", "/models/main@3"]
)
def test_the_first_page_does_not_wait_for_the_log(long_run, browse, page):
    """It takes less than a second of processor time with 1.28 million matches; the best of three counts."""
    durations_s = []
    for _ in range(3):
        client = browse()
        client.get("/")  # imports
        started_s = time.process_time()
        response = client.get(f"/runs/run{page}")
        durations_s.append(time.process_time() - started_s)
        assert response.status_code == 200
        assert "1,280,000 training matches" in response.text
    assert min(durations_s) < 1.0


def test_no_page_reads_the_match_log(long_run, browse, monkeypatch):
    """Only the page of matches does, and only the fixtures that it shows."""
    from ludus._store.match_log import MatchLog

    read = []
    monkeypatch.setattr(
        MatchLog, "_records_of", lambda self, row, method=MatchLog._records_of: read.append(1) or method(self, row)
    )
    client = browse()
    for page in ("", "/payoffs", "/lineage", "/opponents", "/pools", "/files", "/models/main@3"):
        assert client.get(f"/runs/run{page}").status_code == 200
    assert read == []
    assert client.get("/runs/run/matches").status_code == 200
    assert len(read) == 1


def test_a_search_that_finds_nothing_ends_and_goes_on(long_run, browse, monkeypatch):
    """A link continues where the time was over."""
    monkeypatch.setattr("ludus_dashboard.matches._DEPTH", 1000)
    monkeypatch.setattr("ludus_dashboard.matches._SEARCH_S", 0.0)
    text = browse().get("/runs/run/matches?reason=nothing").text
    assert "among those searched so far" in text
    assert 'name="before" value="9001.0"' in text


def test_the_mix_is_counted_in_parts(long_run, browse, monkeypatch):
    """Several snapshots read the log, each for a limited time, and the sums are complete in the end."""
    monkeypatch.setattr("ludus_dashboard.reader._FIRST_COUNTING_S", 0.0)
    monkeypatch.setattr("ludus_dashboard.reader._COUNTING_S", 0.02)
    monkeypatch.setattr("ludus_dashboard.reader._CATCH_UP_S", 0.0)
    reader = RunReader(long_run.folder)
    versions, snapshot = 1, reader.snapshot()
    assert not snapshot.is_complete
    while not snapshot.is_complete:
        versions, snapshot = versions + 1, reader.snapshot()
    assert versions > 3
    assert [(row.reason, row.asked, row.played) for row in snapshot.opponents.rows()] == [
        ("pfsp", FIXTURES * MATCHES, FIXTURES * MATCHES)
    ]


def test_unfinished_fixtures_are_counted_again(run):
    """The played matches of a fixture grow while it is played."""
    reader = RunReader(run.folder)
    fixture = run.play("main@2+", "main@2", [1, 0], kind="train", player="main", reason="half")
    run.store.write("UPDATE fixtures SET matches = 4, closed = 0 WHERE id = ?", fixture)
    run.store.commit()
    rows = {row.reason: row for row in reader.snapshot().opponents.rows()}
    assert (rows["half"].asked, rows["half"].played) == (4, 2)
    arrays = {"fixture": np.full(2, fixture), "number": np.arange(2, 4), "ticks": np.full(2, 9, np.int32)}
    run.league.record({**arrays, "outcome": np.float32([[1, 0], [1, 0]])})
    run.store.commit()
    reader.expire()
    rows = {row.reason: row for row in reader.snapshot().opponents.rows()}
    assert (rows["half"].asked, rows["half"].played) == (4, 4)


async def take(events, count):
    """Return the data of the next events."""
    found = []
    async for text in events:
        if text.startswith("data: "):
            found.append(int(text.removeprefix("data: ")))
        if len(found) == count:
            break
    await events.aclose()
    return found


def test_a_hundred_clients_share_one_reader(run, monkeypatch):
    """All get the same versions, and the run is opened once per version."""
    import ludus_dashboard.reader as module

    opened = []
    monkeypatch.setattr(
        module, "open_run", lambda folder, open_run=module.open_run: opened.append(1) or open_run(folder)
    )
    monkeypatch.setattr(module, "_INTERVAL_S", 0.01)
    monkeypatch.setattr(module, "_MAX_LOAD", 1e9)
    monkeypatch.setattr("ludus_dashboard.events._INTERVAL_S", 0.02)

    async def watch():
        broadcast = Broadcast(RunReader(run.folder))
        clients = [asyncio.create_task(take(broadcast.subscribe(), 2)) for _ in range(100)]
        await asyncio.sleep(0.2)
        run.freeze("main")
        run.store.commit()
        received = await asyncio.wait_for(asyncio.gather(*clients), 10)
        await asyncio.sleep(0.05)
        return received, broadcast

    received, broadcast = asyncio.run(watch())
    assert {tuple(versions) for versions in received} == {(1, 2)}
    assert len(opened) == 2
    assert broadcast._task is None  # the last client has left


def test_clients_are_limited(run, monkeypatch):
    """One more is refused."""
    monkeypatch.setattr("ludus_dashboard.events._MAX_CLIENTS", 0)
    with pytest.raises(TooManyClients):
        Broadcast(RunReader(run.folder)).subscribe()
