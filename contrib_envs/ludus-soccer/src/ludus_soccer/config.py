"""Options of the environment ``soccer``."""

from __future__ import annotations

from attrs import frozen
from ludus.option import at_least, between, one_of, option, whole


@frozen(kw_only=True)
class SoccerConfig:
    """Options of the environment ``soccer``; defaults as in [Arena §A.6] where the paper has numbers."""

    team_size: int = option(2, whole(1, 11), help="players of a team; 1 to 11; the paper: 2", lasting=True)
    walker: str = option(
        "boxhead", one_of("boxhead", "ant", "humanoid"), help="body of a player; the paper: boxhead", lasting=True
    )
    observation: str = option(
        "vector",
        one_of("vector", "dict"),
        help="observations as one vector, in the alphabetical order of dm_control's names, or as a leaf for each name",
        lasting=True,
    )
    decision_s: float = option(
        0.05,
        between(0.005, 1.0),
        help="time for which an action holds; [0.005, 1]; the paper: 0.05",
    )
    time_limit_s: float = option(45.0, between(1.0, 3600.0), help="time limit of a match; [1, 3600]; the paper: 45")
    goals: int = option(1, whole(1, 100), help="goals that win the match; the paper: 1")
    contacts: bool = option(False, help="whether players collide with each other; the paper: no")
    field_box: bool = option(True, help="whether walls keep the ball in the field")
    goal: float = option(1.0, at_least(0.0), help="reward of each goal of the team; ≥ 0")
    conceded: float = option(1.0, at_least(0.0), help="penalty of each goal of the opponents; ≥ 0")
    to_ball: float = option(
        0.01, at_least(0.0), help="guidance: reward for each metre of the player towards the ball; ≥ 0"
    )
    ball_to_goal: float = option(
        0.03,
        at_least(0.0),
        help="guidance: reward for each metre of the ball towards the opponents' goal; ≥ 0",
    )
    workers: int = option(0, whole(0, 1024), help="processes that share the matches; 0 plays them one after another")
