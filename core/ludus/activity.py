"""What a process is busy with while it cannot answer messages: making games and starting matches.

A simulator may take seconds to start a match, and a batch starts its matches one after another. Environments report
that they go on, so that the launcher does not take the process for hanging::

    for seed in track("starting matches", seeds):
        …
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

__all__ = ["MAKING_GAMES", "STARTING_MATCHES", "Listener", "listen", "report_activity", "track"]

MAKING_GAMES = "making games"
STARTING_MATCHES = "starting matches"

#: Called with the activity, the number of parts that are done, and the number of all parts.
Listener: TypeAlias = "Callable[[str, int, int], None]"
_T = TypeVar("_T")

_INTERVAL_S = 1.0
_listener: Listener | None = None


def report_activity(text: str, done: int, total: int) -> None:
    """Report to the listener of this process, if there is one, that some of several parts are done.

    Args:
        text: The activity.
        done: Number of parts that are done; 0 before a call that may take long.
        total: Number of parts.
    """
    if _listener is not None:
        _listener(text, done, total)


def track(text: str, items: Sequence[_T]) -> Iterator[_T]:
    """Yield items, and report the activity between two of them, at most once a second.

    Args:
        text: The activity.
        items: Its parts.
    """
    reported_s = time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        now_s = time.monotonic()
        if now_s - reported_s >= _INTERVAL_S:
            reported_s = now_s
            report_activity(text, done, len(items))


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Call a function on every report in the block; it replaces the listener from before."""
    global _listener  # noqa: PLW0603 - environments get no context through which they could report
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before
