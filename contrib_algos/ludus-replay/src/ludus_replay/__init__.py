"""Replay buffer for off-policy algorithms."""

from __future__ import annotations

from ludus_replay.buffer import ReplayBuffer
from ludus_replay.layout import ReplayLayout
from ludus_replay.rows import Rows, make_rows
from ludus_replay.sum_tree import SumTree
from ludus_replay.transitions import Transitions

__all__ = [
    "ReplayBuffer",
    "ReplayLayout",
    "Rows",
    "SumTree",
    "Transitions",
    "make_rows",
]
