"""The view of ``ludus league verify``: repairs, contradictions and quarantined models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ludus.runs import Run
from rich.console import RenderableType
from rich.markup import escape

from ludus_terminal.verify import verify
from ludus_terminal.views import Data, View

__all__ = ["VERIFY"]


def _verify(run: Run, repairs: Sequence[str] = (), *, go_on: bool = False) -> Data:
    found = verify(run, go_on=go_on)
    return {
        "ok": not found.problems,
        "matches": run.num_matches(),
        "first_fixture": found.first_fixture,
        "problems": list(found.problems),
        "quarantined": dict(run.quarantined),
        "repairs": list(repairs),
    }


def _show_verify(data: Data) -> Iterable[RenderableType]:
    yield from map(escape, (*data["repairs"], *data["problems"]))
    for name, damage in data["quarantined"].items():
        yield escape(f"{name} is quarantined and does not play: {damage}")
    if data["ok"]:
        yield f"everything agrees with the log of {data['matches']:,} matches and with the files"
        if data["first_fixture"]:
            yield f"fixtures before {data['first_fixture']:,} were verified earlier"


VERIFY = View(_verify, _show_verify)
