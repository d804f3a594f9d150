"""Repeat matches with equal seeds, or with the actions of two seats exchanged, and compare them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np
from attrs import define, field, frozen

from ludus._seeding import match_seeds
from ludus.environment import Environment, Role, Tick
from ludus.testing._match_results import MatchResults
from ludus.testing._rollout import SeededActions, copy_tick, digest

_TICKS = 50
_TIME_S = 2.0  # of one repetition
_MAX_PAIRS = 6  # of seats that are exchanged


@frozen(eq=False)
class Record:
    """A record of matches.

    Args:
        ticks: Hashes of all arrays of each tick, by name.
        returns: ``[B, seats]``, sums of rewards.
        views: Hash of observation and mask at the first decision, by role and seat, then by match index.
    """

    ticks: list[dict[str, str]]
    returns: np.ndarray
    views: dict[tuple[str, int], dict[int, str]]


@define
class RepeatedMatches:
    """Plays the matches of an environment from their start.

    Args:
        environment: Environment to play.
        seed: Seed of the check.
    """

    environment: Environment
    seed: int
    _num_ticks: int = field(init=False, default=0)  # of the first record; 0: not played yet

    def play(self, *, exchanged: tuple[Role, int, int] | None = None, match_seed: int = 0) -> Record:
        """Play all matches for as many ticks as the first time.

        Args:
            exchanged: A role and two of its seats, which exchange their random actions.
            match_seed: Selects the seeds of the matches; actions are the same for every number.
        """
        environment, indices = self.environment, np.arange(self.environment.num_matches)
        choose = SeededActions(spec=environment.spec, seat_names=self._seat_names(exchanged))
        action_seeds = list(match_seeds(self.seed, indices))
        tick = environment.reset(match_seeds(self.seed + match_seed, indices))
        record = Record([_digests(tick)], np.zeros((indices.size, len(environment.spec.seats))), {})
        running = np.ones(indices.size, bool)
        end_s = time.monotonic() + _TIME_S
        for number in range(self._num_ticks or _TICKS):
            if not running.any() or (not self._num_ticks and time.monotonic() > end_s):
                break
            _add_views(record.views, tick)
            tick = environment.step(choose(tick, action_seeds, [number] * indices.size))
            record.ticks.append(_digests(tick))
            record.returns[:] += np.concatenate([role.reward for role in tick.roles.values()], axis=1)
            running &= ~(tick.terminated | tick.truncated)
        self._num_ticks = self._num_ticks or len(record.ticks) - 1
        return record

    def _seat_names(self, exchanged: tuple[Role, int, int] | None) -> dict[str, list[int]] | None:
        if exchanged is None:
            return None
        names = {role.name: list(range(role.num_seats)) for role in self.environment.spec.roles}
        role, one, other = exchanged
        names[role.name][one], names[role.name][other] = other, one
        return names


def _digests(tick: Tick) -> dict[str, str]:
    return {name: digest(array) for name, array in copy_tick(tick).items()}


def _add_views(views: dict[tuple[str, int], dict[int, str]], tick: Tick) -> None:
    """Add what seats observe that act for the first time in their matches."""
    for name, role in tick.roles.items():
        arrays = [*role.observation.values(), *([] if role.action_mask is None else [role.action_mask])]
        for match, seat in np.argwhere(role.acting).tolist():
            seen = views.setdefault((name, seat), {})
            if match not in seen:
                seen[match] = " ".join(digest(array[match, seat]) for array in arrays)


def find_ignored_seed(first: Record, again: Record) -> Iterator[str]:
    """Yield a line if matches with equal seeds and actions differ."""
    for number, (one, other) in enumerate(zip(first.ticks, again.ticks, strict=False)):
        for name in one:
            if one[name] != other.get(name):
                yield (
                    f"the game ignores its seed: after {number} ticks of matches with equal seeds and actions, {name} "
                    f"differs; draw all random numbers from a generator that reset makes from the seed, or set "
                    f"repeatable of the spec to False if the game cannot repeat a match"
                )
                return


def find_indistinct_sides(matches: RepeatedMatches, first: Record, results: MatchResults) -> Iterator[str]:
    """Yield a line for each role of which two seats observe the same at first, but are paid differently.

    The seats belong to different teams, and have equal observations and masks at their first decisions in all matches.
    They are paid differently if an exchange of their actions does not exchange their returns. Where the seed of the
    match changes returns, too, their mean returns must differ by more than four standard errors instead.
    """
    columns = {(seat.role, seat.index): column for column, seat in enumerate(matches.environment.spec.seats)}
    for role in matches.environment.spec.roles:
        pairs = (
            (one, other)
            for one, other in combinations(range(role.num_seats), 2)
            if role.teams[one] != role.teams[other] and _look_equal(first, role, one, other)
        )
        for one, other in islice(pairs, _MAX_PAIRS):
            at = [columns[role.name, one], columns[role.name, other]]
            exchanged = matches.play(exchanged=(role, one, other)).returns[:, at[::-1]]
            if np.allclose(exchanged, first.returns[:, at], atol=1e-5):
                continue
            by_luck = not np.allclose(matches.play(match_seed=1).returns, first.returns, atol=1e-5)
            if by_luck and not results.differ(*at):
                continue
            names = role.seat_names or tuple(f"seat {seat}" for seat in range(role.num_seats))
            yield (
                f"{names[one]} and {names[other]} of role {role.name} observe the same at their first decision, but "
                f"are paid by other rules: one model cannot play both sides unless an interface shows the side; give "
                f"each side a role of its own, or show the side in the observation"
            )
            break


def _look_equal(record: Record, role: Role, one: int, other: int) -> bool:
    views = record.views.get((role.name, one), {}), record.views.get((role.name, other), {})
    both = views[0].keys() & views[1].keys()
    return bool(both) and all(views[0][match] == views[1][match] for match in both)
