"""ludus: its command line and the metrics of the run folder."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workloads import parse

HERE = Path(__file__).parent
OPPONENT = {"connect4": ["random"], "cartpole": []}
COUNT = "learner/main_agent/decisions"


def rate_of(metrics: Path, *, warmup_s: float, window_s: float) -> float | None:
    """Return trained decisions per second in the window after the warm-up; None before the end of the window."""
    counts = trained_decisions(metrics)
    counts = [(time_s, count) for time_s, count in counts if time_s >= counts[0][0] + warmup_s]
    after = [(time_s, count) for time_s, count in counts if time_s >= counts[0][0] + window_s]
    if not after:
        return None
    (start_s, before), (end_s, count) = counts[0], after[0]
    return (count - before) / (end_s - start_s)


def trained_decisions(metrics: Path) -> list[tuple[float, float]]:
    """Return time and number of trained decisions of each line that has one."""
    lines = metrics.read_text(encoding="utf-8").splitlines(keepends=True) if metrics.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("\n")]  # the last line may be incomplete
    return [(row["t"], row["m"][COUNT]) for row in rows if row["m"].get(COUNT)]


def measure(process: subprocess.Popen[bytes], args: argparse.Namespace, run: Path) -> float:
    """Wait for the end of the window, stop the run and return the rate."""
    rate = None
    while rate is None:
        if process.poll() is not None:
            raise RuntimeError("ludus train ended before the end of the window")
        time.sleep(0.5)
        rate = rate_of(run / "metrics.jsonl", warmup_s=args.warmup, window_s=args.seconds)
    process.send_signal(signal.SIGINT)
    process.wait()
    return rate


def evaluate(args: argparse.Namespace, run: Path) -> float:
    """Return the score of the newest model against random play, or its mean return in CartPole."""
    command = [sys.executable, "-m", "ludus", "eval", str(run), "main_agent@latest", *OPPONENT[args.workload]]
    out = subprocess.run([*command, "--matches", "400", "--json"], check=True, capture_output=True, text=True)
    key = "score" if OPPONENT[args.workload] else "mean_return"
    return float(json.loads(out.stdout)[key])


def main() -> None:
    """Train and measure the rate."""
    args = parse("workers", "matches")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        command = [sys.executable, "-m", "ludus", "train", str(HERE / f"ludus_{args.workload}.toml")]
        command += ["--run", str(run)]
        sampling = dict.fromkeys(("matches", "fixture_matches", "rows_per_fixture"), args.matches)
        command += [f"--set=sampling.{name}={value}" for name, value in sampling.items()]
        with subprocess.Popen([*command, "--workers", str(args.workers)]) as process:
            result = {"rate": measure(process, args, run)}
        if args.score:
            result["score"] = evaluate(args, run)
    args.json.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
