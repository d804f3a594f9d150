"""The matchmaker contract: pure functions of the league and a random generator.

The name of a participant is one string:

* ``main_agent@7``  — the frozen model number 7 of player ``main_agent``; immutable;
* ``main_agent@7+`` — the live weights of ``main_agent``, after model 7 was frozen;
* ``minimax3``      — an anchor: a scripted agent with a rating;
* ``cat=random``    — the anchor ``random`` as it is counted and rated in a team of cats. In a game whose teams have
  different roles, an anchor has one such name for the roles of each team, because it is not equally strong in all.

All matchmakers count a draw as half a win. In an asymmetric game they choose opponents that can fill the other team.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from attrs import field, frozen

from ludus.environment import Scenario, Seat
from ludus.option import Check, text

if TYPE_CHECKING:
    from ludus.records import MatchRecord

__all__ = [
    "LeagueView",
    "Matchmaker",
    "Pairing",
    "PlayerView",
    "PoolChange",
    "Rating",
    "RatingTable",
    "Statistic",
    "rated_anchors",
    "rated_names",
    "team_sides",
]


def team_sides(seats: Sequence[Seat]) -> tuple[str, ...]:
    """Return the side of every team: its roles, joined by ``+``; empty texts where all teams have the same roles."""
    num_teams = 1 + max((seat.team for seat in seats), default=-1)
    sides = ["+".join(sorted({seat.role for seat in seats if seat.team == team})) for team in range(num_teams)]
    return tuple(sides if len(set(filter(None, sides))) > 1 else [""] * num_teams)


def rated_anchors(
    anchors: Sequence[str], seats: Sequence[Seat], teams: Mapping[str, int] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return the names under which anchors are rated: ``cat=random`` for every side, ``random`` where there is one.

    Args:
        anchors: The anchors.
        seats: The seats of a match.
        teams: Teams of the anchors that play one team only.
    """
    by_team = team_sides(seats)
    sides = dict.fromkeys(by_team) or ("",)
    return tuple(
        _rated(anchor, side) for anchor in anchors for side in ([by_team[teams[anchor]]] if anchor in teams else sides)
    )


def rated_names(participants: Sequence[str], seats: Sequence[Seat]) -> tuple[str, ...]:
    """Return the names under which the participants of a fixture, one per seat, are rated."""
    sides = team_sides(seats)
    return tuple(_rated(name, sides[seat.team]) for name, seat in zip(participants, seats, strict=True))


def _rated(name: str, side: str) -> str:
    return f"{side}={name}" if side and "@" not in name else name


@frozen(kw_only=True)
class PlayerView:
    """State of one player.

    Args:
        name: Name of the player.
        role: Role that the player fills.
        team: Team of that role where it has one fixed team; None where it may take any (symmetric roles).
        live: Live participant of the player, ``name@N+``.
        models: Frozen models that can play, oldest first; without those that are quarantined because they are damaged.
        decisions: Decisions that the player has learned from.
        generation_starts: Number of the last model before each generation; ``(0,)`` until a `Reset`.
        generation_start_decisions: `decisions` when the present generation began.
        frozen_decisions: `decisions` when the newest model was frozen.
        share: Share of the ticks of training matches, relative to the shares of the other players.
    """

    name: str
    role: str
    team: int | None
    live: str
    models: tuple[str, ...]
    decisions: int
    generation_starts: tuple[int, ...] = (0,)
    generation_start_decisions: int = 0
    frozen_decisions: int = 0
    share: float = 1.0

    @property
    def generation(self) -> int:
        """Return the number of player resets."""
        return len(self.generation_starts) - 1

    @property
    def num_frozen(self) -> int:
        """Return the number of models that the player has frozen, those included that are quarantined."""
        return int(self.live.rpartition("@")[2].removesuffix("+"))


def _called(deviation: float | Callable[[], float]) -> float:
    return deviation() if callable(deviation) else deviation


@frozen
class Rating:
    """A rating with one standard deviation, both finite and on the same scale.

    The deviation may be a function, which is called when the deviation is read.
    """

    mean: float
    _deviation: float | Callable[[], float] = field(alias="deviation", eq=_called, repr=lambda d: repr(_called(d)))
    matches: int

    @property
    def deviation(self) -> float:
        """Return one standard deviation."""
        return _called(self._deviation)


@frozen(kw_only=True)
class Statistic:
    """A statistic of a participant in its evaluation matches; see `ludus.environment.RoleTick.statistics`.

    Args:
        mean: Mean over matches; the value of a match is the mean over the participant's seats.
        deviation: Standard deviation over matches.
        matches: Number of matches, at least 1.
    """

    mean: float
    deviation: float
    matches: int


class RatingTable(Protocol):
    """Ratings of the participants of a league, from evaluation matches between frozen models and anchors.

    The league creates a new table at every start and adds all these matches, so a restart changes no rating. A table
    implements `add` or `replay`; the other method does nothing.

    Ratings are displayed as whole numbers. Methods should use the scale of Elo points, where 400 are odds of 10 to 1.
    In a game whose teams have different roles, only ratings of the same side (`team_sides`) are compared; they should
    measure skill, and not the advantage of the side.
    """

    def add(self, a: str, b: str, count: np.ndarray) -> None:
        """Add new results of two participants; for methods that need only sums.

        Args:
            a: First participant, by the name under which it is rated.
            b: Second participant; there is another call for (b, a) with the mirrored counts.
            count: ``[3] int64``: wins, draws, losses of a.
        """

    def replay(self, first: int, matches: Iterable[MatchRecord]) -> None:
        """Replace all matches from a fixture on; for methods that need the order of matches, or the teams.

        Results of several fixtures arrive interleaved. To keep the order of the log, the table drops all matches of
        fixtures from `first` on and adds those of `matches`, which include the dropped ones.

        Args:
            first: Id of the first fixture to replace.
            matches: Evaluation matches (`ludus.records.MatchRecord`) in the order of the log. They are read from the
                store during iteration, which must end before this call returns. Matches with live participants must
                not be rated.
        """

    def rating(self, participant: str) -> Rating:
        """Return the rating; a participant without matches has the prior with 0 matches."""


class LeagueView(Protocol):
    """The league as matchmakers and rules read it. Queries are cheap, and change nothing."""

    @property
    def num_teams(self) -> int:
        """Return the number of teams of a match."""

    @property
    def players(self) -> Mapping[str, PlayerView]:
        """Return the players by name."""

    @property
    def anchors(self) -> tuple[str, ...]:
        """Return the scripted participants."""

    @property
    def rated_anchors(self) -> tuple[str, ...]:
        """Return the anchors as they are rated: one name per side, such as ``cat=random``, where sides differ."""

    @property
    def elapsed_s(self) -> float:
        """Return the seconds that the run has trained."""

    @property
    def progress(self) -> float:
        """Return the share of the training budget that is used, in [0, 1]; 0 without a budget.

        The larger share of ``run.decisions`` and ``run.minutes``; the same value that schedules of algorithms and
        interfaces read.
        """

    def frozen_s(self, model: str) -> float:
        """Return the time at which a model was frozen, in seconds of training."""

    def freeze_reason(self, model: str) -> str:
        """Return why a rule requested a model; empty for models by number of decisions or of the end of a session."""

    def team(self, participant: str) -> int | None:
        """Return the fixed team of a player's model or an anchor; None where it may take any.

        A rated anchor such as ``cat=random`` has the team of its side.
        """

    def pool(self, name: str) -> tuple[str, ...]:
        """Return the models of a pool, oldest first; an unknown pool is empty."""

    def payoff(self, participant: str, opponents: Sequence[str], *, evaluated: bool = False) -> np.ndarray:
        """Return ``[n, 3] float64``: wins, draws, losses of `participant` against each opponent.

        Args:
            participant: The participant.
            opponents: Its opponents.
            evaluated: Count evaluation matches only, which frozen models and anchors play without scenarios.

        For a live participant the counts of its earlier frozen and live weights, back to its last `Reset`, are
        included with a weight that halves with every model. So a win rate exists right after a freeze. An anchor named
        without a side has its counts of all sides.
        """

    def recent(self, player: str, opponents: Sequence[str]) -> np.ndarray:
        """Return ``[n, 3] float64``: recent wins, draws, losses of a player's live weights.

        The weight of a match halves with every 256 later matches of the same pair, so this measures the present
        weights, while `payoff` covers all matches since the last freeze. Counted since this start of the run and since
        the last `Reset` of either side.
        """

    def rating(self, participant: str) -> Rating:
        """Return the rating; an unrated participant has the prior with 0 matches."""

    def statistics(self, participant: str) -> Mapping[str, Statistic]:
        """Return the statistics of a participant in its evaluation matches by ``"ROLE/NAME"``; empty without any."""


@frozen(kw_only=True)
class Pairing:
    """The opponents of a player's next fixture.

    Args:
        opponents: One participant for every other team, in team order.
        reason: Short text that is stored with every match (``"pfsp: win rate 0.31, p 0.12"``).
        scenario: Scenario to play.
    """

    opponents: tuple[str, ...]
    reason: str = field(validator=text())
    scenario: Scenario = field(factory=Scenario)


@frozen(kw_only=True)
class PoolChange:
    """A model enters or leaves a pool."""

    pool: str = field(validator=text())
    model: str = field(validator=text())
    enters: bool = field(validator=Check("true or false", lambda value: type(value) is bool))


class Matchmaker(Protocol):
    """Chooses opponents, rating matches and pool changes. Holds no state besides its configuration.

    An exception or an invalid return value ends the run with a message that names the matchmaker. At the start of a run
    `next_fixture` and `next_evaluation` are called once and the results dropped, so that errors show early;
    ``ludus check`` calls `on_model_frozen` too.
    """

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return the opponents that `player` trains against next.

        With nothing to choose from (an empty pool) return a live participant, the player's own in a symmetric game, or
        else an anchor.
        """

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return the frozen models or anchors to rate next, one per team; None if no rating match is needed."""

    def on_model_frozen(self, league: LeagueView, player: str, model: str) -> Sequence[PoolChange]:
        """Return the changes of pools after `model` of `player` was frozen."""
