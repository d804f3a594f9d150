"""ludus, by its command line and the metrics of its run folder."""

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
    """Return decisions trained on per second in the window so long after the first update; None while it is open."""
    lines = metrics.read_text(encoding="utf-8").splitlines(keepends=True) if metrics.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("\n")]  # the last one may be half written
    laps = [(row["t"], row["m"][COUNT]) for row in rows if row["m"].get(COUNT)]
    laps = [lap for lap in laps if lap[0] >= laps[0][0] + warmup_s]
    ends = [lap for lap in laps if lap[0] >= laps[0][0] + window_s]
    return (ends[0][1] - laps[0][1]) / (ends[0][0] - laps[0][0]) if ends else None


def wait_for(process: subprocess.Popen[bytes], args: argparse.Namespace, run: Path) -> float:
    """Return the rate, and stop the run."""
    rate = None
    while rate is None:
        if process.poll() is not None:
            raise RuntimeError("ludus train ended before the window was over")
        time.sleep(0.5)
        rate = rate_of(run / "metrics.jsonl", warmup_s=args.warmup, window_s=args.seconds)
    process.send_signal(signal.SIGINT)
    process.wait()
    return rate


def score_of(args: argparse.Namespace, run: Path) -> float:
    """Return the score against random moves, or CartPole's mean return, of the newest model."""
    command = [sys.executable, "-m", "ludus", "eval", str(run), "main_agent@latest", *OPPONENT[args.workload]]
    out = subprocess.run([*command, "--matches", "400", "--json"], check=True, capture_output=True, text=True)
    key = "score" if OPPONENT[args.workload] else "mean_return"
    return float(json.loads(out.stdout)[key])


def main() -> None:
    """Train, and time it."""
    args = parse("workers", "matches")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        command = [sys.executable, "-m", "ludus", "train", str(HERE / f"ludus_{args.workload}.toml")]
        command += ["--run", str(run)]
        sampling = dict.fromkeys(("matches", "fixture_matches", "rows_per_fixture"), args.matches)
        command += [f"--set=sampling.{name}={value}" for name, value in sampling.items()]
        with subprocess.Popen([*command, "--workers", str(args.workers)]) as process:
            result = {"rate": wait_for(process, args, run)}
        if args.score:
            result["score"] = score_of(args, run)
    args.json.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
