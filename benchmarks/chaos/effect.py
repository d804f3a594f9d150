"""What a fault did, and what has to follow."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen


@frozen(kw_only=True)
class Effect:
    """What a fault did.

    Attributes:
        summary: One line for the log.
        hold_s: Seconds until its end.
        end: Ends it.
        ends: Ids of processes that must end because of it.
        damages: Whether files are damaged; what they held may be lost.
        reports: Texts that ludus must print before the run has recovered.
        is_contained: Returns whether the damage has no further effect.
    """

    summary: str
    hold_s: float = 0.0
    end: Callable[[], None] = lambda: None
    ends: frozenset[int] = frozenset()
    damages: bool = False
    reports: tuple[str, ...] = ()
    is_contained: Callable[[], bool] = lambda: True
