"""The transcripts are what the documentation promises to authors of client libraries."""

import json
import runpy
from pathlib import Path

import msgpack
import pytest

TRANSCRIPTS = sorted((Path(__file__).parents[1] / "transcripts").glob("*.json"))
SESSIONS = [path for path in TRANSCRIPTS if path.stem != "codec"]
names = pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)


def restore(value):
    """Return a value of a transcript with its bytes."""
    if isinstance(value, dict):
        return bytes.fromhex(value["bytes"]) if value.keys() == {"bytes"} else {k: restore(v) for k, v in value.items()}
    return [restore(item) for item in value] if isinstance(value, list) else value


def test_the_files_are_those_of_the_script(tmp_path):
    """A change of the script is written to the files."""
    script = runpy.run_path(str(Path(__file__).with_name("make_transcripts.py")))
    script["main"](tmp_path)
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_text(encoding="utf-8") for path in TRANSCRIPTS}


@names
def test_the_bytes_are_canonical(path):
    """The bytes of every message decode to it, and it encodes to them."""
    lines = [line for line in json.loads(path.read_text(encoding="utf-8"))["messages"] if "from" in line]
    for line in lines:
        message, payload = restore(line["message"]), bytes.fromhex(line["hex"])
        assert msgpack.unpackb(payload) == message
        assert msgpack.packb(message) == payload
    assert lines[0]["message"]["type"] == "hello"


@names
def test_sequence_numbers_follow_each_other(path):
    """Each side counts its numbered messages; only those sent again after a lost connection have older numbers."""
    numbers, connection = {"game": 0, "gateway": 0}, 1
    for line in json.loads(path.read_text(encoding="utf-8"))["messages"]:
        if "connection" in line:
            connection = line["connection"]
            numbers = numbers if path.stem == "resume" else dict.fromkeys(numbers, 0)
            continue
        message, sender = line["message"], line["from"]
        number = message.get("seq", 0)
        is_repeated = connection == 2 and path.stem == "resume" and 0 < number <= numbers[sender]
        is_gap = path.stem == "refused" and number == 2 and sender == "game"
        if number and not is_repeated and not is_gap:
            numbers[sender] += 1
            assert number == numbers[sender], message
