"""An environment that is made when its first match starts: copies of a game may be expensive, and never be played."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ludus._plugins.error_wrapping import close_environment
from ludus.environment import Environment, EnvironmentSpec, Scenario, Tick
from ludus.rendering import Frame, draw_match

__all__ = ["DeferredEnvironment"]


class DeferredEnvironment:
    """A batch of matches that does not exist before the first `reset`.

    Args:
        spec: Specification of the environment.
        num_matches: B.
        make: Makes the environment.
    """

    def __init__(self, spec: EnvironmentSpec, num_matches: int, make: Callable[[], Environment]) -> None:
        self.spec = spec
        self.num_matches = num_matches
        self._make = make
        self._environment: Environment | None = None

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches, see `ludus.environment.Environment.reset`."""
        if self._environment is None:
            self._environment = self._make()
        return self._environment.reset(seeds, indices=indices, scenarios=scenarios)

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick, see `ludus.environment.Environment.step`."""
        assert self._environment is not None
        return self._environment.step(actions)

    def render_frame(self, match: int) -> Frame | None:
        """Return the frame of the environment, see `ludus.rendering.Renderable`."""
        assert self._environment is not None
        return draw_match(self._environment, match)

    def close(self) -> None:
        """Close the environment, if there is one."""
        if self._environment is not None:
            close_environment(self._environment)
