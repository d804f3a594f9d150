"""Numbers that change while training goes on."""

from __future__ import annotations

from attrs import frozen

from ludus_ppo.config import PPOConfig

__all__ = ["Schedules"]


@frozen
class Schedules:
    """What they are during one update."""

    learning_rate: float
    ent_coef: float
    clip_epsilon: float

    @classmethod
    def at(cls, progress: float, config: PPOConfig) -> Schedules:
        """Return the values once `progress` of the training budget is used, in [0, 1]."""
        share = min(max(progress, 0.0), 1.0)

        def between(start: float, end: float | None) -> float:
            return start if end is None else start + (end - start) * share

        return cls(
            learning_rate=between(config.learning_rate, 0.0 if config.learning_rate_schedule == "linear" else None),
            ent_coef=between(config.ent_coef, config.ent_coef_final),
            clip_epsilon=between(config.clip_epsilon, config.clip_epsilon_final),
        )
