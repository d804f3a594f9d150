"""When weights count as good enough, and how old they are."""

from __future__ import annotations

from collections.abc import Sequence

from ludus.matchmaker import LeagueView, PlayerView

from ludus_matchmakers.tools import other_teams, pool_opponents, win_rates

__all__ = ["beats", "generation_s", "last_frozen_s", "met"]


def beats(league: LeagueView, player: str, opponents: Sequence[str], *, rate: float, enough: float) -> float | None:
    """Return the least win rate of late of a player's live weights if they beat all opponents, else None.

    Args:
        league: The league.
        player: The player.
        opponents: Whom it must beat; without any it has beaten nobody.
        rate: Win rate, draws counting half, that is needed against each.
        enough: Matches, of late, that are needed against each.
    """
    counts = league.recent(player, [name for name in opponents if name != league.players[player].live])
    if not len(counts) or counts.sum(axis=1).min() < enough:
        return None
    least = float(win_rates(counts, prior_matches=0.0).min())
    return least if least >= rate else None


def last_frozen_s(league: LeagueView, view: PlayerView) -> float:
    """Return when the newest model of a player was frozen, in seconds of training; 0 where there is none."""
    return league.frozen_s(view.models[-1]) if view.models else 0.0


def generation_s(league: LeagueView, view: PlayerView) -> float:
    """Return when the present generation of a player began, in seconds of training."""
    return league.frozen_s(view.models[view.generation_starts[-1] - 1]) if view.generation else 0.0


def met(league: LeagueView, player: str, pools: Sequence[str]) -> tuple[str, ...]:
    """Return the models of pools that a player can meet in any of the other teams."""
    teams = dict.fromkeys(other_teams(league, player))
    return tuple(dict.fromkeys(m for team in teams for m in pool_opponents(league, player, team, pools=pools)))
