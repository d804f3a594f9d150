"""A run in real processes, its committed state, and the checks of its log and files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from attrs import Factory, define, field, frozen
from ludus._store.store import Store
from ludus.errors import RunError
from ludus.runs import open_run
from ludus_terminal.verify import verify

from chaos.processes import TIMEOUT_S, LudusCommand, wait

EXAMPLE = Path(__file__).parents[2] / "examples" / "tictactoe.toml"
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
LEAGUE = Path(__file__).with_name("league.toml")
LIGHT = Path(__file__).with_name("light.toml")


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


def _output_path(owner: League) -> Path:
    return owner.folder.with_name(f"{owner.folder.name}.out")


@define
class League:
    """A run in real processes.

    Args:
        folder: Run folder; the output goes to `output_path`.
        settings: Values of the TOML file to replace.
        workers: Number of samplers.
        source: TOML file of the run.
        checks: Functions that return contradictions in the store, one line each.
        environment: Environment variables to add.
        output_path: File for the output; by default ``<folder>.out``.
    """

    folder: Path
    settings: Sequence[str] = SETTINGS
    workers: int = 1
    source: Path = EXAMPLE
    checks: Sequence[Callable[[Store], Iterable[str]]] = (run_verify,)
    environment: Mapping[str, str] = field(factory=dict)
    output_path: Path = field(default=Factory(_output_path, takes_self=True))
    command: LudusCommand = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.command = LudusCommand(self.output_path, self.environment)

    def train(self) -> None:
        """Start the run."""
        settings = [f"run.workers={self.workers}", *self.settings]
        options = [part for setting in settings for part in ("--set", setting)]
        self.command.start("train", self.source, "--run", self.folder, *options)

    def resume(self) -> None:
        """Resume the run."""
        self.command.start("resume", self.folder)

    @property
    def output(self) -> str:
        """Return the output of the run."""
        return self.command.output

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Return the process of the coordinator."""
        return self.command.process

    @property
    def pids(self) -> dict[str, int]:
        """Return the process ids of all processes of the run, by name."""
        return {"coordinator": self.process.pid, **self.command.workers}

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
        self.command.close()
