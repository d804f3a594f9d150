"""A metric file is read while it grows."""

from __future__ import annotations

import json

import pytest
from ludus.runs import MetricTail


@pytest.fixture
def path(tmp_path):
    """Return the path of a file that does not exist yet."""
    return tmp_path / "metrics.jsonl"


def append(path, *times, end="\n"):
    """Append one report per time."""
    with path.open("a") as file:
        for time in times:
            file.write(json.dumps({"t": time, "d": 10 * time, "m": {"a": time, "b": None}}) + end)


def times(reports):
    """Return the times of reports."""
    return [report.elapsed_s for report in reports]


def test_each_report_is_read_once(path):
    """A call returns what was added since the last one."""
    tail = MetricTail(path)
    assert tail.read() == []
    append(path, 1, 2)
    assert times(tail.read()) == [1, 2]
    assert tail.read() == []
    append(path, 3)
    (report,) = tail.read()
    assert (report.elapsed_s, report.decisions, report.values["a"]) == (3, 30, 3)
    assert report.values["b"] != report.values["b"]


def test_an_incomplete_line_is_read_when_it_is_complete(path):
    """The run may be writing it."""
    tail = MetricTail(path)
    append(path, 1)
    append(path, 2, end="")
    assert times(tail.read()) == [1]
    with path.open("a") as file:
        file.write("\n")
    assert times(tail.read()) == [2]


def test_a_replaced_file_is_read_again(path):
    """The run thins the file out by writing another one."""
    tail = MetricTail(path)
    append(path, 1, 2, 3)
    tail.read()
    other = path.with_name("other")
    append(other, 1, 3)
    other.replace(path)
    assert (times(tail.read()), tail.replaced) == ([1, 3], True)
    append(path, 4)
    assert (times(tail.read()), tail.replaced) == ([4], False)


def test_a_long_file_is_read_in_parts(path):
    """Every call reads a limited number of bytes."""
    append(path, *range(100))
    tail, read, calls = MetricTail(path), [], 0
    while calls == 0 or tail.behind_bytes:
        read += times(tail.read(max_bytes=500))
        calls += 1
    assert (read, calls > 5) == (list(range(100)), True)


@pytest.mark.parametrize("line", ["{", "[]", '{"t": 1}', '{"t": "x", "d": 1, "m": {}}', "x" * 2000])
def test_damaged_lines_are_skipped(path, line):
    """Also those that are longer than a call reads."""
    append(path, 1)
    with path.open("a") as file:
        file.write(f"{line}\n")
    append(path, 2)
    tail, read = MetricTail(path), []
    for _ in range(10):
        read += times(tail.read(max_bytes=500))
    assert read == [1, 2]


def test_only_the_last_report(path):
    """The others are skipped without being parsed."""
    tail = MetricTail(path)
    tail.skip()
    assert tail.read() == []
    append(path, *range(50))
    tail = MetricTail(path)
    tail.skip()
    assert times(tail.read()) == [49]
    assert not tail.replaced
