"""Check single ticks of an environment, and that each tick follows from the one before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
from attrs import define, field
from gymnasium import Space
from gymnasium.spaces import Box

from ludus.environment import EnvironmentSpec, Leaves, Role, RoleTick, Tick
from ludus.spaces import label_sizes, leaf_spaces
from ludus.testing._errors import describe_place, fail_environment
from ludus.testing._seat_endings import SeatEndings


@define(kw_only=True)
class TickChecker:
    """Checks every tick of a batch of matches.

    Args:
        spec: Specification of the environment.
        num_matches: Number of matches B.
        max_idle_ticks: Consecutive ticks without an acting seat that an asynchronous match, or one with built-in bots,
            may have.
        warn: Called with a kind and a problem for deviations with which learners can work: observations beyond the
            bounds of a Box, and final observations that are not shown; None: they break the contract.
        is_bot: ``[seats] bool``, the seats that built-in bots fill in every match; None: none.
    """

    spec: EnvironmentSpec
    num_matches: int
    max_idle_ticks: int
    warn: Callable[[str, str], None] | None = None
    is_bot: np.ndarray | None = None
    _tick: int = field(init=False, default=0)
    _running: np.ndarray = field(init=False)
    _match_ticks: np.ndarray = field(init=False)  # since the reset of each match
    _idle_ticks: np.ndarray = field(init=False)  # consecutive ticks of a running match without an acting seat
    _acted: dict[str, np.ndarray] = field(init=False, factory=dict)
    _masked: dict[str, bool] = field(init=False, factory=dict)
    _reward_parts: dict[str, set[str]] = field(init=False, factory=dict)
    _final_observations: FinalObservations = field(init=False)
    _seat_endings: SeatEndings = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._running = np.zeros(self.num_matches, bool)
        self._match_ticks = np.zeros(self.num_matches, np.int64)
        self._idle_ticks = np.zeros(self.num_matches, np.int64)
        self._acted = {role.name: np.zeros((self.num_matches, role.num_seats), bool) for role in self.spec.roles}
        self._final_observations = FinalObservations(spec=self.spec)
        self._seat_endings = SeatEndings(spec=self.spec, num_matches=self.num_matches)

    def __call__(self, tick: Tick, indices: np.ndarray | None) -> None:
        """Check a tick after a reset of the matches at `indices`, or after a step (None).

        Raises:
            ContractError: The tick breaks the contract.
        """
        self._check_arrays(tick)
        ended = tick.terminated | tick.truncated
        self._tick += indices is None
        self._seat_endings.check(tick, indices, running=self._running, number=self._tick)
        if indices is None:
            self._check_step(tick, ended)
        else:
            self._check_reset(tick, indices)
        self._check_acting(tick)
        for role in self.spec.roles:
            role_tick = tick.roles[role.name]
            seats = ended[:, None] if role_tick.truncated is None else ended[:, None] | role_tick.truncated
            self._check_role(role, role_tick, seats & (indices is None))
            if self.spec.sparse_rewards and indices is None:
                self._check_sparse_rewards(role, role_tick, seats)
        if self.spec.zero_sum:
            self._check_zero_sum(tick)
        self._final_observations.record(tick, indices)

    def finish(self) -> None:
        """Check what needs several matches."""
        for role, problem in self._final_observations.problems():
            self._deviate(f"final observations of {role}", problem, role=role)

    def _fail(self, problem: str, **location: object) -> NoReturn:
        fail_environment(self.spec, problem, **location, tick=self._tick)

    def _deviate(self, kind: str, problem: str, **location: object) -> None:
        """Report a problem with which learners can work."""
        if self.warn is None:
            self._fail(problem, **location)
        self.warn(kind, f"{describe_place(**location)}: {problem}")

    # -- names, shapes and dtypes

    def _check_arrays(self, tick: Tick) -> None:
        if not isinstance(tick, Tick):
            self._fail(f"expected a Tick, got {type(tick).__name__}")
        names = [role.name for role in self.spec.roles]
        if list(tick.roles) != names:
            self._fail(f"expected the roles {names} in this order, got {list(tick.roles)}")
        self._check_array("terminated", tick.terminated, (self.num_matches,), np.bool_)
        self._check_array("truncated", tick.truncated, (self.num_matches,), np.bool_)
        self._check_array("outcome", tick.outcome, (self.num_matches, self.spec.num_teams), np.float32)
        for role in self.spec.roles:
            self._check_role_arrays(role, tick.roles[role.name])

    def _check_role_arrays(self, role: Role, role_tick: RoleTick) -> None:
        shape = (self.num_matches, role.num_seats)
        self._check_array("acting", role_tick.acting, shape, np.bool_, role=role.name)
        self._check_array("reward", role_tick.reward, shape, np.float32, role=role.name)
        for name in ("terminated", "truncated") if role.seat_endings else ():
            self._check_array(name, getattr(role_tick, name), shape, np.bool_, role=role.name)
        for part, array in role_tick.reward_parts.items():
            self._check_array(f"reward part {part!r}", array, shape, np.float32, role=role.name)
        if tuple(role_tick.statistics) != role.statistics:
            self._fail(f"expected the statistics {role.statistics}, got {(*role_tick.statistics,)}", role=role.name)
        for name, array in role_tick.statistics.items():
            self._check_array(f"statistic {name!r}", array, shape, np.float32, role=role.name)
            for match, seat in _seats(~np.isfinite(array)):
                self._fail(f"statistic {name!r} is {array[match, seat]}", role=role.name, seat=seat, match=match)
        if role_tick.action_mask is not None:
            sizes = label_sizes(role.action_space)
            if not sizes:
                self._fail("action_mask of real actions; expected None", role=role.name)
            self._check_array("action_mask", role_tick.action_mask, (*shape, sum(sizes)), np.bool_, role=role.name)
        self._check_leaves(role, "observation", role_tick.observation, leaf_spaces(role.observation_space))
        self._check_leaves(role, "privileged", role_tick.privileged, leaf_spaces(role.privileged_space))

    def _check_leaves(self, role: Role, group: str, leaves: Leaves, expected: dict[str, Space[Any]]) -> None:
        if leaves.keys() != expected.keys():
            self._fail(f"expected the {group} leaves {sorted(expected)}, got {sorted(leaves)}", role=role.name)
        for name, space in expected.items():
            shape = (self.num_matches, role.num_seats, *(space.shape or ()))
            self._check_array(f"{group} leaf {name!r}", leaves[name], shape, space.dtype, role=role.name)

    def _check_array(self, name: str, array: object, shape: tuple[int, ...], dtype: Any, **location: object) -> None:
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
            got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            self._fail(f"{name}: expected {np.dtype(dtype)} {shape}, got {got}", **location)

    # -- start, progress and end of matches

    def _check_step(self, tick: Tick, ended: np.ndarray) -> None:
        """Check ends of matches, idle matches and max_ticks after a step."""
        idle = ~self._running
        for match in _match_indices(idle & ended):
            self._fail("a match that had ended ended again; an ended match is idle until it is reset", match=match)
        for role, match, seat in _nonzero_rewards(tick, idle):
            self._fail("an idle match got a reward; expected 0 until it is reset", role=role, seat=seat, match=match)
        self._match_ticks[self._running] += 1
        self._running &= ~ended
        for match in _match_indices(ended):
            self._check_outcome(tick.outcome[match], match)
        limit = self.spec.max_ticks
        for match in _match_indices(self._running & (self._match_ticks >= (np.inf if limit is None else limit))):
            self._fail(f"the match goes on after max_ticks = {limit} ticks", match=match)

    def _check_outcome(self, outcome: np.ndarray, match: int) -> None:
        if not ((outcome >= 0) & (outcome <= 1)).all():
            self._fail(f"outcome {outcome.tolist()}: expected values in [0, 1]", match=match)
        if self.spec.constant_sum and not np.isclose(outcome.sum(), 1.0, atol=1e-5):
            self._fail(f"outcome {outcome.tolist()}: constant_sum is declared, expected a sum of 1", match=match)

    def _check_reset(self, tick: Tick, indices: np.ndarray) -> None:
        self._running[indices] = True
        self._match_ticks[indices] = self._idle_ticks[indices] = 0
        fresh = np.isin(np.arange(self.num_matches), indices)
        for match in _match_indices(fresh & (tick.terminated | tick.truncated)):
            self._fail("terminated or truncated is set right after a reset", match=match)
        for role, match, seat in _nonzero_rewards(tick, fresh):
            self._fail("the reward is not 0 right after a reset", role=role, seat=seat, match=match)

    def _check_acting(self, tick: Tick) -> None:
        """Check the number of acting seats, by the declared kind of turn."""
        acting = np.concatenate([role_tick.acting for role_tick in tick.roles.values()], axis=1)
        count = acting.sum(axis=1)
        if self.is_bot is not None:
            for match, seat in _seats(acting & self.is_bot):
                self._fail(f"seat {seat} of the match acts, although a built-in bot fills it", match=match)
        for match in _match_indices(~self._running & (count > 0)):
            self._fail("a seat acts although the match has ended and was not reset", match=match)
        waits = self.is_bot is None or not self.is_bot.all()  # in a match of bots only, no seat ever acts
        self._idle_ticks = np.where(self._running & (count == 0) & waits, self._idle_ticks + 1, 0)
        for match in _match_indices(self._running & (self._idle_ticks > self.max_idle_ticks)):
            self._fail(f"no seat has acted for {self._idle_ticks[match]} ticks of a running match", match=match)
        only_bots_move = (count == 0) & (self.is_bot is not None)
        for match in _match_indices(self._running & ~only_bots_move):
            if self.spec.turn == "turn-based" and count[match] != 1:
                self._fail(f"{count[match]} seats act in a turn-based match; expected exactly one", match=match)
            if self.spec.turn == "simultaneous" and count[match] == 0:
                self._fail("no seat acts in a running simultaneous match", match=match)

    # -- values

    def _check_zero_sum(self, tick: Tick) -> None:
        total = np.sum([role_tick.reward.sum(axis=1) for role_tick in tick.roles.values()], axis=0)
        for match in _match_indices(np.abs(total) > 1e-4):
            self._fail(f"zero_sum is declared, but the rewards sum to {total[match]:g}", match=match)

    def _check_role(self, role: Role, role_tick: RoleTick, ended: np.ndarray) -> None:
        """Check the values of one role; ``ended [B, 1 or S]`` selects the seats that have a final observation."""
        self._check_rewards(role, role_tick)
        self._check_mask(role, role_tick)
        visible = role_tick.acting | (ended & self._acted[role.name])
        self._acted[role.name] = role_tick.acting.copy()
        groups = (
            ("observation", role_tick.observation, leaf_spaces(role.observation_space)),
            ("privileged", role_tick.privileged, leaf_spaces(role.privileged_space)),
        )
        for group, leaves, expected in groups:
            for name, space in expected.items():
                self._check_values(role, f"{group} leaf {name!r}", leaves[name], space, visible)
        for name, hidden in role_tick.privileged.items():
            for leaf, array in role_tick.observation.items():
                if _share_memory(hidden, array):
                    self._fail(f"privileged leaf {name!r} shares memory with observation leaf {leaf!r}", role=role.name)

    def _check_values(self, role: Role, name: str, array: np.ndarray, space: Space[Any], visible: np.ndarray) -> None:
        """Check that all values are finite, and that those of seats in `visible` are in their space."""
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            match, seat = map(int, np.argwhere(~np.isfinite(array))[0][:2])
            self._fail(f"{name} is not finite", role=role.name, seat=seat, match=match)
        if _all_contained(array[visible], space):
            return
        for match, seat in _seats(visible):
            if not space.contains(array[match, seat]):
                span = f"{array[match, seat].min()} to {array[match, seat].max()}"
                problem = f"{name} is not in {space}: it holds {span}"
                if not isinstance(space, Box):
                    self._fail(problem, role=role.name, seat=seat, match=match)
                self._deviate(f"{name} of {role.name}", problem, role=role.name, seat=seat, match=match)
                return

    def _check_rewards(self, role: Role, role_tick: RoleTick) -> None:
        reward = role_tick.reward
        low, high = self.spec.reward_range or (-np.inf, np.inf)
        for match, seat in _seats(~np.isfinite(reward) | (reward < low - 1e-6) | (reward > high + 1e-6)):
            problem = f"reward {reward[match, seat]:g}; expected a finite number in [{low:g}, {high:g}]"
            self._fail(problem, role=role.name, seat=seat, match=match)
        names = self._reward_parts.setdefault(role.name, set(role_tick.reward_parts))
        if names != set(role_tick.reward_parts):
            problem = f"the reward parts were {sorted(names)} and are now {sorted(role_tick.reward_parts)}"
            self._fail(f"{problem}; they must not change", role=role.name)
        if names and not names.issuperset(role.guidance):
            self._fail(f"guidance names {list(role.guidance)}; the reward parts are {sorted(names)}", role=role.name)
        if names:
            total = np.sum(list(role_tick.reward_parts.values()), axis=0)
            for match, seat in _seats(~np.isclose(total, reward, rtol=1e-4, atol=1e-5)):
                problem = f"the reward parts sum to {total[match, seat]:g}, the reward is {reward[match, seat]:g}"
                self._fail(problem, role=role.name, seat=seat, match=match)

    def _check_sparse_rewards(self, role: Role, role_tick: RoleTick, ended: np.ndarray) -> None:
        for match, seat in _seats((role_tick.reward != 0) & ~ended):
            problem = f"reward {role_tick.reward[match, seat]:g} before the end; sparse_rewards is declared, expected 0"
            self._fail(problem, role=role.name, seat=seat, match=match)

    def _check_mask(self, role: Role, role_tick: RoleTick) -> None:
        masked = self._masked.setdefault(role.name, role_tick.action_mask is not None)
        if masked != (role_tick.action_mask is not None):
            self._fail("action_mask is None on some ticks only; expected it always or never", role=role.name)
        sizes = label_sizes(role.action_space)
        if role_tick.action_mask is None or not sizes:
            return
        for label, legal in enumerate(np.split(role_tick.action_mask, np.cumsum(sizes)[:-1], axis=2)):
            for match, seat in _seats(role_tick.acting & ~legal.any(axis=2)):
                problem = f"every choice of label {label} is masked for an acting seat"
                self._fail(problem, role=role.name, seat=seat, match=match)


def _match_indices(selected: np.ndarray) -> list[int]:
    """Return the match indices selected in ``[B] bool``."""
    return [int(match) for match in np.flatnonzero(selected)]


def _seats(selected: np.ndarray) -> list[tuple[int, int]]:
    """Return match index and seat of each entry selected in ``[B, S] bool``."""
    return [(int(match), int(seat)) for match, seat in np.argwhere(selected)]


def _nonzero_rewards(tick: Tick, selected: np.ndarray) -> Iterator[tuple[str, int, int]]:
    """Yield role, match index and seat of each nonzero reward in the matches selected in ``[B] bool``."""
    for name, role_tick in tick.roles.items():
        for match, seat in _seats((role_tick.reward != 0) & selected[:, None]):
            yield name, match, seat


def _all_contained(values: np.ndarray, space: Space[Any]) -> bool:
    """Return whether all of ``[n, …]`` are in a Box, tested at once; False if that is not known."""
    if not isinstance(space, Box) or values.shape[1:] != space.shape or not np.can_cast(values.dtype, space.dtype):
        return False
    return bool(((values >= space.low) & (values <= space.high)).all())


def _share_memory(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two arrays overlap; False if the test takes too long."""
    try:
        return np.shares_memory(one, other, max_work=100_000)  # type: ignore[arg-type] # any number is fine
    except np.exceptions.TooHardError:
        return False


_MIN_SIZE = 8  # numbers in an observation that are hardly ever all 0


@define(kw_only=True)
class FinalObservations:
    """Compares the observation of the tick that ends a match with the first one of that match.

    An environment that resets itself shows the start of a new match, one that clears its arrays shows zeros. A single
    match may end like that, but not every match whose observation changed. Small observations of zeros do not count.

    Args:
        spec: Specification of the environment.
    """

    spec: EnvironmentSpec
    _first: dict[tuple[str, int], bytes] = field(init=False, factory=dict)
    _changed: set[tuple[str, int]] = field(init=False, factory=set)
    _ended: Counter[str] = field(init=False, factory=Counter)
    _lost: Counter[str] = field(init=False, factory=Counter)

    def record(self, tick: Tick, indices: np.ndarray | None) -> None:
        """Record a tick after a reset of the matches at `indices`, or after a step (None)."""
        ended = tick.terminated | tick.truncated
        for name, role_tick in tick.roles.items():
            for match in range(len(ended)) if indices is None else indices:
                self._record((name, int(match)), role_tick, reset=indices is not None, ended=bool(ended[match]))

    def _record(self, key: tuple[str, int], role_tick: RoleTick, *, reset: bool, ended: bool) -> None:
        role, match = key
        arrays = [leaf[match] for leaf in role_tick.observation.values()]
        observation = b"".join(array.tobytes() for array in arrays)
        if reset:
            self._first[key] = observation
            self._changed.discard(key)
        elif ended and key in self._changed:
            cleared = sum(array.size for array in arrays) >= _MIN_SIZE and not any(map(np.any, arrays))
            self._ended[role] += 1
            self._lost[role] += cleared or observation == self._first[key]
        elif observation != self._first[key]:
            self._changed.add(key)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield roles of which no match showed its final observation, each with a description."""
        for role, count in self._ended.items():
            if self._lost[role] == count:
                problem = "the tick that ends a match shows the start of a match or zeros in each of"
                yield role, f"{problem} {count} matches; expected the final observation"
