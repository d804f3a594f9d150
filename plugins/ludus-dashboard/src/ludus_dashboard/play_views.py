"""The addresses under which a person plays: a form, the page of a match, its state and its input."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from attrs import define, field
from ludus.errors import LudusError, RunError
from ludus.human_matches import is_person
from ludus.replays import find_matches
from ludus.runs import MatchRecord, open_run
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ludus_dashboard.access import Access, read_body, read_form
from ludus_dashboard.person import InputEvent
from ludus_dashboard.play_forms import choose_seat, offered_names, parse_setup, seat_fields
from ludus_dashboard.play_session import PlaySession, PlaySetup
from ludus_dashboard.reader import Readers, Snapshot
from ludus_dashboard.rendering import render

__all__ = ["PlayViews"]

_MAX_RUNNING = 4  # matches at the same time
_MAX_KEPT = 32  # matches whose end can be looked at
_MAX_INPUT = 4096  # bytes
_REFUSED = "Playing writes the match into the log of the run; start `ludus dashboard` with --allow-actions."


@define
class _Sessions:
    """The matches of this server, and those that ended last."""

    _sessions: OrderedDict[str, PlaySession] = field(init=False, factory=OrderedDict)
    _lock: threading.Lock = field(init=False, factory=threading.Lock)

    def start(self, setup: PlaySetup) -> PlaySession:
        """Start a match.

        Raises:
            RunError: Too many matches are played, or the match cannot start.
        """
        session = PlaySession(setup)
        with self._lock:
            if sum(one.is_running for one in self._sessions.values()) >= _MAX_RUNNING:
                raise RunError(f"{_MAX_RUNNING} matches are being played; end one of them first")
            self._sessions[session.id] = session
            session.begin()
            while len(self._sessions) > _MAX_KEPT:
                self._sessions.popitem(last=False)
        session.wait_for_start()
        if session.problem:
            raise RunError(session.problem)
        return session

    def get(self, name: str, folder: Path) -> PlaySession:
        """Return a match of a run.

        Raises:
            HTTPException: There is none of this name.
        """
        session = self._sessions.get(name)
        if session is None or session.setup.folder != folder:
            raise HTTPException(404, "there is no such match; it may have been played long ago")
        return session


@define
class PlayViews:
    """The answers.

    Args:
        access: Rules by which requests are accepted.
        allow: Whether people may play.
        readers: Readers of runs.
        folder_of: Returns the run folder that an address names.
        layout: Returns the values that all pages of a run share.
    """

    access: Access
    allow: bool
    readers: Readers
    folder_of: Callable[[Request], Path]
    layout: Callable[[Snapshot, Path, str, Request], Mapping[str, Any]]
    _sessions: _Sessions = field(init=False, factory=_Sessions)

    def routes(self) -> list[Route]:
        """Return the routes."""
        address = "/runs/{run}/play"
        match = f"{address}/{{session}}"
        return [
            Route(address, self.form, methods=["GET"]),
            Route(address, self.start, methods=["POST"]),
            Route(match, self.page, methods=["GET"]),
            Route(f"{match}/events", self.events, methods=["GET"]),
            Route(f"{match}/input", self.add_input, methods=["POST"]),
        ]

    def form(self, request: Request) -> Response:
        """Show the form that starts a match; the address may name an opponent, or a match whose lineup to take."""
        folder = self.folder_of(request)
        if not self.allow:
            return HTMLResponse(render("message.html", title="Play", text=_REFUSED, back=folder.name), 403)
        snapshot, query = self.readers.get(folder).snapshot(), request.query_params
        run, record = snapshot.run, _find_match(folder, query.get("match", "")[:40])
        participants = [] if record is None else [_playable(run.models, name) for name in record.fixture.participants]
        opponent = query.get("opponent", "")[:120]
        values = {
            **self.layout(snapshot, folder, "play", request),
            "title": "Play",
            "is_live": False,
            "csrf": self.access.csrf,
            "seats": run.seats,
            "seat": choose_seat(run, opponent=opponent, match=record),
            "fields": seat_fields(run, participants, opponent),
            "names": offered_names(run),
        }
        return HTMLResponse(render("play_form.html", **values))

    async def start(self, request: Request) -> Response:
        """Start a match and lead to its page."""
        folder = self.folder_of(request)
        values = await read_form(request)
        self._require(self.access.is_own_form(values))
        try:
            session = await run_sync(self._start, folder, values)
        except LudusError as error:
            text = render("message.html", title="Play: not started", text=str(error), back=folder.name)
            return HTMLResponse(text, 400)
        return RedirectResponse(f"{request.url.path}/{session.id}", 303)

    def _start(self, folder: Path, values: Mapping[str, str]) -> PlaySession:
        return self._sessions.start(parse_setup(self.readers.get(folder).snapshot().run, values))

    def page(self, request: Request) -> Response:
        """Show a match."""
        folder = self.folder_of(request)
        session = self._sessions.get(request.path_params["session"], folder)
        values = {
            **self.layout(self.readers.get(folder).snapshot(), folder, "play", request),
            "title": "Play",
            "is_live": False,
            "csrf": self.access.csrf,
            "session": session,
        }
        return HTMLResponse(render("play.html", **values))

    async def events(self, request: Request) -> Response:
        """Send the state of a match whenever it changes."""
        session = self._sessions.get(request.path_params["session"], self.folder_of(request))
        return StreamingResponse(session.events(), media_type="text/event-stream")

    async def add_input(self, request: Request) -> Response:
        """Add input, a JSON object; see `InputEvent`."""
        session = self._sessions.get(request.path_params["session"], self.folder_of(request))
        self._require(self.access.is_own_form({"csrf": request.headers.get("x-csrf", "")}))
        body = await read_body(request, _MAX_INPUT)
        if body is None:
            return PlainTextResponse(f"input: expected at most {_MAX_INPUT} bytes", 413)
        try:
            session.add_input(InputEvent.parse(json.loads(body)))
        except (ValueError, RecursionError) as error:  # a `BadInput` is a ValueError
            return PlainTextResponse(f"input: {str(error).splitlines()[0]}", 400)
        return Response(status_code=204)

    def _require(self, is_own: bool) -> None:
        """Refuse requests of other sites, and all where people may not play.

        Raises:
            HTTPException: The request is refused.
        """
        if not self.allow:
            raise HTTPException(403, _REFUSED)
        if not is_own:
            raise HTTPException(403, "the page is too old or from elsewhere; load it again")


def _find_match(folder: Path, name: str) -> MatchRecord | None:
    """Return the match of a name, ``FIXTURE.NUMBER``; None if there is none."""
    if not name:
        return None
    with suppress(LudusError), open_run(folder) as run:
        return next(iter(find_matches(run, name)), None)
    return None


def _playable(models: Mapping[str, Any], name: str) -> str:
    """Return a participant of the log if it can play again; else an empty text, for the newest model."""
    return "" if is_person(name) or ("@" in name and name.partition(",")[0] not in models) else name
