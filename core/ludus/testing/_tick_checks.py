"""What one tick must be like, and what may follow it: the part of the environment kit that watches a match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from attrs import define, field
from gymnasium import Space
from gymnasium.spaces import Box

from ludus.environment import EnvironmentSpec, Leaves, Role, RoleTick, Tick
from ludus.errors import ContractError
from ludus.spaces import label_sizes, leaf_spaces

__all__ = ["Watch", "fail"]

_MANY = 8  # numbers in an observation that do not all become 0 by chance


def fail(spec: EnvironmentSpec, problem: str, **where: object) -> NoReturn:
    """Raise ContractError; the message starts with the environment and, where known, role, seat, match and tick."""
    place = ", ".join(f"{what} {value!r}" for what, value in where.items() if value is not None)
    raise ContractError(f"environment {spec.name!r}{', ' * bool(place)}{place}: {problem}")


@define(kw_only=True)
class Watch:
    """Checks each tick of a batch of matches, and that one follows from the other.

    Args:
        spec: The environment's.
        num_matches: B.
        max_idle_ticks: For how many ticks on end an asynchronous match may go on with nobody acting.
    """

    spec: EnvironmentSpec
    num_matches: int
    max_idle_ticks: int
    _tick: int = field(init=False, default=0)
    _running: np.ndarray = field(init=False)
    _ticks: np.ndarray = field(init=False)  # since the reset of each match
    _idle: np.ndarray = field(init=False)  # ticks on end on which no seat acted in a running match
    _acted: dict[str, np.ndarray] = field(init=False, factory=dict)
    _masked: dict[str, bool] = field(init=False, factory=dict)
    _parts: dict[str, set[str]] = field(init=False, factory=dict)
    _endings: Endings = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._running = np.zeros(self.num_matches, bool)
        self._ticks = np.zeros(self.num_matches, np.int64)
        self._idle = np.zeros(self.num_matches, np.int64)
        self._acted = {role.name: np.zeros((self.num_matches, role.num_seats), bool) for role in self.spec.roles}
        self._endings = Endings(spec=self.spec)

    def __call__(self, tick: Tick, indices: np.ndarray | None) -> None:
        """Check a tick after a reset of some matches, or after a step (None).

        Raises:
            ContractError: It breaks the contract.
        """
        self._check_arrays(tick)
        ended = tick.terminated | tick.truncated
        if indices is None:
            self._tick += 1
            self._follow_step(tick, ended)
        else:
            self._follow_reset(tick, indices)
        self._check_acting(tick)
        for role in self.spec.roles:
            self._check_role(role, tick.roles[role.name], ended & (indices is None))
        if self.spec.zero_sum:
            self._check_zero_sum(tick)
        self._endings.watch(tick, indices)

    def finish(self) -> None:
        """Check what can only be said of many matches together."""
        self._endings.finish()

    def _fail(self, problem: str, **where: object) -> NoReturn:
        fail(self.spec, problem, **where, tick=self._tick)

    def _check_arrays(self, tick: Tick) -> None:
        """Check names, shapes and dtypes."""
        if not isinstance(tick, Tick):
            self._fail(f"expected a Tick, got {type(tick).__name__}")
        names = [role.name for role in self.spec.roles]
        if list(tick.roles) != names:
            self._fail(f"expected the roles {names} in this order, got {list(tick.roles)}")
        flags = {"terminated": tick.terminated, "truncated": tick.truncated}
        for what, array in flags.items():
            self._check_array(what, array, (self.num_matches,), np.bool_)
        self._check_array("outcome", tick.outcome, (self.num_matches, self.spec.num_teams), np.float32)
        for role in self.spec.roles:
            seen, shape = tick.roles[role.name], (self.num_matches, role.num_seats)
            self._check_array("acting", seen.acting, shape, np.bool_, role=role.name)
            self._check_array("reward", seen.reward, shape, np.float32, role=role.name)
            for part, array in seen.reward_parts.items():
                self._check_array(f"reward part {part!r}", array, shape, np.float32, role=role.name)
            if seen.action_mask is not None:
                sizes = label_sizes(role.action_space)
                if not sizes:
                    self._fail("action_mask of real actions; expected None", role=role.name)
                width = (*shape, sum(sizes))
                self._check_array("action_mask", seen.action_mask, width, np.bool_, role=role.name)
            self._check_leaves(role, "observation", seen.observation, leaf_spaces(role.observation_space))
            self._check_leaves(role, "privileged", seen.privileged, leaf_spaces(role.privileged_space))

    def _check_leaves(self, role: Role, group: str, leaves: Leaves, expected: dict[str, Space[Any]]) -> None:
        if leaves.keys() != expected.keys():
            self._fail(f"expected the {group} leaves {sorted(expected)}, got {sorted(leaves)}", role=role.name)
        for name, space in expected.items():
            shape = (self.num_matches, role.num_seats, *(space.shape or ()))
            self._check_array(f"{group} leaf {name!r}", leaves[name], shape, space.dtype, role=role.name)

    def _check_array(self, what: str, array: object, shape: tuple[int, ...], dtype: Any, **where: object) -> None:
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
            got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            self._fail(f"{what}: expected {np.dtype(dtype)} {shape}, got {got}", **where)

    def _follow_step(self, tick: Tick, ended: np.ndarray) -> None:
        """Check what a step did: endings, idle matches, limits."""
        idle = ~self._running
        for match in _match_indices(idle & ended):
            self._fail("a match that had ended ended again; an ended match is idle until it is reset", match=match)
        for role, match, seat in self._nonzero_rewards(tick, idle):
            self._fail("an idle match got a reward; it gets 0 until it is reset", role=role, seat=seat, match=match)
        self._ticks[self._running] += 1
        self._running &= ~ended
        for match in _match_indices(ended):
            self._check_outcome(tick.outcome[match], match)
        limit = self.spec.max_ticks
        for match in _match_indices(self._running & (self._ticks >= (np.inf if limit is None else limit))):
            self._fail(f"the match goes on after max_ticks = {limit} ticks", match=match)

    def _check_outcome(self, outcome: np.ndarray, match: int) -> None:
        if not ((outcome >= 0) & (outcome <= 1)).all():
            self._fail(f"outcome {outcome.tolist()}: expected values in [0, 1]", match=match)
        if self.spec.constant_sum and not np.isclose(outcome.sum(), 1.0, atol=1e-5):
            self._fail(f"outcome {outcome.tolist()}: constant_sum is declared, expected a sum of 1", match=match)

    def _follow_reset(self, tick: Tick, indices: np.ndarray) -> None:
        """Check what a reset did to the matches that were reset."""
        self._running[indices] = True
        self._ticks[indices] = self._idle[indices] = 0
        fresh = np.isin(np.arange(self.num_matches), indices)
        for match in _match_indices(fresh & (tick.terminated | tick.truncated)):
            self._fail("terminated or truncated is set right after a reset", match=match)
        for role, match, seat in self._nonzero_rewards(tick, fresh):
            self._fail("the reward is not 0 right after a reset", role=role, seat=seat, match=match)

    def _nonzero_rewards(self, tick: Tick, selected: np.ndarray) -> Iterator[tuple[str, int, int]]:
        """Yield role, match index and seat of each nonzero reward in the matches selected, ``[B] bool``."""
        for name, seen in tick.roles.items():
            for match, seat in _seats((seen.reward != 0) & selected[:, None]):
                yield name, match, seat

    def _check_acting(self, tick: Tick) -> None:
        """Check who acts, by the declared kind of turn."""
        count = np.sum([seen.acting.sum(axis=1) for seen in tick.roles.values()], axis=0)
        for match in _match_indices(~self._running & (count > 0)):
            self._fail("somebody acts although the match has ended and was not reset", match=match)
        self._idle = np.where(self._running & (count == 0), self._idle + 1, 0)
        for match in _match_indices(self._running):
            if self.spec.turn == "turn-based" and count[match] != 1:
                self._fail(f"{count[match]} seats act in a turn-based match; expected exactly one", match=match)
            if self.spec.turn == "simultaneous" and count[match] == 0:
                self._fail("nobody acts in a running simultaneous match", match=match)
            if self._idle[match] > self.max_idle_ticks:
                self._fail(f"nobody has acted for {self._idle[match]} ticks of a running match", match=match)

    def _check_zero_sum(self, tick: Tick) -> None:
        total = np.sum([seen.reward.sum(axis=1) for seen in tick.roles.values()], axis=0)
        for match in _match_indices(np.abs(total) > 1e-4):
            self._fail(f"zero_sum is declared, but the rewards sum to {total[match]:g}", match=match)

    def _check_role(self, role: Role, seen: RoleTick, ended: np.ndarray) -> None:
        """Check the values of one role; `ended` selects the matches that ended on this tick."""
        self._check_rewards(role, seen)
        self._check_mask(role, seen)
        shown = seen.acting | (ended[:, None] & self._acted[role.name])
        self._acted[role.name] = seen.acting.copy()
        groups = (
            ("observation", seen.observation, leaf_spaces(role.observation_space)),
            ("privileged", seen.privileged, leaf_spaces(role.privileged_space)),
        )
        for group, leaves, expected in groups:
            for name, space in expected.items():
                self._check_values(role, f"{group} leaf {name!r}", leaves[name], space, shown)
        for name, hidden in seen.privileged.items():
            for leaf, array in seen.observation.items():
                if _share_memory(hidden, array):
                    self._fail(f"privileged leaf {name!r} shares memory with observation leaf {leaf!r}", role=role.name)

    def _check_values(self, role: Role, what: str, array: np.ndarray, space: Space[Any], shown: np.ndarray) -> None:
        """Check that what acting seats see lies in its space, and that everything is finite."""
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            match, seat = map(int, np.argwhere(~np.isfinite(array))[0][:2])
            self._fail(f"{what} is not finite", role=role.name, seat=seat, match=match)
        if _all_contained(array[shown], space):
            return
        for match, seat in _seats(shown):
            if not space.contains(array[match, seat]):
                span = f"{array[match, seat].min()} to {array[match, seat].max()}"
                self._fail(f"{what} is not in {space}: it holds {span}", role=role.name, seat=seat, match=match)

    def _check_rewards(self, role: Role, seen: RoleTick) -> None:
        low, high = self.spec.reward_range or (-np.inf, np.inf)
        bad = ~np.isfinite(seen.reward) | (seen.reward < low - 1e-6) | (seen.reward > high + 1e-6)
        for match, seat in _seats(bad):
            got = f"reward {seen.reward[match, seat]:g}; expected a finite number in [{low:g}, {high:g}]"
            self._fail(got, role=role.name, seat=seat, match=match)
        names = self._parts.setdefault(role.name, set(seen.reward_parts))
        if names != set(seen.reward_parts):
            problem = f"the reward parts were {sorted(names)} and are now {sorted(seen.reward_parts)}"
            self._fail(f"{problem}; they must not change", role=role.name)
        if names:
            total = np.sum(list(seen.reward_parts.values()), axis=0)
            for match, seat in _seats(~np.isclose(total, seen.reward, rtol=1e-4, atol=1e-5)):
                problem = f"the reward parts sum to {total[match, seat]:g}, the reward is {seen.reward[match, seat]:g}"
                self._fail(problem, role=role.name, seat=seat, match=match)

    def _check_mask(self, role: Role, seen: RoleTick) -> None:
        masked = self._masked.setdefault(role.name, seen.action_mask is not None)
        if masked != (seen.action_mask is not None):
            self._fail("action_mask is None on some ticks only; it must be so always or never", role=role.name)
        sizes = label_sizes(role.action_space)
        if seen.action_mask is None or not sizes:
            return
        for label, allowed in enumerate(np.split(seen.action_mask, np.cumsum(sizes)[:-1], axis=2)):
            for match, seat in _seats(seen.acting & ~allowed.any(axis=2)):
                problem = f"every choice of label {label} is masked for a seat that acts"
                self._fail(problem, role=role.name, seat=seat, match=match)


def _match_indices(chosen: np.ndarray) -> list[int]:
    """Return the match indices selected in ``[B] bool``."""
    return [int(match) for match in np.flatnonzero(chosen)]


def _seats(chosen: np.ndarray) -> list[tuple[int, int]]:
    """Return match index and seat of each entry selected in ``[B, S] bool``."""
    return [(int(match), int(seat)) for match, seat in np.argwhere(chosen)]


def _all_contained(values: np.ndarray, space: Space[Any]) -> bool:
    """Return whether all of ``[n, …]`` is seen at once to lie in a box; asking for each one takes most of a check."""
    if not isinstance(space, Box) or values.shape[1:] != space.shape or not np.can_cast(values.dtype, space.dtype):
        return False
    return bool(((values >= space.low) & (values <= space.high)).all())


def _share_memory(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two arrays overlap; where that is too hard to tell, whether their address ranges do not."""
    try:
        return np.shares_memory(one, other, max_work=100_000)  # type: ignore[arg-type] # any number is fine
    except np.exceptions.TooHardError:
        return False


@define(kw_only=True)
class Endings:
    """Compares the observation on the tick that ends a match with the first one of that match.

    An environment that resets itself shows the start of a new match there, one that clears its arrays shows zeros. A
    single match may look so by chance, but not every match in which the observation changed on the way; zeros count
    only in observations of some size, as a counter or two may well end at 0.
    """

    spec: EnvironmentSpec
    _first: dict[tuple[str, int], bytes] = field(init=False, factory=dict)
    _moved: set[tuple[str, int]] = field(init=False, factory=set)
    _seen: dict[str, int] = field(init=False, factory=dict)
    _lost: dict[str, int] = field(init=False, factory=dict)

    def watch(self, tick: Tick, indices: np.ndarray | None) -> None:
        """Take note of a tick after a reset of some matches, or after a step (None)."""
        ended = tick.terminated | tick.truncated
        for name, seen in tick.roles.items():
            for match in range(len(ended)) if indices is None else indices:
                self._watch_match((name, int(match)), seen, start=indices is not None, ended=bool(ended[match]))

    def _watch_match(self, key: tuple[str, int], seen: RoleTick, *, start: bool, ended: bool) -> None:
        arrays = [leaf[key[1]] for leaf in seen.observation.values()]
        shown = b"".join(array.tobytes() for array in arrays)
        if start:
            self._first[key] = shown
            self._moved.discard(key)
        elif ended and key in self._moved:
            self._seen[key[0]] = self._seen.get(key[0], 0) + 1
            cleared = sum(array.size for array in arrays) >= _MANY and not any(map(np.any, arrays))
            self._lost[key[0]] = self._lost.get(key[0], 0) + (cleared or shown == self._first[key])
        elif shown != self._first[key]:
            self._moved.add(key)

    def finish(self) -> None:
        """Check that the final observation was shown at least once.

        Raises:
            ContractError: It never was.
        """
        for role, seen in self._seen.items():
            if self._lost.get(role) == seen:
                problem = "the tick that ends a match shows the start of a match or zeros in each of"
                fail(self.spec, f"{problem} {seen} matches; expected the final observation", role=role)
