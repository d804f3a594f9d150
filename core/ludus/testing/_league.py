"""Check matchmakers, rules and ratings on `FakeLeague`, a league of plain data."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import TypeAlias

import attrs
import numpy as np
from attrs import field, frozen

from ludus._league.participants import inherited_weights
from ludus._league.validation import (
    checked_changes,
    checked_evaluation,
    checked_pairing,
    checked_pool_changes,
    checked_rating,
)
from ludus.environment import Seat
from ludus.matchmaker import LeagueView, Matchmaker, PlayerView, Rating, RatingTable, Statistic
from ludus.records import Fixture, MatchRecord
from ludus.rule import Change, Freeze, PoolChange, Reset, Rule
from ludus.testing._errors import require, wrap_errors

_NAMES = ("weak", "even", "strong")
_SEATS = (Seat("player", 0, 0), Seat("player", 1, 1))
_FIXTURES = 30
_MATCHES = 20  # of each fixture, of which the first participant wins 15


def fake_player(name: str, models: int = 3, *, role: str = "player", team: int | None = None) -> PlayerView:
    """Return a player with models ``name@1`` … ``name@models`` and the live participant after them."""
    frozen_models = tuple(f"{name}@{number}" for number in range(1, models + 1))
    return PlayerView(
        name=name,
        role=role,
        team=team,
        live=f"{name}@{models}+",
        models=frozen_models,
        decisions=1000 * models,
        frozen_decisions=1000 * models,
    )


def _by_name(players: Iterable[PlayerView] | Mapping[str, PlayerView]) -> dict[str, PlayerView]:
    return {view.name: view for view in (players.values() if isinstance(players, Mapping) else players)}


_Results: TypeAlias = "Mapping[tuple[str, str], tuple[float, float, float]]"


@frozen(kw_only=True)
class FakeLeague:
    """A `LeagueView` of plain data, to test matchmakers without matches.

    Args:
        players: Player views (see `fake_player`), plain or by name.
        anchors: Names of anchors.
        results: Wins, draws and losses by pair; the reverse pair has the reverse result. Live participants inherit
            results as in `LeagueView.payoff`.
        evaluations: The same of evaluation matches only.
        pools: Models by pool, oldest first; the pool of a player has all of its models unless it is given.
        anchor_teams: Team of each anchor that cannot play in any team.
        ratings: Rating by participant; default: (0, 1) with 0 matches.
        behaviour: Statistics by participant, by ``"ROLE/NAME"``; default: none.
        num_teams: Teams of a match.
        elapsed_s: Seconds of training.
        progress: Share of the training budget that is used, in [0, 1].
        frozen: Time at which models were frozen, in seconds of training; default: 0.
        freeze_reasons: Why rules requested models; default: "requested".
    """

    players: Mapping[str, PlayerView] = field(converter=_by_name)
    anchors: tuple[str, ...] = ()
    results: Mapping[tuple[str, str], tuple[float, float, float]] = field(factory=dict)
    evaluations: Mapping[tuple[str, str], tuple[float, float, float]] = field(factory=dict)
    pools: Mapping[str, tuple[str, ...]] = field(factory=dict)
    anchor_teams: Mapping[str, int] = field(factory=dict)
    ratings: Mapping[str, Rating] = field(factory=dict)
    behaviour: Mapping[str, Mapping[str, Statistic]] = field(factory=dict)
    num_teams: int = 2
    elapsed_s: float = 0.0
    progress: float = 0.0
    frozen: Mapping[str, float] = field(factory=dict)
    freeze_reasons: Mapping[str, str] = field(factory=dict)

    @property
    def rated_anchors(self) -> tuple[str, ...]:
        """Return ``role=anchor`` for the role of every player with a fixed team, or the anchors where there is none."""
        sides = dict.fromkeys(view.role for view in self.players.values() if view.team is not None)
        names = (f"{side}={anchor}" for anchor in self.anchors for side in sides)
        plain = [anchor for anchor in self.anchors if not sides or anchor in self.anchor_teams]
        return (*plain, *(name for name in names if name.rpartition("=")[2] not in self.anchor_teams))

    def frozen_s(self, model: str) -> float:
        """Return the time at which a model was frozen, in seconds of training."""
        return self.frozen.get(model, 0.0)

    def freeze_reason(self, model: str) -> str:
        """Return why a rule requested a model."""
        return self.freeze_reasons.get(model, "requested")

    def pool(self, name: str) -> tuple[str, ...]:
        """Return the models of a pool, oldest first."""
        if name in self.pools:
            return self.pools[name]
        return self.players[name].models if name in self.players else ()

    def payoff(self, participant: str, opponents: Sequence[str], *, evaluated: bool = False) -> np.ndarray:
        """Return ``[n, 3] float64``: wins, draws and losses, with the inherited results of live participants."""
        results = self.evaluations if evaluated else self.results
        return np.array([self._payoff(participant, opponent, results) for opponent in opponents]).reshape(-1, 3)

    def recent(self, player: str, opponents: Sequence[str]) -> np.ndarray:
        """Return the results of the live participant without inherited ones."""
        live = self.players[player].live
        return np.array([_counts(self.results, live, opponent) for opponent in opponents], np.float64).reshape(-1, 3)

    def _payoff(self, one: str, other: str, results: _Results) -> np.ndarray:
        total = np.zeros(3)
        if one != other:
            for (a, x), (b, y) in product(inherited_weights(one, self.players), inherited_weights(other, self.players)):
                total += x * y * np.array(_counts(results, a, b))
        return total

    def rating(self, participant: str) -> Rating:
        """Return the rating of a participant, or the default."""
        return self.ratings.get(participant, Rating(0.0, 1.0, 0))

    def statistics(self, participant: str) -> Mapping[str, Statistic]:
        """Return the statistics of a participant."""
        return self.behaviour.get(participant, {})

    def team(self, participant: str) -> int | None:
        """Return the team of a model or an anchor; None if it can play in any team."""
        name, at, _ = participant.partition("@")
        if at:
            return self.players[name].team
        side, _, anchor = participant.rpartition("=")
        teams = {view.role: view.team for view in self.players.values()}
        return teams.get(side, self.anchor_teams.get(anchor))


def _counts(results: _Results, one: str, other: str) -> tuple[float, float, float]:
    for a, b in ((one, other), (one.rpartition("=")[2], other.rpartition("=")[2])):  # results of all sides, too
        if (a, b) in results:
            return results[a, b]
        if (b, a) in results:
            wins, draws, losses = results[b, a]
            return losses, draws, wins
    return 0.0, 0.0, 0.0


def fake_leagues() -> dict[str, FakeLeague]:
    """Return leagues that every matchmaker must support, by description."""
    main, exploiter = fake_player("main-agent"), fake_player("exploiter", 1)
    wins = {("main-agent@3+", model): (10.0, 0.0, 0.0) for model in main.models}
    many = fake_player("main-agent", 500)
    cat, mouse = fake_player("cat", 4, role="cat", team=0), fake_player("mouse", 2, role="mouse", team=1)
    return {
        "nothing frozen": FakeLeague(players=[fake_player("main-agent", 0)]),
        "one model": FakeLeague(players=[fake_player("main-agent", 1)], anchors=("random",)),
        "all win rates 1": FakeLeague(players=[main], results=wins),
        "all win rates 0": FakeLeague(players=[main], results=dict.fromkeys(wins, (0.0, 0.0, 10.0))),
        "draws only": FakeLeague(players=[main], results=dict.fromkeys(wins, (0.0, 10.0, 0.0))),
        "two players": FakeLeague(players=[main, exploiter], anchors=("random", "scripted")),
        "500 models": FakeLeague(
            players=[many],
            anchors=("random",),
            results={(many.live, model): (float(i), 5.0, 250.0) for i, model in enumerate(many.models)},
        ),
        "two sides": FakeLeague(players=[cat, mouse], anchors=("random", "cat-bot"), anchor_teams={"cat-bot": 0}),
        "two sides, nothing frozen": FakeLeague(
            players=[fake_player("cat", 0, role="cat", team=0), fake_player("mouse", 0, role="mouse", team=1)]
        ),
        "one side learns": FakeLeague(players=[cat], anchors=("mouse-bot",), anchor_teams={"mouse-bot": 1}),
        "four teams": FakeLeague(players=[main, exploiter], anchors=("random",), num_teams=4),
    }


def check_matchmaker(
    matchmaker: Matchmaker, *, leagues: Mapping[str, FakeLeague] | None = None, questions: int = 20, seed: int = 0
) -> None:
    """Check that a matchmaker keeps its contract.

    Args:
        matchmaker: Matchmaker with its configuration.
        leagues: Leagues by description; None: `fake_leagues`. Pass your own if the configuration names players.
        questions: Number of calls in each league, with different generators.
        seed: Seed of the generators.

    Raises:
        ContractError: The matchmaker breaks its contract; the message names the league, and the player of a fixture.
    """

    def check_league(league: FakeLeague) -> None:
        for question in range(questions):
            for player in league.players:
                with wrap_errors(f"player {player!r}"):
                    _check_fixture(matchmaker, league, player, (seed, question))
            _check_evaluation(matchmaker, league, (seed, question))
        for player in league.players:
            _check_pool_changes(matchmaker, league, player)

    check_leagues(leagues, check_league)


def check_leagues(leagues: Mapping[str, FakeLeague] | None, check_league: Callable[[FakeLeague], None]) -> None:
    """Run a check on every league, and check that it does not modify the league.

    Args:
        leagues: Leagues by description; None: `fake_leagues`.
        check_league: Function that raises a ContractError.

    Raises:
        ContractError: The check failed, or modified a league; the message names the league.
    """
    for description, league in (fake_leagues() if leagues is None else leagues).items():
        before = copy.deepcopy(league)
        with wrap_errors(f"league {description!r}"):
            check_league(league)
            require(league == before, "the league was modified; it may only be read")


def opponent_shares(
    matchmaker: Matchmaker, league: LeagueView, player: str, *, questions: int = 2000, seed: int = 0
) -> dict[str, float]:
    """Return the share of fixtures in which each participant is the first opponent; shares sum to 1.

    Args:
        matchmaker: Matchmaker with its configuration.
        league: League to draw fixtures for.
        player: Player whose opponents are counted.
        questions: Number of fixtures.
        seed: Seed of the generator.
    """
    rng = np.random.default_rng(seed)
    counts = Counter(matchmaker.next_fixture(league, player, rng).opponents[0] for _ in range(questions))
    return {opponent: count / questions for opponent, count in counts.items()}


def _check_fixture(matchmaker: Matchmaker, league: FakeLeague, player: str, seed: tuple[int, int]) -> None:
    pairing, again = (
        checked_pairing(matchmaker.next_fixture(league, player, np.random.default_rng(seed)), league) for _ in range(2)
    )
    require(
        pairing == again,
        f"next_fixture returned {pairing} and then {again} for the same league and generator state; take all "
        f"randomness from `rng` and keep no state",
    )
    own = league.players[player].team
    if own is not None:
        others = [team for team in range(league.num_teams) if team != own]
        for opponent, team in zip(pairing.opponents, others, strict=True):
            _check_team(opponent, league, team)
    require(pairing.reason, "next_fixture returned no reason; give one in a few words")


def _check_team(participant: str, league: FakeLeague, team: int) -> None:
    own = league.team(participant)
    require(own in (team, None), f"{participant!r} cannot play in team {team}: it can play in team {own} only")


def _check_evaluation(matchmaker: Matchmaker, league: FakeLeague, seed: tuple[int, int]) -> None:
    pairing, again = (
        checked_evaluation(matchmaker.next_evaluation(league, np.random.default_rng(seed)), league) for _ in range(2)
    )
    problem = f"next_evaluation returned {pairing} and then {again} for the same league and generator state"
    require(pairing == again, problem)
    for team, participant in enumerate(pairing or ()):
        _check_team(participant, league, team)


def _check_pool_changes(matchmaker: Matchmaker, league: FakeLeague, player: str) -> None:
    """Check the changes after the next model of a player: they can be applied, and are repeated by a second call."""
    view = league.players[player]
    model = f"{player}@{len(view.models) + 1}"
    grown = attrs.evolve(view, models=(*view.models, model), live=f"{model}+")
    pools = {name: league.pool(name) for name in (*league.players, *league.pools)}
    after = attrs.evolve(league, players={**league.players, player: grown}, pools=pools)
    changes, again = (checked_pool_changes(matchmaker.on_model_frozen(after, player, model), after) for _ in range(2))
    require(changes == again, f"on_model_frozen returned {changes} and then {again} for {model!r}; keep no state")
    members = {name: list(models) for name, models in pools.items()}
    for change in changes:
        pool = members.setdefault(change.pool, [])
        problem = f"{change} changes nothing: the model is {'already' if change.enters else 'not'} in the pool"
        require(change.enters != (change.model in pool), problem)
        (pool.append if change.enters else pool.remove)(change.model)


def check_rule(
    rule: Rule, *, leagues: Mapping[str, FakeLeague] | None = None, questions: int = 20, seed: int = 0
) -> None:
    """Check that a rule keeps its contract.

    Args:
        rule: Rule with its configuration.
        leagues: Leagues by description; None: `fake_leagues`. Pass your own if the configuration names players.
        questions: Number of calls in each league, with different generators.
        seed: Seed of the generators.

    Raises:
        ContractError: The rule breaks its contract; the message names the league.
    """

    def check_league(league: FakeLeague) -> None:
        for question in range(questions):
            first, second = (_changes(rule, league, np.random.default_rng((seed, question))) for _ in range(2))
            problem = "decide returned different changes for the same league and generator state; keep no state"
            require(first == second, problem)

    check_leagues(leagues, check_league)


def _changes(rule: Rule, league: FakeLeague, rng: np.random.Generator) -> list[Change]:
    changes = checked_changes(rule.decide(league, rng), league)
    for change in changes:
        if isinstance(change, PoolChange):
            require(change.enters != (change.model in league.pool(change.pool)), f"{change} changes nothing")
        if isinstance(change, Freeze | Reset):
            require(change.reason, f"{change} has no reason; give one in a few words")
    return changes


def check_rating(make: Callable[..., RatingTable]) -> None:
    """Check that a method rates three participants by their results.

    Args:
        make: Makes the rating table, as ``make(anchors=…, seats=…, sides=…)``.

    Raises:
        ContractError: Ratings are not finite, do not follow the results, or depend on the order of the results.
    """
    matches = [_match(fixture, number) for fixture in range(_FIXTURES) for number in range(_MATCHES)]
    in_order = _rate(make, matches, replays=[0], added=matches)
    reverse = _rate(make, matches, replays=[_FIXTURES // 2, 0], added=matches[::-1])
    require(in_order == reverse, f"ratings depend on the order of the results: {in_order}, {reverse}")
    weak, even, strong, _ = in_order
    ordered = weak.mean < even.mean < strong.mean
    counts = [rating.matches for rating in in_order]
    require(
        ordered and counts == [400, 400, 400, 0],
        f"expected weak < even < strong after 400 matches each, got {in_order}",
    )


def _rate(
    make: Callable[..., RatingTable],
    matches: Sequence[MatchRecord],
    *,
    replays: Sequence[int],
    added: Sequence[MatchRecord],
) -> list[Rating]:
    """Return the checked ratings of all participants and of an unknown one.

    Args:
        make: Makes the rating table.
        matches: All matches of the log.
        replays: First fixtures of the replays.
        added: Matches whose results are added, in order.
    """
    table = make(anchors=("even",), seats=_SEATS, sides={})
    for first in replays:
        table.replay(first, (match for match in matches if match.fixture.id >= first))
    for match in added:
        (a, b), (won, lost) = match.fixture.participants, match.outcome
        table.add(a, b, np.array([won, 0, lost], np.int64))
        table.add(b, a, np.array([lost, 0, won], np.int64))
    return [checked_rating(table.rating(name)) for name in (*_NAMES, "new")]


def _match(fixture: int, number: int) -> MatchRecord:
    """Return a match in which the better participant wins three of four times."""
    won = number < 15
    pair = (_NAMES[(2, 1, 2)[fixture % 3]], _NAMES[(1, 0, 0)[fixture % 3]])
    plan = Fixture(id=fixture, kind="eval", player="", participants=pair, seed=1, matches=_MATCHES, reason="check")
    return MatchRecord(fixture=plan, number=number, seed=1, outcome=(float(won), float(not won)), ticks=1)
