"""Recovery of workers: what a restarted worker resumes from, and when restarting is given up.

Samplers, evaluators, helpers and services start without state: the coordinator assigns unfinished fixtures again, and
peers send again what was not acknowledged. A learner resumes from the `ResumePoint` that the coordinator reads from the
store; updates after the last committed checkpoint are lost.

A launcher restarts a worker that ended or hangs, until its `RestartHistory` returns that restarting does not help.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field, frozen

__all__ = ["RestartHistory", "ResumePoint"]

_WINDOW_S = 60.0
_LONG_LIFE_S = 600.0  # a worker that ran for longer did not fail at its start, though it may have had nothing to do


@frozen(kw_only=True)
class ResumePoint:
    """The committed state of a player that its learner resumes from.

    Attributes:
        models: Models that the player has frozen.
        checkpoint: Its newest undamaged checkpoint, relative to the run folder; empty if there is none.
        checkpoint_hash: SHA-256 of that file.
        model: Hash of the model whose weights replace a missing checkpoint; empty if there is none.
        model_version: Version of these weights.
        model_decisions: Decisions behind these weights.
        generation: Current generation of the player.
        init: Hash of the model that this generation starts from; empty for the start weights of the run.
        version: Version of the weights before this generation.
    """

    models: int = 0
    checkpoint: str = ""
    checkpoint_hash: str = ""
    model: str = ""
    model_version: int = 0
    model_decisions: int = 0
    generation: int = 0
    init: str = ""
    version: int = 0


@define
class RestartHistory:
    """The restarts of one worker.

    Restarting is given up after more than `limit` deaths within a minute of running, or without progress in between.
    Progress of a learner is a committed checkpoint, of a sampler committed results, and of a service or helper an
    answered request.

    Args:
        limit: Restarts before they are given up.
    """

    limit: int
    _deaths_s: deque[float] = field(init=False, factory=deque)
    _deaths_without_progress: int = field(init=False, default=0)

    def record_progress(self) -> None:
        """Record that the worker has made progress."""
        self._deaths_without_progress = 0

    def record_hang(self, silent_s: float) -> None:
        """Record that the worker is killed after a silence, which does not count as running.

        Otherwise a worker that hangs for longer than a minute would be restarted for ever.
        """
        self._deaths_s = deque(death_s + silent_s for death_s in self._deaths_s)

    def record_death(self, *, started_s: float, now_s: float) -> None:
        """Record a death of the worker.

        Args:
            started_s: Time at which it was started.
            now_s: Time of the death.
        """
        self._deaths_s.append(now_s)
        if now_s - started_s >= _LONG_LIFE_S:
            self._deaths_without_progress = 0
        self._deaths_without_progress += 1
        while self._deaths_s[0] < now_s - _WINDOW_S:
            self._deaths_s.popleft()

    def give_up_reason(self, *, serves: bool) -> str:
        """Return why restarting is given up; empty if the worker is to be restarted.

        Args:
            serves: Whether the worker commits nothing itself: a service or helper.
        """
        if len(self._deaths_s) > self.limit:
            return f"{len(self._deaths_s)} times within a minute"
        if self._deaths_without_progress > self.limit:
            progress = "no request answered" if serves else "nothing committed"
            return f"{self._deaths_without_progress} times with {progress} in between"
        return ""
