"""Rules that freeze models or reset players after some time or progress."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define
from ludus.matchmaker import LeagueView, PlayerView
from ludus.rule import Freeze, Reset

from ludus_matchmakers.convergence import generation_started_s, last_frozen_s, pool_models, win_rate_if_all_beaten
from ludus_matchmakers.tools import check_players


@define(kw_only=True)
class FreezeWhen:
    """Freezes models by time, by decisions, or once all models of the pools are beaten.

    Args:
        players: Players whose models are frozen; empty: all.
        seconds: Seconds of training since the last model; 0: no limit.
        decisions: Decisions since the last model; 0: no limit.
        win_rate: Recent win rate that is required against every model of the pools; 0: not by win rate.
        pools: The pools.
        enough_matches: Recent matches that are required against each model.
    """

    players: Sequence[str] = ()
    seconds: float = 0.0
    decisions: int = 0
    win_rate: float = 0.7
    pools: Sequence[str] = ("own",)
    enough_matches: float = 50

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[Freeze]:  # noqa: ARG002 - the contract
        """Return a freeze for every player that is due, if it has learned since its last model."""
        names = check_players(league, self.players) or tuple(league.players)
        reasons = {name: self._reason(league, league.players[name]) for name in names}
        return [Freeze(player=name, reason=reason) for name, reason in reasons.items() if reason]

    def _reason(self, league: LeagueView, view: PlayerView) -> str:
        decisions, seconds = view.decisions - view.frozen_decisions, league.elapsed_s - last_frozen_s(league, view)
        if decisions <= 0:
            return ""
        if self.seconds and seconds >= self.seconds:
            return f"{seconds:.0f} s since the last model"
        if self.decisions and decisions >= self.decisions:
            return f"{decisions} decisions since the last model"
        rate = None
        if self.win_rate:
            rate = win_rate_if_all_beaten(
                league,
                view.name,
                pool_models(league, view.name, self.pools),
                rate=self.win_rate,
                enough_matches=self.enough_matches,
            )
        return "" if rate is None else f"beats all opponents with {rate:.2f} or more"


@define(kw_only=True)
class RestartFrom:
    """Resets players to the newest model of another player, as policy explorers in DIS [DIS §4.1].

    Args:
        source: Player of that model; empty: the first player.
        players: Players that are reset; empty: all others.
        decisions: Decisions between two resets; 0: no limit.
        seconds: Seconds of training between two resets; 0: no limit.
    """

    source: str = ""
    players: Sequence[str] = ()
    decisions: int = 5_000_000
    seconds: float = 0.0

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[Reset]:  # noqa: ARG002 - the contract
        """Return a reset for every player that is due, once the source has a model."""
        source = self.source or next(iter(league.players))
        check_players(league, [source])
        models = league.players[source].models
        names = check_players(league, self.players) or tuple(league.players)
        return [
            Reset(player=name, reason=f"restarts from {models[-1]}", init=models[-1])
            for name in names
            if models and name != source and self._is_due(league, league.players[name])
        ]

    def _is_due(self, league: LeagueView, view: PlayerView) -> bool:
        decisions = view.decisions - view.generation_start_decisions
        seconds = league.elapsed_s - generation_started_s(league, view)
        return bool((self.decisions and decisions >= self.decisions) or (self.seconds and seconds >= self.seconds))
