"""Ratings of participants from their matches, as pure functions of numpy arrays.

Participants are numbers 0 … n - 1. Results are either a list of matches, or a table ``points [n, n]`` of what i got
against j (a win 1, a draw ½), see `points_of`.
"""

from __future__ import annotations

from ludus_ratings.alpha_rank import alpha_rank, alpha_rank_roles, alpha_sweep
from ludus_ratings.bradley_terry import Strengths, bradley_terry
from ludus_ratings.comparison import Comparison, Difference, DirectEvidence, compare, direct_evidence
from ludus_ratings.elo import ELO_POINTS, expected_score, sequential_elo
from ludus_ratings.nash import NashAverage, maximum_entropy_nash, nash_average
from ludus_ratings.payoff import components, log_odds, points_of, win_rates
from ludus_ratings.skill import Skill, TeamMatch, openskill_ratings

__all__ = [
    "ELO_POINTS",
    "Comparison",
    "Difference",
    "DirectEvidence",
    "NashAverage",
    "Skill",
    "Strengths",
    "TeamMatch",
    "alpha_rank",
    "alpha_rank_roles",
    "alpha_sweep",
    "bradley_terry",
    "compare",
    "components",
    "direct_evidence",
    "expected_score",
    "log_odds",
    "maximum_entropy_nash",
    "nash_average",
    "openskill_ratings",
    "points_of",
    "sequential_elo",
    "win_rates",
]
