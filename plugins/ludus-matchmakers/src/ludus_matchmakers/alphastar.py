"""The league of AlphaStar (Vinyals et al. 2019): opponents, of which each part can be used alone, and the rule.

The rule freezes and resets the players.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, Pairing
from ludus.rule import Freeze, Reset

from ludus_matchmakers.common import PoolKeeper
from ludus_matchmakers.convergence import pool_models, win_rate_if_all_beaten
from ludus_matchmakers.history import pfsp_probabilities
from ludus_matchmakers.tools import (
    check_players,
    choose_uniformly,
    fallback_opponents,
    opponent_players,
    pair_every_team,
    players_on_team,
    win_rates,
)


@define
class Curriculum(PoolKeeper):
    """Chooses the live weights of a main agent, or its frozen models while the live weights are too strong.

    While the recent win rate against the live weights is below `below`, a share of the fixtures is against frozen
    models of that main agent, by PFSP with f(x) = x (1 - x).

    Args:
        against: Main agents; empty: the player itself in a symmetric game, all players of the other side otherwise.
        below: Win rate below which frozen models are chosen.
        share: Share of the fixtures against frozen models in that case.
        prior_matches: Weight of the prior of every win rate, in matches.
    """

    against: Sequence[str] = ()
    below: float = field(default=0.2, kw_only=True)
    share: float = field(default=0.5, kw_only=True)
    prior_matches: float = field(default=2.0, kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return live or frozen opponents."""
        return pair_every_team(league, player, lambda team: self._choose(league, player, team, rng))

    def _choose(self, league: LeagueView, player: str, team: int | None, rng: np.random.Generator) -> tuple[str, str]:
        mains = opponent_players(league, player, team, against=self.against)
        if not mains:
            return choose_uniformly(fallback_opponents(league, player, team), rng), "curriculum: there is no main agent"
        main = league.players[choose_uniformly(mains, rng)]
        rate = 0.5
        if main.name != player:
            rate = float(win_rates(league.recent(player, [main.live]), prior_matches=self.prior_matches)[0])
        if not main.models or rate >= self.below or rng.random() >= self.share:
            return main.live, f"curriculum: live, win rate {rate:.2f}"
        rates = win_rates(league.payoff(league.players[player].live, main.models), prior_matches=self.prior_matches)
        i = int(rng.choice(len(rates), p=pfsp_probabilities(rates, weighting="even")))
        return main.models[i], f"curriculum: the live weights win {1 - rate:.2f}, this one {1 - rates[i]:.2f}"


@define
class Forgotten(PoolKeeper):
    """Chooses exploiters and old models that the player does not beat any more; self-play if there are none.

    Models of main exploiters are chosen if the win rate against one of them is below `exploited`, else old models of a
    main agent if the win rate against one of them is below `forgotten`, in both cases by PFSP with f(x) = (1 - x)^p.
    The newest models of the main agent are left out as long as each is harder than the one before: they are new, not
    forgotten.

    Args:
        against: Main agents; empty: the player itself in a symmetric game, all players of the other side otherwise.
        exploiters: Main exploiters.
        forgotten: Win rate against models of main agents below which they count as forgotten.
        exploited: Win rate against models of exploiters below which they are chosen.
        p: Exponent of the PFSP weighting.
        prior_matches: Weight of the prior of every win rate, in matches.
    """

    against: Sequence[str] = ()
    exploiters: Sequence[str] = field(default=(), kw_only=True)
    forgotten: float = field(default=0.7, kw_only=True)
    exploited: float = field(default=0.3, kw_only=True)
    p: float = field(default=2.0, kw_only=True)
    prior_matches: float = field(default=2.0, kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return frozen opponents, or live ones if no model is forgotten."""
        return pair_every_team(league, player, lambda team: self._choose(league, player, team, rng))

    def _choose(self, league: LeagueView, player: str, team: int | None, rng: np.random.Generator) -> tuple[str, str]:
        mains = opponent_players(league, player, team, against=self.against)
        if not mains:
            return choose_uniformly(fallback_opponents(league, player, team), rng), "forgotten: there is no main agent"
        exploits = [
            model for name in players_on_team(league, self.exploiters, team) for model in league.players[name].models
        ]
        found = self._losing(league, player, exploits, self.exploited, rng, what="exploits")
        if found is None:
            main = league.players[choose_uniformly(mains, rng)]
            rates = self._rates(league, player, main.models)
            past = main.models[: num_before_harder_models(rates)]
            found = self._losing(league, player, past, self.forgotten, rng, what="forgotten")
        return found or (main.live, "forgotten: nothing; self-play")

    def _losing(
        self,
        league: LeagueView,
        player: str,
        models: Sequence[str],
        below: float,
        rng: np.random.Generator,
        *,
        what: str,
    ) -> tuple[str, str] | None:
        """Return one of the models and the reason, if the win rate against any of them is below `below`."""
        rates = self._rates(league, player, models)
        if not rates.size or rates.min() >= below:
            return None
        i = int(rng.choice(len(rates), p=pfsp_probabilities(rates, p=self.p)))
        return models[i], f"forgotten: {what}, win rate {rates[i]:.2f}"

    def _rates(self, league: LeagueView, player: str, models: Sequence[str]) -> np.ndarray:
        return win_rates(league.payoff(league.players[player].live, models), prior_matches=self.prior_matches)


def num_before_harder_models(win_rate: np.ndarray) -> int:
    """Return the number of models without the newest ones of which each is at least as hard as the one before.

    Args:
        win_rate: ``[n] float64``: win rates against the models of one player, oldest first.
    """
    rises = np.flatnonzero(np.diff(win_rate) > 0)
    return int(rises[-1]) + 2 if rises.size else 0


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
        return "" if rate is None else f"beats all opponents with {rate:.2f} or more"
