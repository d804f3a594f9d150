"""Compare ludus with other frameworks: ``python benchmarks/peers/run.py --venvs DIR --json FILE``.

Every run is a process of its own. The peers take turns, so that other load on the machine affects all of them. `--tune`
measures all settings in `settings.py` instead of the best ones.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from settings import SETTINGS, Settings, best

HERE = Path(__file__).parent
WORKLOADS = ("connect4", "cartpole")
TIMEOUT_S = 300.0
VERSIONS = """
import importlib.metadata as m, json
names = "sample-factory pufferlib stable-baselines3 sb3-contrib ludus torch numpy gymnasium pettingzoo".split()
print(json.dumps({d.metadata["Name"]: d.version for d in m.distributions() if d.metadata["Name"] in names}))
"""


@dataclass
class Entry:
    """Results of a peer with one choice of settings on one workload."""

    peer: str
    workload: str
    settings: Settings
    rates: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Return the median rate in environment steps per second; 0 if all runs failed."""
        return statistics.median(self.rates) if self.rates else 0.0


def python_of(peer: str, venvs: Path) -> Path:
    """Return the interpreter of a peer; ludus uses the current interpreter."""
    return Path(sys.executable) if peer == "ludus" else (venvs / peer / "bin/python").absolute()


def measure(entry: Entry, args: argparse.Namespace) -> None:
    """Run a peer once in a temporary folder and add its result to the entry."""
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder, "result.json"), Path(folder, "log")
        command = [str(python_of(entry.peer, args.venvs)), "-W", "ignore", str(HERE / f"peer_{entry.peer}.py")]
        command += ["--workload", entry.workload, "--seconds", str(args.seconds), "--warmup", str(args.warmup)]
        command += ["--json", str(result), *(["--score"] if args.score else [])]
        command += [f"--{name}={value}" for name, value in entry.settings.items()]
        with log.open("w") as out:
            process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, start_new_session=True)
            try:
                process.wait(TIMEOUT_S + args.warmup + args.seconds)
            except subprocess.TimeoutExpired:
                print(f"{entry.peer} timed out", file=sys.stderr)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        if not result.exists():
            print(f"{entry.peer} {entry.workload} failed:\n{log.read_text(errors='replace')[-2000:]}", file=sys.stderr)
            return
        measured = json.loads(result.read_text(encoding="utf-8"))
    entry.rates.append(measured["rate"])
    entry.scores += [measured["score"]] if args.score else []
    score = f"  score {measured['score']:.3f}" if args.score else ""
    rate = f"{measured['rate']:,.0f}/s{score}"
    print(f"  {entry.workload} {entry.peer} {entry.settings}: {rate}", file=sys.stderr, flush=True)


def table(entries: list[Entry], workload: str) -> str:
    """Return the rates of one workload, best first, and the ratio of ludus to the best peer."""
    rows = sorted((entry for entry in entries if entry.workload == workload), key=lambda entry: -entry.rate)
    lines = [f"{workload:16}{'steps/s':>10}{'min':>10}{'max':>10}{'runs':>6}{'score':>8}  settings"]
    lines += [table_row(row) for row in rows]
    own = max((row.rate for row in rows if row.peer == "ludus"), default=0.0)
    best_peer = max((row.rate for row in rows if row.peer != "ludus"), default=0.0)
    if own and best_peer:
        lines.append(f"ludus / best peer: {own / best_peer:.2f}")
    return "\n".join(lines)


def table_row(entry: Entry) -> str:
    """Return one line of the table."""
    low, high = (min(entry.rates), max(entry.rates)) if entry.rates else (0.0, 0.0)
    score = f"{statistics.median(entry.scores):.2f}" if entry.scores else "-"
    rates = f"{entry.rate:10,.0f}{low:10,.0f}{high:10,.0f}{len(entry.rates):6}"
    settings = " ".join(f"{name}={value}" for name, value in entry.settings.items())
    return f"{entry.peer:16}{rates}{score:>8}  {settings}"


def versions(entries: list[Entry], venvs: Path) -> dict[str, dict[str, str]]:
    """Return the versions of the relevant packages of each peer."""
    peers = sorted({entry.peer for entry in entries})
    return {p: json.loads(subprocess.check_output([python_of(p, venvs), "-c", VERSIONS])) for p in peers}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venvs", type=Path, default=Path("build/peers"), help="folder of install.py")
    parser.add_argument("--only", choices=tuple(SETTINGS), action="append", help="run only this peer; may be repeated")
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the timed window")
    parser.add_argument("--warmup", type=float, default=5.0, help="seconds of training before the window")
    parser.add_argument("--cores", type=int, default=2, help="cores of each run")
    parser.add_argument("--score", action="store_true", help="also play matches with the trained policies")
    parser.add_argument("--tune", action="store_true", help="measure all settings, not only the best ones")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    args = parser.parse_args(arguments)
    pythons = [python_of(peer, args.venvs) for peer in args.only or SETTINGS]
    if missing := [str(python) for python in pythons if not python.exists()]:
        parser.error(f"not installed: {', '.join(missing)}; run install.py --venvs {args.venvs}")
    return args


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all peers and print a table for each workload."""
    args = parse(arguments)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the running peer as well
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONPATH"):
        os.environ.pop(name, None)
    entries = make_entries(args)
    for _ in range(args.repeats):
        for entry in entries:
            measure(entry, args)
    print("\n\n".join(table(entries, workload) for workload in args.workload or WORKLOADS))
    if args.json:
        result = {"versions": versions(entries, args.venvs), "entries": [asdict(entry) for entry in entries]}
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def make_entries(args: argparse.Namespace) -> list[Entry]:
    """Return the entries to measure."""
    return [
        Entry(peer, workload, settings)
        for workload in args.workload or WORKLOADS
        for peer in args.only or SETTINGS
        for settings in (SETTINGS[peer][workload] if args.tune else best(peer, workload))
    ]


if __name__ == "__main__":
    main()
