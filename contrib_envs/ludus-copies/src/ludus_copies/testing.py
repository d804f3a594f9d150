"""Test helpers: spaces of every kind that the games of an adapter may have."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces

_BOX = spaces.Box(0, 1, (2,), np.float32)
_UNIT = spaces.Dict({"kind": spaces.Discrete(3, start=1), "at": spaces.Box(-2, 2, (2,), np.float32)})
_THREE = spaces.Discrete(3)
_AIM = spaces.Box(-1, 1, (2,), np.float32)
#: Spaces of observations by name.
OBSERVATIONS: dict[str, Space[Any]] = {
    "nested": spaces.Dict({"a": spaces.Dict({"x": _BOX}), "b": _THREE}),
    "tuple": spaces.Tuple((_BOX, _THREE)),
    "start": spaces.Discrete(4, start=1),
    "image": spaces.Box(0, 255, (4, 42, 42), np.uint8),
    "sequence": spaces.Sequence(_BOX),
    "stacked": spaces.Sequence(_BOX, stack=True),
    "units": spaces.Dict({"own": _BOX, "units": spaces.Sequence(_UNIT)}),
    "stacked units": spaces.Dict({"own": _BOX, "units": spaces.Sequence(_UNIT, stack=True)}),
    "choices": spaces.Sequence(spaces.Discrete(5), stack=True),
}
#: Spaces of actions by name.
ACTIONS: dict[str, Space[Any]] = {
    "start": spaces.Discrete(3, start=1),
    "switches": spaces.MultiBinary(3),
    "several": spaces.MultiDiscrete([3, 4], start=[1, 2]),
    "tuple": spaces.Tuple((_THREE, spaces.Discrete(2))),
    "vectors": spaces.Tuple((_AIM, spaces.Box(0, 5, (1,), np.float64))),
    "hybrid": spaces.Tuple((_THREE, _AIM)),
    "dict": spaces.Dict({"move": _THREE, "aim": _AIM}),
    "nested": spaces.Dict(
        {
            "a": spaces.Tuple((spaces.Discrete(3, start=5), spaces.MultiBinary(2))),
            "b": spaces.Dict({"c": spaces.Box(-1, 1, (2, 2), np.float64), "d": spaces.MultiDiscrete([2, 3])}),
            "e": spaces.Box(0, 10, (1,), np.int32),
        }
    ),
}
#: Names of a space of observations and one of actions; every space occurs in a pair.
PAIRS = [(name, "start") for name in OBSERVATIONS] + [("nested", name) for name in ACTIONS if name != "start"]
