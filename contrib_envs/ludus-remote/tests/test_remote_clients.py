"""The clients in other languages replay the transcripts, and play matches with a gateway.

Each client has a small program in `replay/` that runs the commands of this file with its codec, session and seat clock,
or plays a game of numbers.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgpack
import numpy as np
import pytest
from ludus_remote.config import RemoteConfig
from ludus_remote.environment import RemoteEnvironment
from ludus_remote.programs import COMMANDS_VARIABLE

FOLDER = Path(__file__).parents[1]
CLIENTS = FOLDER / "clients"
REPLAY = Path(__file__).with_name("replay")
SESSIONS = ("lock-step", "real-time", "resume", "void")
SOURCES = {
    "javascript": "javascript/ludus_client.js",
    "cpp": "cpp/ludus_client.hpp",
    "csharp": "csharp/LudusClient.cs",
    "godot": "godot/ludus_client.gd",
}
CPP_FLAGS = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror")


def need(*names):
    """Return the path of the first program that is installed; skip the test without one."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"{' or '.join(names)} is not installed")
    return found


def build(name, folder):
    """Return the command that runs the program of a client."""
    if name == "javascript":
        return [need("node"), REPLAY / "replay.mjs"]
    if name == "cpp":
        program = folder / "replay"
        sources = ["-I", CLIENTS / "cpp", REPLAY / "replay.cpp"]
        subprocess.run([need("g++", "clang++"), *CPP_FLAGS, *sources, "-o", program], check=True)
        return [program]
    if name == "csharp":
        program = folder / "replay.exe"
        sources = [CLIENTS / "csharp" / "LudusClient.cs", REPLAY / "Replay.cs"]
        subprocess.run([need("mcs"), "-warnaserror", f"-out:{program}", *sources], check=True)
        return [need("mono"), program]
    if shutil.which("godot4"):
        return ["godot4", "--headless", "--script", REPLAY / "replay.gd", "--", CLIENTS / SOURCES[name]]
    program = need("godot4", "godot3-server", "godot3")
    for path in (REPLAY / "replay.gd", CLIENTS / SOURCES[name]):
        (folder / path.name).write_text(as_godot_3(path.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "project.godot").write_text("config_version=4\n", encoding="utf-8")
    arguments = [folder / "ludus_client.gd"]
    return [program, "--path", folder, "-s", folder / "replay.gd", *arguments]


# What Godot 3, which Debian has, calls differently. It lets the logic of the client run; its socket code does not run.
GODOT_3 = {
    r"^class_name .*$": "",
    r"^\s*_socket\.poll\(\)$": "\tpass",
    r"-> Variant:": ":",
    r": Variant\b": "",
    r"PackedByteArray\b": "PoolByteArray",
    r"PackedStringArray\b": "PoolStringArray",
    r"TYPE_PACKED_BYTE_ARRAY": "TYPE_RAW_ARRAY",
    r"_buffer\.slice\(start\)": "(_buffer.subarray(start, -1) if start < _buffer.size() else PoolByteArray())",
    r"_buffer\.slice\(([^,]+), ([^)]+)\)": r"_buffer.subarray(\1, \2 - 1)",
    r"TYPE_FLOAT": "TYPE_REAL",
    r"is_valid_int\(": "is_valid_integer(",
    r"RefCounted": "Reference",
    r"\.is_empty\(\)": ".empty()",
    r"to_utf8_buffer": "to_utf8",
    r"Time\.get_ticks_msec": "OS.get_ticks_msec",
    r"maxi\(": "max(",
    r"OS\.get_cmdline_user_args\(\)": "OS.get_cmdline_args()",
    r"FileAccess\.get_file_as_string\((.*?)\)\.": r"read_file(\1).",
}
READ_FILE = """

func read_file(path: String) -> String:
\tvar file := File.new()
\tfile.open(path, File.READ)
\treturn file.get_as_text()
"""


def as_godot_3(source):
    """Return a script with the names of Godot 3."""
    for pattern, replacement in GODOT_3.items():
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE)
    return source + READ_FILE


@pytest.fixture(scope="module", params=SOURCES)
def program(request, tmp_path_factory):
    """Return the command of the program of a client, and a folder."""
    folder = tmp_path_factory.mktemp(request.param)
    return build(request.param, folder), folder


@pytest.fixture
def replay(program):
    """Return a function that runs commands with a client and returns the lines that it prints."""
    command, folder = program
    path = folder / "commands"

    def run(*commands):
        """Run commands; return the printed lines."""
        path.write_text("".join(f"{line}\n" for line in commands), encoding="utf-8")
        done = subprocess.run([*command, path], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return [line for line in done.stdout.splitlines() if line.split(" ")[0] in KINDS]

    return run


KINDS = {"value", "event", "unsent", "dropped", "action", "error", "sent"}


def transcript(name, key="messages"):
    """Return the lines of a transcript."""
    return json.loads((FOLDER / "transcripts" / f"{name}.json").read_text(encoding="utf-8"))[key]


def commands_of(lines: list[dict]) -> Iterator[str]:
    """Yield the commands of a session: a client receives a message before it sends one that acknowledges it."""
    waiting: list[dict] = []
    sent = 0
    for line in lines:
        if "connection" in line:
            waiting = []  # was lost with the connection
        elif line["from"] == "gateway":
            waiting.append(line)
        else:
            message = line["message"]
            is_repeated = 0 < message.get("seq", 0) <= sent
            last = message.get("ack", 0) if message["type"] not in ("hello", "bye") else 1 << 53
            while waiting and waiting[0]["message"].get("seq", 0) <= last:
                yield f"gateway {waiting.pop(0)['hex']}"
            if message["type"] == "hello":
                yield f"hello {line['hex']}"
            elif message.get("seq", 0) and not is_repeated:
                sent = message["seq"]
                yield f"game {line['hex']}"
    yield from (f"gateway {line['hex']}" for line in waiting)


def expected_of(lines):
    """Return the messages that the client of a transcript sends itself, except the last one, bye."""
    sent, expected = 0, []
    for line in lines:
        message = line.get("message", {})
        if line.get("from") == "game" and message["type"] != "bye" and not 0 < message.get("seq", 0) <= sent:
            sent = max(sent, message.get("seq", 0))
            expected.append(msgpack.unpackb(bytes.fromhex(line["hex"])))
    return expected


def sent_by(printed):
    """Return the messages that a client has sent, without what is its own: its name and its clock."""
    messages = [msgpack.unpackb(bytes.fromhex(line.split()[1])) for line in printed if line.startswith("sent ")]
    return [without_own(message) for message in messages]


def without_own(message):
    """Return a message without defaults and without what differs between clients."""
    kept = {key: value for key, value in message.items() if key not in ("client", "clock")}
    return kept if message["type"] != "hello" else {key: value for key, value in kept.items() if value not in ("", 0)}


def test_codec(replay):
    """Every value is decoded and encoded again, in any format; other bytes are refused."""
    values = transcript("codec", "values")
    printed = replay(*(f"decode {value['hex']}" for value in values))
    assert len(printed) == len(values)
    for value, line in zip(values, printed, strict=True):
        if value.get("error"):
            assert line.startswith("error "), value
        else:
            again = msgpack.unpackb(bytes.fromhex(line.removeprefix("value ")))
            assert again == msgpack.unpackb(bytes.fromhex(value["hex"])), value


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"\x81\xa1a\xcb" + bytes.fromhex("7ff0000000000000"), "value"),
        (b"\x81\xa1a\xca" + bytes.fromhex("7fc00000"), "value"),
        (b"\x81\xa1a\xcf" + bytes.fromhex("0020000000000001"), "value"),
        (b"\x81\xa1a\xcf" + bytes.fromhex("ffffffffffffffff"), "value"),
        (b"\x81\xa1a\xd3" + bytes.fromhex("ffdfffffffffffff"), "value"),
        (b"\x91" * 17 + b"\x90", "frame"),
        (b"\xdd\xff\xff\xff\xff", "frame"),
        (b"\xdb\xff\xff\xff\xff", "frame"),
    ],
    ids=["infinite", "nan", "large", "largest", "small", "deep", "long-list", "long-text"],
)
def test_codec_refuses(replay, payload, code):
    """Numbers that are not finite or too large, deep nesting and sizes beyond the payload are errors."""
    assert replay(f"decode {payload.hex()}") == [f"error {code}"]


def test_codec_takes_limits(replay):
    """The largest integers and 16 levels are allowed."""
    for value in (1 << 53, -(1 << 53)):
        (line,) = replay(f"decode {msgpack.packb(value).hex()}")
        assert msgpack.unpackb(bytes.fromhex(line.removeprefix("value "))) == value
    nested = b"\x91" * 15 + b"\x90"
    assert replay(f"decode {nested.hex()}") == [f"value {nested.hex()}"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(replay, name):
    """A client that is driven by the gateway's messages sends those of the game, with the same numbers."""
    lines = transcript(name)
    printed = replay(*commands_of(lines))
    assert sent_by(printed) == [without_own(message) for message in expected_of(lines)]
    farewell = ["error bye"] if lines[-1]["from"] == "gateway" else []
    assert [line for line in printed if line.startswith(("error", "unsent"))] == farewell


def test_refused(replay):
    """The code of every error reaches the game."""
    lines = transcript("refused")
    hello = next(line for line in lines if "hex" in line)
    errors = [line for line in lines if line.get("from") == "gateway" and line["message"]["type"] == "error"]
    printed = replay(f"hello {hello['hex']}", *(f"gateway {line['hex']}" for line in errors))
    assert printed[1:] == [f"error {line['message']['code']}" for line in errors]


def payload(**message):
    """Return a gateway command with a message."""
    return f"gateway {msgpack.packb(message).hex()}"


def opened(name="lock-step"):
    """Return the commands that open a session and start match 1, and the command of its first observation."""
    commands = list(commands_of(transcript(name)))
    return commands[:3], next(command for command in commands if command.startswith("game"))


def test_resend(replay):
    """What the gateway did not receive is sent again, unchanged; what it did is not."""
    begin, observation = opened()
    hello, welcome, _ = begin
    printed = replay(*begin, observation, hello, welcome)
    first, again = (line for line in printed if line.startswith("sent ") and b"observation" in bytes.fromhex(line[5:]))
    assert first == again
    resumed = sent_by(printed)[2]
    assert (resumed["type"], resumed["resume"], resumed["ack"]) == ("hello", "session-1", 1)

    message = msgpack.unpackb(bytes.fromhex(welcome.split()[1]))
    printed = replay(*begin, observation, hello, payload(**message | {"ack": 1}))
    assert [message["type"] for message in sent_by(printed)] == ["hello", "observation", "hello"]


def test_sent_while_disconnected(replay):
    """A message of a time without a connection is sent after the next welcome."""
    hello, welcome, start = opened()[0]
    printed = replay(hello, welcome, start, hello, opened()[1], welcome)
    assert [line.split()[0] for line in printed] == ["sent", "event", "event", "sent", "event", "sent"]


def test_duplicates_and_gaps(replay):
    """A duplicate has no effect, and a gap is an error."""
    begin, _ = opened()
    begin.append(begin[-1])
    printed = replay(*begin, payload(type="match_start", match=2, seq=3, seed=0))
    assert [line for line in printed if not line.startswith("sent")] == [
        "event welcome 0",
        "event match_start 1",
        "error sequence",
    ]


def test_order(replay):
    """Nothing but a welcome opens a connection."""
    hello, _, start = opened()[0]
    assert replay(hello, start)[-1] == "error order"


def test_lost_session(replay):
    """A session that is gone voids its matches, and the next one starts with number 1."""
    begin, observation = opened()
    hello, welcome, start = begin
    printed = replay(*begin, observation, "reset", observation, hello, welcome, start, observation)
    assert [line for line in printed if line.startswith(("event match", "unsent"))] == [
        "event match_start 1",
        "event match_void 1",
        "unsent observation 1",
        "event match_start 1",
    ]
    assert [(m["type"], m.get("seq", 0)) for m in sent_by(printed)] == [
        ("hello", 0),
        ("observation", 1),
        ("hello", 0),
        ("observation", 1),
    ]


def test_too_many_unacknowledged(replay):
    """A client does not send more than the gateway allows to be without acknowledgement."""
    (hello, welcome, start), observation = opened()
    message = msgpack.unpackb(bytes.fromhex(welcome.split()[1]))
    message["limits"]["unacknowledged"] = 2
    assert replay(hello, payload(**message), start, *[observation] * 3)[-1] == "error sequence"


@pytest.mark.parametrize(
    ("missing", "commands", "expected"),
    [
        # In time: takes effect after the delay.
        ("repeat", "ask 0, receive 0 5, action 0, action 1, action 2", "dropped, action 0, action 0, action 5"),
        # Late, but not too old: takes effect at once.
        ("repeat", "ask 0, action 2, receive 0 5, action 3", "dropped, action 0, action 5"),
        # Too old: dropped, and listed by the next observation, once.
        (
            "repeat",
            "ask 0, action 4, action 5, receive 0 5, action 6, ask 6, ask 9",
            "dropped, action 0, action 0, action 0, dropped 0, dropped",
        ),
        # Older than one that took effect: dropped.
        (
            "repeat",
            "ask 0, ask 1, receive 1 7, action 3, receive 0 5, action 4, ask 4",
            "dropped, dropped, action 7, action 7, dropped 0",
        ),
        # Missing: the last action is repeated, or the no-op is done until the action comes.
        (
            "repeat",
            "ask 0, receive 0 5, action 2, ask 3, action 5, receive 3 6, action 6",
            "dropped, action 5, dropped, action 5, action 6",
        ),
        (
            "no-op",
            "ask 0, receive 0 5, action 2, ask 3, action 4, action 5, receive 3 6, action 6",
            "dropped, action 5, dropped, action 5, action 0, action 6",
        ),
    ],
    ids=["in-time", "late", "too-old", "overtaken", "repeat", "no-op"],
)
def test_seat_clock(replay, missing, commands, expected):
    """An action takes effect, is dropped or is replaced as the protocol describes, with delay 2 and age 4."""
    assert replay(f"clock 2 4 {missing}", *commands.split(", ")) == expected.split(", ")


@pytest.fixture
def open_numbers(program, request, monkeypatch):
    """Return a function that makes an environment of the game of numbers, which a client plays."""

    def make(num_matches, *, scheme="tcp"):
        command = [str(part) for part in program[0]]
        if command[-1].endswith(".mjs"):
            option = ["--experimental-websocket"] if scheme == "ws" else []
            whole = (command[0], *option, *command[1:], f"{scheme}://127.0.0.1:{{port}}", "{token}", str(num_matches))
        elif scheme == "tcp":
            whole = (*command, "{port}", "{token}", str(num_matches))
        else:
            pytest.skip("the client has no WebSocket")
        monkeypatch.setenv(COMMANDS_VARIABLE, shlex.join(whole))
        environment = RemoteEnvironment(RemoteConfig(command=whole), num_matches=num_matches)
        request.addfinalizer(environment.close)
        return environment

    return make


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_matches_with_a_gateway(open_numbers, scheme):
    """Observations, rewards, results and statistics are those of the actions, in several matches at once."""
    environment, rng = open_numbers(3, scheme=scheme), np.random.default_rng(0)
    tick = environment.reset(np.arange(3, dtype=np.uint64))
    last = np.stack([tick.roles["player"].observation["numbers"][:, seat, 1] for seat in range(2)], axis=1)
    assert last.tolist() == [[0, 0], [1, 0], [2, 0]]
    for step in range(1, 14):
        actions = rng.integers(4, size=(3, 2, 1))
        tick = environment.step({"player": actions})
        role, last = tick.roles["player"], actions[..., 0]
        assert role.reward.tolist() == (last - last[:, ::-1]).tolist()
        numbers = np.stack([np.full((3, 2), (step - 1) % 6 + 1), last, last[:, ::-1]], axis=-1)
        assert role.observation["numbers"].tolist() == numbers.tolist()
        assert tick.terminated.tolist() == [step % 6 == 0] * 3
        if step % 6 == 0:
            assert tick.outcome.tolist() == [[1, 0]] * 3
            assert role.statistics["last"].tolist() == last.tolist()
            environment.reset(np.arange(3, dtype=np.uint64))


def test_a_lost_connection_is_resumed(open_numbers):
    """The match goes on where it was."""
    environment = open_numbers(1)
    tick = environment.reset(np.zeros(1, np.uint64))
    for step in range(1, 6):
        if step == 3:
            (game,) = environment._gateway.games.values()
            environment._gateway._loop.call_soon_threadsafe(game.connection.abandon)
        tick = environment.step({"player": np.full((1, 2, 1), step % 4)})
        assert not tick.void.any()
        assert tick.roles["player"].observation["numbers"][0, 0].tolist() == [step, step % 4, step % 4]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_clients_are_small(source):
    """A client is one file of at most 400 lines without comments, none of them long."""
    lines = (CLIENTS / source).read_text(encoding="utf-8").splitlines()
    assert sum(re.match(r"\s*(//|/\*\*|\*|#[# ]|$)", line) is None for line in lines) <= 400
    assert max(len(line.expandtabs(4)) for line in lines) <= 120
