"""Options of the environment ``football``."""

from __future__ import annotations

from attrs import frozen
from ludus.option import Check, between, name, one_of, option, optional, whole

from ludus_football.formations import SETUPS
from ludus_football.reward_config import RewardWeights

_FOLDER = Check("the name of a folder, or an empty text", lambda value: value == "" or name().accepts(value))


@frozen(kw_only=True)
class FootballConfig(RewardWeights):
    """Options of the environment ``football``."""

    scenario: str = option(
        "5v5",
        one_of(*SETUPS),
        help="a match of two teams, or an academy, in which one team learns against the built-in AI; the paper: 5v5 "
        "and 11v11",
        lasting=True,
    )
    players: str = option(
        "all",
        one_of("all", "active"),
        help="all: every player that can be controlled is a seat; active: each team is one seat, which has the player "
        "next to the ball; the paper: all",
        lasting=True,
    )
    observation: str = option(
        "dis",
        one_of("dis", "simple115", "smm"),
        help="what a seat observes: dis: the vector of the paper, of 214 numbers for teams of up to 5 players, else of "
        "370; simple115: 115 numbers; smm: an image of 72 x 96 with 4 layers",
        lasting=True,
    )
    mask: str = option(
        "none",
        one_of("none", "rules"),
        help="action mask: none, or rules that exclude actions without a meaning; the paper: none, since the vector "
        "has the rules as numbers",
        lasting=True,
    )
    skill: float | None = option(
        None,
        optional(between(0.0, 1.0)),
        help="how fast and skilful all players of a team with participants are, in [0, 1]; none: that of the scenario",
    )
    max_ticks: int = option(
        0, whole(0, 1_000_000), help="ticks of 0.1 s after which a match ends; 0: the duration of the scenario"
    )
    states: str = option(
        "",
        _FOLDER,
        help="folder of stored moments NAME.state within that of the variable LUDUS_FOOTBALL_STATES, from which the "
        "scenarios state and state-NAME start; empty: none",
    )
    workers: int = option(0, whole(0, 1024), help="processes that share the matches; 0 plays them one after another")
