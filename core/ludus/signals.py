"""Handles SIGINT, SIGTERM and SIGHUP by a callback, or turns them into one exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

__all__ = ["interrupt_on_termination", "on_signal"]

#: Handlers for a second signal. Not the previous ones: a background shell leaves SIGINT ignored.
_SECOND_HANDLERS: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_IGN,  # a closed terminal sends it twice: the shell forwards it too
}


@contextmanager
def on_signal(callback: Callable[[str], None]) -> Iterator[None]:
    """Call a function on the first SIGINT, SIGTERM or SIGHUP; a second SIGINT or SIGTERM ends the process at once.

    SIGHUP stays ignored if it is ignored, as after nohup. Does nothing outside the main thread.

    Args:
        callback: Called with the signal's name between any two instructions: it should set a flag, then may print.
    """

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, _SECOND_HANDLERS[number])
        with suppress(RuntimeError):  # the signal interrupted a print, which is not reentrant
            callback(signal.Signals(number).name)

    with _install(_SECOND_HANDLERS, stop):
        yield


@contextmanager
def interrupt_on_termination() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP, so that code that handles Ctrl-C handles them too.

    A second signal, an ignored SIGHUP and other threads are treated as by `on_signal`.
    """

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, _SECOND_HANDLERS[number])
        raise KeyboardInterrupt

    with _install((signal.SIGTERM, signal.SIGHUP), stop):
        yield


@contextmanager
def _install(numbers: Iterable[int], stop: Callable[[int, object], None]) -> Iterator[None]:
    """Install a signal handler in the main thread; an ignored SIGHUP stays ignored."""
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
