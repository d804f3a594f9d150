"""Micro-batches: requests that wait together, and how their rows go into one call and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

import numpy as np
from attrs import define, field, frozen
from ludus.inference import Outputs, Span
from ludus_local.memory import SharedFile

from ludus_inference_server.models import Architecture

__all__ = ["Batch", "Client", "Piece", "Request", "run"]

Arrays = Mapping[str, np.ndarray]


@define(eq=False)
class Client:
    """A runtime in another process.

    Attributes:
        name: By which it is answered.
        pid: Of its process.
        architecture: What it runs.
        area: Its rows.
        answer: What it is answered.
        rows: For how many rows there is room.
        models: Its slots and the contents they hold.
        slots: Its slots and those of the architecture.
        number: Of what it said last.
        reply: To that; empty while it waits.
        asked_s: When that was.
    """

    name: str
    pid: int
    architecture: Architecture
    area: SharedFile
    answer: SharedFile
    rows: int
    models: dict[int, str] = field(factory=dict)
    slots: dict[int, int] = field(factory=dict)
    number: int = -1
    reply: bytes = b""
    asked_s: float = -1e9


@frozen(eq=False)
class Request:
    """Rows that a runtime waits for.

    Attributes:
        client: Who waits.
        number: What it calls the request.
        rows: How many rows.
        spans: Which rows belong to which slot of the architecture.
        area: Leaves ``[≥ rows, …]`` as ``observation/…``, ``privileged/…`` and ``state/…``.
        answer: Where ``heads/…`` and ``state/…`` go, ``[≥ rows, …]``.
        since_s: When it came.
    """

    client: Client
    number: int
    rows: int
    spans: list[Span]
    area: Arrays
    answer: Arrays
    since_s: float


@define(eq=False)
class Batch:
    """Requests of one architecture, with equal groups of leaves, that will be one call."""

    architecture: Architecture
    requests: list[Request] = field(factory=list)

    @property
    def rows(self) -> int:
        """Return how many rows wait."""
        return sum(request.rows for request in self.requests)

    @property
    def since_s(self) -> float:
        """Return when the first request came."""
        return self.requests[0].since_s


@frozen
class Piece:
    """Rows of one request that one model evaluates."""

    request: Request
    span: Span


def run(batch: Batch) -> tuple[str, ...]:
    """Evaluate a batch into the answer areas of its requests and return which leaves were written."""
    if len(batch.requests) == 1:
        (request,) = batch.requests
        outputs = _call(batch, {name: leaf[: request.rows] for name, leaf in request.area.items()}, request.spans)
        return _answer(outputs, [Piece(request, Span(0, 0, request.rows))])
    pieces = [Piece(request, span) for request in batch.requests for span in request.spans]
    pieces.sort(key=lambda piece: piece.span.slot)
    names = batch.requests[0].area
    rows = {name: np.concatenate([p.request.area[name][p.span.start : p.span.stop] for p in pieces]) for name in names}
    return _answer(_call(batch, rows, _merged(pieces)), pieces)


def _merged(pieces: Iterable[Piece]) -> list[Span]:
    """Return one span per model for pieces in the order of their models."""
    spans: list[Span] = []
    start = 0
    for slot, of_one in groupby(pieces, key=lambda piece: piece.span.slot):
        stop = start + sum(piece.span.stop - piece.span.start for piece in of_one)
        spans.append(Span(slot, start, stop))
        start = stop
    return spans


def _call(batch: Batch, rows: Arrays, spans: list[Span]) -> Outputs:
    groups: dict[str, dict[str, np.ndarray]] = {"observation": {}, "privileged": {}, "state": {}}
    for name, leaf in rows.items():
        group, _, leaf_name = name.partition("/")
        groups[group][leaf_name] = leaf
    return batch.architecture.runtime.run(
        groups["observation"], privileged=groups["privileged"], state=groups["state"], spans=spans
    )


def _answer(outputs: Outputs, pieces: list[Piece]) -> tuple[str, ...]:
    leaves = {f"heads/{name}": head for name, head in outputs.heads.items()}
    leaves |= {f"state/{name}": leaf for name, leaf in outputs.state.items()}
    start = 0
    for request, span in ((piece.request, piece.span) for piece in pieces):
        stop = start + span.stop - span.start
        for name, leaf in leaves.items():
            request.answer[name][span.start : span.stop] = leaf[start:stop]
        start = stop
    return tuple(leaves)
