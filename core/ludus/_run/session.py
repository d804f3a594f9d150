"""Run one session of a league: start the workers, drive the coordinator, stop, and evaluate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from attrs import define, field

from ludus._config.run_config import find_unused_schedules
from ludus._config.section_reader import SelectedComponent
from ludus._league.coordinator import Coordinator
from ludus._messaging.in_process import InProcessPool
from ludus._run.activity_log import ActivityLog, explain_idle_learners
from ludus._run.context import RunContext
from ludus._run.coordinator_factory import make_coordinator
from ludus._run.factories import make
from ludus._run.final_evaluation import play_final_evaluation
from ludus._run.metrics import MetricReporter, summarize
from ludus._run.own_limits import OwnLimits
from ludus._run.return_baseline import measure_return_baseline
from ludus._run.threads import configure_process
from ludus._run.worker_factories import make_worker
from ludus._run.worker_plan import plan_workers
from ludus._store.store import Store
from ludus.activity import listen
from ludus.errors import LudusError, RunError, WorkerError
from ludus.launcher import Launcher, Link, Session, Worker, WorkerContext, WorkerPool
from ludus.signals import StopRequested, on_signal

#: Options that set or raise a training budget, for messages.
BUDGET_OPTIONS = "--minutes or --set run.decisions="
_STOP_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 45.0  # from a signal to the end of the session; then what still runs is interrupted
_RECEIVE_TIMEOUT_S = 0.05


@define
class RunResult:
    """How a session ended.

    Attributes:
        reason: Why it stopped.
        summary: State of the league at the end, as JSON values.
        interrupted: Whether a signal stopped it.
        problem: Why nothing was learned; empty if something was, or if a signal stopped it.
        playable: Whether a person can watch and play the environment in a terminal.
    """

    reason: str
    summary: dict[str, Any]
    interrupted: bool = False
    problem: str = ""
    playable: bool = False


def _ignore_os_errors(print_line: Callable[[str], None]) -> Callable[[str], None]:
    """Wrap a callback so that a closed terminal or pipe does not end the run."""

    def wrapped(line: str) -> None:
        with suppress(OSError):
            print_line(line)

    return wrapped


@define
class RunSession:
    """One session of a run, from start to final evaluation.

    Attributes:
        context: Configuration, plugins and folder of the run.
        store: The run's store, opened for writing.
        print_line: Prints one line for the user.
        started: Whether the workers have started: the configuration is valid.
    """

    context: RunContext
    store: Store
    print_line: Callable[[str], None] = field(converter=_ignore_os_errors)
    started: bool = field(init=False, default=False)
    _reporter: MetricReporter = field(init=False)
    _signal: str = field(init=False, default="")  # name of the signal that stops the session
    _stop_reason: str = field(init=False, default="")
    _failure: LudusError | None = field(init=False, default=None)
    _activities: ActivityLog = field(init=False)
    _learned_before: int | None = field(init=False, default=None)  # decisions; None if nothing is left to train

    def __attrs_post_init__(self) -> None:
        self._activities = ActivityLog(self.context.config.environment.name, self.print_line, lambda: self._signal)

    def run(self, displays: Sequence[SelectedComponent]) -> RunResult:
        """Run until a limit is reached, a signal arrives or an error occurs.

        Args:
            displays: Metric sinks besides those of the configuration.

        Raises:
            LudusError: The run cannot go on.
        """
        config = self.context.config
        self._begin()
        self._reporter = MetricReporter(config, self.context.plugins, self.context.run_dir, self.print_line)
        try:
            self._reporter.open_sinks((*config.metrics.sinks, *displays))
            if problem := find_unused_schedules(config):
                self.print_line(f"{problem} — give one with {BUDGET_OPTIONS}")
            with on_signal(self._stop_on_signal, timeout_s=_END_TIMEOUT_S), listen(self._activities.show):
                return self._train_and_evaluate()
        finally:
            self._reporter.close()

    def _begin(self) -> None:
        """Count the session, and commit the tables of its players."""
        self.store.set_counter("sessions", self.context.session)
        players = self.context.config.data["players"]
        self.store.set_meta("players", {**self.store.meta("players", {}), **players})
        self.store.commit()

    def _train_and_evaluate(self) -> RunResult:
        with suppress(StopRequested):
            measure_return_baseline(self.context, self.store, stop=lambda: self._signal, print_line=self.print_line)
        worker_pool = self._start_in_process() if self.context.config.run.workers == 0 else self._launch()
        try:
            coordinator = self._train(worker_pool)
        finally:
            worker_pool.close()
        reason = self._signal or self._stop_reason
        if coordinator.membership.failure:
            self.store.check_folder()  # a moved folder is the cause of missing files
            raise RunError(coordinator.membership.failure)
        if not self._signal:
            play_final_evaluation(self.context, coordinator, stop=lambda: self._signal, print_line=self.print_line)
        self._reporter.report(coordinator)
        problem = "" if self._signal else explain_idle_learners(coordinator, self._learned_before)
        return RunResult(reason, summarize(coordinator), bool(self._signal), problem, self.context.is_playable)

    # -- workers -----------------------------------------------------------------------------------------------

    def _start_in_process(self) -> WorkerPool:
        """Make all workers in this process."""
        config = self.context.config
        configure_process(config.run.learner_threads or 1)  # workers compute in turn, in small batches

        def make_in_process(name: str, link: Link) -> Worker:
            return make_worker(self.context, name, WorkerContext(link=link, clock=time.monotonic))

        workers = plan_workers(config, cores=1, num_teams=self.context.spec.num_teams)
        limits = OwnLimits(config.run.sampler_memory_mb, config.run.sampler_processes, time.monotonic)
        return InProcessPool(workers, make_in_process, limits.check)

    def _launch(self) -> WorkerPool:
        """Start a process for every worker."""
        config = self.context.config
        if config.launcher is None:
            raise WorkerError(f"run.launcher {config.run.launcher!r} is not installed; run.workers = 0 needs none")
        launcher: Launcher = make(config.launcher)
        session = Session(
            run_dir=self.context.run_dir,
            number=self.context.session,
            stall_s=config.run.stall_s,
            restarts=config.run.restarts,
            print_line=self.print_line,
            log_mb=config.run.log_mb,
            sampler_memory_mb=config.run.sampler_memory_mb,
            sampler_processes=config.run.sampler_processes,
        )
        return launcher.launch(session, plan_workers(config, launcher.cores, num_teams=self.context.spec.num_teams))

    # -- training ----------------------------------------------------------------------------------------------

    def _train(self, worker_pool: WorkerPool) -> Coordinator:
        """Drive the coordinator until the run is finished or stopped, then stop the workers."""
        coordinator = make_coordinator(
            self.context, self.store, link=worker_pool, clock=time.monotonic, print_line=self.print_line
        )
        exchange = partial(self._exchange_messages, coordinator, worker_pool)
        coordinator.dry_run()
        coordinator.start()
        self.started = True
        if not coordinator.stop_reason:
            self._learned_before = coordinator.league.decisions
        while not (self._signal or self._failure):
            exchange()
            coordinator.membership.forget_unsaved(worker_pool.alive)
            if reason := coordinator.stop_reason:  # before `check`, which would restart workers that have just failed
                self._stop_reason = reason  # kept, even if a learner fails while it stops
                break
            with self._stop_on_error():
                worker_pool.check(last_seen_s=coordinator.membership.last_seen_s, errors=coordinator.membership.errors)
            self._reporter.report_if_due(coordinator)
        self._stop_workers(coordinator, worker_pool, exchange)
        if self._failure is not None:
            raise self._failure
        return coordinator

    def _stop_workers(self, coordinator: Coordinator, worker_pool: WorkerPool, exchange: Callable[[], None]) -> None:
        coordinator.stop(worker_pool.alive)
        killed = worker_pool.finish(timeout_s=_STOP_TIMEOUT_S, poll=exchange)
        exchange()
        for name in killed:
            self.print_line(f"{name}: did not stop by itself and was killed")
        if not coordinator.membership.failure:
            for name, error in coordinator.membership.errors.items():  # errors of workers that were not restarted
                self.print_line(f"{name}: {error}, while it stopped; its unsaved work is lost")

    def _exchange_messages(self, coordinator: Coordinator, worker_pool: WorkerPool) -> None:
        """Receive the messages of workers and send the answers."""
        for peer, message in worker_pool.receive(_RECEIVE_TIMEOUT_S):
            with self._stop_on_error():
                coordinator.handle(peer, message)
        for peer, problem in coordinator.refusals.take_cut_off().items():
            with self._stop_on_error():
                worker_pool.cut_off(peer, problem)
        if (quarantined := coordinator.quarantine.take_news()) is not None:
            worker_pool.quarantine(quarantined)
            for line in quarantined.values():
                self.print_line(line)
        coordinator.flush()

    @contextmanager
    def _stop_on_error(self) -> Iterator[None]:
        """Store an error and stop the session, so that learners can save; raise it at once if they cannot.

        After a signal no error is stored: Ctrl-C also ends the processes of a game, which fails then.
        """
        try:
            yield
        except StopRequested:  # in the middle of something that takes long
            return
        except LudusError as error:
            self.store.check_folder()  # a moved folder is the cause of the error, and nothing can be saved
            if isinstance(error, RunError):  # the disk or a file of the run
                raise
            if self._signal:
                self.print_line(f"{error}, after {self._signal}")
            else:
                self._failure = self._failure or error

    def _stop_on_signal(self, name: str) -> None:
        self._signal = name
        self.print_line(f"{name}: stopping cleanly (again: at once)")
