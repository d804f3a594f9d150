"""Recording matches, files of replays, and playing replays again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from ludus._replays import recorder as recorder_module
from ludus._replays.block import HEADER_BYTES, decode_header, encode_block
from ludus._replays.files import ReplayFolder, ReplayWriter, replay_files
from ludus._replays.player import ReplayPlayer
from ludus._replays.recorder import ReplayRecorder
from ludus._replays.state_hash import StateHash
from ludus._sampling.match_engine import MatchEngine
from ludus.environment import Scenario
from ludus.errors import ReplayError

TWO = {"player": (0, 1)}
SIDES = {"cat": (0,), "mouse": (1, 1, 1)}


class Chooser:
    """An actor that plays other actions on every tick."""

    def start_matches(self, seat_ids):
        """Do nothing."""

    def act(self, seats, rewards):
        """Return the clock and the seat id of every seat, modulo 4."""
        clock = seats.take(seats.tick.observation["obs"])[:, 1]
        return (clock + seats.seat_ids).astype(np.int64)[:, None] % 4

    def end_seats(self, seats, rewards, *, terminated, truncated):
        """Do nothing."""


@pytest.fixture
def record(scripted, fixture_of):
    """Return a function that plays fixtures of a scripted game and returns the blocks of their replays."""

    def play(roles=TWO, *, num_matches=4, matches=10, length=lambda row: 3 + row, share=1.0, **options):
        game = scripted(roles, num_matches, length=length, **options)
        blocks, actor = [], Chooser()
        recorder = ReplayRecorder(game.spec, num_matches, blocks.append, share=share)
        engine = MatchEngine(
            environment=game, resolve=lambda fixture, seat: (actor, 0), on_results=lambda arrays: None, replays=recorder
        )
        seats = sum(len(teams) for teams in roles.values())
        for number in (1, 2):
            engine.add_fixture(fixture_of("a" * seats, number=number, matches=matches, kind="eval"))
        while engine.step():
            pass
        recorder.flush()
        return blocks

    return play


def write_blocks(folder, blocks, *, worker="evaluator-0", max_bytes=2**24):
    """Write blocks as one worker and return the files."""
    writer = ReplayWriter(folder, worker, max_bytes)
    for block in blocks:
        writer.write(block)
    return [path for path, _ in replay_files(folder)]


def read(folder):
    """Return all replays of a folder that can be read, and the problems."""
    stored, problems, replays = ReplayFolder(folder), [], []
    for block in stored.blocks():
        try:
            replays += block.replays()
        except ReplayError as error:
            problems.append(str(error))
    return replays, stored.problems + problems


# -- recording -------------------------------------------------------------------------------------------------------


def test_every_match_is_recorded_once(record, tmp_path):
    """With its fixture, its number and its decisions by role."""
    write_blocks(tmp_path, record(SIDES))
    replays, problems = read(tmp_path)
    assert problems == []
    assert sorted((replay.fixture.id, replay.number) for replay in replays) == [
        (f, n) for f in (1, 2) for n in range(10)
    ]
    for replay in replays:
        assert {role: actions.shape for role, actions in replay.actions.items()} == {
            "cat": (replay.ticks, 1),
            "mouse": (3 * replay.ticks, 1),
        }


def test_only_decisions_are_recorded(record):
    """Seats that do not act leave nothing."""
    (block,) = record(acting=lambda now: [("player", now % 2)], length=lambda row: 4, num_matches=1, matches=1)
    assert block.decisions.tolist() == [[4], [4]]
    assert block.actions["player"][:4, 0].tolist() == [0, 2, 2, 0]  # the clock and the seat id


def test_scenarios_and_bots_are_recorded(scripted, fixture_of):
    """A record suffices to start the match."""
    game = scripted(TWO, 1)
    blocks = []
    recorder = ReplayRecorder(game.spec, 1, blocks.append)
    start = Scenario(name="corner", parameters={"x": 2.0}, builtin=("", "bot"))
    recorder.add_fixture(fixture_of("ab", matches=1, scenario=start))
    recorder.start_matches(np.array([0]))
    tick = game.reset(np.array([3], np.uint64))
    recorder.add_tick(tick, {"player": np.zeros((1, 2, 1), np.int64)})
    arrays = {"fixture": [1], "number": [0], "ticks": [1], "outcome": [[1.0, 0.0]], "returns": [[0.0, 0.0]]}
    dtypes = {"ticks": np.int32, "outcome": np.float32, "returns": np.float32}
    results = {name: np.array(values, dtypes.get(name, np.int64)) for name, values in arrays.items()}
    recorder.end_matches(np.array([0]), tick, results)
    recorder.flush()
    assert blocks[0].fixtures[1].scenario == start


def test_a_share_of_the_matches_is_recorded(record):
    """Chosen by fixture and number, so that the same ones are recorded again."""
    first, again = record(matches=100, share=0.3), record(matches=100, share=0.3)
    count = sum(block.index.number.size for block in first)
    assert 40 < count < 80
    assert [block.index.number.tolist() for block in first] == [block.index.number.tolist() for block in again]


def test_long_matches_enlarge_the_buffer(record):
    """A match that is longer than the buffer at the start is recorded whole."""
    blocks = record(num_matches=2, matches=1, length=lambda row: 700)
    assert [block.index.ticks.tolist() for block in blocks] == [[700, 700]]
    assert blocks[0].hashes.size == 2 * 44


def test_too_long_matches_are_dropped(record, monkeypatch):
    """The buffer has a limit; short matches beside a long one are recorded."""
    monkeypatch.setattr(recorder_module, "MAX_BUFFER_BYTES", 2000)
    blocks = record(num_matches=2, matches=60, length=lambda row: 5 if row else 300)
    lengths = np.concatenate([block.index.ticks for block in blocks])
    assert set(lengths.tolist()) == {5}
    assert lengths.size > 50


def test_ended_matches_are_written_after_some_seconds(scripted, fixture_of):
    """Also if few matches end."""
    game, blocks = scripted(TWO, 1, length=lambda row: 2), []
    recorder = ReplayRecorder(game.spec, 1, blocks.append)
    engine = MatchEngine(
        environment=game, resolve=lambda fixture, seat: (Chooser(), 0), on_results=lambda arrays: None, replays=recorder
    )
    engine.add_fixture(fixture_of("aa", matches=1))
    while engine.step():
        recorder.poll(10.0)
    recorder.poll(10.0)
    assert not blocks
    recorder.poll(20.0)
    assert len(blocks) == 1


def test_one_changed_byte_changes_the_hash():
    """Of any array, whatever its dtype and size."""
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.int8, np.int16, np.float64, bool):
        array = rng.integers(0, 2, (3, 2, 5)).astype(dtype)
        before = StateHash()([array, array])
        for place in np.ndindex(array.shape):
            changed = array.copy()
            changed[place] = 1 - changed[place]
            assert (StateHash()([array, changed]) != before).tolist() == [row == place[0] for row in range(3)]


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_changed_byte_is_found_anywhere(record, tmp_path):
    """In headers, indices and payloads; the message names file and block."""
    (path,) = write_blocks(tmp_path, record(matches=2, num_matches=2))
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        replays, problems = read(tmp_path)
        assert replays == [], position
        assert problems[0].startswith(f"{path}, block at byte 0"), position


def test_a_damaged_block_hides_no_other(record, tmp_path):
    """The next block starts behind it."""
    blocks = record(matches=2, num_matches=2)
    (path,) = write_blocks(tmp_path, [*blocks, *blocks])
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + 1] ^= 1
    path.write_bytes(data)
    replays, problems = read(tmp_path)
    assert len(replays) == 4
    assert len(problems) == 1


@pytest.mark.parametrize("left", [1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 30])
def test_a_cut_file_keeps_its_whole_blocks(left, record, tmp_path):
    """A worker that is killed while it writes loses one block."""
    blocks = record(matches=2, num_matches=2)
    (path,) = write_blocks(tmp_path, [*blocks, *blocks])
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 + left])
    replays, problems = read(tmp_path)
    assert len(replays) == 4
    assert len(problems) == 1
    assert "cut" in problems[0]


def test_huge_sizes_are_refused_before_memory_is_allocated(record):
    """Whatever a header declares."""
    header = bytearray(encode_block(record()[0])[:HEADER_BYTES])
    header[12:16] = b"\xff" * 4
    with pytest.raises(ReplayError, match="declares a part of 4294967295 bytes"):
        decode_header(bytes(header), remaining=10**12)


def test_a_newer_version_is_refused(record):
    """The message asks for an update."""
    header = bytearray(encode_block(record()[0])[:HEADER_BYTES])
    header[4] = 3
    with pytest.raises(ReplayError, match="version 3 of the format; expected 2"):
        decode_header(bytes(header), remaining=10**12)


def test_other_files_and_links_are_not_read(record, tmp_path):
    """A folder of another person may hold anything."""
    folder = tmp_path / "replays"
    write_blocks(folder, record())
    (folder / "notes.txt").write_text("text")
    (folder / "link.replays").symlink_to(replay_files(folder)[0][0])
    (folder / "random.replays").write_bytes(np.random.default_rng(0).bytes(500))
    replays, problems = read(folder)
    assert len(replays) == 20
    assert len(problems) == 1
    assert "random.replays" in problems[0]


def test_the_space_is_bounded_and_the_oldest_go_first(record, tmp_path):
    """Over the files of all workers."""
    block = record()[0]
    size = len(encode_block(block))
    writers = [ReplayWriter(tmp_path, f"sampler-{number}", 20 * size) for number in range(3)]
    for number in range(30):
        fixtures = {name: evolve(fixture, seed=number) for name, fixture in block.fixtures.items()}
        for writer in writers:
            writer.write(evolve(block, fixtures=fixtures))
            assert sum(size for _, size in replay_files(tmp_path)) <= 20 * size
    replays, problems = read(tmp_path)
    assert problems == []
    assert {replay.fixture.seed for replay in replays} >= {27, 28, 29}
    assert min(replay.fixture.seed for replay in replays) > 15


def test_a_full_disk_ends_no_run(record, tmp_path, caplog):
    """One line is logged."""
    (tmp_path / "replays").write_text("a file where the folder should be")
    writer = ReplayWriter(tmp_path / "replays", "evaluator-0", 2**20)
    for _ in range(3):
        writer.write(record()[0])
    assert len(caplog.records) == 1
    assert "matches go on without them" in caplog.text


_WRITE = """
import sys
from pathlib import Path
from ludus._replays.block import decode_header, decode_index, decode_payload, HEADER_BYTES
from ludus._replays.files import ReplayFolder, ReplayWriter
(stored,) = ReplayFolder(Path(sys.argv[1])).blocks()
block, writer = stored.read(), ReplayWriter(Path(sys.argv[2]), "evaluator-0", 2**26)
print("ready", flush=True)
while True:
    writer.write(block)
"""


def test_kill_while_writing_loses_one_block_at_most(record, tmp_path):
    """The next process writes another file."""
    source, target = tmp_path / "source", tmp_path / "target"
    write_blocks(source, record())
    child = subprocess.Popen([sys.executable, "-c", _WRITE, source, target], stdout=subprocess.PIPE)
    child.stdout.readline()
    while len(replay_files(target)) == 0 or replay_files(target)[0][1] < 20_000:
        pass
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    (path,) = write_blocks(target, record())[-1:]
    replays, problems = read(target)
    assert len(replays) >= 40
    assert len(replays) % 20 == 0
    assert len(problems) <= 1
    assert path == Path(target, "evaluator-0-00000002.replays")


# -- playing again ---------------------------------------------------------------------------------------------------


def changed_replays(replay):
    """Yield replays that differ from a record, with a part of the message that names the difference."""
    actions = replay.actions["player"]
    yield evolve(replay, hashes={0: replay.hashes[0] ^ 1}), "the state differs from the record"
    yield evolve(replay, final_hash=replay.final_hash ^ 1), "the final observations or the returns differ"
    yield evolve(replay, ticks=replay.ticks + 1), "it ends on tick"
    yield evolve(replay, ticks=replay.ticks - 1), "it goes on after tick"
    yield evolve(replay, outcome=replay.outcome[::-1]), "the outcome is"
    yield evolve(replay, actions={"player": actions[:-1]}), "no legal action"
    yield (
        evolve(replay, actions={"player": np.append(actions, [[0]], axis=0)}),
        "before all recorded actions are played",
    )
    yield evolve(replay, actions={"player": np.full_like(actions, 99)}), "no legal action"
    yield evolve(replay, actions={"other": actions}), "it has the roles other"


def test_differences_are_named_and_hide_no_other(record, scripted, tmp_path):
    """Replays that equal their record pass beside those that differ."""
    length = lambda row: 4  # noqa: E731
    write_blocks(tmp_path, record(num_matches=1, matches=2, length=length))
    replays, _ = read(tmp_path)
    differing = list(changed_replays(replays[0]))
    player = ReplayPlayer(scripted(TWO, 3, length=length))
    found = player.find_differences([replays[1], *(replay for replay, _ in differing), replays[2]])
    assert found[0] == found[-1] == ""
    for problem, (_, expected) in zip(found[1:-1], differing, strict=True):
        assert expected in problem


def test_a_replay_yields_the_recorded_actions(record, scripted, tmp_path):
    """Tick by tick, with the final tick at the end."""
    length = lambda row: 4  # noqa: E731
    write_blocks(tmp_path, record(num_matches=1, matches=1, length=length))
    replays, _ = read(tmp_path)
    steps = [
        (step.number, step.actions["player"][0, :, 0].tolist() if step.actions else None)
        for step in ReplayPlayer(scripted(TWO, 1, length=length)).play(replays[0])
    ]
    assert steps == [(0, [0, 1]), (1, [1, 2]), (2, [2, 3]), (3, [3, 0]), (4, None)]


def test_a_replay_that_differs_raises(record, scripted, tmp_path):
    """The message names match and tick."""
    write_blocks(tmp_path, record(num_matches=1, matches=1, length=lambda row: 4))
    replays, _ = read(tmp_path)
    with pytest.raises(ReplayError, match="it ends on tick 3, the recorded match on tick 4"):
        list(ReplayPlayer(scripted(TWO, 1)).play(replays[0]))
