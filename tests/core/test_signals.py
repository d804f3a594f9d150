"""Signals as words."""

from __future__ import annotations

import signal
import threading

import pytest
from ludus.signals import noted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_a_second_one_ends(number):
    """Handlers are back afterwards."""
    said, before = [], signal.getsignal(number)
    with noted(said.append):
        signal.raise_signal(number)
        assert said == [number.name]
        assert signal.getsignal(number) is (signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    assert signal.getsignal(number) is before


def test_a_print_may_be_interrupted():
    """Printing again inside of it raises; what was noted before counts."""

    def note(name):
        said.append(name)
        raise RuntimeError("reentrant call inside a buffered writer")

    said = []
    with noted(note):
        signal.raise_signal(signal.SIGINT)
    assert said == ["SIGINT"]


def test_other_threads_are_left_alone():
    """Python lets the main thread have handlers only."""
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work():
        with noted(seen.append):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
