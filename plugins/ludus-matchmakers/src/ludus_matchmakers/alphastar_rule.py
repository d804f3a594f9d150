"""The rule by which AlphaStar's league freezes and resets its players; its opponents are in `alphastar`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define
from ludus.matchmaker import LeagueView
from ludus.rule import Freeze, Reset

from ludus_matchmakers.convergence import pool_models, win_rate_if_all_beaten
from ludus_matchmakers.tools import check_players


@define(kw_only=True)
class AlphaStar:
    """Freezes and resets players as in the league of AlphaStar (Vinyals et al. 2019).

    A player is due once it has learned from `least_decisions` decisions since its last model and its recent win rate
    against all its opponents is at least `converged`, or once it has learned from `most_decisions`. The opponents of
    main agents and league exploiters are all models of the league, those of main exploiters the live weights of the
    main agents. A due main agent is frozen, a main exploiter is reset, and a league exploiter is reset with the
    probability `reset`, else frozen.

    Args:
        main_agents: Main agents; empty: the first player.
        main_exploiters: Main exploiters.
        league_exploiters: League exploiters.
        pools: Pools that make up the whole league.
        converged: The win rate.
        enough_matches: Recent matches that are required against each opponent.
        least_decisions: Minimum decisions between two models.
        most_decisions: Maximum decisions between two models; 0: no limit.
        reset: Probability of a reset.
    """

    main_agents: Sequence[str] = ()
    main_exploiters: Sequence[str] = ()
    league_exploiters: Sequence[str] = ()
    pools: Sequence[str] = ("*",)
    converged: float = 0.7
    enough_matches: float = 50
    least_decisions: int = 1_000_000
    most_decisions: int = 2_000_000
    reset: float = 0.25

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[Freeze | Reset]:
        """Return freezes and resets."""
        mains = check_players(league, self.main_agents) or tuple(league.players)[:1]
        live = [league.players[name].live for name in mains]
        opponents_of = {
            name: pool_models(league, name, self.pools)
            for name in (*mains, *check_players(league, self.league_exploiters))
        }
        opponents_of |= dict.fromkeys(check_players(league, self.main_exploiters), tuple(live))
        changes: list[Freeze | Reset] = []
        for name, opponents in opponents_of.items():
            if reason := self._reason(league, name, opponents):
                is_reset = name in self.main_exploiters or (
                    name in self.league_exploiters and rng.random() < self.reset
                )
                changes.append((Reset if is_reset else Freeze)(player=name, reason=reason))
        return changes

    def _reason(self, league: LeagueView, name: str, opponents: Sequence[str]) -> str:
        view = league.players[name]
        decisions = view.decisions - view.frozen_decisions
        if self.most_decisions and decisions >= self.most_decisions:
            return f"{decisions} decisions since the last model"
        rate = None
        if decisions >= self.least_decisions:
            rate = win_rate_if_all_beaten(
                league, name, opponents, rate=self.converged, enough_matches=self.enough_matches
            )
        return "" if rate is None else f"beats everybody with {rate:.2f} or more"
