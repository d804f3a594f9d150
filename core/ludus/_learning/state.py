"""The state of a learner, which its parts share: its options, trainer, weights, counters and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import define, evolve, field, fields, frozen

from ludus._training_budget import TrainingBudget
from ludus.algorithm import Trainer, UpdateResult, Weights
from ludus.recovery import ResumePoint

REPORT_INTERVAL_S = 1.0
_SAVED_COUNTERS = ("version", "decisions", "frozen_decisions", "generation", "generation_version")  # in checkpoints


@frozen(kw_only=True)
class LearnerOptions:
    """Options of a learner.

    Args:
        credits: Blocks each sampler may have in flight; more if an update takes more, fewer if they would be too stale.
        max_staleness: Largest staleness of segments that are learned from, unless the trainer learns off-policy.
        freeze_every_decisions: Decisions between two models; 0: only on request of the coordinator.
        checkpoint_s: Seconds between checkpoints.
        max_segments: Largest number of segments in a block.
        budget: Training budget of the run; drives schedules.
        manifest: Entries of every model's manifest.
    """

    credits: int
    max_staleness: int
    freeze_every_decisions: int
    checkpoint_s: float
    max_segments: int = 2**20
    budget: TrainingBudget = field(factory=TrainingBudget)
    manifest: Mapping[str, Any] = field(factory=dict)


@define
class LearnerTotals:
    """Counters over the whole run; checkpoints store them.

    Attributes:
        received: Decisions received.
        samples: Decisions trained on; one decision counts as often as it is reused.
        updates: Updates.
        gradient_steps: Gradient steps.
    """

    received: int = 0
    samples: int = 0
    updates: int = 0
    gradient_steps: int = 0

    @classmethod
    def from_dict(cls, counters: Mapping[str, float]) -> LearnerTotals:
        """Return the counters of a checkpoint."""
        return cls(**{attribute.name: int(counters[attribute.name]) for attribute in fields(cls)})


@define
class _Snapshot:
    """Counters at the time of the last report."""

    time_s: float
    totals: LearnerTotals
    idle_s: float


@define
class LearnerMetrics:
    """Counts what a learner does.

    Attributes:
        totals: Counters over the run.
        idle_s: Seconds without enough data for an update.
        drops: Dropped segments, blocks and updates, by the name of their metric.
    """

    totals: LearnerTotals = field(factory=LearnerTotals)
    idle_s: float = 0.0
    drops: Counter[str] = field(factory=Counter)
    _update_metrics: dict[str, float] = field(factory=dict)
    _staleness: list[np.ndarray] = field(factory=list)
    _reported: _Snapshot | None = None
    _idle_since_s: float | None = None

    def start_idle(self, now_s: float) -> None:
        """Record that there is too little data for an update."""
        if self._idle_since_s is None:
            self._idle_since_s = now_s

    def end_idle(self, now_s: float) -> None:
        """Record that there is enough data for an update."""
        if self._idle_since_s is not None:
            self.idle_s += now_s - self._idle_since_s
            self._idle_since_s = None

    def record_block(self, decisions: int, staleness: np.ndarray) -> None:
        """Record a received block: its decisions, and the staleness of its segments."""
        self.totals.received += decisions
        self._staleness.append(staleness)

    def record_update(self, result: UpdateResult) -> None:
        """Record an update."""
        self.totals.samples += result.samples
        self.totals.updates += 1
        self.totals.gradient_steps += result.gradient_steps
        self._update_metrics = dict(result.metrics)

    def report(self, now_s: float) -> dict[str, float] | None:
        """Return the metrics since the last report, None if it is less than a second old."""
        totals = evolve(self.totals)
        before = self._reported
        if before is None:
            self._reported = _Snapshot(now_s, totals, self.idle_s)
            return None
        seconds = now_s - before.time_s
        if seconds < REPORT_INTERVAL_S:
            return None
        if self._idle_since_s is not None:
            self.end_idle(now_s)
            self.start_idle(now_s)
        self._reported = _Snapshot(now_s, totals, self.idle_s)
        values = {
            "samples_per_s": (totals.samples - before.totals.samples) / seconds,
            "updates_per_s": (totals.updates - before.totals.updates) / seconds,
            "updates": float(totals.updates),
            "idle_share": (self.idle_s - before.idle_s) / seconds,
            "sample_reuse": totals.samples / max(totals.received, 1),
        }
        values |= {name: float(count) for name, count in self.drops.items()}
        values |= self._update_metrics
        staleness = np.concatenate(self._staleness) if self._staleness else np.empty(0)
        self._staleness.clear()
        if staleness.size:
            values |= {"staleness_mean": float(staleness.mean()), "staleness_max": float(staleness.max())}
        return values


@define
class LearnerState:
    """Options, trainer, weights, counters and metrics of one player.

    Attributes:
        player: Name of the player.
        options: Options of the learner.
        trainer: Trainer of the current generation.
        metrics: What the learner has done.
        weights: Weights after the last update; set by `publish` of the publisher.
        version: Number of updates behind the weights.
        decisions: Decisions learned from.
        models: Number of frozen models.
        frozen_decisions: `decisions` when the last model was frozen.
        generation: Number of player resets so far.
        generation_version: Version with which the generation began; segments of older versions are dropped.
        welcomed: Whether the coordinator has sent the state to resume from.
        other_decisions: Decisions that the other players have learned from, as last received.
    """

    player: str
    options: LearnerOptions
    trainer: Trainer
    metrics: LearnerMetrics = field(factory=LearnerMetrics)
    weights: Weights = field(factory=dict)
    version: int = 0
    decisions: int = 0
    models: int = 0
    frozen_decisions: int = 0
    generation: int = 0
    generation_version: int = 0
    welcomed: bool = False
    other_decisions: int = 0
    _elapsed_s: float = 0.0  # of the run when this learner was welcomed
    _welcomed_s: float = 0.0

    def start_clock(self, *, now_s: float, elapsed_s: float) -> None:
        """Mark the learner as welcomed, and count the time of the run from here.

        Args:
            now_s: Current time.
            elapsed_s: Seconds that the run has trained.
        """
        self.welcomed, self._welcomed_s, self._elapsed_s = True, now_s, elapsed_s

    def progress(self, now_s: float) -> float:
        """Return the share of the training budget that is used, in [0, 1]."""
        elapsed_s = self._elapsed_s + now_s - self._welcomed_s if self.welcomed else 0.0
        return self.options.budget.progress(decisions=self.decisions + self.other_decisions, elapsed_s=elapsed_s)

    def begin_generation(self, generation: int, trainer: Trainer) -> None:
        """Replace the trainer after a player reset."""
        self.trainer = trainer
        self.generation, self.frozen_decisions = generation, self.decisions
        self.version += 1
        self.generation_version = self.version

    def start_from_model(self, resume: ResumePoint) -> None:
        """Set the counters to those of the model of a resume point."""
        self.generation = resume.generation
        self.version = self.generation_version = resume.model_version
        self.decisions = self.frozen_decisions = resume.model_decisions

    def counters(self) -> dict[str, int]:
        """Return the counters that a checkpoint stores."""
        return {name: getattr(self, name) for name in _SAVED_COUNTERS}

    def restore(self, counters: Mapping[str, float]) -> None:
        """Set the counters to those of a checkpoint."""
        for name in _SAVED_COUNTERS:
            setattr(self, name, int(counters[name]))
