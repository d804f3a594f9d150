"""Many copies of a game that plays one match at a time, as one batched environment.

This is what adapters to other libraries are made of: an adapter implements `ScalarGame` for one match, `Copies` does
the rest. It is not meant for writing games; a game of one's own is a PettingZoo or Gymnasium environment, or a batched
`ludus.environment.Environment`.

::

    Copies ── slice of rows ── games 1 … n               in this process, one after another
       └───── worker process ── slice of rows …          spread over `workers` processes

Every game is bound once to views of its row: it reads its actions there and writes its tick there, so that nothing is
packed or copied on the way, in this process or another. Workers map the same unlinked temporary file; one socket each
carries a byte per step and back. They make their games from an import path and options that JSON can carry, never from
a pickle, and end when the socket closes. The same seeds give the same matches with any number of workers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from ludus._row_workers import WorkerPool
from ludus._rows import Arrays, GameSlice, Row, ScalarGame, Start, allocate, make_game
from ludus.environment import EnvironmentSpec, Scenario, Tick
from ludus.errors import ContractError
from ludus.spaces import is_continuous, label_sizes

__all__ = [
    "Copies",
    "Row",
    "ScalarGame",
    "action_reader",
    "fold_seed",
    "observation_writer",
    "plain_action_space",
    "plain_observation_space",
]


class Copies:
    """A batched environment made of copies of a scalar game.

    Args:
        factory: ``"package.module:callable"`` that makes one `ScalarGame`.
        options: Keyword arguments of that callable; JSON must be able to carry them where there are workers.
        num_matches: B.
        workers: How many processes to spread the rows over; 0 plays all rows in this one.
        timeout_s: How long a worker may take for one step or one round of resets.

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
        self._spec = game.spec
        self._num_matches = num_matches
        self._rows: GameSlice | WorkerPool
        if workers:
            masked = game.masked_roles
            game.close()
            self._rows = WorkerPool(
                factory,
                options,
                layout=functools.partial(allocate, self._spec, masked, num_matches=num_matches),
                num_matches=num_matches,
                workers=min(workers, num_matches),
                timeout_s=timeout_s,
            )
            self._arrays = self._rows.arrays
        else:
            games = [game, *(make_game(factory, options) for _ in range(1, num_matches))]
            self._arrays = allocate(self._spec, game.masked_roles, num_matches=num_matches)
            self._rows = GameSlice(games, self._arrays)
        self._checks = {
            role.name: _LegalityCheck(label_sizes(role.action_space))
            for role in self._spec.roles
            if not is_continuous(role.action_space)
        }

    @property
    def spec(self) -> EnvironmentSpec:
        """Return what is known before a match starts."""
        return self._spec

    @property
    def num_matches(self) -> int:
        """Return B."""
        return self._num_matches

    def reset(
        self,
        seeds: np.ndarray,
        *,
        rows: np.ndarray | None = None,
        scenarios: Sequence[Scenario] | None = None,
    ) -> Tick:
        """Start new matches in the given rows, see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: The numbers of rows, seeds and scenarios differ, or the game has no such scenario.
        """
        numbers = range(self._num_matches) if rows is None else rows.tolist()
        chosen = [Scenario()] * len(numbers) if scenarios is None else scenarios
        if not len(numbers) == len(seeds) == len(chosen):
            raise ContractError(f"reset: {len(numbers)} rows, {len(seeds)} seeds and {len(chosen)} scenarios differ")
        for scenario in chosen:
            if scenario.name not in ("default", *self._spec.scenarios):
                offered = ", ".join(("default", *self._spec.scenarios))
                raise ContractError(f"{self._spec.name} has no scenario {scenario.name!r}; it has {offered}")
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
                raise ContractError(f"{self._spec.name}: expected actions {mine.shape} of role {role!r}, got {got}")
            np.copyto(mine, given, casting="same_kind")
        for role, check in self._checks.items():
            check(role, self._arrays)
        self._rows.step()
        return self._arrays.tick

    def close(self) -> None:
        """Close all games and end all workers; closing twice is harmless."""
        self._rows.close()


class _LegalityCheck:
    """Refuses illegal discrete actions: the libraries behind raise anything, or nothing and lose the match.

    Args:
        sizes: The number of choices of each label.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = np.array(sizes)
        self._first = np.cumsum(self._sizes) - self._sizes

    def __call__(self, role: str, arrays: Arrays) -> None:
        """Check the actions of a role.

        Raises:
            ContractError: An acting seat's action is out of range or masked.
        """
        seen, actions = arrays.tick.roles[role], arrays.actions[role]
        legal = (actions >= 0) & (actions < self._sizes)
        if seen.action_mask is not None:
            columns = self._first + np.where(legal, actions, 0)
            legal &= np.take_along_axis(seen.action_mask, columns, axis=2)
        wrong = np.argwhere(seen.acting & ~legal.all(axis=2))
        if len(wrong):
            row, seat = wrong[0]
            raise ContractError(
                f"illegal action {actions[row, seat].tolist()} of role {role!r}, match {row}, seat {seat}"
            )


def fold_seed(seed: int) -> int:
    """Fold a 64-bit seed into the 31 bits that every library takes."""
    return (seed ^ seed >> 31 ^ seed >> 62) & 0x7FFFFFFF


def plain_observation_space(space: Space[Any]) -> Space[Any]:
    """Return the space with its Tuple parts as Dict parts keyed ``"0"``, ``"1"``, …; other spaces as they are."""
    if isinstance(space, spaces.Tuple):
        return spaces.Dict({str(i): plain_observation_space(part) for i, part in enumerate(space.spaces)})
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: plain_observation_space(part) for key, part in space.spaces.items()})
    return space


def observation_writer(space: Space[Any], views: Mapping[str, np.ndarray]) -> Callable[[Any], None]:
    """Return a function that writes an observation of `space` into `views`, which has one array per leaf.

    Args:
        space: As the scalar game declares it; Tuple and Dict parts may be nested.
        views: The leaves of `plain_observation_space`, of one seat.
    """
    paths = list(_paths(space))
    if paths == [()]:
        (view,) = views.values()
        return functools.partial(view.__setitem__, ...)
    targets = [(path, views[".".join(map(str, path))]) for path in paths]

    def write(observation: Any) -> None:
        for path, target in targets:
            target[...] = functools.reduce(lambda part, key: part[key], path, observation)

    return write


def _paths(space: Space[Any]) -> Iterable[tuple[Any, ...]]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in parts:
            yield from ((key, *path) for path in _paths(part))
    else:
        yield ()


def plain_action_space(space: Space[Any]) -> Space[Any]:
    """Return the space as roles declare it: Discrete and MultiDiscrete from 0, MultiBinary as labels, Box flat.

    Raises:
        ContractError: It is none of these.
    """
    if isinstance(space, spaces.Box):
        return spaces.Box(space.low.ravel().astype(np.float32), space.high.ravel().astype(np.float32))
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    plain: Space[Any] = spaces.MultiDiscrete(list(label_sizes(space)))
    return plain


def action_reader(space: Space[Any], view: np.ndarray) -> Callable[[], Any]:
    """Return a function that reads the action in `view` (``[L] int64`` or ``[D] float32``) as one of `space`."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return view.item if start == 0 else lambda: view.item() + start
    if isinstance(space, spaces.Box):
        low, high, shape, dtype = space.low, space.high, space.shape, space.dtype
        # Bounds that float32 rounds outwards would otherwise be left by actions at the edge.
        return lambda: np.clip(view.astype(dtype).reshape(shape), low, high)
    starts = np.ravel(getattr(space, "start", 0))
    return lambda: (view + starts).astype(space.dtype).reshape(space.shape)
