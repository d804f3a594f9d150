"""The rule by which AlphaStar's league freezes and resets its players; its opponents are in `alphastar`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define
from ludus.matchmaker import LeagueView
from ludus.rule import Freeze, Reset

from ludus_matchmakers.convergence import beats, met
from ludus_matchmakers.tools import known_players


@define(kw_only=True)
class AlphaStar:
    """Freezes and resets players as the league of AlphaStar does (Vinyals et al. 2019).

    A player is due once it has learned from `least` decisions since its last model and beats everybody it must with
    the win rate `converged` of late, or once it has learned from `most`. A main agent must beat all models of the
    league and is frozen. A main exploiter must beat the live weights of the main agents and starts anew. A league
    exploiter must beat all models of the league and starts anew with the probability `reset`, else it is frozen.

    Args:
        main_agents: Main agents; empty: the first player.
        main_exploiters: Main exploiters.
        league_exploiters: League exploiters.
        pools: Pools that are the whole league.
        converged: The win rate.
        enough: Matches of late against everybody.
        least: Decisions.
        most: Decisions; 0: of no account.
        reset: Probability.
    """

    main_agents: Sequence[str] = ()
    main_exploiters: Sequence[str] = ()
    league_exploiters: Sequence[str] = ()
    pools: Sequence[str] = ("*",)
    converged: float = 0.7
    enough: float = 50
    least: int = 1_000_000
    most: int = 2_000_000
    reset: float = 0.25

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[Freeze | Reset]:
        """Return who is frozen and who starts anew."""
        mains = known_players(league, self.main_agents) or tuple(league.players)[:1]
        live = [league.players[name].live for name in mains]
        must = {
            name: met(league, name, self.pools) for name in (*mains, *known_players(league, self.league_exploiters))
        }
        must |= dict.fromkeys(known_players(league, self.main_exploiters), tuple(live))
        changes: list[Freeze | Reset] = []
        for name, opponents in must.items():
            if reason := self._reason(league, name, opponents):
                again = name in self.main_exploiters or (name in self.league_exploiters and rng.random() < self.reset)
                changes.append((Reset if again else Freeze)(player=name, reason=reason))
        return changes

    def _reason(self, league: LeagueView, name: str, opponents: Sequence[str]) -> str:
        view = league.players[name]
        decisions = view.decisions - view.frozen_decisions
        if self.most and decisions >= self.most:
            return f"{decisions} decisions since the last model"
        rate = None
        if decisions >= self.least:
            rate = beats(league, name, opponents, rate=self.converged, enough=self.enough)
        return "" if rate is None else f"beats everybody with {rate:.2f} or more"
