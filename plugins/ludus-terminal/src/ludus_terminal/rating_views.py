"""Rate participants by several methods from the evaluation matches in the log.

Only matches between frozen models and anchors count: live weights change with every update.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

import attrs
import numpy as np
from ludus.errors import ConfigError
from ludus.matchmaker import Rating, rated_names, team_sides
from ludus.runs import MatchRecord, Run
from ludus_ratings import (
    ELO_POINTS,
    PairResults,
    TeamMatch,
    alpha_rank,
    alpha_rank_roles,
    bradley_terry,
    log_odds,
    nash_average,
    openskill_ratings,
    sequential_elo,
    win_rates,
)
from ludus_ratings.elo_table import EloTable
from ludus_ratings.sides import Sides
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.markup import escape

from ludus_terminal.views import Data, View, natural, ratings_json, ratings_tables, table

__all__ = ["RATINGS", "Evaluations", "evaluation_matches", "evaluations", "points_against"]

_MAX_PAIRS = 4000  # of models of two roles; alpha-rank needs memory ~ pairs² and time ~ pairs³


@attrs.frozen(eq=False)
class Evaluations:
    """Payoffs of the evaluation matches between frozen models and anchors.

    Attributes:
        names: n participants, sorted by name.
        counts: ``[3] int64`` wins, draws and losses of a against b by (a, b), in both orders, for all pairs with
            matches.
    """

    names: tuple[str, ...]
    counts: Mapping[tuple[str, str], NDArray[np.int64]]

    def only(self, names: Sequence[str]) -> Evaluations:
        """Return the payoffs among the given participants, which need not have matches."""
        selected = set(names)
        return Evaluations(
            tuple(names), {pair: count for pair, count in self.counts.items() if selected.issuperset(pair)}
        )

    def pair_results(self) -> PairResults:
        """Return the payoffs by pairs of indices of `names`."""
        index = {name: i for i, name in enumerate(self.names)}
        ends = [(index[a], index[b]) for a, b in self.counts if index[a] < index[b]]
        count = np.array([self.counts[self.names[i], self.names[j]] for i, j in ends], np.float64).reshape(-1, 3)
        return PairResults(
            num=len(self.names),
            pairs=np.array(ends, np.int64).reshape(-1, 2),
            points=count[:, [0, 2]] + 0.5 * count[:, [1]],
            draws=count[:, 1],
        )

    def points(self) -> NDArray[np.float64]:
        """Return ``[n, n]``: wins + ½ draws of the row against the column."""
        pair_results = self.pair_results()
        (a, b), payoffs = pair_results.pairs.T, np.zeros((pair_results.num, pair_results.num))
        payoffs[a, b], payoffs[b, a] = pair_results.points.T
        return payoffs


def evaluations(run: Run) -> Evaluations:
    """Return the payoffs of the evaluation matches of a run."""
    counts_by_pair = {
        (a, b): counts
        for (kind, a, b), counts in run.payoffs().items()
        if kind == "eval" and not (a.endswith("+") or b.endswith("+"))
    }
    return Evaluations(tuple(sorted({a for a, _ in counts_by_pair}, key=natural)), counts_by_pair)


# --- ratings ------------------------------------------------------------------------------------------------------


def _ratings(run: Run, *, method: str) -> Data:
    shares: Mapping[str, float] = {}
    if method in ("nash", "alpha-rank"):
        ratings, shares = (_nash if method == "nash" else _alpha_rank)(run, evaluations(run))
    elif method == "openskill":
        ratings = _openskill(run)
    else:
        ratings = _elo(run) if method == "elo" else _bradley_terry(run, evaluations(run))
    rows = ratings_json(run, ratings)
    if shares:
        rows = sorted(({**row, "share": shares[row["participant"]]} for row in rows), key=lambda row: -row["share"])
    return {"method": method, "ratings": rows}


def _bradley_terry(run: Run, payoffs: Evaluations) -> Mapping[str, Rating]:
    """Return the ratings of the rating method ``elo``."""
    fit = EloTable(anchors=run.league.rated_anchors, seats=run.seats, sides=run.sides)
    for (a, b), count in payoffs.counts.items():
        fit.add(a, b, count)
    return {name: fit.rating(name) for name in payoffs.names}


def _rated(
    names: Sequence[str], mean: NDArray[np.float64], deviation: NDArray[np.float64], matches: NDArray[np.float64]
) -> Mapping[str, Rating]:
    columns = zip(names, mean.tolist(), deviation.tolist(), matches.round().astype(int).tolist(), strict=True)
    return {name: Rating(m, d, n) for name, m, d, n in columns}


def _elo(run: Run) -> Mapping[str, Rating]:
    number: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []
    scores: list[float] = []
    for match in evaluation_matches(run):
        names = rated_names(match.fixture.participants, run.seats)
        sides = list(dict.fromkeys(zip((seat.team for seat in run.seats), names, strict=True)))
        for i, (team, a) in enumerate(sides):
            for other, b in sides[:i]:
                if team != other and a != b:
                    pairs.append((number.setdefault(a, len(number)), number.setdefault(b, len(number))))
                    scores.append(points_against(match, team, other))
    a_b = np.array(pairs, np.int64).reshape(-1, 2)
    mean = sequential_elo(a_b[:, 0], a_b[:, 1], scores, num=len(number))
    count = np.bincount(a_b.ravel(), minlength=len(number)).astype(np.float64)
    return _relative(run, _rated(list(number), mean, np.full(len(number), math.nan), count))


def _relative(run: Run, ratings: Mapping[str, Rating]) -> Mapping[str, Rating]:
    """Return ratings minus that of the reference of each side, as the side has an advantage; unchanged with one side.

    Without a rated reference the mean of a side becomes 0.
    """
    if not any(team_sides(run.seats)):
        return ratings
    sides = Sides(run.league.rated_anchors, run.sides)
    means: dict[str, list[float]] = {}
    for name, rating in ratings.items():
        means.setdefault(sides.side(name), []).append(rating.mean)
    zeros = {
        side: ratings[reference].mean if (reference := sides.references.get(side, "")) in ratings else fmean(values)
        for side, values in means.items()
    }
    return {name: attrs.evolve(rating, mean=rating.mean - zeros[sides.side(name)]) for name, rating in ratings.items()}


def points_against(match: MatchRecord, team: int, other: int) -> float:
    """Return the points of `team` against `other`: 1, ½ or 0."""
    own, opposing = match.outcome[team], match.outcome[other]
    return 0.5 if own == opposing else float(own > opposing)


def _openskill(run: Run) -> Mapping[str, Rating]:
    teams = [seat.team for seat in run.seats]
    log = (
        TeamMatch.from_seats(teams, rated_names(match.fixture.participants, run.seats), match.outcome)
        for match in evaluation_matches(run)
    )
    try:
        skills = openskill_ratings(log)
    except ModuleNotFoundError as error:
        raise ConfigError("--method openskill: needs the package openskill; pip install openskill") from error
    return _relative(run, {name: Rating(skill.mu, skill.sigma, skill.matches) for name, skill in skills.items()})


def _nash(run: Run, all_: Evaluations) -> tuple[Mapping[str, Rating], Mapping[str, float]]:
    payoffs, roles = _by_role(run, all_)
    points = payoffs.points()
    fit = bradley_terry(points)
    average = nash_average(log_odds(points, expected=fit.expected()), roles=roles)
    unknown = np.full(len(payoffs.names), math.nan)
    ratings = _rated(payoffs.names, average.rating * ELO_POINTS, unknown, fit.matches)
    return ratings, dict(zip(payoffs.names, average.mass.tolist(), strict=True))


def _alpha_rank(run: Run, all_: Evaluations) -> tuple[Mapping[str, Rating], Mapping[str, float]]:
    payoffs, roles = _by_role(run, all_)
    sizes = [len(payoffs.names)] if roles is None else [roles.count(role) for role in dict.fromkeys(roles)]
    if len(sizes) > 2:
        raise ConfigError(f"--method alpha-rank: expected a game of one or two roles, got {len(sizes)}; try nash")
    if len(sizes) == 2 and math.prod(sizes) > _MAX_PAIRS:
        pairs = f"{sizes[0]} and {sizes[1]} models of two roles make {math.prod(sizes):,} pairs"
        raise ConfigError(f"--method alpha-rank: {pairs}, more than the maximum of {_MAX_PAIRS:,}; try nash")
    points = payoffs.points()
    rates = win_rates(points, expected=bradley_terry(points).expected())
    if roles is None or len(sizes) < 2:
        mass = alpha_rank(rates)
    else:
        first = np.array(roles) == roles[0]
        mass = np.zeros(len(roles))
        mass[first], mass[~first] = alpha_rank_roles(rates[np.ix_(first, ~first)])
    return _bradley_terry(run, payoffs), dict(zip(payoffs.names, mass.tolist(), strict=True))


def _by_role(run: Run, payoffs: Evaluations) -> tuple[Evaluations, list[str] | None]:
    """Return the payoffs sorted by side, and the side of every participant; None for a game of one side."""
    if not any(team_sides(run.seats)):
        return payoffs, None
    sides = Sides(run.league.rated_anchors, run.sides)
    names = sorted(payoffs.names, key=sides.side)
    return payoffs.only(names), [sides.side(name) for name in names]


def evaluation_matches(run: Run) -> Iterator[MatchRecord]:
    """Yield the evaluation matches between frozen models and anchors, in the order of the log."""
    for match in run.matches(kind="eval"):
        if not any(participant.endswith("+") for participant in match.fixture.participants):
            yield match


def _show_ratings(data: Data) -> Iterable[RenderableType]:
    method, rows = data["method"], data["ratings"]
    if method not in ("nash", "alpha-rank"):
        yield from ratings_tables(f"Ratings ({method}, ± 95 %)", rows, digits=2 if method == "openskill" else 0)
        return
    column = "Nash average" if method == "nash" else "Bradley-Terry"
    title = "Share of the Nash equilibrium" if method == "nash" else "Share of an evolving population (alpha-rank)"
    shown = table(title, ">", "participant", ">share", f">{column}", ">matches")
    for rank, row in enumerate(rows, start=1):
        cells = (escape(row["participant"]), f"{row['share']:.3f}", f"{row['mean']:.0f}", f"{row['matches']:,}")
        shown.add_row(str(rank), *cells)
    yield shown


RATINGS = View(_ratings, _show_ratings)
