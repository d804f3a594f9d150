"""The relay: connects samplers of this host to a run on another host.

To its samplers the host agent acts as coordinator and learners. The relay sends their messages to the run's gateway. It
receives weights once per host, and frozen models when the first fixture needs them.
"""

from __future__ import annotations

import math
import secrets
import time
from collections import deque
from collections.abc import Callable

import zmq
from attrs import evolve
from ludus.errors import ConfigError, LinkError, LudusError, WireError
from ludus.wire import Message
from ludus_local import codec
from ludus_local.codec import Frame
from ludus_local.transport import Sockets, drain

from ludus_hosts import wire
from ludus_hosts.connection import Connection
from ludus_hosts.host_agent import HostAgent, JoinOptions

_POLL_MS = 20
_JOIN_INTERVAL_S = 1.0
_ANSWER_TIMEOUT_S = 5.0
_STATUS_INTERVAL_S = 30.0
_LEAVE_TIMEOUT_S = 15.0  # for samplers to finish


class Relay:
    """Runs the samplers of this host in the sessions of a run.

    Args:
        options: Options of ``ludus join``.
        print_line: Prints one line for the user.

    Attributes:
        interrupted: Whether a signal has requested to leave the run.

    Raises:
        LinkError: The address cannot be used.
    """

    def __init__(self, options: JoinOptions, print_line: Callable[[str], None]) -> None:
        self.interrupted = False
        self._options, self._print_line = options, print_line
        self._token = secrets.token_hex(8)
        self._own = Sockets()
        try:
            self._connection, self._bulk = (Connection(self._own, options.address, options.key) for _ in range(2))
        except LinkError:
            self._own.close()
            raise
        self._agent: HostAgent | None = None
        self._outbox: deque[list[Frame]] = deque()
        self._requested_s = -math.inf
        self._answered_s = self._status_s = time.monotonic()
        self._problem = ""  # why the host does not take part, as printed last
        self._refusal = ""  # what this host lacks, for the run

    def run(self) -> str:
        """Take part until the run stops or a signal arrives, and return the reason.

        Raises:
            LudusError: This host cannot take part.
        """
        try:
            while not self.interrupted:
                self._run_once()
                if self._agent is not None and self._agent.stop_reason:
                    return self._finish(self._agent)
            return "interrupted" if self._agent is None else self._finish(self._agent)
        except LudusError as error:
            self._refusal = " ".join(str(error).split())
            raise
        finally:
            self._close_agent()
            self._send_left()
            self._own.close()

    def interrupt(self, signal: str) -> None:
        """Leave the run as soon as possible, because of a signal."""
        self.interrupted = True
        self._print_line(f"{signal}: leaving the run (again: at once)")

    def _run_once(self) -> None:
        """Forward received messages, waiting up to 20 ms for one."""
        self._own.poller.poll(_POLL_MS)
        for connection in (self._connection, self._bulk):
            self._receive_from_run(connection)
        if self._agent is not None:
            for peer, worker, message in self._agent.receive():
                self._outbox.append([peer.encode(), worker.encode(), *codec.encode(message)])
        while self._outbox and self._connection.send(self._outbox[0]):  # credits of samplers bound the outbox
            self._outbox.popleft()
        now_s = time.monotonic()
        if now_s - self._requested_s >= _JOIN_INTERVAL_S:
            self._check_connection(now_s)
            self._send_join_request(now_s)
        if self._agent is not None:
            self._agent.check()

    def _check_connection(self, now_s: float) -> None:
        """Print problems of the connection, and the status of the samplers at intervals."""
        # read both: unread events of a monitor block its zmq context in the end
        problem, _ = (connection.problem for connection in (self._connection, self._bulk))
        if self._is_disconnected(now_s):
            self._outbox.clear()  # workers send again what matters
            if self._problem and not problem:
                self._answered_s = now_s  # connected again; an answer is in flight
            else:
                self._print_problem(f"waiting for the run at {self._options.address}: {problem or 'no answer'}")
        elif self._agent is not None and not self.interrupted and now_s - self._status_s >= _STATUS_INTERVAL_S:
            self._status_s = now_s
            self._print_line(f"{self._options.host}: {self._agent.status}")

    def _send_join_request(self, now_s: float) -> None:
        request = wire.JoinRequest(host=self._options.host, token=self._token)
        if self._agent is not None:
            request = evolve(request, samplers=len(self._agent.workers), run=self._agent.run)
        if self._connection.send([b"", b"", *codec.encode(request)]):
            self._bulk.send([b"", b"", *codec.encode(evolve(request, bulk=True))])
            self._requested_s = now_s

    def _is_disconnected(self, now_s: float) -> bool:
        return now_s - self._answered_s > _ANSWER_TIMEOUT_S

    def _send(self, message: Message) -> None:
        """Queue a message to the gateway."""
        self._outbox.append([b"", b"", *codec.encode(message)])

    # -- from the run ------------------------------------------------------------------------------------------

    def _receive_from_run(self, connection: Connection) -> None:
        for frames in drain(connection.socket):
            if len(frames) < 3:
                continue
            self._answered_s = time.monotonic()  # any message counts: on a slow network answers are queued behind it
            self._handle_frames(frames)

    def _handle_frames(self, frames: list[Frame]) -> None:
        """Handle a message of the gateway, or deliver one of a worker of the run.

        Raises:
            LudusError: This host cannot take part.
        """
        peer, worker = (bytes(frame).decode("latin-1") for frame in frames[:2])
        try:
            message = codec.decode(frames[2:])
        except WireError as error:
            if not peer:
                raise LinkError(f"incompatible version of ludus: {error}") from None
            return
        if not peer:
            self._handle_gateway(message)
        elif self._agent is not None:
            self._agent.deliver(peer, worker, message)

    def _handle_gateway(self, message: Message) -> None:
        match message:
            case wire.JoinAccepted():
                if self._problem and self._agent is not None and not message.config:
                    self._print_line("the run is back")
                self._problem = ""
                if message.config:
                    self._start_agent(message)
            case wire.JoinRejected():
                if message.final:
                    raise LinkError(message.reason)
                self._print_problem(message.reason)
            case wire.WeightsUpdate() if self._agent is not None:
                self._agent.publish(message)
                ack = wire.WeightsAck(learner=message.learner, version=message.version)
                self._bulk.send([b"", b"", *codec.encode(ack)])  # if it is lost, the connection is too
            case wire.ModelFile() if self._agent is not None:
                self._agent.add_model(message)

    def _start_agent(self, accepted: wire.JoinAccepted) -> None:
        """Start samplers for a session of the run, instead of those for an earlier one.

        Raises:
            ConfigError: Plugins differ from those of the run.
        """
        if self._agent is not None:
            if self._agent.run == accepted.run:
                return
            self._print_line("the run was started again")
            self._close_agent()
        if not self._options.any_versions:
            _check_versions(accepted)
        self._agent = HostAgent(self._options, accepted, print_line=self._print_line, send=self._send)
        for socket in self._agent.sockets:
            self._own.poller.register(socket, zmq.POLLIN)
        count = len(self._agent.workers)
        self._print_line(
            f"{self._options.host} takes part with {count} sampler{'s' if count > 1 else ''}; "
            f"logs in {self._options.folder / 'logs'}"
        )
        self._requested_s = -math.inf  # report the number of samplers at once

    def _print_problem(self, problem: str) -> None:
        """Print why the host does not take part, once."""
        if problem != self._problem:
            self._print_line(problem)
            self._problem = problem

    # -- end ---------------------------------------------------------------------------------------------------

    def _finish(self, agent: HostAgent) -> str:
        """Stop the samplers, and forward messages until they have sent their last results."""
        agent.stop()
        now_s = time.monotonic()
        deadline_s = now_s + (_ANSWER_TIMEOUT_S if self._is_disconnected(now_s) else _LEAVE_TIMEOUT_S)
        while agent.alive and time.monotonic() < deadline_s:
            self._run_once()
        return agent.stop_reason or "interrupted"

    def _send_left(self) -> None:
        self._send(wire.HostLeft(host=self._options.host, reason=self._refusal))
        while self._outbox and self._connection.send(self._outbox.popleft()):
            pass

    def _close_agent(self) -> None:
        agent, self._agent = self._agent, None
        if agent is not None:
            for socket in agent.sockets:
                self._own.poller.unregister(socket)
            agent.close()


def _check_versions(accepted: wire.JoinAccepted) -> None:
    """Check that distributions which both hosts have are of the same version.

    Raises:
        ConfigError: They are not.
    """
    own = wire.installed_versions()
    differences = [
        f"{name} {own[name]} here, {version} there"
        for name, version in accepted.versions.items()
        if own.get(name, version) != version
    ]
    if differences:
        raise ConfigError(
            f"versions differ from those of the run: {', '.join(differences)}; install the same, or add --any-versions"
        )
