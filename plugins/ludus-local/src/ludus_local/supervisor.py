"""Keeping worker processes alive: starts them, restarts those that die or hang, and ends them all."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import define, field
from ludus.errors import WorkerError
from ludus.launcher import Session, WorkerSpec

from ludus_local.process import allow_open_files, available_cores, memory_bytes, oversubscription
from ludus_local.processes import LocalProcess, WorkerCommand, launch

__all__ = ["Supervisor", "check_room", "is_service", "serves"]

_WINDOW_S = 60.0
_AWAY_S = 5.0  # so long between two looks at the workers is no busy moment
_QUIET_S = 5.0  # a service that was silent for so long may be keeping others waiting
_START_S = 300.0  # a worker is silent while it imports, and on a busy machine that takes long
_EARLY_S = 600.0  # who lived for longer did not die of how it begins, though it may have had nothing to do
_LEAST_BYTES = 100 * 2**20  # less memory no worker of its own has: Python, NumPy and torch without a game
_LAST_WORDS_S = 0.5  # after its end, what a worker said last may still be on its way
_SHOW_S = 0.5  # what a silent worker gets to write its traceback to the log
_ORPHANED_S = 2.0  # what those who stop get where a service has ended that they may be waiting for
_COMPUTING = ("learner-", "helper-", "service-", "sampler-")  # all the time; evaluators and gateways do now and then
_WAIT_POLICIES = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}  # whoever set one of these has decided


@define
class _Process:
    spec: WorkerSpec
    launched: LocalProcess
    started_s: float
    ended_s: float = 0.0  # when that was noticed first
    asked: bool = False  # to stop
    told: bool = False  # of its end
    deaths: deque[float] = field(factory=deque)  # of the last minute of life
    in_vain: int = 0  # deaths since its work was last of use


@define(kw_only=True)
class Supervisor:
    """The processes of a run.

    Args:
        session: Whose.
        sockets: Folder of the sockets.
        modules: For workers that are not made by `ludus_local.worker`, by name: the module that `python -m` runs, and
            what follows the arguments of all workers.
        launch: Starts a process.
    """

    session: Session
    sockets: Path
    modules: Mapping[str, Sequence[str]] = field(factory=dict)
    launch: Callable[[WorkerCommand], LocalProcess] = launch
    restarts: int = field(init=False, default=0)
    _processes: dict[str, _Process] = field(init=False, factory=dict)
    _wait_policy: dict[str, str] = field(init=False, factory=dict)  # an environment variable
    _checked_s: float = field(init=False, factory=time.monotonic)
    _back_s: float = field(init=False, default=0.0)
    _served_s: float = field(init=False, default=0.0)  # when a service was last away
    _last_seen_s: Mapping[str, float] = field(init=False, factory=dict)  # when each worker was heard last
    _errors: Mapping[str, str] = field(init=False, factory=dict)  # why workers said they would end

    def start(self, specs: Sequence[WorkerSpec]) -> None:
        """Start the workers.

        Raises:
            WorkerError: One could not be started, or this machine has no memory for so many.
        """
        check_room(len(specs))
        allow_open_files()
        self._logs.mkdir(exist_ok=True)
        self._wait_policy = self._choose_wait_policy(specs)
        for spec in specs:
            self._processes[spec.name] = _Process(spec, self._launch(spec), time.monotonic())

    def _choose_wait_policy(self, specs: Sequence[WorkerSpec]) -> dict[str, str]:
        """Return the variable that says how the threads of one worker wait for each other.

        They spin, which is quickest where each has a core of its own. Where there are more threads than cores, who
        spins keeps the one it waits for, or another worker, from computing: there they sleep.
        """
        threads = [spec.threads for spec in specs if spec.name.startswith(_COMPUTING)]
        excess = oversubscription(sum(threads), available_cores())
        if not excess or max(threads) == 1:
            return {}
        self.session.print_line(excess)
        return {} if _WAIT_POLICIES & os.environ.keys() else {"OMP_WAIT_POLICY": "PASSIVE"}

    def _launch(self, spec: WorkerSpec) -> LocalProcess:
        module, *more = self.modules.get(spec.name, ("ludus_local.worker",))
        argv = [sys.executable, "-m", module, "--run", str(self.session.run_dir), "--name", spec.name]
        argv += ["--threads", str(spec.threads), "--session", str(self.session.number + 1000 * self.restarts)]
        argv += ["--sockets", str(self.sockets), "--parent", str(os.getpid()), *more]
        variables = {name: str(spec.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        variables |= self._wait_policy
        log = str(self._log(spec.name))
        return self.launch(WorkerCommand(name=spec.name, argv=argv, environment=variables, log_path=log))

    @property
    def _logs(self) -> Path:
        return self.session.run_dir / "logs"

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    @property
    def pids(self) -> dict[str, int]:
        """Return the process ids by worker name."""
        return {name: process.launched.pid for name, process in self._processes.items()}

    @property
    def alive(self) -> list[str]:
        """Return the names of the running workers."""
        return [name for name, process in self._processes.items() if process.launched.poll() is None]

    def check(self, *, last_seen_s: Mapping[str, float], errors: dict[str, str]) -> None:
        """Restart workers that ended or have been silent for too long.

        Args:
            last_seen_s: When each worker was heard last.
            errors: Why workers said they would end; taken out once told.

        Raises:
            WorkerError: A worker dies again and again.
        """
        self._last_seen_s, self._errors = last_seen_s, errors
        now = time.monotonic()
        if now - self._checked_s > _AWAY_S:  # it was stopped itself: what they said meanwhile is still to come
            self._back_s = now
        self._checked_s = now
        services = [(service, last_seen_s.get(name, 0.0)) for name, service in self._services.items()]
        if any(heard <= service.started_s or now - heard > _QUIET_S for service, heard in services):
            self._served_s = now  # it starts or hangs, and who waits for its answer says nothing either
        for name, process in self._processes.items():
            if why := self._reason(name, process, now, errors):
                self._restart(process, why, now)

    def _reason(self, name: str, process: _Process, now: float, errors: dict[str, str]) -> str:
        """Return why a worker is to be started again: it has ended, or is killed now; empty while it is not."""
        status = process.launched.poll()
        if status is None:
            served_s = 0.0 if name in self._services else self._served_s
            silent_s = now - max(self._last_seen_s.get(name, 0.0), process.started_s, self._back_s, served_s)
            stall_s = self.session.stall_s
            if silent_s < (max(stall_s, _START_S) if self._starts(name) else stall_s):
                return ""
            process.launched.terminate()  # it writes to its log what it is doing, if it still can
            time.sleep(_SHOW_S)
            self._end([name])
            # Silence is no life: else one that hangs for longer than the window would be restarted for ever.
            process.deaths = deque(death + silent_s for death in process.deaths)
            return f"was silent for {silent_s:.0f} s and was killed"
        process.ended_s = process.ended_s or now
        if status >= 0 and name not in errors and now - process.ended_s < _LAST_WORDS_S:
            return ""
        return errors.pop(name, "") or _ended(status)

    def progressed(self, name: str) -> None:
        """Take note that work of a worker was committed or a service was of use: its deaths so far do not count."""
        if name in self._processes:
            self._processes[name].in_vain = 0

    def dismiss(self, name: str) -> None:
        """Take note that a worker was asked to stop: if it still runs, it may end with status 0."""
        if name in self.alive:
            self._processes[name].asked = True

    def _restart(self, process: _Process, why: str, now: float) -> None:
        name = process.spec.name
        log = self._log(name)
        process.told = True
        process.deaths.append(now)
        if now - process.started_s >= _EARLY_S:
            process.in_vain = 0
        process.in_vain += 1
        while process.deaths[0] < now - _WINDOW_S:
            process.deaths.popleft()
        if len(process.deaths) > self.session.restarts:
            raise WorkerError(f"{name}: {why} — {len(process.deaths)} times within a minute; see {log}")
        if process.in_vain > self.session.restarts:  # what takes longer than a minute to fail, such as a checkpoint
            between = "nobody served" if serves(name) else "nothing committed"
            raise WorkerError(f"{name}: {why} — {process.in_vain} times with {between} in between; see {log}")
        self.restarts += 1
        self.session.print_line(f"{name}: {why} — restarted; see {log}")
        process.launched = self._launch(process.spec)
        process.started_s, process.ended_s, process.told = now, 0.0, False

    def finish(self, *, timeout_s: float, poll: Callable[[], None]) -> list[str]:
        """Wait for all workers to end by themselves, then kill the rest; see `ludus.launcher.WorkerPool.finish`.

        Those that still start have done nothing that could be lost, and are not waited for.
        """
        self._end([name for name in self._awaited if self._starts(name)])
        deadline = time.monotonic() + timeout_s
        while (awaited := self._awaited) and time.monotonic() < deadline:
            if self._orphaned(awaited):
                deadline = min(deadline, time.monotonic() + _ORPHANED_S)
            poll()
        killed, last_seen_s = self._awaited, time.monotonic() + _LAST_WORDS_S
        while self._untold and time.monotonic() < last_seen_s:  # one that failed has said why
            poll()
        for name, status in self._untold.items():
            stopping = " while it stopped" if self._processes[name].asked else ""
            self.session.print_line(f"{name}: {_ended(status)}{stopping}; see {self._log(name)}")
            self._processes[name].told = True
        self._end(self.alive)
        return killed

    @property
    def _untold(self) -> dict[str, int]:
        """Return the exit statuses of workers that ended otherwise than asked, and of which nobody has heard."""
        ended = {}
        for name, process in self._processes.items():
            status = process.launched.poll()
            as_asked = status == 0 and process.asked
            if not (status is None or as_asked or process.told or name in self._errors):
                ended[name] = status
        return ended

    def _end(self, names: Sequence[str]) -> None:
        """Kill workers and wait until they are gone, so that their names and sockets are free."""
        for process in (processes := [self._processes[name] for name in names]):
            process.told = True
            process.launched.kill()
        while any(process.launched.poll() is None for process in processes):
            time.sleep(0.01)

    @property
    def _awaited(self) -> list[str]:
        return [name for name in self.alive if name not in self._services]

    def _starts(self, name: str) -> bool:
        """Return whether a worker has not been heard since it was started."""
        return self._last_seen_s.get(name, 0.0) <= self._processes[name].started_s

    def _orphaned(self, awaited: list[str]) -> bool:
        """Return whether all who are awaited may be waiting for a service that has ended; learners ask none."""
        ended = self._services.keys() - self.alive
        return bool(ended) and not any(name.startswith("learner-") for name in awaited)

    @property
    def _services(self) -> dict[str, _Process]:
        return {name: process for name, process in self._processes.items() if is_service(name)}


def is_service(name: str) -> bool:
    """Return whether the worker of a name is a service."""
    return name.startswith("service-")


def serves(name: str) -> bool:
    """Return whether the worker of a name commits nothing, but is of use to others."""
    return name.startswith(("service-", "helper-"))


def check_room(workers: int) -> None:
    """Check that workers could fit into memory: where they do not, the kernel kills one process after the other.

    Raises:
        WorkerError: They could not.
    """
    needed, there = workers * _LEAST_BYTES / 2**30, memory_bytes() / 2**30
    if needed > there:
        raise WorkerError(
            f"{workers} worker processes need more than {needed:,.0f} GiB of memory, and this machine has {there:,.0f} "
            f"GiB and {available_cores():g} cores: choose fewer samplers (run.workers, or --samplers of a join)"
        )


def _ended(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"ended by itself with status {status}"
