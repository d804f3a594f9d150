"""Trainings that scripts start by ``ludus train``, each in one process on one core, and do not repeat."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def train(file: Path, settings: Sequence[str], *, seed: int, folder: Path, least_share: float = 0.0) -> dict[str, Any]:
    """Train with one seed, unless that has been done to its end with the same configuration.

    Args:
        file: The configuration.
        settings: What differs from it, as ``key.path=value``.
        seed: Of the run.
        folder: Of the run; a file of the same name with ``.json`` after it says what was trained.
        least_share: Of a core that a training that is there must have had, otherwise it is repeated.

    Returns:
        What it took: ``cpu_s`` and ``wall_s``, the start and the end of the process included.

    Raises:
        subprocess.CalledProcessError: The training failed or was interrupted.
    """
    told, what = told_of(folder), _what(file, settings, seed)
    if is_trained(file, settings, seed=seed, folder=folder, least_share=least_share):
        return dict(json.loads(told.read_text(encoding="utf-8"))["took"])
    told.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)  # of another configuration, or not finished
    command = [sys.executable, "-m", "ludus", "train", str(file), "--run", str(folder), "--workers", "0", "--json"]
    command += [part for setting in (f"run.seed={seed}", *settings) for part in ("--set", setting)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    took = {"cpu_s": round(cpu_s, 1), "wall_s": round(time.monotonic() - began, 1)}
    told.write_text(json.dumps({"what": what, "took": took}, indent=1) + "\n", encoding="utf-8")
    return took


def is_trained(file: Path, settings: Sequence[str], *, seed: int, folder: Path, least_share: float = 0.0) -> bool:
    """Return whether that has been trained to its end, with enough of a core; arguments as for `train`."""
    told = told_of(folder)
    if not told.exists():
        return False
    known = json.loads(told.read_text(encoding="utf-8"))
    took = known["took"]
    same, undisturbed = known["what"] == _what(file, settings, seed), took["cpu_s"] >= least_share * took["wall_s"]
    return bool(same and undisturbed)


def _what(file: Path, settings: Sequence[str], seed: int) -> dict[str, Any]:
    return {"toml": file.read_text(encoding="utf-8"), "settings": list(settings), "seed": seed}


def told_of(folder: Path) -> Path:
    """Return the file that says what was trained into a folder."""
    return folder.with_name(f"{folder.name}.json")
