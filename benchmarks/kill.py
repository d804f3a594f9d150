"""Kill the processes of a run and check that nothing is lost: ``python benchmarks/kill.py [N]``.

A Tic-Tac-Toe league runs in real processes. Every kind of process is killed N times (SIGKILL), at random moments. The
run must continue by itself; after a kill of the coordinator all workers must end soon, and ``ludus resume`` must
continue. Everything that was committed before a kill must still exist, and must agree with the log and the files.

``--league`` kills a league of four algorithms instead, whose rules change shares, pools and generations every second.
Then all processes are also killed at once, as in a power failure, and the state of the league is compared with counts
from its log (`league_audit`).
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped,unused-ignore]
from attrs import define, field, frozen
from ludus._store.store import Store
from ludus.errors import RunError
from ludus.runs import open_run
from ludus_terminal.verify import verify

EXAMPLE = Path(__file__).parents[1] / "examples" / "tictactoe.toml"
SETTINGS = (
    "run.minutes=0",
    "run.restarts=1000",
    "run.checkpoint_s=1",
    "sampling.matches=32",
    "players.main_agent.freeze_every_decisions=3000",
    "players.main_agent.ppo.batch_decisions=512",
    "players.main_agent.mlp.hidden=[32]",
    "evaluation.matches=8",
    "evaluation.fixture_matches=4",
    "evaluation.final_matches=0",
)
VICTIMS = {
    "sampler": ("sampler-0",),
    "evaluator": ("evaluator-0",),
    "learner": ("learner-main_agent",),
    "coordinator": ("coordinator",),
}
EVERYTHING = "everything"
LEAGUE = Path(__file__).with_name("kill") / "league.toml"
LEAGUE_PLAYERS = ("main_agent", "policy_explorer", "rnd_explorer", "mappo_explorer", "dqn_explorer")
LEAGUE_VICTIMS = {
    **VICTIMS,
    "learner": tuple(f"learner-{player}" for player in LEAGUE_PLAYERS),
    EVERYTHING: (EVERYTHING,),
}
TIMEOUT_S = 300.0


def processes(parent: int) -> dict[str, int]:
    """Return the process ids of the workers that `parent` started, by name."""
    pids = {}
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(parent).children():
            name = re.search(r" -m ludus_\w+\.\w+ .*--name (\S+)", " ".join(child.cmdline()))
            if name:
                pids[name[1]] = child.pid
    return pids


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def wait(condition: Callable[[], bool], *, timeout_s: float = TIMEOUT_S) -> float:
    """Wait for a condition and return the seconds that it took.

    Raises:
        TimeoutError: The condition does not hold after `timeout_s`.
    """
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > timeout_s:
            raise TimeoutError(f"the condition does not hold after {timeout_s:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - start


@frozen(kw_only=True)
class State:
    """Committed state of a run."""

    trained: int
    rated: int
    learned: Mapping[str, int]
    models: frozenset[str]

    @classmethod
    def read(cls, folder: Path) -> State:
        """Read the state of a run; all zeros before it has a store."""
        try:
            with Store.read(folder) as store:
                counters = store.counters()
                total, trained = store.matches.count(), int(counters.get("matches", 0))
                learned = {name: int(n) for name, n in counters.items() if name.startswith("decisions/")}
                models = frozenset(f"{model.participant} {model.hash}" for model in store.models.records())
        except RunError:
            return cls(trained=0, rated=0, learned={}, models=frozenset())
        return cls(trained=trained, rated=total - trained, learned=learned, models=models)

    @property
    def matches(self) -> int:
        """Return the committed matches."""
        return self.trained + self.rated

    def has_passed(self, other: State) -> bool:
        """Return whether there are more training and rating matches than in `other`, and every player learned more."""
        learned = all(self.learned.get(name, 0) > count for name, count in other.learned.items())
        return self.trained > other.trained and self.rated > other.rated and learned


def run_verify(store: Store) -> tuple[str, ...]:
    """Return the findings of ``ludus league verify``, one line each."""
    with open_run(store.run_dir) as run:
        return verify(run).problems


@define
class League:
    """A run in real processes.

    Args:
        folder: Run folder; the output goes to ``<folder>.out``.
        settings: Values of the TOML file to replace.
        workers: Number of samplers.
        source: TOML file of the run.
        victims: Names of the processes to kill in turns, by kind; `EVERYTHING` kills all at once.
        checks: Functions that return contradictions in the store, one line each.
    """

    folder: Path
    settings: Sequence[str] = SETTINGS
    workers: int = 1
    source: Path = EXAMPLE
    victims: Mapping[str, Sequence[str]] = field(factory=lambda: VICTIMS)
    checks: Sequence[Callable[[Store], Iterable[str]]] = (run_verify,)
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    def train(self) -> None:
        """Start the run."""
        settings = [f"run.workers={self.workers}", *self.settings]
        options = [part for setting in settings for part in ("--set", setting)]
        self._start("train", str(self.source), "--run", str(self.folder), *options)

    def resume(self) -> None:
        """Resume the run."""
        self._start("resume", str(self.folder))

    def _start(self, *arguments: str) -> None:
        with self.output_path.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ludus", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )

    @property
    def output_path(self) -> Path:
        """Return the path of the output."""
        return self.folder.with_name(f"{self.folder.name}.out")

    @property
    def output(self) -> str:
        """Return the output of the run."""
        return self.output_path.read_text(encoding="utf-8")

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Return the process of the coordinator."""
        assert self._process is not None, "not started"
        return self._process

    @property
    def pids(self) -> dict[str, int]:
        """Return the process ids of all processes of the run, by name."""
        return {"coordinator": self.process.pid, **processes(self.process.pid)}

    @property
    def state(self) -> State:
        """Return the committed state."""
        return State.read(self.folder)

    def wait_for(self, condition: Callable[[State], bool], *, timeout_s: float = TIMEOUT_S) -> float:
        """Wait until the committed state meets a condition and return the seconds that it took.

        Raises:
            RuntimeError: The run ended.
            TimeoutError: The condition is not met after `timeout_s`.
        """

        def met() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError(f"the run ended with status {self.process.returncode}:\n{self.output}")
            return condition(self.state)

        try:
            return wait(met, timeout_s=timeout_s)
        except TimeoutError as error:
            raise TimeoutError(
                f"{error}: {self.pids}, {self.state}; end of the output:\n{self.output[-4000:]}"
            ) from None

    def problems(self) -> list[str]:
        """Return all contradictions of log and files."""
        with Store.read(self.folder) as store:
            return [problem for check in self.checks for problem in check(store)]

    def close(self) -> None:
        """Kill all processes of the run."""
        if self._process is not None:
            pids = self.pids if self._process.poll() is None else {}
            for pid in pids.values():
                with suppress(ProcessLookupError):  # it has ended already
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()


@frozen(kw_only=True)
class Kill:
    """Result of one kill.

    Args:
        victim: Kind of process.
        name: Name of the process.
        lost_matches: Committed matches that are missing.
        lost_models: Models of the league that are missing.
        problems: Contradictions of log and files.
        orphans: Workers that did not end after the coordinator.
        gone_s: Seconds until the last worker ended after the coordinator.
        recovered_s: Seconds until players learned and rating matches were played again.
    """

    victim: str
    name: str
    lost_matches: int
    lost_models: int
    problems: tuple[str, ...]
    orphans: int
    gone_s: float
    recovered_s: float


def kill(league: League, victim: str, *, turn: int = 0) -> Kill:
    """Kill one process of a run, or all, wait for the recovery and return the result.

    Args:
        league: Run whose processes are killed.
        victim: Kind of process.
        turn: Number of the kill of this kind, from 0; the processes of a kind take turns.

    Raises:
        RuntimeError: The run ended although the coordinator was not killed.
        TimeoutError: The run does not recover.
    """
    pids, names = league.pids, league.victims[victim]
    name = names[turn % len(names)]
    problems = league.problems()
    before = league.state
    for pid in pids.values() if name == EVERYTHING else [pids[name]]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    start = time.monotonic()
    gone_s, orphans = 0.0, 0
    if name in {"coordinator", EVERYTHING}:
        league.process.wait()
        gone_s, orphans = _wait_for_end(list(pids.values()))
        problems += league.problems()  # before the next start changes the state
        after = league.state
        start = time.monotonic()
        league.resume()
    else:
        after = league.state
    league.wait_for(lambda state: state.has_passed(after) and league.pids.keys() == pids.keys())
    recovered_s = time.monotonic() - start
    now = league.state
    return Kill(
        victim=victim,
        name=name,
        lost_matches=max(0, before.matches - after.matches, after.matches - now.matches),
        lost_models=len(before.models - after.models) + len(after.models - now.models),
        problems=(*problems, *league.problems()),
        orphans=orphans,
        gone_s=gone_s,
        recovered_s=recovered_s,
    )


def _wait_for_end(pids: Sequence[int]) -> tuple[float, int]:
    try:
        return wait(lambda: not any(map(is_alive, pids)), timeout_s=10.0), 0
    except TimeoutError:
        left = [pid for pid in pids if is_alive(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return 10.0, len(left)


def campaign(league: League, count: int) -> list[Kill]:
    """Kill each kind of process `count` times, at random moments of one run, and return the results."""
    rng = random.Random(0)
    kinds = list(league.victims)
    order = [(victim, turn) for turn in range(count) for victim in rng.sample(kinds, len(kinds))]
    kills = []
    try:
        league.train()
        league.wait_for(lambda state: len(state.models) >= 2 and state.rated > 0)
        league.wait_for(lambda state: len(state.learned) > 0 and min(state.learned.values()) > 0)
        for number, (victim, turn) in enumerate(order, start=1):
            time.sleep(rng.uniform(0.0, 2.0))
            result = kill(league, victim, turn=turn)
            kills.append(result)
            print(f"{number:3d}/{len(order)} {result.name}: recovered after {result.recovered_s:.1f} s", flush=True)
            for problem in result.problems:
                print(f"    {problem}", flush=True)
        league.process.send_signal(signal.SIGINT)
        print(f"Ctrl-C: exit status {league.process.wait(60)}, {league.state.matches:,} matches")
        print(f"verify: {league.problems() or 'no problems'}")
    finally:
        league.close()
    return kills


def table(kills: Sequence[Kill]) -> str:
    """Return one line per kind of process."""
    head = ("killed", "kills", "lost matches", "lost models", "verify failures", "orphans", "recovered after, s")
    kinds = [[kill for kill in kills if kill.victim == victim] for victim in LEAGUE_VICTIMS]
    rows = [head, *(_table_row(kind) for kind in kinds if kind)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _table_row(kills: Sequence[Kill]) -> tuple[str, ...]:
    recovered = [kill.recovered_s for kill in kills]
    sums = (
        sum(kill.lost_matches for kill in kills),
        sum(kill.lost_models for kill in kills),
        sum(bool(kill.problems) for kill in kills),
        sum(kill.orphans for kill in kills),
    )
    times = f"{statistics.median(recovered):.1f}, max {max(recovered):.1f}"
    return (kills[0].victim, str(len(kills)), *map(str, sums), times)


def league_with_rules(folder: Path, *, settings: Sequence[str] = ()) -> League:
    """Return the league of four algorithms, with an audit of its state."""
    from league_audit import LeagueAudit  # noqa: PLC0415 - its folder is not always on the import path

    checks = (run_verify, LeagueAudit())
    return League(folder, settings=settings, source=LEAGUE, victims=LEAGUE_VICTIMS, checks=checks)


def main() -> None:
    """Run the campaign in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=20, help="kills of every kind of process")
    parser.add_argument("--league", action="store_true", help="kill a league of four algorithms with rules")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ludus-kill-") as folder:
        run = Path(folder) / "run"
        kills = campaign(league_with_rules(run) if options.league else League(run), options.count)
    print(table(kills))
    gone = [one.gone_s for one in kills if one.victim == "coordinator"]
    if gone:
        print(f"all workers ended within {max(gone):.1f} s after the coordinator")


if __name__ == "__main__":
    main()
