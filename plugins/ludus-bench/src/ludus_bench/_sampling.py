"""A sampler without coordinator and learners: every message is answered at once, in the same process."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ludus._run.context import RunContext
from ludus._run.worker_factories import make_sampler
from ludus.algorithm import Weights
from ludus.errors import ContractError
from ludus.launcher import COORDINATOR, WorkerContext, learner_name
from ludus.runs import Fixture
from ludus.segment import SegmentBatch
from ludus.wire import Credit, FixtureRequest, Fixtures, Hello, Results, ResultsAck, Segments

_MAX_IDLE_TICKS = 10_000


class StandaloneSampler:
    """A sampler that never waits for fixtures, weights or credits.

    Args:
        context: Configuration of the run.
        seat_players: Player of every seat; all of them learn.
        weights: Weights of every player.
    """

    def __init__(self, context: RunContext, seat_players: Sequence[str], weights: Mapping[str, Weights]) -> None:
        self._players = tuple(context.config.players)
        self._matches = context.config.sampling.matches_per_fixture
        self._seat_players, self._weights = seat_players, weights
        self._fixture_ids = itertools.count(1)
        self._messages: deque[tuple[str, Any]] = deque()
        self._recorded: list[SegmentBatch] | None = None
        self._sampler = make_sampler(context, "sampler-0", WorkerContext(link=self, clock=time.monotonic))
        self._sampler.start()
        self._answer_messages()

    def send(self, peer: str, message: Any) -> bool:
        """Queue a message of the sampler; it is answered after the current tick."""
        self._messages.append((peer, message))
        return True

    def play_tick(self) -> float:
        """Play one tick of all matches and return the number of decisions."""
        before = self._sampler.count
        self._sampler.work()
        if self._messages:
            self._answer_messages()
        return float(self._sampler.count - before)

    def record(self, decisions: int, *, skip: int = 0) -> list[SegmentBatch]:
        """Play until the first player has enough decisions to learn from and return their segments.

        Args:
            decisions: Minimum number of decisions.
            skip: Decisions to play first and discard, so that matches that began together are out of step.

        Raises:
            ContractError: No seat acts for very long.
        """
        self._record(skip)
        return self._record(decisions)

    def _record(self, decisions: int) -> list[SegmentBatch]:
        recorded: list[SegmentBatch] = []
        self._recorded, idle_ticks = recorded, 0
        while sum(batch.num_decisions for batch in recorded) < decisions:
            idle_ticks = 0 if self.play_tick() else idle_ticks + 1
            if idle_ticks > _MAX_IDLE_TICKS:
                raise ContractError(f"no seat acted for {_MAX_IDLE_TICKS} ticks — run `ludus check` on the environment")
        self._recorded = None
        return recorded

    def close(self) -> None:
        """Close the environment."""
        self._sampler.close()

    def _answer_messages(self) -> None:
        while self._messages:
            peer, message = self._messages.popleft()
            reply = self._reply(peer, message)
            if reply is not None:
                self._sampler.handle(peer, reply)

    def _reply(self, peer: str, message: Any) -> Any:
        match message:
            case FixtureRequest():
                return Fixtures(fixtures=tuple(self._fixture(next(self._fixture_ids)) for _ in range(message.count)))
            case Results():
                return ResultsAck(report=message.report)
            case Hello() if peer != COORDINATOR:
                player = next(name for name in self._players if learner_name(name) == peer)
                return self._credit(player, 0)
            case Segments():
                if self._recorded is not None and message.player == self._players[0]:
                    copied = {name: np.array(array) for name, array in message.arrays.items()}
                    self._recorded.append(SegmentBatch.from_arrays(copied))
                return self._credit(message.player, message.block)
        return None

    def _fixture(self, number: int) -> Fixture:
        return Fixture(
            id=number,
            kind="train",
            player=self._seat_players[0],
            participants=tuple(f"{player}@0+" for player in self._seat_players),
            seed=number,
            matches=self._matches,
            reason="bench",
        )

    def _credit(self, player: str, block: int) -> Credit:
        """Return a credit that releases a block at once, with weights of a new version."""
        return Credit(
            player=player,
            acked=block,
            released=block,
            credits=2,
            version=1 + block,
            pid=os.getpid(),
            weights=self._weights[player],
        )
