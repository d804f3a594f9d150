"""A worker process: one worker object around one ZeroMQ endpoint. Started as ``python -m ludus_local.worker``."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import logging
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from attrs import frozen
from ludus.errors import ConfigError, LudusError, PluginError, RunError
from ludus.launcher import COORDINATOR, Worker, WorkerContext, WorkerEnv, WorkerSpec
from ludus.wire import Failure, Heartbeat
from ludus.workers import make_worker

from ludus_local.group import LocalRendezvous
from ludus_local.link import HostLink
from ludus_local.memory import SharedFolder
from ludus_local.process import die_with_parent, set_process_title
from ludus_local.transport import ZmqEndpoint, ipc_address

__all__ = ["Command", "main", "run", "serve"]

_log = logging.getLogger("ludus.local")
_IDLE_S = 0.02  # how long a worker with nothing to do waits for a message
_LISTENS_S = 0.002  # how often one with much to do looks for messages: looking takes as long as playing ten matches on
_BEAT_S = 1.0
_MOST_SAID = 4000  # characters of an error; the log has all of it
_LEAVE_S = 15.0  # how long a stopped worker waits for its last acknowledgements


@frozen(kw_only=True)
class Command:
    """What a worker is told when it is started.

    Args:
        run: The run folder.
        name: Its name.
        threads: How many it may use.
        session: See `ludus.launcher.WorkerEnv`.
        sockets: Folder of the sockets.
        parent: Process that started it.
        more: What only this kind of worker is told.
    """

    run: Path
    name: str
    threads: int
    session: int
    sockets: Path
    parent: int
    more: list[str]


def serve(worker: Worker, link: HostLink) -> None:
    """Run a worker until it is told to stop and all it said is acknowledged."""
    worker.start()
    busy, now, last_seen_s, beat_s, stopped_s = False, 0.0, 0.0, 0.0, None
    while True:
        if not busy or now - last_seen_s > _LISTENS_S:
            for peer, message in link.receive(0.0 if busy else _IDLE_S):
                worker.handle(peer, message)
            last_seen_s = time.monotonic()
        busy = worker.work()
        now = time.monotonic()
        if now - beat_s > _BEAT_S:
            beat_s = now
            link.send(COORDINATOR, Heartbeat(count=worker.count))
        if worker.stopped:
            stopped_s = stopped_s or now
            if worker.drained:
                return
            if now - stopped_s > _LEAVE_S:
                _log.warning("%s leaves, though not all that it said was acknowledged", worker.name)
                return


def main(arguments: list[str] | None = None) -> int:
    """Run the worker of a run that is named on the command line, and return its exit status."""
    return run(_enlist, arguments)


def run(make: Callable[[Command, ZmqEndpoint], tuple[Worker, HostLink]], arguments: list[str] | None = None) -> int:
    """Run a worker in this process, which was started for it, and return its exit status.

    Args:
        make: Makes the worker and the way to the others from what it is told and its endpoint.
        arguments: The command line; None takes that of the process.
    """
    command = Command(**vars(_parser().parse_args(arguments)))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the coordinator decides
    # Likewise: a clean end comes as a message, a hard one as SIGKILL. It only writes to the log what is being done.
    faulthandler.register(signal.SIGTERM, file=2, all_threads=True)  # 2: the log
    die_with_parent(command.parent)
    set_process_title(command.name)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    endpoint = ZmqEndpoint(command.name, sockets=command.sockets)
    endpoint.connect(COORDINATOR, ipc_address(command.sockets, COORDINATOR))
    try:
        worker, link = make(command, endpoint)
        gc.freeze()  # what is there by now stays: looking through it again and again costs some per cent
        try:
            serve(worker, link)
        finally:
            worker.close()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - plugin code may raise anything; the coordinator tells it
        with suppress(OSError):  # the log may be on the disk that is full, and the coordinator is to be told of that
            traceback.print_exc()
        fatal = isinstance(error, ConfigError | PluginError | RunError)
        why = str(error) if isinstance(error, LudusError) else f"{type(error).__name__}: {error}"
        why = why.encode("utf-8", "replace").decode()[:_MOST_SAID]  # a name of a file may hold anything
        endpoint.send(COORDINATOR, Failure(error=why, fatal=fatal))
        return 1
    finally:
        endpoint.close()
    return 0


def _enlist(command: Command, endpoint: ZmqEndpoint) -> tuple[Worker, HostLink]:
    link = _link(command.name, endpoint, command.sockets)
    spec = WorkerSpec(command.name, command.threads)
    place = WorkerEnv(run_dir=command.run, session=command.session, sockets=command.sockets)
    rendezvous = None if link.folder is None else LocalRendezvous(command.sockets, link.folder)
    context = WorkerContext(link=link, clock=time.monotonic, memory=link, rendezvous=rendezvous)
    return make_worker(spec, place, context), link


def _link(name: str, endpoint: ZmqEndpoint, sockets: Path) -> HostLink:
    """Return the way to the others: learners listen, samplers look for them, and both have shared memory."""
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
    parser.add_argument("more", nargs="*")
    return parser


if __name__ == "__main__":
    sys.exit(main())
