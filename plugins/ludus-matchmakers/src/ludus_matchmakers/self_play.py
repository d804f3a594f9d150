"""Matchmakers of live weights, of the newest frozen models, and of anchors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define
from ludus.matchmaker import LeagueView, Pairing, PlayerView

from ludus_matchmakers.common import PoolKeeper
from ludus_matchmakers.tools import (
    anchor_opponents,
    choose_uniformly,
    fallback_opponents,
    live_opponents,
    opponent_players,
    other_teams,
    pair_every_team,
)


@define
class LatestSelfPlay(PoolKeeper):
    """Chooses live weights.

    In a symmetric game these are the player's own, in an asymmetric one those of the players of the other side, with
    equal probability.

    Args:
        against: Players to choose from instead.
    """

    against: Sequence[str] = ()

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return live opponents."""
        opponents = []
        for team in other_teams(league, player):
            live = live_opponents(league, player, team, against=self.against) or fallback_opponents(
                league, player, team
            )
            opponents.append(choose_uniformly(live, rng))
        return Pairing(opponents=tuple(opponents), reason="latest-self-play")


@define
class LatestFrozen(PoolKeeper):
    """Chooses the newest frozen model of other players, as an exploiter of a main agent does [Minimax §5.3].

    The live weights of a player are used while it has no model.

    Args:
        against: Players to choose from; empty: all others in a symmetric game, the other side otherwise.
        requested: Whether to choose only models that a rule requested.
    """

    against: Sequence[str] = ()
    requested: bool = False

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return the newest models."""
        others = tuple(name for name in league.players if name != player)
        opponents = []
        for team in other_teams(league, player):
            against = self.against or (others if team is None else ())
            views = [league.players[name] for name in opponent_players(league, player, team, against=against)]
            newest = [self._newest_model(league, view) or view.live for view in views]
            opponents.append(choose_uniformly(newest or fallback_opponents(league, player, team), rng))
        return Pairing(opponents=tuple(opponents), reason="latest-frozen")

    def _newest_model(self, league: LeagueView, view: PlayerView) -> str:
        """Return the newest model of a player that may be chosen; empty without one."""
        models = reversed(view.models)
        return next((model for model in models if not self.requested or league.freeze_reason(model)), "")


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
