"""Delivering the input of a finding once more."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fuzz.inputs import unpack
from fuzz.league import train
from fuzz.target import Target


def replay(kind: str, path: Path) -> int:
    """Deliver an input to new receivers, print what it does, and return 1 if that is a finding.

    Args:
        kind: Class name of the message.
        path: Hex file of a finding, or a file that atheris has written.
    """
    data = path.read_bytes()
    data = bytes.fromhex(data.decode("ascii")) if path.suffix == ".hex" else data
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trained = train(folder / "trained")
        target = Target(kind, trained, folder / "receivers", lambda finding, _data: print(finding.what))
        try:
            target.run(unpack(data))
            target.verify()
        finally:
            target.close()
    print(", ".join(stage.value for stage in target.stages))
    return 1 if target.findings else 0
