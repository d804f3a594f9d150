"""A sum tree: numbers that are drawn in proportion to their size."""

from __future__ import annotations

import numpy as np

__all__ = ["SumTree"]


class SumTree:
    """Weights of which any can be changed, and drawn in proportion to, in O(log n); many at once.

    Every node is computed from its two children alone, so equal weights give equal trees, however they came about.

    Args:
        capacity: Number of weights; they are 0 at first.
    """

    def __init__(self, capacity: int) -> None:
        self._levels = max(1, (capacity - 1).bit_length())
        self._leaves = 1 << self._levels
        self._nodes = np.zeros(2 * self._leaves, np.float64)  # node i has the children 2i and 2i + 1; 1 is the root

    @property
    def total(self) -> float:
        """Return the sum of all weights."""
        return float(self._nodes[1])

    def get(self, index: np.ndarray) -> np.ndarray:
        """Return the weights ``[n] float64`` at ``index [n] int64``."""
        return np.asarray(self._nodes[self._leaves + index])

    def set(self, index: np.ndarray, weight: np.ndarray | float) -> None:
        """Change weights; where an index comes twice, the later weight holds.

        Args:
            index: ``[n] int64`` in [0, capacity).
            weight: ``[n]`` or one number, ≥ 0 and finite.
        """
        node = self._leaves + index
        self._nodes[node] = weight
        for _ in range(self._levels):
            node = node >> 1
            self._nodes[node] = self._nodes[2 * node] + self._nodes[2 * node + 1]

    def find(self, at: np.ndarray) -> np.ndarray:
        """Return in whose share of the total each position lies; never a weight of 0.

        Args:
            at: ``[n] float64`` in [0, total); the shares lie in the order of the index. Left unchanged.

        Returns:
            ``[n] int64``.

        Raises:
            ValueError: All weights are 0.
        """
        if not self.total > 0:
            raise ValueError("all weights are 0")
        node = np.ones(at.shape, np.int64)
        left = np.empty_like(node)
        rest = at.astype(np.float64)
        for _ in range(self._levels):
            np.multiply(node, 2, out=left)
            share = self._nodes[left]
            # sums are rounded: a position beyond all shares must not reach a weight of 0
            right = (rest >= share) & (self._nodes[left + 1] > 0)
            rest -= share * right
            node = left + right
        return node - self._leaves
