"""Small pure functions of which matchmakers are made.

Two rules hold for all of them: a draw counts as half a win, and in an asymmetric game only those may be opponents who
can fill the other team.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, combinations, product

import numpy as np
from ludus.errors import ConfigError
from ludus.matchmaker import LeagueView, Pairing, PoolChange

__all__ = [
    "anchor_opponents",
    "any_of",
    "counterparts",
    "enter_pool",
    "for_every_team",
    "keep_longer",
    "known_players",
    "least_certain_pair",
    "live_opponents",
    "newest",
    "other_teams",
    "players_of",
    "pool_opponents",
    "seat_pair",
    "stand_ins",
    "win_rates",
]

_log = logging.getLogger(__name__)


# -- whom to meet --------------------------------------------------------------------------------------------------


def other_teams(league: LeagueView, player: str) -> tuple[int | None, ...]:
    """Return the teams that `player` needs opponents for, in team order; each is None where any team will do."""
    own = league.players[player].team
    if own is None:
        return (None,) * (league.num_teams - 1)
    return tuple(team for team in range(league.num_teams) if team != own)


def for_every_team(league: LeagueView, player: str, choose: Callable[[int | None], tuple[str, str]]) -> Pairing:
    """Return the pairing of `player` with whom `choose` gives, with a reason, for each of `other_teams`."""
    chosen = [choose(team) for team in other_teams(league, player)]
    reasons = dict.fromkeys(reason for _, reason in chosen)
    return Pairing(opponents=tuple(opponent for opponent, _ in chosen), reason="; ".join(reasons))


def known_players(league: LeagueView, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of players as they are.

    Raises:
        ConfigError: There is no such player.
    """
    unknown = [name for name in names if name not in league.players]
    if unknown:
        raise ConfigError(f"there is no player {unknown[0]!r}; players are {', '.join(league.players)}")
    return tuple(names)


def players_of(league: LeagueView, names: Sequence[str], team: int | None) -> tuple[str, ...]:
    """Return those of the named players who can play `team`, one of `other_teams`.

    Raises:
        ConfigError: There is no such player.
    """
    return tuple(name for name in known_players(league, names) if _fits(league, league.players[name].live, team))


def counterparts(league: LeagueView, player: str, team: int | None, *, against: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the players that `player` may meet in `team`.

    Args:
        league: The league.
        player: Who asks.
        team: One of `other_teams`.
        against: Players to choose from. Empty: the player itself where it may take any team, otherwise everybody who
            plays `team`.

    Raises:
        ConfigError: There is no such player.
    """
    if team is None and not against:
        return (player,)
    return players_of(league, against or tuple(league.players), team)


def live_opponents(
    league: LeagueView, player: str, team: int | None, *, against: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the live participants of `counterparts`."""
    return tuple(league.players[name].live for name in counterparts(league, player, team, against=against))


def pool_opponents(league: LeagueView, player: str, team: int | None, *, pools: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the members of pools that `player` may meet in `team`, without duplicates.

    Args:
        league: The league.
        player: Who asks.
        team: One of `other_teams`.
        pools: Pools to choose from, by name. ``own`` is the player's own where it may take any team, otherwise those of
            everybody who plays `team` (a player's models enter the pool of its name); ``*`` are those of all players;
            ``own/long`` and ``*/long`` are the pools of such names with that ending; ``anchors`` are all anchors.
            Empty: ``own``. Another name may be a pool that nobody has entered yet; a warning says so once.
    """
    lists = [members for pool in pools or ("own",) for members in _members(league, player, team, pool)]
    models = lists[0] if len(lists) == 1 else tuple(dict.fromkeys(chain.from_iterable(lists)))
    return models if team is None else tuple(model for model in models if _fits(league, model, team))


def _members(league: LeagueView, player: str, team: int | None, pool: str) -> Iterator[tuple[str, ...]]:
    """Return the members of the pools that one name stands for."""
    first, slash, rest = pool.partition("/")
    whose = {"own": counterparts(league, player, team), "*": league.players}.get(first)
    if pool == "anchors":
        yield league.anchors
    elif whose is None:
        members = league.pool(pool)
        if not members and first not in league.players:
            _warn_of_empty(pool, tuple(league.players))
        yield members
    else:
        yield from (league.pool(f"{name}{slash}{rest}") for name in whose)


@cache  # once per pool: matchmakers ask before every fixture
def _warn_of_empty(pool: str, players: tuple[str, ...]) -> None:
    _log.warning(
        "the pool %r is empty, and no player is called so (there are %s): a typo, unless `ludus league promote` or a "
        "rule is to fill it",
        pool,
        ", ".join(players),
    )


def newest(league: LeagueView, participants: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the models among participants of several pools that were frozen last, and all anchors among them.

    Args:
        league: The league.
        participants: Anchors and frozen models, in any order.
        count: How many models, at least 1; an anchor is none.
    """
    anchors = [name for name in participants if name in league.anchors]
    models = sorted((name for name in participants if name not in league.anchors), key=league.frozen_s)
    return (*anchors, *models[-count:])


def anchor_opponents(league: LeagueView, team: int | None, *, against: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the anchors that can be met in `team`.

    Args:
        league: The league.
        team: One of `other_teams`.
        against: Anchors to choose from; empty: all.

    Raises:
        ConfigError: There is no such anchor.
    """
    if unknown := [name for name in against if name not in league.anchors]:
        known = ", ".join(league.anchors) or "none"
        raise ConfigError(f"there is no anchor {unknown[0]!r}; anchors are {known}")
    return tuple(anchor for anchor in against or league.anchors if _fits(league, anchor, team))


def stand_ins(league: LeagueView, player: str, team: int | None) -> tuple[str, ...]:
    """Return whom `player` meets in `team` when its own choice is empty: live participants before anchors.

    Raises:
        ConfigError: Nobody plays the team.
    """
    somebody = live_opponents(league, player, team) or anchor_opponents(league, team)
    if not somebody:
        raise ConfigError(f"nobody plays team {team} against {player!r}: add a player of its role, or an anchor")
    return somebody


def any_of(participants: Sequence[str], rng: np.random.Generator) -> str:
    """Return one of the participants, all equally likely."""
    return participants[int(rng.integers(len(participants)))]


def _fits(league: LeagueView, participant: str, team: int | None) -> bool:
    return team is None or league.team(participant) in (team, None)


def win_rates(counts: np.ndarray, *, prior_matches: float = 2.0) -> np.ndarray:
    """Return the expected win rates behind counts of wins, draws and losses; a draw is half a win.

    The prior is a Beta distribution with mean ½ worth `prior_matches` matches, so an unknown opponent has ½ and
    few matches cannot prove certainty: (wins + ½ draws + ½ prior) / (matches + prior).

    Args:
        counts: ``[n, 3]`` wins, draws, losses, possibly weighted.
        prior_matches: Weight of the prior; with 0, opponents without a match still have ½.

    Returns:
        ``[n] float64`` in [0, 1].
    """
    counts = np.asarray(counts, np.float64).reshape(-1, 3)
    matches = counts.sum(axis=1) + prior_matches
    points = counts[:, 0] + 0.5 * counts[:, 1] + 0.5 * prior_matches
    unknown = np.full(len(counts), 0.5)
    return np.asarray(np.divide(points, matches, out=unknown, where=matches > 0))


# -- pools ---------------------------------------------------------------------------------------------------------


def enter_pool(league: LeagueView, pool: str, model: str, *, capacity: int) -> list[PoolChange]:
    """Return the changes by which `model` enters a first-in-first-out pool: the oldest leave beyond `capacity`."""
    members = league.pool(pool)
    if model in members:
        return []
    leaving = members[: max(0, len(members) + 1 - capacity)]
    changes = [PoolChange(pool=pool, model=oldest, enters=False) for oldest in leaving]
    return [*changes, PoolChange(pool=pool, model=model, enters=True)]


def keep_longer(
    league: LeagueView, player: str, model: str, *, every_s: float = 0.0, every_models: int = 0
) -> list[PoolChange]:
    """Return the change by which `model` enters the pool ``PLAYER/long``, which nobody leaves, if it is time.

    Args:
        league: The league.
        player: Whose model it is.
        model: The model, just frozen.
        every_s: Seconds of training since the player's model that entered last; 0: of no account.
        every_models: Models since then, this one included; 0: of no account.
    """
    pool, models = f"{player}/long", league.players[player].models
    members = league.pool(pool)
    if model in members or not (every_s or every_models):
        return []
    own = [member for member in members if member in models]  # a person may have put in those of others
    elapsed = league.frozen_s(model) - (league.frozen_s(own[-1]) if own else 0.0)
    older = len(models) - (1 + models.index(own[-1]) if own else 0)
    due = (every_s and elapsed >= every_s) or (every_models and older >= every_models)
    return [PoolChange(pool=pool, model=model, enters=True)] if due else []


# -- whom to rate --------------------------------------------------------------------------------------------------


def least_certain_pair(
    league: LeagueView, rng: np.random.Generator, *, enough: int = 100, recent: int = 5
) -> tuple[str, ...] | None:
    """Return the participants whose mutual results are known least, one per team; None when all are known enough.

    First the newest frozen model of every player meets every anchor, and anchors meet each other; then the newest
    models meet their own recent predecessors and the newest of other players (in an asymmetric game: the recent models
    of the other teams). Within each group the pair with the fewest matches comes first; `rng` breaks ties.

    Args:
        league: The league.
        rng: Breaks ties.
        enough: Matches after which a pair is known.
        recent: How many recent models count.
    """
    for group in (_anchor_pairs(league), _model_pairs(league, recent)):
        pairs = [pair for pair in group if seat_pair(league, *pair) is not None]
        matches = _matches(league, pairs)
        if matches.size and matches.min() < enough:
            fewest = np.flatnonzero(matches == matches.min())
            return seat_pair(league, *pairs[int(rng.choice(fewest))])
    return None


def seat_pair(league: LeagueView, first: str, second: str) -> tuple[str, ...] | None:
    """Return a full match between two participants, one per team; None if they cannot meet.

    Further teams are filled alternately by the two where they fit, otherwise by a frozen model or an anchor made for
    that team; where there is none of these yet the two cannot meet.
    """
    teams = range(league.num_teams)
    for mine in teams:
        for theirs in teams:
            if mine != theirs and _fits(league, first, mine) and _fits(league, second, theirs):
                return _filled(league, {mine: first, theirs: second})
    return None


def _filled(league: LeagueView, seats: dict[int, str]) -> tuple[str, ...] | None:
    pair = tuple(seats.values())
    newest = [view.models[-1] for view in league.players.values() if view.models]  # live weights are not rated
    empty = [team for team in range(league.num_teams) if team not in seats]
    for turn, team in enumerate(empty):
        candidates = (pair[turn % 2], pair[1 - turn % 2], *newest, *league.anchors)
        fitting = [name for name in candidates if _fits(league, name, team)]
        if not fitting:
            return None
        seats = {**seats, team: fitting[0]}
    return tuple(seats[team] for team in range(league.num_teams))


def _anchor_pairs(league: LeagueView) -> Iterator[tuple[str, str]]:
    for view in league.players.values():
        yield from product(view.models[-1:], league.anchors)
    yield from combinations(league.anchors, 2)


def _model_pairs(league: LeagueView, recent: int) -> Iterator[tuple[str, str]]:
    views = list(league.players.values())
    for view in views:
        yield from product(view.models[-1:], view.models[-1 - recent : -1])
    for view, other in combinations(views, 2):
        depth = 1 if view.team is None or other.team is None else recent
        yield from product(view.models[-1:], other.models[-depth:])
        yield from product(other.models[-1:], view.models[-depth:-1])


def _matches(league: LeagueView, pairs: Iterable[tuple[str, str]]) -> np.ndarray:
    """Return ``[n]``: matches played between each pair."""
    return np.array([float(league.payoff(first, [second]).sum()) for first, second in pairs])
