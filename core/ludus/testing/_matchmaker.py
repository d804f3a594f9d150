"""`FakeLeague` and `check_matchmaker`: leagues made of plain data, and what every matchmaker must answer on them."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import attrs
import numpy as np
from attrs import field, frozen

from ludus._league.participants import inherited
from ludus._league.validation import checked_evaluation, checked_pairing, checked_pool_changes
from ludus.errors import ContractError
from ludus.matchmaker import LeagueView, Matchmaker, PlayerView, Rating
from ludus.testing._errors import wrap_errors

__all__ = ["FakeLeague", "check_matchmaker", "fake_leagues", "fake_player", "opponent_shares"]


def fake_player(name: str, models: int = 3, *, role: str = "player", team: int | None = None) -> PlayerView:
    """Return a player with models ``name@1`` … ``name@models`` and the live participant that follows them."""
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


@frozen(kw_only=True)
class FakeLeague:
    """A `LeagueView` made of plain data, for testing matchmakers without playing.

    Args:
        players: Views (see `fake_player`), plain or by name.
        anchors: Scripted participants.
        results: Wins, draws, losses of the first against the second; the reverse follows by itself. Live weights
            inherit those of their earlier weights, as `LeagueView.payoff` says.
        pools: Members by pool name, oldest first; a player's own pool holds all of its models unless given here.
        anchor_teams: Team of each anchor that cannot fill any.
        ratings: Ratings by participant; others have (0, 1) with 0 matches.
        num_teams: Teams of a match.
        elapsed_s: How long the run has trained.
        progress: Share of the training budget that is used, in [0, 1].
        frozen: When models were frozen, in seconds of training; others: 0.
    """

    players: Mapping[str, PlayerView] = field(converter=_by_name)
    anchors: tuple[str, ...] = ()
    results: Mapping[tuple[str, str], tuple[float, float, float]] = field(factory=dict)
    pools: Mapping[str, tuple[str, ...]] = field(factory=dict)
    anchor_teams: Mapping[str, int] = field(factory=dict)
    ratings: Mapping[str, Rating] = field(factory=dict)
    num_teams: int = 2
    elapsed_s: float = 0.0
    progress: float = 0.0
    frozen: Mapping[str, float] = field(factory=dict)

    def frozen_s(self, model: str) -> float:
        """Return when a model was frozen."""
        return self.frozen.get(model, 0.0)

    def pool(self, name: str) -> tuple[str, ...]:
        """Return the models of a pool, oldest first."""
        if name in self.pools:
            return self.pools[name]
        return self.players[name].models if name in self.players else ()

    def payoff(self, participant: str, opponents: Sequence[str]) -> np.ndarray:
        """Return ``[n, 3] float64``: wins, draws, losses of `participant`, earlier weights of live ones included."""
        return np.array([self._inherited(participant, opponent) for opponent in opponents]).reshape(-1, 3)

    def recent(self, player: str, opponents: Sequence[str]) -> np.ndarray:
        """Return the results of the live participant itself: nothing is old here."""
        live = self.players[player].live
        return np.array([self._counts(live, opponent) for opponent in opponents], np.float64).reshape(-1, 3)

    def _inherited(self, one: str, other: str) -> np.ndarray:
        total = np.zeros(3)
        if one != other:
            for (a, x), (b, y) in product(inherited(one, self.players), inherited(other, self.players)):
                total += x * y * np.array(self._counts(a, b))
        return total

    def _counts(self, one: str, other: str) -> tuple[float, float, float]:
        if (one, other) in self.results:
            return self.results[one, other]
        wins, draws, losses = self.results.get((other, one), (0.0, 0.0, 0.0))
        return losses, draws, wins

    def rating(self, participant: str) -> Rating:
        """Return the rating given, or the prior."""
        return self.ratings.get(participant, Rating(0.0, 1.0, 0))

    def team(self, participant: str) -> int | None:
        """Return the team of a player's model or of an anchor, None where it may take any."""
        name, at, _ = participant.partition("@")
        return self.players[name].team if at else self.anchor_teams.get(participant)


def fake_leagues() -> dict[str, FakeLeague]:
    """Return leagues that every matchmaker must cope with, by what is special about them."""
    main, exploiter = fake_player("main-agent"), fake_player("exploiter", 1)
    everyone = {("main-agent@3+", model): (10.0, 0.0, 0.0) for model in main.models}
    many = fake_player("main-agent", 500)
    cat, mouse = fake_player("cat", 4, role="cat", team=0), fake_player("mouse", 2, role="mouse", team=1)
    return {
        "nothing frozen": FakeLeague(players=[fake_player("main-agent", 0)]),
        "one model": FakeLeague(players=[fake_player("main-agent", 1)], anchors=("random",)),
        "all win rates 1": FakeLeague(players=[main], results=everyone),
        "all win rates 0": FakeLeague(players=[main], results=dict.fromkeys(everyone, (0.0, 0.0, 10.0))),
        "draws only": FakeLeague(players=[main], results=dict.fromkeys(everyone, (0.0, 10.0, 0.0))),
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
    """Check that a matchmaker answers its three questions as its contract says.

    Args:
        matchmaker: As configured.
        leagues: Leagues by description; None: `fake_leagues`. Give your own where the configuration names players.
        questions: How often each question is asked, with different generators.
        seed: Seeds the generators.

    Raises:
        ContractError: An answer breaks the contract; the message names the league, and the player of a fixture.
    """
    for description, league in (fake_leagues() if leagues is None else leagues).items():
        before = copy.deepcopy(league)
        with wrap_errors(f"league {description!r}"):
            for question in range(questions):
                for player in league.players:
                    with wrap_errors(f"player {player!r}"):
                        _check_fixture(matchmaker, league, player, (seed, question))
                _check_evaluation(matchmaker, league, (seed, question))
            for player in league.players:
                _check_frozen(matchmaker, league, player)
        if league != before:
            raise ContractError(f"league {description!r}: the matchmaker changed the league; it may only read it")


def opponent_shares(
    matchmaker: Matchmaker, league: LeagueView, player: str, *, questions: int = 2000, seed: int = 0
) -> dict[str, float]:
    """Return how often each participant is the (first) opponent, as shares that sum to 1."""
    rng = np.random.default_rng(seed)
    counts = Counter(matchmaker.next_fixture(league, player, rng).opponents[0] for _ in range(questions))
    return {opponent: count / questions for opponent, count in counts.items()}


def _check_fixture(matchmaker: Matchmaker, league: FakeLeague, player: str, seed: tuple[int, int]) -> None:
    answers = [
        checked_pairing(matchmaker.next_fixture(league, player, np.random.default_rng(seed)), league) for _ in range(2)
    ]
    if answers[0] != answers[1]:
        raise ContractError(
            f"next_fixture answered {answers[0]} and then {answers[1]} to the same league and generator state; take "
            f"all randomness from `rng` and remember nothing"
        )
    own = league.players[player].team
    if own is not None:
        others = [team for team in range(league.num_teams) if team != own]
        for opponent, team in zip(answers[0].opponents, others, strict=True):
            _check_team(opponent, league, team)
    if not answers[0].reason:
        raise ContractError("next_fixture gave no reason; say why in a few words")


def _check_team(participant: str, league: FakeLeague, team: int) -> None:
    if league.team(participant) not in (team, None):
        raise ContractError(f"{participant!r} cannot fill team {team}: it is made for team {league.team(participant)}")


def _check_evaluation(matchmaker: Matchmaker, league: FakeLeague, seed: tuple[int, int]) -> None:
    answers = [
        checked_evaluation(matchmaker.next_evaluation(league, np.random.default_rng(seed)), league) for _ in range(2)
    ]
    if answers[0] != answers[1]:
        raise ContractError(
            f"next_evaluation answered {answers[0]} and then {answers[1]} to the same league and generator state"
        )
    for team, participant in enumerate(answers[0] or ()):
        _check_team(participant, league, team)


def _check_frozen(matchmaker: Matchmaker, league: FakeLeague, player: str) -> None:
    """Freeze the next model of `player`: the changes must be possible, and harmless when they are repeated."""
    view = league.players[player]
    model = f"{player}@{len(view.models) + 1}"
    grown = attrs.evolve(view, models=(*view.models, model), live=f"{model}+")
    pools = {name: league.pool(name) for name in (*league.players, *league.pools)}
    after = attrs.evolve(league, players={**league.players, player: grown}, pools=pools)
    answers = [checked_pool_changes(matchmaker.on_model_frozen(after, player, model), after) for _ in range(2)]
    if answers[0] != answers[1]:
        raise ContractError(f"on_model_frozen for {model!r} does not repeat its answer")
    members = {name: list(models) for name, models in pools.items()}
    for change in answers[0]:
        pool = members.setdefault(change.pool, [])
        if change.enters == (change.model in pool):
            raise ContractError(f"{change} changes nothing: the model is {'already' if change.enters else 'not'} there")
        (pool.append if change.enters else pool.remove)(change.model)
