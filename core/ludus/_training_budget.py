"""The training budget of a run, and the progress through it that every schedule reads."""

from __future__ import annotations

from attrs import frozen


@frozen(kw_only=True)
class TrainingBudget:
    """Limits of a run, counted from its first start over all resumes.

    Args:
        decisions: Decisions of all players together; 0 for no limit.
        seconds: Seconds of training; 0 for no limit.
    """

    decisions: int = 0
    seconds: float = 0.0

    def progress(self, *, decisions: int, elapsed_s: float) -> float:
        """Return the share of the budget that is used, in [0, 1]: the larger share of both limits, 0 without limits.

        Args:
            decisions: Decisions that all players have learned from.
            elapsed_s: Seconds that the run has trained.
        """
        shares = [0.0]
        if self.decisions:
            shares.append(decisions / self.decisions)
        if self.seconds:
            shares.append(elapsed_s / self.seconds)
        return min(1.0, max(shares))

    def exhausted(self, *, decisions: int, elapsed_s: float) -> str:
        """Return which limit is reached, as a text; empty while there is budget left.

        Args:
            decisions: Decisions that all players have learned from.
            elapsed_s: Seconds that the run has trained.
        """
        if self.seconds and elapsed_s >= self.seconds:
            return f"{self.seconds / 60:g} minutes are over"
        if self.decisions and decisions >= self.decisions:
            return f"{self.decisions:,} decisions are learned"
        return ""
