"""The web application: addresses and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from attrs import define, field
from ludus.errors import LudusError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ludus_dashboard.access import Access, Guard, read_form
from ludus_dashboard.actions import ACTIONS, Action
from ludus_dashboard.charts import metric_chart
from ludus_dashboard.events import Broadcast, TooManyClients
from ludus_dashboard.folders import find_runs, read_plot, summarize
from ludus_dashboard.history import History
from ludus_dashboard.pages import PAGES, model
from ludus_dashboard.play_views import PlayViews
from ludus_dashboard.reader import Readers, RunReader, Snapshot
from ludus_dashboard.rendering import render
from ludus_dashboard.watch_views import WatchViews

__all__ = ["make_app"]

_LIVE = ("", "payoffs", "lineage", "opponents", "pools", "behaviour", "files")  # pages that follow the run
_MAX_COMPARED = 8


def make_app(runs_dir: Path, *, access: Access, allow_actions: bool = False) -> Starlette:
    """Return the application.

    Args:
        runs_dir: Folder of runs, or one run folder.
        access: Rules by which requests are accepted.
        allow_actions: Whether pages offer to change runs.
    """
    views = _Views(runs_dir, access, allow_actions)
    routes = [
        Route("/", views.runs),
        Route("/compare", views.compare),
        Route("/runs/{run}", views.page),
        Route("/runs/{run}/events", views.events),
        Route("/runs/{run}/models/{model}", views.model),
        Route("/runs/{run}/plots/{name}", views.plot),
        *PlayViews(access, allow_actions, views.readers, views.folder, views.layout).routes(),
        *WatchViews(views.readers, views.folder, views.layout).routes(),
        Route("/runs/{run}/{page}", views.page),
        *(_action_routes(views) if allow_actions else ()),
        Mount("/static", StaticFiles(packages=[("ludus_dashboard", "static")])),
    ]
    handlers: dict[Any, Any] = {LudusError: _show_error, OSError: _show_error, HTTPException: _show_status}
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, access=access), Middleware(GZipMiddleware, minimum_size=2048)],
        exception_handlers=handlers,
    )
    app.router.redirect_slashes = False  # an address is right or wrong
    return app


def _action_routes(views: _Views) -> list[Route]:
    address = "/runs/{run}/actions/{action}"
    return [Route(address, views.confirm, methods=["GET"]), Route(address, views.act, methods=["POST"])]


@define
class _Views:
    """The answers to all addresses."""

    _root: Path
    _access: Access
    _allow_actions: bool
    readers: Readers = field(init=False, factory=Readers)
    _broadcasts: dict[Path, Broadcast] = field(init=False, factory=dict)

    def folder(self, request: Request) -> Path:
        """Return the folder of the run that an address names.

        Raises:
            HTTPException: There is none of this name.
        """
        folder = find_runs(self._root).get(request.path_params["run"])
        if folder is None:
            raise HTTPException(404, "there is no run of this name; it may have been moved or deleted")
        return folder

    def runs(self, request: Request) -> Response:  # noqa: ARG002 - the signature of routes
        """List the runs."""
        folders = find_runs(self._root)
        shown = [summarize(folder) for folder in folders.values()]
        return HTMLResponse(render("runs.html", runs=shown, root=str(self._root), title="Runs"))

    def compare(self, request: Request) -> Response:
        """Show the scores of several runs in one chart per anchor."""
        folders = find_runs(self._root)
        names = [name for name in dict.fromkeys(request.query_params.getlist("run")) if name in folders][:_MAX_COMPARED]
        summaries = [summarize(folders[name]) for name in names]
        return HTMLResponse(
            render("compare.html", runs=summaries, charts=_compared(folders, names), title="Compare runs")
        )

    def page(self, request: Request) -> Response:
        """Show a page of a run."""
        folder, name = self.folder(request), request.path_params.get("page", "")
        if name not in PAGES or (not name and "page" in request.path_params):
            raise HTTPException(404, "there is no such page")
        page, reader, query = PAGES[name][1], self.readers.get(folder), dict(request.query_params)
        if name not in _LIVE:
            snapshot = reader.snapshot()
            return HTMLResponse(page(snapshot, query, self.layout(snapshot, folder, name, request)))

        def show(snapshot: Snapshot) -> str:
            return page(snapshot, query, self.layout(snapshot, folder, name, request))

        return HTMLResponse(reader.render(_address(request), show))

    def model(self, request: Request) -> Response:
        """Show a model."""
        folder, name = self.folder(request), request.path_params["model"]
        reader = self.readers.get(folder)

        def show(snapshot: Snapshot) -> str:
            return model(snapshot, name, self.layout(snapshot, folder, "models", request)) or ""

        text = reader.render(_address(request), show)
        if not text:
            raise HTTPException(404, "the run has no model of this name")
        return HTMLResponse(text)

    def plot(self, request: Request) -> Response:
        """Return a figure of a run."""
        content = read_plot(self.folder(request), request.path_params["name"])
        if content is None:
            raise HTTPException(404, "the run has no figure of this name")
        return Response(content, media_type="image/png")

    async def events(self, request: Request) -> Response:
        """Send an event for every change of a run, until the client leaves."""
        folder = self.folder(request)
        reader: RunReader = self.readers.get(folder)
        broadcast = self._broadcasts.get(folder)
        if broadcast is None or broadcast.reader is not reader:
            broadcast = self._broadcasts[folder] = Broadcast(reader)
        try:
            events = broadcast.subscribe()
        except TooManyClients:
            raise HTTPException(503, "too many clients wait for this run") from None
        return StreamingResponse(events, media_type="text/event-stream")

    def confirm(self, request: Request) -> Response:
        """Show what an action will do, and its form."""
        folder, (name, action) = self.folder(request), _action(request)
        snapshot = self.readers.get(folder).snapshot()
        layout = {**self.layout(snapshot, folder, "actions", request), "title": action.title}
        fields = action.fields(snapshot.run, dict(request.query_params))
        form = render("confirm.html", **layout, name=name, action=action, fields=fields, csrf=self._access.csrf)
        return HTMLResponse(form)

    async def act(self, request: Request) -> Response:
        """Make the change of a form that was shown before."""
        folder, (_, action) = self.folder(request), _action(request)
        values = await read_form(request)
        if not self._access.is_own_form(values):
            raise HTTPException(403, "the form is too old or from elsewhere; load it again")
        status = 200
        try:
            text = await run_sync(action.perform, folder, values)
        except LudusError as error:
            text, status = str(error), 400
        self.readers.get(folder).expire()
        title = action.title if status == 200 else f"{action.title}: not done"
        return HTMLResponse(render("message.html", title=title, text=text, back=folder.name), status)

    def layout(self, snapshot: Snapshot, folder: Path, page: str, request: Request) -> Mapping[str, Any]:
        """Return the values that all pages of a run share."""
        return {
            "run_name": folder.name,
            "snapshot": snapshot,
            "state": snapshot.state,
            "page": page,
            "pages": {name: title for name, (title, _) in PAGES.items()},
            "title": PAGES.get(page, ("Model",))[0],
            "address": _address(request),
            "is_live": page in _LIVE or page == "models",
            "allow_actions": self._allow_actions,
        }


def _action(request: Request) -> tuple[str, Action]:
    """Return the action that an address names.

    Raises:
        HTTPException: There is none of this name.
    """
    name = request.path_params["action"]
    if name not in ACTIONS:
        raise HTTPException(404, "there is no such action")
    return name, ACTIONS[name]


def _address(request: Request) -> str:
    """Return path and query of a request."""
    query = request.scope["query_string"].decode("latin-1")
    path = str(request.scope["raw_path"].decode("latin-1"))
    return f"{path}?{query}" if query else path


def _compared(folders: Mapping[str, Path], names: list[str]) -> list[dict[str, Any]]:
    """Return one chart per player and anchor, with one series per run over its minutes of training."""
    histories = {name: History(folders[name]) for name in names}
    for history in histories.values():
        history.read()
    metrics = sorted(
        {
            metric
            for history in histories.values()
            if history.last
            for metric in history.last.values
            if "/score_v_" in metric and metric.count("/") == 2
        }
    )
    return [_merged(metric, histories) for metric in metrics]


def _merged(metric: str, histories: Mapping[str, History]) -> dict[str, Any]:
    charts = {name: metric_chart("", history, {name: metric}) for name, history in histories.items()}
    x = sorted({minutes for chart in charts.values() for minutes in chart["x"]})
    series = []
    for color, (name, chart) in enumerate(charts.items()):
        known = dict(zip(chart["x"], chart["series"][0]["values"], strict=True)) if chart["series"] else {}
        series.append({"label": name, "color": color, "values": [known.get(minutes) for minutes in x]})
    _, player, score = metric.split("/")
    title = f"Score of {player} against {score.removeprefix('score_v_')}"
    return {"title": title, "xLabel": "minutes of training", "x": x, "series": series}


def _show_error(request: Request, error: Exception) -> Response:  # noqa: ARG001 - the signature of handlers
    """Show an error of a run, which may be damaged or of another version."""
    return HTMLResponse(render("message.html", title="This run cannot be read", text=str(error)), 500)


def _show_status(request: Request, error: HTTPException) -> Response:  # noqa: ARG001 - as above
    return HTMLResponse(
        render("message.html", title=f"Error {error.status_code}", text=error.detail), error.status_code
    )
