"""The process in which hok_env plays the matches of one match index, and the connection to it.

hok_env has compiled parts for Python up to 3.9, and its library waits for the game in C code, so it runs in a process
of its own that can be killed.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from ludus.errors import PluginError, WorkerError

from ludus_hok.config import HokConfig
from ludus_hok.hok_api import REWARDS
from ludus_hok.settings import PYTHON, PortPair, ServerSettings

_SCRIPT = Path(__file__).with_name("bridge_process.py")
_IMPORT_S = 120.0
_CLOSE_S = 10.0
_LOG_LEVEL = "4"  # hok_env's number for errors only


class ProcessEndedError(WorkerError):
    """The process of hok_env has ended, or has closed its connection.

    Args:
        status: What it did, such as "ended with status 1".
    """

    def __init__(self, status: str) -> None:
        super().__init__(f"hok: the process of hok_env {status}; see its messages above")
        self.status = status


class Bridge:
    """Sends requests to the process, and receives its replies.

    Args:
        config: Options of the environment.
        settings: Settings of the machine.

    Raises:
        PluginError: The interpreter cannot be started or ended, hok_env is not installed there, or no ports are free.
        WorkerError: hok_env failed while it was set up.
    """

    def __init__(self, config: HokConfig, settings: ServerSettings) -> None:
        self._settings = settings
        self._ports = PortPair.reserve(settings.first_port)
        self._folder = tempfile.TemporaryDirectory(prefix="ludus-hok-")
        factors = {f"reward_{part}": str(getattr(config, part)) for part in REWARDS}
        Path(self._folder.name, "config.json").write_text(json.dumps({**factors, "log_level": _LOG_LEVEL}))
        self._process: subprocess.Popen[bytes] | None = None
        self._socket, far = socket.socketpair()
        try:
            with far:
                self._process = self._start(far)
            self.send(self._game_settings(config))
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def _start(self, far: socket.socket) -> subprocess.Popen[bytes]:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        try:
            return subprocess.Popen(  # noqa: S603 - the user's interpreter, this package's file
                [self._settings.python, str(_SCRIPT), str(far.fileno()), str(os.getpid())],
                pass_fds=(far.fileno(),),
                stdin=subprocess.DEVNULL,
                cwd=self._folder.name,
                env={"LOGURU_LEVEL": "WARNING", **variables},
            )
        except OSError as error:
            raise PluginError(f"{PYTHON}: {self._settings.python} cannot be started: {error}") from error

    def _game_settings(self, config: HokConfig) -> dict[str, Any]:
        settings, port = self._settings, self._ports.first
        return {
            "runtime_id": f"{settings.runtime_prefix}-{port}",
            "server": settings.server,
            "client": settings.client,
            "features": settings.features,
            "port": port,
            "action_timeout_ms": round(1000 * config.action_timeout_s),
            "max_frames": config.max_frames,
            "frame_interval": config.frame_interval,
        }

    def _wait_until_ready(self) -> None:
        try:
            self.receive(_IMPORT_S)
        except ProcessEndedError as error:
            raise PluginError(
                f"{PYTHON}: expected a Python 3.8 or 3.9 with hok_env, but {self._settings.python} {error.status} "
                "before hok_env was ready; see its messages above"
            ) from error

    def send(self, request: Mapping[str, Any]) -> None:
        """Send a request; `receive` reports a dead process."""
        data = json.dumps(request).encode()
        try:
            self._socket.sendall(len(data).to_bytes(4, "big") + data)
        except OSError:
            return

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """Return the next reply.

        Args:
            timeout_s: Time in which it must come.

        Raises:
            PluginError: hok_env cannot be imported.
            WorkerError: hok_env failed, its process ended, or the reply is late.
        """
        deadline_s = time.monotonic() + timeout_s
        try:
            size = int.from_bytes(self._read(4, deadline_s), "big")
            reply: dict[str, Any] = json.loads(self._read(size, deadline_s))
        except TimeoutError:
            raise WorkerError(
                f"hok: no reply for {timeout_s:g} s; the game server at {self._settings.server} must be able to "
                f"connect to {self._settings.client}, ports {self._ports.first} and {self._ports.first + 1}"
            ) from None
        except OSError:
            raise self._death() from None
        if "error" in reply:
            self._raise_failure(reply)
        return reply

    def _read(self, size: int, deadline_s: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._socket.settimeout(max(0.001, deadline_s - time.monotonic()))
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError
            data += part
        return bytes(data)

    def _raise_failure(self, reply: Mapping[str, Any]) -> NoReturn:
        if reply["is_import"]:
            raise PluginError(
                f"hok_env cannot be imported by {self._settings.python}: {reply['error']}; install it there by "
                f"pip install hok, or set {PYTHON} to another interpreter"
            ) from ImportError(reply["error"])
        raise WorkerError(f"hok: hok_env failed, with the game server at {self._settings.server}: {reply['error']}")

    def _death(self) -> ProcessEndedError:
        assert self._process is not None
        try:
            return ProcessEndedError(f"ended with status {self._process.wait(_CLOSE_S)}")
        except subprocess.TimeoutExpired:
            return ProcessEndedError("closed its connection")

    def close(self) -> None:
        """End the match and the process; closing twice is harmless."""
        self._socket.close()
        if self._process is not None:
            try:
                self._process.wait(_CLOSE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._ports.release()
        self._folder.cleanup()
