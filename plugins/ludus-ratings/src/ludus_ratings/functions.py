"""What `ludus_ratings` offers: imported when somebody asks for the first of it."""

from __future__ import annotations

from ludus_ratings.alpha import alpha_rank, alpha_rank_roles, alpha_sweep
from ludus_ratings.comparison import Comparison, Difference, DirectEvidence, compare, compare_meetings, direct_evidence
from ludus_ratings.elo import ELO_POINTS, expected_score, sequential_elo
from ludus_ratings.nash import NashAverage, maximum_entropy_nash, nash_average
from ludus_ratings.payoff import Meetings, components, log_odds, points_of, win_rates
from ludus_ratings.skill import Skill, TeamMatch, openskill_ratings
from ludus_ratings.strengths import Strengths, bradley_terry

__all__ = [
    "ELO_POINTS",
    "Comparison",
    "Difference",
    "DirectEvidence",
    "Meetings",
    "NashAverage",
    "Skill",
    "Strengths",
    "TeamMatch",
    "alpha_rank",
    "alpha_rank_roles",
    "alpha_sweep",
    "bradley_terry",
    "compare",
    "compare_meetings",
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
