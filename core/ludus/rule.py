"""The rule contract: changes of shares, pools and players while a league runs.

The coordinator calls every rule of the league after a number of matches (``league.every_matches``). Like a matchmaker,
a rule is a pure function of the league and a random generator, so tests use leagues made of plain data.
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
    """Freeze a player's weights as a model; the player continues to learn.

    Args:
        player: The player.
        reason: Short text that is stored in the manifest of the model.
    """

    player: str = field(validator=text())
    reason: str = field(validator=text())


@frozen(kw_only=True)
class Reset:
    """Freeze a player's weights as a model, then reset the player: its next generation has a new optimizer state.

    The live participant no longer inherits the payoffs of earlier models. Segments of the old weights are dropped.

    Args:
        player: The player.
        reason: Short text that is stored in the manifest of the model.
        init: Frozen model whose weights the new generation starts from; empty: the initial weights of the
            configuration.
    """

    player: str = field(validator=text())
    reason: str = field(validator=text())
    init: str = field(default="", validator=text())


@frozen(kw_only=True)
class Share:
    """Set a player's share of the ticks of training matches, relative to the shares of the other players.

    Args:
        player: The player.
        share: New share, ≥ 0; with 0 the player does not train.
    """

    player: str = field(validator=text())
    share: float = field(validator=at_least(0))


Change: TypeAlias = Freeze | Reset | Share | PoolChange


class Rule(Protocol):
    """Returns changes of the league. Holds no state besides its configuration."""

    def decide(self, league: LeagueView, rng: np.random.Generator) -> Sequence[Change]:
        """Return the changes to apply now; usually none.

        A `Freeze` or `Reset` of a player whose last one is still pending is ignored; the rule may return it again
        later. At the start of a run the rule is called once and the result dropped, so that errors show early. Before
        the first match of a run only changes of shares are applied.
        """
