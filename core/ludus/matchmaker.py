"""The matchmaker contract: three questions, answered as pure functions of the league and a random generator.

Participants are named by one string everywhere:

* ``main_agent@7``  — the frozen model number 7 of player ``main_agent``; immutable;
* ``main_agent@7+`` — the weights that ``main_agent`` is learning now, after it froze number 7;
* ``minimax3``      — an anchor: a scripted agent with a rating.

Two rules hold for all matchmakers: a draw counts as half a win, and in an asymmetric game only those may be opponents
who can fill the other team.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from attrs import field, frozen

from ludus.environment import Scenario
from ludus.option import Check, text

if TYPE_CHECKING:
    from ludus.records import MatchRecord

__all__ = ["LeagueView", "Matchmaker", "Pairing", "PlayerView", "PoolChange", "Rating", "RatingTable"]


@frozen(kw_only=True)
class PlayerView:
    """One learning identity as matchmakers see it.

    Args:
        name: The player's name.
        role: The role it fills.
        team: The team of that role where it has one fixed team; None where it may take any (symmetric roles).
        live: Its live participant, ``name@N+``.
        models: Its frozen models, oldest first.
        decisions: Decisions it has learned from so far.
        generation_starts: For each generation of its weights, how many models are older; ``(0,)`` until a `Reset`.
        generation_start_decisions: `decisions` when the present generation began.
        frozen_decisions: `decisions` when its newest model was frozen.
        share: Its share of the ticks of training matches, relative to the other players'.
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
        """Return how often it has started anew."""
        return len(self.generation_starts) - 1


def _called(deviation: float | Callable[[], float]) -> float:
    return deviation() if callable(deviation) else deviation


@frozen
class Rating:
    """A rating with its uncertainty; `deviation` is one standard deviation on the same scale, ≥ 0. Both are finite.

    The deviation may be given as a function, which is called when it is read.
    """

    mean: float
    _deviation: float | Callable[[], float] = field(alias="deviation", eq=_called, repr=lambda d: repr(_called(d)))
    matches: int

    @property
    def deviation(self) -> float:
        """Return one standard deviation."""
        return _called(self._deviation)


class RatingTable(Protocol):
    """Rates the participants of a league by the evaluation matches between its frozen models and anchors.

    It is made anew at every start and told of all these matches; it remembers nothing besides, so a restart changes no
    rating. It takes results by `add` or by `replay`, and does nothing in the other one.

    Tables and pictures write ratings as whole numbers, as is usual for Elo points, where 400 are odds of 10 to 1. A
    method with another unit is best brought to that scale.
    """

    def add(self, a: str, b: str, count: np.ndarray) -> None:
        """Take what is new between two participants; for methods to which only the sums matter.

        Args:
            a: One of them.
            b: The other one; there is a call for (b, a) with the mirrored counts too.
            count: ``[3] int64``: wins, draws, losses of a.
        """

    def replay(self, first: int, matches: Iterable[MatchRecord]) -> None:
        """Take the log from a fixture on; for methods to which the order matters, or who was in a team with whom.

        Results of several fixtures arrive mixed. So that their order is that of the log nevertheless, whatever the
        table knows of the fixtures from `first` on is to be forgotten: all of it that has been played comes again.

        Args:
            first: The id of a fixture.
            matches: Evaluation matches (`ludus.runs.MatchRecord`) in the order of the log; read from the store when
                they are asked for, and only during this call. In some, live weights play; these are not to be rated.
        """

    def rating(self, participant: str) -> Rating:
        """Return the rating; somebody without matches has the prior with 0 matches."""


class LeagueView(Protocol):
    """The league as a matchmaker may read it. Cheap to query; never changed by a matchmaker."""

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
    def elapsed_s(self) -> float:
        """Return how long the run has trained, in seconds."""

    @property
    def progress(self) -> float:
        """Return the share of the training budget that is used, in [0, 1]; 0 without a budget.

        The larger share of ``run.decisions`` and ``run.minutes``; the same value that schedules of algorithms and
        interfaces read.
        """

    def frozen_s(self, model: str) -> float:
        """Return when a model was frozen, in seconds of training."""

    def team(self, participant: str) -> int | None:
        """Return the team that a player's model or an anchor is made for; None where it may take any."""

    def pool(self, name: str) -> tuple[str, ...]:
        """Return the models of a pool, oldest first; an unknown pool is empty."""

    def payoff(self, participant: str, opponents: Sequence[str]) -> np.ndarray:
        """Return ``[n, 3] float64``: wins, draws, losses of `participant` against each opponent.

        For a live participant the counts of its earlier frozen and live weights, back to its last `Reset`, are
        included with a weight that halves with every model, so that a win rate exists right after a freeze.
        """

    def recent(self, player: str, opponents: Sequence[str]) -> np.ndarray:
        """Return ``[n, 3] float64``: wins, draws, losses of a player's live weights of late.

        The weight of a match halves with every 256 later ones of the same pair, so this says how good the weights are
        now, where `payoff` also tells of the long way since the last freeze. Counted since this start of the run and
        since the last `Reset` of either side.
        """

    def rating(self, participant: str) -> Rating:
        """Return the rating; an unrated participant has the prior with 0 matches."""


@frozen(kw_only=True)
class Pairing:
    """The answer to "whom next?".

    Args:
        opponents: One participant for every other team, in team order.
        reason: Why, in a few words; stored with every match (``"pfsp: win rate 0.31, p 0.12"``).
        scenario: The scenario to play.
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
    """Answers the three questions of a league. Holds no state besides its configuration.

    Whatever it raises, or answers that cannot be, ends the run with a line that names it. It is asked for a fixture and
    an evaluation once at the start for nothing, so that such mistakes show at once; ``ludus check`` asks about a model
    that was frozen, too.
    """

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return whom `player` should train against next.

        With nothing to choose from (an empty pool) it answers a live participant, the player's own where both sides
        are alike, else an anchor.
        """

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return which frozen models or anchors, one per team, to rate next; None when there is nothing to learn."""

    def on_model_frozen(self, league: LeagueView, player: str, model: str) -> Sequence[PoolChange]:
        """Return how pools change now that `model` of `player` has been frozen."""
