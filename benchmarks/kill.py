"""What a run survives: ``python benchmarks/kill.py [N]`` kills every kind of process N times, at random moments.

A Tic-Tac-Toe league runs in real processes. One of them is killed (SIGKILL) and the run must go on by itself; when
the coordinator is killed, every worker must be gone soon and ``ludus resume`` must go on. Before each kill a witness
reads the store: what it has seen committed must still be there afterwards, and everything must agree with the log
and the files.

``--league`` kills a league of four algorithms instead, whose rules change shares, pools and generations every second.
Then all processes are also killed at once, as when the power fails, and everything that the league knows is compared
with a second count from the log (`kill_witness`).
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
PATIENCE_S = 300.0


def processes(parent: int) -> dict[str, int]:
    """Return the pids of the workers that `parent` started, by name."""
    command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,command="]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {}
    for line in shown.splitlines():
        pid, ppid, arguments = line.split(None, 2)
        name = re.search(r" -m ludus_\w+\.\w+ .*--name (\S+)", arguments)
        if int(ppid) == parent and name:
            found[name[1]] = int(pid)
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(shown.strip()) and not shown.strip().startswith("Z")


def wait(condition: Callable[[], bool], *, timeout_s: float = PATIENCE_S) -> float:
    """Return how many seconds it took until `condition` held.

    Raises:
        TimeoutError: It does not hold after `timeout_s`.
    """
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > timeout_s:
            raise TimeoutError(f"nothing happened for {timeout_s:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - start


@frozen(kw_only=True)
class State:
    """What a reader of the store sees at one moment."""

    trained: int
    rated: int
    learned: Mapping[str, int]
    models: frozenset[str]

    @classmethod
    def read(cls, folder: Path) -> State:
        """Read the state of a run; all zeros before it has one."""
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
        """Return whether training and rating went on after `other`, and every player learned more."""
        learned = all(self.learned.get(name, 0) > count for name, count in other.learned.items())
        return self.trained > other.trained and self.rated > other.rated and learned


def verified(store: Store) -> list[str]:
    """Return what ``ludus league verify`` finds, one line each."""
    with open_run(store.run_dir) as run:
        return verify(run)


@define
class League:
    """A run in real processes.

    Args:
        folder: The run folder; ``<folder>.out`` takes what the run prints.
        settings: Values of the example that are replaced.
        workers: Samplers.
        source: The run's TOML file.
        victims: Who can be killed: kinds of processes, with the names of those that take turns, or `EVERYTHING`.
        checks: What finds contradictions in the store.
    """

    folder: Path
    settings: Sequence[str] = SETTINGS
    workers: int = 1
    source: Path = EXAMPLE
    victims: Mapping[str, Sequence[str]] = field(factory=lambda: VICTIMS)
    checks: Sequence[Callable[[Store], Iterable[str]]] = (verified,)
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    def train(self) -> None:
        """Start the run."""
        given = [f"run.workers={self.workers}", *self.settings]
        options = [part for setting in given for part in ("--set", setting)]
        self._start("train", str(self.source), "--run", str(self.folder), *options)

    def resume(self) -> None:
        """Go on with the run."""
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
        """Return the file of what the run printed."""
        return self.folder.with_name(f"{self.folder.name}.out")

    @property
    def output(self) -> str:
        """Return what the run printed."""
        return self.output_path.read_text(encoding="utf-8")

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Return the coordinator's process."""
        assert self._process is not None, "not started"
        return self._process

    @property
    def pids(self) -> dict[str, int]:
        """Return the pids of all processes of the run."""
        return {"coordinator": self.process.pid, **processes(self.process.pid)}

    @property
    def state(self) -> State:
        """Return what is committed."""
        return State.read(self.folder)

    def wait_for(self, condition: Callable[[State], bool], *, timeout_s: float = PATIENCE_S) -> float:
        """Return how many seconds it took until the committed state met `condition`.

        Raises:
            RuntimeError: The run ended.
            TimeoutError: It is not met after `timeout_s`.
        """

        def met() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError(f"the run ended with status {self.process.returncode}:\n{self.output}")
            return condition(self.state)

        try:
            return wait(met, timeout_s=timeout_s)
        except TimeoutError as error:
            raise TimeoutError(
                f"{error}: {self.pids}, {self.state}; the end of what it said:\n{self.output[-4000:]}"
            ) from None

    def problems(self) -> list[str]:
        """Return what does not agree with the log and the files."""
        with Store.read(self.folder) as store:
            return [problem for check in self.checks for problem in check(store)]

    def close(self) -> None:
        """End whatever is left of the run."""
        if self._process is not None:
            left = self.pids if self._process.poll() is None else {}
            for pid in left.values():
                with suppress(ProcessLookupError):  # it ended with another one
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()


@frozen(kw_only=True)
class Kill:
    """What followed from killing one process.

    Args:
        victim: Kind of process.
        name: Its name.
        lost_matches: Matches that were committed and are gone.
        lost_models: Models that were in the league and are gone.
        problems: What does not agree any more.
        orphans: Workers that outlived the coordinator.
        gone_s: Seconds until the last worker followed the coordinator.
        recovered_s: Seconds until matches were trained on, learned from and rated again.
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
    """Kill one process of a run that goes on, or all, and see what follows.

    Args:
        league: The run.
        victim: Kind of process.
        turn: Which kill of that kind this is, from 0; those of a kind take turns.

    Raises:
        RuntimeError: The run ended, though it was not the coordinator that was killed.
        TimeoutError: It does not go on.
    """
    pids, names = league.pids, league.victims[victim]
    name = names[turn % len(names)]
    found = league.problems()
    before = league.state
    for pid in pids.values() if name == EVERYTHING else [pids[name]]:
        with suppress(ProcessLookupError):  # it ended with the coordinator
            os.kill(pid, signal.SIGKILL)
    start = time.monotonic()
    gone_s, orphans = 0.0, 0
    if name in {"coordinator", EVERYTHING}:
        league.process.wait()
        gone_s, orphans = _outlive(list(pids.values()))
        found += league.problems()  # of the very state that the next start finds
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
        problems=(*found, *league.problems()),
        orphans=orphans,
        gone_s=gone_s,
        recovered_s=recovered_s,
    )


def _outlive(pids: Sequence[int]) -> tuple[float, int]:
    try:
        return wait(lambda: not any(map(is_alive, pids)), timeout_s=10.0), 0
    except TimeoutError:
        left = [pid for pid in pids if is_alive(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return 10.0, len(left)


def campaign(league: League, count: int) -> list[Kill]:
    """Kill each kind of process `count` times, in random order, at random moments of one run."""
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
            kills.append(kill(league, victim, turn=turn))
            print(f"{number:3d}/{len(order)} {kills[-1].name}: went on after {kills[-1].recovered_s:.1f} s", flush=True)
            for problem in kills[-1].problems:
                print(f"    {problem}", flush=True)
        league.process.send_signal(signal.SIGINT)
        print(f"Ctrl-C: exit status {league.process.wait(60)}, {league.state.matches:,} matches")
        print(f"verify: {league.problems() or 'everything agrees'}")
    finally:
        league.close()
    return kills


def table(kills: Sequence[Kill]) -> str:
    """Return one line per kind of process."""
    head = ("killed", "kills", "lost matches", "lost models", "verify failures", "orphans", "went on after, s")
    rows: list[tuple[str, ...]] = [head]
    for victim in LEAGUE_VICTIMS:
        of = [one for one in kills if one.victim == victim]
        if of:
            took = sorted(one.recovered_s for one in of)
            sums = (
                sum(one.lost_matches for one in of),
                sum(one.lost_models for one in of),
                sum(bool(one.problems) for one in of),
                sum(one.orphans for one in of),
            )
            rows.append((victim, str(len(of)), *map(str, sums), f"{statistics.median(took):.1f}, max {took[-1]:.1f}"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def league_with_rules(folder: Path, *, settings: Sequence[str] = ()) -> League:
    """Return the league of four algorithms, which a witness looks at."""
    from kill_witness import Witness  # noqa: PLC0415 - beside this file, which others may load by its path

    checks = (verified, Witness())
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
        print(f"workers were gone {max(gone):.1f} s after the coordinator at the latest")


if __name__ == "__main__":
    main()
