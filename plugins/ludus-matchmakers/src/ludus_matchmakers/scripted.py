"""Matches against anchors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define
from ludus.matchmaker import LeagueView, Pairing

from ludus_matchmakers.common import Keeper
from ludus_matchmakers.tools import anchor_opponents, any_of, for_every_team, stand_ins


@define
class Anchors(Keeper):
    """Meets scripted agents, all equally often: an opponent that stays the same, as in [Minimax §5.1].

    Args:
        against: Anchors to meet; empty for all that fit.
    """

    against: Sequence[str] = ()

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return scripted opponents; a stand-in where there is none for a team.

        Raises:
            ConfigError: An anchor named in `against` does not exist.
        """

        def choose_for(team: int | None) -> tuple[str, str]:
            if anchors := anchor_opponents(league, team, against=self.against):
                return any_of(anchors, rng), "against-anchors"
            return any_of(stand_ins(league, player, team), rng), "there is no anchor to meet"

        return for_every_team(league, player, choose_for)
