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
    """Return the win rate of the newest models and live weights of a player against those of others, and of how many.

    Args:
        league: The league.
        player: The player.
        others: The others.
        models: Newest frozen models of everybody that count, besides the live weights.
    """
    met = [name for other in others for name in _newest(league, other, models)]
    counts = np.sum([league.payoff(name, met).sum(axis=0) for name in _newest(league, player, models)], axis=0)
    return float(win_rates(counts)[0]), float(counts.sum())


def _newest(league: LeagueView, player: str, models: int) -> tuple[str, ...]:
    view = league.players[player]
    return (*view.models[max(0, len(view.models) - models) :], view.live)
