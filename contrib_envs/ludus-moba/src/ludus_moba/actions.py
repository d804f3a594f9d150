"""The six labels of an action, which of them each button uses, and their names [HoK §4].

An action is button, move x, move y, skill x, skill y, target. The four directions have 15 choices from -1 to 1, in the
own frame: x towards the enemy, y down. The target is 0, the nearest unit in reach, or 1 + the slot of a target.
"""

from __future__ import annotations

import numpy as np

from ludus_moba.rules import SLOT_KINDS, TARGETS

BUTTONS = ("none", "move", "attack", "skill1", "skill2", "skill3", "recall", "heal")
BUTTON = {name: number for number, name in enumerate(BUTTONS)}
STEPS = 15
CENTRE = STEPS // 2
LABELS = (len(BUTTONS), STEPS, STEPS, STEPS, STEPS, 1 + TARGETS)
#: The first entry of each label in a mask.
OFFSETS = np.concatenate([[0], np.cumsum(LABELS)])


def _target_names() -> tuple[str, ...]:
    counts: dict[str, int] = {}
    names = ["nearest", "hero"]
    for kind in SLOT_KINDS:
        counts[kind] = counts.get(kind, 0) + 1
        names.append(f"{kind}{counts[kind]}" if SLOT_KINDS.count(kind) > 1 else kind)
    return tuple(names)


TARGET_NAMES = _target_names()


def labels_used() -> tuple[tuple[bool, ...], ...]:
    """Return for each button which of the six labels it uses."""
    none = (True, False, False, False, False, False)
    skill = (True, False, False, True, True, True)
    move, attack = (True, True, True, False, False, False), (True, False, False, False, False, True)
    return (none, move, attack, skill, skill, skill, none, none)


def directions(choices: np.ndarray) -> np.ndarray:
    """Return choices of a direction label as numbers from -1 to 1, ``float32``."""
    scaled: np.ndarray = (choices - CENTRE).astype(np.float32) / np.float32(CENTRE)
    return scaled


#: The default of each label, which names of actions leave out.
DEFAULTS = (0, CENTRE, CENTRE, CENTRE, CENTRE, 0)
_DIRECTIONS = {"to": 1, "aim": 3}
_FORM = "such as move:to=14,7, attack:at=hero, skill1:aim=14,7 and recall"


def action_name(action: np.ndarray) -> str:
    """Return the button and the labels that differ from their defaults, such as ``"skill1:aim=14,7:at=hero"``."""
    labels = tuple(map(int, action))
    parts = [BUTTONS[labels[0]]]
    for key, first in _DIRECTIONS.items():
        if labels[first : first + 2] != DEFAULTS[first : first + 2]:
            parts.append(f"{key}={labels[first]},{labels[first + 1]}")
    if labels[5]:
        parts.append(f"at={TARGET_NAMES[labels[5]]}")
    return ":".join(parts)


def parse_action(text: str) -> np.ndarray:
    """Parse what `action_name` returns into ``[6] int64``.

    Raises:
        ValueError: The text is not an action; the message lists what is.
    """
    button, *parts = text.strip().split(":")
    if button not in BUTTON:
        raise ValueError(f"expected one of {', '.join(BUTTONS)}, {_FORM}; got {text!r}")
    action = np.array([BUTTON[button], *DEFAULTS[1:]], np.int64)
    for part in parts:
        key, _, value = part.partition("=")
        if key in _DIRECTIONS:
            action[_DIRECTIONS[key] : _DIRECTIONS[key] + 2] = _parse_direction(value)
        elif key == "at" and value in TARGET_NAMES:
            action[5] = TARGET_NAMES.index(value)
        elif key == "at":
            raise ValueError(f"expected a target of {', '.join(TARGET_NAMES)}, got {value!r}")
        else:
            raise ValueError(f"expected to=, aim= or at= after the button, {_FORM}; got {part!r}")
    return action


def _parse_direction(value: str) -> list[int]:
    words = value.split(",")
    if len(words) != 2 or not all(word.isdecimal() and int(word) < STEPS for word in words):
        raise ValueError(f"expected two numbers from 0 to {STEPS - 1} such as 14,7, got {value!r}")
    return [int(word) for word in words]
