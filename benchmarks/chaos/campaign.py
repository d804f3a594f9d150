"""Faults drawn by a seed at random moments of a run, and what each of them cost."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import define, field, frozen
from ludus.errors import LudusError

from chaos.effect import Effect
from chaos.faults import Fault, possible_faults
from chaos.league import State
from chaos.league_audit import LeagueAudit
from chaos.processes import LudusCommand, is_alive
from chaos.target import EVERYTHING, JOINED, Target

RECOVERY_TIMEOUT_S = 120.0
_UNREPORTED_S = 10.0  # then the run is stopped and resumed, since damage is looked for at every start
_MAX_PAUSE_S = 2.0
_WORK_OF_HOST_BYTES = 50_000  # more than it sends without playing
_STOPPED = "(?m)^(stopped: SIG|left the run: )"


@frozen(kw_only=True)
class Instant:
    """Result of one fault.

    Attributes:
        fault: Name of the fault.
        kind: Kind of process.
        summary: What was done.
        lost_matches: Committed matches that are missing.
        lost_models: Models of the league that are missing.
        problems: Contradictions of log and files, and endings without a clear line.
        orphans: Processes that did not end after their coordinator or host.
        recovered_s: Seconds from the end of the fault until everything worked again, with a resume where needed.
    """

    fault: str
    kind: str
    summary: str
    lost_matches: int
    lost_models: int
    problems: tuple[str, ...]
    orphans: int
    recovered_s: float

    @property
    def is_clean(self) -> bool:
        """Return whether nothing was lost and nothing is wrong."""
        return not (self.lost_matches or self.lost_models or self.problems or self.orphans)


@define(eq=False)
class _Recovery:
    """Waits until a run has recovered from a fault; resumes it, and starts its host again, if they ended.

    Args:
        target: The run.
        effect: What the fault did.
        before: Committed state before the fault.
        names: Names of all processes before the fault.
        marks: Lengths of the outputs before the fault, by command.
    """

    target: Target
    effect: Effect
    before: State
    names: frozenset[str]
    marks: Sequence[int]
    problems: list[str] = field(init=False, factory=list)
    orphans: int = field(init=False, default=0)
    after: State | None = field(init=False, default=None)
    _working: tuple[State, int] | None = field(init=False, default=None)  # when all processes ran again
    _stopped: subprocess.Popen[bytes] | None = field(init=False, default=None)  # to be started again

    def run(self) -> float:
        """Wait for the recovery and return the seconds that it took.

        Raises:
            TimeoutError: The run does not recover.
        """
        start = time.monotonic()
        while not self._has_recovered():
            seconds = time.monotonic() - start
            if seconds > RECOVERY_TIMEOUT_S:
                raise TimeoutError(f"the run has not recovered after {seconds:.0f} s: {self._status()}")
            if seconds > _UNREPORTED_S and self._stopped is None and not self.effect.is_contained():
                self._stopped = self.target.league.process
                self._stopped.send_signal(signal.SIGINT)
            time.sleep(0.05)
        return time.monotonic() - start

    def _has_recovered(self) -> bool:
        target = self.target
        for (command, start), mark in zip(target.starts.items(), self.marks, strict=True):
            if command.has_ended():
                self._start_again(command, mark, start)
        state = target.league.state
        if self.after is None:
            self.after = state
        is_ending = self._stopped is target.league.process or any(map(is_alive, self.effect.ends))
        runs = not is_ending and target.pids(EVERYTHING).keys() == self.names
        if not runs or not target.has_host():
            self._working = None
        elif self._working is None:
            self._working = (state, target.link.sent_bytes)
        return self._is_working(state) and self._is_reported() and self.effect.is_contained()

    def _is_working(self, state: State) -> bool:
        """Return whether there was progress of every kind since all processes run again."""
        if self._working is None:
            return False
        before, sent_bytes = self._working
        host_works = not self.target.with_host or self.target.link.sent_bytes > sent_bytes + _WORK_OF_HOST_BYTES
        return state.has_passed(before) and host_works

    def _start_again(self, command: LudusCommand, mark: int, start: Callable[[], None]) -> None:
        """Check how a command has ended, and its committed state, before it is started again."""
        self.orphans += command.orphans()
        self.problems += ending_problems(command.process.returncode, command.output[mark:])
        if command is self.target.league.command:
            self.after = self.target.league.state
            if not self.effect.damages:
                self.problems += self.target.league.problems()
        start()

    def _is_reported(self) -> bool:
        output = self.target.league.output[self.marks[0] :]
        return all(report in output for report in self.effect.reports)

    def _status(self) -> str:
        target = self.target
        outputs = "\n---\n".join(command.output[-3000:] for command in target.starts)
        return (
            f"{sorted(target.pids(EVERYTHING))}, before {sorted(self.names)}; {target.league.state}, "
            f"since {self._working}; reported {self._is_reported()}, contained {self.effect.is_contained()}; "
            f"end of the outputs:\n{outputs}"
        )


def ending_problems(status: int, output: str) -> Iterator[str]:
    """Yield what is wrong with the end of a command: a traceback, or not exactly one line with the error or its stop.

    Args:
        status: Exit status; negative: the signal that killed it, which leaves no line.
        output: Output since the fault.
    """
    if "Traceback" in output:
        yield f"the output has a traceback: {output[output.index('Traceback') :][-2000:]}"
    if status < 0:
        return
    lines = re.findall(_STOPPED if status in {0, 130} else "(?m)^error: ", output)
    if len(lines) != 1:
        yield f"ended with status {status} and {len(lines)} clear lines: {output[-2000:]}"


def strike(target: Target, fault: Fault, kind: str, rng: random.Random) -> Instant:
    """Make one fault, end it, wait for the recovery, and return what it cost.

    Raises:
        TimeoutError: The run does not recover.
    """
    before = target.league.state
    names = frozenset(target.pids(EVERYTHING))
    marks = [len(command.output) for command in target.starts]
    effect = fault.start(target, kind, rng)
    time.sleep(effect.hold_s)
    effect.end()
    recovery = _Recovery(target, effect, before, names, marks)
    recovered_s = recovery.run()
    if effect.damages:
        target.audit = LeagueAudit()  # a damaged checkpoint may be replaced by an older one
    now, after = target.league.state, recovery.after or before
    return Instant(
        fault=fault.name,
        kind=kind,
        summary=effect.summary,
        lost_matches=max(0, before.matches - after.matches, after.matches - now.matches),
        lost_models=len(before.models - after.models) + len(after.models - now.models),
        problems=(*recovery.problems, *target.league.problems()),
        orphans=recovery.orphans,
        recovered_s=recovered_s,
    )


def draw(faults: Sequence[Fault], kind: str, count: int, rng: random.Random) -> list[Fault]:
    """Return faults for a kind of process, each about equally often, in random order."""
    possible = [fault for fault in faults if kind in fault.kinds]
    rounds = [rng.sample(possible, len(possible)) for _ in range(0, count, len(possible))]
    return [fault for one in rounds for fault in one][:count]


@define(eq=False)
class Campaign:
    """Faults at random moments; every kind of process has a run of its own.

    Args:
        folder: Folder for the runs.
        seed: Seed of all choices.
        with_rules: See `Target`.
        stop_s: See `Target`.
        print_line: Prints one line.
    """

    folder: Path
    seed: int
    with_rules: bool
    stop_s: float
    print_line: Callable[[str], None]
    instants: list[Instant] = field(init=False, factory=list)
    missing: dict[str, str] = field(init=False, factory=dict)
    problems: list[str] = field(init=False, factory=list)

    def run(self, kind: str, names: Sequence[str], count: int) -> None:
        """Disturb one kind of process `count` times by the named faults, then stop the run and verify it."""
        rng = random.Random(f"{self.seed} {kind}")
        target = Target(
            self.folder / kind.replace(" ", "-"),
            with_host=kind in {JOINED, EVERYTHING},
            with_rules=self.with_rules,
            stop_s=self.stop_s,
        )
        self.missing |= target.missing
        try:
            target.start()
            drawn = draw([fault for fault in possible_faults(target) if fault.name in names], kind, count, rng)
            for number, fault in enumerate(drawn, start=1):
                time.sleep(rng.uniform(0.0, _MAX_PAUSE_S))
                self._record(strike(target, fault, kind, rng), f"{number:3d}/{len(drawn)}")
            self._finish(target, kind)
        except (TimeoutError, RuntimeError, LudusError) as error:
            self._report(f"{kind}: {error}")
        finally:
            target.close()

    def _record(self, instant: Instant, number: str) -> None:
        self.instants.append(instant)
        self.print_line(
            f"{number} {instant.kind}, {instant.fault}: {instant.summary}: recovered after {instant.recovered_s:.1f} s"
            f"{'' if instant.is_clean else f'; {instant.lost_matches} matches and {instant.lost_models} models lost'}"
        )
        for problem in instant.problems:
            self.print_line(f"    {problem}")

    def _finish(self, target: Target, kind: str) -> None:
        """Stop the run and its host, and check how they end and what is left."""
        for command in target.starts:
            mark = len(command.output)
            with suppress(ProcessLookupError):
                command.process.send_signal(signal.SIGINT)
            command.process.wait(60)
            for problem in ending_problems(command.process.returncode, command.output[mark:]):
                self._report(f"{kind}, last stop: {problem}")
            if orphans := command.orphans():
                self._report(f"{kind}, last stop: {orphans} orphans")
        problems = target.league.problems()
        self.print_line(f"{kind}: {target.league.state.matches:,} matches; verify and recount: {problems or 'agree'}")
        self.problems += problems

    def _report(self, problem: str) -> None:
        self.problems.append(problem)
        self.print_line(problem)

    @property
    def is_clean(self) -> bool:
        """Return whether nothing was lost and nothing is wrong."""
        return not self.problems and all(instant.is_clean for instant in self.instants)
