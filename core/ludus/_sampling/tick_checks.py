"""Checks of the ticks that an environment returns. Errors name the environment, the role, the seat and the match."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ludus._plugins.error_wrapping import format_error
from ludus._sampling.running_matches import RunningMatches
from ludus._sampling.seat_totals import RoleSeats
from ludus.environment import EnvironmentSpec, Tick
from ludus.errors import ContractError

__all__ = ["TickChecks"]


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

    def check_observations(self, roles: Iterable[RoleSeats], tick: Tick, error: Exception) -> None:
        """Check that all observations that actors read are finite, after an actor raised `error`.

        Actors fail on observations that are not finite, so this check need not run on every tick.

        Raises:
            ContractError: An observation is not finite, which probably caused `error`.
        """
        for role in roles:
            role_tick = tick.roles[role.name]
            read = (role_tick.acting | tick.truncated[:, None]) & ~self._running.idle[:, None]
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

    def _place(self, role: RoleSeats, match: np.intp, seat: np.intp) -> str:
        return f"role {role.name!r} seat {seat} in match {match} after {self._running.ages(match)} ticks"
