"""Handles SIGINT, SIGTERM and SIGHUP by a callback, or turns them into one exception.

Processes that plugins fork meanwhile, such as the children of a game, get the handlers from before: Python's `fork`
would copy those of this module, and a child that does not end on SIGTERM makes its parent wait for ever.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

__all__ = [
    "StopRequested",
    "ignore_interrupts",
    "interrupt_on_termination",
    "on_signal",
    "protect_worker",
    "terminate_children",
]

#: Handlers for a second signal. Not the previous ones: a background shell leaves SIGINT ignored.
_SECOND_HANDLERS: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_IGN,  # a closed terminal sends it twice: the shell forwards it too
}
_original: dict[int, Any] = {}  # handlers before the first replacement, by signal
_traced: set[int] = set()  # signals on which faulthandler writes a traceback
_REPEAT_S = 20.0  # between two interrupts of code that handles KeyboardInterrupt


class StopRequested(KeyboardInterrupt):
    """Interrupts plugin code because the process is to stop after a first signal; a second one raises its base."""


_forking = threading.local()


@contextmanager
def on_signal(callback: Callable[[str], None], *, timeout_s: float = 0.0) -> Iterator[None]:
    """Call a function on the first SIGINT, SIGTERM or SIGHUP; a second SIGINT or SIGTERM ends the process at once.

    SIGHUP stays ignored if it is ignored, as after nohup. Does nothing outside the main thread.

    Args:
        callback: Called with the signal's name between any two instructions: it should set a flag, then may print.
        timeout_s: Seconds after the signal in which the block has to end. Then `StopRequested` is raised in it, since
            plugin code may hang; and after as long again the process ends, with a traceback. 0: no limit.
    """

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, _SECOND_HANDLERS[number])
        if timeout_s:
            signal.signal(signal.SIGALRM, _interrupt)  # not before: an alarm of another origin is no request to stop
            signal.setitimer(signal.ITIMER_REAL, timeout_s, _REPEAT_S)
            faulthandler.dump_traceback_later(2 * timeout_s, exit=True, file=2)  # code that never returns to Python
        with suppress(RuntimeError):  # the signal interrupted a print, which is not reentrant
            callback(signal.Signals(number).name)

    with _install(_SECOND_HANDLERS, stop), _alarm(timeout_s):
        yield


def _interrupt(_number: int, _frame: object) -> None:
    raise StopRequested


@contextmanager
def _alarm(timeout_s: float) -> Iterator[None]:
    """Cancel what `on_signal` has requested in the block, and restore the handler of SIGALRM."""
    if not timeout_s or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGALRM)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


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


def ignore_interrupts() -> None:
    """Ignore SIGINT in this process: Ctrl-C reaches the whole terminal, and a parent handles it."""
    _original[signal.SIGINT] = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda *_: None)  # programs that a game starts would inherit SIG_IGN


def protect_worker() -> None:
    """Ignore SIGINT in this process, and write a traceback to stderr on SIGTERM."""
    ignore_interrupts()
    faulthandler.register(signal.SIGTERM, file=2, all_threads=True)
    _traced.add(signal.SIGTERM)


def terminate_children() -> None:
    """Terminate the processes that plugins started by `multiprocessing` and left running: Python waits for them."""
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.terminate()


@contextmanager
def _install(numbers: Iterable[int], stop: Callable[[int, object], None]) -> Iterator[None]:
    """Install a signal handler in the main thread; an ignored SIGHUP stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}
    if before[signal.SIGHUP] == signal.SIG_IGN:
        del before[signal.SIGHUP]
    added = {number: handler for number, handler in before.items() if number not in _original}
    _original.update(added)
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in added:
            del _original[number]


# -- processes that are forked ------------------------------------------------------------------------------------


def _hold_signals() -> None:
    """Block the handled signals while a process is forked: one that is sent to the child at once must not be lost."""
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_original, *_traced})


def _release_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _restore_in_child() -> None:
    for number in _traced:
        faulthandler.unregister(number)
    for number, handler in _original.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not installed by Python
    if _original:
        signal.set_wakeup_fd(-1)  # that of the parent, which would receive the child's signals
    _traced.clear()
    _original.clear()
    _release_signals()


os.register_at_fork(before=_hold_signals, after_in_parent=_release_signals, after_in_child=_restore_in_child)
