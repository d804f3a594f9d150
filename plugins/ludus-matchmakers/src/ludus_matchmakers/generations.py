"""Generations of a main agent and its exploiters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define
from ludus.matchmaker import LeagueView, PlayerView
from ludus.rule import Change, Freeze, Reset, Share

from ludus_matchmakers.convergence import beats, generation_s, met
from ludus_matchmakers.tools import anchor_opponents, known_players, other_teams


@define(kw_only=True)
class Generations:
    """Says when a main agent and its exploiters have converged, and starts exploiters anew [Minimax §5.2].

    The main agent has converged when it beats everybody in its pools (in generation 0: the anchors), of late, with the
    win rate `converged`; then it is frozen and learns on with the weights it has. That happens only while somebody is
    newer than its last model. An exploiter has converged when it beats the newest model of the main agent; then it is
    frozen and starts anew from fresh weights, and it waits with share 0 until the main agent has converged then or
    later.

    Args:
        main: The main agent; empty: the first player.
        exploiters: Its exploiters; empty: all other players.
        anchors: Who must be beaten in generation 0; empty: all anchors.
        pools: Pools that the main agent must beat.
        converged: The win rate.
        enough: Matches of late against each opponent.
        share: Of an exploiter that does not wait.
    """

    main: str = ""
    exploiters: Sequence[str] = ()
    anchors: Sequence[str] = ()
    pools: Sequence[str] = ("*",)
    converged: float = 0.85
    enough: float = 100
    share: float = 1.0

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[Change]:  # noqa: ARG002 - the contract
        """Return what has converged, and who waits for whom."""
        name = self.main or next(iter(league.players))
        known_players(league, [name])
        main = league.players[name]
        changes: list[Change] = [*self._main(league, main)]
        for exploiter in known_players(league, self.exploiters) or tuple(league.players):
            if exploiter != name:
                changes += self._exploiter(league, league.players[exploiter], main)
        return changes

    def _main(self, league: LeagueView, main: PlayerView) -> list[Change]:
        others = [*met(league, main.name, self.pools)]
        if not main.models:
            for team in other_teams(league, main.name)[:1]:
                others += anchor_opponents(league, team, against=self.anchors)
            if not others:
                return [Freeze(player=main.name, reason="generation 0: there is nobody to beat")]
        elif not any(league.frozen_s(model) > league.frozen_s(main.models[-1]) for model in others):
            return []
        rate = beats(league, main.name, others, rate=self.converged, enough=self.enough)
        if rate is None:
            return []
        return [Freeze(player=main.name, reason=f"converged: beats {len(others)} with {rate:.2f} or more")]

    def _exploiter(self, league: LeagueView, exploiter: PlayerView, main: PlayerView) -> list[Change]:
        since = generation_s(league, exploiter) if exploiter.generation else -np.inf
        # models of one commit are equally old: the main agent waits for a newer one, so the exploiter must not
        if not main.models or league.frozen_s(main.models[-1]) < since:
            return [Share(player=exploiter.name, share=0.0)] if exploiter.share else []
        if not exploiter.share:
            return [Share(player=exploiter.name, share=self.share)]
        rate = beats(league, exploiter.name, main.models[-1:], rate=self.converged, enough=self.enough)
        if rate is None:
            return []
        return [Reset(player=exploiter.name, reason=f"converged: beats {main.models[-1]} with {rate:.2f}")]
