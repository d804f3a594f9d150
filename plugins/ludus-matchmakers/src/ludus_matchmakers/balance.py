"""Win rates between the sides of a league."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ludus.matchmaker import LeagueView

from ludus_matchmakers.tools import check_players, win_rates


def opposing_players(league: LeagueView, player: str) -> tuple[str, ...]:
    """Return the other players; in an asymmetric game only those of other teams.

    Raises:
        ConfigError: There is no such player.
    """
    check_players(league, [player])
    own = league.players[player].team
    return tuple(name for name, view in league.players.items() if name != player and (own is None or view.team != own))


def recent_win_rate(league: LeagueView, player: str, others: Sequence[str]) -> tuple[float, float]:
    """Return the recent win rate of live weights against other live weights, and the number of matches."""
    counts = league.recent(player, [league.players[name].live for name in others]).sum(axis=0)
    return float(win_rates(counts)[0]), float(counts.sum())


def evaluated_win_rate(league: LeagueView, player: str, others: Sequence[str]) -> tuple[float, float]:
    """Return the mean win rate of a player against the models of the pools of others, and the number of matches.

    Evaluation matches of its frozen models count, those of a model half as much as those of the next one [AET §3.3].
    The win rates against all models that were met have equal weight.
    """
    models = tuple(dict.fromkeys(model for other in others for model in league.pool(other)))
    counts = league.payoff(league.players[player].live, models, evaluated=True)
    met = counts[counts.sum(axis=1) > 0]
    return (float(win_rates(met).mean()), float(met.sum())) if len(met) else (0.5, 0.0)


def newest_win_rate(
    league: LeagueView, player: str, others: Sequence[str], *, models: int, since_s: float | None = None
) -> tuple[float, float]:
    """Return the win rate between live weights and newest models of a player and of others, and the number of matches.

    Every match counts once: all matches between two of the models, and recent matches of live weights.

    Args:
        league: The league.
        player: The player.
        others: The other players.
        models: Number of newest frozen models per player that count, besides the live weights.
        since_s: Instead of `models`: count the models that were frozen since, in seconds of training.
    """
    mine = _newest(league, player, models, since_s)
    counts = np.zeros(3)
    for other in others:
        theirs = _newest(league, other, models, since_s)
        counts += league.recent(player, [*theirs, league.players[other].live]).sum(axis=0)
        counts += league.recent(other, mine).sum(axis=0)[::-1]
        for model in mine:  # `payoff` of live weights would include these models
            counts += league.payoff(model, theirs).sum(axis=0)
    return float(win_rates(counts)[0]), float(counts.sum())


def _newest(league: LeagueView, player: str, models: int, since_s: float | None) -> tuple[str, ...]:
    frozen = league.players[player].models
    if since_s is not None:
        return tuple(model for model in frozen if league.frozen_s(model) >= since_s)
    return frozen[max(0, len(frozen) - models) :]
