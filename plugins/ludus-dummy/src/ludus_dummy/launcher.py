"""The launcher ``dummy-process``: plain child processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ludus import WorkerError
from ludus.launcher import WorkerCommand

__all__ = ["Process", "Processes"]


class Processes:
    """Starts every worker as a child process. Other launchers also end workers whose parent died; this one does not."""

    def __init__(self, config: None) -> None:
        del config

    def launch(self, command: WorkerCommand) -> Process:
        """Start a process with its output appended to `command.log_path`.

        Raises:
            WorkerError: The program or the folder of the log does not exist.
        """
        try:
            with Path(command.log_path).open("ab") as log:
                process = subprocess.Popen(  # noqa: S603 - the command comes from ludus itself
                    list(command.argv),
                    env={**os.environ, **command.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
        except OSError as error:
            raise WorkerError(f"worker {command.name} could not be started: {error}") from error
        return Process(process)


class Process:
    """A child process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """Ask it to stop."""
        self._process.terminate()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
