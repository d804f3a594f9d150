"""The public functions of `ludus_ratings`, imported at the first access."""

from __future__ import annotations

from ludus_ratings.alpha import alpha_rank, alpha_rank_roles, alpha_sweep
from ludus_ratings.comparison import (
    Comparison,
    Difference,
    DirectEvidence,
    compare,
    compare_pair_results,
    direct_evidence,
)
from ludus_ratings.elo import ELO_POINTS, expected_score, sequential_elo
from ludus_ratings.nash import NashAverage, maximum_entropy_nash, nash_average
from ludus_ratings.payoff import PairResults, components, log_odds, points_from_matches, win_rates
from ludus_ratings.skill import Skill, TeamMatch, openskill_ratings
from ludus_ratings.strengths import Strengths, bradley_terry

__all__ = [
    "ELO_POINTS",
    "Comparison",
    "Difference",
    "DirectEvidence",
    "NashAverage",
    "PairResults",
    "Skill",
    "Strengths",
    "TeamMatch",
    "alpha_rank",
    "alpha_rank_roles",
    "alpha_sweep",
    "bradley_terry",
    "compare",
    "compare_pair_results",
    "components",
    "direct_evidence",
    "expected_score",
    "log_odds",
    "maximum_entropy_nash",
    "nash_average",
    "openskill_ratings",
    "points_from_matches",
    "sequential_elo",
    "win_rates",
]
