"""What this distribution registers."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_ratings() -> list[Component]:
    """Offer the ratings that a league can go by while it runs."""
    return [
        Component(
            name="elo",
            factory="ludus_ratings.elo_table:EloTable",
            summary="Bradley-Terry in Elo points: the most likely ratings of all matches at once, with deviations",
        ),
        Component(
            name="openskill",
            factory="ludus_ratings.skill_table:SkillTable",
            summary="openskill's Plackett-Luce model in Elo points: match by match, knows teams of any size and number",
        ),
    ]
