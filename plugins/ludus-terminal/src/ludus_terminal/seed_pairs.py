"""Pairs of matches between two participants: on one seed, with exchanged seats."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from attrs import define, field, frozen
from ludus.environment import Environment, EnvironmentSpec, Scenario
from ludus.errors import ConfigError, RunError
from ludus.lineup import Lineup, make_agents, make_lineups
from ludus.runs import Run, check_folder, match_seeds, open_run, play_matches

from ludus_terminal.evaluate import team_lead

__all__ = ["PairLog", "PairPlan", "PairRounds"]

_SEEDS = 8  # of a round: few, as a test can stop after a round only


@frozen
class PairPlan:
    """Which pairs are played. They come in rounds; equal plans give equal rounds.

    Attributes:
        run_dir: The run folder.
        candidate: The participant whose points are counted.
        reference: The other one.
        seed: Seed of all rounds.
        scenario: Name of the scenario.
        deterministic: Whether models take their most likely action.
        others: Participants at the seats that remain. They are part of the plan because the newest model of a role,
            which fills its seats, changes while a run goes on.
    """

    run_dir: str
    candidate: str
    reference: str
    seed: int = field(default=0, kw_only=True)
    scenario: str = field(default="default", kw_only=True)
    deterministic: bool = field(default=False, kw_only=True)
    others: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def participants(self) -> tuple[str, ...]:
        """Return all participants."""
        return (self.candidate, self.reference, *self.others)

    def seat(self, run: Run) -> PairPlan:
        """Return the plan with a participant for every seat.

        Raises:
            ConfigError: Matches of the two are no pairs.
        """
        with closing(run.make_environment(1)) as environment:
            lineups = make_lineups(environment.spec, self.participants, run)
            _check_pairs(environment.spec, self, [lineup.rotations() for lineup in lineups])
        named = 2 if len(lineups) == 1 else 1
        return attrs.evolve(self, others=lineups[0].names[named:])


@frozen
class PairLog:
    """The file in the run folder that holds the rounds of a plan, from which a test goes on.

    Attributes:
        path: The file. Its name is a hash of the plan, the models and the configuration, so that another model or
            another option of the game begins another file.
        header: Plan and models.
    """

    path: Path
    header: dict[str, Any]

    @classmethod
    def of(cls, plan: PairPlan, run: Run) -> PairLog:
        """Return the log of a plan.

        Raises:
            RunError: A link leads out of the run folder.
        """
        check_folder(run.folder)
        named = (name.rpartition("=")[2] for name in plan.participants)
        header = {
            **attrs.asdict(plan, filter=lambda attribute, _value: attribute.name != "run_dir"),
            "models": [run.models[name].hash if name in run.models else "" for name in named],
            "configuration": hashlib.sha256((run.folder / "run.toml").read_bytes()).hexdigest(),
        }
        digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:16]
        return cls(run.folder / "gates" / f"{digest}.json", header)

    def read(self) -> list[list[int]]:
        """Return the rounds so far, ``[5]`` each; none without a file.

        Raises:
            RunError: The file is malformed.
        """
        if not self.path.exists():
            return []
        try:
            rounds = json.loads(self.path.read_bytes())["rounds"]
            counts = np.array(rounds).reshape(-1, 5)
            if counts.size and (counts.dtype != np.int64 or counts.min() < 0):
                raise ValueError("expected whole numbers")
        except (ValueError, TypeError, LookupError) as error:
            raise RunError(
                f"{self.path}: expected rounds of five numbers ({error}); delete this file to start the test again"
            ) from error
        return counts.tolist()

    def write(self, rounds: Sequence[Sequence[int]]) -> None:
        """Replace the file."""
        self.path.parent.mkdir(exist_ok=True)
        new = self.path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({**self.header, "rounds": rounds}))
        new.replace(self.path)


class PairRounds(AbstractContextManager["PairRounds"]):
    """Plays rounds of pairs, in this process or in others.

    Args:
        plan: What to play.
        processes: Number of processes that play rounds; 1: this one.
    """

    def __init__(self, plan: PairPlan, *, processes: int = 1) -> None:
        self._plan, self._processes = plan, processes
        self._player: _RoundPlayer | None = None
        self._pool: ProcessPoolExecutor | None = None
        self._started: dict[int, Future[list[int]]] = {}

    def play(self, number: int) -> list[int]:
        """Return ``[5]``: the pairs of a round in which the candidate scored 0, ½, 1, 1½ and 2.

        Other processes go on with the next rounds meanwhile.
        """
        if self._processes == 1:
            self._player = self._player or _RoundPlayer.make(self._plan)
            return self._player.play(number)
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._processes, context, _start_process, (self._plan,))
        for ahead in range(number, number + self._processes):
            if ahead not in self._started:
                self._started[ahead] = self._pool.submit(_play_in_process, ahead)
        return self._started.pop(number).result()

    def __exit__(self, *_: object) -> None:
        if self._player is not None:
            self._player.environment.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


@define
class _RoundPlayer:
    """Plays rounds in one process.

    Attributes:
        plan: What to play.
        environment: The game, for all matches of a round at once.
        lineups: The seatings of a round, in pairs: the candidate has a place, and the reference has it.
        agents: The agents of all seats of every lineup.
        compares: Whether candidate and reference play in different matches, against the same others.
    """

    plan: PairPlan
    environment: Environment
    lineups: Sequence[Lineup]
    agents: Sequence[Sequence[Any]]
    compares: bool
    _scenario: Scenario = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._scenario = Scenario(name=self.plan.scenario)

    @classmethod
    def make(cls, plan: PairPlan) -> _RoundPlayer:
        with open_run(plan.run_dir) as run:
            environment = run.make_environment(2 * _SEEDS)
            try:
                rotated = [lineup.rotations() for lineup in make_lineups(environment.spec, plan.participants, run)]
                compares = len(rotated) == 2
                flat = [one for pair in zip(*rotated, strict=True) for one in pair] if compares else rotated[0]
                agents = make_agents(flat, run, environment, deterministic=plan.deterministic)
            except BaseException:
                environment.close()
                raise
        return cls(plan, environment, flat, agents, compares)

    def play(self, number: int) -> list[int]:
        """Return the counts of a round, see `PairRounds.play`."""
        seed = int(match_seeds(self.plan.seed, np.array([number]))[0] >> np.uint64(1))
        played = play_matches(self.environment, self.agents, matches=_SEEDS, seed=seed, scenario=self._scenario)
        points = np.array([_points(*result) for result in zip(self.lineups, played, strict=True)])  # [2 k, seeds]
        first, second = points[0::2], points[1::2]
        pairs = first + (1.0 - second if self.compares else second)
        counts: list[int] = np.bincount((2 * pairs).astype(np.int64).ravel(), minlength=5).tolist()
        return counts


def _points(lineup: Lineup, results: dict[str, np.ndarray]) -> np.ndarray:
    """Return ``[n]``: the points of the first participant by match number."""
    lead = team_lead(results["outcome"][results["number"].argsort()], lineup.teams_of(0)[0])
    return np.asarray((np.sign(lead) + 1) / 2)


def _check_pairs(spec: EnvironmentSpec, plan: PairPlan, rotated: Sequence[Sequence[Lineup]]) -> None:
    """Check that matches of two participants are pairs.

    Raises:
        ConfigError: They are not.
    """
    instead = f"ludus eval RUN {plan.candidate} {plan.reference} compares them by a fixed number of matches"
    if spec.score == "return":
        raise ConfigError(f"{spec.name} is scored by returns, and the test counts wins, draws and losses: {instead}")
    if spec.num_teams > 2:
        raise ConfigError(f"{spec.name} has {spec.num_teams} teams, and a pair of matches needs two: {instead}")
    if len(rotated) > 2 or (len(rotated) == 1 and len(rotated[0]) != 2):
        raise ConfigError(
            f"{plan.candidate} and {plan.reference} do not exchange their seats: name two participants of one role, "
            f"without SEAT="
        )


_process: list[_RoundPlayer] = []  # the player of a process that plays rounds


def _start_process(plan: PairPlan) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks for rounds handles Ctrl-C
    _process.append(_RoundPlayer.make(plan))


def _play_in_process(number: int) -> list[int]:
    return _process[0].play(number)
