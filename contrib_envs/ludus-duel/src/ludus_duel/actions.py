"""The 36 actions and the names they are typed by."""

from __future__ import annotations

#: Sides of strikes and stances.
SIDES = ("left", "top", "right")

#: Every action, in the order of the numbers.
ACTIONS = (
    "wait",
    *(f"stance-{side}" for side in SIDES),
    *(f"light-{side}" for side in SIDES),
    *(f"heavy-{side}" for side in SIDES),
    *(f"parry-{side}" for side in SIDES),
    *("dodge-left", "dodge-right", "dodge-forward", "dodge-back"),
    *("feint", "guard-break", "advance", "retreat", "counter"),
    *(f"lunge-{side}" for side in SIDES),
    *("strike-left", "strike-right", "bash", "sweep", "feint-guard-break"),
    *(f"feint-light-{side}" for side in SIDES),
    *("throw-forward", "throw-back", "breathe"),
)

#: The number of each action.
NUMBER = {name: number for number, name in enumerate(ACTIONS)}


def parse_action(text: str) -> int:
    """Return the action that `text` names by its name, an unambiguous beginning of it, or its number.

    Raises:
        ValueError: It names none, or more than one.
    """
    typed = text.strip().lower().replace(" ", "-")
    if typed.isascii() and typed.isdigit() and int(typed) < len(ACTIONS):
        return int(typed)
    found = [typed] if typed in NUMBER else [name for name in ACTIONS if typed and name.startswith(typed)]
    if len(found) == 1:
        return NUMBER[found[0]]
    expected = ", ".join(found or ACTIONS)
    raise ValueError(f"expected one of {expected} or a number from 0 to {len(ACTIONS) - 1}, got {text.strip()!r}")
