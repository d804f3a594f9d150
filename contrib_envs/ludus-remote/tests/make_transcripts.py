"""Write the transcripts of sessions, which tests of client libraries replay: ``python make_transcripts.py``."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgpack

FOLDER = Path(__file__).parents[1] / "transcripts"
TOKEN = "transcript-token-0001"
RESUME = "session-1"
Message = dict[str, Any]

ROLE: Message = {
    "name": "duelist",
    "teams": [0, 1],
    "leaves": {
        "position": {"dtype": "float32", "shape": [2], "low": -8.0, "high": 8.0},
        "grid": {"dtype": "uint8", "shape": [2, 2], "low": 0.0, "high": 1.0},
    },
    "labels": [3, 2],
    "mask": True,
    "privileged": {"distance": {"dtype": "float32", "shape": []}},
    "reward_parts": ["hit", "win"],
    "statistics": ["hits"],
    "seat_endings": True,
    "builtin": ["training-bot"],
    "no_op": [0, 0],
}
SCHEMA: Message = {
    "roles": [ROLE],
    "turn": "asynchronous",
    "tick_s": 0.1,
    "max_ticks": 600,
    "scenarios": {"close": ["distance"]},
    "constant_sum": True,
    "outcome_rule": "the duelist that is hit three times loses",
}
LIMITS: Message = {
    "frame_bytes": 16 << 20,
    "unacknowledged": 4096,
    "messages_per_s": 20000,
    "silence_s": 60.0,
    "message_s": 10.0,
    "resume_s": 10.0,
}
SEATS = [{"role": "duelist", "index": index, "team": index} for index in range(2)]


def hello(**changes: Any) -> Message:
    """Return the hello of the game."""
    message = {"type": "hello", "protocol": [1, 1], "game": "duel", "build": "1.0", "client": "transcript/1"}
    return message | {"token": TOKEN, "matches": 1, "schema": SCHEMA} | changes


def welcome(mode: str = "lock-step", **changes: Any) -> Message:
    """Return the answer of the gateway."""
    timing = {"period": 3, "delay": 2, "max_age": 4, "missing": "repeat"}
    message = {"type": "welcome", "ack": 0, "protocol": 1, "resume": RESUME, "mode": mode, "matches": 1, "seats": SEATS}
    return message | {"limits": LIMITS, "timing": [timing, timing] if mode == "real-time" else []} | changes


def start(seq: int, match: int, **changes: Any) -> Message:
    """Return the start of a match."""
    message = {"type": "match_start", "match": match, "seq": seq, "ack": 0, "seed": 9007199254740991}
    return message | {"scenario": "default", "parameters": {}, "policies": [], "builtin": []} | changes


def entry(seat: int, x: float, *, acts: bool = True, mask: str = "0101010101", **changes: Any) -> Message:
    """Return the entry of a seat at (x, seat)."""
    leaves = {"position": struct.pack("<2f", x, seat), "grid": bytes([seat, 0, 0, 1])}
    shown = {"seat": seat, "acts": acts, "leaves": leaves, "mask": bytes.fromhex(mask)}
    return shown | {"privileged": {"distance": struct.pack("<f", 1.5)}} | changes


def observation(seq: int, ack: int, match: int, tick: int, *seats: Message) -> Message:
    """Return an observation of some seats."""
    return {"type": "observation", "match": match, "seq": seq, "ack": ack, "tick": tick, "seats": list(seats)}


def action(seq: int, ack: int, match: int, tick: int, *chosen: tuple[int, list[int]], lag: tuple[int, int]) -> Message:
    """Return actions; they take effect `lag[0]` ticks later, and may be `lag[1]` ticks old."""
    actions = [
        {"seat": seat, "action": labels, "apply": tick + lag[0], "deadline": tick + lag[1]} for seat, labels in chosen
    ]
    return {"type": "action", "match": match, "seq": seq, "ack": ack, "tick": tick, "actions": actions}


def end(seq: int, ack: int, match: int, tick: int, *seats: Message, **changes: Any) -> Message:
    """Return the end of a match that seat 0 has won."""
    message = {"type": "match_end", "match": match, "seq": seq, "ack": ack, "tick": tick, "ending": "terminated"}
    return (
        message | {"outcome": [1.0, 0.0], "seats": list(seats), "statistics": [{"hits": 3.0}, {"hits": 1.0}]} | changes
    )


def bye() -> Message:
    """Return a bye."""
    return {"type": "bye", "reason": "done"}


def error(code: str, text: str) -> Message:
    """Return an error."""
    return {"type": "error", "code": code, "text": text}


def game(message: Message) -> Message:
    """Return a line of the game."""
    return {"from": "game", "message": message}


def gateway(message: Message) -> Message:
    """Return a line of the gateway."""
    return {"from": "gateway", "message": message}


LOCK, REAL = (0, 0), (2, 4)
FINAL = {"mask": "", "acts": False}


def lock_step() -> Iterator[Message]:
    """Play a match in which the loser ends one step before its match."""
    yield game(hello())
    yield gateway(welcome())
    yield gateway(start(1, 1, scenario="close", parameters={"distance": 2.5}, policies=["main_agent@7", "bot"]))
    yield game(observation(1, 1, 1, 0, entry(0, -1.0), entry(1, 1.0, mask="0100010001")))
    yield gateway(action(2, 1, 1, 0, (0, [2, 1]), (1, [0, 1]), lag=LOCK))
    yield gateway({"type": "ping", "ack": 1, "time": 12.5})
    yield game({"type": "pong", "ack": 2, "time": 12.5, "clock": 100.25})
    reward = {"reward": 0.5, "parts": {"hit": 0.5}}
    yield game(observation(2, 2, 1, 4, entry(0, -0.5, **reward), {"seat": 1, "reward": -0.5, "parts": {"hit": -0.5}}))
    yield gateway(action(3, 2, 1, 4, (0, [1, 0]), lag=LOCK))
    yield game(
        {"type": "seat_end", "match": 1, "seq": 3, "ack": 3, "tick": 8, "ending": "terminated"}
        | {"seat": {"seat": 1, "reward": -1.0, "parts": {"win": -1.0}}}
    )
    yield game(observation(4, 3, 1, 8, entry(0, 0.25)))
    yield gateway(action(4, 4, 1, 8, (0, [0, 0]), lag=LOCK))
    yield game(end(5, 4, 1, 9, entry(0, 0.25, reward=1.0, parts={"win": 1.0}, **FINAL)))
    yield gateway(start(5, 2, ack=5, builtin=["", "training-bot"]))
    yield game(observation(6, 5, 2, 0, entry(0, 0.0)))
    yield gateway(action(6, 6, 2, 0, (0, [0, 0]), lag=LOCK))
    finals = [entry(seat, 0.0, **FINAL) for seat in range(2)]
    yield game(end(7, 6, 2, 600, *finals, ending="truncated", outcome=[0.5, 0.5], statistics=[]))
    yield game(bye())


def real_time() -> Iterator[Message]:
    """Play a match in which the second action of seat 1 is late."""
    yield game(hello())
    yield gateway(welcome("real-time"))
    yield gateway(start(1, 1))
    yield game(observation(1, 1, 1, 0, entry(0, -1.0), entry(1, 1.0)))
    yield gateway(action(2, 1, 1, 0, (0, [2, 1]), (1, [1, 0]), lag=REAL))
    yield game(observation(2, 2, 1, 3, entry(0, -0.75)))
    yield game(observation(3, 2, 1, 4, entry(1, 0.75)))
    yield gateway(action(3, 3, 1, 3, (0, [2, 1]), lag=REAL))
    yield gateway(action(4, 3, 1, 4, (1, [0, 1]), lag=REAL))
    yield game(observation(4, 3, 1, 6, entry(0, -0.5)))
    yield gateway(action(5, 4, 1, 6, (0, [0, 0]), lag=REAL))
    yield game(observation(5, 5, 1, 9, entry(0, -0.25), entry(1, 0.5, dropped=[4])))
    yield gateway(action(6, 5, 1, 9, (0, [1, 1]), (1, [2, 0]), lag=REAL))
    yield game(end(6, 6, 1, 12, {"seat": 0, "reward": 1.0}, {"seat": 1, "reward": -1.0}))
    yield game(bye())


def resume() -> Iterator[Message]:
    """Lose the connection after an observation, whose action is sent again; send a duplicate."""
    yield game(hello())
    yield gateway(welcome())
    yield gateway(start(1, 1))
    yield game(observation(1, 1, 1, 0, entry(0, -1.0), entry(1, 1.0)))
    yield gateway(action(2, 1, 1, 0, (0, [2, 1]), (1, [0, 1]), lag=LOCK))
    yield {"connection": 2}
    yield game(hello(resume=RESUME, ack=1))
    yield gateway(welcome(ack=1))
    yield gateway(action(2, 1, 1, 0, (0, [2, 1]), (1, [0, 1]), lag=LOCK))
    yield game(observation(1, 1, 1, 0, entry(0, -1.0), entry(1, 1.0)))  # a duplicate, which gets no answer
    yield game(end(2, 2, 1, 1))
    yield game(bye())


def void() -> Iterator[Message]:
    """Abort a match by the game, and one by the gateway while an observation is under way."""
    yield game(hello())
    yield gateway(welcome())
    yield gateway(start(1, 1))
    yield game({"type": "match_void", "match": 1, "seq": 1, "ack": 1, "reason": "a player left"})
    yield gateway(start(2, 2, ack=1))
    yield gateway({"type": "match_void", "match": 2, "seq": 3, "ack": 1, "reason": "the match was reset"})
    yield game(observation(2, 2, 2, 0, entry(0, -1.0), entry(1, 1.0)))  # crossed the message above
    yield gateway(start(4, 3, ack=2))
    yield game(observation(3, 4, 3, 0, entry(0, -1.0), entry(1, 1.0)))
    yield gateway(action(5, 3, 3, 0, (0, [2, 1]), (1, [0, 1]), lag=LOCK))
    yield game(end(4, 5, 3, 1))
    yield gateway({"type": "bye", "reason": "the run ended"})


def refused() -> Iterator[Message]:
    """Cause errors, one connection for each."""
    greeting = [game(hello()), gateway(welcome()), gateway(start(1, 1))]
    answer = action(2, 1, 1, 0, (0, [2, 1]), lag=LOCK)
    played = [*greeting, game(observation(1, 1, 1, 0, entry(0, 0.0))), gateway(answer)]
    other = SCHEMA | {"roles": [ROLE | {"labels": [3, 3], "no_op": [0, 0]}]}
    nan = entry(0, 0.0) | {"leaves": {"position": struct.pack("<2f", float("nan"), 0), "grid": bytes(4)}}
    masked = entry(0, 0.0, mask="0000000101")
    cases = [
        ([game(hello(protocol=[2, 3]))], "protocol", "expected protocol 1, the game has 2 to 3"),
        ([game(hello(token="transcript-token-none"))], "token", "the token is wrong"),
        ([game(hello(resume="session-0"))], "resume", "there is no session to resume"),
        ([game(hello(schema=other))], "schema", "the schema differs from that of the run"),
        ([game(hello(matches="1"))], "message", "hello: matches: expected int"),
        ([game({"type": "hallo"})], "message", "unknown type 'hallo'"),
        ([game({"type": "pong", "time": 0.0, "clock": 0.0})], "order", "expected hello"),
        ([*greeting, game(observation(2, 1, 1, 0, entry(0, 0.0)))], "sequence", "expected number 1, got 2"),
        ([*greeting, game(observation(1, 1, 7, 0, entry(0, 0.0)))], "order", "match 7 is not running"),
        ([*greeting, game(observation(1, 1, 1, 0, nan))], "value", "leaf 'position' is not finite"),
        (
            [*greeting, game(observation(1, 1, 1, 0, masked))],
            "value",
            "label 0 has no choice",
        ),
        ([*greeting, game(observation(1, 1, 1, 0, entry(0, 0.0, reward=[1.0])))], "message", "reward: expected float"),
        ([*played, game(end(2, 2, 1, 1, outcome=[2.0, 0.0]))], "value", "outcome: expected numbers in [0, 1]"),
    ]
    for number, (lines, code, text) in enumerate(cases, start=1):
        yield {"connection": number}
        yield from lines
        yield gateway(error(code, text))


def codec() -> Iterator[Message]:
    """Yield values with their canonical bytes, and further bytes of the same value."""
    values: list[Any] = [None, False, True, 0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**53 - 1]
    values += [-1, -32, -33, -128, -129, -32768, -32769, -(2**31), -(2**31) - 1, 0.5, -1e300]
    values += ["", "é", "x" * 31, "x" * 32, "x" * 256, b"", bytes(255), bytes(256), [], list(range(15)), [0] * 16]
    values += [{}, {"a": [1, {"b": b"\x00\xff"}]}, {str(key): key for key in range(16)}]
    for value in values:
        yield {"value": to_json(value), "hex": msgpack.packb(value).hex()}
    for text, value in {"ca3f000000": 0.5, "d900": "", "d30000000000000001": 1, "dc0000": [], "de0000": {}}.items():
        yield {"value": value, "hex": text, "canonical": False}
    for text in ("c1", "c7010000", "d40000", "a2c328", "92", "81", "810101", "c403", "0000"):
        yield {"hex": text, "error": True}


def to_json(value: Any) -> Any:
    """Return a value with its bytes as ``{"bytes": hex}``."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, list) else value


def write(path: Path, key: str, lines: Iterable[Message]) -> None:
    """Write a file with a line for each of the values under a key."""
    body = ",\n".join(f"  {json.dumps(line, ensure_ascii=False)}" for line in lines)
    path.write_text(f'{{"name": "{path.stem}", "{key}": [\n{body}\n]}}\n', encoding="utf-8")


def main(folder: Path = FOLDER) -> None:
    """Write all files."""
    write(folder / "codec.json", "values", codec())
    sessions = {"lock-step": lock_step, "real-time": real_time, "resume": resume, "void": void, "refused": refused}
    for name, lines in sessions.items():
        with_bytes = (
            to_json(line) | {"hex": msgpack.packb(line["message"]).hex()} if "from" in line else line
            for line in lines()
        )
        write(folder / f"{name}.json", "messages", with_bytes)


if __name__ == "__main__":
    main()
