"""Intervals between retries of messages."""

from __future__ import annotations

__all__ = ["retry_interval_s"]


def retry_interval_s(attempts: int, *, first: float) -> float:
    """Return how long to wait for an answer after so many attempts: twice as long each time, up to a minute.

    Thousands of samplers that retry at a fixed interval would keep an overloaded coordinator overloaded.

    Args:
        attempts: Number of messages sent; 0: return 0.
        first: Interval after the first message.
    """
    return min(first * 2.0 ** (attempts - 1), 60.0) if attempts else 0.0
