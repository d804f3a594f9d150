"""Replays of a run: recorded matches, which are played again from seed and actions, or shown from their frames.

::

    with open_run("runs/run") as run:
        (match,) = find_matches(run, "812.3")
        replay = find_replay(run, match)
        environment = run.make_environment(1)
        for step in play_replay(run, replay, environment):
            print(step.number, step.decisions)

Matches of environments that are not `ludus.environment.EnvironmentSpec.repeatable` have a `Replay.stream`, see
`stream_steps`. docs/running.md#replays describes what is recorded and in which files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

import numpy as np
from attrs import define, field, frozen

from ludus._plugins.error_wrapping import close_environment
from ludus._replays.block import Replay
from ludus._replays.files import FOLDER, ReplayFolder, StoredBlock
from ludus._replays.player import ReplayPlayer, ReplayTick
from ludus._replays.steps import SeatDecision, StreamStep, stream_steps
from ludus._replays.streams import MatchStream, StreamedGame
from ludus._sampling.actors import PolicyAgent
from ludus.environment import Environment, RoleTick, Seat, Tick
from ludus.errors import LudusError, ReplayError
from ludus.records import MatchRecord
from ludus.runs import Run, match_seeds

__all__ = [
    "MatchStream",
    "Replay",
    "ReplayStep",
    "ReplayVerification",
    "SeatDecision",
    "StreamStep",
    "StreamedGame",
    "find_matches",
    "find_replay",
    "play_replay",
    "stream_steps",
    "verify_replays",
]

_MATCH = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")
_MAX_SEED = 2**64 - 1
_MAX_BATCH = 64  # matches that are verified at the same time


# -- one match -------------------------------------------------------------------------------------------------------


@frozen(eq=False, kw_only=True)
class ReplayStep:
    """One tick of a replay.

    Attributes:
        number: Number of the tick; the first one has number 0.
        tick: The tick; its arrays belong to the environment.
        decisions: The decisions on this tick; empty on the last one.
    """

    number: int
    tick: Tick
    decisions: tuple[SeatDecision, ...]


def find_matches(run: Run, name: str) -> tuple[MatchRecord, ...]:
    """Return the matches of the log that have a name, ``"FIXTURE.NUMBER"``, or a seed; empty if there are none.

    Fixtures with exchanged teams share their seeds, so several matches may have one seed.

    Raises:
        ReplayError: The text is neither.
    """
    found = _MATCH.fullmatch(name)
    if found is None and not (name.isascii() and name.isdecimal() and int(name) <= _MAX_SEED):
        raise ReplayError(f"match {name!r}: expected FIXTURE.NUMBER or a seed, see `ludus league RUN matches`")
    places = [(int(found[1]), int(found[2]))] if found else _places_of_seed(run, int(name))
    return tuple(match for fixture, number in places for match in _matches_of(run, fixture) if match.number == number)


def _matches_of(run: Run, fixture: int) -> Iterator[MatchRecord]:
    """Return the matches of a fixture in the log."""
    return takewhile(lambda match: match.fixture.id == fixture, run.matches(first=fixture))


def _places_of_seed(run: Run, seed: int) -> list[tuple[int, int]]:
    """Return fixture and number of the matches with a seed, played or not."""
    fixtures = [record.fixture for record in run.fixtures() if record.played]
    places = []
    for fixture in fixtures:
        same = np.flatnonzero(match_seeds(fixture.seed, np.arange(fixture.matches)) == np.uint64(seed))
        places += [(fixture.id, number) for number in same.tolist()]
    return places


def find_replay(run: Run, match: MatchRecord) -> Replay:
    """Return the replay of a match of the log.

    Raises:
        ReplayError: The match was not recorded, or its replay was deleted or is damaged.
    """
    stored, damaged = ReplayFolder(run.folder / FOLDER), list[str]()
    for block in stored.blocks():
        if np.any((block.index.fixture == match.fixture.id) & (block.index.number == match.number)):
            try:
                if found := [replay for replay in block.replays() if _is_logged(run, replay, match)]:
                    return found[0]
            except ReplayError as error:
                damaged.append(str(error))
    name, reason = f"{match.fixture.id}.{match.number}", _missing_reason(run, match)
    raise ReplayError("; ".join([f"match {name} has no replay: {reason}", *damaged, *stored.problems]))


def _missing_reason(run: Run, match: MatchRecord) -> str:
    """Return why a match may have no replay."""
    options = run.config.replays
    if match.fixture.kind == "train" and not options.training_share:
        return "training matches are recorded if replays.training_share is above 0"
    if match.fixture.kind == "eval" and not options.evaluations:
        return "replays.evaluations is off"
    chosen = ""
    if match.fixture.kind == "train":
        chosen = "it was not among replays.training_share, its game does not repeat matches, "
    return f"{chosen}its worker was killed, or its file was deleted (replays.max_mb) or is damaged"


def _is_logged(run: Run, replay: Replay, match: MatchRecord) -> bool:
    """Return whether a replay is the match of the log, and not another one of an equal name.

    A fixture that a killed worker left unfinished is played again: then two replays have one name, and the log has the
    result of one. A fixture of an interrupted final evaluation leaves its number to another fixture.
    """
    own, logged = replay.fixture, match.fixture
    return (
        (own.id, replay.number) == (logged.id, match.number)
        and (own.kind, own.participants, own.seed) == (logged.kind, logged.participants, logged.seed)
        and own.scenario.name == logged.scenario.name
        and dict(own.scenario.parameters) == dict(logged.scenario.parameters)
        and replay.ticks == match.ticks
        and (run.return_outcome is not None or replay.outcome == match.outcome)  # the log has outcomes of returns then
    )


def play_replay(run: Run, replay: Replay, environment: Environment, *, evaluate: bool = True) -> Iterator[ReplayStep]:
    """Play a match again and yield its ticks, the last one included.

    Args:
        run: The run, open or closed.
        replay: The match.
        environment: A batch of the run's environment; its first match is used, the caller closes it.
        evaluate: Whether the stored models compute probabilities and values for their decisions.

    Raises:
        ReplayError: The match differs from its record, or has a stream, since it cannot be played again.
    """
    if replay.stream is not None:
        raise ReplayError(
            f"match {replay.name}: its game does not repeat matches; it can be shown from its stream only"
        )
    agents = _frozen_agents(run, replay, environment) if evaluate else {}
    evaluations = _Evaluations(environment.spec.seats, replay.fixture.participants, agents)
    for step in ReplayPlayer(environment).play(replay):
        yield ReplayStep(number=step.number, tick=step.tick, decisions=tuple(evaluations.decisions(step)))


def _frozen_agents(run: Run, replay: Replay, environment: Environment) -> dict[int, PolicyAgent]:
    """Return the agents of frozen models by seat, as far as their models can be loaded."""
    made: dict[tuple[str, str], PolicyAgent | None] = {}
    for seat, participant in zip(environment.spec.seats, replay.fixture.participants, strict=True):
        key = (participant, seat.role)
        if participant not in run.models or key in made:
            continue
        try:
            agent = run.agent(participant, seat.role, environment=environment)
        except LudusError:  # such as a retired model: the match is shown without its evaluations
            agent = None
        made[key] = agent if isinstance(agent, PolicyAgent) else None
    by_seat = {
        number: made.get((participant, seat.role))
        for number, (seat, participant) in enumerate(
            zip(environment.spec.seats, replay.fixture.participants, strict=True)
        )
    }
    return {number: agent for number, agent in by_seat.items() if agent is not None}


@define(eq=False)
class _Evaluations:
    """Computes what the participants thought of their decisions.

    Args:
        seats: The seats of a match.
        participants: Participant of every seat.
        agents: Agents of frozen models by seat.
    """

    seats: Sequence[Seat]
    participants: Sequence[str]
    agents: Mapping[int, PolicyAgent]
    _rng: np.random.Generator = field(init=False, factory=lambda: np.random.default_rng(0))  # results do not use it
    _decided_ticks: np.ndarray = field(init=False)  # [seats] tick of the last decision

    def __attrs_post_init__(self) -> None:
        self._decided_ticks = np.zeros(len(self.seats), np.int64)
        for number, agent in self.agents.items():
            agent.reset(np.array([number]))

    def decisions(self, step: ReplayTick) -> Iterator[SeatDecision]:
        """Yield the decisions on a tick."""
        for number, seat in enumerate(self.seats):
            tick = step.tick.roles[seat.role]
            if not step.actions or not tick.acting[0, seat.index]:
                continue
            probabilities, value = self._evaluate(number, seat, tick, step.number)
            yield SeatDecision(
                seat=number,
                role=seat.role,
                participant=self.participants[number],
                action=step.actions[seat.role][0, seat.index].copy(),
                probabilities=probabilities,
                value=value,
            )

    def _evaluate(self, number: int, seat: Seat, tick: RoleTick, now: int) -> tuple[np.ndarray | None, float | None]:
        if number not in self.agents:
            return None, None
        self.agents[number].elapse(now - self._decided_ticks[[number]], np.array([number]))
        self._decided_ticks[number] = now
        probabilities, values = self.agents[number].evaluate_choices(
            {name: leaf[:1, seat.index] for name, leaf in tick.observation.items()},
            action_mask=None if tick.action_mask is None else tick.action_mask[:1, seat.index],
            seat_ids=np.array([number]),
            rng=self._rng,
        )
        value = float(values[0])
        return None if probabilities is None else probabilities[0], value if np.isfinite(value) else None


# -- verification ----------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class ReplayVerification:
    """The result of a verification.

    Attributes:
        stored: Number of replays that were found.
        played: Number of replays that were played again.
        streams: Number of replays that were not, because they are streams.
        superseded: Number of replays that are not of the log: their match was played again, or its result was lost.
        problems: One line for every replay, block and file that is damaged or differs.
    """

    stored: int
    played: int
    streams: int
    superseded: int
    problems: tuple[str, ...]


def verify_replays(run: Run, *, last: int | None = None) -> ReplayVerification:
    """Compare all files with their hashes, play replays of the log again, and compare their states.

    Replays with a stream cannot be played again: they are counted.

    Args:
        run: The run.
        last: Number of replays to play, the newest; None for all.
    """
    stored = ReplayFolder(run.folder / FOLDER)
    blocks = list(stored.blocks())
    problems = list(stored.problems)
    total = sum(block.index.ticks.size for block in blocks)
    skipped = 0 if last is None else max(total - last, 0)
    log = _LogComparison(run)
    played = 0
    environment = None
    try:
        for block in blocks:
            replays, skipped = _read(block, skipped, problems)
            replays = [replay for replay in replays if log.accepts(replay)]
            if not replays:
                continue
            if environment is None:
                environment = run.make_environment(min(_MAX_BATCH, max(total - skipped, 1)))
            played += len(replays)
            problems += _differences(ReplayPlayer(environment), replays)
    finally:
        if environment is not None:
            close_environment(environment)
    counts = {"stored": total, "played": played, "streams": log.streams, "superseded": log.superseded}
    return ReplayVerification(**counts, problems=tuple(problems))


def _read(block: StoredBlock, skipped: int, problems: list[str]) -> tuple[list[Replay], int]:
    """Return the replays of a block but the first `skipped` ones, and how many of later blocks to skip."""
    count = block.index.ticks.size
    try:
        replays = list(block.replays())
    except ReplayError as error:
        problems.append(str(error))
        return [], max(skipped - count, 0)
    return replays[skipped:], max(skipped - count, 0)


def _differences(player: ReplayPlayer, replays: Sequence[Replay]) -> Iterable[str]:
    differences = zip(replays, player.find_differences(replays), strict=True)
    return [f"match {replay.name}: {problem} ({replay.place})" for replay, problem in differences if problem]


@define
class _LogComparison:
    """Compares replays with the match log, of which it keeps the matches of one fixture at a time."""

    run: Run
    superseded: int = field(init=False, default=0)
    streams: int = field(init=False, default=0)
    _fixture: int = field(init=False, default=-1)
    _matches: dict[int, MatchRecord] = field(init=False, factory=dict)

    def accepts(self, replay: Replay) -> bool:
        """Return whether the replay is a match of the log that can be played again; count it otherwise."""
        if replay.fixture.id != self._fixture:
            self._fixture = replay.fixture.id
            self._matches = {match.number: match for match in _matches_of(self.run, self._fixture)}
        match = self._matches.get(replay.number)
        if match is None or not _is_logged(self.run, replay, match):
            self.superseded += 1
            return False
        self.streams += replay.stream is not None
        return replay.stream is None
