"""The process of one fuzzer, which forks for every kind of message. Started as ``python -m fuzz.worker``.

Imports and the training of a league take seconds. They are done once; the child of a kind may die or hang.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuzz.checks import Finding
    from fuzz.league import Trained
    from fuzz.target import Target

_INPUTS_PER_S = 10  # so few at least, or the child of a kind is killed
_START_S = 300.0

#: Modules whose coverage guides atheris.
_INSTRUMENTED = (
    "ludus.wire",
    "ludus._config.structuring",
    "ludus._messaging",
    "ludus._league",
    "ludus._learning.learner",
    "ludus._learning.intake",
    "ludus._sampling.sampler",
    "ludus._sampling.channels",
    "ludus_local.codec",
    "ludus_local.link",
    "ludus_local.block_transfer",
    "ludus_hosts",
)


class Campaign:
    """One fuzzer on one kind of message.

    Args:
        engine: ``"hypothesis"`` or ``"atheris"``.
        kind: Class name of the message.
        seed: Seed of the inputs.
        out: Folder for the report and the inputs of findings.
    """

    def __init__(self, *, engine: str, kind: str, seed: int, out: Path) -> None:
        self._engine, self._kind, self._seed, self._out = engine, kind, seed, out
        self._files: dict[Finding, str] = {}
        self._started_s, self._started_cpu_s = time.monotonic(), time.process_time()

    def run(self, count: int, trained: Trained, folder: Path) -> None:
        """Deliver inputs, and write the report. Atheris ends the process then.

        Args:
            count: Number of inputs.
            trained: The league.
            folder: New folder for the files of receivers.
        """
        from fuzz.engines import run_atheris, run_hypothesis  # noqa: PLC0415 - imported where atheris sees it
        from fuzz.examples import examples  # noqa: PLC0415
        from fuzz.target import Target  # noqa: PLC0415
        from fuzz.values import Values  # noqa: PLC0415

        target = Target(self._kind, trained, folder / "receivers", self._record)
        self._started_s, self._started_cpu_s = time.monotonic(), time.process_time()
        messages, values = examples(self._kind, trained), Values.of(trained)

        def end() -> None:
            target.verify()
            self._write(target)
            target.close()

        if self._engine == "atheris":
            run_atheris(target, messages, values, count=count, seed=self._seed, folder=folder, end=end)
        run_hypothesis(target, messages, values, count=count, seed=self._seed)
        end()

    def _record(self, finding: Finding, data: bytes) -> None:
        """Write the input of a new finding as a hex file."""
        path = self.path(f"-{len(self._files)}.hex")
        path.write_text(data.hex(), encoding="ascii")
        self._files[finding] = path.name

    def _write(self, target: Target) -> None:
        findings = [
            {"what": finding.what, "route": finding.route, "count": count, "file": self._files.get(finding, "")}
            for finding, count in target.findings.items()
        ]
        report: dict[str, Any] = {
            "kind": self._kind,
            "engine": self._engine,
            "stages": {stage.name: count for stage, count in target.stages.items()},
            "seconds": time.monotonic() - self._started_s,
            "cpu_seconds": time.process_time() - self._started_cpu_s,
            "findings": findings,
        }
        self.path(".json").write_text(json.dumps(report, indent=1), encoding="utf-8")

    def path(self, suffix: str) -> Path:
        """Return the path of a file of this campaign."""
        return self._out / f"{self._kind}-{self._engine}{suffix}"

    def write_ended(self, problem: str, file: Path) -> None:
        """Write a report of a process that ended without one."""
        finding = {"what": problem, "route": "", "count": 1, "file": file.name}
        report = {"kind": self._kind, "engine": self._engine, "stages": {}, "seconds": 0.0, "findings": [finding]}
        self.path(".json").write_text(json.dumps(report), encoding="utf-8")


@contextmanager
def _coverage(engine: str) -> Iterator[None]:
    """Import modules so that atheris sees their coverage, if it is the fuzzer."""
    if engine != "atheris":
        yield
        return
    import atheris  # type: ignore[import-untyped]  # noqa: PLC0415 - there is none for some versions of Python

    with atheris.instrument_imports(include=list(_INSTRUMENTED), enable_loader_override=False):
        yield


def run_child(campaign: Campaign, count: int, trained: Trained, folder: Path) -> None:
    """Run a campaign in a child process; if that ends without a report, write one with that finding.

    Args:
        campaign: The campaign.
        count: Number of inputs.
        trained: The league.
        folder: New folder for the files of receivers, removed in the end.
    """
    folder.mkdir()
    log = campaign.path(".log")
    campaign.path(".json").unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        _become_child(log)
        try:
            campaign.run(count, trained, folder)
        except BaseException:  # noqa: BLE001 - the parent reports it
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    status = _wait(pid, _START_S + count / _INPUTS_PER_S)
    if campaign.path(".json").is_file():
        log.unlink()
    else:
        ended_by = sorted(folder.glob("ended-by-*"))
        file = shutil.copy(ended_by[0], campaign.path(ended_by[0].name)) if ended_by else log
        campaign.write_ended(f"the process ended with status {status}: {_last_line(log)}", Path(file))
    shutil.rmtree(folder, ignore_errors=True)


def _become_child(log: Path) -> None:
    """Write all output to a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def _wait(pid: int, timeout_s: float) -> int:
    """Wait for a child, and return its exit status, negative for a signal; it is killed if it takes too long."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline_s:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _last_line(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("INFO")]
    return lines[-1][:200] if lines else "no output"


def main() -> int:
    """Run the campaigns that the command line names; print every kind when it is done."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.worker", description="Fuzz kinds of messages one by one.")
    parser.add_argument("engine", choices=("hypothesis", "atheris"))
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("out", type=Path, help="folder of the reports")
    parser.add_argument("folder", type=Path, help="folder for the files of receivers")
    parser.add_argument("kinds", nargs="+")
    options = parser.parse_args()
    with _coverage(options.engine):
        import fuzz.engines  # noqa: F401, PLC0415 - see `_coverage`
    from fuzz.league import train  # noqa: PLC0415 - see above

    trained = train(options.folder / "trained")
    for kind in options.kinds:
        campaign = Campaign(engine=options.engine, kind=kind, seed=options.seed, out=options.out)
        run_child(campaign, options.count, trained, options.folder / kind)
        print(kind, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
