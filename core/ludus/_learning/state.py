"""The state of a learner: trainer, weights and counters. The parts of a learner share one instance."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from ludus._training_budget import TrainingBudget
from ludus.algorithm import Trainer, Weights


@define
class LearnerState:
    """Trainer, weights and counters of one player.

    Attributes:
        trainer: Trainer of the current generation.
        budget: Training budget of the run.
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

    trainer: Trainer
    budget: TrainingBudget = field(factory=TrainingBudget)
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
        return self.budget.progress(decisions=self.decisions + self.other_decisions, elapsed_s=elapsed_s)

    def begin_generation(self, generation: int, trainer: Trainer) -> None:
        """Replace the trainer after a player reset."""
        self.trainer = trainer
        self.generation, self.frozen_decisions = generation, self.decisions
        self.version += 1
        self.generation_version = self.version

    @property
    def can_freeze(self) -> bool:
        """Return whether the weights differ from those of the last model, or there is no model."""
        return self.decisions > self.frozen_decisions or not self.models

    def counters(self) -> dict[str, float]:
        """Return the counters that a checkpoint stores."""
        return {
            "version": float(self.version),
            "decisions": float(self.decisions),
            "frozen_decisions": float(self.frozen_decisions),
            "generation": float(self.generation),
            "generation_version": float(self.generation_version),
        }

    def restore(self, counters: Mapping[str, float]) -> None:
        """Set the counters to those of a checkpoint."""
        self.version, self.decisions = int(counters["version"]), int(counters["decisions"])
        self.frozen_decisions = int(counters["frozen_decisions"])
        self.generation, self.generation_version = int(counters["generation"]), int(counters["generation_version"])
