"""Matches against the latest weights: live ones, or the newest frozen ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define
from ludus.matchmaker import LeagueView, Pairing

from ludus_matchmakers.common import Keeper
from ludus_matchmakers.tools import any_of, counterparts, live_opponents, other_teams, stand_ins


@define
class LatestSelfPlay(Keeper):
    """Meets the weights that are being learned now.

    In a symmetric game that is the player itself, in an asymmetric one whoever learns the other side; several are met
    equally often.

    Args:
        against: Players to meet instead.
    """

    against: Sequence[str] = ()

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return live opponents."""
        opponents = []
        for team in other_teams(league, player):
            live = live_opponents(league, player, team, against=self.against) or stand_ins(league, player, team)
            opponents.append(any_of(live, rng))
        return Pairing(opponents=tuple(opponents), reason="latest-self-play")


@define
class LatestFrozen(Keeper):
    """Meets the newest frozen model of other players, as an exploiter meets its main agent [Minimax §5.2].

    Where a player has no model yet, its live weights stand in.

    Args:
        against: Players to meet; empty: all others in a symmetric game, everybody on the other side otherwise.
    """

    against: Sequence[str] = ()

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return the newest models."""
        others = tuple(name for name in league.players if name != player)
        opponents = []
        for team in other_teams(league, player):
            against = self.against or (others if team is None else ())
            views = [league.players[name] for name in counterparts(league, player, team, against=against)]
            newest = [view.models[-1] if view.models else view.live for view in views]
            opponents.append(any_of(newest or stand_ins(league, player, team), rng))
        return Pairing(opponents=tuple(opponents), reason="latest-frozen")
