"""Actions: how choices become pressed buttons."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from gymnasium import Space, spaces
from ludus.errors import ConfigError

#: Buttons that exclude each other; each group is one label of the actions ``"labels"``.
GROUPS = (
    ("MOVE_FORWARD", "MOVE_BACKWARD"),
    ("MOVE_LEFT", "MOVE_RIGHT"),
    ("TURN_LEFT", "TURN_RIGHT"),
    ("LOOK_UP", "LOOK_DOWN"),
    ("MOVE_UP", "MOVE_DOWN"),
)
_WEAPONS = "SELECT_"
_DELTA = "_DELTA"


class Buttons:
    """Translates actions into the states of the buttons.

    Args:
        names: Buttons of the engine in order. Those for the mouse, which end in ``_DELTA``, are never moved.
        kind: ``"single"``, ``"labels"`` or ``"buttons"``.

    Attributes:
        space: Space of the actions.
        idle: State in which no button is pressed.

    Raises:
        ConfigError: There is no button to press.
    """

    def __init__(self, names: Sequence[str], kind: str) -> None:
        pressed = [index for index, name in enumerate(names) if not name.endswith(_DELTA)]
        if not pressed:
            raise ConfigError(f"buttons: expected one that can be pressed, got {', '.join(names) or 'none'}")
        alone = [[index] for index in pressed]
        labels = {"single": [pressed], "labels": _labels(names, pressed), "buttons": alone}[kind]
        self.idle = [0.0] * len(names)
        self._press = functools.lru_cache(maxsize=4096)(self._add_up)
        self._tables = []
        for label in labels:
            table = np.zeros((1 + len(label), len(names)))
            table[range(1, 1 + len(label)), label] = 1
            self._tables.append(table)
        sizes = [len(table) for table in self._tables]
        self.space: Space[np.ndarray] | spaces.Discrete = (
            spaces.Discrete(sizes[0]) if len(sizes) == 1 else spaces.MultiDiscrete(sizes)
        )

    def press(self, action: np.ndarray) -> list[float]:
        """Return the state of every button.

        Args:
            action: ``[L] int64``; choice 0 of a label presses none of its buttons.
        """
        return self._press(tuple(action.tolist()))

    def _add_up(self, choices: tuple[int, ...]) -> list[float]:
        states = [table[choice] for table, choice in zip(self._tables, choices, strict=True)]
        pressed: list[float] = np.sum(states, axis=0).tolist()
        return pressed


def _labels(names: Sequence[str], pressed: Sequence[int]) -> list[list[int]]:
    """Return the buttons of each label: opposite ones, all that choose weapons, and each other one alone."""
    weapons = tuple(names[index] for index in pressed if names[index].startswith(_WEAPONS))
    alone = tuple((names[index],) for index in pressed)
    labels: list[list[int]] = []
    grouped: set[str] = set()
    for group in (*GROUPS, weapons, *alone):
        label = [names.index(name) for name in group if name in names and name not in grouped]
        grouped.update(group)
        labels += [label] if label else []
    return labels
