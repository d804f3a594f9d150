"""Statistics of a match: counts and shares of what the cat and the mice have done."""

from __future__ import annotations

import numpy as np

from ludus_chase.game import Events

CAT_STATISTICS = ("catches", "eliminations", "traps", "scouts")
MOUSE_STATISTICS = ("caught", "eliminated", "rescues", "cheese", "crack")


def add_statistics(
    events: Events, *, cat: dict[str, np.ndarray], mouse: dict[str, np.ndarray], running: np.ndarray
) -> None:
    """Add the events of a tick to the statistics of running matches.

    Args:
        events: Events of the tick.
        cat: ``[B, 1] float32`` by the names of `CAT_STATISTICS`: mice caught and eliminated, traps placed, and scouts
            destroyed.
        mouse: ``[B, 4] float32`` by the names of `MOUSE_STATISTICS`: how often the mouse was caught and eliminated, its
            rescues of others, the cheeses that it pushed, and the share of the crack that it broke.
        running: ``[B] bool``.
    """
    counts = (events.caught.sum(axis=1), events.eliminated.sum(axis=1), events.laid, events.wrecked.sum(axis=1))
    for name, count in zip(CAT_STATISTICS, counts, strict=True):
        cat[name][:, 0] += count * running
    shares = (events.caught, events.eliminated, events.rescued, events.pushed, events.cracked)
    for name, share in zip(MOUSE_STATISTICS, shares, strict=True):
        mouse[name] += share[:, 1:] * running[:, None]
