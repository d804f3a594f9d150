"""The environment made of copies."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ludus.environment import Role, Scenario, Tick, checked_scenarios
from ludus.errors import ContractError
from ludus.spaces import is_continuous, label_sizes

from ludus_copies.rows import Arrays, GameSlice, Start, allocate, make_game
from ludus_copies.workers import WorkerPool

__all__ = ["Copies"]


class Copies:
    """A batched environment made of copies of a scalar game.

    Args:
        factory: ``"package.module:callable"`` that makes one `ScalarGame`.
        options: Keyword arguments of that callable; JSON must be able to carry them where there are workers.
        num_matches: B.
        workers: How many processes to spread the rows over; 0 plays all rows in this one.
        timeout_s: How long a worker may take for one step or one round of resets, or to start, which may take a minute.

    Raises:
        WorkerError: A worker process could not be started, failed, died or did not answer in time.
    """

    def __init__(
        self,
        factory: str,
        options: Mapping[str, Any],
        *,
        num_matches: int,
        workers: int = 0,
        timeout_s: float = 300.0,
    ) -> None:
        if num_matches < 1 or workers < 0:
            raise ContractError(f"expected num_matches ≥ 1 and workers ≥ 0, got {num_matches} and {workers}")
        game = make_game(factory, options)
        self.spec = game.spec
        self.num_matches = num_matches
        self._rows: GameSlice | WorkerPool
        if workers:
            masked = game.masked_roles
            game.close()
            self._rows = WorkerPool(
                factory,
                options,
                layout=functools.partial(allocate, self.spec, masked, num_matches=num_matches),
                num_matches=num_matches,
                workers=min(workers, num_matches),
                timeout_s=timeout_s,
            )
            self._arrays = self._rows.arrays
        else:
            games = [game, *(make_game(factory, options) for _ in range(1, num_matches))]
            self._arrays = allocate(self.spec, game.masked_roles, num_matches=num_matches)
            self._rows = GameSlice(games, self._arrays)
        self._legality = [
            _Legality(role, self._arrays) for role in self.spec.roles if not is_continuous(role.action_space)
        ]

    def reset(
        self,
        seeds: np.ndarray,
        *,
        indices: np.ndarray | None = None,
        scenarios: Sequence[Scenario] | None = None,
    ) -> Tick:
        """Start new matches in the given rows, see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: The numbers of rows, seeds and scenarios differ, or the game has no such scenario, or the
                default one is given parameters.
        """
        numbers = range(self.num_matches) if indices is None else indices.tolist()
        if len(numbers) != len(seeds):
            raise ContractError(f"expected one seed for each of {len(numbers)} rows, got {len(seeds)}")
        known = dict.fromkeys(self.spec.scenarios)  # what parameters they take is for the game to say
        chosen = checked_scenarios(scenarios, len(numbers), known=known) or [Scenario()] * len(numbers)
        self._rows.reset([Start(*start) for start in zip(numbers, seeds.tolist(), chosen, strict=True)])
        return self._arrays.tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick, see `ludus.environment.Environment.step`.

        Raises:
            ContractError: The actions of a role are missing, have the wrong shape, or that of an acting seat is
                illegal. No match has moved then.
        """
        for role, mine in self._arrays.actions.items():
            given = actions.get(role)
            if given is None or given.shape != mine.shape:
                got = "nothing" if given is None else f"shape {given.shape}"
                raise ContractError(f"{self.spec.name}: expected actions {mine.shape} of role {role!r}, got {got}")
            np.copyto(mine, given, casting="same_kind")
        for legality in self._legality:
            legality.check()
        self._rows.step()
        return self._arrays.tick

    def close(self) -> None:
        """Close all games and end all workers; closing twice is harmless."""
        self._rows.close()


class _Legality:
    """Refuses illegal actions of acting seats: the libraries behind raise anything, or nothing and lose the match.

    Args:
        role: With labels for actions.
        arrays: Of all matches.
    """

    def __init__(self, role: Role, arrays: Arrays) -> None:
        seen, actions = arrays.tick.roles[role.name], arrays.actions[role.name]
        self._name, self._seats = role.name, role.num_seats
        self._sizes = np.array(label_sizes(role.action_space))
        self._acting = seen.acting.ravel()
        self._actions = actions.reshape(self._acting.size, -1)
        self._mask = None if seen.action_mask is None else seen.action_mask.ravel()
        choices = int(self._sizes.sum())
        offsets = np.cumsum(self._sizes) - self._sizes
        self._first = np.arange(self._acting.size)[:, None] * choices + offsets  # where a label's mask starts

    def check(self) -> None:
        """Look at the actions of all acting seats.

        Raises:
            ContractError: One of them is out of range or masked.
        """
        acting = self._acting.nonzero()[0]
        given = self._actions.take(acting, axis=0)
        wrong = (given < 0) | (given >= self._sizes)
        if not wrong.any() and self._mask is not None:
            wrong = ~self._mask.take(self._first.take(acting, axis=0) + given)
        if wrong.any():
            at = int(wrong.any(axis=1).argmax())
            row, seat = divmod(int(acting[at]), self._seats)
            raise ContractError(f"illegal action {given[at].tolist()} of role {self._name!r}, match {row}, seat {seat}")
