"""Events that the hooks of this plugin received, for tests."""

from __future__ import annotations

from collections import deque

__all__ = ["received_events"]

#: The last events as (name, arguments), oldest first.
received_events: deque[tuple[str, tuple[object, ...]]] = deque(maxlen=1000)
