"""The workers of a run as the coordinator sees them: their state, and what a restarted one resumes from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePath

from attrs import define, evolve, field

from ludus._league.assignments import Assignments
from ludus._league.changes import FreezeRequests
from ludus._league.damage import DamageContainment
from ludus._league.fixtures import EvaluationFixtures
from ludus._league.league import League
from ludus._league.outbox import Outbox
from ludus._messaging.messages import (
    Checkpoint,
    CheckpointAck,
    Failure,
    Heartbeat,
    MetricsReport,
    Stop,
    TrainingProgress,
    Welcome,
)
from ludus.errors import WireError
from ludus.recovery import ResumePoint

_MAX_METRICS = 1024  # names of metrics that one worker may report, over all its reports
_MAX_METRIC_NAME = 200  # characters


@define
class Membership:
    """Welcomes workers and takes their heartbeats, metrics, checkpoints and errors.

    Args:
        learners: Player by worker name of its learner.
        league: The league.
        evaluation: Rating fixtures, which are reassigned when their worker leaves.
        assignments: Fixtures that are assigned to workers.
        requests: Freeze requests, which are repeated to learners.
        outbox: Queue of the answers.
        damage: Replaces damaged checkpoints.

    Attributes:
        last_seen_s: Time of the last message by worker.
        metrics: Last reported metrics by worker.
        errors: Last error by worker.
        failure: The first error that a restart would not cure; empty if none.
        stopping: Whether workers were asked to stop.
    """

    learners: Mapping[str, str]
    league: League
    evaluation: EvaluationFixtures
    assignments: Assignments
    requests: FreezeRequests
    outbox: Outbox
    damage: DamageContainment
    last_seen_s: dict[str, float] = field(init=False, factory=dict)
    metrics: dict[str, dict[str, float]] = field(init=False, factory=dict)
    errors: dict[str, str] = field(init=False, factory=dict)
    failure: str = field(init=False, default="")
    _metric_names: dict[str, set[str]] = field(init=False, factory=dict)  # of all reports, by worker
    _stop: Stop | None = field(init=False, default=None)

    @property
    def stopping(self) -> bool:
        """Return whether workers were asked to stop."""
        return self._stop is not None

    def stop(self, workers: Iterable[str], *, reason: str) -> None:
        """Ask workers to stop; workers that connect later are asked when they do."""
        self._stop = Stop(reason=reason)
        for worker in workers:
            self.outbox.send(worker, self._stop)

    def welcome(self, worker: str) -> None:
        """Answer a worker that has started or restarted."""
        if self._stop is not None:
            self.outbox.send(worker, self._stop)
        self._reassign(worker)
        player = self.learners.get(worker)
        if player is None:
            self.outbox.acknowledge(worker, Welcome(elapsed_s=self.league.elapsed_s))
        else:
            resume = self._resume_point(player)
            self.league.forget_unsaved([player])
            others = self.league.decisions - self.league.players[player].decisions
            welcome = Welcome(elapsed_s=self.league.elapsed_s, other_decisions=others, resume=resume)
            self.outbox.acknowledge(worker, welcome)
            self.requests.send(player)

    def _resume_point(self, player: str) -> ResumePoint:
        """Return the committed state of a player: its newest sound checkpoint, or model, and its current generation."""
        view = self.league.players[player]
        resume = ResumePoint(models=view.num_frozen, generation=view.generation)
        if view.generation:
            last = self.league.models[f"{player}@{view.generation_starts[-1]}"]
            resume = evolve(resume, init=self.damage.sound_init(last), version=last.version)
        self.damage.check_checkpoints(player)
        if saved := self.league.store.checkpoints.latest().get(player):
            return evolve(resume, checkpoint=saved.path, checkpoint_hash=saved.hash)
        if model := self.damage.newest_model(player):
            resume = evolve(resume, model=model.hash, model_version=model.version, model_decisions=model.decisions)
        return resume

    def heartbeat(self, worker: str, message: Heartbeat) -> None:
        """Update the decisions of a learner's player, and answer with those of the other players."""
        player = self.learners.get(worker)
        if player is None:
            return
        view = self.league.players[player]
        # a restarted learner may be behind its newest model; if fewer counted, the next model would seem overdue
        decisions = max(message.count, view.frozen_decisions)
        if message.count and decisions != view.decisions:  # a count of 0: the learner is not welcomed yet
            self.league.set_decisions(player, decisions)
            self.outbox.needs_commit = True
        others = self.league.decisions - self.league.players[player].decisions
        self.outbox.send(worker, TrainingProgress(other_decisions=others))
        self.requests.send(player)

    def report_metrics(self, worker: str, message: MetricsReport) -> None:
        """Keep a worker's metrics; without values the worker has left.

        Raises:
            WireError: The worker reports too many metrics, or one with a long or unprintable name.
        """
        if message.values:
            self._check_names(worker, message.values.keys())
            self.metrics[worker] = dict(message.values)
        else:
            self.metrics.pop(worker, None)
            self._metric_names.pop(worker, None)
            self._reassign(worker)

    def _check_names(self, worker: str, names: Collection[str]) -> None:
        known = self._metric_names.setdefault(worker, set())
        new = [name for name in names if name not in known]
        if len(known) + len(new) > _MAX_METRICS:
            raise WireError(f"{len(known) + len(new)} metrics of {worker}, at most {_MAX_METRICS} are allowed")
        for name in new:
            if len(name) > _MAX_METRIC_NAME or not name.isprintable():
                raise WireError(f"metric {name[:40]!r}: expected at most {_MAX_METRIC_NAME} printable characters")
        known.update(new)

    def _reassign(self, worker: str) -> None:
        """Make the unfinished rating fixtures of a worker available to others; late results of it are accepted."""
        self.evaluation.reassign(worker)
        self.assignments.release(worker)

    def save_checkpoint(self, worker: str, message: Checkpoint) -> None:
        """Make a checkpoint the one that its learner resumes from."""
        checkpoints = self.league.store.checkpoints
        checkpoints.put(message)
        kept = tuple(PurePath(checkpoint.path).name for checkpoint in checkpoints.kept(message.player))
        self.outbox.acknowledge(worker, CheckpointAck(path=message.path, kept=kept))

    def fail(self, worker: str, message: Failure) -> None:
        """Keep a worker's error."""
        self.errors[worker] = message.error
        if message.fatal:
            self.failure = self.failure or message.error

    def forget_unsaved(self, alive: Collection[str]) -> None:
        """Reset the decisions of players whose learners do not run to what is saved: the rest is lost.

        Args:
            alive: Workers that run.
        """
        if lost := [player for learner, player in self.learners.items() if learner not in alive]:
            self.league.forget_unsaved(lost)
