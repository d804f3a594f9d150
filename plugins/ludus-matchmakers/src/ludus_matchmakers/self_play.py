"""Matches against the latest weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define
from ludus.matchmaker import LeagueView, Pairing

from ludus_matchmakers.common import Keeper
from ludus_matchmakers.tools import live_opponents, other_teams, stand_ins


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
            opponents.append(str(rng.choice(live)))
        return Pairing(opponents=tuple(opponents), reason="latest-self-play")
