"""A worker process: one worker with one ZeroMQ endpoint. Started as ``python -m ludus_local.worker``."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from attrs import frozen
from ludus.activity import listen
from ludus.errors import ConfigError, LudusError, PluginError, RunError
from ludus.launcher import COORDINATOR, Worker, WorkerContext, WorkerEnv, WorkerSpec
from ludus.signals import protect_worker, terminate_children
from ludus.wire import Activity, Failure, Heartbeat
from ludus.workers import make_worker

from ludus_local.group import LocalRendezvous
from ludus_local.link import HostLink
from ludus_local.memory import SharedFolder
from ludus_local.process import die_with_parent, set_process_title
from ludus_local.transport import ZmqEndpoint, ipc_address

_log = logging.getLogger("ludus.local")
_IDLE_TIMEOUT_S = 0.02  # how long an idle worker waits for a message
_POLL_INTERVAL_S = 0.002  # how often a busy worker polls its sockets: polling costs as much as ten matches' ticks
_HEARTBEAT_INTERVAL_S = 1.0
_MAX_ERROR_CHARACTERS = 4000  # of an error message; the log has all of it
_DRAIN_TIMEOUT_S = 15.0  # how long a stopped worker waits for acknowledgements


@frozen(kw_only=True)
class WorkerArguments:
    """The command line of a worker process.

    Args:
        run: The run folder.
        name: Worker name.
        threads: Number of threads.
        session: See `ludus.launcher.WorkerEnv`.
        sockets: Folder of the sockets.
        parent: Process id of the launching process.
        extra: Further arguments of this kind of worker.
    """

    run: Path
    name: str
    threads: int
    session: int
    sockets: Path
    parent: int
    extra: list[str]


def run_loop(worker: Worker, link: HostLink) -> None:
    """Run a worker until it is stopped and everything it sent is acknowledged."""
    worker.start()
    busy, now_s, polled_s, heartbeat_s, stopped_s = False, 0.0, 0.0, 0.0, 0.0
    while True:
        if not busy or now_s - polled_s > _POLL_INTERVAL_S:
            for peer, message in link.receive(0.0 if busy else _IDLE_TIMEOUT_S):
                worker.handle(peer, message)
            polled_s = time.monotonic()
        busy = worker.work()
        now_s = time.monotonic()
        if now_s - heartbeat_s > _HEARTBEAT_INTERVAL_S:
            heartbeat_s = now_s
            link.send(COORDINATOR, Heartbeat(count=worker.count))
        if worker.stopped:
            stopped_s = stopped_s or now_s
            if _may_exit(worker, now_s - stopped_s):
                return


def _may_exit(worker: Worker, stopped_for_s: float) -> bool:
    """Return whether a stopped worker is drained, or has waited long enough."""
    if not worker.drained and stopped_for_s > _DRAIN_TIMEOUT_S:
        _log.warning("%s exits with unacknowledged messages", worker.name)
        return True
    return worker.drained


def main(arguments: list[str] | None = None) -> int:
    """Run the worker that the command line names, and return the exit status."""
    return run_process(_make_local_worker, arguments)


def run_process(
    make: Callable[[WorkerArguments, ZmqEndpoint], tuple[Worker, HostLink]], command_line: list[str] | None = None
) -> int:
    """Run a worker in this process, which was started for it, and return the exit status.

    Args:
        make: Makes the worker and its link from the command line and its endpoint.
        command_line: The command line; None for that of the process.
    """
    arguments = WorkerArguments(**vars(_parser().parse_args(command_line)))
    protect_worker()  # a clean stop is a message, a hard one SIGKILL; SIGTERM only writes a traceback to the log
    die_with_parent(arguments.parent)
    set_process_title(arguments.name)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    endpoint = ZmqEndpoint(arguments.name, sockets=arguments.sockets)
    endpoint.connect(COORDINATOR, ipc_address(arguments.sockets, COORDINATOR))
    try:
        with listen(partial(_send_activity, endpoint)):
            worker, link = make(arguments, endpoint)
            gc.freeze()  # exempts the objects made so far, which saves some per cent of the time
            try:
                run_loop(worker, link)
            finally:
                worker.close()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - plugin code may raise anything; the coordinator reports it
        with suppress(OSError):  # the disk of the log may be full; the coordinator gets the error all the same
            traceback.print_exc()
        endpoint.send(COORDINATOR, _failure(error))
        return 1
    finally:
        endpoint.close()
        terminate_children()
    return 0


def _send_activity(endpoint: ZmqEndpoint, text: str, done: int, total: int) -> None:
    endpoint.send(COORDINATOR, Activity(text=text, done=done, total=total))


def _failure(error: BaseException) -> Failure:
    fatal = isinstance(error, ConfigError | PluginError | RunError)
    text = str(error) if isinstance(error, LudusError) else f"{type(error).__name__}: {error}"
    text = text.encode("utf-8", "replace").decode()  # file names may contain lone surrogates
    return Failure(error=text[:_MAX_ERROR_CHARACTERS], fatal=fatal)


def _make_local_worker(arguments: WorkerArguments, endpoint: ZmqEndpoint) -> tuple[Worker, HostLink]:
    link = _make_link(arguments.name, endpoint, arguments.sockets)
    spec = WorkerSpec(arguments.name, arguments.threads)
    env = WorkerEnv(run_dir=arguments.run, session=arguments.session, sockets=arguments.sockets)
    rendezvous = None if link.folder is None else LocalRendezvous(arguments.sockets, link.folder)
    context = WorkerContext(link=link, clock=time.monotonic, memory=link, rendezvous=rendezvous)
    return make_worker(spec, env, context), link


def _make_link(name: str, endpoint: ZmqEndpoint, sockets: Path) -> HostLink:
    """Return the link of a worker: learners bind, others connect to them, and most kinds have shared memory."""
    kind = name.partition("-")[0]
    address = endpoint.bind(ipc_address(sockets, name)) if kind == "learner" else ""
    folder = SharedFolder.beside(sockets, name) if kind in {"learner", "helper", "sampler"} else None
    return HostLink(endpoint, folder, address=address)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ludus_local.worker", description="A worker; started by its launcher.")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--session", type=int, required=True)
    parser.add_argument("--sockets", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("extra", nargs="*")
    return parser


if __name__ == "__main__":
    sys.exit(main())
