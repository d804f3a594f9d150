"""A matchmaker of anchors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define
from ludus.matchmaker import LeagueView, Pairing

from ludus_matchmakers.common import PoolKeeper
from ludus_matchmakers.tools import anchor_opponents, choose_uniformly, fallback_opponents, pair_every_team


@define
class Anchors(PoolKeeper):
    """Chooses anchors with equal probability: opponents that do not change, as in [Minimax §5.1].

    Args:
        against: Anchors to choose from; empty: all that fit.
    """

    against: Sequence[str] = ()

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return scripted opponents, or a fallback for teams without one.

        Raises:
            ConfigError: An anchor named in `against` does not exist.
        """

        def choose_for(team: int | None) -> tuple[str, str]:
            if anchors := anchor_opponents(league, team, against=self.against):
                return choose_uniformly(anchors, rng), "against-anchors"
            return choose_uniformly(fallback_opponents(league, player, team), rng), "no anchor for this team"

        return pair_every_team(league, player, choose_for)
