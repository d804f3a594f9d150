"""Parts of the chaos campaign: its faults, its checks and its table."""

from __future__ import annotations

import random
import socket
import time

import pytest
from chaos.campaign import Instant, draw, ending_problems
from chaos.damage import spoil
from chaos.faults import FAULTS
from chaos.machine import Disk, Link
from chaos.table import table
from chaos.target import KINDS


@pytest.mark.parametrize(
    ("status", "output", "problems"),
    [
        (-9, "", 0),
        (130, "SIGINT: stopping cleanly\nstopped: SIGINT\ngo on with: ludus resume run\n", 0),
        (1, "error: the disk is full; free space\n", 0),
        (1, "", 1),
        (1, "error: one\nerror: two\n", 1),
        (0, "", 1),
        (-9, "Traceback (most recent call last):\n", 1),
    ],
)
def test_a_command_must_end_with_one_clear_line(status, output, problems):
    """Unless a signal killed it; a traceback is always a problem."""
    assert len(list(ending_problems(status, output))) == problems


@pytest.mark.parametrize("kind", KINDS)
def test_all_faults_of_a_kind_are_drawn_equally_often(kind):
    """In an order that depends on the seed only."""
    possible = [fault for fault in FAULTS if kind in fault.kinds]
    drawn = draw(FAULTS, kind, 3 * len(possible), random.Random(1))
    assert all(drawn.count(fault) == 3 for fault in possible)
    assert drawn == draw(FAULTS, kind, 3 * len(possible), random.Random(1))
    assert drawn != draw(FAULTS, kind, 3 * len(possible), random.Random(2))


def test_damaged_files_differ(tmp_path):
    """One bit is flipped, or the end is cut, or the file is gone."""
    data, ways = random.Random(0).randbytes(100), set()
    for seed in range(20):
        path = tmp_path / str(seed)
        path.write_bytes(data)
        way = spoil(path, random.Random(seed))
        ways.add(way)
        if way == "removed":
            assert not path.exists()
            continue
        left = path.read_bytes()
        if way == "cut":
            assert left != data
            assert data.startswith(left)
        else:
            assert sum((a ^ b).bit_count() for a, b in zip(left, data, strict=True)) == 1
    assert ways == {"flipped", "cut", "removed"}


def test_the_table_sums_by_fault_and_kind():
    """It also names the faults that were not possible."""
    values = {"summary": "", "lost_models": 0, "orphans": 0}
    instants = [
        Instant(fault="kill", kind="sampler", lost_matches=2, problems=(), recovered_s=1.0, **values),
        Instant(fault="kill", kind="sampler", lost_matches=0, problems=("p",), recovered_s=3.0, **values),
        Instant(fault="stop", kind="sampler", lost_matches=0, problems=(), recovered_s=0.5, **values),
    ]
    lines = table(instants, {"clock": "no C compiler"}).splitlines()
    assert lines[2] == "| kill | sampler | 2 | 2 | 0 | 1 | 0 | 2.0 | 3.0 |"
    assert lines[4] == "| all | sampler | 3 | 2 | 0 | 1 | 0 | 1.0 | 3.0 |"
    assert lines[5].startswith("| clock | not possible here: no C compiler |")


@pytest.fixture
def echo():
    """Return a link to a server, and a function that connects through it and returns both ends."""
    server = socket.create_server(("127.0.0.1", 0))
    link = Link(server.getsockname()[1])
    link.start()
    ends = [server]

    def connect():
        near = socket.create_connection(("127.0.0.1", link.port))
        far, _ = server.accept()
        ends.extend((near, far))
        near.settimeout(5)
        far.settimeout(5)
        return near, far

    yield link, connect
    link.close()
    for end in ends:
        end.close()


def test_a_link_delays_data_and_limits_its_rate(echo):
    """In both directions; bytes that are sent to the run are counted."""
    link, connect = echo
    near, far = connect()
    near.sendall(b"up")
    assert far.recv(9) == b"up"
    assert link.sent_bytes == 2
    link.delay_s = 0.3
    start = time.monotonic()
    far.sendall(b"down")
    assert near.recv(9) == b"down"
    assert time.monotonic() - start >= 0.3
    assert link.sent_bytes == 2
    link.restore()
    link.bytes_per_s = 1000.0
    start = time.monotonic()
    near.sendall(bytes(300))
    assert len(far.recv(999)) == 300  # one chunk
    assert time.monotonic() - start >= 0.3


def test_a_link_is_cut(echo):
    """Both ends see the end of the connection; a link that is down accepts none."""
    link, connect = echo
    near, far = connect()
    near.sendall(b"up")
    assert far.recv(9) == b"up"
    link.is_down = True
    link.cut()
    assert near.recv(9) == far.recv(9) == b""
    with socket.create_connection(("127.0.0.1", link.port)) as refused:
        refused.settimeout(5)
        assert refused.recv(9) == b""


def test_a_disk_is_full_until_it_is_freed(tmp_path):
    """To the last byte; without permission to mount, the reason is returned."""
    disk = Disk(tmp_path / "disk", megabytes=1)
    if reason := disk.mount():
        assert "mount" in reason
        return
    try:
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (disk.path / "new").write_bytes(b"x")
        disk.free()
        (disk.path / "after").write_bytes(bytes(1000))
    finally:
        disk.unmount()
