"""The relay: takes part in a run of another machine with samplers of this one.

To its samplers it is coordinator and learners: they find both under their names in a private folder, weights in shared
memory, and frozen models in a folder. What they say goes to the run, blocks packed; weights come from there once per
host, and a frozen model when the first fixture needs it, by its hash.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable

import zmq
from attrs import evolve
from ludus.errors import ConfigError, LinkError, WireError
from ludus.wire import Message
from ludus_local import codec
from ludus_local.codec import Frame
from ludus_local.transport import Sockets, drain

from ludus_hosts.line import Line
from ludus_hosts.site import Options, RemoteHost
from ludus_hosts.wire import Joined, Joining, Leaving, ModelFile, Newest, Refused, Taken, installed

__all__ = ["Relay"]

_WAIT_MS = 20
_BEAT_S = 1.0
_LOST_S = 5.0  # without an answer for so long the run seems to be gone
_SHOW_S = 30.0
_LEAVE_S = 15.0  # what samplers get to finish


class Relay:
    """One process per host.

    Args:
        options: How this machine takes part.
        print_line: Tells the person one line.

    Attributes:
        interrupted: Whether a person or signal wants it to leave.

    Raises:
        LinkError: The address cannot be used.
    """

    def __init__(self, options: Options, print_line: Callable[[str], None]) -> None:
        self.interrupted = False
        self._options, self._say = options, print_line
        self._token = secrets.token_hex(8)
        self._own = Sockets()
        try:
            self._line, self._bulk = (Line(self._own, options.address, options.key) for _ in range(2))
        except LinkError:
            self._own.close()
            raise
        self._site: RemoteHost | None = None
        self._backlog: deque[list[Frame]] = deque()
        self._beat_s = -1e9
        self._answered_s = self._shown_s = time.monotonic()
        self._lost = ""

    def run(self) -> str:
        """Take part until the run is over or a person interrupts, and return why it ended.

        Raises:
            LudusError: This machine cannot take part.
        """
        try:
            while not self.interrupted:
                self._turn()
                if self._site is not None and self._site.over:
                    return self._finish(self._site)
            return "interrupted" if self._site is None else self._finish(self._site)
        finally:
            self._leave()
            self._own.close()

    def interrupt(self, signal: str) -> None:
        """Leave the run as soon as possible, because of a signal."""
        self.interrupted = True
        self._say(f"{signal}: leaving the run (again: at once)")

    def _turn(self) -> None:
        """Pass on what has come, waiting 20 ms for it."""
        self._own.poller.poll(_WAIT_MS)
        for line in (self._line, self._bulk):
            self._hear_run(line)
        if self._site is not None:
            for peer, worker, message in self._site.hear():
                self._backlog.append([peer.encode(), worker.encode(), *codec.encode(message)])
        while self._backlog and self._line.send(self._backlog[0]):  # what waits is bounded by the samplers' credits
            self._backlog.popleft()
        now = time.monotonic()
        if now - self._beat_s >= _BEAT_S:
            self._beat(now)
        if self._site is not None:
            self._site.check()

    def _beat(self, now: float) -> None:
        # asked for always, and of both: events that nobody takes stop all connections when there are too many of them
        trouble, _ = (line.trouble for line in (self._line, self._bulk))
        if self._is_lost(now):
            self._backlog.clear()  # workers repeat what matters, and a night of that is much
            if self._lost and not trouble:
                self._answered_s = now  # connected at last: the answer is under way
            else:
                self._complain(f"waiting for the run at {self._options.address}: {trouble or 'no answer'}")
        elif self._site is not None and not self.interrupted and now - self._shown_s >= _SHOW_S:
            self._shown_s = now
            self._say(f"{self._options.host}: {self._site.pace}")
        joining = Joining(host=self._options.host, token=self._token)
        if self._site is not None:
            joining = evolve(joining, samplers=len(self._site.workers), run=self._site.run)
        if self._line.send([b"", b"", *codec.encode(joining)]):
            self._bulk.send([b"", b"", *codec.encode(evolve(joining, bulk=True))])
            self._beat_s = now

    def _is_lost(self, now: float) -> bool:
        return now - self._answered_s > _LOST_S

    def _tell(self, message: Message) -> None:
        self._backlog.append([b"", b"", *codec.encode(message)])

    # -- from the run ------------------------------------------------------------------------------------------

    def _hear_run(self, line: Line) -> None:
        for frames in drain(line.socket):
            if len(frames) < 3:
                continue
            self._answered_s = time.monotonic()  # whatever it is: on a slow way answers wait behind it
            peer, worker = (bytes(frame).decode("latin-1") for frame in frames[:2])
            try:
                message = codec.decode(frames[2:])
            except WireError as error:
                if not peer:
                    raise LinkError(f"incompatible version of ludus: {error}") from None
                continue
            if not peer:
                self._hear_gateway(message)
            elif self._site is not None:
                self._site.take(peer, worker, message)

    def _hear_gateway(self, message: Message) -> None:
        match message:
            case Joined():
                if self._lost and self._site is not None and not message.config:
                    self._say("the run is back")
                self._lost = ""
                if message.config:
                    self._begin(message)
            case Refused():
                if message.final:
                    raise LinkError(message.why)
                self._complain(message.why)
            case Newest() if self._site is not None:
                self._site.publish(message)
                taken = Taken(learner=message.learner, version=message.version)
                self._bulk.send([b"", b"", *codec.encode(taken)])  # as they came: if it is lost, so is the connection
            case ModelFile() if self._site is not None:
                self._site.keep(message)

    def _begin(self, joined: Joined) -> None:
        """Start samplers for a run that was not known yet, instead of those for another one."""
        if self._site is not None:
            if self._site.run == joined.run:
                return
            self._say("the run was started anew")
            self._end()
        ours = installed()
        differ = [
            f"{name} {ours[name]} here, {v} there" for name, v in joined.versions.items() if ours.get(name, v) != v
        ]
        if differ and not self._options.any_versions:
            raise ConfigError(
                f"other versions than where the run is: {', '.join(differ)}; install the same, or add --any-versions"
            )
        self._site = RemoteHost(self._options, joined, print_line=self._say, ask=self._tell)
        for socket in self._site.sockets:
            self._own.poller.register(socket, zmq.POLLIN)
        count = len(self._site.workers)
        self._say(
            f"{self._options.host} takes part with {count} sampler{'s' if count > 1 else ''}; "
            f"logs in {self._options.folder / 'logs'}"
        )
        self._beat_s = -1e9  # say at once how many there are

    def _complain(self, why: str) -> None:
        if why != self._lost:
            self._say(why)
            self._lost = why

    # -- the end -----------------------------------------------------------------------------------------------

    def _finish(self, site: RemoteHost) -> str:
        """Let samplers report their last matches; meanwhile all goes on."""
        site.stop()
        now = time.monotonic()
        deadline = now + (_LOST_S if self._is_lost(now) else _LEAVE_S)
        while site.alive and time.monotonic() < deadline:
            self._turn()
        return site.over or "interrupted"

    def _leave(self) -> None:
        self._end()
        self._tell(Leaving(host=self._options.host))
        while self._backlog and self._line.send(self._backlog.popleft()):
            pass

    def _end(self) -> None:
        """End what this machine does for the run, as far as it does anything."""
        site, self._site = self._site, None
        if site is not None:
            for socket in site.sockets:
                self._own.poller.unregister(socket)
            site.close()
