"""Base class of environments that wrap another environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from attrs import define, field
from ludus.environment import Environment, EnvironmentSpec, Playable, Scenario, Tick

__all__ = ["Wrapper"]


@define
class Wrapper(ABC):
    """Wraps an environment. Subclasses implement `_bind`, `_transform` and `step`.

    Args:
        environment: Environment that the wrapper owns.
    """

    environment: Environment
    _spec: EnvironmentSpec | None = field(init=False, default=None)

    @abstractmethod
    def _bind(self, raw: EnvironmentSpec) -> EnvironmentSpec:
        """Return the spec of the wrapper; called once, before the first tick is returned."""

    @abstractmethod
    def _transform(self, tick: Tick) -> Tick:
        """Return the transformed tick."""

    def _start_matches(self, tick: Tick, indices: np.ndarray) -> None:  # noqa: B027 - optional
        """Prepare for new matches at these match indices; called before `_transform`."""

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the spec of the wrapper. The spec of the wrapped environment must be readable."""
        if self._spec is None:
            self._spec = self._bind(self.environment.spec)
        return self._spec

    @property
    def num_matches(self) -> int:
        """Return B, the number of matches stepped at once."""
        return self.environment.num_matches

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches; see `ludus.environment.Environment.reset`."""
        tick = self.environment.reset(seeds, indices=indices, scenarios=scenarios)
        assert self.spec is not None  # calls `_bind`, after the reset: see the module `environment`
        self._start_matches(tick, np.arange(self.num_matches) if indices is None else indices)
        return self._transform(tick)

    def close(self) -> None:
        """Close the wrapped environment."""
        self.environment.close()

    @property
    def _playable(self) -> Playable:
        """Return the wrapped environment, for wrappers of playable environments."""
        assert isinstance(self.environment, Playable)
        return self.environment
