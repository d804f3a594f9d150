"""Games of other libraries: time of `ludus check`, speed, memory, and score against random play after some minutes.

Every TOML file of ``games/`` is checked, measured, trained and evaluated by commands of ludus, one after the other.
Existing runs are not trained again. The results are rows of a Markdown table. ::

    python benchmarks/games.py --minutes 10
    python benchmarks/games.py pong examples/boxing.toml --minutes 1
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]
from attrs import frozen

GAMES = Path(__file__).parent / "games"
HEAD = (
    "| game | check, s | steps/s | of the library's | memory, GB | player | decisions | score v random | return |\n"
    "|---|---|---|---|---|---|---|---|---|"
)
_MEGABYTE = 2**20


@frozen
class Options:
    """Command line.

    Args:
        minutes: Training time per game.
        matches: Matches of an evaluation.
        runs: Folder of the runs.
    """

    minutes: float
    matches: int
    runs: Path


def ludus(*arguments: object) -> str:
    """Run a command of ludus, and return what it printed; its errors appear in the terminal.

    Raises:
        SystemExit: The command failed.
    """
    command = [sys.executable, "-m", "ludus", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
    return done.stdout


def speed(config: dict[str, Any]) -> tuple[float, float]:
    """Return the ticks per second of the environment, and their ratio to those of the library alone."""
    name = config["environment"]["name"]
    options = config["environment"][name]
    sets = [part for key, value in options.items() for part in ("--set", f"{name}.{key}={_toml(value)}")]
    # A sampler steps the copies of a game one after the other: few of them show the same rate.
    found = json.loads(ludus("bench", "env", name, *sets, "--matches", 4, "--seconds", 2, "--repeats", 3, "--json"))
    (row,) = [one for one in found["figures"] if one["name"] == "ticks_per_s"]
    return row["median"], row["ratio"]


def _toml(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = {_toml(one)}' for key, one in value.items()) + "}"
    return json.dumps(value)


def train(file: Path, run: Path, minutes: float) -> float:
    """Train, and return the largest memory of all processes together, in GB; shared pages count in part."""
    command = [sys.executable, "-m", "ludus", "train", str(file), "--run", str(run), "--minutes", f"{minutes:g}"]
    command += ["--set", "evaluation.final_matches=0", "--json"]
    peak = 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, _memory(process.pid))
            time.sleep(1)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with status {process.returncode}")
    return peak


def _memory(pid: int) -> float:
    """Return the proportional set size of a process and of all that it started, in GB."""
    total = 0.0
    try:
        for one in (parent := psutil.Process(pid), *parent.children(recursive=True)):
            total += one.memory_full_info().pss
    except psutil.Error:  # a process has ended
        pass
    return total / _MEGABYTE / 1024


def rows(file: Path, options: Options) -> Iterator[str]:
    """Yield the rows of one game, one for each of its players."""
    start_s = time.monotonic()
    ludus("check", file)
    check_s = time.monotonic() - start_s
    config = tomllib.loads(file.read_text(encoding="utf-8"))
    ticks_per_s, ratio = speed(config)
    run = options.runs / file.stem
    memory = f"{train(file, run, options.minutes):.1f}" if not run.exists() else ""
    shown = [file.stem.replace("_", " "), f"{check_s:.0f}", f"{ticks_per_s:,.0f}", f"{ratio:.2f}", memory]
    for player in config["players"]:
        found = json.loads(ludus("eval", run, f"{player}@latest", "random", "--matches", options.matches, "--json"))
        results = [_score(found), " v ".join(map(_return, found.get("contenders", [found])))]
        yield "| " + " | ".join([*shown, player, f"{_decisions(run, player):,}", *results]) + " |"
        shown = [""] * len(shown)


def _score(found: dict[str, Any]) -> str:
    """Return the score with its interval; "-" where one team plays alone, so that only returns are compared."""
    if "contenders" in found:
        return "-"
    low, high = found["interval"]
    return f"{found['score']:.2f} [{low:.2f}, {high:.2f}]"


def _return(found: dict[str, Any]) -> str:
    low, high = found["return_interval"]
    return f"{found['mean_return']:.1f} [{low:.1f}, {high:.1f}]"


def _decisions(run: Path, player: str) -> int:
    from ludus.runs import open_run  # noqa: PLC0415 - sets up torch, which the other steps do not need

    with open_run(run) as opened:
        return max(model.decisions for model in opened.models.values() if model.player == player)


def parse_arguments(arguments: Sequence[str] | None) -> tuple[list[Path], Options]:
    """Return the TOML files and the options of the command line."""
    shipped = {file.stem: file for file in sorted(GAMES.glob("*.toml"))}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "games", nargs="*", metavar="GAME", help=f"TOML files, or names; all names by default: {', '.join(shipped)}"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="training time per game")
    parser.add_argument("--matches", type=int, default=100, help="matches of an evaluation")
    parser.add_argument("--runs", type=Path, default=Path("runs/games"), help="folder of the runs")
    options = parser.parse_args(arguments)
    files = [shipped.get(game, Path(game)) for game in options.games or shipped]
    if unknown := [str(file) for file in files if not file.is_file()]:
        parser.error(f"no such game: {', '.join(unknown)}; give a TOML file, or one of {', '.join(shipped)}")
    return files, Options(minutes=options.minutes, matches=options.matches, runs=options.runs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    files, options = parse_arguments(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(HEAD)
    for file in files:
        for row in rows(file, options):
            print(row, flush=True)


if __name__ == "__main__":
    main()
