"""Matchmakers for ludus: self-play, history, prioritized fictitious self-play, and mixtures of them."""

from __future__ import annotations

from ludus_matchmakers.history import PFSP, UniformHistory, pfsp_probabilities
from ludus_matchmakers.mixture import Mixture
from ludus_matchmakers.self_play import LatestSelfPlay

__all__ = ["PFSP", "LatestSelfPlay", "Mixture", "UniformHistory", "pfsp_probabilities"]
