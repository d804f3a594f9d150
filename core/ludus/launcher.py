"""The launcher contract: where worker processes are placed and how they are ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import frozen

__all__ = ["Launched", "Launcher", "WorkerCommand"]


@frozen(kw_only=True)
class WorkerCommand:
    """One process to start.

    Args:
        name: Its unique name (``"sampler-0"``), shown in `ps`.
        argv: The command line.
        environment: Environment variables to add.
        log_path: File to which its standard output and error are appended.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    log_path: str


class Launched(Protocol):
    """A started process."""

    @property
    def pid(self) -> int:
        """Return its process id on its host."""

    def poll(self) -> int | None:
        """Return the exit status, None while it runs; a signal's number is negative."""

    def terminate(self) -> None:
        """Ask it to stop (SIGTERM)."""

    def kill(self) -> None:
        """End it at once (SIGKILL)."""


class Launcher(Protocol):
    """Starts workers; one per engine (local processes, Ray, Slurm, …)."""

    def launch(self, command: WorkerCommand) -> Launched:
        """Start a process that ends when its parent does.

        Raises:
            WorkerError: It could not be started.
        """
