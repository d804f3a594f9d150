"""Ctrl-C, termination and a terminal that goes away as words, not as exceptions in the middle of something."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

__all__ = ["noted"]

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
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _AGAIN}
    if before[signal.SIGHUP] == signal.SIG_IGN:
        del before[signal.SIGHUP]

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, _AGAIN[number])
        with suppress(RuntimeError):  # the signal came in the middle of a print, which must not be entered twice
            note(signal.Signals(number).name)

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
