"""The learner of one player: takes segments, updates, hands out weights, freezes models, writes checkpoints.

A worker like `ludus._sampling.sampler.Sampler`: ``handle(peer, message)`` and ``work()``.

Flow control: every sampler may have some blocks under way, at least its part of an update and one more: so it goes on
while an update is computed, and the next one finds its data. Of many samplers each has fewer, down to one, while blocks
wait: what is under way of all would be too old once its turn comes. A block is acknowledged when an update has consumed
it, or at once while the learner still lacks data for its next update; so the queue is bounded by the credits and no
sampler can starve the learner of a batch that is larger than all credits together. Blocks of a sampler that keeps to no
credits are dropped once far more of it waits than it was granted. A block is *released* when nothing of it waits any
more, whenever it was acknowledged; until then nobody writes to its memory.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen

from ludus._learning.data_parallel import Helpers, Meeting
from ludus._learning.segment_queue import BlockQueue, Sender
from ludus._learning.stats import LearnerMeter
from ludus._messaging.messages import (
    Checkpoint,
    CheckpointAck,
    Credit,
    FreezeRequest,
    Heartbeat,
    Hello,
    HelperHeartbeat,
    MetricsReport,
    ModelAck,
    ModelFrozen,
    SamplerLeft,
    Segments,
    Stop,
    Welcome,
)
from ludus._sampling.recorder import SegmentLayout
from ludus._store.model_files import load_checkpoint, prune_checkpoints, save_arrays, save_checkpoint, usable
from ludus.algorithm import OffPolicyTrainer, Trainer, Weights
from ludus.errors import ContractError, ModelError
from ludus.launcher import COORDINATOR, Link, SharedMemory, learner_name
from ludus.segment import SegmentBatch

_log = logging.getLogger(__name__)
_RESEND_S = 5.0
_CHECKPOINTING = 0.05  # of the time at most, apart from the checkpoints of models
_MOST_WAITING = 4  # times what a sampler may have under way: it might know of more credits, or have come back meanwhile
_IN_TIME = 0.75  # of what could be under way without being too old in the end: some take longer than others
_BAD_UPDATES = 3  # so many refused updates in a row end the learner: its weights must be broken


@frozen(kw_only=True)
class LearnerOptions:
    """What a learner needs to know of its run.

    Args:
        credits: Blocks each sampler may have under way; more where an update takes more, fewer where these would be too
            old once they are learned from.
        max_staleness: Segments older than so many versions are dropped, unless the trainer learns off-policy.
        freeze_every_decisions: Decisions between two frozen models; 0: only when the coordinator says so.
        checkpoint_s: Seconds between checkpoints.
        budget_decisions: Decisions of all players in the whole run, 0 for no limit; drives schedules.
        budget_s: Seconds of the whole run, 0 for no limit; drives schedules.
        manifest: What is written into every model's manifest.
    """

    credits: int
    max_staleness: int
    freeze_every_decisions: int
    checkpoint_s: float
    budget_decisions: int = 0
    budget_s: float = 0.0
    manifest: dict[str, Any] = field(factory=dict)


@define
class Learner:
    """Learns one player.

    Args:
        player: Its name.
        layout: Of the segments that it learns from.
        make_trainer: Makes the algorithm's trainer from the number of a generation and the hash of the model to start
            from, empty at the beginning of the run.
        run_dir: Where models and checkpoints go.
        options: See `LearnerOptions`.
        link: Where messages go.
        clock: Seconds.
        memory: Shared with samplers; None without.
        meeting: How processes come to help it; None where there are to be none.
    """

    player: str
    layout: SegmentLayout
    make_trainer: Callable[[int, str], Trainer]
    run_dir: Path
    options: LearnerOptions
    link: Link
    clock: Callable[[], float]
    memory: SharedMemory | None = None
    meeting: Meeting | None = None
    trainer: Trainer = field(init=False)
    stopped: bool = field(init=False, default=False)
    version: int = field(init=False, default=0)
    decisions: int = field(init=False, default=0)
    _others: int = field(init=False, default=0)  # decisions of the other players, as last heard
    _welcome: Welcome | None = field(init=False, default=None)
    _started_s: float = field(init=False, default=0.0)
    _asked_s: float = field(init=False, default=-1e9)
    _queue: BlockQueue = field(init=False, factory=BlockQueue)
    _weights: Weights = field(init=False, factory=dict)
    _models: int = field(init=False, default=0)
    _frozen_at: int = field(init=False, default=0)
    _checkpointed_s: float = field(init=False, default=0.0)
    _checkpoint_took_s: float = field(init=False, default=0.0)
    _unacked: dict[str, tuple[float, ModelFrozen | Checkpoint]] = field(init=False, factory=dict)
    _generation: int = field(init=False, default=0)
    _oldest: int = field(init=False, default=0)  # version with which the generation began
    _order: FreezeRequest | None = field(
        init=False, default=None
    )  # to start anew, once the model before it is committed
    _next: Trainer | None = field(init=False, default=None)  # with which that will be
    _bad_updates: int = field(init=False, default=0)
    _explained: bool = field(init=False, default=False)  # why segments are too old
    _meter: LearnerMeter = field(init=False, factory=LearnerMeter)
    _helpers: Helpers = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._helpers = Helpers(self.meeting, self.link, self.clock, self._say_progress)
        self.trainer = self.make_trainer(0, "")

    @property
    def name(self) -> str:
        """Return the worker name."""
        return learner_name(self.player)

    def start(self) -> None:
        """Introduce the worker; the answer says where to go on."""
        self._asked_s = self.clock()
        self.link.send(COORDINATOR, Hello(pid=os.getpid()))

    # -- messages ----------------------------------------------------------------------------------------------

    def handle(self, peer: str, message: Any) -> None:
        """Take one message.

        Raises:
            ModelError: The checkpoint to go on from is missing or damaged.
        """
        match message:
            case Welcome() if self._welcome is None:
                self._begin(message)
            case Segments():
                self._receive(peer, message)
            case Hello():
                self._greet(peer, message)
            case HelperHeartbeat():
                self._helpers.hear(peer, message)
            case SamplerLeft():
                self._queue.senders.pop(peer, None)
            case Heartbeat():
                self._others = message.count
            case FreezeRequest() if self._welcome is not None and not self.stopped:
                self._follow(message)
            case ModelAck() | CheckpointAck():
                self._settle(message)
            case Stop() if not self.stopped:
                self._stop()

    def _stop(self) -> None:
        self.stopped = True
        if self._welcome is not None:  # the last weights stay, as a model and a checkpoint
            self._save(freeze=self.decisions > self._frozen_at)

    @property
    def _folder(self) -> Path:
        return self.run_dir / "learners" / self.player

    def _begin(self, welcome: Welcome) -> None:
        self._welcome, self._models, self._others = welcome, welcome.models, welcome.others
        if welcome.checkpoint:
            arrays, meta = load_checkpoint(self.run_dir, welcome.checkpoint, welcome.checkpoint_hash)
            self.trainer.load_weights(arrays_of(arrays, "weights"))
            self.trainer.load_state(arrays_of(arrays, "state"))
            self.version, self.decisions = int(meta["version"]), int(meta["decisions"])
            self._frozen_at = int(meta["frozen_at"])
            self._generation, self._oldest = int(meta.get("generation", 0)), int(meta.get("oldest", 0))
            self._meter.restore(meta)
        if welcome.generation > self._generation:  # the model before it was committed, the new start was not
            self.version = max(self.version, welcome.version)
            self._begin_generation(welcome.generation, self.make_trainer(welcome.generation, welcome.init))
        self._started_s = self._checkpointed_s = self.clock()
        self._publish()
        for sender in self._queue.senders.values():
            self._grant(sender)

    def _follow(self, order: FreezeRequest) -> None:
        """Freeze the weights for an order, and start anew when that is committed if this is what it wants.

        Raises:
            ModelError: It wants a start from a model that does not fit. Weights are saved, and nobody starts anew.
        """
        if order.generation > self._generation and self._order is None:
            try:
                self._next = self.make_trainer(order.generation, order.init)
            except ModelError as error:
                self._save(freeze=False)
                raise ModelError(
                    f"player {self.player!r} cannot start anew ({order.reason}): {error} — let the rule name only "
                    "players with a network as that of the model"
                ) from error
            self._order = order
            self._save(freeze=True, order=order)
        elif order.generation == self._generation and order.model > self._models and self._is_new:
            self._save(freeze=True, order=order)

    @property
    def _is_new(self) -> bool:
        """Return whether there is something to freeze; else an order waits, and is given again."""
        return self.decisions > self._frozen_at or not self._models

    def _start_anew(self) -> None:
        """Begin the generation that was ordered if its predecessor's last model is committed."""
        order, trainer = self._order, self._next
        if order is None or trainer is None or self._freezing:
            return
        self._order = self._next = None
        self._begin_generation(order.generation, trainer)
        self._publish()
        for sender in self._queue.clear():
            self._grant(sender)
        self._save(freeze=False)

    def _begin_generation(self, number: int, trainer: Trainer) -> None:
        self._helpers.call_again(self.trainer)
        self.trainer = trainer
        self._generation, self._frozen_at = number, self.decisions
        self.version += 1
        self._oldest = self.version

    def _greet(self, peer: str, hello: Hello) -> None:
        sender = self._queue.senders.get(peer)
        if sender is None or hello.block == 0 or hello.pid != sender.pid:
            sender = self._queue.introduce(peer, hello.pid)
        # blocks that were under way to a learner that died are gone: count on from what the sampler has sent
        if hello.block > sender.received:
            sender.received = sender.acked = hello.block
        sender.version = -1
        self._grant(sender)

    def _receive(self, peer: str, message: Segments) -> None:
        sender = self._queue.sender(peer, message.pid)
        sender.received = max(sender.received, message.block)
        batch = self._unload(peer, message)
        if batch is not None:
            sender.block_decisions = max(sender.block_decisions, batch.num_decisions)
        if batch is None or not batch.num_decisions or self._is_surplus(sender):
            self._queue.pass_over(sender, message.block)
        else:
            self._queue.add(sender, message.block, batch, decisions=self.trainer.batch_decisions)
        if not self._ready:  # of dropped blocks, too: what waits is not learned from before others come
            sender.acked = max(sender.acked, message.block)
        if sender.acked >= message.block:
            self._grant(sender)

    def _unload(self, peer: str, message: Segments) -> SegmentBatch | None:
        """Return what a message brings, without what is too old; None if that cannot be told."""
        try:
            self.layout.check(message.arrays)
            batch = SegmentBatch.from_arrays(dict(message.arrays))
            batch.check()
        except ContractError as error:
            self._meter.drops["malformed"] += 1
            if self._meter.drops["malformed"].bit_count() == 1:  # 1, 2, 4, 8 …
                _log.warning("dropped malformed block %d, of %s: %s", self._meter.drops["malformed"], peer, error)
            return None
        staleness = np.maximum(self.version - batch.version, 0)
        used = batch.length > 0
        self._meter.totals["received"] += batch.num_decisions
        self._meter.saw(staleness[used])
        others = used & (batch.version < self._oldest)
        stale = used & ~others & (staleness > self._max_staleness)
        if not (stale | others).any():
            return batch
        self._meter.drops["stale"] += int(stale.sum())
        self._meter.drops["reset"] += int(others.sum())
        if stale.any():
            self._explain_stale()
        return evolve(batch, length=np.where(stale | others, 0, batch.length).astype(np.int32))

    def _explain_stale(self) -> None:
        """Say once that samplers are too many, where one block of each is more than is learned from in time."""
        senders = self._queue.senders
        under_way = sum(sender.block_decisions for sender in senders.values())
        batch = self.trainer.batch_decisions
        if self._explained or under_way <= (self._max_staleness + 1) * batch:
            return
        self._explained = True
        _log.warning(
            "player %r: segments are dropped as too old: %d samplers have blocks of %d decisions in all under way, an "
            "update takes %d, and max_staleness is %d — let fewer samplers play (run.workers) or fewer matches in each "
            "(sampling.matches), or raise sampling.max_staleness",
            *(self.player, len(senders), under_way, batch, self.options.max_staleness),
        )

    def _is_surplus(self, sender: Sender) -> bool:
        """Return whether far more waits of a sampler than its credits allow; such a block is counted as dropped."""
        allowed = max(self.trainer.batch_decisions, self._credits(sender) * sender.block_decisions)
        surplus = self._queue.waiting(sender.worker) >= _MOST_WAITING * allowed
        if surplus:
            self._meter.drops["surplus"] += 1
        return surplus

    @property
    def _max_staleness(self) -> float:
        off_policy = isinstance(self.trainer, OffPolicyTrainer) and self.trainer.off_policy
        return math.inf if off_policy else self.options.max_staleness

    @property
    def _ready(self) -> bool:
        return self._queue.decisions >= self._wanted

    @property
    def _wanted(self) -> float:
        """Return from how many decisions on another block would lead further away from a batch than towards it."""
        return max(1.0, self.trainer.batch_decisions - self._queue.part_decisions / 2)

    def _grant(self, sender: Sender) -> None:
        """Say to a sampler what is taken and what is new; not to one that was restarted since."""
        if self._welcome is None or self._queue.senders.get(sender.worker) is not sender:
            return
        credit = Credit(
            player=self.player,
            acked=sender.acked,
            credits=self._credits(sender),
            version=self.version,
            pid=sender.pid,
            released=self._queue.released(sender),
            progress=self.progress,
            weights=self._weights if sender.version != self.version else {},
        )
        if self.link.send(sender.worker, credit):
            sender.version = self.version

    def _credits(self, sender: Sender) -> int:
        if not sender.block_decisions:
            return self.options.credits
        part = self.trainer.batch_decisions / len(self._queue.senders) / sender.block_decisions
        wanted = max(self.options.credits, math.ceil(part) + 1)
        if not self._ready:  # nothing becomes old by waiting
            return wanted
        # Little's law: where so many updates are under way, segments are as many less one old when their turn comes
        most = self._max_staleness + 1
        in_time = min(most, max(2.0, _IN_TIME * most))
        return max(1, math.floor(min(wanted, in_time * part)))

    # -- work --------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Make one update if there is data for it."""
        now = self.clock()
        self._repeat(now)
        if self._welcome is None:
            if now - self._asked_s > 1.0:
                self.start()
            return False
        if self.stopped or self._order is not None:
            return False
        self._report(now)
        self._helpers.gather(self.trainer)
        if not self._ready:
            self._meter.waits(now)
            return False
        self._meter.goes_on(now)
        self._update()
        freeze = 0 < self.options.freeze_every_decisions <= self.decisions - self._frozen_at
        # a replay memory of half a gigabyte takes seconds, and were it written all the time, nothing would be learned
        due_s = max(self.options.checkpoint_s, self._checkpoint_took_s / _CHECKPOINTING)
        if freeze or now - self._checkpointed_s > due_s:
            self._save(freeze=freeze)
        return True

    def _update(self) -> None:
        parts, owed = self._queue.take(self._wanted)
        batch = SegmentBatch.concatenate(parts).read_only()
        count = batch.num_decisions
        try:
            result = self._helpers.update(self.trainer, batch, progress=self.progress)
            self._bad_updates = 0
        except ContractError as error:
            self._bad_updates += 1
            self._meter.drops["refused"] += 1
            if self._bad_updates >= _BAD_UPDATES:
                raise ContractError(f"player {self.player!r}: {error} — {_BAD_UPDATES} updates in a row") from error
            result = None
        if result is not None:
            self.decisions += count
            self.version += 1
            self._meter.trained(result)
            self._publish()
            self._say_progress()
        if not self._ready:
            owed = list(dict.fromkeys([*owed, *self._queue.acknowledge_all()]))
        for sender in owed:
            self._grant(sender)

    def _say_progress(self) -> None:
        self.link.send(COORDINATOR, Heartbeat(count=self.decisions))

    def _publish(self) -> None:
        self._weights = self.trainer.weights()
        if self.memory is not None:
            self.memory.publish(self._weights, self.version)

    @property
    def progress(self) -> float:
        """Return the share of the budget used, the larger of decisions and time; 0 without a budget."""
        shares = [0.0]
        if self.options.budget_decisions:
            shares.append((self.decisions + self._others) / self.options.budget_decisions)
        if self.options.budget_s and self._welcome is not None:
            shares.append((self._welcome.elapsed_s + self.clock() - self._started_s) / self.options.budget_s)
        return min(1.0, max(shares))

    # -- durable things ----------------------------------------------------------------------------------------

    def _save(self, *, freeze: bool, order: FreezeRequest | None = None) -> None:
        """Write a checkpoint, and the weights as a model before it where asked to, or ordered.

        Raises:
            RunError: They cannot be written; what was committed before stays, and the run can be resumed from it.
        """
        if freeze:
            self._models += 1
            with usable(self.run_dir):
                model = save_arrays(self.run_dir / "models", self._weights, self.options.manifest | self._stamp)
            self._frozen_at = self.decisions
            frozen = ModelFrozen(number=self._models, hash=model, generation=self._generation, **self._stamp)
            if order is not None:
                frozen = evolve(frozen, generation=order.generation, init=order.init, reason=order.reason)
            self._promise(f"model-{self._models}", frozen)
        arrays = {f"weights/{name}": array for name, array in self._weights.items()}
        arrays |= {f"state/{name}": array for name, array in self.trainer.state().items()}
        counts = {"version": self.version, "decisions": self.decisions, "frozen_at": self._frozen_at}
        counts |= {"generation": self._generation, "oldest": self._oldest}
        counters = {name: float(count) for name, count in (counts | self._meter.totals).items()}
        began_s = self.clock()
        with usable(self.run_dir):
            path, digest = save_checkpoint(self._folder, arrays, counters)
        self._checkpointed_s = self.clock()
        self._checkpoint_took_s = self._checkpointed_s - began_s
        self._promise("checkpoint", Checkpoint(path=path, hash=digest, **self._stamp))

    @property
    def _stamp(self) -> dict[str, Any]:
        """Return what is said of everything durable."""
        return {"player": self.player, "decisions": self.decisions, "version": self.version}

    def _promise(self, key: str, message: ModelFrozen | Checkpoint) -> None:
        self._unacked[key] = (self.clock(), message)
        self.link.send(COORDINATOR, message)

    def _settle(self, ack: ModelAck | CheckpointAck) -> None:
        if isinstance(ack, ModelAck):
            self._settle_model(ack)
        else:
            self._settle_checkpoint(ack.path)

    def _settle_model(self, ack: ModelAck) -> None:
        """Count what the league has, which may have had the model already, from before a restart."""
        self._unacked.pop(f"model-{ack.number}", None)
        if not self._freezing:
            self._models = ack.models
        self._start_anew()

    @property
    def _freezing(self) -> bool:
        """Return whether a model is not known to be committed yet."""
        return any(isinstance(message, ModelFrozen) for _, message in self._unacked.values())

    def _settle_checkpoint(self, path: str) -> None:
        """Delete older checkpoints once the newest is committed; before that the store may refer to one of them."""
        _, newest = self._unacked.get("checkpoint", (0.0, None))
        if isinstance(newest, Checkpoint) and newest.path == path:
            del self._unacked["checkpoint"]
            prune_checkpoints(self._folder, 2)

    def _repeat(self, now: float) -> None:
        for key, (sent_s, message) in list(self._unacked.items()):
            if now - sent_s > _RESEND_S:
                self._promise(key, message)

    @property
    def count(self) -> int:
        """Return how many decisions were learned from."""
        return self.decisions

    @property
    def drained(self) -> bool:
        """Return whether the coordinator has committed everything promised to it."""
        return not self._unacked

    def _report(self, now: float) -> None:
        values = self._meter.report(now)
        if values is not None:
            blocks = len(self._queue)
            values |= {"version": self.version, "decisions": self.decisions, "queue_blocks": blocks}
            if self.meeting is not None:
                values["helpers"] = len(self._helpers)
            self.link.send(COORDINATOR, MetricsReport(values=values))

    def close(self) -> None:
        """Let the helpers go."""
        self._helpers.leave(self.trainer)


def arrays_of(checkpoint: dict[str, np.ndarray], part: str) -> dict[str, np.ndarray]:
    """Return the arrays of a part of a checkpoint, ``"weights"`` or ``"state"``, by their own names."""
    prefix = f"{part}/"
    return {name.removeprefix(prefix): array for name, array in checkpoint.items() if name.startswith(prefix)}
