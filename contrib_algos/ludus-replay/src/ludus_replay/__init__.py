"""Replay memory for off-policy algorithms."""

from __future__ import annotations

from ludus_replay.buffer import ReplayBuffer, Transitions
from ludus_replay.layout import ReplayLayout
from ludus_replay.rows import Rows, collect
from ludus_replay.sum_tree import SumTree

__all__ = [
    "ReplayBuffer",
    "ReplayLayout",
    "Rows",
    "SumTree",
    "Transitions",
    "collect",
]
