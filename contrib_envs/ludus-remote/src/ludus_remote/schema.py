"""The schema of a game: its roles, their arrays, and the specification of the environment."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from attrs import define, evolve, field, frozen
from gymnasium import Space, spaces
from ludus.environment import EnvironmentSpec, Role, Seat
from ludus.errors import ConfigError, LudusError
from ludus.option import name as name_check

from ludus_remote.payload import Message, ProtocolError, read, read_items

DTYPES = ("float32", "uint8", "int8", "int16", "int32", "int64")
MOST_SEATS, MOST_TEAMS, MOST_ROLES, MOST_LEAVES = 256, 16, 16, 64
_FLAGS = ("zero_sum", "constant_sum", "symmetric", "perfect_information", "sparse_rewards")
_NAME = name_check()
#: Statistic of real-time mode: actions that came too late and were dropped.
LATE = "late_actions"


@frozen
class Leaf:
    """An array of an observation.

    Args:
        dtype: One of `DTYPES`.
        shape: Shape; empty for one number.
        low: Lowest value.
        high: Highest value.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    low: float
    high: float

    @classmethod
    def read(cls, data: Message) -> Leaf:
        """Read a leaf of a schema.

        Raises:
            ProtocolError: It is wrong.
        """
        kind = read(data, "dtype", "text")
        if kind not in DTYPES:
            raise ProtocolError("schema", f"dtype: expected one of {', '.join(DTYPES)}, got {kind!r}")
        dtype = np.dtype(kind).newbyteorder("<")
        shape = tuple(read_items(data, "shape", "int", most=8))
        if any(not 1 <= size <= 1 << 24 for size in shape) or math.prod(shape) * dtype.itemsize > 1 << 28:
            raise ProtocolError("schema", f"shape: {list(shape)} is too large, or has a size below 1")
        bounds = (-math.inf, math.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        low, high = (read(data, key, "float", bound) for key, bound in zip(("low", "high"), bounds, strict=True))
        if not bounds[0] <= low <= high <= bounds[1]:
            raise ProtocolError("schema", f"low and high: expected {bounds[0]} <= {low} <= {high} <= {bounds[1]}")
        return cls(dtype=dtype, shape=shape, low=low, high=high)

    @property
    def num_bytes(self) -> int:
        """Return the size of the array."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def space(self) -> spaces.Box:
        """Return the space."""
        dtype: Any = self.dtype.newbyteorder("=").type
        return spaces.Box(dtype(self.low), dtype(self.high), self.shape, dtype)

    def parse(self, data: object, key: str) -> np.ndarray:
        """Return an array of bytes.

        Args:
            data: The bytes.
            key: Name of the leaf, for errors.

        Raises:
            ProtocolError: There are too few or too many bytes, or a value is not finite.
        """
        if not isinstance(data, bytes):
            raise ProtocolError("message", f"leaf {key!r}: expected bytes, got {type(data).__name__}")
        if len(data) != self.num_bytes:
            raise ProtocolError("value", f"leaf {key!r}: expected {self.num_bytes} bytes, got {len(data)}")
        array = np.frombuffer(data, self.dtype).reshape(self.shape)
        if self.dtype.kind == "f" and not np.isfinite(array).all():
            raise ProtocolError("value", f"leaf {key!r} is not finite")
        return array


@frozen(kw_only=True)
class RoleSchema:
    """A role of the game, as docs/game-protocol.md describes it."""

    name: str
    teams: tuple[int, ...]
    leaves: dict[str, Leaf]
    labels: tuple[int, ...]
    reals: tuple[tuple[float, float], ...]
    mask: bool
    privileged: dict[str, Leaf]
    reward_parts: tuple[str, ...]
    statistics: tuple[str, ...]
    seat_endings: bool
    seat_names: tuple[str, ...]
    builtin: tuple[str, ...]
    no_op: tuple[float, ...]

    @classmethod
    def read(cls, data: Message) -> RoleSchema:
        """Read a role of a schema.

        Raises:
            ProtocolError: It is wrong.
        """
        role = cls(
            name=_names([read(data, "name", "text")], "name")[0],
            teams=tuple(read_items(data, "teams", "int", most=MOST_SEATS)),
            leaves=_read_leaves(data, "leaves"),
            labels=tuple(read_items(data, "labels", "int", most=256)),
            reals=_read_reals(data),
            mask=read(data, "mask", "bool", False),
            privileged=_read_leaves(data, "privileged"),
            reward_parts=_names(read_items(data, "reward_parts", "text"), "reward_parts"),
            statistics=_names(read_items(data, "statistics", "text"), "statistics"),
            seat_endings=read(data, "seat_endings", "bool", False),
            seat_names=tuple(read_items(data, "seat_names", "text")),
            builtin=_names(read_items(data, "builtin", "text"), "builtin"),
            no_op=tuple(read_items(data, "no_op", "float")),
        )
        role._check()
        return role

    def _check(self) -> None:
        width = len(self.labels) + len(self.reals)
        conditions = {
            "teams: expected the team of each seat, from 0": bool(self.teams) and min(self.teams, default=-1) >= 0,
            "leaves: expected at least one": bool(self.leaves),
            "leaves and privileged: expected different names": not self.leaves.keys() & self.privileged.keys(),
            "labels: expected numbers of choices from 1 to 4096": all(1 <= size <= 4096 for size in self.labels),
            "labels, reals: expected at least one of them": width > 0,
            "mask: needs labels": bool(self.labels) or not self.mask,
            "seat_names: expected a name for each seat": len(self.seat_names) in (0, len(self.teams)),
            "no_op: expected a number for each part of an action": len(self.no_op) in (0, width),
        }
        for text, holds in conditions.items():
            if not holds:
                raise ProtocolError("schema", f"role {self.name!r}: {text}")

    @property
    def action_space(self) -> Space[Any]:
        """Return the action space."""
        labels = spaces.Discrete(self.labels[0]) if len(self.labels) == 1 else spaces.MultiDiscrete(list(self.labels))
        if not self.reals:
            return labels
        low, high = np.array(self.reals, np.float32).T
        box = spaces.Box(low, high)
        return spaces.Tuple([labels, box]) if self.labels else box

    @property
    def label_starts(self) -> list[int]:
        """Return the first choice of each label in a mask."""
        return np.cumsum([0, *self.labels[:-1]]).tolist() if self.labels else []

    def role(self) -> Role:
        """Return the role of the environment."""
        return Role(
            name=self.name,
            observation_space=_dict_space(self.leaves),
            action_space=self.action_space,
            teams=self.teams,
            privileged_space=_dict_space(self.privileged) if self.privileged else None,
            seat_endings=self.seat_endings,
            statistics=self.statistics,
            seat_names=self.seat_names,
            builtin=self.builtin,
        )

    def parse_mask(self, data: object) -> np.ndarray:
        """Return a mask ``[A] bool``.

        Raises:
            ProtocolError: It is no mask, or a label has no choice.
        """
        if not isinstance(data, bytes) or len(data) != sum(self.labels):
            raise ProtocolError("value", f"mask: expected {sum(self.labels)} bytes")
        mask = np.frombuffer(data, np.uint8)
        if (mask > 1).any():
            raise ProtocolError("value", "mask: expected bytes 0 and 1")
        legal = np.logical_or.reduceat(mask, self.label_starts)
        if not legal.all():
            raise ProtocolError("value", f"mask: label {int(legal.argmin())} has no choice")
        return mask.astype(bool)


@define(eq=False)
class GameSchema:
    """The schema of a game.

    Args:
        data: The schema as it was sent, with texts as keys.

    Raises:
        ProtocolError: It is wrong.
    """

    data: Message
    roles: tuple[RoleSchema, ...] = field(init=False)
    seats: list[tuple[RoleSchema, int]] = field(init=False)  # role and index within it
    scenarios: dict[str, tuple[str, ...]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.roles = tuple(map(RoleSchema.read, read_items(self.data, "roles", "map", most=MOST_ROLES)))
        self.seats = [(role, index) for role in self.roles for index in range(len(role.teams))]
        table = read(self.data, "scenarios", "map", {}, most=1024)
        self.scenarios = {key: _names(read_items(table, key, "text"), key) for key in _names(table, "scenarios")}
        _names([role.name for role in self.roles], "roles")
        self._check_teams()
        try:
            self.spec()
        except LudusError as error:
            raise ProtocolError("schema", str(error)) from error

    def _check_teams(self) -> None:
        teams = {team for role in self.roles for team in role.teams}
        if not 1 <= len(self.seats) <= MOST_SEATS:
            raise ProtocolError("schema", f"expected 1 to {MOST_SEATS} seats, got {len(self.seats)}")
        if teams != set(range(len(teams))) or len(teams) > MOST_TEAMS:
            raise ProtocolError("schema", f"teams: expected 0 to {MOST_TEAMS - 1} without a gap, got {sorted(teams)}")

    @property
    def num_teams(self) -> int:
        """Return the number of teams."""
        return 1 + max(team for role in self.roles for team in role.teams)

    def difference(self, data: Mapping[str, Any]) -> str:
        """Return the first key in which another schema differs; empty if it is the same."""
        return _difference(self.data, data)

    def spec(self, *, notes: tuple[str, ...] = (), real_time: bool = False) -> EnvironmentSpec:
        """Return the specification of the environment.

        Args:
            notes: Lines for ``ludus check``.
            real_time: Whether the game does not wait: matches do not repeat, and every role has the statistic `LATE`.

        Raises:
            ProtocolError: A value is out of its limits.
        """
        data = self.data
        turn: Literal["turn-based", "simultaneous", "asynchronous"] = _choice(
            data, "turn", "asynchronous", "turn-based", "simultaneous"
        )
        extra = (LATE,) if real_time else ()
        roles = [evolve(role.role(), statistics=(*role.statistics, *extra)) for role in self.roles]
        return EnvironmentSpec(
            name="remote",
            roles=tuple(roles),
            turn=turn,
            tick_s=_read_positive(data, "tick_s", "float"),
            max_ticks=_read_positive(data, "max_ticks", "int"),
            scenarios=tuple(name for name in self.scenarios if name != "default"),
            reward_range=_read_range(data),
            score=_choice(data, "score", "outcome", "return"),
            outcome_rule=read(data, "outcome_rule", "text", "", most=1024),
            notes=notes,
            repeatable=read(data, "repeatable", "bool", True) and not real_time,
            **{flag: read(data, flag, "bool", False) for flag in _FLAGS},
        )

    def seat_list(self) -> list[Seat]:
        """Return all seats in their order."""
        return [Seat(role.name, index, role.teams[index]) for role, index in self.seats]


def read_schema_file(path: Path) -> GameSchema:
    """Read a file that ``ludus remote-schema`` wrote.

    Raises:
        ConfigError: There is no such file, or it is no schema.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise TypeError("expected a table")
        return GameSchema(data)
    except OSError as error:
        raise ConfigError(f"schema: {path}: {error.strerror}; write it by ludus remote-schema") from error
    except (ValueError, TypeError, ProtocolError, RecursionError) as error:
        raise ConfigError(f"schema: {path} is no schema of a game: {error}") from error


def _read_positive(data: Message, key: str, kind: str) -> Any:
    value = None if data.get(key) is None else read(data, key, kind)
    if value is not None and value <= 0:
        raise ProtocolError("schema", f"{key}: expected a positive number, got {value}")
    return value


def _read_range(data: Message) -> tuple[float, float] | None:
    if data.get("reward_range") is None:
        return None
    bounds = read_items(data, "reward_range", "float")
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise ProtocolError("schema", "reward_range: expected the lowest and the highest reward")
    return bounds[0], bounds[1]


def _dict_space(leaves: Mapping[str, Leaf]) -> spaces.Dict:
    return spaces.Dict({name: leaf.space for name, leaf in leaves.items()})


def _read_leaves(data: Message, key: str) -> dict[str, Leaf]:
    table = read(data, key, "map", {}, most=MOST_LEAVES)
    _names(table, key)
    return {name: Leaf.read(read(table, name, "map")) for name in table}


def _read_reals(data: Message) -> tuple[tuple[float, float], ...]:
    bounds = [read_items({"reals": pair}, "reals", "float") for pair in read_items(data, "reals", "list", most=256)]
    if any(len(pair) != 2 or pair[0] >= pair[1] for pair in bounds):
        raise ProtocolError("schema", "reals: expected pairs of low < high")
    return tuple((pair[0], pair[1]) for pair in bounds)


def _names(found: Any, key: str) -> tuple[str, ...]:
    names = tuple(found)
    for name in names:
        if not _NAME.accepts(name):
            raise ProtocolError("schema", f"{key}: {name!r}: expected {_NAME.expected}")
    if len(set(names)) < len(names):
        raise ProtocolError("schema", f"{key}: a name is there twice")
    return names


def _choice(data: Message, key: str, *choices: str) -> Any:
    found = read(data, key, "text", choices[0])
    if found not in choices:
        raise ProtocolError("schema", f"{key}: expected one of {', '.join(choices)}, got {found!r}")
    return found


def _difference(one: Any, other: Any, path: str = "") -> str:
    """Return the path of the first difference of two values of JSON; numbers may be int or float."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = dict.fromkeys([*one, *other])
        pairs = [(f"{path}.{key}".lstrip("."), one.get(key), other.get(key)) for key in keys]
        return next(filter(None, (_difference(a, b, key) for key, a, b in pairs)), "")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return _difference(dict(enumerate(one)), dict(enumerate(other)), path)
    return "" if one == other else path or "the whole"
