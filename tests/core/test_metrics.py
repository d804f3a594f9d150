"""The JSON lines stream of metrics."""

from __future__ import annotations

import json
import math
import resource
import tracemalloc

import pytest
from ludus._run.metrics import JsonLinesSink, read_metrics
from ludus.errors import RunError
from ludus.metrics import Metric


def metric(name, value, *, decisions=100, elapsed_s=1.5):
    """Return a metric."""
    return Metric(name=name, value=value, decisions=decisions, elapsed_s=elapsed_s)


@pytest.fixture
def path(tmp_path):
    """Return the path of the file."""
    return tmp_path / "metrics.jsonl"


def test_metrics_come_back_in_order(path):
    """The file is read by another process than the writer."""
    first = [metric("learner/main_agent/entropy", 0.25), metric("samples", 7.0)]
    second = [metric("samples", 9.0, decisions=200, elapsed_s=2.5)]
    sink = JsonLinesSink(path)
    sink.write(first)
    sink.write(second)
    sink.close()
    assert list(read_metrics(path)) == first + second


def test_file_format(path):
    """The documented format is also read by other tools."""
    sink = JsonLinesSink(path)
    sink.write([metric("a", 1.0), metric("b", 2.0)])
    sink.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"t": 1.5, "d": 100, "m": {"a": 1.0, "b": 2.0}}
    ]


def test_metrics_of_several_moments(path):
    """One write may hold metrics of several times."""
    metrics = [metric("a", 1.0), metric("a", 2.0, decisions=101), metric("b", 3.0, decisions=101)]
    sink = JsonLinesSink(path)
    sink.write(metrics)
    sink.close()
    assert list(read_metrics(path)) == metrics
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_null(path, value):
    """JSON has no NaN; null is read as NaN."""
    sink = JsonLinesSink(path)
    sink.write([metric("a", value)])
    sink.close()
    assert '"a": null' in path.read_text()
    [read] = read_metrics(path)
    assert math.isnan(read.value)


def test_empty_write_adds_no_line(path):
    """The file is unchanged."""
    sink = JsonLinesSink(path)
    sink.write([])
    sink.close()
    assert path.read_bytes() == b""


def test_metrics_can_be_read_before_closing(path):
    """A dashboard reads the file of a running run."""
    sink = JsonLinesSink(path)
    sink.write([metric("a", 1.0)])
    assert len(list(read_metrics(path))) == 1
    sink.close()


def test_reopening_appends(path):
    """A resumed run continues the file."""
    for value in (1.0, 2.0):
        sink = JsonLinesSink(path)
        sink.write([metric("a", value)])
        sink.close()
        sink.close()
    assert [read.value for read in read_metrics(path)] == [1.0, 2.0]


@pytest.mark.parametrize("torn", [b'{"t": 1.5, "d"', b"\x00" * 200_000, b"x"])
@pytest.mark.parametrize("lines", [0, 1, 2000])
def test_incomplete_last_line_is_skipped_and_removed(path, lines, torn):
    """A crash during a write loses that line only."""
    sink = JsonLinesSink(path)
    for _ in range(lines):
        sink.write([metric("a", 1.0)])
    sink.close()
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert len(list(read_metrics(path))) == lines
    JsonLinesSink(path).close()
    assert path.read_bytes() == whole


def test_failed_write_leaves_the_file_unchanged(path):
    """A nearly full disk writes a part of a line, which would damage the next one."""
    sink = JsonLinesSink(path)
    sink.write([metric("a", 1.0)])
    whole, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            sink.write([metric("a", 2.0)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == whole
    sink.write([metric("a", 3.0)])
    sink.close()
    assert [read.value for read in read_metrics(path)] == [1.0, 3.0]


def test_reopening_reads_the_end_of_the_file_only(path):
    """The metrics of a long run do not fit into memory."""
    line = b'{"t": 1, "d": 2, "m": {}}\n'
    path.write_bytes(line * 100_000 + b"torn")
    tracemalloc.start()
    JsonLinesSink(path).close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size == len(line) * 100_000
    assert peak < path.stat().st_size / 5


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"t": 1, "d": 2, "m": {"a": "b"}}',
        b'{"d": 2, "m": {"a": 1}}',
        b'{"t": 1, "d": Infinity, "m": {"a": 1}}',
        b"[" * 100_000,
    ],
    ids=lambda line: line[:40].decode(),
)
def test_damaged_line_is_an_error(path, line):
    """The message names the line."""
    path.write_bytes(b'{"t": 1, "d": 2, "m": {}}\n' + line + b"\n")
    with pytest.raises(RunError, match=r"metrics\.jsonl:2: damaged metric line"):
        list(read_metrics(path))
