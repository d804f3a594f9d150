"""Settings of the machine: interpreter, game server, addresses and ports, from variables of the environment.

A run file has none of them, since it must not choose which program runs or which server is used.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Mapping

from attrs import define, frozen
from ludus.errors import ConfigError, PluginError

PYTHON = "LUDUS_HOK_PYTHON"
_README = "see the README of ludus-hok"
_NUM_PORTS = 2  # one for each camp
_PAIRS = 1000


@frozen(kw_only=True)
class ServerSettings:
    """Where the game runs. All variables but the first are those of hok_env.

    Args:
        python: ``LUDUS_HOK_PYTHON``: interpreter in which hok_env is installed.
        server: ``GAMECORE_SERVER_ADDR``: address of the game server.
        client: ``AI_SERVER_ADDR``: host name or IP by which the game server reaches this machine.
        first_port: ``ACTOR_PORT_BEGIN``: first port for connections from the game; each match takes two.
        runtime_prefix: ``ACTOR_RUNTIME_ID_PREFIX``: start of the names of games on the server.
        features: ``INTERFACE_CONFIG_PATH``: file of the features; empty: that of hok_env.
    """

    python: str
    server: str
    client: str
    first_port: int
    runtime_prefix: str
    features: str

    @classmethod
    def read(cls, variables: Mapping[str, str] = os.environ) -> ServerSettings:
        """Return the settings that variables of the environment hold.

        Raises:
            PluginError: There is no interpreter with hok_env.
            ConfigError: A value is malformed.
        """
        python = _find_python(variables.get(PYTHON, ""))
        server = variables.get("GAMECORE_SERVER_ADDR", "127.0.0.1:23432")
        if not re.fullmatch(r"[^:/\s]+:\d{1,5}", server):
            raise ConfigError(f'GAMECORE_SERVER_ADDR: expected "HOST:PORT", such as 127.0.0.1:23432, got {server!r}')
        client = variables.get("AI_SERVER_ADDR", "127.0.0.1")
        if not re.fullmatch(r"[^:/\s]+", client):
            raise ConfigError(f"AI_SERVER_ADDR: expected a host name or IP without a port, got {client!r}")
        port = variables.get("ACTOR_PORT_BEGIN", "35300")
        if not (port.isdecimal() and 1024 <= int(port) <= 60_000):
            raise ConfigError(f"ACTOR_PORT_BEGIN: expected a port from 1024 to 60000, got {port!r}")
        host = socket.gethostname()
        prefix = variables.get("ACTOR_RUNTIME_ID_PREFIX", f"ludus-{host}")
        return cls(
            python=python,
            server=server,
            client=client,
            first_port=int(port),
            runtime_prefix=re.sub(r"[^A-Za-z0-9.-]", "-", prefix),  # hok_env allows no underscores
            features=variables.get("INTERFACE_CONFIG_PATH", ""),
        )


def _find_python(value: str) -> str:
    if not value:
        raise PluginError(
            f"hok needs the licensed hok_env, which runs in Python 3.8 or 3.9: set {PYTHON} to an interpreter in which "
            f"it is installed ({_README})"
        ) from ImportError(f"{PYTHON} names no interpreter with hok_env")
    found = shutil.which(value)
    if found is None:
        raise PluginError(
            f"{PYTHON}: expected a Python interpreter with hok_env, but {value!r} is no program; {_README}"
        )
    return found


@define
class PortPair:
    """Two neighbouring ports, reserved among the processes of this machine that use this package.

    Args:
        first: The lower port.
        reservation: Holds the reservation, which ends when it is closed or the process ends.
    """

    first: int
    _reservation: socket.socket

    @classmethod
    def reserve(cls, first_port: int) -> PortPair:
        """Reserve the lowest free pair.

        Args:
            first_port: Where to start.

        Raises:
            PluginError: None is free.
        """
        last = min(first_port + _NUM_PORTS * _PAIRS, 65_536 - _NUM_PORTS)
        for port in range(first_port, last, _NUM_PORTS):
            reservation = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                reservation.bind(f"\0ludus-hok-{port}")  # an abstract name: no file, released with the process
                _require_free(port)
            except OSError:
                reservation.close()
            else:
                return cls(port, reservation)
        raise PluginError(f"no two free ports from {first_port} to {last}; set ACTOR_PORT_BEGIN to another port")

    def release(self) -> None:
        """Let other processes reserve the ports; releasing twice is harmless."""
        self._reservation.close()


def _require_free(port: int) -> None:
    """Bind both ports for a moment.

    Raises:
        OSError: One is in use.
    """
    for one in range(port, port + _NUM_PORTS):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", one))
