"""What the event hooks of this plugin heard, for tests to look at."""

from __future__ import annotations

from collections import deque

__all__ = ["heard"]

#: The last events as (name, arguments), oldest first.
heard: deque[tuple[str, tuple[object, ...]]] = deque(maxlen=1000)
