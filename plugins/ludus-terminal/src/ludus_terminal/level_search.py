"""The search for difficulty levels: models, weakened where needed, at equal distances in strength.

The strongest model is the first level found. Each further one is a weaker model, or the next stronger one, weakened so
far that its Elo rating, by matches against the levels above it, is the wanted one. At the end all levels play each
other: these new matches alone determine the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np
from attrs import define, field, frozen
from ludus.errors import ConfigError
from ludus_ratings import Strengths, bradley_terry, expected_score

from ludus_terminal.evaluate import Record

__all__ = ["Candidate", "LevelSearch", "Measured"]

_MOST_STEPS = 8  # measurements of one weakened model
_LEAST_STEPS = 3
_MOST_VERIFICATIONS = 4
_CLOSE = 0.8  # share of the tolerance at which levels are not corrected any more
_DAMPING = 0.7  # share of a measured difference that is corrected, since a part of it is chance
_OPPONENTS = 3  # levels above that a model is measured against
_STRAIGHT = 120.0  # Elo points around the wanted rating in which ratings are nearly linear in the weakness
_RATINGS = np.arange(-4000.0, 2000.0)


@frozen
class Candidate:
    """A model and how far it is weakened: from 0, not at all, to 1."""

    model: str
    weakness: float = 0.0


#: Plays a number of matches between two candidates with a seed and returns the record of the first one.
Play: TypeAlias = Callable[[Candidate, Candidate, int, int], Record]


@frozen(eq=False)
class Measured:
    """Candidates and their strengths.

    Attributes:
        candidates: The candidates.
        strengths: Their ratings in Elo points; that of the first one is 0.
        next: Record of each candidate but the last against the one after it.
    """

    candidates: tuple[Candidate, ...]
    strengths: Strengths
    next: tuple[Record, ...]

    def gaps(self) -> np.ndarray:
        """Return ``[n - 1]``: the rating of each candidate minus that of the one after it."""
        return -np.diff(self.strengths.mean)

    def gaps_text(self) -> str:
        """Return the distances as text."""
        return ", ".join(f"{gap:.0f}" for gap in self.gaps())


@define
class _Curve:
    """The ratings of one model by its weakness.

    Args:
        start: Weakness and rating of the model as it is, and fully weakened; both may be inaccurate.
    """

    start: list[tuple[float, float]]
    measured: list[tuple[float, float]] = field(factory=list)

    def solve(self, aim: float) -> float:
        """Return the weakness at which the rating should be `aim`."""
        near = self._near(aim)
        if len(near) > 1:
            weakness = near[:, 0].mean() + (aim - near[:, 1].mean()) / self.slope(aim)
            return float(np.clip(weakness, near[:, 0].min() / 2, (near[:, 0].max() + 1) / 2))
        known = sorted(self.start + self.measured)
        upper = max((entry for entry in known if entry[1] > aim), default=known[0])
        lower = min((entry for entry in known if entry[0] > upper[0]), default=known[-1])
        share = (upper[1] - aim) / max(upper[1] - lower[1], 1e-9)
        # ratings fall the faster the weaker a model is, so that linear interpolation alone converges slowly
        return upper[0] + (lower[0] - upper[0]) * min(max((share + 0.5) / 2, 0.05), 0.95)

    def slope(self, aim: float) -> float:
        """Return the change of the rating by weakness near `aim`, < 0: that of a line through the measured ratings.

        Lines through few points that are close to each other are inaccurate. Those that fall less than the line from
        the start are replaced by it, so that no step becomes too long.
        """
        near = self._near(aim)
        middle = near[:, 0].mean()
        chord = min(float((aim - self.start[0][1]) / max(middle, 1e-3)), -1.0)
        if np.ptp(near[:, 0]) < 1e-9:
            return chord
        return min(float(np.polyfit(near[:, 0], near[:, 1], 1)[0]), chord)

    def _near(self, aim: float) -> np.ndarray:
        """Return ``[n, 2]``: weakness and rating of the measurements near a rating."""
        return np.array([entry for entry in self.measured if abs(entry[1] - aim) <= _STRAIGHT]).reshape(-1, 2)


@define(kw_only=True)
class LevelSearch:
    """Finds levels.

    Args:
        play: Plays matches.
        count: Number of levels.
        gap: Wanted distance between neighbours in Elo points.
        tolerance: Largest accepted difference to it.
        matches: Matches of every pair of levels that verify the result, and of every measurement before.
        seed: Seed of all matches.
        on_step: Called with a line of text after every measurement.
    """

    play: Play
    count: int
    gap: float
    tolerance: float
    matches: int
    seed: int
    on_step: Callable[[str], None] = lambda _: None
    _played: int = field(init=False, default=0)  # pairings, for their seeds
    _curves: dict[Candidate, _Curve] = field(init=False, factory=dict)

    def find(self, models: Sequence[str]) -> Measured:
        """Return verified levels, the strongest first.

        Args:
            models: Participants to make them of.

        Raises:
            ConfigError: The models are too close to each other, or no levels at these distances were found.
        """
        ratings, weakest = self._measure(models)
        levels = [Candidate(max(ratings, key=ratings.__getitem__))]
        while len(levels) < self.count:
            levels.append(self._next_level(levels, ratings, weakest))
            self.on_step(
                f"level {self.count - len(levels) + 1}: {levels[-1].model}, weakness {levels[-1].weakness:.3f}"
            )
        verified: list[Measured] = []
        while len(verified) < _MOST_VERIFICATIONS:
            verified.append(self._round_robin(levels, self.matches))
            self.on_step(f"distances in new matches: {verified[-1].gaps_text()}")
            if self._error(verified[-1]) <= _CLOSE * self.tolerance:
                break
            levels = self._corrected(verified[-1])
        best = min(verified, key=self._error)
        if self._error(best) > self.tolerance:
            raise ConfigError(
                f"found no levels at distances of {self.gap:g} ± {self.tolerance:g} Elo points; the best ones were "
                f"{best.gaps_text()}: raise --matches, or weaken by something else"
            )
        return best

    def _error(self, found: Measured) -> float:
        """Return the largest difference between a distance and the wanted one."""
        return float(np.abs(found.gaps() - self.gap).max())

    def _measure(self, models: Sequence[str]) -> tuple[dict[str, float], float]:
        """Return the ratings of the models below the strongest one, and that of the newest one if fully weakened.

        Raises:
            ConfigError: The weakest of them is not weak enough for the last level.
        """
        candidates = [*map(Candidate, models), Candidate(models[-1], 1.0)]
        mean = self._round_robin(candidates, self.matches // 4).strengths.mean
        ratings = dict(zip(models, (mean[:-1] - mean[:-1].max()).tolist(), strict=True))
        weakest = float(mean[-1] - mean[:-1].max())
        self.on_step(f"models: {', '.join(f'{name} {rating:.0f}' for name, rating in ratings.items())}")
        needed = self.gap * (self.count - 1)
        if min(*ratings.values(), weakest) > -needed:
            strongest = max(ratings, key=ratings.__getitem__)
            raise ConfigError(
                f"the strongest model, {strongest}, is {-min(*ratings.values(), weakest):.0f} Elo points above the "
                f"weakest: expected {needed:.0f} for {self.count} levels; use fewer --levels, a smaller --gap, or "
                "train longer"
            )
        return ratings, weakest

    def _round_robin(self, candidates: Sequence[Candidate], matches: int) -> Measured:
        """Play all pairs and return the strengths by these matches."""
        points, draws = np.zeros((2, len(candidates), len(candidates)))
        records = {
            (i, j): self._play(candidates[i], candidates[j], matches)
            for i, j in combinations(range(len(candidates)), 2)
        }
        for (i, j), record in records.items():
            points[i, j], points[j, i] = record.wins + record.draws / 2, record.losses + record.draws / 2
            draws[i, j] = draws[j, i] = record.draws
        strengths = bradley_terry(points, draws=draws, reference=0)
        return Measured(tuple(candidates), strengths, tuple(records[i, i + 1] for i in range(len(candidates) - 1)))

    def _play(self, a: Candidate, b: Candidate, matches: int) -> Record:
        """Play matches with a new seed."""
        self._played += 1
        seed = np.random.SeedSequence([self.seed, self._played]).generate_state(1, np.uint64)[0] >> 1
        return self.play(a, b, max(matches, 2), int(seed))

    def _next_level(self, above: Sequence[Candidate], ratings: dict[str, float], weakest: float) -> Candidate:
        """Return the level below those that were found: the weakest model that can be it.

        Raises:
            ConfigError: No model can be weakened to it.
        """
        aim = -self.gap * len(above)
        for model in sorted(ratings, key=ratings.__getitem__):
            if ratings[model] >= aim - self.tolerance:
                found = self._weaken(model, above, aim, _Curve([(0.0, ratings[model]), (1.0, weakest)]))
                if found is not None:
                    return found
        raise ConfigError(f"no model can be weakened to {aim:.0f} Elo points below the strongest one")

    def _weaken(self, model: str, above: Sequence[Candidate], aim: float, curve: _Curve) -> Candidate | None:
        """Return a model at the wanted rating; None if it is weaker as it is."""
        if curve.start[0][1] <= aim + self.tolerance:
            rating = self._rating(Candidate(model), above)
            curve.start[0] = (0.0, rating)
            if abs(rating - aim) <= self.tolerance / 3:
                return Candidate(model)
            if rating < aim:
                return None
        for step in range(_MOST_STEPS):
            candidate = Candidate(model, round(curve.solve(aim), 5))
            rating = self._rating(candidate, above)
            curve.measured.append((candidate.weakness, rating))
            if step + 1 >= _LEAST_STEPS and abs(rating - aim) <= self.tolerance / 2:
                break
        found = Candidate(model, round(curve.solve(aim), 5))
        self._curves[found] = curve
        return found

    def _rating(self, candidate: Candidate, above: Sequence[Candidate]) -> float:
        """Return the rating of a candidate by matches against the next levels above it, taken to be as wanted."""
        opponents = list(enumerate(above))[-_OPPONENTS:]
        matches, points, expected = -(-self.matches // len(opponents)), 0.0, np.zeros(_RATINGS.size)
        for number, opponent in opponents:
            record = self._play(candidate, opponent, matches)
            total = record.wins + record.draws + record.losses
            points += record.wins + record.draws / 2
            expected += total * expected_score(_RATINGS, -self.gap * number)
        return float(np.interp(points, expected, _RATINGS))

    def _corrected(self, found: Measured) -> list[Candidate]:
        """Return the levels with weaknesses changed by what is missing to their wanted ratings."""
        corrected = []
        for number, (candidate, rating) in enumerate(zip(found.candidates, found.strengths.mean, strict=True)):
            aim, curve = -self.gap * number, self._curves.get(candidate)
            moved = candidate
            if curve is not None:
                weakness = candidate.weakness + _DAMPING * (aim - float(rating)) / curve.slope(aim)
                moved = Candidate(candidate.model, round(min(max(weakness, 0.0), 1.0), 5))
                self._curves[moved] = curve
            corrected.append(moved)
        return corrected
