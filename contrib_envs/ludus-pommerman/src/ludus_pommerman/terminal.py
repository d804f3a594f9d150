"""Matches as text: two characters for each cell."""

from __future__ import annotations

from ludus_pommerman.rules import AGENT
from ludus_pommerman.view import draw_board, inner
from ludus_pommerman.world import World

_PLAIN = "\x1b[0m"
_AGENTS = ("\x1b[36;1m", "\x1b[31;1m", "\x1b[34;1m", "\x1b[35;1m")
#: Passage, rigid, wood, bomb, flames, fog, and the items.
_CELLS = (
    "\x1b[2m· \x1b[0m", "\x1b[37m██\x1b[0m", "\x1b[33m▒▒\x1b[0m", "● ", "\x1b[31m※ \x1b[0m", "? ",
    "\x1b[32m+b\x1b[0m", "\x1b[32m+r\x1b[0m", "\x1b[32m+k\x1b[0m",
)  # fmt: skip


def render(world: World, match: int) -> str:
    """Return a match as text; a cell with a bomb that explodes soon shows the steps left."""
    size = int(world.board.shape[1] ** 0.5) - 2
    board, life = draw_board(world, size)[match], inner(world.life, size)[match]
    lines = []
    for row in range(size):
        line = ""
        for column in range(size):
            code, left = int(board[row, column]), int(life[row, column])
            if code >= AGENT:
                line += f"{_AGENTS[code - AGENT]}{code - AGENT}{'●' if left else ' '}{_PLAIN}"
            else:
                line += f"●{left % 10}" if left else _CELLS[code]
        lines.append(line)
    return "\n".join([caption(world, match), *lines])


def caption(world: World, match: int) -> str:
    """Return the number of steps, and what each agent has."""
    agents = []
    for seat, lives in enumerate(world.alive[match]):
        has = f"{world.ammo[match, seat]} bombs of {world.reach[match, seat]}{', kick' * bool(world.kick[match, seat])}"
        agents.append(f"{seat}: {has if lives else 'dead'}")
    return f"step {world.ticks[match]}   {'   '.join(agents)}"
