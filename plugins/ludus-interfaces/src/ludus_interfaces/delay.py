"""Actions that take effect after a delay.

The decision process behind the interface: the seat decides on every tick on which it acts, and its decision is a
message to the game. The game executes the newest message that has arrived. So the state is that of the game together
with the messages under way and the delay of the match, which the seat observes as the leaf ``"delay"``. The chosen
action, with the observation that it was chosen for, is what is recorded and learned from; which action is executed is
part of the transition. With a jitter, arrivals are random transitions that the seat does not observe in advance.
"""

from __future__ import annotations

import math
from itertools import accumulate

import attrs
import numpy as np
from attrs import define, field
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.interface import Identity, SeatView, Spaces
from ludus.random import random_bits, random_floats
from ludus.spaces import action_dtype, action_width, label_sizes, leaf_spaces, legal_actions, real_box

from ludus_interfaces.actions import replace_illegal
from ludus_interfaces.frames import SeatRows

_NEVER = np.iinfo(np.int64).max
_MOST_PENDING = 1000


@define(kw_only=True)
class Delay(Identity):
    """Executes every action some time after it was chosen; the seat observes its last actions and the delay.

    An action that was chosen on tick t arrives on tick t + ceil((delay + jitter) / tick_ms). On every tick on which the
    seat acts it executes the newest of its actions that have arrived: an action is repeated until a newer one arrives,
    one that a newer action overtakes is dropped, and one that arrives while the seat does not act waits until it does.
    Before the first arrival the seat executes `first_action`. Choices that are illegal when they are executed are
    replaced, label by label: by the choice of `first_action`, or where that is illegal too, by the first legal one.

    The delay of a match is uniform in [min_ms, max_ms], the jitter of a decision in [0, jitter_ms]. Both are functions
    of `seed`, the seat id, and the numbers of its match and decision. A caller that does not state the time between
    decisions (`ludus.interface.TimedInterface`) gets one tick per decision.

    Args:
        tick_ms: Length of a tick.
        min_ms: Shortest delay of a match.
        max_ms: Longest delay of a match, which the observation is scaled by.
        jitter_ms: Longest additional delay of a decision.
        fixed_ms: Delay of all matches, at most max_ms; None to draw it.
        actions: Number of last actions that the seat observes; 0: as many as can be under way, -1: it observes nothing.
        first_action: Choices and real numbers that are executed before the first arrival; empty: zeros.
        seed: Seed of delays and jitter.

    Attributes:
        executed: Number of executed actions.
        replaced: Number of executed actions with a choice that was replaced.

    Raises:
        ContractError: The delays are no range, or too many actions can be under way.
    """

    keeps_labels = True

    tick_ms: float
    min_ms: float = 0.0
    max_ms: float = 300.0
    jitter_ms: float = 0.0
    fixed_ms: float | None = None
    actions: int = 0
    first_action: tuple[float, ...] = ()
    seed: int = 0
    executed: int = field(init=False, default=0)
    replaced: int = field(init=False, default=0)
    _rows: SeatRows = field(init=False, factory=SeatRows)
    _seats: np.ndarray = field(init=False)  # one entry per row of `_rows`, see `_dtype`
    _sizes: tuple[int, ...] = field(init=False, default=())
    _first: np.ndarray = field(init=False)  # [W]

    def __attrs_post_init__(self) -> None:
        if not self.min_ms <= self.max_ms:
            raise ContractError(f"delay: expected min_ms ≤ max_ms, got {self.min_ms:g} and {self.max_ms:g}")
        if self.fixed_ms is not None and not 0 <= self.fixed_ms <= self.max_ms:
            raise ContractError(f"delay: expected fixed_ms from 0 to max_ms = {self.max_ms:g}, got {self.fixed_ms:g}")
        if self._most_pending() > _MOST_PENDING:
            raise ContractError(
                f"delay: {self._most_pending():,} actions can be under way, more than {_MOST_PENDING:,}: expected a "
                f"larger tick_ms than {self.tick_ms:g}, or shorter delays"
            )

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with the leaf ``"delay"``.

        Raises:
            ContractError: There is a leaf of this name, or `first_action` is not in the action space.
        """
        self._sizes, width = label_sizes(raw.action), action_width(raw.action)
        self._first = self._checked_first(raw, width)
        if not hasattr(self, "_seats"):
            self._seats = np.zeros(0, self._dtype(raw, width))
        if self.actions < 0:
            return raw
        leaves = leaf_spaces(raw.observation)
        if "delay" in leaves:
            raise ContractError("delay: the observation has a leaf 'delay' already; list the interface once")
        return Spaces(spaces.Dict({**leaves, "delay": self._leaf(raw)}), raw.action)

    def _checked_first(self, raw: Spaces, width: int) -> np.ndarray:
        """Return `first_action` ``[W]``; without one zeros, clipped to the bounds of real numbers."""
        box, labels, dtype = real_box(raw.action), len(self._sizes), action_dtype(raw.action)
        first = np.array(self.first_action or [0.0] * width)
        if box is not None and not self.first_action:
            first[labels:] = np.clip(first[labels:], box.low, box.high)
        if first.shape != (width,) or not legal_actions(raw.action, first[None])[0]:
            raise ContractError(f"delay: first_action: expected an action of {raw.action}, got {self.first_action}")
        return first.astype(dtype)

    def _most_pending(self) -> int:
        """Return the number of actions that can be under way, the newest included."""
        return math.ceil((self.max_ms + self.jitter_ms) / self.tick_ms) + 1

    def _dtype(self, raw: Spaces, width: int) -> np.dtype[np.void]:
        """Return the entry of a seat; of the last decisions the oldest comes first."""
        pending = max(self._most_pending(), self.actions)
        return np.dtype(
            [
                ("match", np.int64),  # number of the seat's match
                ("seed", np.uint64),  # of that match
                ("delay_ms", np.float64),
                ("decisions", np.int64),  # in that match
                ("tick", np.int64),  # of the last decision
                ("elapsed", np.int64),  # ticks since then; -1: not stated
                ("mask", bool, (sum(self._sizes),)),
                ("action", action_dtype(raw.action), (pending, width)),
                ("chosen", np.int64, (pending,)),  # tick
                ("arrival", np.int64, (pending,)),  # tick
            ]
        )

    def _leaf(self, raw: Spaces) -> spaces.Box:
        """Return the leaf: the delay, then for each of the last actions, the newest first, its age and its parts."""
        box, count = real_box(raw.action), self._num_observed()
        reals = (np.zeros(0), np.zeros(0)) if box is None else (box.low, box.high)
        low, high = (np.concatenate([[end], np.full(sum(self._sizes), end), real]) for end, real in enumerate(reals))
        return spaces.Box(
            np.concatenate([[0.0], np.tile(np.minimum(low, 0), count)]).astype(np.float32),
            np.concatenate([[1.0], np.tile(np.maximum(high, 0), count)]).astype(np.float32),
        )

    def _num_observed(self) -> int:
        return self.actions or self._most_pending() - 1

    def _entries(self, seat_ids: np.ndarray) -> np.ndarray:
        """Return the rows ``[n]`` of seats in `_seats`, which grows as needed."""
        rows = self._rows.rows(seat_ids)
        if missing := self._rows.count - self._seats.size:
            added = np.zeros(missing, self._seats.dtype)
            added["arrival"], added["elapsed"], added["mask"] = _NEVER, -1, True
            self._seats = np.concatenate([self._seats, added])
        return rows

    def reset(self, seat_ids: np.ndarray) -> None:
        """Drop the actions of these seats and draw the delays of their next matches."""
        rows, seats = self._entries(seat_ids), self._seats
        self._rows.reset(seat_ids)
        seats["match"][rows] += 1
        own = random_bits(np.full(rows.size, self.seed, np.uint64), seat_ids)
        seats["seed"][rows] = random_bits(own, seats["match"][rows])
        drawn = random_floats(random_bits(seats["seed"][rows], 0))
        seats["delay_ms"][rows] = (
            self.min_ms + (self.max_ms - self.min_ms) * drawn if self.fixed_ms is None else self.fixed_ms
        )
        seats["arrival"][rows], seats["action"][rows], seats["chosen"][rows] = _NEVER, 0, 0
        seats["tick"][rows], seats["decisions"][rows], seats["elapsed"][rows] = 0, 0, -1

    def elapse(self, ticks: np.ndarray, seat_ids: np.ndarray) -> None:
        """Read the ticks since the last decisions; see `ludus.interface.TimedInterface`."""
        self._seats["elapsed"][self._entries(seat_ids)] = ticks

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        """Return the view with the leaf ``"delay"``."""
        rows, seats = self._entries(seat_ids), self._seats
        elapsed = seats["elapsed"][rows]
        is_first = self._rows.take_fresh(rows)
        seats["tick"][rows] += np.where(is_first, 0, np.where(elapsed < 0, 1, elapsed))
        seats["elapsed"][rows] = -1
        seats["mask"][rows] = True if view.action_mask is None else view.action_mask
        if self.actions < 0:
            return view
        return attrs.evolve(view, observation={**view.observation, "delay": self._observed(rows)})

    def _observed(self, rows: np.ndarray) -> np.ndarray:
        seats, count, labels = self._seats[rows], self._num_observed(), len(self._sizes)
        newest = slice(None, -count - 1, -1)
        action, known = seats["action"][:, newest], (seats["arrival"] != _NEVER)[:, newest]
        age = np.minimum((seats["tick"][:, None] - seats["chosen"][:, newest]) / self._most_pending(), 1)
        parts = [np.where(known, age, 1)[..., None]]
        parts += [
            (action[..., label, None] == np.arange(size)) & known[..., None] for label, size in enumerate(self._sizes)
        ]
        each = np.concatenate([*parts, action[..., labels:]], axis=2)
        delay = seats["delay_ms"] / max(self.max_ms, self.tick_ms)
        return np.concatenate([delay[:, None], each.reshape(rows.size, -1)], axis=1).astype(np.float32)

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        """Send the chosen actions and return those that are executed now."""
        rows, seats = self._entries(seat_ids), self._seats
        entry = seats[rows]
        seats["decisions"][rows] += 1
        jitter_ms = self.jitter_ms * random_floats(random_bits(entry["seed"], entry["decisions"] + 1))
        # a tolerance: 3 ticks of 0.1 ms are 0.30000000000000004 ms
        under_way = np.ceil((entry["delay_ms"] + jitter_ms) / self.tick_ms - 1e-9).astype(np.int64)
        for name, newest in (("action", action), ("chosen", entry["tick"]), ("arrival", entry["tick"] + under_way)):
            entry[name] = np.concatenate([entry[name][:, 1:], newest[:, None]], axis=1)
            seats[name][rows] = entry[name]
        has_arrived = entry["arrival"] <= entry["tick"][:, None]
        position = has_arrived.shape[1] - 1 - has_arrived[:, ::-1].argmax(axis=1)
        arrived = entry["action"][np.arange(rows.size), position]
        executed = np.where(has_arrived.any(axis=1, keepdims=True), arrived, self._first)
        legal = self._legal(executed, entry["mask"])
        self.executed += rows.size
        self.replaced += int((legal != executed).any(axis=1).sum())
        return legal

    def _legal(self, action: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return actions with legal choices."""
        bounds, action = (0, *accumulate(self._sizes)), action.copy()
        for label, start in enumerate(bounds[:-1]):
            is_legal = np.take_along_axis(mask, start + action[:, label, None].astype(np.int64), axis=1)[:, 0]
            action[:, label] = np.where(is_legal, action[:, label], self._first[label])
        return replace_illegal(action, mask, bounds)
