"""Processes that the benchmarks start beside themselves."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from ludus_bench._peers import deaf_children

# the first process that this one starts: multiprocessing starts one of its own before it
_DEAF = """
import multiprocessing, os, signal, time
from ludus_bench._peers import deaf_children

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(0.1,))
    with deaf_children():
        process.start()
    os.kill(process.pid, signal.SIGINT)
    process.join()
    print(process.exitcode)
"""


@pytest.fixture(autouse=True)
def heard():
    """Let this process hear Ctrl-C, which a shell in the background leaves ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def checked_interrupt(send):
    """Check that a Ctrl-C sent while deaf children start comes when they have, and that all is as before."""
    started = []

    def start() -> None:
        with deaf_children():
            send()
            started.append(True)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert started
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_an_interrupt_while_deaf_children_start_comes_when_they_have():
    """It is not lost, and does not tear a start apart."""
    checked_interrupt(lambda: signal.raise_signal(signal.SIGINT))


def test_an_interrupt_that_a_thread_is_given_comes_then_too():
    """One that was there before does not block it."""
    go = threading.Event()

    def interrupt() -> None:
        if go.wait(10):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()

    def send() -> None:
        go.set()
        thread.join()

    checked_interrupt(send)


def test_deaf_children_do_not_hear_an_interrupt(tmp_path):
    """Not even while their interpreter starts."""
    script = tmp_path / "deaf.py"
    script.write_text(_DEAF)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("0\n", "")
