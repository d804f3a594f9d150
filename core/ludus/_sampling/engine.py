"""Playing matches: one environment batch, participants in its seats, results out, decisions recorded.

`Play` is the engine that samplers, evaluators, ``ludus eval`` and tests share. It knows nothing of processes: fixtures
are put in, finished matches and segments are taken out.

Rows of the batch are divided into *tables* of consecutive rows. A table plays one fixture at a time, so the rows of
one opponent lie side by side; each row takes the next match of its table's fixture as soon as its last one ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import define, field

from ludus._plugins.error_wrapping import close_environment, format_error
from ludus._sampling.fixture_scheduling import Tables
from ludus.environment import Environment, Role, RoleTick, Tick
from ludus.errors import ContractError, LudusError
from ludus.records import Fixture
from ludus.spaces import action_dtype, action_width, label_sizes


@define
class Seats:
    """The seats of one role that one actor decides for on this tick, by match row, then by seat.

    Attributes:
        tick: The role's tick (the environment's own arrays).
        index: ``[n]`` row · S + seat, where S is the number of seats of the role.
        seat_ids: ``[n]`` identity of (row, seat) over all roles.
        slots: ``[n]`` which of the models that the actor holds plays there; 0 for actors that hold one.
        values: ``[all seats] float32``, where actors write the value that each seat expects; None if nothing reads it.
        ascending: Whether `index` is.
    """

    tick: RoleTick
    index: np.ndarray
    seat_ids: np.ndarray
    slots: np.ndarray
    values: np.ndarray | None = None
    ascending: bool = True

    @property
    def rows(self) -> np.ndarray:
        """Return ``[n]`` match rows."""
        return np.asarray(self.index // self.tick.acting.shape[1])

    def take(self, array: np.ndarray) -> np.ndarray:
        """Return ``[n, …]``: the entries of these seats from an array ``[B, S, …]``.

        Where these are all seats it is a view of the array: neither write to it nor keep it.
        """
        flat = array.reshape(-1, *array.shape[2:])
        return flat if self.ascending and self.index.size == len(flat) else flat.take(self.index, axis=0)

    def part(self, chosen: np.ndarray) -> Seats:
        """Return some of the seats, in their order: ``chosen [n] bool``."""
        index, seat_ids, slots = self.index[chosen], self.seat_ids[chosen], self.slots[chosen]
        return Seats(self.tick, index, seat_ids, slots, self.values, self.ascending)

    def arranged(self, order: np.ndarray) -> Seats:
        """Return all of the seats in another order: ``order [n]``, where each of them is now."""
        index, seat_ids, slots = self.index[order], self.seat_ids[order], self.slots[order]
        return Seats(self.tick, index, seat_ids, slots, self.values, ascending=False)


@define
class Reward:
    """What n seats received since their last decisions.

    Attributes:
        reward: ``[n] float32``.
        elapsed_ticks: ``[n] int32``.
        parts: The reward's named parts, ``[n] float32`` each.
    """

    reward: np.ndarray
    elapsed_ticks: np.ndarray
    parts: dict[str, np.ndarray] = field(factory=dict)


class Actor(Protocol):
    """A participant that sits in seats of running matches."""

    def start(self, seat_ids: np.ndarray) -> None:
        """Hear that new matches start in these seats."""

    def act(self, seats: Seats, since: Reward) -> np.ndarray:
        """Decide; returns raw actions ``[n, L]``."""

    def end(self, seats: Seats, since: Reward, *, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Hear that the matches of these seats ended."""


class Reader(Actor, Protocol):
    """An actor that learns from what its opponents think of the position."""

    def note(self, seat_ids: np.ndarray, values: np.ndarray) -> None:
        """Hear the opponents' evaluations ``[n] float32`` of where decisions of its seats led; NaN: none will come."""


class _RolePart:
    """One role's seats, which are some columns of what is kept of all seats.

    Args:
        role: The role.
        columns: Its seats among all seats.
        reward: ``[B, seats]`` of all roles, and so are the others.
        elapsed: In ticks.
        returns: Sums of rewards.
    """

    def __init__(
        self, role: Role, columns: slice, *, reward: np.ndarray, elapsed: np.ndarray, returns: np.ndarray
    ) -> None:
        rows, seats = reward.shape
        self.name, self.num_seats = role.name, role.num_seats
        self.reward, self.elapsed, self.returns = reward[:, columns], elapsed[:, columns], returns[:, columns]
        self.reward_parts: dict[str, np.ndarray] = {}  # [B, seats of the role] since the seat's last decision
        self.part_returns: dict[str, np.ndarray] = {}  # likewise since the start of the match
        self.is_all = role.num_seats == seats
        self.seat_ids = np.arange(rows * seats).reshape(rows, seats)[:, columns].ravel()
        self.labels = np.cumsum([0, *label_sizes(role.action_space)]).tolist()  # where each label's mask starts
        width, dtype = action_width(role.action_space), action_dtype(role.action_space)
        self.actions = np.zeros((rows, role.num_seats, width), dtype)
        self.flat_actions = self.actions.reshape(rows * role.num_seats, -1)

    def seats_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the index (see `Seats`) of all its seats in the given rows."""
        index: np.ndarray = (rows[:, None] * self.num_seats + np.arange(self.num_seats)).ravel()
        return index

    def collect(self, tick: RoleTick) -> None:
        """Add what the seats received on a tick."""
        self.reward += tick.reward
        self.returns += tick.reward
        for name, values in tick.reward_parts.items():
            if name not in self.reward_parts:
                self.reward_parts[name], self.part_returns[name] = np.zeros((2, *self.reward.shape), np.float32)
            self.reward_parts[name] += values
            self.part_returns[name] += values

    def seat_ids_of(self, index: np.ndarray) -> np.ndarray:
        """Return the identities over all roles of its seats with this index."""
        return index if self.is_all else self.seat_ids.take(index)


@define
class Play:
    """Matches being played.

    Args:
        environment: The batch; `Play` is its only user.
        resolve: Fixture and seat number → actor and slot, called when a table takes the fixture. The slot must keep
            its model while it is among `slots_in_use`.
        on_results: Called with arrays ``fixture, number, ticks, outcome`` of matches that ended and, for whoever
            measures, ``returns [n, seats] float32``, the sum of each seat's rewards, and sums ``"part/ROLE/NAME" [n]``
            of the rewards' parts, as means over the seats of a role.
        rows_per_fixture: Rows of one table.
        readers: Those who hear what their opponents think. They decide last on a tick, and hear of each other in turns
            only: whoever waits while the other decides.
    """

    environment: Environment
    resolve: Callable[[Fixture, int], tuple[Actor, int]]
    on_results: Callable[[dict[str, np.ndarray]], None]
    rows_per_fixture: int = 32
    readers: Sequence[Reader] = ()
    ticks: int = field(init=False, default=0)
    decisions: int = field(init=False, default=0)
    _now: int = field(init=False, default=0)  # steps of the environment
    _num_idle: int = field(init=False)
    _tables: Tables[Actor] = field(init=False)
    _parts: list[_RolePart] = field(init=False, factory=list)
    _tick: Tick | None = field(init=False, default=None)
    _actions: dict[str, np.ndarray] = field(init=False)
    _since: np.ndarray = field(init=False)  # [B] what `_now` was when the match started
    _idle: np.ndarray = field(init=False)  # [B]
    _reward: np.ndarray = field(init=False)  # [B, seats] since the seat's last decision
    _elapsed: np.ndarray = field(init=False)  # [B, seats] ticks since the seat's last decision
    _returns: np.ndarray = field(init=False)  # [B, seats] since the start of the match
    _values: np.ndarray | None = field(init=False, default=None)  # [B · seats] what was expected on this tick, or NaN
    _against: np.ndarray = field(init=False)  # [seats, seats] float32: 1 for opponents
    _teams: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        spec, rows = self.environment.spec, self.environment.num_matches
        seats = len(spec.seats)
        self._tables = Tables(rows, rows_per_table=self.rows_per_fixture, seats=seats, resolve=self.resolve)
        self._since = np.zeros(rows, np.int64)
        self._num_idle = rows
        self._idle = np.ones(rows, bool)
        self._reward = np.zeros((rows, seats), np.float32)
        self._elapsed = np.zeros((rows, seats), np.int32)
        self._returns = np.zeros((rows, seats), np.float32)
        stop = 0
        for role in spec.roles:
            columns = slice(stop, stop := stop + role.num_seats)
            kept = {"reward": self._reward, "elapsed": self._elapsed, "returns": self._returns}
            self._parts.append(_RolePart(role, columns, **kept))
        self._actions = {part.name: part.actions for part in self._parts}
        teams = np.array([seat.team for seat in spec.seats])
        self._against = (teams[:, None] != teams).astype(np.float32)
        self._teams = spec.num_teams
        if self.readers:
            self._values = np.full(rows * seats, np.nan, np.float32)

    # -- fixtures ----------------------------------------------------------------------------------------------

    def add(self, fixture: Fixture) -> None:
        """Queue a fixture."""
        self._tables.queue.append(fixture)

    def wanted(self, spare: int = 0) -> int:
        """Return how many more fixtures should be queued so that no row waits, with some to spare."""
        return max(0, self._tables.low + 1 + spare - len(self._tables.queue))

    @property
    def fixtures(self) -> int:
        """Return how many fixtures have been begun."""
        return self._tables.begun

    @property
    def starves(self) -> bool:
        """Return whether rows that have played wait for a fixture."""
        return bool(self._num_idle and self.ticks and not self._tables.queue)

    @property
    def running(self) -> int:
        """Return how many matches are being played."""
        return self._idle.size - self._num_idle

    def slots_in_use(self, actor: Actor) -> np.ndarray:
        """Return ``[k] int64``, ascending: the slots of an actor that some row or table plays with."""
        return self._tables.slots_in_use(actor)

    def _start(self, rows: np.ndarray) -> None:
        """Start the next matches in those of the given rows, ascending, for which there are any."""
        rows = self._tables.deal(rows)
        if not rows.size:
            return
        self._num_idle -= rows.size
        self._idle[rows] = False
        self._since[rows] = self._now
        self._reward[rows], self._elapsed[rows], self._returns[rows] = 0, 0, 0
        for part in self._parts:
            for sums in (*part.reward_parts.values(), *part.part_returns.values()):
                sums[rows] = 0
        seats = self._reward.shape[1]
        seat_ids = (rows[:, None] * seats + np.arange(seats)).ravel()
        for actor, chosen in self._tables.by_actor(seat_ids):
            actor.start(seat_ids if chosen is None else seat_ids.take(chosen))
        seeds, scenarios = self._tables.starts(rows)
        self._tick = self._call("reset", seeds, indices=rows, scenarios=scenarios)

    # -- one tick ----------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Play one tick of all running matches.

        Returns:
            Whether anything was played; False when no row has a match.

        Raises:
            ContractError: The environment raised, left an acting seat no legal action, or gave a reward that is not
                finite or an outcome outside [0, 1]; or an agent, interface or policy raised, which is the environment's
                mistake where what it shows is not finite.
        """
        try:
            return self._step()
        except (LudusError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise ContractError(format_error(error, f"after {self._now} ticks")) from error

    def _step(self) -> bool:
        if self._num_idle and self._tables.queue:
            self._start(np.flatnonzero(self._idle))
        if self._tick is None or not self.running:
            return False
        try:
            self._decide(self._tick)
        except Exception as error:
            self._check_observations(self._tick, error)
            raise
        self._tick = tick = self._call("step", self._actions)
        self._now += 1
        self.ticks += self.running
        self._collect(tick)
        ended = tick.terminated | tick.truncated
        if self._num_idle:
            ended &= ~self._idle
        rows = ended.nonzero()[0]
        if rows.size:
            self._finish(rows, tick)
        return True

    def _decide(self, tick: Tick) -> None:
        """Let everybody decide who acts: readers once they have heard the others.

        What readers themselves expect is told to those who wait. For who decides on this tick it came too late: it is
        about the position that the last decision led to, and that one is settled.
        """
        if self._values is not None:
            self._values.fill(np.nan)
        late: list[tuple[_RolePart, Reader, Seats, Reward]] = []
        for part in self._parts:
            self._decide_role(part, tick.roles[part.name], late)
        if self._values is None:
            return
        decides = np.zeros(self._values.size, bool)
        for _, _, seats, _ in late:
            decides[seats.seat_ids] = True
        self._tell(self._values, decides, decides)
        for part, reader, seats, since in late:
            self._put(part, reader, seats, reader.act(seats, since))
        self._tell(self._values, ~decides, np.zeros_like(decides))

    def _decide_role(
        self, part: _RolePart, tick: RoleTick, late: list[tuple[_RolePart, Reader, Seats, Reward]]
    ) -> None:
        acting = tick.acting & ~self._idle[:, None] if self._num_idle else tick.acting
        if tick.action_mask is not None:
            self._check_masks(part, acting, tick.action_mask)
        index = acting.ravel().nonzero()[0]
        seat_ids = part.seat_ids_of(index)
        for actor, chosen in self._tables.by_actor(seat_ids):
            seats, since = self._seats(part, tick, index, chosen)
            reader = next((reader for reader in self.readers if reader is actor), None)
            if reader is None:
                self._put(part, actor, seats, actor.act(seats, since))
            else:
                late.append((part, reader, seats, since))
        for sums in (part.reward, *part.reward_parts.values()):
            np.copyto(sums, 0, where=acting)
        np.copyto(part.elapsed, 0, where=acting)
        self.decisions += index.size

    def _put(self, part: _RolePart, actor: Actor, seats: Seats, actions: np.ndarray) -> None:
        """Take an actor's actions; other shapes might spread over its seats, other types be cut off."""
        kept = part.flat_actions
        shape = (seats.index.size, kept.shape[1])
        is_array = isinstance(actions, np.ndarray)
        if not is_array or actions.shape != shape or not np.can_cast(actions.dtype, kept.dtype, "same_kind"):
            found = f"an array {actions.dtype}{[*actions.shape]}" if is_array else type(actions).__name__
            raise ContractError(
                f"{_name(actor)} gave {found} as the actions of role {part.name!r} after {self._now} ticks; expected "
                f"{kept.dtype}{[*shape]}: a row for each seat that decides, a column for each part of an action"
            )
        kept[seats.index] = actions

    def _seats(
        self, part: _RolePart, tick: RoleTick, index: np.ndarray, chosen: np.ndarray | None
    ) -> tuple[Seats, Reward]:
        if chosen is not None:
            index = index.take(chosen)
        seat_ids = part.seat_ids_of(index)
        since = Reward(
            self._reward.ravel().take(seat_ids),
            self._elapsed.ravel().take(seat_ids),
            {name: sums.ravel().take(index) for name, sums in part.reward_parts.items()},
        )
        return Seats(tick, index, seat_ids, self._tables.slot.ravel().take(seat_ids), self._values), since

    def _tell(self, values: np.ndarray, targets: np.ndarray, readers: np.ndarray) -> None:
        """Tell readers the mean evaluation of the opponents who decided on this tick, wherever some did.

        Args:
            values: ``[all seat_ids] float32``, NaN where nothing is expected, or not yet.
            targets: ``[all seat_ids] bool``.
            readers: ``[all seat_ids] bool``: readers who decide on this tick. Where no more is known than that they do,
                NaN is told: what they say later is about another position.
        """
        shape = self._reward.shape
        values = values.reshape(shape)
        known = ~np.isnan(values)
        opponents = known @ self._against  # [B, seats]: how many
        sums = np.where(known, values, 0) @ self._against
        means = np.divide(sums, opponents, out=np.full(shape, np.nan, np.float32), where=opponents > 0).ravel()
        decided = ((known | readers.reshape(shape)) @ self._against).ravel() > 0
        seat_ids = (targets & decided).nonzero()[0]
        for actor, chosen in self._tables.by_actor(seat_ids):
            for reader in self.readers:
                if reader is actor:
                    at = seat_ids if chosen is None else seat_ids[chosen]
                    reader.note(at, means[at])

    def _collect(self, tick: Tick) -> None:
        self._elapsed += 1
        for part in self._parts:
            reward = tick.roles[part.name].reward
            if not np.isfinite(reward).all():
                row, seat = np.argwhere(~np.isfinite(reward))[0]
                raise ContractError(
                    f"environment {self.environment.spec.name!r} gave role {part.name!r} seat {seat} the reward "
                    f"{reward[row, seat]} in match row {row} after {self._now - self._since[row]} ticks; expected a "
                    f"finite number"
                )
            part.collect(tick.roles[part.name])

    def _check_masks(self, part: _RolePart, acting: np.ndarray, mask: np.ndarray) -> None:
        for label, (low, high) in enumerate(zip(part.labels, part.labels[1:], strict=False)):
            block = mask[..., low:high]
            legal = block[..., 0] | block.argmax(axis=-1).astype(bool)  # many times faster than `any` on short rows
            if (acting > legal).any():
                row, seat = np.argwhere(acting & ~legal)[0]
                raise ContractError(
                    f"environment {self.environment.spec.name!r} leaves role {part.name!r} seat {seat} no legal action "
                    f"of label {label} in match row {row} after {self._now - self._since[row]} ticks; expected at "
                    f"least one, or the seat not to act"
                )

    def _check_observations(self, tick: Tick, error: Exception) -> None:
        """Blame the environment for what somebody made of a tick, if it shows what is not finite.

        Everybody who reads observations refuses that sooner or later, so nobody looks for it on every tick.
        """
        for part in self._parts:
            role = tick.roles[part.name]
            reads = (role.acting | tick.truncated[:, None]) & ~self._idle[:, None]
            for name, leaf in [*role.observation.items(), *role.privileged.items()]:
                if leaf.dtype.kind != "f":
                    continue
                wrong = reads & ~np.isfinite(leaf).all(axis=tuple(range(2, leaf.ndim)))
                if wrong.any():
                    row, seat = np.argwhere(wrong)[0]
                    raise ContractError(
                        f"environment {self.environment.spec.name!r} shows role {part.name!r} seat {seat} a leaf "
                        f"{name!r} that is not finite in match row {row} after {self._now - self._since[row]} ticks; "
                        f"expected finite numbers ({format_error(error)})"
                    ) from error

    def _outcome(self, rows: np.ndarray, tick: Tick) -> np.ndarray:
        """Return ``[n, teams] float32``: what came out in the rows that ended."""
        name, expected = self.environment.spec.name, (self._idle.size, self._teams)
        if tick.outcome.shape != expected:
            raise ContractError(
                f"environment {name!r} gave an outcome {[*tick.outcome.shape]} after {self._now} ticks; expected "
                f"{[*expected]}: a number for every team of every match"
            )
        outcome = tick.outcome.take(rows, axis=0).astype(np.float32, copy=False)
        right = (outcome >= 0) & (outcome <= 1)
        if not right.all():
            at, team = np.argwhere(~right)[0]
            row = rows[at]
            raise ContractError(
                f"environment {name!r} gave team {team} the outcome {outcome[at, team]} in match row {row} after "
                f"{self._now - self._since[row]} ticks; expected a number in [0, 1]: 1 for a win, 0.5 for a draw, "
                f"0 for a loss"
            )
        return outcome

    def _finish(self, rows: np.ndarray, tick: Tick) -> None:
        outcome = self._outcome(rows, tick)
        try:
            self._end(rows, tick)
        except Exception as error:
            self._check_observations(tick, error)
            raise
        self.on_results(
            {
                "fixture": self._tables.fixture_id.take(rows),
                "number": self._tables.number.take(rows),
                "ticks": (self._now - self._since.take(rows)).astype(np.int32),
                "outcome": outcome,
                "returns": self._returns.take(rows, axis=0),
                **{
                    f"part/{part.name}/{name}": sums.take(rows, axis=0).mean(axis=1)
                    for part in self._parts
                    for name, sums in part.part_returns.items()
                },
            }
        )
        self._idle[rows] = True
        self._num_idle += rows.size
        self._start(rows)

    def _end(self, rows: np.ndarray, tick: Tick) -> None:
        """Let everybody know that the matches in these rows are over."""
        for part in self._parts:
            index = part.seats_of(rows)
            seat_ids = part.seat_ids_of(index)
            for actor, chosen in self._tables.by_actor(seat_ids):
                seats, since = self._seats(part, tick.roles[part.name], index, chosen)
                at = seats.rows
                actor.end(seats, since, terminated=tick.terminated.take(at), truncated=tick.truncated.take(at))

    def _call(self, method: str, *arguments: Any, **more: Any) -> Tick:
        """Call the environment; what it raises is told as its mistake."""
        try:
            return getattr(self.environment, method)(*arguments, **more)  # type: ignore[no-any-return]
        except (LudusError, KeyboardInterrupt):
            raise
        except BaseException as error:
            why = format_error(error, f"in {method} after {self._now} ticks")
            raise ContractError(f"environment {self.environment.spec.name!r}: {why}") from error

    def close(self) -> None:
        """Close the environment."""
        close_environment(self.environment)


def _name(actor: Actor) -> str:
    """Return whose code decides for an actor."""
    decides = getattr(actor, "agent", actor)
    decides = getattr(decides, "interface", None) or getattr(decides, "policy", decides)
    return f"{type(decides).__module__}.{type(decides).__qualname__}"
