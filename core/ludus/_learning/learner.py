"""The learner of one player: a worker that receives segments, updates weights, and publishes them.

`Learner` dispatches messages to its parts, which share a `LearnerState`:

* `SegmentIntake` receives blocks from samplers and grants credits;
* `HelperPool` computes an update, together with helpers if there are any;
* `Publisher` publishes weights and writes models and checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field

from ludus._learning.data_parallel import GroupFormation, HelperPool
from ludus._learning.intake import SegmentIntake
from ludus._learning.publisher import PendingReset, Publisher
from ludus._learning.segment_queue import Sender
from ludus._learning.state import LearnerOptions, LearnerState
from ludus._messaging.messages import (
    CheckpointAck,
    FreezeRequest,
    Heartbeat,
    Hello,
    HelperHeartbeat,
    MetricsReport,
    ModelAck,
    PeerRefused,
    SamplerLeft,
    Segments,
    Stop,
    TrainingProgress,
    Welcome,
)
from ludus._messaging.permissions import check_owner
from ludus._messaging.refusals import Refusals, RefusedMessage
from ludus._sampling.segment_layout import SegmentLayout
from ludus.activity import listen
from ludus.algorithm import Trainer
from ludus.errors import ContractError, WireError
from ludus.launcher import COORDINATOR, Link, SharedMemory, learner_name, sampler_host

_HELLO_INTERVAL_S = 1.0
_MAX_PROBLEM = 500  # characters of a refused message's problem in a report
_MAX_FAILED_UPDATES = 3  # in a row, without data of other hosts; the weights must be broken then


@define
class Learner:
    """Learns one player.

    Args:
        player: Name of the player.
        layout: Layout of its segments.
        make_trainer: Makes a trainer from the number of a generation and the hash of the model to start from, empty
            for the start weights of the run.
        run_dir: Run folder.
        options: See `LearnerOptions`.
        link: Sends messages.
        clock: Seconds.
        memory: Memory shared with samplers; None without.
        group_formation: Forms process groups with helpers; None without helpers.
    """

    player: str
    layout: SegmentLayout
    make_trainer: Callable[[int, str], Trainer]
    run_dir: Path
    options: LearnerOptions
    link: Link
    clock: Callable[[], float]
    memory: SharedMemory | None = None
    group_formation: GroupFormation | None = None
    stopped: bool = field(init=False, default=False)
    state: LearnerState = field(init=False)
    intake: SegmentIntake = field(init=False)
    refusals: Refusals = field(init=False)
    _publisher: Publisher = field(init=False)
    _helpers: HelperPool = field(init=False)
    _greeted_s: float = field(init=False, default=0.0)
    _failed_updates: int = field(init=False, default=0)  # in a row

    def __attrs_post_init__(self) -> None:
        self.state = LearnerState(self.player, self.options, self.make_trainer(0, ""))
        self.refusals = Refusals(self.clock)
        self.intake = SegmentIntake(self.layout, self.state, self.link, self.clock, self.refusals)
        if self.memory is not None:
            self.memory.expect_blocks(self.intake.check_shapes)
        self._publisher = Publisher(self.run_dir, self.make_trainer, self.state, self.link, self.clock, self.memory)
        self._helpers = HelperPool(self.group_formation, self.link, self.clock, self._send_heartbeat)

    @property
    def name(self) -> str:
        """Return the worker name."""
        return learner_name(self.player)

    @property
    def count(self) -> int:
        """Return the decisions learned from, as the worker's progress."""
        return self.state.decisions

    @property
    def drained(self) -> bool:
        """Return whether the coordinator has committed every model and checkpoint."""
        return self._publisher.drained

    def start(self) -> None:
        """Register with the coordinator; its `Welcome` contains the state to resume from."""
        self._greeted_s = self.clock()
        self.link.send(COORDINATOR, Hello(pid=os.getpid()))

    # -- messages ----------------------------------------------------------------------------------------------

    def handle(self, peer: str, message: Any) -> None:
        """Handle one message. One that the peer must not send is counted, and reported once there are too many.

        Raises:
            ModelError: The checkpoint to resume from is missing or damaged.
        """
        try:
            check_owner(peer, self.name, message)
            self._dispatch(peer, message)
        except WireError as error:
            self.refusals.add(peer, str(error))
        self._report_cut_off()

    def _report_cut_off(self) -> None:
        for refused, problem in self.refusals.take_cut_off().items():
            self.link.send(COORDINATOR, PeerRefused(peer=refused, problem=problem[:_MAX_PROBLEM]))

    def _dispatch(self, peer: str, message: Any) -> None:
        match message:
            case RefusedMessage():
                raise WireError(message.problem)
            case Segments():
                self.intake.receive(peer, message)
            case Hello():
                self.intake.greet(peer, message)
            case SamplerLeft():
                self.intake.forget(peer, drop_blocks=message.excluded)
            case HelperHeartbeat():
                self._helpers.receive_heartbeat(peer, message)
            case _:
                self._handle_coordinator(message)

    def _handle_coordinator(self, message: Any) -> None:
        match message:
            case Welcome() if not self.state.welcomed:
                self._resume(message)
            case TrainingProgress():
                self.state.other_decisions = message.other_decisions
            case FreezeRequest() if self.state.welcomed and not self.stopped:
                self._publisher.handle_request(message)
            case ModelAck():
                if reset := self._publisher.acknowledge_model(message):
                    self._reset_player(reset)
            case CheckpointAck():
                self._publisher.acknowledge_checkpoint(message)
            case Stop() if not self.stopped:
                self._stop()

    def _resume(self, welcome: Welcome) -> None:
        """Resume from the last commit of this player."""
        state, resume = self.state, welcome.resume
        state.models, state.other_decisions = resume.models, welcome.other_decisions
        self._publisher.restore(resume)
        # A reset commits the last model of the old generation before the first checkpoint of the new one. A learner
        # that died in between repeats the reset.
        if resume.generation > state.generation:
            state.version = max(state.version, resume.version)  # versions never repeat
            self._begin_generation(resume.generation, self.make_trainer(resume.generation, resume.init))
        state.start_clock(now_s=self.clock(), elapsed_s=welcome.elapsed_s)
        self._publisher.publish()
        self.intake.grant_all()

    def _reset_player(self, reset: PendingReset) -> None:
        """Begin the next generation, without the queued segments of the last one."""
        self._begin_generation(reset.generation, reset.trainer)
        self._publisher.publish()
        self.intake.clear()
        self._publisher.save_checkpoint()

    def _begin_generation(self, generation: int, trainer: Trainer) -> None:
        self._helpers.regroup(self.state.trainer)
        self.state.begin_generation(generation, trainer)

    def _stop(self) -> None:
        """Save the last weights, as a model if they were learned since the last one, and as a checkpoint."""
        self.stopped = True
        if not self.state.welcomed:
            return
        if self.state.decisions > self.state.frozen_decisions:
            self._publisher.freeze()
        else:
            self._publisher.save_checkpoint()

    # -- work --------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Compute one update if there is enough data; returns whether it did."""
        now_s = self.clock()
        self._publisher.resend(now_s)
        if not self.state.welcomed:
            if now_s - self._greeted_s > _HELLO_INTERVAL_S:
                self.start()
            return False
        if self.stopped or self._publisher.pending_reset is not None:
            return False
        self._report(now_s)
        self._helpers.maintain(self.state.trainer)
        if not self.intake.ready:
            self.state.metrics.start_idle(now_s)
            return False
        self.state.metrics.end_idle(now_s)
        self._update()
        self._publisher.save_if_due()
        return True

    def _update(self) -> None:
        """Update the weights from one batch, publish them, and grant credits for the batch.

        Raises:
            ContractError: The trainer has refused several batches in a row, none of them with data of other hosts.
        """
        state = self.state
        batch, senders = self.intake.take_batch()
        decisions = batch.num_decisions
        try:
            with listen(lambda *_activity: self._send_heartbeat()):
                result = self._helpers.update(state.trainer, batch, progress=state.progress(self.clock()))
        except ContractError as error:
            self._record_failed_update(error, senders)
        else:
            self._failed_updates = 0
            state.decisions += decisions
            state.version += 1
            self.state.metrics.record_update(result)
            self._publisher.publish()
            self._send_heartbeat()
        self.intake.grant_after_update(senders)

    def _record_failed_update(self, error: ContractError, senders: Sequence[Sender]) -> None:
        """Count a failed update against the other hosts of its batch; if there are none, against the weights.

        Raises:
            ContractError: There were several in a row without data of other hosts.
        """
        self.state.metrics.drops["dropped_refused"] += 1
        joined = [sender.worker for sender in senders if sampler_host(sender.worker)]
        for worker in joined:
            self.refusals.add(worker, f"a batch with its segments has been refused: {error}")
        self._report_cut_off()
        self._failed_updates += not joined
        if self._failed_updates >= _MAX_FAILED_UPDATES:
            raise ContractError(f"player {self.player!r}: {error} — {_MAX_FAILED_UPDATES} updates in a row") from error

    def _send_heartbeat(self) -> None:
        self.link.send(COORDINATOR, Heartbeat(count=self.state.decisions))

    def _report(self, now_s: float) -> None:
        values = self.state.metrics.report(now_s)
        if values is None:
            return
        values |= {
            "version": self.state.version,
            "decisions": self.state.decisions,
            "received": self.state.metrics.totals.received,
            "batch_decisions": self.state.trainer.batch_decisions,
            "queue_blocks": len(self.intake.queue),
        }
        if self.group_formation is not None:
            values["helpers"] = len(self._helpers)
        self.link.send(COORDINATOR, MetricsReport(values=values))

    def close(self) -> None:
        """Leave the process group."""
        self._helpers.leave(self.state.trainer)
