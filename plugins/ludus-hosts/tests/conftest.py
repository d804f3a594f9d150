"""Fixtures of the tests of runs on several machines: keys, sockets that are closed, waiting with a timeout."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial

import pytest
import zmq
from ludus_hosts import host_agent as _site
from ludus_hosts.connection import Connection, Listener
from ludus_hosts.host_agent import JoinOptions
from ludus_hosts.keys import RUN_KEY, JoinKey, make_keys
from ludus_hosts.wire import JoinAccepted
from ludus_local.memory import remove, shared_path
from ludus_local.process import WorkerCommand, launch
from ludus_local.supervisor import Supervisor
from ludus_local.transport import Sockets, private_ipc_dir
from tomli_w import dumps as write_toml

PATIENCE_S = 20.0


def wait_until(condition, *, meanwhile=lambda: time.sleep(0.005)):
    """Wait until a condition holds, and return its value."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not hold in time"
        meanwhile()
    return found


class Wire:
    """Makes listeners and connections with sockets of their own, and closes them."""

    def __init__(self, folder):
        self.folder = folder
        self._open = []

    def sockets(self, **limits):
        made = Sockets(**limits)
        self._open.append(made)
        return made

    def listener(self, address="tcp://127.0.0.1:*"):
        """Return a listener and its address."""
        made = Listener(self.sockets(), address, self.folder / RUN_KEY)
        self._open.insert(0, made)
        return made, made.socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def close_listener(self, listener):
        """Close a listener."""
        self._open.remove(listener)
        listener.close()
        listener.socket.close(linger=0)

    def line(self, address, key, **limits):
        return Connection(self.sockets(**limits), address, key)

    def close(self):
        for one in self._open:
            one.close()


@pytest.fixture
def eventually():
    """Return the function that waits for a condition."""
    return wait_until


@pytest.fixture
def keys(tmp_path):
    """Return a folder with the key files of a run and of a host."""
    make_keys(tmp_path / "keys", "join")
    return tmp_path / "keys"


@pytest.fixture
def key(keys):
    """Return the key of a host."""
    return JoinKey.read(keys / "join.key")


@pytest.fixture
def wire(keys):
    """Return a maker of listeners and connections."""
    made = Wire(keys)
    yield made
    made.close()


@pytest.fixture
def sockets():
    """Return a private folder for sockets; its shared memory folder is removed too."""
    made = private_ipc_dir()
    yield made
    for folder in (made, shared_path(made)):
        remove(folder)


@pytest.fixture
def free_address():
    """Return a free address, with a port that the system does not assign by itself."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return f"tcp://127.0.0.1:{port}"


@pytest.fixture
def joined():
    """Return a maker of the answers that accept a host."""

    def make(*, run="ludus-run-1-a", sampling=(), algorithm="dummy-gradient", environment=None, **more):
        tables = {
            "run": {"seed": 3, "decisions": 2000, "sampler_threads": 1, "stall_s": 60.0, "restarts": 2},
            "environment": environment or {"name": "dummy-count"},
            "sampling": dict(sampling),
            "players": {"main": {"algorithm": algorithm, "matchmaker": "dummy-uniform"}},
        }
        return JoinAccepted(run=run, config=write_toml(tables), **more)

    return make


@pytest.fixture
def options(key, tmp_path):
    """Return a maker of join options."""
    folder = tmp_path / "place"
    folder.mkdir()
    make = partial(JoinOptions, key=key, host="box", folder=folder, cache_bytes=10**9)
    return partial(make, address="tcp://127.0.0.1:1", samplers=1)


@pytest.fixture
def scripts(monkeypatch):
    """Run a tiny script instead of every worker of a host agent; return the commands."""
    commands = []

    def start(command):
        commands.append(command)
        argv = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
        return launch(
            WorkerCommand(name=command.name, argv=argv, environment=command.environment, log_path=command.log_path)
        )

    monkeypatch.setattr(_site, "Supervisor", partial(Supervisor, launch=start))
    return commands


@pytest.fixture
def is_alive():
    """Return a test of process ids."""

    def alive(pid):
        found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return bool(found.stdout.strip()) and not found.stdout.strip().startswith("Z")

    return alive
