"""Game processes that ludus starts: permission, start, limits and restarts."""

from __future__ import annotations

import logging
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import define, field
from ludus.errors import ConfigError, WorkerError
from ludus.processes import find_processes, used_bytes
from ludus.trust import user_file

#: Commands that the user allows, separated by line breaks.
COMMANDS_VARIABLE = "LUDUS_REMOTE_COMMANDS"
_MEMORY_INTERVAL_S = 1.0
_STOP_S = 1.0
_EARLY_S = 1.0  # a process that ends sooner is started again after as long

_log = logging.getLogger(__name__)


def commands_file() -> Path:
    """Return the path of the user's file of allowed commands, one per line."""
    return user_file().with_name("remote_commands.txt")


def check_command(command: Sequence[str]) -> None:
    """Check that the user allows a command on this machine.

    Raises:
        ConfigError: The user has not allowed it.
    """
    text = shlex.join(command)
    allowed = os.environ.get(COMMANDS_VARIABLE, "").splitlines()
    with suppress(OSError, UnicodeDecodeError):
        allowed += commands_file().read_text(encoding="utf-8").splitlines()
    if text not in {line.strip() for line in allowed}:
        raise ConfigError(
            f"command: {text!r} is not allowed on this machine, and a run file alone cannot start programs; if you "
            f"trust it, add the line {text} to {commands_file()}, or set {COMMANDS_VARIABLE} to it"
        )


@define(eq=False)
class _Program:
    token: str
    process: subprocess.Popen[bytes]
    started_s: float


@define(eq=False, kw_only=True)
class Programs:
    """The game processes of one environment.

    A process cannot outlive the thread that started it. It has a session of its own, and its output goes to the
    standard error of this process, which is a log in runs.

    Args:
        command: Program and arguments; ``{port}``, ``{token}`` and ``{number}`` are replaced.
        tokens: Token of each process.
        memory_bytes: Memory above which a process is killed.
        restarts: Ends in a row, without `forgive`, after which the environment gives up.
        on_end: Called with token and reason when a process has ended, before it is started again.
    """

    command: Sequence[str]
    tokens: Sequence[str]
    memory_bytes: int
    restarts: int
    on_end: Callable[[str, str], None]
    _programs: list[_Program] = field(init=False, factory=list)
    _port: int = field(init=False, default=0)
    _ends: int = field(init=False, default=0)
    _checked_s: float = field(init=False, default=0.0)

    def start(self, port: int) -> None:
        """Start all processes.

        Args:
            port: Port of the gateway.

        Raises:
            ConfigError: The program cannot be started.
        """
        self._port = port
        self._programs = [self._start(number, token) for number, token in enumerate(self.tokens)]

    def _start(self, number: int, token: str) -> _Program:
        values = {"{port}": str(self._port), "{token}": token, "{number}": str(number)}
        command = list(self.command)
        for name, value in values.items():
            command = [part.replace(name, value) for part in command]
        launcher = [sys.executable, "-P", "-m", "ludus_remote.launch", str(os.getpid())]
        try:
            process = subprocess.Popen(  # noqa: S603 - the user allows the command
                [*launcher, *command], stdin=subprocess.DEVNULL, stdout=sys.__stderr__, start_new_session=True
            )
        except OSError as error:
            raise ConfigError(f"command: {command[0]}: {error.strerror}") from error
        return _Program(token, process, time.monotonic())

    def forgive(self) -> None:
        """Forget earlier ends: a match was finished."""
        self._ends = 0

    def watch(self) -> None:
        """Kill processes above their limit, and start those again that have ended.

        Raises:
            WorkerError: Processes ended too often.
        """
        now = time.monotonic()
        if now - self._checked_s > _MEMORY_INTERVAL_S:
            self._checked_s = now
            self._check_memory()
        for number, program in enumerate(self._programs):
            status = program.process.poll()
            if status is not None and now - program.started_s > _EARLY_S:
                self._restart(number, program, f"the game process ended with {_describe(status)}")

    def _check_memory(self) -> None:
        groups = find_processes({program.process.pid: program.token for program in self._programs})
        for program in self._programs:
            used = sum(map(used_bytes, groups.get(program.process.pid, ())))
            if used > self.memory_bytes:
                _log.warning("a game process uses %d MB, more than memory_mb allows", used >> 20)
                _kill(program.process)

    def _restart(self, number: int, program: _Program, reason: str) -> None:
        self._ends += 1
        self.on_end(program.token, reason)
        if self._ends > self.restarts:
            raise WorkerError(
                f"{reason}, and {self._ends} did in a row without a finished match: {shlex.join(self.command)}; its "
                "output is in the log of this process"
            )
        _log.warning("%s; starting it again", reason)
        _kill(program.process)  # children that live on
        self._programs[number] = self._start(number, program.token)

    def kill(self, token: str) -> None:
        """Kill the process of a game that hangs."""
        for program in self._programs:
            if program.token == token:
                _kill(program.process)

    def close(self) -> None:
        """Stop all processes; closing twice is harmless."""
        for program in self._programs:
            with suppress(ProcessLookupError):
                os.killpg(program.process.pid, signal.SIGTERM)
        until = time.monotonic() + _STOP_S
        for program in self._programs:
            with suppress(subprocess.TimeoutExpired):
                program.process.wait(max(0.0, until - time.monotonic()))
            _kill(program.process)
        self._programs = []


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _describe(status: int) -> str:
    return f"status {status}" if status >= 0 else signal.Signals(-status).name


def make_tokens(count: int) -> list[str]:
    """Return random tokens."""
    return [secrets.token_urlsafe(24) for _ in range(count)]
