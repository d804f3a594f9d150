"""Pure functions to build matchmakers from.

All of them count a draw as half a win. In an asymmetric game they return opponents that can fill the other team.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, combinations, islice, pairwise, product

import numpy as np
from ludus.errors import ConfigError
from ludus.matchmaker import LeagueView, Pairing, PlayerView, PoolChange

_log = logging.getLogger(__name__)

_MAX_SKIPPED = 64  # recent models per player that are rated once, if newer ones came before their first match
_MAX_FILLERS = 32  # older models per player that may complete a rating match of more than two teams


# -- opponents --------------------------------------------------------------------------------------------------


def other_teams(league: LeagueView, player: str) -> tuple[int | None, ...]:
    """Return the teams that need opponents of `player`, in team order; None stands for any team."""
    own = league.players[player].team
    if own is None:
        return (None,) * (league.num_teams - 1)
    return tuple(team for team in range(league.num_teams) if team != own)


def pair_every_team(league: LeagueView, player: str, choose: Callable[[int | None], tuple[str, str]]) -> Pairing:
    """Return the pairing of `player` with the opponents and reasons that `choose` returns for `other_teams`."""
    chosen = [choose(team) for team in other_teams(league, player)]
    reasons = dict.fromkeys(reason for _, reason in chosen)
    return Pairing(opponents=tuple(opponent for opponent, _ in chosen), reason="; ".join(reasons))


def check_players(league: LeagueView, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names as a tuple if all of them are players.

    Raises:
        ConfigError: A name is not a player.
    """
    unknown = [name for name in names if name not in league.players]
    if unknown:
        raise ConfigError(f"there is no player {unknown[0]!r}; players are {', '.join(league.players)}")
    return tuple(names)


def players_on_team(league: LeagueView, names: Sequence[str], team: int | None) -> tuple[str, ...]:
    """Return the named players that can play `team`, one of `other_teams`.

    Raises:
        ConfigError: There is no such player.
    """
    return tuple(name for name in check_players(league, names) if _fits(league, league.players[name].live, team))


def opponent_players(
    league: LeagueView, player: str, team: int | None, *, against: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the players that `player` may meet in `team`.

    Args:
        league: The league.
        player: Player that needs an opponent.
        team: One of `other_teams`.
        against: Players to choose from. Empty: the player itself where it may take any team, otherwise all players
            of `team`.

    Raises:
        ConfigError: There is no such player.
    """
    if team is None and not against:
        return (player,)
    return players_on_team(league, against or tuple(league.players), team)


def live_opponents(
    league: LeagueView, player: str, team: int | None, *, against: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the live participants of `opponent_players`."""
    return tuple(league.players[name].live for name in opponent_players(league, player, team, against=against))


def pool_opponents(league: LeagueView, player: str, team: int | None, *, pools: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the members of pools that `player` may meet in `team`, without duplicates.

    Args:
        league: The league.
        player: Player that needs an opponent.
        team: One of `other_teams`.
        pools: Names of pools. ``own`` is the player's own pool where it may take any team, otherwise the pools of all
            players of `team` (a player's models enter the pool of its name). ``*`` stands for the pools of all players,
            ``own/long`` and ``*/long`` for such pools with that suffix, ``anchors`` for all anchors. Empty: ``own``.
            A warning is logged once for an empty pool of another name.
    """
    lists = [members for pool in pools or ("own",) for members in _members(league, player, team, pool)]
    models = lists[0] if len(lists) == 1 else tuple(dict.fromkeys(chain.from_iterable(lists)))
    return models if team is None else tuple(model for model in models if _fits(league, model, team))


def _members(league: LeagueView, player: str, team: int | None, pool: str) -> Iterator[tuple[str, ...]]:
    """Yield the members of the pools that one name stands for."""
    first, slash, rest = pool.partition("/")
    players = {"own": opponent_players(league, player, team), "*": league.players}.get(first)
    if pool == "anchors":
        yield league.anchors
    elif players is None:
        members = league.pool(pool)
        if not members and first not in league.players:
            _warn_of_empty(pool, tuple(league.players))
        yield members
    else:
        yield from (league.pool(f"{name}{slash}{rest}") for name in players)


@cache  # log once per pool: matchmakers call this for every fixture
def _warn_of_empty(pool: str, players: tuple[str, ...]) -> None:
    _log.warning(
        "the pool %r is empty and not named after a player (there are %s); check its name, unless a rule or "
        "`ludus league promote` will fill it",
        pool,
        ", ".join(players),
    )


def newest(league: LeagueView, participants: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the newest models and all anchors among participants.

    Args:
        league: The league.
        participants: Anchors and frozen models, in any order.
        count: Number of models, at least 1; anchors do not count.
    """
    anchors = [name for name in participants if name in league.anchors]
    models = sorted((name for name in participants if name not in league.anchors), key=league.frozen_s)
    return (*anchors, *models[-count:])


def anchor_opponents(league: LeagueView, team: int | None, *, against: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the anchors that can play `team`.

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


def fallback_opponents(league: LeagueView, player: str, team: int | None) -> tuple[str, ...]:
    """Return the opponents of `player` in `team` when its matchmaker has none: live participants, else anchors.

    Raises:
        ConfigError: No participant plays the team.
    """
    opponents = live_opponents(league, player, team) or anchor_opponents(league, team)
    if not opponents:
        raise ConfigError(
            f"no participant plays team {team} against {player!r}: add a player of its role, or an anchor"
        )
    return opponents


def choose_uniformly(participants: Sequence[str], rng: np.random.Generator) -> str:
    """Return one of the participants, all equally likely."""
    return participants[int(rng.integers(len(participants)))]


def _fits(league: LeagueView, participant: str, team: int | None) -> bool:
    return team is None or league.team(participant) in (team, None)


def win_rates(counts: np.ndarray, *, prior_matches: float = 2.0) -> np.ndarray:
    """Return the expected win rates behind counts of wins, draws and losses; a draw is half a win.

    The prior is a Beta distribution with mean ½ and the weight of `prior_matches` matches:
    (wins + ½ draws + ½ prior) / (matches + prior). So the win rate against an unknown opponent is ½.

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


def win_rate_counts(league: LeagueView, player: str, opponents: Sequence[str], *, results: str) -> np.ndarray:
    """Return ``[n, 3] float64``: the counts that a player's win rates against opponents come from.

    Args:
        league: The league.
        player: The player.
        opponents: Its opponents.
        results: ``"evaluation"``: those of `evaluation_counts`; opponents without any have the counts of all matches.
            ``"training"``: all matches.
    """
    view = league.players[player]
    counts = league.payoff(view.live, opponents)
    if results == "evaluation":
        evaluated = evaluation_counts(league, view, opponents)
        counts = np.where(evaluated.sum(axis=1, keepdims=True) > 0, evaluated, counts)
    return counts


def evaluation_counts(league: LeagueView, view: PlayerView, opponents: Sequence[str]) -> np.ndarray:
    """Return ``[n, 3] float64``: the counts of the evaluation matches of a player's frozen models against opponents.

    Matches of a model count half as much as those of the next one. Against models of the player itself only matches of
    the newest model count: earlier ones have lost to their successors, which are in the pool.

    Args:
        league: The league.
        view: The player.
        opponents: Its opponents.
    """
    counts = np.array(league.payoff(view.live, opponents, evaluated=True))
    predecessors = set(view.models)
    own = [index for index, name in enumerate(opponents) if name in predecessors]
    if own:
        counts[own] = league.payoff(view.models[-1], [opponents[index] for index in own], evaluated=True)
    return counts


# -- pools ---------------------------------------------------------------------------------------------------------


def enter_pool(league: LeagueView, pool: str, model: str, *, capacity: int) -> list[PoolChange]:
    """Return the changes by which `model` enters a first-in-first-out pool: the oldest leave beyond `capacity`."""
    members = league.pool(pool)
    if model in members:
        return []
    leaving = members[: max(0, len(members) + 1 - capacity)]
    changes = [PoolChange(pool=pool, model=oldest, enters=False) for oldest in leaving]
    return [*changes, PoolChange(pool=pool, model=model, enters=True)]


def enter_long_pool(
    league: LeagueView, player: str, model: str, *, every_s: float = 0.0, every_models: int = 0
) -> list[PoolChange]:
    """Return the change by which `model` enters the permanent pool ``PLAYER/long``, if it is due.

    Args:
        league: The league.
        player: Player of the model.
        model: The model, just frozen.
        every_s: Seconds of training between two models that enter; 0: no limit by time.
        every_models: Models between two models that enter; 0: no limit by models.
    """
    pool = f"{player}/long"
    members = league.pool(pool)
    if model in members:
        return []
    own = (member for member in reversed(members) if member.startswith(f"{player}@"))  # a user may have added others
    newest = next(own, "")
    number, last = (int(name.rpartition("@")[2]) for name in (model, newest or "@0"))
    last_s = league.frozen_s(newest) if newest else 0.0
    is_due_by_time = every_s > 0 and league.frozen_s(model) - last_s >= every_s
    is_due_by_models = every_models > 0 and number - last >= every_models  # retired models count too
    return [PoolChange(pool=pool, model=model, enters=True)] if is_due_by_time or is_due_by_models else []


# -- rating matches --------------------------------------------------------------------------------------------------


def least_certain_pair(
    league: LeagueView,
    rng: np.random.Generator,
    *,
    enough_matches: int = 100,
    recent_models: int = 5,
    pool_matches: int = 0,
    pool_budget: int = 0,
) -> tuple[str, ...] | None:
    """Return the participants with the fewest matches between them, one per team; None if all pairs have enough.

    First the newest frozen model of every player is paired with every anchor, and anchors with each other; where sides
    differ, an anchor meets itself on another side, which measures the advantage of the side. Then the newest models are
    paired with their own recent predecessors and the newest models of other players (in an asymmetric game: the recent
    models of the other teams). Once each of these pairs has a match, models that were never rated, because a newer one
    came first, have one, too. Last, the newest models are paired with all models of the opposing pools [AET §3.3].
    `rng` breaks ties between pairs with equally few matches.

    Args:
        league: The league.
        rng: Breaks ties.
        enough_matches: Matches after which a pair needs no more.
        recent_models: Number of recent models that are paired.
        pool_matches: Evaluation matches that a player needs against each model of the opposing pool; those of its
            earlier models count half per newer model.
        pool_budget: Evaluation matches of a new model against the opposing pool, at most.
    """
    anchors, models = list(_anchor_pairs(league)), list(_model_pairs(league, recent_models))
    once = ((anchors, 1), (models, 1), (_skipped_pairs(league), 1))
    for group, enough in (*once, (anchors, enough_matches), (models, enough_matches)):
        pairs = [pair for pair in group if seat_pair(league, *pair) is not None]
        matches = _matches(league, pairs)
        if matches.size and matches.min() < enough:
            fewest = np.flatnonzero(matches == matches.min())
            return seat_pair(league, *pairs[int(rng.choice(fewest))])
    pairs = [pair for view in league.players.values() for pair in _pool_pairs(league, view, pool_matches, pool_budget)]
    return seat_pair(league, *pairs[int(rng.integers(len(pairs)))]) if pairs else None


def seat_pair(league: LeagueView, first: str, second: str) -> tuple[str, ...] | None:
    """Return the participants of a match between two participants, one per team; None if there is no such match.

    An anchor may be named with its side, as in `LeagueView.rated_anchors`. Further teams are filled by other frozen
    models and anchors, so that each participant has one team: the newest model of every player, anchors, then older
    models. Where there are too few, the two fill further teams alternately.
    """
    teams = range(league.num_teams)
    for mine in teams:
        for theirs in teams:
            if mine != theirs and _fits(league, first, mine) and _fits(league, second, theirs):
                return _filled(league, {mine: first, theirs: second})
    return None


def _filled(league: LeagueView, seats: dict[int, str]) -> tuple[str, ...] | None:
    pair = tuple(seats.values())
    for turn, team in enumerate(team for team in range(league.num_teams) if team not in seats):
        others = (name for name in _fillers(league) if name not in seats.values())
        repeated = (pair[turn % 2], pair[1 - turn % 2], *_fillers(league))
        fitting = next((name for name in chain(others, repeated) if _fits(league, name, team)), None)
        if fitting is None:
            return None
        seats = {**seats, team: fitting}
    return tuple(seats[team].rpartition("=")[2] for team in range(league.num_teams))


def _fillers(league: LeagueView) -> Iterator[str]:
    """Yield the rated participants that may complete a match; live weights are not rated."""
    models = [view.models[::-1] for view in league.players.values()]
    yield from (newest for newest, *_ in filter(None, models))
    yield from league.rated_anchors
    yield from (older for _, *rest in filter(None, models) for older in rest[:_MAX_FILLERS])


def _anchor_pairs(league: LeagueView) -> Iterator[tuple[str, str]]:
    for view in league.players.values():
        yield from product(view.models[-1:], league.rated_anchors)
    yield from combinations(league.rated_anchors, 2)


def _pool_pairs(league: LeagueView, view: PlayerView, pool_matches: int, budget: int) -> list[tuple[str, str]]:
    """Return the newest model of a player with the models of the opposing pool that it has met least."""
    if not (view.models and pool_matches and budget):
        return []
    newest, teams = view.models[-1], dict.fromkeys(other_teams(league, view.name))
    models = [name for team in teams for name in pool_opponents(league, view.name, team) if name != newest]
    if not models or league.payoff(newest, models, evaluated=True).sum() >= budget:
        return []
    matches = evaluation_counts(league, view, models).sum(axis=1)
    fewest = np.flatnonzero((matches == matches.min()) & (matches < pool_matches))
    return [(newest, models[i]) for i in fewest]


def _skipped_pairs(league: LeagueView) -> Iterator[tuple[str, str]]:
    """Yield one pair for each recent model that was never rated, because a newer one came first."""
    newest = [view.models[-1] for view in league.players.values() if view.models]
    for view in league.players.values():
        recent = view.models[-_MAX_SKIPPED:]
        for older, newer in pairwise(recent):
            if not league.payoff(older, (*league.rated_anchors, *recent, *newest)).any():
                opponents = (*league.rated_anchors, newer, *newest)
                pairs = ((older, other) for other in opponents if seat_pair(league, older, other) is not None)
                yield from islice(pairs, 1)


def _model_pairs(league: LeagueView, recent_models: int) -> Iterator[tuple[str, str]]:
    views = list(league.players.values())
    for view in views:
        yield from product(view.models[-1:], view.models[-1 - recent_models : -1])
    for view, other in combinations(views, 2):
        depth = 1 if view.team is None or other.team is None else recent_models
        yield from product(view.models[-1:], other.models[-depth:])
        yield from product(other.models[-1:], view.models[-depth:-1])


def _matches(league: LeagueView, pairs: Iterable[tuple[str, str]]) -> np.ndarray:
    """Return ``[n]``: matches played between each pair."""
    return np.array([float(league.payoff(first, [second]).sum()) for first, second in pairs])
