"""Run the commands of ``ludus bench`` and record what they print: ``python benchmarks/record.py NAME [COMMAND…]``.

Writes ``benchmarks/results/NAME.json``, with everything, and ``NAME.md``, with the tables. All commands take about a
quarter of an hour. A command that fails is recorded with its last line and does not stop the others.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
GAME = ("--env", "connect4")
COMMANDS: dict[str, tuple[str, ...]] = {
    "env connect4": (),
    "env tictactoe": (),
    "env gymnasium": ("--matches", "64"),
    "env pettingzoo": ("--matches", "64"),
    "forward": GAME,
    "update": GAME,
    "sampling": (*GAME, "--matches", "1,16,64,256,1024"),
    "transport": GAME,
    "weights": ("--parameters", "5e6", "--samplers", "8"),
    "opponents": (*GAME, "--count", "1,64,500", "--matches", "1024", "--rows-per-fixture", "16"),
    "selfplay": (*GAME, "--seconds", "20"),
    "memory": (*GAME, "--minutes", "2"),
}


def run(command: str, options: tuple[str, ...]) -> dict[str, Any]:
    """Return what a command printed, or ``{"error": …}``."""
    line = [sys.executable, "-m", "ludus", "bench", *command.split(), *options, "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"command": command, "error": (done.stderr.strip().splitlines() or ["it said nothing"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows(found: dict[str, Any]) -> list[str]:
    """Return the Markdown table of one command."""
    if "error" in found:
        return [f"failed: {found['error']}"]
    fixed = ("name", "unit", "median", "low", "high", "repeats", "cores", "limit", "limit_of", "ratio")
    lines = ["| figure | at | median | quartiles | cores | limit | ratio |", "|---|---|---|---|---|---|---|"]
    for figure in found["figures"]:
        at = ", ".join(f"{key} {number(value)}" for key, value in figure.items() if key not in fixed and value != "")
        spread = f"{number(figure['low'])} … {number(figure['high'])}"
        cells = (
            figure["name"],
            at,
            f"{number(figure['median'])} {figure['unit']}",
            spread,
            number(figure["cores"]),
            number(figure["limit"]),
            number(figure["ratio"]),
        )
        lines.append(f"| {' | '.join(cells)} |")
    limits = dict.fromkeys(figure["limit_of"] for figure in found["figures"] if figure["limit_of"])
    plain = {key: value for key, value in found.items() if isinstance(value, int | float)}
    said = [f"Limit: {limit}." for limit in limits] + [f"{key} = {number(value)}" for key, value in plain.items()]
    return [*lines, "", *(f"{line}  " for line in (*said, *found["notes"]))]


def number(value: object) -> str:
    """Return a number with three digits that matter."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description="Record what ludus bench prints.")
    parser.add_argument("name")
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help="first words of commands; default: all")
    options = parser.parse_args(arguments)
    words = list(dict.fromkeys(command.split()[0] for command in COMMANDS))
    if unknown := [word for word in options.commands if word not in words]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(words)}")
    wanted = options.commands or words
    chosen = {command: given for command, given in COMMANDS.items() if command.split()[0] in wanted}
    found = {}
    for command, given in chosen.items():
        print(f"ludus bench {command} {' '.join(given)}", flush=True)
        found[command] = run(command, given)
    machine: dict[str, Any] = next((result["machine"] for result in found.values() if "machine" in result), {})
    text = [f"# {options.name}", "", ", ".join(f"{key} {number(value)}" for key, value in machine.items())]
    for command, result in found.items():
        text += ["", f"## ludus bench {' '.join((command, *chosen[command]))}", "", *rows(result)]
    (RESULTS / f"{options.name}.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (RESULTS / f"{options.name}.md").write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
