"""A host that joins a run over TCP on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import Factory, define, field

from chaos.processes import LudusCommand

HOST = "elsewhere"
SAMPLER = f"sampler-{HOST}-0"


def _output_path(owner: Host) -> Path:
    return owner.folder.with_name(f"{owner.folder.name}.out")


@define
class Host:
    """A ``ludus join`` process with one sampler.

    Args:
        port: Port of this machine at which the run is reached.
        key: Key file.
        folder: Folder of the host; the output goes to `output_path`.
        environment: Environment variables to add.
        output_path: File for the output; by default ``<folder>.out``.
    """

    port: int
    key: Path
    folder: Path
    environment: Mapping[str, str] = field(factory=dict)
    output_path: Path = field(default=Factory(_output_path, takes_self=True))
    command: LudusCommand = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.command = LudusCommand(self.output_path, self.environment)

    def join(self) -> None:
        """Start the host; it waits for its run, and for the next one when a run ends."""
        options = ("--key", self.key, "--name", HOST, "--samplers", 1, "--folder", self.folder, "--stay")
        self.command.start("join", f"tcp://127.0.0.1:{self.port}", *options)

    @property
    def pids(self) -> dict[str, int]:
        """Return the process ids of the host and of its sampler, by name."""
        return {"host": self.command.process.pid, **self.command.workers}


def takes_part(output: str) -> bool:
    """Return whether a run has printed that the host takes part, and not yet that it left."""
    return output.rfind(f"{HOST} takes part with") > output.rfind(f"{HOST} does not take part")
