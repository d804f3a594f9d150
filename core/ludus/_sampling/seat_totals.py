"""Rewards of all seats of a batch, summed since their last decisions and since the start of their matches."""

from __future__ import annotations

import numpy as np

from ludus._sampling.seats import SeatRewards
from ludus.environment import EnvironmentSpec, Role, RoleTick, Tick
from ludus.spaces import action_dtype, action_width, label_sizes

__all__ = ["RoleSeats", "SeatTotals"]


class SeatTotals:
    """Sums of rewards of all seats.

    Args:
        spec: Specification of the environment.
        num_matches: B.

    Attributes:
        returns: ``[B, seats] float32``, rewards since the start of the match.
        roles: The seats of each role.
    """

    def __init__(self, spec: EnvironmentSpec, num_matches: int) -> None:
        shape = (num_matches, len(spec.seats))
        self.returns = np.zeros(shape, np.float32)
        self._reward = np.zeros(shape, np.float32)  # since the last decision
        self._elapsed_ticks = np.zeros(shape, np.int32)  # since the last decision
        self.roles: list[RoleSeats] = []
        stop = 0
        for role in spec.roles:
            columns = slice(stop, stop := stop + role.num_seats)
            totals = {"reward": self._reward, "elapsed_ticks": self._elapsed_ticks, "returns": self.returns}
            self.roles.append(RoleSeats(role, columns, **totals))

    def add(self, tick: Tick) -> None:
        """Add the rewards of a tick."""
        self._elapsed_ticks += 1
        for role in self.roles:
            role.add(tick.roles[role.name])

    def since_decision(self, role: RoleSeats, index: np.ndarray, seat_ids: np.ndarray) -> SeatRewards:
        """Return the rewards of seats of a role since their last decisions.

        Args:
            role: The role.
            index: ``[n]``, see `Seats.index`.
            seat_ids: ``[n]`` seat ids of the same seats.
        """
        return SeatRewards(
            self._reward.ravel().take(seat_ids),
            self._elapsed_ticks.ravel().take(seat_ids),
            {name: sums.ravel().take(index) for name, sums in role.reward_parts.items()},
        )

    def reset(self, indices: np.ndarray) -> None:
        """Set the sums of new matches to 0."""
        self._reward[indices], self._elapsed_ticks[indices], self.returns[indices] = 0, 0, 0
        for role in self.roles:
            for sums in (*role.reward_parts.values(), *role.part_returns.values()):
                sums[indices] = 0

    def reward_part_means(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Return the returns ``[n]`` of reward parts by ``"part/ROLE/NAME"``, as means over the seats of a role."""
        return {
            f"part/{role.name}/{name}": sums.take(indices, axis=0).mean(axis=1)
            for role in self.roles
            for name, sums in role.part_returns.items()
        }


class RoleSeats:
    """The seats of one role: columns of the totals, and a buffer for actions.

    Args:
        role: The role.
        columns: Columns of the role's seats among all seats.
        reward: ``[B, seats]`` rewards of all seats since their last decisions.
        elapsed_ticks: ``[B, seats]`` ticks since these decisions.
        returns: ``[B, seats]`` rewards since the start of the match.

    Attributes:
        reward_parts: Name to ``[B, S] float32``, sums since the seat's last decision.
        part_returns: Name to ``[B, S] float32``, sums since the start of the match.
        label_bounds: First column of each action label in a mask, and the number of columns.
        actions: ``[B, S, L]`` actions for the environment.
        flat_actions: The same memory as ``[B · S, L]``.
    """

    def __init__(
        self, role: Role, columns: slice, *, reward: np.ndarray, elapsed_ticks: np.ndarray, returns: np.ndarray
    ) -> None:
        num_matches, seats = reward.shape
        self.name, self.num_seats = role.name, role.num_seats
        self._reward, self._elapsed_ticks = reward[:, columns], elapsed_ticks[:, columns]
        self._returns = returns[:, columns]
        self.reward_parts: dict[str, np.ndarray] = {}
        self.part_returns: dict[str, np.ndarray] = {}
        self._is_only_role = role.num_seats == seats
        self._seat_ids = np.arange(num_matches * seats).reshape(num_matches, seats)[:, columns].ravel()
        self.label_bounds = np.cumsum([0, *label_sizes(role.action_space)]).tolist()
        width, dtype = action_width(role.action_space), action_dtype(role.action_space)
        self.actions = np.zeros((num_matches, role.num_seats, width), dtype)
        self.flat_actions = self.actions.reshape(num_matches * role.num_seats, -1)

    def all_seats(self, indices: np.ndarray) -> np.ndarray:
        """Return the index (see `Seats.index`) of all seats of the role in these matches."""
        index: np.ndarray = (indices[:, None] * self.num_seats + np.arange(self.num_seats)).ravel()
        return index

    def seat_ids(self, index: np.ndarray) -> np.ndarray:
        """Return the seat ids of seats with this index (see `Seats.index`)."""
        return index if self._is_only_role else self._seat_ids.take(index)

    def add(self, tick: RoleTick) -> None:
        """Add the rewards of a tick."""
        self._reward += tick.reward
        self._returns += tick.reward
        for name, values in tick.reward_parts.items():
            if name not in self.reward_parts:
                self.reward_parts[name], self.part_returns[name] = np.zeros((2, *self._reward.shape), np.float32)
            self.reward_parts[name] += values
            self.part_returns[name] += values

    def clear_decided(self, acting: np.ndarray) -> None:
        """Set the sums since the last decision to 0 where ``acting [B, S] bool``."""
        for sums in (self._reward, *self.reward_parts.values()):
            np.copyto(sums, 0, where=acting)
        np.copyto(self._elapsed_ticks, 0, where=acting)
