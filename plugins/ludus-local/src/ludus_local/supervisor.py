"""Supervises worker processes: starts them, restarts those that die or hang, and ends them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import Factory, define, field
from ludus.errors import WorkerError
from ludus.launcher import Session, WorkerSpec
from ludus.processes import memory_bytes
from ludus.recovery import RestartHistory
from ludus.wire import Activity

from ludus_local.activities import Activities
from ludus_local.limits import ResourceLimits, ResourceWatchdog
from ludus_local.process import (
    LocalProcess,
    WorkerCommand,
    allow_open_files,
    available_cores,
    launch,
    oversubscription,
)

_SUSPENDED_S = 5.0  # between two checks: the supervisor itself was stopped
_SERVICE_STALL_S = 5.0  # a service that was silent for so long may block its clients
_START_TIMEOUT_S = 300.0  # a worker sends nothing while it imports, which takes long on a busy machine
_MIN_WORKER_BYTES = 100 * 2**20  # private memory of every worker: Python, NumPy and torch without a game
_LAST_MESSAGE_S = 0.5  # after the end of a process its last message may still be in transit
_TRACEBACK_S = 0.5  # for a hanging worker to write its traceback to the log
_ORPHAN_TIMEOUT_S = 2.0  # for workers that stop and may be waiting for a service that has ended
_COMPUTING = ("learner-", "helper-", "service-", "sampler-")  # always; evaluators and gateways only at times
_LIMITED = ("sampler-", "evaluator-")  # they run games, which may allocate and fork without bound
_MEMORY_SHARE = 0.8  # of the machine, for all of these together by default
_WAIT_POLICIES = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}  # set by users who decide themselves


@define
class _SupervisedProcess:
    """One worker, over all its restarts.

    Attributes:
        spec: The worker.
        process: Its current process.
        started_s: When that was started.
        history: Its restarts.
        ended_s: When its end was noticed; 0 while it runs.
        may_exit: Whether it was sent `Stop`.
        reported: Whether its end was reported, or needs no report.
    """

    spec: WorkerSpec
    process: LocalProcess
    started_s: float
    history: RestartHistory
    ended_s: float = 0.0
    may_exit: bool = False
    reported: bool = False


@define(kw_only=True)
class Supervisor:
    """Supervises the processes of a run.

    Args:
        session: Session of the run.
        sockets: Folder of the sockets.
        modules: By name of workers that `ludus_local.worker` does not make: the module that ``python -m`` runs, then
            further arguments.
        launch: Starts a process.

    Attributes:
        restarts: Restarts of all workers.
    """

    session: Session
    sockets: Path
    modules: Mapping[str, Sequence[str]] = field(factory=dict)
    launch: Callable[[WorkerCommand], LocalProcess] = launch
    restarts: int = field(init=False, default=0)
    _workers: dict[str, _SupervisedProcess] = field(init=False, factory=dict)
    _wait_policy: dict[str, str] = field(init=False, factory=dict)  # environment variables
    _checked_s: float = field(init=False, factory=time.monotonic)
    _resumed_s: float = field(init=False, default=0.0)  # when the supervisor itself was last suspended
    _service_stalled_s: float = field(init=False, default=0.0)  # when a service last started or hung
    _last_seen_s: Mapping[str, float] = field(init=False, factory=dict)
    _errors: Mapping[str, str] = field(init=False, factory=dict)
    _activities: Activities = field(
        init=False,
        default=Factory(lambda self: Activities(self.session.stall_s, self.session.print_line), takes_self=True),
    )

    _watchdog: ResourceWatchdog | None = field(init=False, default=None)

    # -- start -------------------------------------------------------------------------------------------------

    def start(self, specs: Sequence[WorkerSpec]) -> None:
        """Start the workers.

        Raises:
            WorkerError: A worker could not be started, or this machine has no memory for so many.
        """
        check_memory(len(specs))
        allow_open_files()
        (self.session.run_dir / "logs").mkdir(exist_ok=True)
        self._wait_policy = _choose_wait_policy(specs, self.session.print_line)
        self._watchdog = ResourceWatchdog(_limits(self.session, specs))
        for spec in specs:
            history = RestartHistory(self.session.restarts)
            self._workers[spec.name] = _SupervisedProcess(spec, self._launch(spec), time.monotonic(), history)

    def _launch(self, spec: WorkerSpec) -> LocalProcess:
        module, *extra = self.modules.get(spec.name, ("ludus_local.worker",))
        argv = [sys.executable, "-P", "-m", module, "--run", str(self.session.run_dir), "--name", spec.name]
        argv += ["--threads", str(spec.threads), "--session", str(self.session.number + 1000 * self.restarts)]
        argv += ["--sockets", str(self.sockets), "--parent", str(os.getpid()), *extra]
        variables = {name: str(spec.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        variables |= self._wait_policy
        log = str(_log_path(self.session, spec.name))
        size = int(self.session.log_mb * 2**20)
        command = WorkerCommand(name=spec.name, argv=argv, environment=variables, log_path=log, log_bytes=size)
        process = self.launch(command)
        if self._watchdog is not None and spec.name.startswith(_LIMITED):
            self._watchdog.watch(spec.name, process.pid)
        return process

    # -- state -------------------------------------------------------------------------------------------------

    @property
    def pids(self) -> dict[str, int]:
        """Return the process ids by worker name."""
        return {name: worker.process.pid for name, worker in self._workers.items()}

    @property
    def alive(self) -> list[str]:
        """Return the names of the running workers."""
        return [name for name, worker in self._workers.items() if worker.process.poll() is None]

    def record_progress(self, name: str) -> None:
        """Record that work of a worker was committed, or that a service or helper was of use."""
        if name in self._workers:
            self._workers[name].history.record_progress()

    def record_activity(self, name: str, activity: Activity) -> None:
        """Record what a worker is busy with until its next message; peers that are none of the workers are ignored."""
        if name in self._workers:
            self._activities.record(name, activity, last_seen_s=self._seen_s(name))

    def _seen_s(self, name: str) -> float:
        """Return the time of a worker's last message, or of its start if that is later."""
        return max(self._last_seen_s.get(name, 0.0), self._workers[name].started_s)

    def expect_exit(self, name: str) -> None:
        """Record that a worker was sent `Stop`: if it still runs, it may exit with status 0."""
        if name in self.alive:
            self._workers[name].may_exit = True

    def _is_starting(self, name: str) -> bool:
        """Return whether a worker has sent nothing since it was started."""
        return self._last_seen_s.get(name, 0.0) <= self._workers[name].started_s

    @property
    def _services(self) -> dict[str, _SupervisedProcess]:
        return {name: worker for name, worker in self._workers.items() if is_service(name)}

    # -- restarts ----------------------------------------------------------------------------------------------

    def check(self, *, last_seen_s: Mapping[str, float], errors: dict[str, str]) -> None:
        """Restart workers that ended or have been silent for too long.

        Args:
            last_seen_s: Time of the last message of every worker.
            errors: Errors that workers have reported; removed once printed.

        Raises:
            WorkerError: A worker fails repeatedly.
        """
        self._last_seen_s, self._errors = last_seen_s, errors
        now_s = time.monotonic()
        if now_s - self._checked_s > _SUSPENDED_S:  # messages that arrived meanwhile are not received yet
            self._resumed_s = now_s
        self._checked_s = now_s
        services = [(service, last_seen_s.get(name, 0.0)) for name, service in self._services.items()]
        if any(seen_s <= service.started_s or now_s - seen_s > _SERVICE_STALL_S for service, seen_s in services):
            self._service_stalled_s = now_s  # its clients may be silent because of it
        for name, worker in self._workers.items():
            if worker.process.poll() is None:
                reason = self._kill_if_hanging(name, worker, now_s)
            else:
                reason = self._exit_reason(name, worker, now_s, errors)
            if reason:
                self._restart(worker, reason, now_s)

    def _kill_if_hanging(self, name: str, worker: _SupervisedProcess, now_s: float) -> str:
        """Kill a worker that has been silent for too long, and return why; empty if it has not."""
        service_stalled_s = 0.0 if name in self._services else self._service_stalled_s
        seen_s, activities = self._seen_s(name), self._activities
        last_s = max(seen_s, activities.reported_s(name), self._resumed_s, service_stalled_s)
        silent_s, stall_s = now_s - last_s, self.session.stall_s
        activities.explain_if_slow(name, last_seen_s=seen_s)
        starts = activities.is_busy(name, last_seen_s=seen_s) or self._is_starting(name)
        if silent_s < (max(stall_s, _START_TIMEOUT_S) if starts else stall_s):
            return ""
        activities.explain(name, last_seen_s=seen_s)
        worker.process.terminate()  # writes a traceback to its log, if it still can
        time.sleep(_TRACEBACK_S)
        self._kill([name])
        worker.history.record_hang(silent_s)
        return f"was silent for {silent_s:.0f} s and was killed"

    def _exit_reason(self, name: str, worker: _SupervisedProcess, now_s: float, errors: dict[str, str]) -> str:
        """Return why a worker has ended; empty while its last message may still arrive."""
        status = worker.process.poll()
        assert status is not None
        worker.ended_s = worker.ended_s or now_s
        if status >= 0 and name not in errors and now_s - worker.ended_s < _LAST_MESSAGE_S:
            return ""
        excess = "" if self._watchdog is None else self._watchdog.take_reason(name)
        return excess or errors.pop(name, "") or _describe_exit(status)

    def _restart(self, worker: _SupervisedProcess, reason: str, now_s: float) -> None:
        name = worker.spec.name
        log = _log_path(self.session, name)
        worker.reported = True
        worker.history.record_death(started_s=worker.started_s, now_s=now_s)
        if give_up := worker.history.give_up_reason(serves=serves(name)):
            raise WorkerError(f"{name}: {reason} — {give_up}; see {log}")
        self.restarts += 1
        self.session.print_line(f"{name}: {reason} — restarted; see {log}")
        worker.process = self._launch(worker.spec)
        worker.started_s, worker.ended_s, worker.reported = now_s, 0.0, False

    def replace(self, name: str, reason: str) -> None:
        """Kill a worker and start it again.

        Raises:
            WorkerError: The worker fails repeatedly.
        """
        self._kill([name])
        self._restart(self._workers[name], reason, time.monotonic())

    # -- end ---------------------------------------------------------------------------------------------------

    def finish(self, *, timeout_s: float, poll: Callable[[], None]) -> list[str]:
        """Wait for all workers to exit, then kill the rest; see `ludus.launcher.WorkerPool.finish`."""
        self._kill([name for name in self._awaited if self._is_starting(name)])  # they hold no unsaved state
        deadline_s = time.monotonic() + timeout_s
        while (awaited := self._awaited) and time.monotonic() < deadline_s:
            if self._are_orphaned(awaited):
                deadline_s = min(deadline_s, time.monotonic() + _ORPHAN_TIMEOUT_S)
            poll()
        killed, last_message_s = self._awaited, time.monotonic() + _LAST_MESSAGE_S
        while self._unreported and time.monotonic() < last_message_s:  # a failed worker reports its error itself
            poll()
        for name, status in self._unreported.items():
            stopping = " while it stopped" if self._workers[name].may_exit else ""
            self.session.print_line(f"{name}: {_describe_exit(status)}{stopping}; see {_log_path(self.session, name)}")
            self._workers[name].reported = True
        self._kill(self.alive)
        if self._watchdog is not None:
            self._watchdog.close()
        return killed

    @property
    def _unreported(self) -> dict[str, int]:
        """Return the exit statuses of workers that ended unexpectedly and without a report."""
        ended = {}
        for name, worker in self._workers.items():
            status = worker.process.poll()
            expected = status == 0 and worker.may_exit
            if not (status is None or expected or worker.reported or name in self._errors):
                ended[name] = status
        return ended

    def _kill(self, names: Sequence[str]) -> None:
        """Kill workers and wait until they have ended, so that their names and sockets are free."""
        for worker in (workers := [self._workers[name] for name in names]):
            worker.reported = True
            worker.process.kill()
        while any(worker.process.poll() is None for worker in workers):
            time.sleep(0.01)

    @property
    def _awaited(self) -> list[str]:
        return [name for name in self.alive if name not in self._services]

    def _are_orphaned(self, awaited: list[str]) -> bool:
        """Return whether all awaited workers may be waiting for a service that has ended; learners use none."""
        ended = self._services.keys() - self.alive
        return bool(ended) and not any(name.startswith("learner-") for name in awaited)


def _limits(session: Session, specs: Sequence[WorkerSpec]) -> ResourceLimits:
    """Return the limits of every sampler and evaluator."""
    limited = sum(spec.name.startswith(_LIMITED) for spec in specs)
    memory = session.sampler_memory_mb * 2**20 or int(_MEMORY_SHARE * memory_bytes() / max(limited, 1))
    return ResourceLimits(memory_bytes=memory, processes=session.sampler_processes)


def _log_path(session: Session, name: str) -> Path:
    return session.run_dir / "logs" / f"{name}.log"


def is_service(name: str) -> bool:
    """Return whether the worker of this name is a service."""
    return name.startswith("service-")


def serves(name: str) -> bool:
    """Return whether the worker of this name commits nothing itself: a service or helper."""
    return name.startswith(("service-", "helper-"))


def check_memory(workers: int) -> None:
    """Check that this machine has memory for so many workers; otherwise the kernel would kill processes.

    Raises:
        WorkerError: It has not.
    """
    needed, available = workers * _MIN_WORKER_BYTES / 2**30, memory_bytes() / 2**30
    if needed > available:
        raise WorkerError(
            f"{workers} worker processes need more than {needed:,.0f} GiB of memory; this machine has "
            f"{available:,.0f} GiB and {available_cores():g} cores: use fewer samplers (run.workers, or --samplers of "
            "`ludus join`)"
        )


def _describe_exit(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"ended by itself with status {status}"


def _choose_wait_policy(specs: Sequence[WorkerSpec], print_line: Callable[[str], None]) -> dict[str, str]:
    """Return the environment variable that makes the threads of a worker sleep while they wait for each other.

    By default they spin, which is fastest if each has a core of its own. With more threads than cores a spinning
    thread keeps others from computing.
    """
    threads = [spec.threads for spec in specs if spec.name.startswith(_COMPUTING)]
    warning = oversubscription(sum(threads), available_cores())
    if not warning or max(threads) == 1:
        return {}
    print_line(warning)
    return {} if _WAIT_POLICIES & os.environ.keys() else {"OMP_WAIT_POLICY": "PASSIVE"}
