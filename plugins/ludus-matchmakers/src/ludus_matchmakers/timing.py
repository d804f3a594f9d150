"""Rules that freeze models or start players anew when it is time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define
from ludus.matchmaker import LeagueView, PlayerView
from ludus.rule import Freeze, Reset

from ludus_matchmakers.convergence import beats, generation_s, last_frozen_s, met
from ludus_matchmakers.tools import known_players


@define(kw_only=True)
class FreezeWhen:
    """Freezes models by time, by decisions, or once everybody in the pools is beaten.

    Args:
        players: Whose; empty: everybody's.
        seconds: Of training since the last model; 0: of no account.
        decisions: Since the last model; 0: of no account.
        win_rate: Of late against every model of the pools; 0: of no account.
        pools: The pools.
        enough: Matches of late against each of them.
    """

    players: Sequence[str] = ()
    seconds: float = 0.0
    decisions: int = 0
    win_rate: float = 0.7
    pools: Sequence[str] = ("own",)
    enough: float = 50

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[Freeze]:  # noqa: ARG002 - the contract
        """Return a freeze for every player whose time has come, if it has learned anything since the last one."""
        names = known_players(league, self.players) or tuple(league.players)
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
            rate = beats(league, view.name, met(league, view.name, self.pools), rate=self.win_rate, enough=self.enough)
        return "" if rate is None else f"beats everybody with {rate:.2f} or more"


@define(kw_only=True)
class RestartFrom:
    """Starts players anew from the newest model of another one, as policy explorers do [DIS §4.1].

    Args:
        source: Whose model; empty: the first player's.
        players: Who restarts; empty: everybody else.
        decisions: Between two restarts; 0: of no account.
        seconds: Of training between two restarts; 0: of no account.
    """

    source: str = ""
    players: Sequence[str] = ()
    decisions: int = 5_000_000
    seconds: float = 0.0

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[Reset]:  # noqa: ARG002 - the contract
        """Return a reset for every player whose time has come, once there is a model to start from."""
        source = self.source or next(iter(league.players))
        known_players(league, [source])
        models = league.players[source].models
        names = known_players(league, self.players) or tuple(league.players)
        return [
            Reset(player=name, reason=f"restarts from {models[-1]}", init=models[-1])
            for name in names
            if models and name != source and self._is_due(league, league.players[name])
        ]

    def _is_due(self, league: LeagueView, view: PlayerView) -> bool:
        decisions = view.decisions - view.generation_start_decisions
        seconds = league.elapsed_s - generation_s(league, view)
        return bool((self.decisions and decisions >= self.decisions) or (self.seconds and seconds >= self.seconds))
