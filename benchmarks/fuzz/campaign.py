"""A campaign: both fuzzers on every kind of message, in several processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from attrs import define, field

ENGINES = ("hypothesis", "atheris")


@define
class Campaign:
    """Fuzzes kinds of messages and collects the reports.

    Args:
        out: Folder for reports and the inputs of findings. Reports of as many inputs that are there are not repeated.
        count: Inputs per kind and fuzzer.
        seed: Seed of the inputs.
        jobs: Processes at a time, at least one per fuzzer.
        print_line: Prints one line for the user.

    Attributes:
        reports: Reports of the processes, as `fuzz.worker` writes them.
    """

    out: Path
    count: int
    seed: int
    jobs: int
    print_line: Callable[[str], None]
    reports: list[dict[str, Any]] = field(init=False, factory=list)

    def run(self, kinds: Sequence[str], engines: Sequence[str]) -> None:
        """Run the fuzzers on every kind; print a line for every finding."""
        self.out.mkdir(parents=True, exist_ok=True)
        parts = max(1, self.jobs // len(engines))
        missing = {engine: [kind for kind in kinds if not self._is_done(engine, kind)] for engine in engines}
        groups = [(engine, missing[engine][i::parts]) for i in range(parts) for engine in engines]
        with ThreadPoolExecutor(len(groups)) as pool:
            list(pool.map(lambda group: self._run_group(*group), groups))
        self.reports = [self._report(engine, kind) for kind in kinds for engine in engines]

    def _is_done(self, engine: str, kind: str) -> bool:
        """Return whether there is a report of as many inputs without a finding."""
        report = self._report(engine, kind)
        return not report["findings"] and sum(report["stages"].values()) >= self.count

    def _run_group(self, engine: str, kinds: Sequence[str]) -> None:
        """Fuzz some kinds in one process, and print the findings of each when it is done."""
        if not kinds:
            return
        memory = Path("/dev/shm")  # where commits take no time
        folder = Path(tempfile.mkdtemp(prefix="ludus-fuzz-", dir=memory if memory.is_dir() else None))
        numbers = (str(self.count), str(self.seed))
        command = [sys.executable, "-m", "fuzz.worker", engine, *numbers, str(self.out), str(folder), *kinds]
        for kind in kinds:
            self._path(engine, kind).unlink(missing_ok=True)
        with (
            (self.out / f"{engine}.log").open("ab") as log,
            subprocess.Popen(
                command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, stderr=log, text=True
            ) as process,
        ):
            for line in process.stdout or ():
                self._print_findings(engine, line.strip())
        for kind in kinds:
            if not self._path(engine, kind).is_file():
                self._print_findings(engine, kind)
        shutil.rmtree(folder, ignore_errors=True)

    def _path(self, engine: str, kind: str) -> Path:
        return self.out / f"{kind}-{engine}.json"

    def _report(self, engine: str, kind: str) -> dict[str, Any]:
        """Return the report of a kind; one with a finding if there is none."""
        path = self._path(engine, kind)
        if path.is_file():
            report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return report
        finding = {"what": "the process ended without a report", "route": "", "count": 1, "file": f"{engine}.log"}
        return {"kind": kind, "engine": engine, "stages": {}, "seconds": 0.0, "findings": [finding]}

    def _print_findings(self, engine: str, kind: str) -> None:
        for line in finding_lines(self._report(engine, kind), self.out):
            self.print_line(line)

    @property
    def is_clean(self) -> bool:
        """Return whether there is no finding."""
        return not any(report["findings"] for report in self.reports)


def finding_lines(report: dict[str, Any], out: Path) -> Iterator[str]:
    """Yield one line for every finding of a report."""
    for finding in report["findings"]:
        where = f" ({finding['route']})" if finding["route"] else ""
        file = f", see {out / finding['file']}" if finding["file"] else ""
        yield f"{report['kind']}, {report['engine']}{where}: {finding['what']}; {finding['count']} inputs{file}"
