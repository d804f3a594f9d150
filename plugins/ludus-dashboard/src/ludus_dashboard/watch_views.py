"""The page on which a recorded match is watched, and its frames."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field
from ludus.errors import ReplayError
from ludus.rendering import enable_rendering
from ludus.replays import Replay, ReplayStep, StreamedGame, find_matches, find_replay, play_replay, stream_steps
from ludus.runs import MatchRecord, Run, match_seeds, open_run
from ludus_terminal.recording import frame_seconds
from ludus_terminal.replay_frames import decision_text
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from ludus_dashboard.frames import frame_json, frame_values
from ludus_dashboard.reader import Readers, Snapshot
from ludus_dashboard.rendering import render

__all__ = ["WatchViews"]

_MAX_FRAMES = 3000  # of longer matches only every second, third, … tick is sent
_MAX_BYTES = 32 * 2**20


@define
class WatchViews:
    """The answers.

    Args:
        readers: Readers of runs.
        folder_of: Returns the run folder that an address names.
        layout: Returns the values that all pages of a run share.
    """

    readers: Readers
    folder_of: Callable[[Request], Path]
    layout: Callable[[Snapshot, Path, str, Request], Mapping[str, Any]]
    _lock: threading.Lock = field(init=False, factory=threading.Lock)  # one match is played again at a time

    def routes(self) -> list[Route]:
        """Return the routes."""
        address = "/runs/{run}/matches/{match}"
        return [Route(address, self.page), Route(f"{address}/frames", self.frames)]

    def page(self, request: Request) -> Response:
        """Show a match."""
        folder = self.folder_of(request)
        with open_run(folder) as run:
            match = _find(run, request.path_params["match"])
        snapshot = self.readers.get(folder).snapshot()
        layout = self.layout(snapshot, folder, "matches", request)
        title = f"Match {match.fixture.id}.{match.number}"
        values = {**layout, "title": title, "is_live": False, "match": match, "seats": run.seats}
        return HTMLResponse(render("watch.html", **values))

    def frames(self, request: Request) -> Response:
        """Return all frames as JSON, each with its decisions; or why the match cannot be shown."""
        folder = self.folder_of(request)
        with self._lock, open_run(folder) as run:
            try:
                values = _frames(run, _find(run, request.path_params["match"]))
            except ReplayError as error:
                values = {"problem": str(error)}
        return Response(json.dumps(values), media_type="application/json")


def _find(run: Run, name: str) -> MatchRecord:
    """Return the match of a name.

    Raises:
        HTTPException: There is none.
    """
    try:
        found = find_matches(run, name[:40])
    except ReplayError:
        found = ()
    if not found:
        raise HTTPException(404, "the log of the run has no match of this name")
    return found[0]


def _frames(run: Run, match: MatchRecord) -> dict[str, Any]:
    """Play a match again, or read its stream, and return its frames.

    Raises:
        ReplayError: It was not recorded, or differs from its record; or its stream has no frames, or too many.
    """
    replay = find_replay(run, match)
    if replay.stream is not None:
        return _stream_frames(replay, replay.stream.game)
    with enable_rendering():
        environment = run.make_environment(1)
    with closing(environment):
        environment.reset(match_seeds(0, np.array([0])))  # some environments know their spaces only after it
        every = 1 + replay.ticks // _MAX_FRAMES

        def shown(steps: Iterator[ReplayStep]) -> Iterator[dict[str, Any]]:
            size = 0
            for step in steps:
                if step.number % every and step.decisions:
                    continue
                lines = [decision_text(decision, environment) for decision in step.decisions]
                frame = {"tick": step.number, "lines": lines, "frame": frame_json(environment)}
                size += len(json.dumps(frame))
                if size > _MAX_BYTES:
                    raise ReplayError(f"the frames have more than {_MAX_BYTES / 2**20:.0f} MB; use `ludus replay`")
                yield frame

        frames = list(shown(play_replay(run, replay, environment)))
        frame_s = frame_seconds(environment.spec, delay=None, fps=None)
    return {"frames": frames, "frame_s": frame_s * every}


def _stream_frames(replay: Replay, game: StreamedGame) -> dict[str, Any]:
    """Return the frames of a match that cannot be played again; arguments and errors as of `_frames`."""
    steps = [(step, step.frame) for step in stream_steps(replay) if step.frame is not None]
    if not steps:
        raise ReplayError("the match has no frames: its game draws images, or nothing; use `ludus replay --json`")
    every = 1 + len(steps) // _MAX_FRAMES
    frames = [
        {
            "tick": step.number,
            "lines": [decision_text(decision, None) for decision in step.decisions],
            "frame": frame_values(frame),
        }
        for step, frame in [*steps[:-1:every], steps[-1]]
    ]
    if len(json.dumps(frames)) > _MAX_BYTES:
        raise ReplayError(f"the frames have more than {_MAX_BYTES / 2**20:.0f} MB; use `ludus replay`")
    ticks = steps[-1][0].clock / max(len(steps) - 1, 1)
    return {"frames": frames, "frame_s": frame_seconds(game, delay=None, fps=None, ticks=ticks) * every}
