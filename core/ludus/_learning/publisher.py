"""The publisher of a learner: publishes weights to samplers, and writes models and checkpoints.

A model or checkpoint counts once the coordinator has committed it. Until its acknowledgement arrives, the message is
sent again and the files of older checkpoints are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import asdict, define, evolve, field, frozen

from ludus._learning.state import LearnerState, LearnerTotals
from ludus._messaging.messages import (
    Checkpoint,
    CheckpointAck,
    DamagedModel,
    FreezeRequest,
    ModelAck,
    ModelFrozen,
)
from ludus._store.model_files import (
    checkpoint_arrays,
    load_arrays,
    load_checkpoint,
    prune_checkpoints,
    save_arrays,
    save_checkpoint,
    wrap_file_errors,
)
from ludus.algorithm import Trainer
from ludus.errors import DamagedFileError, ModelError
from ludus.launcher import COORDINATOR, Link, SharedMemory
from ludus.recovery import ResumePoint

_RESEND_S = 5.0
_CHECKPOINT_SHARE = 0.05  # the most of the time that goes into checkpoints, apart from those of models


@frozen
class PendingReset:
    """A player reset that starts once the last model of the current generation is committed.

    Args:
        generation: Number of the generation that begins.
        trainer: Its trainer.
    """

    generation: int
    trainer: Trainer


@define
class Publisher:
    """Publishes weights, and writes models and checkpoints of one player.

    Args:
        run_dir: Run folder; models and checkpoints are written into its subfolders.
        make_trainer: Makes a trainer from the number of a generation and the hash of the model to start from, empty
            for the start weights of the run.
        state: State of the learner.
        link: Sends messages to the coordinator.
        clock: Seconds.
        memory: Memory shared with samplers; None without.

    Attributes:
        pending_reset: Player reset that waits for the commit of a model; no update is computed until then.
    """

    run_dir: Path
    make_trainer: Callable[[int, str], Trainer]
    state: LearnerState
    link: Link
    clock: Callable[[], float]
    memory: SharedMemory | None
    _checkpointed_s: float = field(init=False, default=0.0)
    _checkpoint_duration_s: float = field(init=False, default=0.0)
    _unacked: dict[str, tuple[float, ModelFrozen | Checkpoint]] = field(init=False, factory=dict)
    pending_reset: PendingReset | None = field(init=False, default=None)

    # -- weights -----------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Publish the trainer's weights as the newest."""
        self.state.weights = self.state.trainer.weights()
        if self.memory is not None:
            self.memory.publish(self.state.weights, self.state.version)

    # -- checkpoints -------------------------------------------------------------------------------------------

    def restore(self, resume: ResumePoint) -> None:
        """Load the checkpoint of a resume point, or else its model, into the trainer and the counters.

        Raises:
            ModelError: The file is missing or damaged.
        """
        self._checkpointed_s = self.clock()
        if resume.checkpoint:
            self._load_checkpoint(resume)
        elif resume.model:
            self.state.trainer.load_weights(load_arrays(self.run_dir / "models", resume.model))
            self.state.start_from_model(resume)

    def _load_checkpoint(self, resume: ResumePoint) -> None:
        arrays, counters = load_checkpoint(self.run_dir, resume.checkpoint, resume.checkpoint_hash)
        self.state.trainer.load_weights(checkpoint_arrays(arrays, "weights"))
        self.state.trainer.load_state(checkpoint_arrays(arrays, "state"))
        self.state.restore(counters)
        self.state.metrics.totals = LearnerTotals.from_dict(counters)

    def save_if_due(self) -> None:
        """Freeze a model or write a checkpoint if it is due.

        Raises:
            RunError: The files cannot be written.
        """
        state = self.state
        if 0 < state.options.freeze_every_decisions <= state.decisions - state.frozen_decisions:
            self.freeze()
            return
        # a replay buffer of half a gigabyte takes seconds to write: checkpoints must not take most of the time
        interval_s = max(self.state.options.checkpoint_s, self._checkpoint_duration_s / _CHECKPOINT_SHARE)
        if self.clock() - self._checkpointed_s > interval_s:
            self.save_checkpoint()

    def save_checkpoint(self) -> None:
        """Write weights, trainer state and counters.

        Raises:
            RunError: The file cannot be written. The last committed checkpoint stays.
        """
        arrays = {f"weights/{name}": array for name, array in self.state.weights.items()}
        arrays |= {f"state/{name}": array for name, array in self.state.trainer.state().items()}
        counters = self.state.counters() | asdict(self.state.metrics.totals)
        started_s = self.clock()
        with wrap_file_errors(self.run_dir):
            path, digest = save_checkpoint(self._folder, arrays, counters)
        self._checkpointed_s = self.clock()
        self._checkpoint_duration_s = self._checkpointed_s - started_s
        self._send("checkpoint", Checkpoint(path=path, hash=digest, **self._position))

    def acknowledge_checkpoint(self, ack: CheckpointAck) -> None:
        """Delete the checkpoints that the store does not refer to, once the newest is committed."""
        _, newest = self._unacked.get("checkpoint", (0.0, None))
        if isinstance(newest, Checkpoint) and newest.path == ack.path:
            del self._unacked["checkpoint"]
            prune_checkpoints(self._folder, ack.kept)

    @property
    def _folder(self) -> Path:
        return self.run_dir / "learners" / self.state.player

    @property
    def _position(self) -> dict[str, Any]:
        """Return the fields that identify a point of training in messages and manifests."""
        return {"player": self.state.player, "decisions": self.state.decisions, "version": self.state.version}

    # -- models ------------------------------------------------------------------------------------------------

    def freeze(self, request: FreezeRequest | None = None) -> None:
        """Write the weights as a model, then a checkpoint.

        Args:
            request: Request of the coordinator; None for a model that is due by decisions, or at the end.

        Raises:
            RunError: A file cannot be written.
        """
        state = self.state
        state.models += 1
        with wrap_file_errors(self.run_dir):
            digest = save_arrays(
                self.run_dir / "models", state.weights, {**self.state.options.manifest, **self._position}
            )
        state.frozen_decisions = state.decisions
        frozen = ModelFrozen(number=state.models, hash=digest, generation=state.generation, **self._position)
        if request is not None:
            frozen = evolve(frozen, generation=request.generation, init=request.init, reason=request.reason)
        self._send(f"model-{state.models}", frozen)
        self.save_checkpoint()

    def handle_request(self, request: FreezeRequest) -> None:
        """Freeze a model on request; a player reset waits until that model is committed.

        A reset from a model whose file is damaged is not started; the coordinator withdraws the request.

        Raises:
            ModelError: The reset starts from a model that does not fit. A checkpoint is written before.
        """
        state = self.state
        if request.generation > state.generation and self.pending_reset is None:
            try:
                trainer = self.make_trainer(request.generation, request.init)
            except ModelError as error:
                if isinstance(error, DamagedFileError) and request.init:
                    self.link.send(COORDINATOR, DamagedModel(hash=request.init))
                    return
                self.save_checkpoint()
                raise ModelError(
                    f"player {state.player!r} cannot be reset ({request.reason}): {error} — ludus check reports "
                    "which players fit"
                ) from error
            self.pending_reset = PendingReset(request.generation, trainer)
            self.freeze(request)
        elif request.generation == state.generation and request.model > state.models:
            has_changed = state.decisions > state.frozen_decisions or not state.models
            if has_changed:  # else the last model has the same weights
                self.freeze(request)

    def acknowledge_model(self, ack: ModelAck) -> PendingReset | None:
        """Record that a model is committed.

        The league may have had the model before, from an earlier process of this learner; its count is taken over.

        Returns:
            The player reset to start now; None if there is none.
        """
        self._unacked.pop(f"model-{ack.number}", None)
        if any(isinstance(message, ModelFrozen) for _, message in self._unacked.values()):
            return None
        self.state.models = ack.models
        reset, self.pending_reset = self.pending_reset, None
        return reset

    # -- acknowledgements --------------------------------------------------------------------------------------

    @property
    def drained(self) -> bool:
        """Return whether the coordinator has committed every model and checkpoint."""
        return not self._unacked

    def resend(self, now_s: float) -> None:
        """Send messages again that were not acknowledged in time."""
        for key, (sent_s, message) in list(self._unacked.items()):
            if now_s - sent_s > _RESEND_S:
                self._send(key, message)

    def _send(self, key: str, message: ModelFrozen | Checkpoint) -> None:
        self._unacked[key] = (self.clock(), message)
        self.link.send(COORDINATOR, message)
