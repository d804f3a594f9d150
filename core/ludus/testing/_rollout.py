"""Playing an environment with scripted random actions, in a way that can be repeated exactly.

The k-th match of "line" r has a seed made from the check's seed, r and k, and its actions are made from that seed, the
tick and the seat. A line is therefore the same at any match index and for any number of matches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from attrs import define, field, frozen
from gymnasium import Space, spaces

from ludus import _seeding
from ludus.environment import Environment, EnvironmentSpec, Role, Tick
from ludus.spaces import action_width, label_sizes

__all__ = ["Actions", "Chooser", "Difference", "Picture", "Rollout", "difference", "digest", "match_seed", "picture"]

Actions: TypeAlias = "dict[str, np.ndarray]"
#: A tick without what the contract leaves undefined, copied: ``{"player reward": [B, S], "terminated": [B], …}``.
Picture: TypeAlias = "dict[str, np.ndarray]"


def match_seed(seed: int, line: int, number: int) -> np.uint64:
    """Return the seed of match `number` of a line; it uses all 64 bits."""
    return np.uint64(_seeding.match_seeds(_seeding.seed_for(seed, "line", line), np.array([number]))[0])


@frozen(kw_only=True)
class Chooser:
    """Chooses legal actions at random, as a function of match seed, tick and seat alone.

    Args:
        spec: The environment's.
        idle_filler: Whether the entries of seats that do not act hold the highest action instead of zeros.
        seat_names: What seats are called when random numbers are drawn, per role; None means their index.
    """

    spec: EnvironmentSpec
    idle_filler: bool = False
    seat_names: Mapping[str, Sequence[int]] | None = None

    def __call__(self, tick: Tick, seeds: Sequence[np.uint64], ticks: Sequence[int]) -> Actions:
        """Return the actions of all matches, given the seed and tick of each."""
        return {role.name: self._of_role(role, tick, seeds, ticks) for role in self.spec.roles}

    def _of_role(self, role: Role, tick: Tick, seeds: Sequence[np.uint64], ticks: Sequence[int]) -> np.ndarray:
        seen = tick.roles[role.name]
        actions = self._blank(role, len(seeds))
        for match, seat in zip(*np.nonzero(seen.acting), strict=True):
            name = seat if self.seat_names is None else self.seat_names[role.name][seat]
            rng = _seeding.generator(int(seeds[match]), ticks[match], role.name, int(name))
            mask = None if seen.action_mask is None else seen.action_mask[match, seat]
            actions[match, seat] = random_action(role.action_space, mask, rng)
        return actions

    def _blank(self, role: Role, num_matches: int) -> np.ndarray:
        shape = (num_matches, role.num_seats, action_width(role.action_space))
        sizes = label_sizes(role.action_space)
        if not sizes:
            return np.full(shape, 1e6 if self.idle_filler else 0.0, np.float32)
        actions = np.zeros(shape, np.int64)
        if self.idle_filler:
            actions[:] = np.array(sizes) - 1
        return actions


def random_action(space: Space[Any], mask: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Return one legal action ``[L] int64``, or ``[D] float32`` of a Box."""
    if isinstance(space, spaces.Box):
        low, high = np.maximum(space.low, -10.0).ravel(), np.minimum(space.high, 10.0).ravel()
        return (low + (high - low) * rng.random(len(low))).astype(np.float32)
    sizes = label_sizes(space)
    legal = np.ones(sum(sizes), bool) if mask is None else mask
    labels = np.split(legal, np.cumsum(sizes)[:-1])
    return np.array([rng.choice(np.flatnonzero(label)) for label in labels], np.int64)


@define(kw_only=True)
class Rollout:
    """An environment being played, one line per match index.

    A match that has ended stays idle for (line modulo 3) ticks before the next one starts, so that idle matches are
    checked too.

    Args:
        environment: What is played; all of its matches are reset on construction.
        seed: The check's.
        lines: The line at each match index.
        choose: Gives the actions.
        watch: Called with each tick and the match indices ``[n]`` that were reset, None after a step.
    """

    environment: Environment
    seed: int
    lines: Sequence[int]
    choose: Chooser
    watch: Callable[[Tick, np.ndarray | None], None] | None = None
    tick: Tick = field(init=False)
    numbers: list[int] = field(init=False)
    ticks: list[int] = field(init=False)
    _waited: list[int] = field(init=False)
    _idle: np.ndarray = field(init=False)

    def __attrs_post_init__(self) -> None:
        count = len(self.lines)
        self.numbers, self.ticks, self._waited = [0] * count, [0] * count, [0] * count
        self._idle = np.zeros(count, bool)
        self.tick = self.environment.reset(self.seeds())
        self._show(np.arange(count))

    def seeds(self) -> np.ndarray:
        """Return the seed of each match, ``[B] uint64``."""
        return np.array([match_seed(self.seed, line, n) for line, n in zip(self.lines, self.numbers, strict=True)])

    def actions(self) -> Actions:
        """Return what the chooser does now."""
        return self.choose(self.tick, list(self.seeds()), self.ticks)

    def advance(self, actions: Actions | None = None) -> None:
        """Step once, with the chooser's actions if none are given."""
        self.tick = self.environment.step(self.actions() if actions is None else actions)
        self._show(None)
        self.ticks = [ticks + 1 for ticks in self.ticks]
        self._idle |= self.tick.terminated | self.tick.truncated

    def renew(self) -> None:
        """Reset the ended matches that have been idle for long enough."""
        due = np.array(
            [r for r, line in enumerate(self.lines) if self._idle[r] and self._waited[r] >= line % 3], np.int64
        )
        for match in np.flatnonzero(self._idle):
            self._waited[match] += 1
        if len(due):
            self.restart(due)

    def restart(self, indices: np.ndarray) -> None:
        """Start the next match of the lines at these match indices."""
        for match in indices:
            self.numbers[match] += 1
            self.ticks[match] = self._waited[match] = 0
        self._idle[indices] = False
        self.tick = self.environment.reset(self.seeds()[indices], indices=indices)
        self._show(indices)

    def _show(self, indices: np.ndarray | None) -> None:
        if self.watch is not None:
            self.watch(self.tick, indices)

    def pictures(self, steps: int) -> list[Picture]:
        """Return the tick now and after each of so many steps."""
        seen = [picture(self.tick)]
        for _ in range(steps):
            self.advance()
            seen.append(picture(self.tick))
            self.renew()
        return seen


def picture(tick: Tick) -> Picture:
    """Return a copy of what the contract defines of a tick: masks of acting seats, outcomes of ended matches."""
    ended = tick.terminated | tick.truncated
    seen: Picture = {"terminated": tick.terminated.copy(), "truncated": tick.truncated.copy()}
    seen["outcome"] = np.where(ended[:, None], tick.outcome, 0)
    for name, role in tick.roles.items():
        seen[f"{name} acting"] = role.acting.copy()
        seen[f"{name} reward"] = role.reward.copy()
        if role.action_mask is not None:
            seen[f"{name} action_mask"] = role.action_mask & role.acting[:, :, None]
        groups = {"observation": role.observation, "privileged": role.privileged, "reward part": role.reward_parts}
        for group, leaves in groups.items():
            seen |= {f"{name} {group} {leaf}": array.copy() for leaf, array in leaves.items()}
    return seen


@frozen
class Difference:
    """Where two pictures first differ."""

    what: str
    match: int


def difference(one: Picture, other: Picture, pairs: Sequence[tuple[int, int]]) -> Difference | None:
    """Return where two pictures differ in the given pairs of match indices, None where they are equal."""
    if one.keys() != other.keys():
        return Difference(f"the presence of {', '.join(sorted(one.keys() ^ other.keys()))}", pairs[0][0])
    in_place = all(a == b for a, b in pairs)
    for what, array in one.items():
        nan = array.dtype.kind == "f"
        if in_place and np.array_equal(array, other[what], equal_nan=nan):
            continue
        for a, b in pairs:
            if not np.array_equal(array[a], other[what][b], equal_nan=nan):
                return Difference(what, a)
    return None


def digest(array: np.ndarray) -> str:
    """Return a hash of an array's bytes that is the same in every process."""
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()
