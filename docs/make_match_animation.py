"""Draw a match of a trained Connect Four model as an animated SVG.

``python docs/make_match_animation.py runs/demo`` plays the newest model of ``runs/demo`` against the anchor
``minimax3`` and writes ``runs/demo/match.svg``; ``--opponent``, ``--seed`` and ``--out`` change that. The README shows
``docs/match.svg``.
"""

# ruff: noqa: INP001, T201 - a script, not a package

from __future__ import annotations

import argparse
import re
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
from ludus.environment import Environment, Playable
from ludus.errors import LudusError
from ludus.runs import Run, open_run

__all__ = ["draw", "main", "play"]

_CELL, _STEP_S, _PAUSE_S = 36, 0.7, 3.0
_COLORS = {"X": "#d55e00", "O": "#f0c000"}
_BOARD, _HOLE, _TEXT = "#1f4e8c", "#f4f6fa", "#777777"
_ESCAPES = re.compile(r"\x1b\[\d*m")


def play(run: Run, names: tuple[str, str], *, seed: int) -> list[list[str]]:
    """Play one match and return its boards from the first move to the last, one string of marks per row.

    Args:
        run: A run of a turn-based environment of two seats that can be rendered.
        names: The participants, in seat order.
        seed: Seed of the match and of the agents.
    """
    with closing(run.make_environment(1)) as environment:
        assert isinstance(environment, Playable)
        (role,) = environment.spec.roles
        agents = [run.agent(name, role.name, environment=environment) for name in names]
        rng = np.random.default_rng(seed)
        for agent in agents:
            agent.reset(np.arange(2))
        tick = environment.reset(np.array([seed], np.uint64))
        boards = [_board(environment)]
        while not (tick.terminated[0] or tick.truncated[0]):
            seats = tick.roles[role.name]
            seat = int(seats.acting[0].argmax())
            actions = np.zeros((1, 2, 1), np.int64)
            actions[0, seat] = agents[seat].act(
                {name: leaf[:, seat] for name, leaf in seats.observation.items()},
                action_mask=None if seats.action_mask is None else seats.action_mask[:, seat],
                seat_ids=np.array([seat]),
                rng=rng,
            )[0]
            tick = environment.step({role.name: actions})
            boards.append(_board(environment))
    return boards


def _board(environment: Environment) -> list[str]:
    assert isinstance(environment, Playable)
    rows = _ESCAPES.sub("", environment.render(0)).splitlines()[:-1]
    return [row.replace(" ", "") for row in rows]


def draw(boards: list[list[str]], names: tuple[str, str]) -> str:
    """Return the match as an SVG that repeats: every stone appears with its move."""
    height, width = len(boards[0]), len(boards[0][0])
    duration_s = len(boards) * _STEP_S + _PAUSE_S
    box = f'viewBox="0 0 {width * _CELL} {height * _CELL + 30}" width="{width * _CELL}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="12">',
        f'<rect width="{width * _CELL}" height="{height * _CELL}" rx="8" fill="{_BOARD}"/>',
    ]
    for row in range(height):
        for column in range(width):
            parts.append(_disc(row, column, _HOLE))
            moves = [index for index, board in enumerate(boards) if board[row][column] != "."]
            if moves:
                share = moves[0] * _STEP_S / duration_s
                parts.append(
                    _disc(row, column, _COLORS[boards[moves[0]][row][column]], opacity="0").replace(
                        "/>",
                        f'><animate attributeName="opacity" dur="{duration_s:.1f}s" repeatCount="indefinite" '
                        f'calcMode="discrete" keyTimes="0;{share:.4f}" values="0;1"/></circle>',
                    )
                )
    for seat, mark in enumerate("XO"):
        x = 12 + seat * width * _CELL // 2
        parts.append(f'<circle cx="{x}" cy="{height * _CELL + 17}" r="6" fill="{_COLORS[mark]}"/>')
        parts.append(f'<text x="{x + 12}" y="{height * _CELL + 21}" fill="{_TEXT}">{names[seat]}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _disc(row: int, column: int, color: str, *, opacity: str = "1") -> str:
    x, y = (column + 0.5) * _CELL, (row + 0.5) * _CELL
    return f'<circle cx="{x}" cy="{y}" r="{_CELL * 0.4:.1f}" fill="{color}" opacity="{opacity}"/>'


def main() -> int:
    """Write the animation; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run folder of Connect Four")
    parser.add_argument("--opponent", default="minimax3", help="the participant in the second seat")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="file to write; default: match.svg in the run folder")
    options = parser.parse_args()
    try:
        with open_run(options.run) as run:
            names = (next(iter(run.league.players)) + "@latest", options.opponent)
            names = (run.resolve(names[0]), names[1])
            boards = play(run, names, seed=options.seed)
    except (LudusError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    out = options.out or options.run / "match.svg"
    out.write_text(draw(boards, names), encoding="utf-8")
    print(f"{out}: {len(boards) - 1} moves")
    return 0


if __name__ == "__main__":
    sys.exit(main())
