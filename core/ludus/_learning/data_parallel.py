"""Data-parallel updates: a learner and its helpers.

A learner with helpers divides every batch into shards, one for each helper and one for itself. Samplers, coordinator
and store only know the learner. Helpers may join and leave at any time; without helpers, or if one is lost during an
update, the learner computes the update alone::

    helper  → learner   HelperHeartbeat   at regular intervals
    learner → helpers   FormGroup         all form a process group and copy the learner's weights and state
    learner → helpers   BatchShard        one update
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
from ludus._sampling.segment_layout import SegmentLayout
from ludus.algorithm import GroupTrainer, Trainer, UpdateResult
from ludus.errors import ContractError, LinkError, WireError
from ludus.group import Alone
from ludus.launcher import COORDINATOR, Link, PendingGroup, ProcessGroup, Rendezvous, learner_name
from ludus.segment import SegmentBatch

_log = logging.getLogger(__name__)
_HEARTBEAT_INTERVAL_S = 1.0
_JOIN_TIMEOUT_S = 10.0  # running helpers join at once
_FIRST_RETRY_S = 1.0
_LAST_RETRY_S = 60.0
_MESSAGE_BYTES = 32 << 20  # of a shard in one message, roughly: launchers bound the size of messages


@frozen
class GroupFormation:
    """Forms process groups of a learner and its helpers.

    Args:
        player: Player that the learner learns.
        rendezvous: Where the processes form a group.
        timeout_s: Seconds a process waits for the others of its group.
    """

    player: str
    rendezvous: Rendezvous
    timeout_s: float

    def open(self, group_id: int, *, size: int) -> PendingGroup:
        """Open a group as its first process; see `ludus.launcher.Rendezvous.open`."""
        return self.rendezvous.open(_group_name(group_id), size=size, timeout_s=self.timeout_s)

    def join(self, message: FormGroup, trainer: GroupTrainer) -> ProcessGroup:
        """Join a group, and copy the learner's weights and state into a trainer.

        Raises:
            LinkError: The group was given up.
        """
        name = _group_name(message.group_id)
        group = self.rendezvous.join(name, rank=message.rank, size=message.size, timeout_s=self.timeout_s)
        synchronize(trainer, group)
        return group


def _group_name(group_id: int) -> str:
    return f"group-{group_id:x}"


def synchronize(trainer: GroupTrainer, group: ProcessGroup) -> None:
    """Copy weights and state of the trainer of rank 0 to all trainers of a group, and let them join it.

    Raises:
        LinkError: A process has left; the group is closed.
    """
    import torch  # noqa: PLC0415 - every process with a trainer has imported it

    weights, state = trainer.weights(), trainer.state()
    tensors = [torch.from_numpy(named[name]) for named in (weights, state) for name in sorted(named)]
    try:
        group.copy(tensors, source=0)  # the tensors share memory with the arrays
    except LinkError:
        group.close()
        raise
    if group.rank:
        trainer.load_weights(weights)
        trainer.load_state(state)
    trainer.join(group)


@define
class HelperPool:
    """The helpers of a learner.

    Args:
        formation: Forms process groups; None without helpers.
        link: Sends messages.
        clock: Seconds.
        on_retry: Called before an update is computed again; it may take twice as long as others.
    """

    formation: GroupFormation | None
    link: Link
    clock: Callable[[], float]
    on_retry: Callable[[], None]
    _group_id: int = field(init=False, default=0)  # 0: neither a group nor a pending one
    _members: dict[str, int] = field(init=False, factory=dict)  # of that group: worker → process id
    _candidates: dict[str, int] = field(init=False, factory=dict)  # for the next group
    _pending: PendingGroup | None = field(init=False, default=None)
    _opened_s: float = field(init=False, default=0.0)
    _group: ProcessGroup | None = field(init=False, default=None)
    _retry_s: float = field(init=False, default=0.0)  # doubles with every failure
    _failed_s: float = field(init=False, default=-math.inf)

    def __len__(self) -> int:
        """Return the number of helpers in the group."""
        return 0 if self._group is None else self._group.size - 1

    def receive_heartbeat(self, worker: str, message: HelperHeartbeat) -> None:
        """Add a helper to the candidates for the next group unless it is a member of the current one."""
        if self._members.get(worker) != message.pid:
            self._candidates[worker] = message.pid
        elif message.group_id == self._group_id and not message.connected:  # else sent before the helper was invited
            del self._members[worker]
            self._candidates[worker] = message.pid

    def maintain(self, trainer: Trainer) -> None:
        """Open a new group if there are candidates; complete it once all helpers have joined."""
        if self._candidates and self.clock() - self._failed_s >= self._retry_s:
            self.regroup(trainer)
        if self._pending is None:
            return
        try:
            self._group = self._pending.poll()
            if self._group is not None:
                self._pending = None
                assert isinstance(trainer, GroupTrainer)
                synchronize(trainer, self._group)
            elif self.clock() - self._opened_s > _JOIN_TIMEOUT_S:
                raise LinkError(f"not all of {', '.join(self._members)} joined within {_JOIN_TIMEOUT_S:g} s")
        except LinkError as error:
            self._fail(trainer, str(error))

    def regroup(self, trainer: Trainer) -> None:
        """Leave the group, and invite all known helpers to a new one. It starts from the learner's trainer then."""
        helpers = self._members | self._candidates
        self.leave(trainer)
        self._candidates.clear()
        if not helpers or self.formation is None:
            return
        self._group_id, self._members, self._opened_s = time.time_ns(), helpers, self.clock()
        size = len(helpers) + 1
        try:
            self._pending = self.formation.open(self._group_id, size=size)
        except LinkError as error:
            self._fail(trainer, str(error))
        for rank, name in enumerate(self._members, start=1):
            self.link.send(name, FormGroup(group_id=self._group_id, rank=rank, size=size))

    def update(self, trainer: Trainer, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Compute an update together with the helpers; alone without helpers or if that fails.

        Raises:
            ContractError: See `Trainer.update`.
        """
        if self._group is None:
            return trainer.update(batch, progress=progress)
        try:
            shard = self._send_shards(batch, self._group.size, progress)
            result = trainer.update(shard, progress=progress)
        except (LinkError, ContractError, WireError) as error:
            self._fail(trainer, f"{error}; this update is computed without helpers")
            self.on_retry()
            return trainer.update(batch, progress=progress)
        self._retry_s = 0.0
        return result

    def _send_shards(self, batch: SegmentBatch, size: int, progress: float) -> SegmentBatch:
        """Send every helper its shard of a batch, and return the learner's own."""
        own, *shards = batch.divide(size)
        if len(shards) < size - 1:
            raise ContractError(f"a batch of {batch.num_segments} segments cannot be divided by {size}")
        for name, shard in zip(self._members, shards, strict=True):
            size_bytes = sum(array.nbytes for array in shard.arrays().values())
            pieces = shard.divide(math.ceil(size_bytes / _MESSAGE_BYTES))
            for piece in pieces:
                message = BatchShard(
                    group_id=self._group_id, progress=progress, more=piece is not pieces[-1], arrays=piece.arrays()
                )
                if not self.link.send(name, message):
                    raise LinkError(f"{name} cannot be reached")
        return own

    def _fail(self, trainer: Trainer, problem: str) -> None:
        """Leave the group, and wait before the next one is opened."""
        _log.warning("%s", problem)
        self.leave(trainer)
        self._retry_s = min(max(_FIRST_RETRY_S, 2 * self._retry_s), _LAST_RETRY_S)
        self._failed_s = self.clock()

    def leave(self, trainer: Trainer) -> None:
        """Leave the group; its members notice, and report that they are not connected."""
        self._group_id, self._members = 0, {}
        if self._pending is not None:
            self._pending.close()
            self._pending = None
        if self._group is not None:
            assert isinstance(trainer, GroupTrainer)
            self._group.close()
            self._group = None
            trainer.join(Alone())


@define
class HelperWorker:
    """A worker that computes shards of a learner's updates.

    Args:
        name: Worker name.
        formation: Forms groups with the learner; None where that is impossible, so that the worker only waits to stop.
        trainer: The same as the learner's.
        link: Sends messages.
        clock: Seconds.
        layout: Layout of the player's segments; a shard with another one is dropped with the group. None: unchecked.
    """

    name: str
    formation: GroupFormation | None
    trainer: GroupTrainer
    link: Link
    clock: Callable[[], float]
    layout: SegmentLayout | None = field(default=None, kw_only=True)
    stopped: bool = field(init=False, default=False)
    drained: bool = field(init=False, default=True)
    count: int = field(init=False, default=0)  # updates
    _group_id: int = field(init=False, default=0)
    _group: ProcessGroup | None = field(init=False, default=None)
    _pieces: list[SegmentBatch] = field(init=False, factory=list)  # of a shard that is not complete
    _heartbeat_s: float = field(init=False, default=-math.inf)

    def start(self) -> None:
        """Register with the coordinator."""
        self.link.send(COORDINATOR, Hello(pid=os.getpid()))
        if self.formation is None:
            _log.warning("this helper has nothing to do: no shared memory, or the launcher forms no process groups")

    def handle(self, peer: str, message: Any) -> None:  # noqa: ARG002
        """Handle one message."""
        match message:
            case FormGroup() if self.formation is not None and not self.stopped:
                self._join(self.formation, message)
            case BatchShard() if self._group is not None and message.group_id == self._group_id:
                self._compute(message)
            case Stop():
                self.stopped = True

    def _join(self, formation: GroupFormation, message: FormGroup) -> None:
        self._leave()
        self._group_id = message.group_id
        try:
            self._group = formation.join(message, self.trainer)
        except LinkError as error:
            _log.warning("%s", error)
        self._send_heartbeat()

    def _compute(self, shard: BatchShard) -> None:
        try:
            self._pieces.append(self._checked_batch(shard))
            if not shard.more:
                batch, self._pieces = SegmentBatch.concatenate(self._pieces), []
                self.trainer.update(batch.read_only(), progress=shard.progress)
                self.count += 1
        except (LinkError, ContractError) as error:
            _log.warning("%s", error)
            self._leave()
            self._send_heartbeat()

    def _checked_batch(self, shard: BatchShard) -> SegmentBatch:
        """Return the segments of a message.

        Raises:
            ContractError: They do not have the layout of the player's segments.
        """
        if self.layout is not None:
            self.layout.check_arrays(shard.arrays)
        batch = SegmentBatch.from_arrays(dict(shard.arrays))
        batch.check()
        return batch

    def work(self) -> bool:
        """Send a heartbeat if one is due."""
        if not self.stopped and self.clock() - self._heartbeat_s > _HEARTBEAT_INTERVAL_S:
            self._send_heartbeat()
        return False

    def _send_heartbeat(self) -> None:
        self._heartbeat_s = self.clock()
        if self.formation is not None:
            message = HelperHeartbeat(pid=os.getpid(), group_id=self._group_id, connected=self._group is not None)
            self.link.send(learner_name(self.formation.player), message)

    def _leave(self) -> None:
        self._pieces = []
        if self._group is not None:
            self._group.close()
            self._group = None
            self.trainer.join(Alone())

    def close(self) -> None:
        """Leave the group."""
        self._leave()
