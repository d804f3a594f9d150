"""Convergence of players, and the age of their weights."""

from __future__ import annotations

from collections.abc import Sequence

from ludus.matchmaker import LeagueView, PlayerView

from ludus_matchmakers.tools import other_teams, pool_opponents, win_rates


def win_rate_if_all_beaten(
    league: LeagueView, player: str, opponents: Sequence[str], *, rate: float, enough_matches: float
) -> float | None:
    """Return the lowest recent win rate of a player's live weights if they beat all opponents, else None.

    Args:
        league: The league.
        player: The player.
        opponents: Participants to beat; if there are none, the result is None.
        rate: Win rate that is required against each.
        enough_matches: Recent matches that are required against each.
    """
    counts = league.recent(player, [name for name in opponents if name != league.players[player].live])
    if not len(counts) or counts.sum(axis=1).min() < enough_matches:
        return None
    least = float(win_rates(counts, prior_matches=0.0).min())
    return least if least >= rate else None


def last_frozen_s(league: LeagueView, view: PlayerView) -> float:
    """Return the time at which a player's newest model was frozen, in seconds of training; 0 without a model."""
    return league.frozen_s(view.models[-1]) if view.models else 0.0


def generation_started_s(league: LeagueView, view: PlayerView) -> float:
    """Return the time at which a player's present generation began, in seconds of training."""
    return league.frozen_s(f"{view.name}@{view.generation_starts[-1]}") if view.generation else 0.0


def pool_models(league: LeagueView, player: str, pools: Sequence[str]) -> tuple[str, ...]:
    """Return the members of pools that a player can play against in any of the other teams."""
    teams = dict.fromkeys(other_teams(league, player))
    return tuple(dict.fromkeys(m for team in teams for m in pool_opponents(league, player, team, pools=pools)))
