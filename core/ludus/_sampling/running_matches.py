"""Which matches of a batch are running, and how old they are."""

from __future__ import annotations

import numpy as np

__all__ = ["RunningMatches"]


class RunningMatches:
    """The running matches of a batch.

    Args:
        num_matches: B.

    Attributes:
        idle: ``[B] bool``, True for match indices without a running match.
        num_idle: Number of True entries of `idle`.
        steps: Number of steps of the environment.
    """

    def __init__(self, num_matches: int) -> None:
        self.idle = np.ones(num_matches, bool)
        self.num_idle = num_matches
        self.steps = 0
        self._start_steps = np.zeros(num_matches, np.int64)

    @property
    def num_running(self) -> int:
        """Return the number of running matches."""
        return self.idle.size - self.num_idle

    def start(self, indices: np.ndarray) -> None:
        """Mark idle match indices as running."""
        self.num_idle -= indices.size
        self.idle[indices] = False
        self._start_steps[indices] = self.steps

    def end(self, indices: np.ndarray) -> None:
        """Mark running match indices as idle."""
        self.num_idle += indices.size
        self.idle[indices] = True

    def ages(self, indices: np.ndarray | np.intp) -> np.ndarray:
        """Return the age in ticks of the matches at these indices."""
        return np.asarray(self.steps - self._start_steps.take(indices))
