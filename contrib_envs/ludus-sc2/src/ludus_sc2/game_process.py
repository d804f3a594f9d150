"""A process of the game, and the connection to it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludus.errors import WorkerError

from ludus_sc2.installation import Installation, load_protocol

if TYPE_CHECKING:
    from s2clientprotocol.sc2api_pb2 import Response
    from websockets.sync.client import ClientConnection

_HOST = "127.0.0.1"
_LAUNCHER = Path(__file__).with_name("launcher.py")
_RETRY_S = 0.1
_QUIT_S = 5.0


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that no program uses, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((_HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]


class GameProcess:
    """Starts the game, sends requests to it, and receives its responses.

    Args:
        installation: Where the game is installed.

    Raises:
        WorkerError: The program cannot be started.
    """

    def __init__(self, installation: Installation) -> None:
        self._protocol = load_protocol()
        self._program = installation.program
        self._folder = tempfile.TemporaryDirectory(prefix="ludus-sc2-")
        (self._port,) = free_ports(1)
        self._log = Path(self._folder.name, "output.txt")
        self._connection: ClientConnection | None = None
        self._closing = contextlib.ExitStack()
        command = [str(installation.program), "-listen", _HOST, "-port", str(self._port)]
        command += ["-dataDir", str(installation.folder), "-tempDir", self._folder.name, "-displayMode", "0"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the program that the user's SC2PATH names
                [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        """Return the id of the process."""
        return self._process.pid

    def wait_until_ready(self, timeout_s: float) -> None:
        """Connect to the game; it is harmless to repeat this.

        Raises:
            WorkerError: The game ended, or accepted no connection in time.
        """
        from websockets.exceptions import InvalidHandshake  # noqa: PLC0415 - an optional package
        from websockets.sync.client import connect  # noqa: PLC0415 - as above

        deadline_s = time.monotonic() + timeout_s
        while self._connection is None:
            self._require_running()
            try:
                connection = connect(
                    f"ws://{_HOST}:{self._port}/sc2api",
                    compression=None,
                    max_size=None,
                    ping_interval=None,
                    proxy=None,
                    open_timeout=max(_RETRY_S, deadline_s - time.monotonic()),
                )
                self._connection = self._closing.enter_context(connection)
            except (OSError, InvalidHandshake):
                if time.monotonic() > deadline_s:
                    raise WorkerError(
                        f"sc2: {self._program} accepted no connection within {timeout_s:g} s; raise start_timeout_s"
                    ) from None
                time.sleep(_RETRY_S)

    def _require_running(self) -> None:
        status = self._process.poll()
        if status is not None:
            lines = self._log.read_text(errors="replace").split("\n") if self._log.exists() else []
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            raise WorkerError(
                f"sc2: {self._program} ended with status {status}" + (f"; its last output: {last}" if last else "")
            )

    def request(self, kind: str) -> Any:
        """Return a new request, whose message of this kind is set."""
        request = self._protocol.Request()
        getattr(request, kind).SetInParent()
        return request

    def send(self, request: Any) -> None:
        """Send a request; `receive` reports a dead process.

        Args:
            request: A ``Request`` of the protocol.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 - an optional package

        assert self._connection is not None
        with contextlib.suppress(ConnectionClosed):
            self._connection.send(request.SerializeToString())

    def receive(self, kind: str, timeout_s: float) -> Response:
        """Return the response to the oldest request that has none yet.

        Args:
            kind: Kind of that request.
            timeout_s: Time in which the response must come.

        Raises:
            WorkerError: The game ended, replied with an error, or did not reply in time.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 - an optional package

        assert self._connection is not None
        response: Response = self._protocol.Response()
        try:
            data = self._connection.recv(timeout=timeout_s)
        except TimeoutError:
            raise WorkerError(f"sc2: no reply to the request {kind} for {timeout_s:g} s") from None
        except ConnectionClosed:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_QUIT_S)
            self._require_running()
            raise WorkerError(f"sc2: the game closed its connection at the request {kind}") from None
        response.ParseFromString(data if isinstance(data, bytes) else data.encode())
        problems = list(response.error)
        detail = getattr(response, kind)
        if not problems and "error" in detail.DESCRIPTOR.fields_by_name and detail.HasField("error"):
            name = detail.DESCRIPTOR.fields_by_name["error"].enum_type.values_by_number[detail.error].name
            problems = [f"{name} {detail.error_details}".strip()]
        if problems:
            raise WorkerError(f"sc2: the game refused the request {kind}: {'; '.join(problems)}")
        return response

    def close(self) -> None:
        """Ask the game to quit, and kill it if it does not; closing twice is harmless."""
        if self._connection is not None and self._process.poll() is None:
            self.send(self.request("quit"))
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_QUIT_S)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._closing.close()
        self._connection = None
        self._folder.cleanup()
