"""A worker process: one worker object around one ZeroMQ endpoint. Started as ``python -m ludus._worker``."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import logging
import signal
import sys
import time
import traceback
from pathlib import Path

from ludus._assembly import Assembly, Worker
from ludus._config import load_config
from ludus._messages import Failure, Progress
from ludus._plugins import load_plugins
from ludus._process import die_with_parent, prepare_to_compute, set_process_title
from ludus._sampler import COORDINATOR, learner_name
from ludus._shared import SharedFolder
from ludus._transport import ZmqEndpoint, ipc_address
from ludus.errors import ConfigError, LudusError, ModelError, PluginError

_IDLE_S = 0.02  # how long a worker with nothing to do waits for a message
_BEAT_S = 1.0
_LEAVE_S = 15.0  # how long a stopped worker waits for its last acknowledgements


def serve(worker: Worker, endpoint: ZmqEndpoint) -> None:
    """Run a worker until it is told to stop and all it said is acknowledged."""
    worker.start()
    busy, beat_s, stopped_s = False, 0.0, None
    while True:
        for peer, message in endpoint.receive(0.0 if busy else _IDLE_S):
            worker.handle(peer, message)
        busy = worker.work()
        now = time.monotonic()
        if now - beat_s > _BEAT_S:
            beat_s = now
            endpoint.send(COORDINATOR, Progress(worker=worker.name, count=worker.count))
        if worker.stopped:
            stopped_s = stopped_s or now
            if worker.settled or now - stopped_s > _LEAVE_S:
                return


def main(arguments: list[str] | None = None) -> int:
    """Run the worker named on the command line and return its exit status."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the coordinator decides
    # Likewise: a clean end comes as a message, a hard one as SIGKILL. It only writes to the log what is being done.
    faulthandler.register(signal.SIGTERM, file=2, all_threads=True)  # 2: the log
    die_with_parent(options.parent)
    set_process_title(options.name)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    endpoint = ZmqEndpoint(options.name)
    sockets = Path(options.sockets)
    endpoint.connect(COORDINATOR, ipc_address(sockets, COORDINATOR))
    try:
        worker = _make(options, endpoint, sockets)
        gc.freeze()  # what is there by now stays: looking through it again and again costs some per cent
        try:
            serve(worker, endpoint)
        finally:
            worker.close()
    except Exception as error:  # noqa: BLE001 - plugin code may raise anything, and the coordinator tells it
        traceback.print_exc()
        fatal = isinstance(error, ConfigError | PluginError | ModelError)
        why = str(error) if isinstance(error, LudusError) else f"{type(error).__name__}: {error}"
        endpoint.send(COORDINATOR, Failure(worker=options.name, error=why, fatal=fatal))
        return 1
    finally:
        endpoint.close()
    return 0


def _make(options: argparse.Namespace, endpoint: ZmqEndpoint, sockets: Path) -> Worker:
    plugins = load_plugins()
    run_dir = Path(options.run)
    config = load_config(run_dir / "run.toml", plugins=plugins)
    assembly = Assembly(config=config, plugins=plugins, run_dir=run_dir, session=options.session, sockets=sockets)
    kind, address = options.name.partition("-")[0], ""
    prepare_to_compute(assembly.learner_threads() if kind == "learner" else config.run.sampler_threads)
    if kind == "learner":
        address = endpoint.bind(ipc_address(sockets, options.name))
    for player in config.players if kind == "sampler" else ():
        endpoint.connect(learner_name(player), ipc_address(sockets, learner_name(player)))
    shared = SharedFolder.beside(sockets, options.name) if kind in {"learner", "sampler"} else None
    return assembly.worker(options.name, link=endpoint, clock=time.monotonic, shared=shared, address=address)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ludus._worker", description="A worker of a run; started by ludus itself.")
    parser.add_argument("--run", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--session", type=int, required=True)
    parser.add_argument("--sockets", required=True)
    parser.add_argument("--parent", type=int, required=True)
    return parser


if __name__ == "__main__":
    sys.exit(main())
