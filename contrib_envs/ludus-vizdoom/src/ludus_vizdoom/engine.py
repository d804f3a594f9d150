"""Engine processes: started under a timeout, killed with the process that started them, and leaving nothing behind."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import itertools
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ludus.errors import PluginError, WorkerError

from ludus_vizdoom.launcher import ENDED

_INSTALL = 'pip install "ludus-vizdoom[game]"'
_FOLDER = "ludus-vizdoom-"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - ViZDoom's own choice
_STALE_S = 60.0
_POLL_S = 0.05
#: Matches whose engines start at the same time; each keeps a core busy for a part of a second.
_STARTS = threading.BoundedSemaphore(2 * (os.cpu_count() or 1))
_LAUNCHER = Path(__file__).with_name("launch_engine")
#: Read by the engine's library from the current folder, and able to start any program.
_OVERRIDE = "_vizdoom.cfg"
#: Folder that an engine makes in its current folder.
_SETTINGS = "_vizdoom"
_NUMBERS = itertools.count(1)
_LOCK = threading.Lock()
_folder: list[Path] = []


def load_library() -> Any:
    """Import ViZDoom.

    Raises:
        PluginError: It is not installed.
    """
    try:
        return importlib.import_module("vizdoom")
    except ImportError as error:
        raise PluginError(f"ViZDoom cannot be imported: {error}; {_INSTALL} installs it") from error


def _process_folder() -> Path:
    """Return the folder for the files that the engines of this process create; it is removed at exit."""
    with _LOCK:
        if not _folder or _folder[0].name.split("-")[2] != str(os.getpid()):
            _remove_stale_files()
            _folder[:] = [Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-"))]
            (_folder[0] / _SETTINGS).mkdir()  # of engines that start together, all but one would fail to make it
            atexit.register(shutil.rmtree, _folder[0], ignore_errors=True)
        return _folder[0]


def _remove_stale_files() -> None:
    """Remove folders of dead processes, and shared memory of killed engines that no process uses any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*"):
        number = folder.name.split("-")[2]
        if number.isdigit() and not Path("/proc", number).exists():
            shutil.rmtree(folder, ignore_errors=True)
    segments = [path for path in _SHARED_MEMORY.glob("ViZDoom*") if _is_stale(path)]
    used = _mapped_files() if segments else ""
    for path in segments:
        if path.name not in used:
            with contextlib.suppress(OSError):
                path.unlink()


def _is_stale(path: Path) -> bool:
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_uid == os.getuid() and time.time() - status.st_mtime > _STALE_S
    return False


def _mapped_files() -> str:
    """Return the memory maps of all processes of this user, as text."""
    texts = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            texts.append(maps.read_text())
    return "\n".join(texts)


class Engine:
    """One engine process and the connection to it.

    Args:
        configure: Sets up a new ``vizdoom.DoomGame``.

    Attributes:
        game: The connection.
    """

    def __init__(self, configure: Callable[[Any], None]) -> None:
        library = load_library()
        home = Path(library.__file__).parent
        self.game = library.DoomGame()
        configure(self.game)
        self._mark = f"ludus{os.getpid()}n{next(_NUMBERS)}"
        self._engine = home / "vizdoom"
        self.game.set_vizdoom_path(str(_LAUNCHER))  # whatever a configuration names
        self.game.set_doom_game_path(str(home / "freedoom2.wad"))
        self.game.set_doom_config_path(os.devnull)
        self.game.set_window_visible(False)
        self.game.add_game_args(f"-mark {self._mark}")
        self._log = _process_folder() / self._mark
        self._is_starting = False
        self._is_abandoned = False

    def start(self) -> None:
        """Start the process, and wait until it is ready; an engine of several players waits for the others.

        Raises:
            PluginError: The launcher cannot be executed, or the current folder would change the engine's program.
            WorkerError: The engine ended.
        """
        if not os.access(_LAUNCHER, os.X_OK):
            raise PluginError(f"{_LAUNCHER} is not executable; install ludus-vizdoom again")
        if Path(_OVERRIDE).exists():
            raise PluginError(
                f"ViZDoom would take settings from {_OVERRIDE} in the current folder; move the file or start elsewhere"
            )
        os.environ.update(
            LUDUS_VIZDOOM_PYTHON=sys.executable,
            LUDUS_VIZDOOM_PARENT=str(os.getpid()),
            LUDUS_VIZDOOM_ENGINE=str(self._engine),
            LUDUS_VIZDOOM_FOLDER=str(self._log.parent),
        )
        self._is_starting = True
        with engine_errors():
            self.game.init()
        self._is_starting = False
        if self._is_abandoned:
            self.close()

    def abandon(self) -> None:
        """Kill a process that is starting; if it is not there yet, it is killed when it is ready."""
        self._is_abandoned = True
        self.kill()

    def find_failure(self) -> str:
        """Return why the engine ended before it was ready; empty if it did not."""
        if not self._log.with_name(self._log.name + ENDED).exists():
            return ""
        lines = self._log.read_text(errors="replace").splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return "a ViZDoom engine ended while it started" + (f"; its last output: {last}" if last else "")

    def processes(self) -> list[int]:
        """Return the id of the engine's process; an empty list if it does not run."""
        return list(find_processes(str(self._engine), self._mark))

    def kill(self) -> None:
        """Kill the process, whatever it is doing. Its launcher ends by itself if the library copes with that."""
        for number in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def close(self) -> None:
        """Kill the process and free its memory, unless it is starting; closing twice is harmless."""
        self.kill()
        if self._is_starting:
            return
        with contextlib.suppress(Exception):  # a killed engine raises different errors of the library
            self.game.close()
        self._log.unlink(missing_ok=True)


def find_processes(program: str, mark: str) -> Iterator[int]:
    """Yield the ids of the processes that run a program with an argument."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            first, *arguments = path.read_bytes().split(b"\0")
            if first == program.encode() and mark.encode() in arguments:
                yield int(path.parent.name)


@functools.cache
def _error_kinds() -> tuple[type[Exception], ...]:
    """Return the exceptions of the library, which have no common base class."""
    kinds = [one for one in vars(load_library()).values() if isinstance(one, type) and issubclass(one, Exception)]
    return (RuntimeError, *kinds)


@contextlib.contextmanager
def engine_errors() -> Iterator[None]:
    """Turn the errors of the library into one line.

    Raises:
        WorkerError: The engine ended or refused its settings.
    """
    try:
        yield
    except _error_kinds() as error:
        raise WorkerError(f"the ViZDoom engine failed: {' '.join(str(error).split())}") from error


class PlayerThread:
    """A thread that calls functions in turn, since the engines of a match must advance at the same time.

    It is a daemon: a thread that waits for an engine does not keep the process alive.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._results: SimpleQueue[Exception | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="vizdoom-player", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - raised in the calling thread
                self._results.put(error)
            else:
                self._results.put(None)

    def call(self, function: Callable[[], Any]) -> None:
        """Start a call."""
        self._calls.put(function)

    def wait(self, timeout_s: float | None) -> None:
        """Wait for the end of the call, and raise its error.

        Raises:
            queue.Empty: It lasts longer.
        """
        error = self._results.get(timeout=timeout_s)
        if error is not None:
            raise error

    def stop(self, timeout_s: float) -> None:
        """End the thread after its call, and wait for that."""
        self._calls.put(None)
        self._thread.join(timeout_s)


def start_all(engines: Sequence[Engine], timeout_s: float) -> None:
    """Start engines at the same time, and kill all if one of them fails.

    Raises:
        WorkerError: An engine ended, or was not ready in time.
    """
    start = _Start(engines)
    with _STARTS:
        start.run(timeout_s)
    late = start.num_late()
    if not late and not start.errors:
        return
    for engine in engines:
        engine.abandon()  # its thread stays: the library cannot be closed while an engine starts
    if start.errors:
        raise start.errors[0]
    raise WorkerError(f"{late} of {len(engines)} ViZDoom engines did not start within {timeout_s:g} s")


class _Start:
    """The start of several engines, each by a thread.

    Args:
        engines: The engines.

    Attributes:
        errors: Why engines did not start.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.errors: list[Exception] = []
        self._engines = engines
        self._threads = [threading.Thread(target=self._start, args=(engine,), daemon=True) for engine in engines]

    def _start(self, engine: Engine) -> None:
        try:
            engine.start()
        except Exception as error:  # noqa: BLE001 - raised in the calling thread
            self.errors.append(error)

    def run(self, timeout_s: float) -> None:
        """Start all, and wait until they are ready, one has failed, or the time is over."""
        for thread in self._threads:
            thread.start()
        deadline_s = time.monotonic() + timeout_s
        while self.num_late() and not self.errors and time.monotonic() < deadline_s:
            next(thread for thread in self._threads if thread.is_alive() or thread is self._threads[-1]).join(_POLL_S)
            self.errors += [WorkerError(text) for text in map(Engine.find_failure, self._engines) if text]

    def num_late(self) -> int:
        """Return the number of engines that are not ready yet."""
        return sum(thread.is_alive() for thread in self._threads)
