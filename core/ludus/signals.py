"""Ctrl-C, termination and a terminal that goes away: as words instead of exceptions, or all as one exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

__all__ = ["interrupting", "noted"]

#: What a second signal does. Not what was there before: a shell in the background leaves SIGINT ignored.
_AGAIN: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_IGN,  # from a terminal that goes away it comes twice: the shell passes it on, too
}


@contextmanager
def noted(note: Callable[[str], None]) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into a call; a second one ends the process at once, unless it is a SIGHUP.

    SIGHUP stays ignored where it is, as after nohup. Does nothing outside the main thread.

    Args:
        note: Is given the signal's name, between any two instructions: it should set a flag first, and may then print.
    """

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, _AGAIN[number])
        with suppress(RuntimeError):  # the signal came in the middle of a print, which must not be entered twice
            note(signal.Signals(number).name)

    with _handled(_AGAIN, stop):
        yield


@contextmanager
def interrupting() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into a KeyboardInterrupt, so that whatever ends well after Ctrl-C does after them.

    What `noted` says of a second one, of SIGHUP and of threads holds here, too.
    """

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, _AGAIN[number])
        raise KeyboardInterrupt

    with _handled((signal.SIGTERM, signal.SIGHUP), stop):
        yield


@contextmanager
def _handled(numbers: Iterable[int], stop: Callable[[int, object], None]) -> Iterator[None]:
    """Handle signals for a while, as far as this thread may, and nobody wants them ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}
    if before[signal.SIGHUP] == signal.SIG_IGN:
        del before[signal.SIGHUP]
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
