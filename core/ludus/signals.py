"""Ctrl-C and termination as words, not as exceptions in the middle of something."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["noted"]


@contextmanager
def noted(note: Callable[[str], None]) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into a call; a second one ends the process at once. Does nothing outside the main thread.

    Args:
        note: Is given the signal's name, between any two instructions: it should set a flag first, and may then print.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def stop(number: int, _frame: object) -> None:
        # not what was there before: a shell in the background leaves SIGINT ignored
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        with suppress(RuntimeError):  # the signal came in the middle of a print, which must not be entered twice
            note(signal.Signals(number).name)

    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
