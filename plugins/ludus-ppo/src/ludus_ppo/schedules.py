"""Options that change with the progress of the training."""

from __future__ import annotations

from attrs import frozen

from ludus_ppo.config import PPOConfig


@frozen
class ScheduleValues:
    """Values of the scheduled options during one update."""

    learning_rate: float
    ent_coef: float
    clip_epsilon: float

    @classmethod
    def at(cls, progress: float, config: PPOConfig) -> ScheduleValues:
        """Return the values at `progress`, the used share of the training budget in [0, 1]."""
        share = min(max(progress, 0.0), 1.0)

        def between(start: float, end: float | None) -> float:
            return start if end is None else start + (end - start) * share

        return cls(
            learning_rate=between(config.learning_rate, 0.0 if config.learning_rate_schedule == "linear" else None),
            ent_coef=between(config.ent_coef, config.ent_coef_final),
            clip_epsilon=between(config.clip_epsilon, config.clip_epsilon_final),
        )
