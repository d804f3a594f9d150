"""Signals call a callback, or raise KeyboardInterrupt."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import threading
import time

import pytest
from ludus.signals import StopRequested, interrupt_on_termination, on_signal


@pytest.fixture(autouse=True)
def with_a_terminal():
    """Restore the default SIGHUP handler, which `nohup` or a service may have replaced."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_calls_back_and_restores_a_default_handler(number):
    """Previous handlers are restored afterwards."""
    names, before = [], signal.getsignal(number)
    with on_signal(names.append):
        signal.raise_signal(number)
        assert names == [number.name]
        assert signal.getsignal(number) is (signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    assert signal.getsignal(number) is before


def test_a_second_sighup_is_ignored():
    """The shell forwards it; that is no second request."""
    names = []
    with on_signal(names.append):
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        assert names == ["SIGHUP"]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_an_ignored_sighup_stays_ignored():
    """As after `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    names = []
    with on_signal(names.append):
        signal.raise_signal(signal.SIGHUP)
    assert names == []


def test_an_alarm_of_another_origin_is_no_request_to_stop():
    """The handler of SIGALRM is replaced by a first signal only, and restored afterwards."""
    alarms = []
    before = signal.signal(signal.SIGALRM, lambda *_: alarms.append(1))
    try:
        with on_signal(lambda _name: None, timeout_s=60.0):
            signal.raise_signal(signal.SIGALRM)
            assert alarms == [1]
            signal.raise_signal(signal.SIGTERM)
            with pytest.raises(StopRequested):
                signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGALRM)
        assert alarms == [1, 1]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_print_may_be_interrupted():
    """Printing inside a print raises; what the callback did before counts."""

    def callback(name):
        names.append(name)
        raise RuntimeError("reentrant call inside a buffered writer")

    names = []
    with on_signal(callback):
        signal.raise_signal(signal.SIGINT)
    assert names == ["SIGINT"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_termination_raises_keyboard_interrupt(number):
    """Cleanup code runs, even if SIGHUP arrives again."""
    cleaned, before = [], signal.getsignal(number)

    def work():
        with interrupt_on_termination():
            try:
                signal.raise_signal(number)
            finally:
                if number == signal.SIGHUP:
                    signal.raise_signal(number)
                cleaned.append(number)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert cleaned == [number]
    assert signal.getsignal(number) is before


def test_other_threads_install_no_handlers():
    """Python allows handlers in the main thread only."""
    before = signal.getsignal(signal.SIGINT)
    observed = []

    def work():
        with on_signal(observed.append):
            observed.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert observed == [before]


# -- processes that are started meanwhile -------------------------------------------------------------------------

PROGRAM = """
import multiprocessing, signal, subprocess, sys
from ludus.signals import interrupt_on_termination, on_signal, protect_worker

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

def report(pipe):
    pipe.send([str(signal.getsignal(number)) for number in NUMBERS] + [signal.set_wakeup_fd(-1)])
    pipe.recv()  # until it is terminated

def start(method):
    context = multiprocessing.get_context(method)
    pipe, far = context.Pipe()
    child = context.Process(target=report, args=(far,), daemon=True)
    child.start()
    handlers = pipe.recv()
    child.terminate()
    child.join(20)
    print(handlers, child.exitcode)

def main(how, method):
    import socket
    near, _far = socket.socketpair()
    near.setblocking(False)
    signal.set_wakeup_fd(near.fileno())
    if how == "protect_worker":
        protect_worker()
        start(method)
    else:
        with on_signal(print) if how == "on_signal" else interrupt_on_termination():
            start(method)

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


@pytest.mark.parametrize("how", ["on_signal", "interrupt_on_termination", "protect_worker"])
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_children_keep_default_handlers(tmp_path, how, method):
    """A child ends on SIGTERM, whatever the process that forked it does."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), how, method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=_default_signals, check=False)
    default = [str(handler) for handler in (signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL)]
    assert done.stdout == f"{[*default, -1]} {-signal.SIGTERM}\n", done.stderr


def _default_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def test_programs_keep_default_handlers():
    """A program that a game starts gets Ctrl-C, though the worker ignores it."""
    program = (
        "import subprocess, sys; from ludus.signals import protect_worker; protect_worker()\n"
        "subprocess.run([sys.executable, '-c', 'import signal; print(signal.getsignal(2), signal.getsignal(15))'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=_default_signals,
        check=True,
    )
    assert done.stdout == "<built-in function default_int_handler> 0\n"  # SIG_DFL is 0


def test_a_child_that_is_terminated_at_once_ends():
    """The signal is held back until the child has its own handlers."""
    with on_signal(lambda _: None):
        children = [multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,)) for _ in range(20)]
        for child in children:
            child.start()
            child.terminate()
        for child in children:
            child.join(10)
    assert [child.exitcode for child in children] == [-signal.SIGTERM] * 20


def test_a_block_that_hangs_is_interrupted():
    """Plugin code may never return; the process ends all the same."""
    names = []

    def hang():
        with on_signal(names.append, timeout_s=0.2):
            signal.raise_signal(signal.SIGTERM)
            time.sleep(20)

    with pytest.raises(StopRequested):
        hang()
    assert names == ["SIGTERM"]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_process_that_cannot_be_interrupted_ends():
    """Code that never returns to the interpreter is ended by a thread."""
    program = (
        "import signal, time; from ludus.signals import on_signal\n"
        "with on_signal(print, timeout_s=0.2):\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    time.sleep(20)"
    )
    started_s = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert time.monotonic() - started_s < 15
