"""The testing kit: checks that report which part of its contract a component breaks, and leagues for tests."""

from __future__ import annotations

from ludus.testing._algorithm import check_algorithm
from ludus.testing._environment import check_environment
from ludus.testing._finding import Finding
from ludus.testing._group import update_together
from ludus.testing._inference import check_inference
from ludus.testing._interface import check_interface
from ludus.testing._league import (
    FakeLeague,
    check_matchmaker,
    check_rating,
    check_rule,
    fake_leagues,
    fake_player,
    opponent_shares,
)
from ludus.testing._run import check_run
from ludus.testing._runtime import LeagueRunner, league_runner
from ludus.testing._synthetic_league import (
    EloWorld,
    RockPaperScissors,
    SpinningTop,
    SyntheticLeague,
    SyntheticPlayer,
    World,
)

__all__ = [
    "EloWorld",
    "FakeLeague",
    "Finding",
    "LeagueRunner",
    "RockPaperScissors",
    "SpinningTop",
    "SyntheticLeague",
    "SyntheticPlayer",
    "World",
    "check_algorithm",
    "check_environment",
    "check_inference",
    "check_interface",
    "check_matchmaker",
    "check_rating",
    "check_rule",
    "check_run",
    "fake_leagues",
    "fake_player",
    "league_runner",
    "opponent_shares",
    "update_together",
]
