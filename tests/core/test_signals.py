"""Signals call a callback, or raise KeyboardInterrupt."""

from __future__ import annotations

import signal
import threading

import pytest
from ludus.signals import interrupt_on_termination, on_signal


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
