"""Check that the tick that ends a match shows its final observation."""

from __future__ import annotations

from collections import Counter

import numpy as np
from attrs import define, field

from ludus.environment import EnvironmentSpec, RoleTick, Tick
from ludus.testing._errors import fail_environment

__all__ = ["FinalObservations"]

_MIN_SIZE = 8  # numbers in an observation that are hardly ever all 0


@define(kw_only=True)
class FinalObservations:
    """Compares the observation of the tick that ends a match with the first one of that match.

    An environment that resets itself shows the start of a new match, one that clears its arrays shows zeros. A single
    match may end like that, but not every match whose observation changed. Small observations of zeros do not count.

    Args:
        spec: Specification of the environment.
    """

    spec: EnvironmentSpec
    _first: dict[tuple[str, int], bytes] = field(init=False, factory=dict)
    _changed: set[tuple[str, int]] = field(init=False, factory=set)
    _ended: Counter[str] = field(init=False, factory=Counter)
    _lost: Counter[str] = field(init=False, factory=Counter)

    def record(self, tick: Tick, indices: np.ndarray | None) -> None:
        """Record a tick after a reset of the matches at `indices`, or after a step (None)."""
        ended = tick.terminated | tick.truncated
        for name, role_tick in tick.roles.items():
            for match in range(len(ended)) if indices is None else indices:
                self._record((name, int(match)), role_tick, reset=indices is not None, ended=bool(ended[match]))

    def _record(self, key: tuple[str, int], role_tick: RoleTick, *, reset: bool, ended: bool) -> None:
        role, match = key
        arrays = [leaf[match] for leaf in role_tick.observation.values()]
        observation = b"".join(array.tobytes() for array in arrays)
        if reset:
            self._first[key] = observation
            self._changed.discard(key)
        elif ended and key in self._changed:
            cleared = sum(array.size for array in arrays) >= _MIN_SIZE and not any(map(np.any, arrays))
            self._ended[role] += 1
            self._lost[role] += cleared or observation == self._first[key]
        elif observation != self._first[key]:
            self._changed.add(key)

    def check(self) -> None:
        """Check that the final observation of at least one match was shown.

        Raises:
            ContractError: No match showed its final observation.
        """
        for role, count in self._ended.items():
            if self._lost[role] == count:
                problem = "the tick that ends a match shows the start of a match or zeros in each of"
                fail_environment(self.spec, f"{problem} {count} matches; expected the final observation", role=role)
