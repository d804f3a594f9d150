"""The running matches of a batch: their age, the rewards of their seats, and checks of their ticks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ludus._plugins.error_wrapping import format_error
from ludus._sampling.seats import SeatRewards
from ludus.environment import EnvironmentSpec, Role, RoleTick, Tick
from ludus.errors import ContractError
from ludus.spaces import action_dtype, action_width, label_sizes

#: Statistic that holds the returns of the seats of a role.
RETURN = "return"


class RunningMatches:
    """The running matches of a batch.

    Args:
        num_matches: B.

    Attributes:
        idle: ``[B] bool``, True for match indices without a running match.
        num_idle: Number of True entries of `idle`.
        steps: Number of steps of the environment.
    """

    def __init__(self, num_matches: int) -> None:
        self.idle = np.ones(num_matches, bool)
        self.num_idle = num_matches
        self.steps = 0
        self._start_steps = np.zeros(num_matches, np.int64)

    @property
    def num_running(self) -> int:
        """Return the number of running matches."""
        return self.idle.size - self.num_idle

    def start(self, indices: np.ndarray) -> None:
        """Mark idle match indices as running."""
        self.num_idle -= indices.size
        self.idle[indices] = False
        self._start_steps[indices] = self.steps

    def end(self, indices: np.ndarray) -> None:
        """Mark running match indices as idle."""
        self.num_idle += indices.size
        self.idle[indices] = True

    def ages(self, indices: np.ndarray | np.intp) -> np.ndarray:
        """Return the age in ticks of the matches at these indices."""
        return np.asarray(self.steps - self._start_steps.take(indices))


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
        self._elapsed_ticks += 1 if tick.elapsed_ticks is None else tick.elapsed_ticks[:, None]
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

    def return_statistics(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Return the returns ``[n, S]`` of each role's seats by ``"statistic/ROLE/return"``."""
        return {f"statistic/{role.name}/{RETURN}": role.returns.take(indices, axis=0) for role in self.roles}

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
        returns: ``[B, S] float32``, rewards since the start of the match.
        label_bounds: First column of each action label in a mask, and the number of columns.
        actions: ``[B, S, L]`` actions for the environment.
        flat_actions: The same memory as ``[B · S, L]``.
    """

    def __init__(
        self, role: Role, columns: slice, *, reward: np.ndarray, elapsed_ticks: np.ndarray, returns: np.ndarray
    ) -> None:
        num_matches, seats = reward.shape
        self.name, self.num_seats, self.seat_names = role.name, role.num_seats, role.seat_names
        self.seat_endings, self.statistics = role.seat_endings, role.statistics
        self._reward, self._elapsed_ticks = reward[:, columns], elapsed_ticks[:, columns]
        self.returns = returns[:, columns]
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
        self.returns += tick.reward
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


class TickChecks:
    """Checks ticks of one environment.

    Args:
        spec: Specification of the environment.
        running: The running matches.
    """

    def __init__(self, spec: EnvironmentSpec, running: RunningMatches) -> None:
        self._environment = f"environment {spec.name!r}"
        self._num_teams = spec.num_teams
        self._running = running

    def check_rewards(self, roles: Iterable[RoleSeats], tick: Tick) -> None:
        """Check that all rewards are finite.

        Raises:
            ContractError: A reward is not finite.
        """
        for role in roles:
            reward = tick.roles[role.name].reward
            if not np.isfinite(reward).all():
                match, seat = np.argwhere(~np.isfinite(reward))[0]
                raise ContractError(
                    f"{self._environment}: the reward of {self._place(role, match, seat)} is {reward[match, seat]}; "
                    f"expected a finite number"
                )

    def check_mask(self, role: RoleSeats, acting: np.ndarray, mask: np.ndarray) -> None:
        """Check that every acting seat has a legal choice for every label.

        Args:
            role: The role.
            acting: ``[B, S] bool``.
            mask: ``[B, S, A] bool``.

        Raises:
            ContractError: A label of an acting seat has no legal choice.
        """
        for label, (low, high) in enumerate(zip(role.label_bounds, role.label_bounds[1:], strict=False)):
            block = mask[..., low:high]
            legal = block[..., 0] | block.argmax(axis=-1).astype(bool)  # many times faster than `any` on short rows
            if (acting > legal).any():
                match, seat = np.argwhere(acting & ~legal)[0]
                raise ContractError(
                    f"{self._environment}: label {label} of {self._place(role, match, seat)} has no legal action; "
                    f"expected at least one for a seat that acts"
                )

    def check_not_ended(self, role: RoleSeats, index: np.ndarray, ended: np.ndarray) -> None:
        """Check that no acting seat has ended before its match.

        Args:
            role: The role.
            index: ``[n]`` acting seats, see `Seats.index`.
            ended: ``[B, seats] bool``: seats that ended before their match.

        Raises:
            ContractError: A seat acts after its end.
        """
        wrong = index[ended.ravel().take(role.seat_ids(index))]
        if wrong.size:
            match, seat = divmod(wrong[0], role.num_seats)
            raise ContractError(
                f"{self._environment}: {self._place(role, match, seat)} acts although the seat has ended; expected no "
                f"decision of it before the next match"
            )

    def check_observations(self, roles: Iterable[RoleSeats], tick: Tick, error: Exception) -> None:
        """Check that all observations that actors read are finite, after an actor raised `error`.

        Actors fail on observations that are not finite, so this check need not run on every tick.

        Raises:
            ContractError: An observation is not finite, which probably caused `error`.
        """
        for role in roles:
            role_tick = tick.roles[role.name]
            read = role_tick.acting | tick.truncated[:, None]
            if role_tick.truncated is not None:
                read |= role_tick.truncated
            read &= ~self._running.idle[:, None]
            for name, leaf in [*role_tick.observation.items(), *role_tick.privileged.items()]:
                if leaf.dtype.kind != "f":
                    continue
                wrong = read & ~np.isfinite(leaf).all(axis=tuple(range(2, leaf.ndim)))
                if wrong.any():
                    match, seat = np.argwhere(wrong)[0]
                    raise ContractError(
                        f"{self._environment}: leaf {name!r} of {self._place(role, match, seat)} is not finite; "
                        f"expected finite numbers ({format_error(error)})"
                    ) from error

    def checked_outcome(self, indices: np.ndarray, tick: Tick) -> np.ndarray:
        """Return ``[n, teams] float32``, the outcomes of the matches that ended.

        Raises:
            ContractError: Outcomes have a wrong shape or are outside of [0, 1].
        """
        running, expected = self._running, (self._running.idle.size, self._num_teams)
        if tick.outcome.shape != expected:
            raise ContractError(
                f"{self._environment}: outcome has shape {[*tick.outcome.shape]} after {running.steps} ticks; expected "
                f"{[*expected]}, one number per team of each match"
            )
        outcome = tick.outcome.take(indices, axis=0).astype(np.float32, copy=False)
        valid = (outcome >= 0) & (outcome <= 1)
        if not valid.all():
            position, team = np.argwhere(~valid)[0]
            match = indices[position]
            raise ContractError(
                f"{self._environment}: the outcome of team {team} in match {match} after {running.ages(match)} ticks "
                f"is {outcome[position, team]}; expected a number in [0, 1]: 1 for a win, 0.5 for a draw, 0 for a loss"
            )
        return outcome

    def checked_statistics(self, roles: Iterable[RoleSeats], indices: np.ndarray, tick: Tick) -> dict[str, np.ndarray]:
        """Return ``[n, S] float32`` by ``"statistic/ROLE/NAME"``: the statistics of the matches that ended.

        Raises:
            ContractError: A statistic is not finite.
        """
        found = {}
        for role in roles:
            for name in role.statistics:
                values = found[f"statistic/{role.name}/{name}"] = tick.roles[role.name].statistics[name][indices]
                if not np.isfinite(values).all():
                    position, seat = np.argwhere(~np.isfinite(values))[0]
                    raise ContractError(
                        f"{self._environment}: statistic {name!r} of {self._place(role, indices[position], seat)} is "
                        f"{values[position, seat]}; expected a finite number"
                    )
        return found

    def _place(self, role: RoleSeats, match: np.intp, seat: np.intp) -> str:
        name = f" ({role.seat_names[seat]})" if role.seat_names else ""
        return f"role {role.name!r} seat {seat}{name} in match {match} after {self._running.ages(match)} ticks"
