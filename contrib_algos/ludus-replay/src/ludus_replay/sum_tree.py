"""Sum tree: sample indices in proportion to weights that change."""

from __future__ import annotations

import numpy as np


class SumTree:
    """Binary tree of weight sums: O(log n) updates and proportional sampling, for many indices at once.

    Every node is computed from its two children alone, so the tree depends on the current weights only, bit for bit.

    Args:
        capacity: Number of weights, initially 0.
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
        """Set weights; of duplicate indices the last one counts.

        Args:
            index: ``[n] int64`` in [0, capacity).
            weight: ``[n]`` or one number, ≥ 0 and finite.
        """
        node = self._leaves + index
        self._nodes[node] = weight
        for _ in range(self._levels):
            node = node >> 1
            self._nodes[node] = self._nodes[2 * node] + self._nodes[2 * node + 1]

    def find(self, position: np.ndarray) -> np.ndarray:
        """Return the index whose interval of cumulative weight contains each position; never one of weight 0.

        Args:
            position: ``[n] float64`` in [0, total); not modified.

        Returns:
            ``[n] int64``.

        Raises:
            ValueError: All weights are 0.
        """
        if not self.total > 0:
            raise ValueError("all weights are 0")
        node = np.ones(position.shape, np.int64)
        left = np.empty_like(node)
        rest = position.astype(np.float64)
        for _ in range(self._levels):
            np.multiply(node, 2, out=left)
            left_sum = self._nodes[left]
            # sums are rounded: a position past the last interval must not reach a weight of 0
            go_right = (rest >= left_sum) & (self._nodes[left + 1] > 0)
            rest -= left_sum * go_right
            node = left + go_right
        return node - self._leaves
