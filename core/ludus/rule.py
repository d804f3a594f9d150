"""The rule contract: what changes in a league while it runs, besides whom its players meet.

Every so many matches the coordinator asks each rule of the league what should change now. Like a matchmaker a rule is
a pure function of the league and a random generator, so it is tested with leagues made of plain data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from attrs import field, frozen

from ludus.matchmaker import LeagueView, PoolChange
from ludus.option import at_least, text

__all__ = ["Change", "Freeze", "PoolChange", "Reset", "Rule", "Share"]


@frozen(kw_only=True)
class Freeze:
    """A player's weights become a model now; then it learns on.

    Args:
        player: The player.
        reason: Why, in a few words; kept in the manifest of the model.
    """

    player: str = field(validator=text())
    reason: str = field(validator=text())


@frozen(kw_only=True)
class Reset:
    """A player's weights become a model now; then it starts anew, with a fresh optimiser, as its next generation.

    Its live participant no longer inherits the payoffs of the models before. What was recorded with its old weights is
    not learned from.

    Args:
        player: The player.
        reason: Why, in a few words; kept in the manifest of the model.
        init: The frozen model whose weights it starts from; empty: as at the beginning of the run.
    """

    player: str = field(validator=text())
    reason: str = field(validator=text())
    init: str = field(default="", validator=text())


@frozen(kw_only=True)
class Share:
    """A player's share of the ticks of training matches from now on, relative to the other players'.

    Args:
        player: The player.
        share: ≥ 0; with 0 it waits.
    """

    player: str = field(validator=text())
    share: float = field(validator=at_least(0))


Change: TypeAlias = Freeze | Reset | Share | PoolChange


class Rule(Protocol):
    """Says what should change. Holds no state besides its configuration."""

    def decide(self, league: LeagueView, rng: np.random.Generator) -> Sequence[Change]:
        """Return what should change now; empty most of the time.

        A player whose last `Freeze` or `Reset` has not happened yet gets no other: the rule is asked again. It is asked
        once at the start for nothing, so that its mistakes show at once.
        """
