"""Generations of a main agent and its exploiters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define
from ludus.matchmaker import LeagueView, PlayerView
from ludus.rule import Change, Freeze, Reset, Share

from ludus_matchmakers.convergence import generation_started_s, pool_models, win_rate_if_all_beaten
from ludus_matchmakers.tools import anchor_opponents, check_players, other_teams


@define(kw_only=True)
class Generations:
    """Freezes a converged main agent, and resets converged exploiters [Minimax §5.3].

    The main agent has converged when its recent win rate against every model of its pools (in generation 0: every
    anchor) is at least `converged`. Then it is frozen and continues with its weights; this requires a model in the
    pools that is newer than its own last one. An exploiter has converged when it beats the newest model of the main
    agent. Then it is frozen and reset to initial weights, and has the share 0 until the main agent converges at that
    time or later. The same holds at the start: exploiters have the share 0 until the main agent has converged
    `exploiters_after` times.

    Models of the main agent that no rule requested, such as the last one of an interrupted session, have not converged.

    Args:
        main: The main agent; empty: the first player.
        exploiters: Its exploiters; empty: all other players.
        anchors: Anchors to beat in generation 0; empty: all.
        pools: Pools whose models the main agent must beat.
        converged: The win rate.
        enough_matches: Recent matches that are required against each opponent.
        share: Share of an exploiter that trains.
        exploiters_after: Converged models of the main agent before the exploiters start.
    """

    main: str = ""
    exploiters: Sequence[str] = ()
    anchors: Sequence[str] = ()
    pools: Sequence[str] = ("*",)
    converged: float = 0.85
    enough_matches: float = 100
    share: float = 1.0
    exploiters_after: int = 1

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[Change]:  # noqa: ARG002 - the contract
        """Return freezes, resets and changed shares."""
        name = self.main or next(iter(league.players))
        check_players(league, [name])
        main = league.players[name]
        changes: list[Change] = [*self._main(league, main)]
        for exploiter in check_players(league, self.exploiters) or tuple(league.players):
            if exploiter != name:
                changes += self._exploiter(league, league.players[exploiter], main)
        return changes

    def _main(self, league: LeagueView, main: PlayerView) -> list[Change]:
        others = [*pool_models(league, main.name, self.pools)]
        converged = _converged_models(league, main)
        if not converged:
            for team in other_teams(league, main.name)[:1]:
                others += anchor_opponents(league, team, against=self.anchors)
            if not others:
                return [Freeze(player=main.name, reason="generation 0: there is no opponent to beat")]
        elif not any(league.frozen_s(model) > league.frozen_s(converged[-1]) for model in others):
            return []
        rate = win_rate_if_all_beaten(
            league, main.name, others, rate=self.converged, enough_matches=self.enough_matches
        )
        if rate is None:
            return []
        return [Freeze(player=main.name, reason=f"converged: beats {len(others)} with {rate:.2f} or more")]

    def _exploiter(self, league: LeagueView, exploiter: PlayerView, main: PlayerView) -> list[Change]:
        since = generation_started_s(league, exploiter) if exploiter.generation else -np.inf
        # Models of one commit have equal times: the main agent waits for a newer one, so the exploiter must not wait.
        converged = _converged_models(league, main)
        is_waiting = len(converged) < self.exploiters_after
        if is_waiting or (converged and league.frozen_s(converged[-1]) < since):
            return [Share(player=exploiter.name, share=0.0)] if exploiter.share else []
        if not exploiter.share:
            return [Share(player=exploiter.name, share=self.share)]
        rate = win_rate_if_all_beaten(
            league, exploiter.name, converged[-1:], rate=self.converged, enough_matches=self.enough_matches
        )
        if rate is None:
            return []
        return [Reset(player=exploiter.name, reason=f"converged: beats {converged[-1]} with {rate:.2f}")]


def _converged_models(league: LeagueView, main: PlayerView) -> tuple[str, ...]:
    """Return the models of the main agent that were frozen because it had converged."""
    return tuple(model for model in main.models if league.freeze_reason(model))
