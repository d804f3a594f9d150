"""Options of the components in this distribution."""

from __future__ import annotations

from attrs import frozen
from ludus.option import Check, one_of, option

__all__ = ["MinimaxConfig"]


def _depth() -> Check:
    return Check("a whole number from 1 to 8", lambda v: isinstance(v, int) and not isinstance(v, bool) and 1 <= v <= 8)


@frozen(kw_only=True)
class MinimaxConfig:
    """Options of the agent ``connect4-minimax``."""

    depth: int = option(3, _depth(), help="plies the agent looks ahead, 1 to 8; each costs up to seven times more")
    evaluate: str = option(
        "zero",
        one_of("zero", "windows"),
        help="value of an undecided position at the horizon: zero (plain depth-limited minimax), or windows "
        "(counts the rows of four that are still open)",
    )
