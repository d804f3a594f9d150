"""A batched environment made of copies of a scalar game."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ludus.environment import Role, Scenario, Tick, checked_scenarios
from ludus.errors import ContractError
from ludus.rendering import Frame
from ludus.spaces import is_continuous, label_sizes

from ludus_copies.arrays import ArrayPlan, BatchArrays, GameBatch, MatchStart, allocate, make_games
from ludus_copies.settings import IsolatedSettings
from ludus_copies.workers import ProcessPool


class Copies:
    """A batched environment made of copies of a scalar game.

    Args:
        factory: ``"package.module:callable"`` that makes one `ScalarGame`.
        options: Keyword arguments of that callable; JSON values if there are workers.
        num_matches: B.
        workers: Number of worker processes that share the matches; 0 plays all matches in this process.
        timeout_s: Timeout of a worker for one step, one start of a match, and making one game, which may take a minute.

    Raises:
        WorkerError: A worker process could not be started, failed, died or timed out.
    """

    def __init__(
        self, factory: str, options: Mapping[str, Any], *, num_matches: int, workers: int = 0, timeout_s: float = 300.0
    ) -> None:
        if num_matches < 1 or workers < 0:
            raise ContractError(f"expected num_matches ≥ 1 and workers ≥ 0, got {num_matches} and {workers}")
        self._isolated = IsolatedSettings()
        with self._isolated:
            games = make_games(factory, options, 1 if workers else num_matches)
        self.spec = games[0].spec
        self.num_matches = num_matches
        self._games: GameBatch | ProcessPool
        plan = ArrayPlan.of(games[0])
        if workers:
            games[0].close()
            self._games = ProcessPool(
                factory,
                options,
                layout=functools.partial(allocate, plan, num_matches=num_matches),
                num_matches=num_matches,
                workers=min(workers, num_matches),
                timeout_s=timeout_s,
            )
            self._arrays = self._games.arrays
        else:
            self._arrays = allocate(plan, num_matches=num_matches)
            self._games = GameBatch(games, self._arrays)
        self._legality_checks = [
            _LegalityCheck(role, self._arrays) for role in self.spec.roles if not is_continuous(role.action_space)
        ]

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches, see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: The numbers of matches, seeds and scenarios differ, or the game has no such scenario or
                built-in bot, or the default scenario is given parameters.
        """
        chosen = range(self.num_matches) if indices is None else indices.tolist()
        if len(chosen) != len(seeds):
            raise ContractError(f"expected one seed for each of {len(chosen)} matches, got {len(seeds)}")
        known = dict.fromkeys(self.spec.scenarios)  # the game checks the parameters
        checked = checked_scenarios(scenarios, len(chosen), known=known, builtin=self.spec.builtin)
        started = checked or [Scenario()] * len(chosen)
        with self._isolated:
            self._games.reset([MatchStart(*start) for start in zip(chosen, seeds.tolist(), started, strict=True)])
        return self._arrays.tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick, see `ludus.environment.Environment.step`.

        Raises:
            ContractError: The actions of a role are missing, have the wrong shape, or that of an acting seat is
                illegal. No match has advanced then.
        """
        for role, mine in self._arrays.actions.items():
            given = actions.get(role)
            if given is None or given.shape != mine.shape:
                got = "nothing" if given is None else f"shape {given.shape}"
                raise ContractError(f"{self.spec.name}: expected actions {mine.shape} of role {role!r}, got {got}")
            np.copyto(mine, given, casting="same_kind")
        for legality_check in self._legality_checks:
            legality_check()
        with self._isolated:
            self._games.step()
        return self._arrays.tick

    def render_frame(self, match: int) -> Frame | None:
        """Return the frame of a match, see `ludus.rendering.Renderable`."""
        with self._isolated:
            return self._games.render_frame(match)

    def close(self) -> None:
        """Close all games and stop all workers; closing twice is harmless."""
        with self._isolated:
            self._games.close()


class _LegalityCheck:
    """Checks the actions of acting seats, since libraries raise arbitrary errors for illegal actions, or end the match.

    Args:
        role: Role whose actions have labels.
        arrays: Arrays of all matches.
    """

    def __init__(self, role: Role, arrays: BatchArrays) -> None:
        seen, actions = arrays.tick.roles[role.name], arrays.actions[role.name]
        self._name, self._seats = role.name, role.num_seats
        self._sizes = np.array(label_sizes(role.action_space))
        self._has_reals = actions.dtype.kind == "f"
        self._acting = seen.acting.ravel()
        self._actions = actions.reshape(self._acting.size, -1)
        self._mask = None if seen.action_mask is None else seen.action_mask.ravel()
        choices = int(self._sizes.sum())
        offsets = np.cumsum(self._sizes) - self._sizes
        self._first = (
            np.arange(self._acting.size)[:, None] * choices + offsets
        )  # index of each label's mask in the flat mask array

    def __call__(self) -> None:
        """Check the actions of all acting seats.

        Raises:
            ContractError: One of them is out of range or masked.
        """
        acting = self._acting.nonzero()[0]
        given = self._actions.take(acting, axis=0)
        if self._has_reals:
            given = self._choices(given)
        wrong = (given < 0) | (given >= self._sizes)
        if not wrong.any() and self._mask is not None:
            wrong = ~self._mask.take(self._first.take(acting, axis=0) + given)
        if wrong.any():
            at = int(wrong.any(axis=1).argmax())
            match, seat = divmod(int(acting[at]), self._seats)
            raise ContractError(
                f"illegal action {given[at].tolist()} of role {self._name!r}, match {match}, seat {seat}"
            )

    def _choices(self, given: np.ndarray) -> np.ndarray:
        """Return the labels of actions ``[n, L + D] float32``, -1 where one is no whole number."""
        labels = given[:, : self._sizes.size]
        whole = (labels >= 0) & (labels < self._sizes) & (labels % 1 == 0)
        return np.where(whole, labels, -1).astype(np.int64)
