"""The coordinator's queue of messages and events that wait for the next commit."""

from __future__ import annotations

from collections import deque
from typing import Any

from attrs import define, field

from ludus._plugins.manager import Plugins
from ludus.launcher import Link


@define
class Outbox:
    """Messages and events that are sent after the next commit.

    Attributes:
        needs_commit: Whether the league has changed since the last commit.
    """

    needs_commit: bool = field(init=False, default=False)
    _messages: deque[tuple[str, Any]] = field(init=False, factory=deque)
    _events: deque[tuple[str, dict[str, object]]] = field(init=False, factory=deque)

    def send(self, worker: str, message: Any) -> None:
        """Queue a message that can be sent without a commit."""
        self._messages.append((worker, message))

    def acknowledge(self, worker: str, message: Any) -> None:
        """Queue a message that confirms a change of the league, and require a commit before it is sent."""
        self._messages.append((worker, message))
        self.needs_commit = True

    def emit(self, event: str, **arguments: object) -> None:
        """Queue an event for the plugins."""
        self._events.append((event, arguments))

    def flush(self, link: Link, plugins: Plugins) -> None:
        """Send all queued messages, then call the event hooks. The caller commits first."""
        while self._messages:
            link.send(*self._messages.popleft())
        while self._events:
            event, arguments = self._events.popleft()
            plugins.emit(event, **arguments)
