"""A sampler without its peers: the part of `_pieces` that plays. On private modules of ludus, too."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from attrs import define, field, frozen
from ludus._run.context import RunContext
from ludus._run.sampler_factory import make_sampler
from ludus.algorithm import Weights
from ludus.errors import ContractError
from ludus.launcher import COORDINATOR, WorkerContext, learner_name
from ludus.runs import Fixture
from ludus.segment import SegmentBatch
from ludus.wire import Credit, FixtureRequest, Fixtures, Hello, Results, ResultsAck, Segments

__all__ = ["Dealer", "Opponents", "Sampling"]

_MOST_IDLE = 10_000


@frozen(kw_only=True)
class Opponents:
    """Frozen models, numbered from 1 for each player: how many, participant to hash, and the run folder they lie in."""

    folder: Path
    count: int
    hashes: Mapping[str, str]

    def first(self, count: int) -> Opponents:
        """Return only the first so many of each player."""
        return attrs.evolve(self, count=count)


@define
class Dealer:
    """Makes fixtures without end, against opponents drawn by lot; the learning side changes its team every time."""

    seats: tuple[tuple[int, str], ...]  # team and player
    matches: int
    opponents: Opponents | None
    dealt: int = 0
    rng: np.random.Generator = field(factory=lambda: np.random.default_rng(0))

    def deal(self, count: int) -> Fixtures:
        return Fixtures(fixtures=tuple(self._next() for _ in range(count)))

    def _next(self) -> Fixture:
        self.dealt += 1
        learning, frozen = {team for team, _ in self.seats}, ""
        hashes: Mapping[str, str] = {}
        if self.opponents is not None:
            learning = {sorted(learning)[self.dealt % len(learning)]}
            frozen = f"@{1 + self.rng.integers(self.opponents.count)}"
            hashes = self.opponents.hashes
        seats = tuple(player + ("@0+" if team in learning else frozen) for team, player in self.seats)
        return Fixture(
            id=self.dealt,
            kind="train",
            player=next(player for team, player in self.seats if team in learning),
            participants=seats,
            seed=self.dealt,
            matches=self.matches,
            reason="bench",
            models={seat: hashes[seat] for seat in seats if seat in hashes},
        )


class Sampling:
    """A sampler that always finds fixtures, weights and credits."""

    def __init__(self, context: RunContext, dealer: Dealer, weights: Mapping[str, Weights]) -> None:
        self._players = tuple(context.config.players)
        self._dealer, self._weights = dealer, weights
        self.fixture_matches = dealer.matches
        self._said: deque[tuple[str, Any]] = deque()
        self._keep: list[SegmentBatch] | None = None
        self._sampler = make_sampler(context, "sampler-0", WorkerContext(link=self, clock=time.monotonic))
        self._sampler.start()
        self._answer()

    def send(self, peer: str, message: Any) -> bool:
        """Take what the sampler says; it is answered after its step."""
        self._said.append((peer, message))
        return True

    def work(self) -> float:
        """Play one tick of all matches and return how many decisions were made."""
        before = self._sampler.count
        self._sampler.work()
        if self._said:
            self._answer()
        return float(self._sampler.count - before)

    def record(self, decisions: int, *, after: int = 0) -> list[SegmentBatch]:
        """Play until the first player has so many decisions to learn from and return their segments.

        Args:
            decisions: At least so many.
            after: So many are played first and not kept. Matches begin together and see the same more often until they
                are out of step, so that these would cost less to learn from than what a run plays.

        Raises:
            ContractError: Nobody decides anything for very long.
        """
        for wanted in (after, decisions):
            kept: list[SegmentBatch] = []
            self._keep, idle = kept, 0
            while sum(batch.num_decisions for batch in kept) < wanted:
                idle = 0 if self.work() else idle + 1
                if idle > _MOST_IDLE:
                    raise ContractError(f"no seat acted for {_MOST_IDLE} ticks — run `ludus check` on the environment")
        self._keep = None
        return kept

    def close(self) -> None:
        """Free the environment."""
        self._sampler.close()

    def _answer(self) -> None:
        while self._said:
            peer, message = self._said.popleft()
            reply = self._reply(peer, message)
            if reply is not None:
                self._sampler.handle(peer, reply)

    def _reply(self, peer: str, message: Any) -> Any:
        match message:
            case FixtureRequest():
                return self._dealer.deal(message.count)
            case Results():
                return ResultsAck(report=message.report)
            case Hello() if peer != COORDINATOR:
                player = next(name for name in self._players if learner_name(name) == peer)
                return _credit(player, 0, self._weights[player])
            case Segments():
                if self._keep is not None and message.player == self._players[0]:
                    copied = {name: np.array(array) for name, array in message.arrays.items()}
                    self._keep.append(SegmentBatch.from_arrays(copied))
                return _credit(message.player, message.block, self._weights[message.player])
        return None


def _credit(player: str, acked: int, weights: Weights) -> Credit:
    """Return an answer of a learner that takes everything at once and has weights that nobody had before."""
    return Credit(
        player=player, acked=acked, released=acked, credits=2, version=1 + acked, pid=os.getpid(), weights=weights
    )
