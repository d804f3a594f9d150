"""Worker processes that play slices of rows for `ludus_copies`: both ends of the socket.

A request is one byte: ``s`` steps, ``r`` resets and is followed by its length (4 bytes, big endian) and a JSON list of
[row, seed, scenario name, scenario parameters]. The answer is ``.`` when it is done, or ``!`` and a sentence up to the
end of the stream. The first message, framed like a reset, tells a new worker what to make; it answers as to a request.
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ludus.environment import Scenario
from ludus.errors import WorkerError

from ludus_copies.rows import Arrays, GameSlice, Start, allocate, make_game

__all__ = ["WorkerPool", "serve"]

_CLOSE_TIMEOUT_S = 5.0
_START_TIMEOUT_S = 60.0  # an interpreter with its imports and a game's engine, whatever a step may take


class WorkerPool:
    """All rows of a batch, spread evenly over worker processes.

    Args:
        factory: See `ludus_copies.Copies`.
        options: Likewise.
        layout: Lays the arrays out, in ``buffer`` where one is given.
        num_matches: B.
        workers: At least 1, at most B.
        timeout_s: How long one answer may take; the first, for which games are made, at least a minute.
    """

    def __init__(
        self,
        factory: str,
        options: Mapping[str, Any],
        *,
        layout: Callable[..., Arrays],
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
            order = {"factory": factory, "options": dict(options), "num_matches": num_matches, "layout": plan.layout}
            try:
                for low, high in itertools.pairwise(bounds):
                    starting_s = max(timeout_s, _START_TIMEOUT_S)
                    self._workers.append(_Worker(order, low, high, memory=file.fileno(), timeout_s=starting_s))
            except BaseException:
                self.close()
                raise
        self._wait(self._workers)
        for worker in self._workers:
            worker.limit(timeout_s)

    def reset(self, starts: Sequence[Start]) -> None:
        """Start matches in the rows named."""
        self._require_open()
        asked = []
        for worker in self._workers:
            mine = [start for start in starts if worker.low <= start.row < worker.high]
            if mine:
                worker.send_reset(mine)
                asked.append(worker)
        self._wait(asked)

    def step(self) -> None:
        """Advance all running matches by one tick."""
        self._require_open()
        for worker in self._workers:
            worker.send(b"s")
        self._wait(self._workers)

    def _require_open(self) -> None:
        if not self._workers:
            raise WorkerError("the worker processes of this environment were closed; make a new environment")

    def _wait(self, workers: Sequence[_Worker]) -> None:
        try:
            for worker in workers:
                worker.wait()
        except BaseException:
            self.close()  # answers of the others would be taken for those of the next request
            raise

    def close(self) -> None:
        """End all workers, by force where asking does not help."""
        for worker in self._workers:
            worker.hang_up()
        for end in (_Worker.terminate, _Worker.kill):
            deadline_s = time.monotonic() + _CLOSE_TIMEOUT_S  # for all together
            for worker in [worker for worker in self._workers if not worker.ended(deadline_s)]:
                end(worker)
        self._workers = []


class _Worker:
    """The near end of one worker process, which plays the rows ``low : high``."""

    def __init__(self, order: Mapping[str, Any], low: int, high: int, *, memory: int, timeout_s: float) -> None:
        hello = _frame({**order, "low": low, "high": high})
        self.low = low
        self.high = high
        self._socket, far = socket.socketpair()
        self.limit(timeout_s)
        with far:
            self._process = subprocess.Popen(  # noqa: S603  this interpreter, this package
                [sys.executable, "-m", "ludus_copies", str(far.fileno()), str(memory), f"rows={low}:{high}"],
                pass_fds=(far.fileno(), memory),
                stdin=subprocess.DEVNULL,
                env=_child_environment(),
            )
        self.send(hello)

    def limit(self, timeout_s: float) -> None:
        """Let answers take so long at most."""
        self._socket.settimeout(timeout_s)

    def send(self, request: bytes) -> None:
        """Send a request; a dead worker is noticed when its answer is awaited."""
        try:
            self._socket.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            return
        except OSError as error:
            raise self._error(f"cannot be reached: {error}") from error

    def send_reset(self, starts: Sequence[Start]) -> None:
        """Ask for new matches."""
        rows = [(s.row - self.low, s.seed, s.scenario.name, dict(s.scenario.parameters)) for s in starts]
        self.send(b"r" + _frame(rows))

    def wait(self) -> None:
        """Return when the worker has done what it was asked.

        Raises:
            WorkerError: It failed, died, or took too long.
        """
        try:
            answer = self._socket.recv(1)
        except ConnectionResetError:
            answer = b""
        except TimeoutError:
            waited = f"{self._socket.gettimeout():g} s"
            raise self._error(f"did not answer for {waited}; the game hangs or needs longer") from None
        except OSError as error:
            raise self._error(f"cannot be reached: {error}") from error
        if answer == b"!":
            with self._socket.makefile("rb") as stream:
                raise self._error("failed: " + stream.read().decode(errors="replace"))
        if answer != b".":
            raise self._error(f"died ({self._death()}); the game's library may have crashed, see its messages above")

    def _death(self) -> str:
        if not self.ended(time.monotonic() + _CLOSE_TIMEOUT_S):
            return "closed its socket"
        code = self._process.returncode
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"

    def _error(self, what: str) -> WorkerError:
        return WorkerError(f"worker process {self._process.pid} of matches {self.low} to {self.high - 1} {what}")

    def hang_up(self) -> None:
        """Tell the worker to end by closing its socket."""
        self._socket.close()

    def terminate(self) -> None:
        """Ask the process to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def ended(self, deadline_s: float) -> bool:
        """Return whether the process has ended, waiting until a time of the monotonic clock."""
        try:
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True


def _frame(value: Any) -> bytes:
    text = json.dumps(value).encode()
    return len(text).to_bytes(4, "big") + text


def _child_environment() -> dict[str, str]:
    """Return the environment variables of a worker: the same modules as here, and no threads of its own."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def serve(*, descriptor: int, memory: int) -> None:
    """Answer requests on the socket with that descriptor until the other end closes."""
    with socket.socket(fileno=descriptor) as near, near.makefile("rb") as stream:
        rows = None
        try:
            rows = _make_rows(_read_json(stream), memory)
            near.sendall(b".")
            while request := stream.read(1):
                if request == b"s":
                    rows.step()
                else:
                    rows.reset([Start(row, seed, _scenario(*rest)) for row, seed, *rest in _read_json(stream)])
                near.sendall(b".")
        except Exception as error:  # noqa: BLE001  whatever the game raises is for the other end to report
            with suppress(BrokenPipeError, ConnectionResetError):  # it closes as soon as one worker has failed
                near.sendall(f"!{type(error).__name__}: {error}".encode())
        finally:
            if rows is not None:
                rows.close()


def _read_json(stream: Any) -> Any:
    return json.loads(stream.read(int.from_bytes(stream.read(4), "big")))


def _scenario(name: str, parameters: dict[str, float]) -> Scenario:
    return Scenario(name=name, parameters=parameters)


def _make_rows(order: dict[str, Any], memory: int) -> GameSlice:
    games = [make_game(order["factory"], order["options"]) for _ in range(order["low"], order["high"])]
    buffer = mmap.mmap(memory, 0)
    arrays = allocate(games[0].spec, games[0].masked_roles, num_matches=order["num_matches"], buffer=buffer)
    if arrays.layout != order["layout"]:
        raise ValueError(f"the game has other spaces in this process: {arrays.layout} instead of {order['layout']}")
    return GameSlice(games, arrays.rows(order["low"], order["high"]))
