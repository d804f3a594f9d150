"""Server-sent events: one task per run looks for changes, however many clients wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from anyio.to_thread import run_sync
from attrs import define, field
from ludus.errors import LudusError

from ludus_dashboard.reader import RunReader

__all__ = ["Broadcast", "TooManyClients"]

_INTERVAL_S = 2.0
_CATCH_UP_S = 0.2  # while a snapshot has not reached the end of the log
_KEEP_ALIVE_S = 15.0
_MAX_CLIENTS = 512


class TooManyClients(Exception):  # noqa: N818 - reads better in `except` than with a suffix
    """No more clients can wait for changes."""


@define(eq=False)
class Broadcast:
    """Sends the version of every new snapshot of a run to all clients.

    Args:
        reader: Reads the run.
    """

    reader: RunReader
    _clients: set[asyncio.Queue[int]] = field(init=False, factory=set)
    _task: asyncio.Task[None] | None = field(init=False, default=None)

    def subscribe(self) -> AsyncIterator[str]:
        """Return the events for one client, in the format of `text/event-stream`.

        Raises:
            TooManyClients: There are too many.
        """
        if len(self._clients) >= _MAX_CLIENTS:
            raise TooManyClients
        return self._events()

    async def _events(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
        self._clients.add(queue)
        if self._task is None:
            self._task = asyncio.create_task(self._watch())
        try:
            yield "retry: 3000\n\n"
            while True:
                try:
                    version = await asyncio.wait_for(queue.get(), _KEEP_ALIVE_S)
                except TimeoutError:
                    yield ": keep-alive\n\n"
                else:
                    yield f"data: {version}\n\n"
        finally:
            self._clients.discard(queue)
            if not self._clients and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _watch(self) -> None:
        known = 0
        while True:
            is_complete = True
            with suppress(LudusError, OSError):  # the page shows the error when it is loaded
                snapshot = await run_sync(self.reader.snapshot)
                is_complete = snapshot.is_complete
                if snapshot.version != known:
                    known = snapshot.version
                    self._send(known)
            await asyncio.sleep(_INTERVAL_S if is_complete else _CATCH_UP_S)

    def _send(self, version: int) -> None:
        for queue in self._clients:
            if queue.empty():  # a slow client gets the next version
                queue.put_nowait(version)
