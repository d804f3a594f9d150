"""Micro-batches: requests that are evaluated in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

import numpy as np
from attrs import define, field, frozen
from ludus.inference import Outputs, Span
from ludus_local.memory import SharedFile

from ludus_inference_server.models import Architecture

Arrays = Mapping[str, np.ndarray]


@define(eq=False)
class Client:
    """A runtime in another process.

    Attributes:
        name: Identity of its connection.
        pid: Process id.
        architecture: Its network.
        area: Request buffer.
        answer: Answer buffer.
        rows: Number of rows of the buffers.
        models: Content hash of the model by slot.
        slots: Slot of the architecture's runtime by slot of the client.
        number: Number of its last request.
        reply: Reply to that; empty while it waits.
        asked_s: Time of that request.
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
    """A request to evaluate rows.

    Attributes:
        client: The client.
        number: Number of the request.
        rows: Number of rows.
        spans: Rows by slot of the architecture's runtime.
        area: Leaves ``[≥ rows, …]`` as ``observation/…``, ``privileged/…`` and ``state/…``.
        answer: Output leaves ``heads/…`` and ``state/…``, ``[≥ rows, …]``.
        since_s: Time of arrival.
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
    """Requests of one architecture with equal groups of leaves, evaluated in one call."""

    architecture: Architecture
    requests: list[Request] = field(factory=list)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return sum(request.rows for request in self.requests)

    @property
    def since_s(self) -> float:
        """Return the arrival time of the first request."""
        return self.requests[0].since_s


@frozen
class Piece:
    """Rows of one request that one model evaluates."""

    request: Request
    span: Span


def run(batch: Batch) -> tuple[str, ...]:
    """Evaluate a batch into the answer buffers of its requests, and return the names of the written leaves."""
    if len(batch.requests) == 1:
        (request,) = batch.requests
        outputs = _call(batch, {name: leaf[: request.rows] for name, leaf in request.area.items()}, request.spans)
        return _answer(outputs, [Piece(request, Span(0, 0, request.rows))])
    pieces = [Piece(request, span) for request in batch.requests for span in request.spans]
    pieces.sort(key=lambda piece: piece.span.slot)
    names = batch.requests[0].area
    rows = {name: np.concatenate([p.request.area[name][p.span.start : p.span.stop] for p in pieces]) for name in names}
    return _answer(_call(batch, rows, _merge_spans(pieces)), pieces)


def _merge_spans(pieces: Iterable[Piece]) -> list[Span]:
    """Return one span per model for pieces sorted by model."""
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
