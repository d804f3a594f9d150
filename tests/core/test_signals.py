"""Signals as words."""

from __future__ import annotations

import signal
import threading

import pytest
from ludus.signals import interrupting, noted


@pytest.fixture(autouse=True)
def with_a_terminal():
    """Undo what `nohup` or a service has done for the tests themselves."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_a_second_one_ends(number):
    """Handlers are back afterwards."""
    said, before = [], signal.getsignal(number)
    with noted(said.append):
        signal.raise_signal(number)
        assert said == [number.name]
        assert signal.getsignal(number) is (signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    assert signal.getsignal(number) is before


def test_a_terminal_hangs_up_more_than_once():
    """Its shell passes it on; that is no second request, and others still end at once."""
    said = []
    with noted(said.append):
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        assert said == ["SIGHUP"]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_who_ignores_terminals_goes_on_doing_so():
    """As after `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    said = []
    with noted(said.append):
        signal.raise_signal(signal.SIGHUP)
    assert said == []


def test_a_print_may_be_interrupted():
    """Printing again inside of it raises; what was noted before counts."""

    def note(name):
        said.append(name)
        raise RuntimeError("reentrant call inside a buffered writer")

    said = []
    with noted(note):
        signal.raise_signal(signal.SIGINT)
    assert said == ["SIGINT"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_interrupted_ends_as_after_ctrl_c(number):
    """What was begun is undone on the way out, even if the terminal hangs up again."""
    undone, before = [], signal.getsignal(number)

    def work():
        with interrupting():
            try:
                signal.raise_signal(number)
            finally:
                if number == signal.SIGHUP:
                    signal.raise_signal(number)
                undone.append(number)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert undone == [number]
    assert signal.getsignal(number) is before


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
