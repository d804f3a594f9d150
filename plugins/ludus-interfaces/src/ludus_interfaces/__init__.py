"""Interfaces for ludus: transforms of observations, rewards and actions that most games can use."""

from __future__ import annotations

from ludus_interfaces.actions import MergeLabels
from ludus_interfaces.frames import FrameStack
from ludus_interfaces.observations import Flatten, OneHot, ScaleObservation, SelectLeaves
from ludus_interfaces.rewards import ScaleReward

__all__ = ["Flatten", "FrameStack", "MergeLabels", "OneHot", "ScaleObservation", "ScaleReward", "SelectLeaves"]
