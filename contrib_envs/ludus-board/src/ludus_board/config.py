"""Options of the components in this distribution."""

from __future__ import annotations

from attrs import frozen
from ludus.option import one_of, option, whole


@frozen(kw_only=True)
class MinimaxConfig:
    """Options of the agent ``connect4-minimax``."""

    depth: int = option(3, whole(1, 8), help="plies that the agent searches, 1 to 8; each costs up to seven times more")
    evaluate: str = option(
        "zero",
        one_of("zero", "windows"),
        help="value of an undecided position at the horizon: zero (plain depth-limited minimax), or windows "
        "(counts the rows of four that are still open)",
    )
