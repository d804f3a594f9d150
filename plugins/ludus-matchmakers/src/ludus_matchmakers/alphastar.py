"""Opponents as in the league of AlphaStar (Vinyals et al. 2019), of which each part can be used alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, Pairing

from ludus_matchmakers.common import Keeper
from ludus_matchmakers.history import pfsp_probabilities
from ludus_matchmakers.tools import any_of, counterparts, for_every_team, players_of, stand_ins, win_rates


@define
class Curriculum(Keeper):
    """Meets the live weights of a main agent, or its frozen models while those are too strong.

    Where it wins less than `below` against the live weights of late, then in a share of the matches it meets frozen
    models of that main agent, by PFSP with f(x) = x (1 - x).

    Args:
        against: Main agents; empty: itself in a symmetric game, everybody on the other side otherwise.
        below: Win rate.
        share: Of the matches.
        prior_matches: Weight of the prior of every win rate, in matches.
    """

    against: Sequence[str] = ()
    below: float = field(default=0.2, kw_only=True)
    share: float = field(default=0.5, kw_only=True)
    prior_matches: float = field(default=2.0, kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return live or frozen opponents."""
        return for_every_team(league, player, lambda team: self._choose(league, player, team, rng))

    def _choose(self, league: LeagueView, player: str, team: int | None, rng: np.random.Generator) -> tuple[str, str]:
        mains = counterparts(league, player, team, against=self.against)
        if not mains:
            return any_of(stand_ins(league, player, team), rng), "curriculum: there is no main agent"
        main = league.players[any_of(mains, rng)]
        rate = 0.5
        if main.name != player:
            rate = float(win_rates(league.recent(player, [main.live]), prior_matches=self.prior_matches)[0])
        if not main.models or rate >= self.below or rng.random() >= self.share:
            return main.live, f"curriculum: live, win rate {rate:.2f}"
        rates = win_rates(league.payoff(league.players[player].live, main.models), prior_matches=self.prior_matches)
        i = int(rng.choice(len(rates), p=pfsp_probabilities(rates, weighting="even")))
        return main.models[i], f"curriculum: the live weights win {1 - rate:.2f}, this one {1 - rates[i]:.2f}"


@define
class Forgotten(Keeper):
    """Verifies that nothing has been forgotten and no exploiter wins; otherwise it is self-play.

    First models of main exploiters are met if one of them is beaten less than `exploited`, else old models of a main
    agent if one of them is beaten less than `forgotten`, in both cases by PFSP with f(x) = (1 - x)^p. The newest models
    of the main agent do not count as far as each was harder than the one before: they are not forgotten but new.

    Args:
        against: Main agents; empty: itself in a symmetric game, everybody on the other side otherwise.
        exploiters: Main exploiters.
        forgotten: Win rate against main agents.
        exploited: Win rate against exploiters.
        p: Exponent.
        prior_matches: Weight of the prior of every win rate, in matches.
    """

    against: Sequence[str] = ()
    exploiters: Sequence[str] = field(default=(), kw_only=True)
    forgotten: float = field(default=0.7, kw_only=True)
    exploited: float = field(default=0.3, kw_only=True)
    p: float = field(default=2.0, kw_only=True)
    prior_matches: float = field(default=2.0, kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return frozen opponents, live ones where nothing is forgotten."""
        return for_every_team(league, player, lambda team: self._choose(league, player, team, rng))

    def _choose(self, league: LeagueView, player: str, team: int | None, rng: np.random.Generator) -> tuple[str, str]:
        mains = counterparts(league, player, team, against=self.against)
        if not mains:
            return any_of(stand_ins(league, player, team), rng), "forgotten: there is no main agent"
        exploits = [
            model for name in players_of(league, self.exploiters, team) for model in league.players[name].models
        ]
        found = self._losing(league, player, exploits, self.exploited, rng, what="exploits")
        if found is None:
            main = league.players[any_of(mains, rng)]
            rates = self._rates(league, player, main.models)
            past = main.models[: before_the_harder_ones(rates)]
            found = self._losing(league, player, past, self.forgotten, rng, what="forgotten")
        return found or (main.live, "forgotten: nothing, so self-play")

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
        """Return one of the models, and why, if any of them is beaten too little."""
        rates = self._rates(league, player, models)
        if not rates.size or rates.min() >= below:
            return None
        i = int(rng.choice(len(rates), p=pfsp_probabilities(rates, p=self.p)))
        return models[i], f"forgotten: {what}, win rate {rates[i]:.2f}"

    def _rates(self, league: LeagueView, player: str, models: Sequence[str]) -> np.ndarray:
        return win_rates(league.payoff(league.players[player].live, models), prior_matches=self.prior_matches)


def before_the_harder_ones(win_rate: np.ndarray) -> int:
    """Return how many models are left without the newest ones of which each is beaten no more than the one before.

    Args:
        win_rate: ``[n]`` against the models of one player, oldest first.
    """
    rises = np.flatnonzero(np.diff(win_rate) > 0)
    return int(rises[-1]) + 2 if rises.size else 0
