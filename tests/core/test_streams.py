"""Recording the frames of matches that cannot be played again, and reading them from files of others."""

from __future__ import annotations

import json
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
from attrs import evolve
from ludus._replays import block as block_module
from ludus._replays.block import encode_block
from ludus._replays.files import ReplayFolder, ReplayWriter
from ludus._replays.recorder import ReplayRecorder
from ludus._replays.stream_recorder import StreamRecorder
from ludus._replays.streams import MAX_FRAMES, MAX_TEXT_BYTES
from ludus._sampling.match_engine import MatchEngine
from ludus.errors import ReplayError
from ludus.rendering import Circle, Label, Scene
from ludus.replays import play_replay, stream_steps

SIDES = {"cat": (0,), "mouse": (1, 1)}


class Chooser:
    """An actor whose action is the tick of the match."""

    def start_matches(self, seat_ids):
        """Do nothing."""

    def act(self, seats, rewards):
        """Return the clock of every seat, modulo 4."""
        return seats.take(seats.tick.observation["obs"])[:, 1].astype(np.int64)[:, None] % 4

    def end_seats(self, seats, rewards, *, terminated, truncated):
        """Do nothing."""


def scene(clock):
    """Return a scene that shows a clock."""
    return Scene(width=20, height=10, shapes=[Circle(clock, 5, 1)], caption=f"clock {clock}")


@pytest.fixture
def record(scripted, fixture_of):
    """Return a function that plays matches of a scripted game with their frames, and returns the blocks."""

    def play(*, draw=None, num_matches=2, matches=3, max_bytes=2**24, **options):
        game = scripted(SIDES, num_matches, **{"length": lambda row: 3 + row, **options})
        blocks, actor = [], Chooser()
        streams = StreamRecorder(draw or (lambda index: scene(game.clock[index])), max_bytes)
        recorder = ReplayRecorder(game.spec, num_matches, blocks.append, streams=streams)
        engine = MatchEngine(
            environment=game, resolve=lambda fixture, seat: (actor, 0), on_results=lambda arrays: None, replays=recorder
        )
        engine.add_fixture(fixture_of("abb", matches=matches, kind="eval"))
        while engine.step():
            pass
        return blocks

    return play


def read(folder, blocks):
    """Write blocks into a file; return their replays and the problems."""
    writer = ReplayWriter(folder, "evaluator-0", 2**26)
    for block in blocks:
        writer.write(block)
    return read_folder(folder)


def read_folder(folder):
    """Return all replays of a folder that can be read, and the problems."""
    stored, problems, replays = ReplayFolder(folder), [], []
    for block in stored.blocks():
        try:
            replays += block.replays()
        except ReplayError as error:
            problems.append(str(error))
    return replays, stored.problems + problems


# -- recording -------------------------------------------------------------------------------------------------------


def test_every_tick_has_its_frame_and_its_decisions(record, tmp_path):
    """The last frame is that of the tick that ends the match; each match has a block of its own."""
    blocks = record(acting=lambda now: [("cat", 0)] if now % 2 else [("mouse", 0), ("mouse", 1)])
    assert [block.index.ticks.size for block in blocks] == [1, 1, 1]
    replays, problems = read(tmp_path, blocks)
    assert problems == []
    assert sorted(replay.ticks for replay in replays) == [3, 3, 4]
    for replay in replays:
        steps = list(stream_steps(replay))
        assert [step.number for step in steps] == [step.clock for step in steps] == list(range(replay.ticks + 1))
        assert [step.frame for step in steps[:-1]] == [scene(now) for now in range(replay.ticks)]
        assert [[(one.role, one.seat, one.participant) for one in step.decisions] for step in steps] == [
            *([("cat", 0, "a")] if now % 2 else [("mouse", 1, "b"), ("mouse", 2, "b")] for now in range(replay.ticks)),
            [],
        ]
        assert all(one.action.tolist() == [step.number % 4] for step in steps for one in step.decisions)
        assert {one.probabilities for step in steps for one in step.decisions} == {None}


def test_a_match_with_a_stream_is_not_played(record, tmp_path):
    """It cannot be repeated."""
    (replay, *_), _ = read(tmp_path, record())
    with pytest.raises(ReplayError, match="its game does not repeat matches"):
        next(play_replay(None, replay, None))


def frames_of(recorder, ticks):
    """Return the lines of the match at index 0 that a recorder gets ticks of, the last one included."""
    recorder.start_matches(np.array([0]))
    for tick in ticks[:-1]:
        recorder.add_tick(tick)
    (data,) = recorder.end_matches(np.array([0]), ticks[-1])
    return [json.loads(line) for line in zlib.decompress(data).splitlines()] if data else []


def ticks_of(*elapsed):
    """Return ticks of one match that took so many ticks of the game."""
    return [SimpleNamespace(elapsed_ticks=np.array([ticks])) for ticks in elapsed]


def test_a_frame_is_added_where_the_game_advances():
    """In real time other matches may have advanced alone; a frame that has not changed is not repeated."""
    frames = iter(["one", "two", "two", "three"])
    lines = frames_of(StreamRecorder(lambda index: next(frames), 2**24), ticks_of(0, 0, 3, 0, 2, 0))
    assert lines == [[0, 0, "one"], [2, 3, "two"], [4, 5, None], [5, 5, "three"]]


def test_a_match_that_starts_again_drops_its_frames():
    """As a void match does."""
    recorder = StreamRecorder(lambda index: "frame", 2**24)
    recorder.start_matches(np.array([0]))
    recorder.add_tick(*ticks_of(0))
    assert [line[0] for line in frames_of(recorder, ticks_of(0, 1))] == [0, 1]


@pytest.mark.parametrize("max_bytes", [2**15, 2**18])
def test_frames_end_where_a_match_exceeds_its_part_of_the_space(max_bytes):
    """The match keeps its first frames, which can be read; the last one may exceed the limit."""
    rng = np.random.default_rng(0)
    recorder = StreamRecorder(lambda index: rng.bytes(60).hex(), max_bytes)
    recorder.start_matches(np.array([0]))
    ticks = ticks_of(*[1] * 400)
    for tick in ticks:
        recorder.add_tick(tick)
    (data,) = recorder.end_matches(np.array([0]), ticks[0])
    assert len(zlib.decompress(data).splitlines()) < 400
    assert max_bytes // 32 < len(data) < max_bytes // 32 + 300


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda index: np.zeros((2, 2, 3), np.uint8), "images are not recorded"),
        (lambda index: 1 // 0, "frames cannot be drawn (ZeroDivisionError"),
    ],
)
def test_matches_go_on_without_frames(draw, message, record, tmp_path, caplog):
    """One line states why; decisions are recorded."""
    replays, problems = read(tmp_path, record(draw=draw))
    assert problems == []
    assert len(caplog.records) == 1
    assert message in caplog.text
    for replay in replays:
        steps = list(stream_steps(replay))
        assert {step.frame for step in steps} == {None}
        assert [len(step.decisions) for step in steps] == [3] * replay.ticks


# -- files of others -------------------------------------------------------------------------------------------------


def test_a_changed_byte_is_found_anywhere(record, tmp_path):
    """In blocks with streams too."""
    _, problems = read(tmp_path, record(matches=1, num_matches=1))
    assert problems == []
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        replays, problems = read_folder(tmp_path)
        assert replays == [], position
        assert problems[0].startswith(f"{path}, block at byte 0"), position


def test_blocks_of_version_1_are_read(record, tmp_path, monkeypatch):
    """They have no streams."""
    monkeypatch.setattr(block_module, "VERSION", 1)
    replays, problems = read(tmp_path, [evolve(block, streams=None) for block in record()])
    assert problems == []
    assert [replay.stream for replay in replays] == [None] * 3


def malformed(streams):
    """Yield streams that do not fit their block, with a part of the message."""
    acted = streams.acted["mouse"]
    late, negative, no_seat = acted.copy(), acted.copy(), acted.copy()
    late[-1, 0], negative[0, 0], no_seat[0, 1] = 1000, -1, 2
    for wrong in (late, negative, no_seat):
        yield {"acted": {**streams.acted, "mouse": wrong}}, "decisions of role mouse on ticks or of seats that do not"
    yield {"acted": {**streams.acted, "mouse": acted[1:]}}, "decisions of role mouse"
    yield {"acted": {**streams.acted, "mouse": acted.astype(np.int64)}}, "lack arrays, or have others than expected"
    yield {"acted": {"mouse": acted}}, "other roles than its actions"
    yield {"sizes": streams.sizes + 1}, "do not fit their frames"
    yield {"sizes": np.array([2**40])}, "wrong sizes; expected at most"
    yield {"sizes": np.array([-1])}, "wrong sizes"
    yield {"sizes": np.zeros(0, np.int64)}, "wrong sizes"
    yield {"sizes": streams.sizes.astype(np.int32)}, "lack arrays, or have others than expected"
    yield {"frames": streams.frames.astype(np.int8)}, "lack arrays, or have others than expected"
    for change in ({"tick_s": float("nan")}, {"turn": 1}, {"seats": [evolve(streams.game.seats[0], team="one")]}):
        yield {"game": evolve(streams.game, **change)}, "the metadata of its streams are malformed"


def test_malformed_streams_are_refused(record, tmp_path):
    """Although their hashes are right."""
    (block,) = record(matches=1, num_matches=1)
    for number, (change, message) in enumerate(malformed(block.streams)):
        replays, problems = read(tmp_path / str(number), [evolve(block, streams=evolve(block.streams, **change))])
        assert replays == [], message
        assert message in problems[0]


def line(frame, tick=0, clock=0):
    """Return the line of a frame in its JSON form."""
    return json.dumps([tick, clock, frame]).encode() + b"\n"


SCENE = {"width": 10.0, "height": 10.0}
HUGE_LABEL = {"kind": "label", "x": 1.0, "y": 1.0, "text": "a", "size": 1e9}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no zlib", "incorrect header"),
        (zlib.compress(line("a"))[:-2], "nothing behind them"),
        (zlib.compress(line("a")) + b"more", "nothing behind them"),
        (zlib.compress(bytes(MAX_TEXT_BYTES + 1)), f"expected at most {MAX_TEXT_BYTES} bytes"),
        (zlib.compress(b"\n" * (MAX_FRAMES + 1)), f"expected at most {MAX_FRAMES} frames"),
        (zlib.compress(line("a" * 2**20)), "bytes in a frame"),
        (zlib.compress(b"[" * 100_000), "recursion"),
        (zlib.compress(b"{}"), "unpack"),
        (zlib.compress(line("a") + line("b")), "ticks that increase"),
        (zlib.compress(line("a", 0, 5) + line("b", 1, 4)), "ticks that increase"),
        (zlib.compress(line("a", 0, 2**60)), "ticks that increase"),
        (zlib.compress(line("a", 0.0)), "ticks that increase"),
        (zlib.compress(line("a", 99)), "a frame follows the end of the match"),
        (zlib.compress(line(7)), "neither a text nor a scene"),
        (zlib.compress(line({"width": 1.0})), "malformed scene"),
        (zlib.compress(line({"width": float("inf"), "height": 1.0})), "no finite size"),
        (zlib.compress(line({**SCENE, "shapes": [HUGE_LABEL]})), "too large for its scene"),
        (
            zlib.compress(line({**SCENE, "shapes": [{"kind": "circle", "x": float("nan"), "y": 0.0, "radius": 1.0}]})),
            "too",
        ),
        (zlib.compress(line("a" * 2000)), "larger than 1000 lines"),
    ],
)
def test_malformed_frames_are_refused(data, message, record, tmp_path):
    """With the name of the match and its file, before they take much memory."""
    (block,) = record(matches=1, num_matches=1)
    sizes, frames = np.array([len(data)]), np.frombuffer(data, np.uint8)
    (replay,), problems = read(tmp_path, [evolve(block, streams=evolve(block.streams, sizes=sizes, frames=frames))])
    assert problems == []
    with pytest.raises(ReplayError, match=message) as raised:
        list(stream_steps(replay))
    assert str(raised.value).startswith("match 1.0: the frames are malformed")
    assert f"({tmp_path}" in str(raised.value)


def test_frames_have_no_control_characters(record, tmp_path):
    """Which a terminal would execute; colours and ends of lines remain."""
    bad, shown = "\x1b]0;title\x07a\x1b[31mb\n\x1b[2Jc\x9b1m\r", "]0;titlea\x1b[31mb\n[2Jc1m"
    frames = iter([bad, Scene(width=9, height=9, shapes=[Label(1, 1, bad, 2)], caption=bad)])
    blocks = record(draw=lambda index: next(frames), matches=1, num_matches=1, length=lambda row: 1)
    (replay,), _ = read(tmp_path, blocks)
    text, drawn = (step.frame for step in stream_steps(replay))
    assert (text, drawn.caption, drawn.shapes[0].text) == (shown, shown, shown)


def test_a_block_with_streams_is_small(record):
    """A hundred ticks of a scene take little more than their decisions."""
    (block,) = record(matches=1, num_matches=1, length=lambda row: 100)
    assert len(encode_block(block)) < 3000
