"""Play replays in an environment, and compare the states with those of the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from attrs import define, field, frozen

from ludus._replays.block import Replay, check_roles
from ludus._replays.state_hash import StateHash, StateLeaves
from ludus._seeding import match_seeds
from ludus.environment import Environment, Role, Tick
from ludus.errors import ContractError, ReplayError
from ludus.spaces import action_dtype, action_width, label_sizes


@frozen(eq=False)
class ReplayTick:
    """A tick of matches that are played again.

    Attributes:
        number: Number of the tick, from 0.
        tick: The tick; its arrays belong to the environment.
        actions: By role ``[B, S, L]``: the actions that follow, of acting seats; empty on the last tick.
    """

    number: int
    tick: Tick
    actions: Mapping[str, np.ndarray]


class _RoleActions:
    """The recorded actions of one role, which are assigned to the seats that act.

    Args:
        role: The role.
        replays: One replay per match index.
    """

    def __init__(self, role: Role, replays: Sequence[Replay]) -> None:
        self.role = role
        width, dtype = action_width(role.action_space), action_dtype(role.action_space)
        recorded = [replay.actions[role.name] for replay in replays]
        if any(actions.shape[1] != width for actions in recorded):
            raise ContractError(f"actions of role {role.name!r}: expected {width} numbers, got other widths")
        self._sizes = label_sizes(role.action_space)
        nothing = np.zeros((1, width), dtype)  # the last row, for seats without a recorded action
        self._recorded = np.concatenate([*recorded, nothing]).astype(dtype)
        counts = np.array([len(actions) for actions in recorded])
        self._stops = np.cumsum(counts)
        self._next = self._stops - counts
        self.actions = np.zeros((len(replays), role.num_seats, width), dtype)

    def assign(self, acting: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Write the next actions to `actions`, and return ``[B] bool``: matches whose record has no legal action left.

        Args:
            acting: ``[B, S] bool``.
            mask: ``[B, S, A] bool`` or None.
        """
        counts = acting.sum(axis=1)
        matches, seats = acting.nonzero()
        ranks = np.arange(matches.size) - (np.cumsum(counts) - counts).take(matches)
        positions = self._next.take(matches) + ranks
        exhausted = positions >= self._stops.take(matches)
        actions = self._recorded[np.where(exhausted, len(self._recorded) - 1, positions)]
        own_mask = None if mask is None else mask[matches, seats]
        wrong = exhausted | ~self._are_legal(actions, own_mask)
        actions[wrong] = self._first_legal(wrong, own_mask)
        self.actions[matches, seats] = actions
        self._next += counts
        flagged: np.ndarray = np.bincount(matches, weights=wrong, minlength=len(acting)) > 0
        return flagged

    def _are_legal(self, actions: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Return ``[n] bool``: all labels of an action exist, and the mask ``[n, A]`` allows them."""
        labels = actions[:, : len(self._sizes)].astype(np.int64)
        legal: np.ndarray = np.all((labels >= 0) & (labels < np.array(self._sizes, np.int64)), axis=1)
        if mask is not None and self._sizes:
            columns = np.cumsum([0, *self._sizes[:-1]]) + np.where(legal[:, None], labels, 0)
            legal &= np.take_along_axis(mask, columns, axis=1).all(axis=1)
        return legal

    def _first_legal(self, wrong: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Return ``[k, L]``: a legal action where ``wrong [n] bool``, so that the other matches can go on."""
        found = np.zeros((np.count_nonzero(wrong), self.actions.shape[2]), self.actions.dtype)
        if mask is not None:
            stops = np.cumsum(self._sizes).tolist()
            for label, (stop, size) in enumerate(zip(stops, self._sizes, strict=True)):
                found[:, label] = mask[wrong, stop - size : stop].argmax(axis=1)
        return found

    def exhausted(self) -> np.ndarray:
        """Return ``[B] bool``: no recorded action is left."""
        exhausted: np.ndarray = self._next >= self._stops
        return exhausted


@define(eq=False)
class ReplayPlayer:
    """Plays replays again, as many at once as the environment has matches.

    Args:
        environment: The environment.
    """

    environment: Environment
    _hash: StateHash = field(init=False, factory=StateHash)

    def find_differences(self, replays: Sequence[Replay]) -> list[str]:
        """Play matches again and return how each differs from its record, in words; empty where it does not.

        Args:
            replays: Any number of replays.
        """
        found: list[str] = []
        size = self.environment.num_matches
        for start in range(0, len(replays), size):
            found += self._compare_group(replays[start : start + size])
        return found

    def _compare_group(self, replays: Sequence[Replay]) -> list[str]:
        problems = [check_roles(replay, self.environment.spec) for replay in replays]
        fitting = [i for i, problem in enumerate(problems) if not problem]
        if fitting:
            for i, problem in zip(fitting, self._compare([replays[i] for i in fitting]), strict=True):
                problems[i] = problem
        return problems

    def _compare(self, replays: Sequence[Replay]) -> list[str]:
        """Compare replays with the roles of the environment; if the environment raises, each one by itself."""
        try:
            group = _Group(self.environment, replays, self._hash)
            for _ in group.play():
                pass
        except ContractError as error:
            return [str(error)] if len(replays) == 1 else [self._compare([replay])[0] for replay in replays]
        return group.problems[: len(replays)]

    def play(self, replay: Replay) -> Iterator[ReplayTick]:
        """Play one match again in the first match of the environment, and yield its ticks, the last one included.

        Raises:
            ReplayError: The match differs from its record.
        """
        if problem := check_roles(replay, self.environment.spec):
            raise ReplayError(f"match {replay.name}: {problem}")
        group = _Group(self.environment, [replay], self._hash)
        for tick in group.play():
            if group.problems[0]:
                raise ReplayError(f"match {replay.name}: {group.problems[0]}")
            yield tick
        if group.problems[0]:
            raise ReplayError(f"match {replay.name}: {group.problems[0]}")


class _Group:
    """Replays that are played at the same time, at the first match indices; the last one fills the others.

    Args:
        environment: The environment.
        replays: At least one replay, and at most as many as the environment has matches.
        hash: Computes hashes of states.

    Attributes:
        problems: How each match differs from its record; empty where it does not.
    """

    def __init__(self, environment: Environment, replays: Sequence[Replay], hash: StateHash) -> None:
        self._environment, self._spec, self._hash = environment, environment.spec, hash
        self._leaves = StateLeaves(environment.spec)
        filled = [*replays, *[replays[-1]] * (environment.num_matches - len(replays))]
        self._replays = filled
        self._roles = [_RoleActions(role, filled) for role in self._spec.roles]
        self._lengths = np.array([replay.ticks for replay in filled])
        self._returns = np.zeros((len(filled), len(self._spec.seats)), np.float32)
        self._hashes: dict[int, list[tuple[int, int]]] = {}  # match index and hash by tick
        for i, replay in enumerate(filled):
            for number, value in replay.hashes.items():
                self._hashes.setdefault(number, []).append((i, value))
        self._running = np.ones(len(filled), bool)
        self.problems = [""] * len(filled)

    def play(self) -> Iterator[ReplayTick]:
        """Play until every match has ended or differs from its record; yield all ticks."""
        fixtures = [(replay.fixture, replay.number) for replay in self._replays]
        seeds = np.concatenate([match_seeds(fixture.seed, np.array([number])) for fixture, number in fixtures])
        tick = self._environment.reset(seeds, scenarios=[fixture.scenario for fixture, _ in fixtures])
        number = 0
        while self._is_undecided():
            self._compare_hashes(number, tick)
            actions = self._assign_actions(number, tick)
            yield ReplayTick(number, tick, actions)
            tick = self._environment.step(actions)
            number += 1
            self._returns += np.concatenate([tick.roles[role.name].reward for role in self._spec.roles], axis=1)
            self._compare_ends(number, tick)
        yield ReplayTick(number, tick, {})

    def _is_undecided(self) -> bool:
        return any(running and not problem for running, problem in zip(self._running, self.problems, strict=True))

    def _report(self, match: int, problem: str) -> None:
        self.problems[match] = self.problems[match] or problem

    def _compare_hashes(self, number: int, tick: Tick) -> None:
        recorded = [(i, value) for i, value in self._hashes.get(number, ()) if self._running[i]]
        if not recorded:
            return
        found = self._hash(self._leaves(tick))
        for i, value in recorded:
            if found[i] != value:
                earlier = [other for other in self._replays[i].hashes if other < number]
                since = f"tick {max(earlier)} and {number}" if earlier else f"its start and tick {number}"
                self._report(i, f"the state differs from the record since a tick between {since}")

    def _assign_actions(self, number: int, tick: Tick) -> dict[str, np.ndarray]:
        for role in self._roles:
            role_tick = tick.roles[role.role.name]
            flagged = role.assign(role_tick.acting & self._running[:, None], role_tick.action_mask)
            for i in flagged.nonzero()[0].tolist():
                self._report(i, f"no legal action of role {role.role.name} is recorded at tick {number}")
        return {role.role.name: role.actions for role in self._roles}

    def _compare_ends(self, number: int, tick: Tick) -> None:
        ended = (tick.terminated | tick.truncated) & self._running
        for i in ended.nonzero()[0].tolist():
            self._compare_end(i, number, tick)
        self._running &= ~ended
        for i in (self._running & (number >= self._lengths)).nonzero()[0].tolist():
            self._report(i, f"it goes on after tick {number}, on which the recorded match ended")

    def _compare_end(self, match: int, number: int, tick: Tick) -> None:
        replay, own = self._replays[match], slice(match, match + 1)
        outcome = tuple(tick.outcome[match].astype(np.float32).tolist())
        final = [leaf[own] for leaf in self._leaves(tick)]
        if number != replay.ticks:
            self._report(match, f"it ends on tick {number}, the recorded match on tick {replay.ticks}")
        elif outcome != replay.outcome:
            self._report(match, f"the outcome is {_points(outcome)}, the recorded one {_points(replay.outcome)}")
        elif int(self._hash([*final, self._returns[own]])[0]) != replay.final_hash:
            self._report(match, "the final observations or the returns differ from the record")
        elif not all(role.exhausted()[match] for role in self._roles):
            self._report(match, "it ends before all recorded actions are played")


def _points(outcome: Sequence[float]) -> str:
    return " : ".join(f"{points:g}" for points in outcome)
