"""Games in processes, and gateways that tests talk to."""

from __future__ import annotations

import runpy
import shlex
import socket
import struct
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import ludus
import msgpack
import pytest
from ludus.matchmaker import PoolChange
from ludus.runs import change_pool
from ludus_remote.config import RemoteConfig
from ludus_remote.environment import RemoteEnvironment
from ludus_remote.gateway import Gateway, GatewayOptions
from ludus_remote.programs import COMMANDS_VARIABLE
from websockets.sync.client import connect

GAME = Path(__file__).with_name("rounds_game.py")


@pytest.fixture
def options(monkeypatch):
    """Return a function that returns options of the environment for the game of the tests, which is allowed."""

    def make(*, matches=1, behaviour="", **options):
        command = (sys.executable, str(GAME), "{port}", "{token}", str(matches), behaviour)[: 6 if behaviour else 5]
        monkeypatch.setenv(COMMANDS_VARIABLE, shlex.join(command))
        return {"command": command, **options}

    return make


@pytest.fixture
def open_environment(options):
    """Return a function that makes an environment, which is closed after the test."""
    opened = []

    def make(num_matches, **chosen):
        environment = RemoteEnvironment(RemoteConfig(**options(**chosen)), num_matches=num_matches)
        opened.append(environment)
        return environment

    yield make
    for environment in opened:
        environment.close()


class Peer:
    """A game that a test plays, over TCP or a WebSocket."""

    def __init__(self, port, transport="tcp"):
        if transport == "tcp":
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=5.0)
        else:
            self.stack = ExitStack()
            opened = connect(f"ws://127.0.0.1:{port}/", compression=None, open_timeout=5.0)
            self.websocket = self.stack.enter_context(opened)
        self.transport = transport

    def send(self, payload):
        """Send a payload."""
        if self.transport == "tcp":
            self.socket.sendall(struct.pack(">I", len(payload)) + payload)
        else:
            self.websocket.send(payload)

    def receive(self, *, pings=False):
        """Return the next message, without pings."""
        while True:
            message = msgpack.unpackb(self._receive())
            if pings or message["type"] != "ping":
                return message

    def _receive(self):
        if self.transport != "tcp":
            return self.websocket.recv(timeout=5.0)
        return self._exactly(*struct.unpack(">I", self._exactly(4)))

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("closed")
            data += part
        return data

    def close(self):
        """Close without a farewell."""
        if self.transport == "tcp":
            self.socket.close()
        else:
            with suppress(OSError):
                self.websocket.socket.shutdown(socket.SHUT_RDWR)
            self.stack.close()


@pytest.fixture
def open_peer():
    """Return a function that connects to a port."""
    peers = []

    def make(port, transport="tcp"):
        peers.append(Peer(port, transport))
        return peers[-1]

    yield make
    for peer in peers:
        with suppress(OSError):
            peer.close()


@pytest.fixture
def open_gateway():
    """Return a function that opens a gateway for the game of the transcripts."""
    gateways = []

    def make(*, tokens=("transcript-token-0001",), num_matches=1, schema=None, **options):
        chosen = GatewayOptions(host="127.0.0.1", port=0, tokens=tokens, **options)
        gateways.append(Gateway(chosen, num_matches, schema))
        return gateways[-1]

    yield make
    for gateway in gateways:
        gateway.close()


@pytest.fixture(scope="session")
def script():
    """Return the script of the transcripts, whose functions make messages."""
    return runpy.run_path(str(Path(__file__).with_name("make_transcripts.py")))


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory):
    """Train a league of the game for a moment; its first model is in the pool ``chosen``."""
    command = (sys.executable, str(GAME), "{port}", "{token}", "2")
    folder = tmp_path_factory.mktemp("runs") / "rounds"
    learner = {"batch_decisions": 32, "num_minibatches": 1, "epochs": 1, "segment_decisions": 8}
    player = {
        "algorithm": "ppo",
        "network": "modular",
        "modular": {"core": "gru", "core_size": 32, "torso": [32]},
        "interfaces": ["frame-stack", "flatten"],
        "frame-stack": {"frames": 2},
        "matchmaker": "latest-self-play",
        "freeze_every_decisions": 40,
    }
    config = {
        "run": {"decisions": 80, "workers": 0},
        "environment": {"name": "remote", "remote": {"command": list(command)}},
        "sampling": {"matches": 2},
        "evaluation": {"final_matches": 0, "matches": 1},
        "players": {"main_agent": player | {"ppo": learner}},
        "anchors": {"random": {"agent": "random"}},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(COMMANDS_VARIABLE, shlex.join(command))
        with ludus.train(config, run_dir=folder) as run:
            assert len(run.models) >= 2
    change_pool(folder, PoolChange(pool="chosen", model="main_agent@1", enters=True))
    return folder
