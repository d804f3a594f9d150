"""What environments around an environment share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from attrs import define, field
from ludus.environment import Environment, EnvironmentSpec, Playable, Scenario, Tick

__all__ = ["Wrapper"]


@define
class Wrapper(ABC):
    """An environment around another one; what it adds is `_bind`, `_show`, and its own `step`.

    Args:
        environment: The game; the wrapper is its only user.
    """

    environment: Environment
    _spec: EnvironmentSpec | None = field(init=False, default=None)

    @abstractmethod
    def _bind(self, raw: EnvironmentSpec) -> EnvironmentSpec:
        """Return the spec for that of the game; called once, before the first tick is shown."""

    @abstractmethod
    def _show(self, tick: Tick) -> Tick:
        """Return how a tick of the game looks."""

    def _start(self, tick: Tick, indices: np.ndarray) -> None:  # noqa: B027 - most have nothing to begin
        """Hear that new matches have started at `indices`; `_show` follows."""

    @property
    def spec(self) -> EnvironmentSpec:
        """Return what is known before a match starts; not to be read before the game knows its own."""
        if self._spec is None:
            self._spec = self._bind(self.environment.spec)
        return self._spec

    @property
    def num_matches(self) -> int:
        """Return B, the number of matches stepped at once."""
        return self.environment.num_matches

    def reset(
        self,
        seeds: np.ndarray,
        *,
        indices: np.ndarray | None = None,
        scenarios: Sequence[Scenario] | None = None,
    ) -> Tick:
        """Start new matches; see `ludus.environment.Environment.reset`."""
        tick = self.environment.reset(seeds, indices=indices, scenarios=scenarios)
        assert self.spec is not None  # binds, now that a game which learns its spaces by starting knows them
        self._start(tick, np.arange(self.num_matches) if indices is None else indices)
        return self._show(tick)

    def close(self) -> None:
        """Close the game."""
        self.environment.close()

    @property
    def _game(self) -> Playable:
        """Return the game, which is known to be playable, for wrappers that are."""
        assert isinstance(self.environment, Playable)
        return self.environment
