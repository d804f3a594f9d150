"""Processes that help a learner: what both sides do.

A learner that has helpers divides every batch among them and itself. Nothing else changes: samplers, coordinator and
store know the learner alone. Helpers come and go; without them, or where one is lost in the middle of an update, the
learner computes it alone::

    helper  → learner   Help       again and again
    learner → helpers   Gather     all meet (`ludus.launcher.Rendezvous`) and take over the weights and the state
    learner → helpers   Part       an update
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from ludus._messaging.messages import BatchShard, FormGroup, Hello, HelperHeartbeat, Stop
from ludus.algorithm import GroupTrainer, Trainer, UpdateResult
from ludus.errors import ContractError, LinkError, WireError
from ludus.group import Alone
from ludus.launcher import COORDINATOR, Link, PendingGroup, ProcessGroup, Rendezvous, learner_name
from ludus.segment import SegmentBatch

_log = logging.getLogger(__name__)
_AGAIN_S = 1.0  # between two words of a helper
_COME_S = 10.0  # helpers that are there come at once
_MOST_PAUSE_S = 60.0
_PIECE_BYTES = 32 << 20  # of a part in one message, about: launchers bound what they carry


@frozen
class Meeting:
    """How the processes of a learner come together.

    Args:
        player: Whose learner it is.
        rendezvous: Where they meet.
        timeout_s: How long one waits for the others.
    """

    player: str
    rendezvous: Rendezvous
    timeout_s: float

    def call(self, number: int, *, size: int) -> PendingGroup:
        """Open a meeting; see `ludus.launcher.Rendezvous.call`."""
        return self.rendezvous.call(f"group-{number:x}", size=size, timeout_s=self.timeout_s)

    def join(self, call: FormGroup, trainer: GroupTrainer) -> ProcessGroup:
        """Come to a meeting, and let a trainer become that of the learner.

        Raises:
            LinkError: It has come to nothing.
        """
        name = f"group-{call.meeting:x}"
        group = self.rendezvous.join(name, rank=call.rank, size=call.size, timeout_s=self.timeout_s)
        align(trainer, group)
        return group


def align(trainer: GroupTrainer, group: ProcessGroup) -> None:
    """Give all trainers of a group the weights and the state of the first, and let them join it.

    Raises:
        LinkError: One has gone again; the group is closed.
    """
    import torch  # noqa: PLC0415 - whoever has a trainer has loaded it

    weights, state = trainer.weights(), trainer.state()
    tensors = [torch.from_numpy(named[name]) for named in (weights, state) for name in sorted(named)]
    try:
        group.copy(tensors, source=0)  # into these very arrays
    except LinkError:
        group.close()
        raise
    if group.rank:
        trainer.load_weights(weights)
        trainer.load_state(state)
    trainer.join(group)


@define
class Helpers:
    """The helpers of a learner, as the learner sees them.

    Args:
        meeting: How they come together; None where there are to be none.
        link: Where messages go.
        clock: Seconds.
        at_work: Says that the learner is at work: an update that begins anew may take twice as long as others.
    """

    meeting: Meeting | None
    link: Link
    clock: Callable[[], float]
    at_work: Callable[[], None]
    _number: int = field(init=False, default=0)  # of the latest meeting; 0: there is neither group nor call
    _called: dict[str, int] = field(init=False, factory=dict)  # to it: worker → process
    _waiting: dict[str, int] = field(init=False, factory=dict)  # for the next one
    _call: PendingGroup | None = field(init=False, default=None)
    _called_s: float = field(init=False, default=0.0)
    _group: ProcessGroup | None = field(init=False, default=None)
    _pause_s: float = field(init=False, default=0.0)  # after what failed, twice as long each time
    _paused_s: float = field(init=False, default=-1e9)  # when it began

    def __len__(self) -> int:
        """Return how many help."""
        return 0 if self._group is None else self._group.size - 1

    def hear(self, peer: str, message: HelperHeartbeat) -> None:
        """Take note that a helper is there."""
        if self._called.get(peer) != message.pid:
            self._waiting[peer] = message.pid
        elif message.meeting == self._number and message.alone:  # else it was said before it was called
            del self._called[peer]
            self._waiting[peer] = message.pid

    def gather(self, trainer: Trainer) -> None:
        """Call all who are there, if somebody has come; make them one group once all have followed."""
        if self._waiting and self.clock() - self._paused_s >= self._pause_s:
            self.call_again(trainer)
        if self._call is None:
            return
        try:
            self._group = self._call.poll()
            if self._group is not None:
                self._call = None
                assert isinstance(trainer, GroupTrainer)
                align(trainer, self._group)
            elif self.clock() - self._called_s > _COME_S:
                raise LinkError(f"of {', '.join(self._called)} not all came")
        except LinkError as error:
            self._fail(trainer, str(error))

    def call_again(self, trainer: Trainer) -> None:
        """Leave the group, and call all who are there to another one, which goes on from what this trainer is then."""
        there = self._called | self._waiting
        self.leave(trainer)
        self._waiting.clear()
        if not there or self.meeting is None:
            return
        self._number, self._called, self._called_s = time.time_ns(), there, self.clock()
        try:
            self._call = self.meeting.call(self._number, size=len(there) + 1)
        except LinkError as error:
            self._fail(trainer, str(error))
        for rank, name in enumerate(self._called, start=1):
            self.link.send(name, FormGroup(meeting=self._number, rank=rank, size=len(there) + 1))

    def update(self, trainer: Trainer, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Update a trainer together with those who help; alone where that comes to nothing.

        Raises:
            ContractError: As `Trainer.update`.
        """
        if self._group is None:
            return trainer.update(batch, progress=progress)
        try:
            own = self._shared_out(batch, self._group.size, progress)
            result = trainer.update(own, progress=progress)
        except (LinkError, ContractError, WireError) as error:
            self._fail(trainer, f"{error}; this update is computed alone")
            self.at_work()
            return trainer.update(batch, progress=progress)
        self._pause_s = 0.0
        return result

    def _shared_out(self, batch: SegmentBatch, size: int, progress: float) -> SegmentBatch:
        """Give every helper its part of a batch, and return that of the learner."""
        own, *parts = batch.divide(size)
        if len(parts) < size - 1:
            raise ContractError(f"a batch of {batch.num_segments} segments cannot be divided by {size}")
        for name, part in zip(self._called, parts, strict=True):
            size_bytes = sum(array.nbytes for array in part.arrays().values())
            pieces = part.divide(math.ceil(size_bytes / _PIECE_BYTES))
            for piece in pieces:
                more, arrays = piece is not pieces[-1], piece.arrays()
                if not self.link.send(
                    name, BatchShard(meeting=self._number, progress=progress, more=more, arrays=arrays)
                ):
                    raise LinkError(f"{name} cannot be reached")
        return own

    def _fail(self, trainer: Trainer, why: str) -> None:
        """Go on alone for a while."""
        _log.warning("%s", why)
        self.leave(trainer)
        self._pause_s, self._paused_s = min(max(1.0, 2 * self._pause_s), _MOST_PAUSE_S), self.clock()

    def leave(self, trainer: Trainer) -> None:
        """Leave the group; who is there notices, and says so."""
        self._number, self._called = 0, {}
        if self._call is not None:
            self._call.close()
            self._call = None
        if self._group is not None:
            assert isinstance(trainer, GroupTrainer)
            self._group.close()
            self._group = None
            trainer.join(Alone())


@define
class Helper:
    """A worker that computes parts of a learner's updates.

    Args:
        name: Of the worker.
        meeting: Where it meets the learner; None where there is no way to, so that it only waits for the end.
        trainer: As the learner's.
        link: Where messages go.
        clock: Seconds.
    """

    name: str
    meeting: Meeting | None
    trainer: GroupTrainer
    link: Link
    clock: Callable[[], float]
    stopped: bool = field(init=False, default=False)
    drained: bool = field(init=False, default=True)
    count: int = field(init=False, default=0)  # updates
    _number: int = field(init=False, default=0)
    _group: ProcessGroup | None = field(init=False, default=None)
    _pieces: list[SegmentBatch] = field(init=False, factory=list)  # of a part, as far as they have come
    _said_s: float = field(init=False, default=-1e9)

    def start(self) -> None:
        """Introduce the worker."""
        self.link.send(COORDINATOR, Hello(pid=os.getpid()))
        if self.meeting is None:
            _log.warning("processes cannot share memory here, or the launcher has no groups: there is nothing to help")

    def handle(self, peer: str, message: Any) -> None:  # noqa: ARG002
        """Take one message."""
        match message:
            case FormGroup() if self.meeting is not None and not self.stopped:
                self._meet(self.meeting, message)
            case BatchShard() if self._group is not None and message.meeting == self._number:
                self._help(message)
            case Stop():
                self.stopped = True

    def _meet(self, meeting: Meeting, call: FormGroup) -> None:
        self._leave()
        self._number = call.meeting
        try:
            self._group = meeting.join(call, self.trainer)
        except LinkError as error:
            _log.warning("%s", error)
        self._say()

    def _help(self, part: BatchShard) -> None:
        try:
            self._pieces.append(SegmentBatch.from_arrays(dict(part.arrays)))
            if not part.more:
                batch, self._pieces = SegmentBatch.concatenate(self._pieces), []
                self.trainer.update(batch.read_only(), progress=part.progress)
                self.count += 1
        except (LinkError, ContractError) as error:
            _log.warning("%s", error)
            self._leave()
            self._say()

    def work(self) -> bool:
        """Say now and then that it is there."""
        if not self.stopped and self.clock() - self._said_s > _AGAIN_S:
            self._say()
        return False

    def _say(self) -> None:
        self._said_s = self.clock()
        if self.meeting is not None:
            message = HelperHeartbeat(pid=os.getpid(), meeting=self._number, alone=self._group is None)
            self.link.send(learner_name(self.meeting.player), message)

    def _leave(self) -> None:
        self._pieces = []
        if self._group is not None:
            self._group.close()
            self._group = None
            self.trainer.join(Alone())

    def close(self) -> None:
        """Leave the group."""
        self._leave()
