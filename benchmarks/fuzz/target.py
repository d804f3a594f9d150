"""A target: the routes of one kind of message, and what inputs have done at the receivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from attrs import define, field
from ludus.errors import WireError
from ludus_hosts import wire
from ludus_local import codec

from fuzz.checks import Finding, Meter, describe, peak_bytes, place_of, reset_peak
from fuzz.coordinator import CoordinatorReceiver
from fuzz.helper import HelperReceiver
from fuzz.hosts import GatewayReceiver, RelayReceiver
from fuzz.inputs import Input, pack, replaced
from fuzz.league import Trained
from fuzz.routes import Route, routes
from fuzz.stage import RELAY, Receiver, Stage
from fuzz.workers import WorkerReceiver

#: Messages between two commits, and between two verifications.
BATCH = 64
GENERATION = 20_000
_FORBIDDEN_IN = 8  # routes, one is forbidden
_MAX_GROWTH_BYTES = 128 * 2**20  # of the process over a generation, after the first one

_RECEIVERS: dict[str, Callable[[Trained, Path], Receiver]] = {
    "coordinator": CoordinatorReceiver,
    wire.GATEWAY: GatewayReceiver,
    RELAY: RelayReceiver,
    "helper-1-main": HelperReceiver,
}


def make_receiver(name: str, trained: Trained, folder: Path) -> Receiver:
    """Make the receiver of a name.

    Args:
        name: Worker name, or `RELAY`.
        trained: The league.
        folder: New folder for its files.
    """
    if name in _RECEIVERS:
        return _RECEIVERS[name](trained, folder)
    return WorkerReceiver(trained, folder, name)


@define(eq=False)
class Target:
    """Delivers inputs of one kind of message.

    Args:
        kind: Class name of the message.
        trained: The league.
        folder: Folder for the files of the receivers.
        on_finding: Called with every new finding and the bytes of its input.
        receivers: Receivers by name; those that are missing are added, so that several targets can share them.

    Attributes:
        routes: The routes of the kind.
        stages: Number of inputs by how far they got.
        findings: Number of inputs by finding.
    """

    kind: str
    trained: Trained
    folder: Path
    on_finding: Callable[[Finding, bytes], None]
    receivers: dict[str, Receiver] = field(factory=dict)
    routes: list[Route] = field(init=False)
    stages: Counter[Stage] = field(init=False, factory=Counter)
    findings: Counter[Finding] = field(init=False, factory=Counter)
    _own: dict[str, None] = field(init=False)  # receivers of the kind
    _groups: list[list[Route]] = field(init=False)  # allowed ones, then forbidden ones
    _places: dict[str, Finding] = field(init=False, factory=dict)
    _opened: list[int] = field(init=False, factory=list)
    _grown_from: int = field(init=False, default=0)
    _meter: Meter = field(init=False, factory=Meter)
    _last: Input = field(init=False, default=Input(0, live=False, frames=(b"",)))

    def __attrs_post_init__(self) -> None:
        self.routes = routes(self.kind)
        self._groups = [[one for one in self.routes if one.is_allowed is not forbidden] for forbidden in (False, True)]
        self._own = dict.fromkeys(route.through for route in self.routes)
        for name in self._own:
            if name not in self.receivers:
                self.receivers[name] = make_receiver(name, self.trained, self.folder / name)
        self._settle()

    @property
    def count(self) -> int:
        """Return the number of inputs so far."""
        return self.stages.total()

    def run(self, one: Input) -> None:
        """Deliver an input and record what it does."""
        route = self._route(one.route)
        receiver = self.receivers[route.through]
        if one.live and self._opened and self.kind == "Results":
            one = self._with_open_fixtures(one)
        owned = receiver.owned(route.sender)
        stage = Stage.HANDLED
        with self._meter as meter:
            stage = receiver.deliver(route.sender, route.receiver, list(one.frames))
        self._last = one
        if meter.raised is None:
            self.stages[stage] += 1
            self._check(route, stage, is_changed=receiver.owned(route.sender) != owned)
        else:
            self.stages[Stage.REFUSED] += 1
        self._judge(route, receiver, meter)
        if self.count % BATCH == 0:
            self._settle()
        if self.count % GENERATION == 0:
            self.verify()

    def _route(self, number: int) -> Route:
        """Return the route of a number; one in eight is forbidden."""
        group = self._groups[number % _FORBIDDEN_IN == _FORBIDDEN_IN - 1] or self.routes
        return group[number // _FORBIDDEN_IN % len(group)]

    def _check(self, route: Route, stage: Stage, *, is_changed: bool) -> None:
        """Report a change of what is not the sender's, and a forbidden message that was read."""
        if is_changed:
            self._report("changed what belongs to another worker", "owner", route)
        if not route.is_allowed and stage in {Stage.REFUSED, Stage.HANDLED}:
            self._report("reached the handler, though its sender must not send it", "permission", route)

    def _judge(self, route: Route, receiver: Receiver, meter: Meter) -> None:
        """Report an exceeded limit, or an exception that does not end the receiver in a documented way."""
        if meter.problem:
            self._report(meter.problem, "cost", route)
        error = meter.raised
        if error is None:
            return
        is_inner = route.sender.partition("-")[0] in {"coordinator", "learner", "service"} and route.is_allowed
        if not (is_inner and isinstance(error, receiver.forgives)):
            self._report(f"raised {describe(error)}", place_of(error), route)
        if not isinstance(error, WireError):
            receiver.restart()

    def _report(self, what: str, place: str, route: Route) -> None:
        """Count a finding, and report it if there is none at that place yet."""
        key = f"{place} {route.through}"
        is_new = key not in self._places
        finding = self._places.setdefault(key, Finding(what, place, f"{route.sender} → {route.receiver}"))
        self.findings[finding] += 1
        if is_new:
            self.on_finding(finding, pack(self._last))

    def _settle(self) -> None:
        """Let all receivers commit and answer."""
        for name in self._own:
            receiver = self.receivers[name]
            with Meter() as meter:
                receiver.settle()
            if meter.raised is not None:
                route = Route(self.kind, name, name)
                self._report(f"afterwards raised {describe(meter.raised)}", place_of(meter.raised), route)
                receiver.restart()
        self._opened = [number for name in self._own for number in self.receivers[name].open_fixtures()]
        reset_peak()

    def verify(self) -> None:
        """Verify what the receivers have stored, and that memory has not grown since the last verification."""
        for name in self._own:
            receiver = self.receivers[name]
            for problem in receiver.verify():
                self._report(f"afterwards: {problem}", problem[:40], Route(self.kind, name, name))
        reset_peak()
        now = peak_bytes()
        if self._grown_from and now - self._grown_from > _MAX_GROWTH_BYTES:
            grown = (now - self._grown_from) / 2**20
            self._report(
                f"memory grew by {grown:.0f} MiB over {GENERATION} messages", "growth", Route("all", "all", "")
            )
        self._grown_from = now
        self._opened = [number for name in self._own for number in self.receivers[name].open_fixtures()]

    def _with_open_fixtures(self, one: Input) -> Input:
        """Return a report of results whose ids are those of open fixtures: id n stands for the n-th of them."""
        try:
            message = codec.decode(one.frames)
        except WireError:
            return one
        arrays = getattr(message, "arrays", {})
        ids = arrays.get("fixture")
        if ids is None or ids.dtype != np.int64:
            return one
        opened = np.array(self._opened)[ids % len(self._opened)]
        position = 1 + list(arrays).index("fixture")
        frames = list(one.frames)
        frames[position] = opened.tobytes()
        return replaced(one, frames)

    def close(self) -> None:
        """Close all receivers."""
        for receiver in self.receivers.values():
            receiver.close()
