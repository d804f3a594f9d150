"""The learner of one player: takes segments, updates, hands out weights, freezes models, writes checkpoints.

A worker like `ludus._sampler.Sampler`: ``handle(peer, message)`` and ``work()``.

Flow control: every sampler may have a fixed number of blocks under way. A block is acknowledged when an update has
consumed it, or at once while the learner still lacks data for its next update; so the queue is bounded by the credits
and no sampler can starve the learner of a batch that is larger than all credits together.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field, frozen

from ludus._learner_meter import LearnerMeter
from ludus._messages import (
    Checkpoint,
    CheckpointAck,
    Credit,
    Hello,
    MetricsReport,
    ModelAck,
    ModelFrozen,
    Progress,
    Segments,
    Stop,
    Welcome,
)
from ludus._models import load_checkpoint, prune_checkpoints, save_arrays, save_checkpoint
from ludus._sampler import COORDINATOR, Link, learner_name
from ludus.algorithm import Trainer, Weights
from ludus.errors import ContractError
from ludus.segment import SegmentBatch

__all__ = ["Learner", "LearnerOptions"]

_RESEND_S = 5.0
_BAD_UPDATES = 3  # so many refused updates in a row end the run: the weights themselves must be broken


@frozen(kw_only=True)
class LearnerOptions:
    """What a learner needs to know of its run.

    Args:
        credits: Blocks each sampler may have under way.
        max_staleness: Blocks older than so many versions are dropped.
        freeze_every_decisions: Decisions between two frozen models.
        checkpoint_s: Seconds between checkpoints.
        budget_decisions: Decisions of this player in the whole run, 0 for no limit; drives schedules.
        budget_s: Seconds of the whole run, 0 for no limit; drives schedules.
        manifest: What is written into every model's manifest.
    """

    credits: int
    max_staleness: int
    freeze_every_decisions: int
    checkpoint_s: float
    budget_decisions: float = 0.0
    budget_s: float = 0.0
    manifest: dict[str, Any] = field(factory=dict)


@define
class _Sender:
    """A sampler as its learner knows it."""

    worker: str
    received: int = 0
    acked: int = 0
    version: int = -1  # of the weights it was sent last


@define
class _Block:
    sender: _Sender
    number: int
    batch: SegmentBatch


@define
class Learner:
    """Learns one player.

    Args:
        player: Its name.
        trainer: The algorithm's trainer with fresh weights.
        run_dir: Where models and checkpoints go.
        options: See `LearnerOptions`.
        link: Where messages go.
        clock: Seconds.
    """

    player: str
    trainer: Trainer
    run_dir: Path
    options: LearnerOptions
    link: Link
    clock: Callable[[], float]
    stopped: bool = field(init=False, default=False)
    version: int = field(init=False, default=0)
    decisions: int = field(init=False, default=0)
    _welcome: Welcome | None = field(init=False, default=None)
    _started_s: float = field(init=False, default=0.0)
    _asked_s: float = field(init=False, default=-1e9)
    _senders: dict[str, _Sender] = field(init=False, factory=dict)
    _queue: deque[_Block] = field(init=False, factory=deque)
    _weights: Weights = field(init=False, factory=dict)
    _models: int = field(init=False, default=0)
    _frozen_at: int = field(init=False, default=0)
    _checkpointed_s: float = field(init=False, default=0.0)
    _unacked: dict[str, tuple[float, ModelFrozen | Checkpoint]] = field(init=False, factory=dict)
    _bad_updates: int = field(init=False, default=0)
    _meter: LearnerMeter = field(init=False, factory=LearnerMeter)

    @property
    def name(self) -> str:
        """Return the worker name."""
        return learner_name(self.player)

    def start(self) -> None:
        """Introduce the worker; the answer says where to go on."""
        self._asked_s = self.clock()
        self.link.send(COORDINATOR, Hello(worker=self.name, pid=os.getpid()))

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
            case ModelAck():
                self._unacked.pop(f"model-{message.number}", None)
            case CheckpointAck():
                self._settle_checkpoint(message.path)
            case Stop() if not self.stopped:
                self.stopped = True
                if self._welcome is not None:
                    self._finish()

    @property
    def _folder(self) -> Path:
        return self.run_dir / "learners" / self.player

    def _begin(self, welcome: Welcome) -> None:
        self._welcome, self._models = welcome, welcome.models
        if welcome.checkpoint:
            arrays, meta = load_checkpoint(self.run_dir, welcome.checkpoint, welcome.checkpoint_hash)
            self.trainer.load_weights(_group(arrays, "weights"))
            self.trainer.load_state(_group(arrays, "state"))
            self.version, self.decisions = int(meta["version"]), int(meta["decisions"])
            self._frozen_at = int(meta["frozen_at"])
            self._meter.restore(meta)
        self._started_s = self._checkpointed_s = self.clock()
        self._publish()
        for sender in self._senders.values():
            self._grant(sender)

    def _greet(self, peer: str, hello: Hello) -> None:
        sender = self._senders.get(peer)
        if sender is None or hello.block == 0:
            sender = self._senders[peer] = _Sender(peer)
        # blocks that were under way to a learner that died are gone: count on from what the sampler has sent
        if hello.block > sender.received:
            sender.received = sender.acked = hello.block
        sender.version = -1
        self._grant(sender)

    def _receive(self, peer: str, message: Segments) -> None:
        sender = self._senders.setdefault(peer, _Sender(peer))
        sender.received = max(sender.received, message.block)
        try:
            batch = SegmentBatch.from_arrays(dict(message.arrays))
        except ContractError:
            self._meter.drops["malformed"] += 1
            self._pass_over(sender, message.block)
            return
        staleness = np.maximum(self.version - batch.version, 0)
        self._meter.received += batch.num_decisions
        self._meter.saw(staleness)
        stale = staleness > self.options.max_staleness
        if stale.any():
            self._meter.drops["stale"] += int(stale.sum())
            batch.length = np.where(stale, 0, batch.length).astype(np.int32)
        if not batch.num_decisions:
            self._pass_over(sender, message.block)
            return
        parts = batch.split(self.trainer.batch_decisions)
        for part in parts:  # the block is consumed with its last part
            self._queue.append(_Block(sender, message.block - (part is not parts[-1]), part))
        if not self._ready:
            self._settle(sender, message.block)

    def _pass_over(self, sender: _Sender, number: int) -> None:
        """Acknowledge a block that is not used, but none of the same sampler that still waits."""
        waiting = [block for block in self._queue if block.sender is sender]
        if waiting:
            waiting[-1].number = number
        else:
            self._settle(sender, number)

    @property
    def _queued(self) -> int:
        return sum(block.batch.num_decisions for block in self._queue)

    @property
    def _ready(self) -> bool:
        return self._queued >= self._wanted

    @property
    def _wanted(self) -> float:
        return 0.9 * self.trainer.batch_decisions  # parts of a split block are of slightly different size

    def _settle(self, sender: _Sender, block: int) -> None:
        sender.acked = max(sender.acked, block)
        if self._senders.get(sender.worker) is sender:  # else it was restarted: its blocks no longer count
            self._grant(sender)

    def _grant(self, sender: _Sender) -> None:
        if self._welcome is None:
            return
        fresh = sender.version != self.version
        credit = Credit(
            player=self.player,
            acked=sender.acked,
            credits=self.options.credits,
            version=self.version,
            weights=self._weights if fresh else {},
        )
        if self.link.send(sender.worker, credit) and fresh:
            sender.version = self.version

    # -- work --------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Make one update if there is data for it."""
        now = self.clock()
        self._repeat(now)
        if self._welcome is None:
            if now - self._asked_s > 1.0:
                self.start()
            return False
        if self.stopped:
            return False
        self._report(now)
        if not self._ready:
            return False
        self._update()
        if self.decisions - self._frozen_at >= self.options.freeze_every_decisions:
            self._freeze()
            self._checkpoint()
        elif now - self._checkpointed_s > self.options.checkpoint_s:
            self._checkpoint()
        return True

    def _update(self) -> None:
        taken: list[_Block] = []
        count = 0
        while count < self._wanted:
            taken.append(self._queue.popleft())
            count += taken[-1].batch.num_decisions
        batch = SegmentBatch.concatenate([block.batch for block in taken])
        try:
            result = self.trainer.update(batch, progress=self.progress)
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
            self.link.send(COORDINATOR, Progress(worker=self.name, count=self.decisions))
        for block in taken if self._ready else (*taken, *self._queue):
            self._settle(block.sender, block.number)

    def _publish(self) -> None:
        self._weights = self.trainer.weights()

    @property
    def progress(self) -> float:
        """Return the share of the budget used, the larger of decisions and time; 0 without a budget."""
        shares = [0.0]
        if self.options.budget_decisions:
            shares.append(self.decisions / self.options.budget_decisions)
        if self.options.budget_s and self._welcome is not None:
            shares.append((self._welcome.elapsed_s + self.clock() - self._started_s) / self.options.budget_s)
        return min(1.0, max(shares))

    # -- durable things ----------------------------------------------------------------------------------------

    def _freeze(self) -> None:
        self._models += 1
        manifest = {
            **self.options.manifest,
            "player": self.player,
            "decisions": self.decisions,
            "version": self.version,
        }
        digest = save_arrays(self.run_dir / "models", dict(self._weights), manifest)
        self._frozen_at = self.decisions
        self._promise(
            f"model-{self._models}",
            ModelFrozen(
                player=self.player,
                number=self._models,
                hash=digest,
                decisions=self.decisions,
                version=self.version,
            ),
        )

    def _checkpoint(self) -> None:
        arrays = {f"weights/{name}": array for name, array in self._weights.items()}
        arrays |= {f"state/{name}": array for name, array in self.trainer.state().items()}
        counters = {
            "version": float(self.version),
            "decisions": float(self.decisions),
            "frozen_at": float(self._frozen_at),
            **self._meter.totals(),
        }
        path, digest = save_checkpoint(self._folder, arrays, counters)
        self._checkpointed_s = self.clock()
        self._promise(
            "checkpoint",
            Checkpoint(
                player=self.player,
                path=path,
                hash=digest,
                version=self.version,
                decisions=self.decisions,
                counters=counters,
            ),
        )

    def _promise(self, key: str, message: ModelFrozen | Checkpoint) -> None:
        self._unacked[key] = (self.clock(), message)
        self.link.send(COORDINATOR, message)

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

    def _finish(self) -> None:
        """Leave the last weights as a model and a checkpoint."""
        if self.decisions > self._frozen_at:
            self._freeze()
        self._checkpoint()

    @property
    def count(self) -> int:
        """Return how many decisions were learned from."""
        return self.decisions

    @property
    def settled(self) -> bool:
        """Return whether the coordinator has committed everything promised to it."""
        return not self._unacked

    def _report(self, now: float) -> None:
        values = self._meter.report(now)
        if values is not None:
            blocks = len(self._queue)
            values |= {"version": self.version, "decisions": self.decisions, "queue_blocks": blocks}
            self.link.send(COORDINATOR, MetricsReport(worker=self.name, values=values))

    def close(self) -> None:
        """Nothing to free."""


def _group(arrays: dict[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    prefix = f"{group}/"
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
