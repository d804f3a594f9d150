"""Matches that people play: recorded in a run's log under the kind ``human``, each with its replay.

::

    recorded = RecordedMatch(run.make_environment(1), participants=("human:anna", "main_agent@7"), seed=5)
    recorded.reset(match_seeds(5, np.array([0])))  # then `step` until the match has ended
    name = recorded.save(run.folder, max_mb=256.0, reason="played in the browser")  # "812.0"

While a run goes on, its coordinator adds the match to the log; see `ludus.runs.change_pool`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import attrs
import numpy as np
from attrs import define, field

from ludus._league.change_requests import record_human_match
from ludus._league.human_matches import HumanMatch, is_person, name_person
from ludus._replays.block import ReplayBlock
from ludus._replays.files import FOLDER, ReplayWriter
from ludus._replays.recorder import ReplayRecorder
from ludus._replays.stream_recorder import StreamRecorder
from ludus.environment import Environment, EnvironmentSpec, Scenario, Tick
from ludus.errors import RunError
from ludus.records import HUMAN, Fixture
from ludus.rendering import draw_match

__all__ = ["RecordedMatch", "is_person", "name_person"]

_INDEX = np.zeros(1, np.int64)  # of the only match
_STREAM_SPACE_BYTES = 2**28  # as by default; `save` checks the option of the run
_WORKER = "human"  # in the names of the files of replays


@define(eq=False)
class RecordedMatch:
    """An environment of one match that records what is played in it.

    Args:
        environment: Environment of one match.
        participants: Participant of every seat, people as `name_person` returns them.
        seed: Seed of the fixture, below 2^63; its first match is played.

    Attributes:
        has_ended: Whether the match has ended by its rules or its time limit.
    """

    environment: Environment
    participants: Sequence[str] = field(kw_only=True)
    seed: int = field(kw_only=True)
    has_ended: bool = field(init=False, default=False)
    _blocks: list[ReplayBlock] = field(init=False, factory=list)
    _recorder: ReplayRecorder = field(init=False)
    _fixture: Fixture = field(init=False)
    _tick: Tick = field(init=False)
    _ticks: int = field(init=False, default=0)
    _returns: np.ndarray = field(init=False)  # [1, seats] float32

    def __attrs_post_init__(self) -> None:
        drawn = partial(draw_match, self.environment)
        streams = None if self.spec.repeatable else StreamRecorder(drawn, _STREAM_SPACE_BYTES)
        self._recorder = ReplayRecorder(self.spec, 1, self._blocks.append, streams=streams)
        self._returns = np.zeros((1, len(self.spec.seats)), np.float32)

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the spec of the environment."""
        return self.environment.spec

    @property
    def num_matches(self) -> int:
        """Return 1."""
        return 1

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start the match; called once."""
        self._fixture = Fixture(
            id=0,
            kind=HUMAN,
            player="",
            participants=tuple(self.participants),
            seed=self.seed,
            matches=1,
            reason="",
            scenario=scenarios[0] if scenarios else Scenario(),
        )
        self._recorder.add_fixture(self._fixture)
        self._recorder.start_matches(_INDEX)
        self._tick = self.environment.reset(seeds, indices=indices, scenarios=scenarios)
        return self._tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance the match by one tick; see `ludus.environment.Environment.step`.

        Raises:
            RunError: The match is void.
        """
        self._recorder.add_tick(self._tick, actions)
        self._tick = tick = self.environment.step(actions)
        self._ticks += 1
        self._returns += np.concatenate([tick.roles[role.name].reward for role in self.spec.roles], axis=1)
        if tick.void is not None and tick.void[0]:
            raise RunError("the game failed, and its match is void")
        if tick.terminated[0] or tick.truncated[0]:
            self._end()
        return tick

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()

    def _end(self) -> None:
        results: dict[str, np.ndarray] = {
            "fixture": _INDEX,
            "number": _INDEX,
            "ticks": np.array([self._ticks], np.int32),
            "outcome": self._tick.outcome.astype(np.float32),
            "returns": self._returns,
        }
        self._recorder.end_matches(_INDEX, self._tick, results)
        self._recorder.flush()
        self.has_ended = True

    def save(self, folder: Path, *, max_mb: float, reason: str) -> str:
        """Add the match, which has ended, to the log of a run, write its replay, and return its name.

        Args:
            folder: The run folder.
            max_mb: Size of all replays of the run in MB, `replays.max_mb` of its configuration.
            reason: Why it was played.

        Raises:
            RunError: As for `ludus.runs.change_pool`; or the run has other seats than the environment.
        """
        match = HumanMatch(
            participants=self._fixture.participants,
            seed=self.seed,
            scenario=self._fixture.scenario.name,
            outcome=self._tick.outcome[0].tolist(),
            returns=self._returns[0].tolist(),
            ticks=self._ticks,
            reason=reason,
        )
        number = record_human_match(folder, match)
        writer = ReplayWriter(folder / FOLDER, _WORKER, round(max_mb * 2**20))
        for block in self._blocks:
            fixture = attrs.evolve(self._fixture, id=number, reason=reason)
            index = attrs.evolve(block.index, fixture=np.array([number], np.int64))
            writer.write(attrs.evolve(block, index=index, fixtures={number: fixture}))
        return f"{number}.0"
