"""Running a league: in one process, deterministically, or with a process for every worker.

Both ways drive the same coordinator, learners, samplers and evaluator; they differ in the crew only.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from attrs import define, field

from ludus._config.run_config import RunConfig, dump_config, load_config, schedule_problem
from ludus._config.sections import Chosen
from ludus._config.toml import read_toml
from ludus._league.coordinator import Coordinator
from ludus._league.league import League
from ludus._messaging.in_process import InProcessPool
from ludus._plugins.error_wrapping import close_environment
from ludus._plugins.manager import Plugins
from ludus._run.check import check
from ludus._run.context import RunContext
from ludus._run.coordinator_factory import make_coordinator
from ludus._run.factories import make, make_environment
from ludus._run.metrics import JsonLines
from ludus._run.sampler_factory import make_actor_cache
from ludus._run.status import Standstill, measure, milestones, summarize
from ludus._run.threads import prepare_to_compute
from ludus._run.worker_factory import make_worker
from ludus._run.worker_plan import plan_workers
from ludus._sampling.evaluation import play_out
from ludus._store.database import DATABASE, sound, unused
from ludus._store.model_files import usable, write_durably
from ludus._store.store import Store
from ludus.errors import ConfigError, LudusError, RunError, WorkerError
from ludus.launcher import Launcher, Link, Session, Worker, WorkerContext, WorkerPool
from ludus.matchmaker import PlayerView
from ludus.metrics import MetricSink
from ludus.signals import on_signal

_MORE = "--minutes or --set run.decisions="
_REPORTING = 0.05  # of the time at most; reports that take longer come less often
_STOP_S = 30.0
_PATIENCE_S = 0.05  # the longest wait for a message
_FINAL = "final evaluation"


@define
class Outcome:
    """How a run ended.

    Attributes:
        reason: Why it stopped.
        summary: What it has come to, as JSON values.
        interrupted: Whether a person or signal stopped it.
    """

    reason: str
    summary: dict[str, Any]
    interrupted: bool = False


def train(
    config: RunConfig,
    *,
    plugins: Plugins,
    run_dir: Path,
    print_line: Callable[[str], None],
    displays: Sequence[Chosen] = (),
) -> Outcome:
    """Start a new run.

    Args:
        config: Its configuration.
        plugins: What is installed.
        run_dir: Its folder.
        print_line: Tells the person one line; where it cannot (an OSError), the run goes on.
        displays: Metric sinks besides those of the configuration.

    Raises:
        RunError: The folder holds a run already, or a run.toml that is not the configuration.
        LudusError: The run cannot go on; the message says why.
    """
    path, text = run_dir / "run.toml", dump_config(config)
    with _usable(run_dir):
        given = _holds_only_a_file(run_dir)  # somebody put it there; then it stays as it is, with its comments
        if given and not _says(path, config):
            raise RunError(
                f"{path} says something else than this run: train it as it is, without --set, --minutes or "
                f"--workers, or choose another folder with --run"
            )
        if path.exists() and not given and not unused(run_dir):
            raise RunError(
                f"{run_dir} already holds a run: continue it with `ludus resume {shlex.quote(str(run_dir))}`, "
                f"or choose another folder with --run"
            )
    check(RunContext(config=config, plugins=plugins, run_dir=run_dir))
    meta = {"seed": config.run.seed, "environment": config.environment.name, "config": text}
    with _usable(run_dir), Store.create(run_dir, meta) as store:
        if not given:
            write_durably(path, text.encode())
        (run_dir / "metrics.jsonl").unlink(missing_ok=True)  # of a start that failed
        return _Run(config, plugins, run_dir, store, print_line).go(displays)


def resume(
    run_dir: Path,
    *,
    plugins: Plugins,
    print_line: Callable[[str], None],
    overrides: tuple[str, ...] = (),
    displays: Sequence[Chosen] = (),
) -> Outcome:
    """Continue a run from its last committed state; arguments as for `train`.

    Raises:
        RunError: The folder holds no run, or another process is running it.
        LudusError: The run cannot go on; the message says why.
    """
    path = run_dir / "run.toml"
    with _usable(run_dir):
        if not (path.exists() or (run_dir / DATABASE).exists()):
            start = f"start one with `ludus train FILE --run {run_dir}`"
            raise RunError(f"{run_dir} holds no run (no run.toml in it): {start}")
        if _holds_only_a_file(run_dir):
            raise RunError(f"{run_dir} holds no run yet: start it with `ludus train {path} --run {run_dir}`")
    with _usable(run_dir), Store.open(run_dir) as store:
        if not path.exists() and store.meta("config"):  # the run was killed before it could write it
            write_durably(path, store.meta("config").encode())
        config = load_config(path, overrides=overrides, plugins=plugins)
        check(RunContext(config=config, plugins=plugins, run_dir=run_dir), store)
        run, saved = config.run, store.saved_decisions()
        minutes = store.counters().get("elapsed_s", 0.0) / 60
        decisions = sum(saved.get(player, 0) for player in config.players)
        limited = any(override.startswith(("run.minutes", "run.decisions")) for override in overrides)
        if limited and (0 < run.minutes <= minutes or 0 < run.decisions <= decisions):
            done = f"{minutes:.3g} minutes and {decisions:,.0f} decisions"
            raise RunError(f"{run_dir}: already over after {done}; nothing to do — give more with {_MORE}")
        before, started = path.read_bytes(), _Run(config, plugins, run_dir, store, print_line)
        if overrides:  # workers read the file
            write_durably(path, dump_config(config).encode())
        try:
            return started.go(displays)
        except LudusError:
            if overrides and not started.rehearsed:
                write_durably(path, before)
            raise


def _holds_only_a_file(run_dir: Path) -> bool:
    """Return whether a folder has a run.toml, but neither a league nor a model of one."""
    left = any((run_dir / name).exists() for name in (DATABASE, "models", "learners"))
    return (run_dir / "run.toml").exists() and not left


def _says(path: Path, config: RunConfig) -> bool:
    """Return whether a file says what a configuration does."""
    try:
        return read_toml(path) == config.data
    except ConfigError:
        return False


@contextmanager
def _usable(run_dir: Path) -> Iterator[None]:
    """Turn what the file system or the database refuses into an error that says what to do."""
    with usable(run_dir), sound(run_dir / DATABASE):
        for path in (run_dir, *run_dir.parents):
            if path.is_file():
                raise RunError(f"{path} is a file, not a folder: choose another folder for the run")
        yield


def _unhindered(print_line: Callable[[str], None]) -> Callable[[str], None]:
    """Return what tells the person a line where that is possible: a closed terminal or pipe ends no run."""

    def tell(line: str) -> None:
        with suppress(OSError):
            print_line(line)

    return tell


@define
class _Run:
    """One start of a run, from opening to the last evaluation.

    Attributes:
        rehearsed: Whether it has begun: nothing was wrong with the configuration.
    """

    config: RunConfig
    plugins: Plugins
    run_dir: Path
    store: Store
    print_line: Callable[[str], None] = field(converter=_unhindered)
    rehearsed: bool = field(init=False, default=False)
    _context: RunContext = field(init=False)
    _signal: str = field(init=False, default="")
    _reason: str = field(init=False, default="")  # why it is over
    _sinks: list[tuple[str, MetricSink]] = field(init=False, factory=list)  # by name
    _report_due_s: float = field(init=False, default=0.0)
    _standstill: Standstill = field(init=False)
    _failure: LudusError | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._standstill = Standstill(self.config.run.stall_s)

    def go(self, displays: Sequence[Chosen]) -> Outcome:
        session = int(self.store.counters().get("sessions", 0)) + 1
        self.store.set_counter("sessions", session)
        self.store.set_meta("players", {**self.store.meta("players", {}), **self.config.data["players"]})
        self.store.commit()
        self._context = RunContext(config=self.config, plugins=self.plugins, run_dir=self.run_dir, session=session)
        self._sinks = [("", JsonLines(self.run_dir / "metrics.jsonl"))]
        try:
            for chosen in (*self.config.metrics.sinks, *displays):
                self._sinks.append((chosen.name, make(chosen, run_dir=self.run_dir)))
            if problem := schedule_problem(self.config):
                self.print_line(f"{problem} — give one with {_MORE}")
            with on_signal(self._note_signal):
                worker_pool = self._alone() if self.config.run.workers == 0 else self._together(session)
                try:
                    coordinator = self._drive(worker_pool)
                finally:
                    worker_pool.close()
                reason = self._signal or self._reason
                if coordinator.membership.failure:
                    self.store.check_folder()  # where it was moved, files are missing for that reason
                    raise RunError(coordinator.membership.failure)
                if not self._signal:
                    self._evaluate(coordinator)
                self._measure(coordinator, force=True)
                return Outcome(reason, summarize(coordinator), bool(self._signal))
        finally:
            for name, sink in self._sinks:
                with self._dropped(name, sink):
                    sink.close()

    # -- workers -----------------------------------------------------------------------------------------------

    def _alone(self) -> WorkerPool:
        """Make the workers in this process."""
        prepare_to_compute(self.config.run.learner_threads or 1)  # small batches in turn: more threads only wait

        def worker(name: str, link: Link) -> Worker:
            return make_worker(self._context, name, WorkerContext(link=link, clock=time.monotonic))

        return InProcessPool(plan_workers(self.config, cores=1), worker)

    def _together(self, session: int) -> WorkerPool:
        """Start a process for every worker."""
        run = self.config.run
        if self.config.launcher is None:
            raise WorkerError(f"run.launcher {run.launcher!r} is not installed; run.workers = 0 needs none")
        launcher: Launcher = make(self.config.launcher)
        start = Session(
            run_dir=self.run_dir, number=session, stall_s=run.stall_s, restarts=run.restarts, print_line=self.print_line
        )
        return launcher.launch(start, plan_workers(self.config, launcher.cores))

    def _drive(self, worker_pool: WorkerPool) -> Coordinator:
        """Run the league until it is over, or somebody stops it."""
        coordinator = make_coordinator(self._context, self.store, link=worker_pool, clock=time.monotonic)
        poll = partial(self._tend, coordinator, worker_pool)
        coordinator.dry_run()
        self.rehearsed = True
        while not (self._signal or self._failure):
            poll()
            coordinator.membership.forget_unsaved(worker_pool.alive)
            if reason := coordinator.stop_reason:  # at once: who has just failed for good is not to be restarted
                self._reason = reason  # a learner that is lost while it stops does not change it
                break
            with self._survivable():
                worker_pool.check(last_seen_s=coordinator.membership.last_seen_s, errors=coordinator.membership.errors)
            self._measure(coordinator)
        coordinator.stop(worker_pool.alive)
        killed = worker_pool.finish(timeout_s=_STOP_S, poll=poll)
        poll()
        for name in killed:
            self.print_line(f"{name}: did not stop by itself and was killed")
        if not coordinator.membership.failure:
            for name, why in coordinator.membership.errors.items():  # those that nothing was restarted for
                self.print_line(f"{name}: {why}, while it stopped; what it had not saved is lost")
        if self._failure is not None:
            raise self._failure
        return coordinator

    def _tend(self, coordinator: Coordinator, worker_pool: WorkerPool) -> None:
        """Take what workers said, and answer."""
        for peer, message in worker_pool.receive(_PATIENCE_S):
            with self._survivable():
                coordinator.handle(peer, message)
        coordinator.flush()

    @contextmanager
    def _survivable(self) -> Iterator[None]:
        """Stop the run for an error, but let learners save what they know; where nothing can be saved, raise it."""
        try:
            yield
        except LudusError as error:
            self.store.check_folder()  # where it was moved, that is why, and nothing can be saved
            if isinstance(error, RunError):  # of the disk, or what is on it
                raise
            self._failure = self._failure or error

    # -- around it ---------------------------------------------------------------------------------------------

    def _measure(self, coordinator: Coordinator, *, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now < self._report_due_s:
            return
        metrics = measure(coordinator)
        for name, sink in [*self._sinks]:
            with self._dropped(name, sink):
                sink.write(metrics)
        if not force and (standstill := self._standstill.notice(coordinator)):
            logs = f"see {self.run_dir / 'logs'}, or " if self.config.run.workers else ""
            self.print_line(f"{standstill}; {logs}stop and `ludus resume {shlex.quote(str(self.run_dir))}`")
        self.plugins.emit("ludus_metrics_reported", metrics=metrics)
        # with tens of thousands of models a report takes a second and more: all ratings are fitted anew
        self._report_due_s = now + max(self.config.metrics.interval_s, (time.monotonic() - now) / _REPORTING)

    @contextmanager
    def _dropped(self, name: str, sink: MetricSink) -> Iterator[None]:
        """Go on without a sink that fails; the run's own file is no such plugin."""
        try:
            yield
        except (Exception, SystemExit) as error:
            if isinstance(sink, JsonLines):
                raise
            self._sinks = [other for other in self._sinks if other[1] is not sink]
            self.print_line(f"metric sink {name!r} failed: {type(error).__name__}: {error} — it gets nothing more")

    def _evaluate(self, coordinator: Coordinator) -> None:
        """Play each player's newest model against the anchors and its own history, on paired seeds from every seat."""
        matches, league = self.config.evaluation.final_matches, coordinator.league
        each = -(-matches // (2 if coordinator.evaluation.rotates_teams else 1))
        environment = make_environment(self.config.environment, max(1, min(matches, self.config.evaluation.matches)))
        spec = environment.spec
        cache = make_actor_cache(self._context, "final", spec, environment.num_matches)
        try:
            for player, opponent in self._finals(league, each) if matches and spec.num_teams == 2 else ():
                if self._signal:
                    break
                pair = (player.models[-1], opponent)
                self.print_line(f"{_FINAL}: {pair[0]} against {opponent}, {matches} matches")
                fixtures = coordinator.evaluation.create(pair[::-1] if player.team else pair, each, reason=_FINAL)
                played = play_out(
                    environment,
                    fixtures,
                    lambda fixture, seat: cache.seated(fixture, seat, spec),
                    stop=lambda: self._signal,
                )
                if played:  # else it is as if they had never been created: nothing more is committed
                    league.record({name: played[name] for name in ("fixture", "number", "ticks", "outcome")})
                    coordinator.commit()
        finally:
            close_environment(environment)

    def _finals(self, league: League, matches: int) -> Iterator[tuple[PlayerView, str]]:
        """Return whose newest model meets whom, without those that have played so many matches already."""
        played = (record.fixture for record in self.store.fixtures(kind="eval") if record.played)
        known = {(frozenset(f.participants), f.matches) for f in played if f.reason == _FINAL}
        for player in league.players.values():
            history = milestones(player.models) if player.team is None else ()
            for opponent in (*league.anchors, *history) if player.models else ():
                if (frozenset({player.models[-1], opponent}), matches) not in known:
                    yield player, opponent

    def _note_signal(self, name: str) -> None:
        self._signal = name
        self.print_line(f"{name}: stopping cleanly (again: at once)")
