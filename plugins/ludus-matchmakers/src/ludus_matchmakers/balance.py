"""How the sides of a league fare against each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ludus.matchmaker import LeagueView

from ludus_matchmakers.tools import known_players, win_rates

__all__ = ["pooled_rate", "recent_rate", "rivals"]


def rivals(league: LeagueView, player: str) -> tuple[str, ...]:
    """Return the players that a player can meet, without itself: in an asymmetric game those of the other sides.

    Raises:
        ConfigError: There is no such player.
    """
    known_players(league, [player])
    own = league.players[player].team
    return tuple(name for name, view in league.players.items() if name != player and (own is None or view.team != own))


def recent_rate(league: LeagueView, player: str, others: Sequence[str]) -> tuple[float, float]:
    """Return the win rate of live weights against other live weights of late, and how many matches say so."""
    counts = league.recent(player, [league.players[name].live for name in others]).sum(axis=0)
    return float(win_rates(counts)[0]), float(counts.sum())


def pooled_rate(league: LeagueView, player: str, others: Sequence[str], *, models: int) -> tuple[float, float]:
    """Return the win rate of a player's live weights and newest models against those of others, and how many matches.

    Every match counts once: all those between two of the models, and what live weights have played of late.

    Args:
        league: The league.
        player: The player.
        others: The others.
        models: Newest frozen models of everybody that count, besides the live weights.
    """
    mine = _newest(league, player, models)
    counts = np.zeros(3)
    for other in others:
        theirs = _newest(league, other, models)
        counts += league.recent(player, [*theirs, league.players[other].live]).sum(axis=0)
        counts += league.recent(other, mine).sum(axis=0)[::-1]
        for model in mine:  # `payoff` of a live one would add its earlier weights, these models among them
            counts += league.payoff(model, theirs).sum(axis=0)
    return float(win_rates(counts)[0]), float(counts.sum())


def _newest(league: LeagueView, player: str, models: int) -> tuple[str, ...]:
    frozen = league.players[player].models
    return frozen[max(0, len(frozen) - models) :]
