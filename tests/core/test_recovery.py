"""A restart history states when restarting a worker is given up."""

from __future__ import annotations

from ludus.recovery import RestartHistory


def reasons(history, lives, *, progress=False, silent_s=0.0, serves=False):
    """Return the reasons to give up after each of several deaths.

    Args:
        history: The history.
        lives: Seconds between start and death.
        progress: Whether the worker makes progress in every life.
        silent_s: Seconds of silence at the end of every life.
        serves: Whether the worker is a service.
    """
    now_s, found = 0.0, []
    for life_s in lives:
        started_s, now_s = now_s, now_s + life_s
        if progress:
            history.record_progress()
        if silent_s:
            history.record_hang(silent_s)
        history.record_death(started_s=started_s, now_s=now_s)
        found.append(history.give_up_reason(serves=serves))
    return found


def test_deaths_within_a_minute_are_limited():
    """With progress or without."""
    assert reasons(RestartHistory(2), [5, 5, 5], progress=True) == ["", "", "3 times within a minute"]


def test_deaths_far_apart_with_progress_are_not_limited():
    """A worker may die now and then in a run of days."""
    assert reasons(RestartHistory(2), [61] * 10, progress=True) == [""] * 10


def test_deaths_without_progress_are_limited():
    """However far apart, up to ten minutes."""
    given_up = reasons(RestartHistory(2), [300] * 3)
    assert given_up == ["", "", "3 times with nothing committed in between"]
    served = reasons(RestartHistory(1), [300] * 2, serves=True)
    assert served == ["", "2 times with no request answered in between"]


def test_a_long_life_counts_as_progress():
    """An evaluator with nothing to rate commits nothing."""
    assert reasons(RestartHistory(2), [600] * 10) == [""] * 10


def test_silence_does_not_count_as_running():
    """A worker that hangs for a minute in every life dies often."""
    assert reasons(RestartHistory(2), [65] * 3, progress=True, silent_s=60)[-1] == "3 times within a minute"
