"""What a process is busy with while it cannot answer messages: making games, starting matches, updating weights.

A simulator may take seconds to start a match, and a batch starts its matches one after another; an update makes many
gradient steps. Environments and trainers report that they go on, so that the launcher does not take the process for
hanging::

    for seed in track("starting matches", seeds):
        …
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

__all__ = ["MAKING_GAMES", "STARTING_MATCHES", "UPDATING", "Listener", "listen", "report_activity", "track"]

MAKING_GAMES = "making games"
STARTING_MATCHES = "starting matches"
UPDATING = "updating weights"

#: Called with the activity, the number of parts that are done, and the number of all parts.
Listener: TypeAlias = "Callable[[str, int, int], None]"
_T = TypeVar("_T")

_INTERVAL_S = 1.0
_listener: Listener | None = None
_reported_s = 0.0  # time of the last report


def report_activity(text: str, done: int, total: int) -> None:
    """Report to the listener of this process, if there is one, that some of several parts are done.

    A report within a second of the last one is dropped, so that it may follow every part; one before the first part
    is not.

    Args:
        text: The activity.
        done: Number of parts that are done; 0 before a call that may take long.
        total: Number of parts.
    """
    global _reported_s  # noqa: PLW0603 - as of `listen`
    if _listener is None:
        return
    now_s = time.monotonic()
    if done == 0 or now_s - _reported_s >= _INTERVAL_S:
        _reported_s = now_s
        _listener(text, done, total)


def track(text: str, items: Sequence[_T]) -> Iterator[_T]:
    """Yield items, and report the activity after each of them.

    Args:
        text: The activity.
        items: Its parts.
    """
    for done, item in enumerate(items, start=1):
        yield item
        report_activity(text, done, len(items))


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Call a function on every report in the block; it replaces the listener from before."""
    global _listener, _reported_s  # noqa: PLW0603 - environments and trainers get no context through which they report
    before, _listener = _listener, listener
    _reported_s = time.monotonic()
    try:
        yield
    finally:
        _listener = before
