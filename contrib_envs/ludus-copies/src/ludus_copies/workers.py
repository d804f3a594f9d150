"""Worker processes that play slices of the matches for `ludus_copies`: both ends of the socket.

A request is one byte: ``s`` for a step, or ``r`` for resets, followed by a length (4 bytes, big endian) and a JSON list
of [match index in the slice, seed, name, parameters and built-in bots of the scenario], or ``v`` for a frame, followed
by a match index in the slice in the same form. The reply is ``.`` after success, for a frame followed by its bytes, or
``!`` and an error message up to the end of the stream. While a worker makes games or starts matches, ``+`` and the
arguments of `ludus.activity.report_activity` come before the reply, at most once a second. The first message has
a length and JSON too and holds the parameters of the games; the worker replies to it as to a request.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from ludus.activity import listen, report_activity
from ludus.environment import Scenario
from ludus.errors import LudusError, WorkerError
from ludus.rendering import Frame, enable_rendering, is_rendering_enabled
from ludus.trust import child_variables

from ludus_copies.arrays import ArrayPlan, BatchArrays, GameBatch, MatchStart, allocate, make_games
from ludus_copies.frames import frame_from_bytes, frame_to_bytes

_CLOSE_TIMEOUT_S = 5.0
_START_TIMEOUT_S = 60.0  # time to start an interpreter and import the game, also if steps are fast


class ProcessPool:
    """All matches of a batch, divided evenly among worker processes.

    Args:
        factory: See `ludus_copies.Copies`.
        options: Likewise.
        layout: Allocates the arrays, in ``buffer`` if one is given.
        num_matches: B.
        workers: At least 1, at most B.
        timeout_s: Timeout of a reply, or between two reports before it; for the first game at least a minute.
    """

    def __init__(
        self,
        factory: str,
        options: Mapping[str, Any],
        *,
        layout: Callable[..., BatchArrays],
        num_matches: int,
        workers: int,
        timeout_s: float,
    ) -> None:
        shared_memory = Path("/dev/shm")  # noqa: S108  the file never has a name there
        directory = shared_memory if shared_memory.is_dir() else None
        plan = layout()
        bounds = [num_matches * i // workers for i in range(workers + 1)]
        self._workers: list[_Worker] = []
        with tempfile.TemporaryFile(dir=directory) as file:
            file.truncate(plan.num_bytes)
            self.arrays = layout(buffer=mmap.mmap(file.fileno(), plan.num_bytes))
            order = {
                "factory": factory,
                "options": dict(options),
                "num_matches": num_matches,
                "layout": plan.layout,
                "rendering": is_rendering_enabled(),
            }
            try:
                for low, high in itertools.pairwise(bounds):
                    starting_s = max(timeout_s, _START_TIMEOUT_S)
                    self._workers.append(_Worker(order, low, high, memory=file.fileno(), timeout_s=starting_s))
            except BaseException:
                self.close()
                raise
        self._wait(self._workers)
        for worker in self._workers:
            worker.set_timeout(timeout_s)

    def reset(self, starts: Sequence[MatchStart]) -> None:
        """Start matches."""
        self._require_open()
        busy = []
        for worker in self._workers:
            mine = [start for start in starts if worker.low <= start.index < worker.high]
            if mine:
                worker.send_reset(mine)
                busy.append(worker)
        self._wait(busy)

    def step(self) -> None:
        """Advance all running matches by one tick."""
        self._require_open()
        for worker in self._workers:
            worker.send(b"s")
        self._wait(self._workers)

    def render_frame(self, match: int) -> Frame | None:
        """Return the frame of a match."""
        self._require_open()
        (worker,) = (worker for worker in self._workers if worker.low <= match < worker.high)
        worker.send_render(match)
        self._wait([worker])
        return worker.receive_frame()

    def _require_open(self) -> None:
        if not self._workers:
            raise WorkerError("the worker processes of this environment were closed; make a new environment")

    def _wait(self, workers: Sequence[_Worker]) -> None:
        try:
            for worker in workers:
                worker.wait()
        except BaseException:
            self.close()  # unread replies would be taken for replies to the next request
            raise

    def close(self) -> None:
        """Stop all workers; terminate and kill those that do not exit."""
        for worker in self._workers:
            worker.close_socket()
        for stop in (_Worker.terminate, _Worker.kill):
            deadline_s = time.monotonic() + _CLOSE_TIMEOUT_S  # for all workers together
            for worker in [worker for worker in self._workers if not worker.wait_for_exit(deadline_s)]:
                stop(worker)
        self._workers = []


class _Worker:
    """The parent's end of one worker process, which plays the matches ``low : high``."""

    def __init__(self, order: Mapping[str, Any], low: int, high: int, *, memory: int, timeout_s: float) -> None:
        hello = _frame({**order, "low": low, "high": high})
        self.low = low
        self.high = high
        self._socket, far = socket.socketpair()
        self.set_timeout(timeout_s)
        with far:
            self._process = subprocess.Popen(  # noqa: S603  this interpreter, this package
                [sys.executable, "-m", "ludus_copies", str(far.fileno()), str(memory), f"matches={low}:{high}"],
                pass_fds=(far.fileno(), memory),
                stdin=subprocess.DEVNULL,
                env=_child_environment(),
            )
        self.send(hello)

    def set_timeout(self, timeout_s: float) -> None:
        """Set the timeout of replies."""
        self._socket.settimeout(timeout_s)

    def send(self, request: bytes) -> None:
        """Send a request; `wait` reports a dead worker."""
        try:
            self._socket.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            return
        except OSError as error:
            raise self._error(f"cannot be reached: {error}") from error

    def send_reset(self, starts: Sequence[MatchStart]) -> None:
        """Send a request for new matches."""
        starts_json = [(start.index - self.low, start.seed, *_scenario_fields(start.scenario)) for start in starts]
        self.send(b"r" + _frame(starts_json))

    def send_render(self, match: int) -> None:
        """Send a request for the frame of a match."""
        self.send(b"v" + _frame(match - self.low))

    def receive_frame(self) -> Frame | None:
        """Return the frame that follows the reply to `send_render`."""
        return frame_from_bytes(self._receive)

    def wait(self) -> None:
        """Wait for the reply to the last request.

        Raises:
            WorkerError: The worker failed, died, or timed out.
        """
        try:
            while (reply := self._socket.recv(1)) == b"+":
                report_activity(*self._receive_json())
        except ConnectionResetError:
            reply = b""
        except TimeoutError:
            waited = f"{self._socket.gettimeout():g} s"
            raise self._error(f"did not reply for {waited}; the game hangs or is slower than the timeout") from None
        except OSError as error:
            raise self._error(f"cannot be reached: {error}") from error
        if reply == b"!":
            with self._socket.makefile("rb") as stream:
                raise self._error("failed: " + stream.read().decode(errors="replace"))
        if reply != b".":
            raise self._error(f"died ({self._death()}); the game's library may have crashed, see its messages above")

    def _receive_json(self) -> Any:
        return json.loads(self._receive(int.from_bytes(self._receive(4), "big")))

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError
            data += part
        return bytes(data)

    def _death(self) -> str:
        if not self.wait_for_exit(time.monotonic() + _CLOSE_TIMEOUT_S):
            return "closed its socket"
        code = self._process.returncode
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"

    def _error(self, what: str) -> WorkerError:
        return WorkerError(f"worker process {self._process.pid} of matches {self.low} to {self.high - 1} {what}")

    def close_socket(self) -> None:
        """Close the socket, on which the worker exits."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # also where a child of another game has inherited it
        self._socket.close()

    def terminate(self) -> None:
        """Terminate the process."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()

    def wait_for_exit(self, deadline_s: float) -> bool:
        """Wait for the process to exit until a time of the monotonic clock, and return whether it has."""
        try:
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True


def _frame(value: Any) -> bytes:
    text = json.dumps(value).encode()
    return len(text).to_bytes(4, "big") + text


def _child_environment() -> dict[str, str]:
    """Return the environment variables of a worker: the import path of this process, and a single thread."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {"OMP_NUM_THREADS": "1", **os.environ, **child_variables(), "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def serve(*, descriptor: int, memory: int) -> None:
    """Serve requests on the socket of a descriptor until the other end closes it."""

    def report(*activity: Any) -> None:
        near.sendall(b"+" + _frame(activity))

    with socket.socket(fileno=descriptor) as near, near.makefile("rb") as stream, listen(report):
        games = None
        try:
            games = _make_games(_read_json(stream), memory)
            near.sendall(b".")
            while request := stream.read(1):
                near.sendall(b"." + _serve_request(request, stream, games))
        except Exception as error:  # noqa: BLE001  the other end reports any error of the game
            if os.environ.get("LUDUS_DEBUG"):
                traceback.print_exc()
            with suppress(BrokenPipeError, ConnectionResetError):  # the parent closes as soon as one worker fails
                near.sendall(f"!{_describe(error)}".encode())
        finally:
            if games is not None:
                games.close()


def _serve_request(request: bytes, stream: Any, games: GameBatch) -> bytes:
    """Serve a request and return the bytes that follow its reply."""
    if request == b"s":
        games.step()
    elif request == b"r":
        games.reset([MatchStart(index, seed, _scenario(*fields)) for index, seed, *fields in _read_json(stream)])
    else:
        return frame_to_bytes(games.render_frame(_read_json(stream)))
    return b""


def _describe(error: Exception) -> str:
    """Return an error as one line, with the place in the code unless it is an error of ludus."""
    if isinstance(error, LudusError):
        return " ".join(str(error).split())
    frames = [(frame.f_globals.get("__name__", "?"), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    module, line = frames[-1]
    return " ".join(f"{module}, line {line}, raised {type(error).__name__}: {error}".split())


def _read_json(stream: Any) -> Any:
    return json.loads(stream.read(int.from_bytes(stream.read(4), "big")))


def _scenario_fields(scenario: Scenario) -> tuple[str, dict[str, float], tuple[str, ...]]:
    return scenario.name, dict(scenario.parameters), scenario.builtin


def _scenario(name: str, parameters: dict[str, float], builtin: list[str]) -> Scenario:
    return Scenario(name=name, parameters=parameters, builtin=tuple(builtin))


def _make_games(order: dict[str, Any], memory: int) -> GameBatch:
    with enable_rendering() if order["rendering"] else nullcontext():
        copies = make_games(order["factory"], order["options"], order["high"] - order["low"])
    buffer = mmap.mmap(memory, 0)
    arrays = allocate(ArrayPlan.of(copies[0]), num_matches=order["num_matches"], buffer=buffer)
    if arrays.layout != order["layout"]:
        raise ValueError(f"the game has other spaces in this process: {arrays.layout} instead of {order['layout']}")
    return GameBatch(copies, arrays.slice(order["low"], order["high"]))
