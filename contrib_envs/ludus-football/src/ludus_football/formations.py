"""Matches and academies of Google Research Football: where players start, and how a match ends.

Every team is listed in its own view: its goal is at x = -1, and it attacks towards x = 1. The first player of a team is
the goalkeeper.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen

#: Names of roles; the engine numbers them in this order.
ROLES = ("GK", "CB", "LB", "RB", "DM", "CM", "LM", "RM", "AM", "CF")
#: Difficulty of the built-in AI by the name of a built-in bot.
DIFFICULTIES = {"easy": 0.05, "medium": 0.6, "hard": 0.95, "competition": 1.0}
#: Difficulties that the engine sets where a scenario does not.
_ACADEMY_DIFFICULTIES = (1.0, 0.6)


@frozen
class Place:
    """Where a player starts.

    Args:
        x: From -1 (own goal) to 1.
        y: From -0.42 to 0.42.
        role: One of `ROLES`.
        controllable: Whether a seat can control the player.
        lazy: Whether the built-in AI leaves the player where it is.
    """

    x: float
    y: float
    role: str
    controllable: bool = True
    lazy: bool = False


Team = tuple[Place, ...]


@frozen(kw_only=True)
class MatchSetup:
    """The start and the rules of a match.

    Args:
        left: Players of the left team.
        right: Players of the right team, in its own view.
        duration: Ticks of a match.
        difficulties: Difficulty of the built-in AI of each team, in [0, 1].
        ball: Position of the ball in the view of the left team.
        num_teams: 2 where both teams have seats; 1 where the built-in AI plays the right team.
        offsides: Whether offside is punished.
        ends_on_goal: Whether a goal ends the match.
        ends_on_out: Whether the match ends when the ball is out of play or a foul is punished.
        ends_on_possession: Whether the match ends when the other team gets the ball.
        draws_kickoff: Whether the seed draws which team has the line-up `left`, that of the kick-off.
    """

    left: Team
    right: Team
    duration: int
    difficulties: tuple[float, float] = field(default=_ACADEMY_DIFFICULTIES)
    ball: tuple[float, float] = (0.0, 0.0)
    num_teams: int = 2
    offsides: bool = True
    ends_on_goal: bool = False
    ends_on_out: bool = False
    ends_on_possession: bool = False
    draws_kickoff: bool = False

    @property
    def num_players(self) -> tuple[int, int]:
        """Return the players of each team."""
        return len(self.left), len(self.right)

    @property
    def num_controllable(self) -> tuple[int, int]:
        """Return the players of each team that seats can control; none in a team without seats."""
        left, right = (sum(place.controllable for place in team) for team in (self.left, self.right))
        return left, right if self.num_teams == 2 else 0


def exchange_line_ups(setup: MatchSetup) -> MatchSetup:
    """Return a match in which each team has the places of the other one; the teams keep their difficulties."""
    x, y = setup.ball
    return evolve(setup, left=setup.right, right=setup.left, ball=(-x, -y))


def _keeper(*, controllable: bool = False, x: float = -1.0) -> Place:
    return Place(x, 0.0, "GK", controllable)


def _team(*players: tuple[float, float, str], lazy: bool = False) -> Team:
    """Return a team of a goalkeeper that no seat controls, and players."""
    return (_keeper(), *(Place(x, y, role, True, lazy) for x, y, role in players))


def _eleven(first: tuple[float, float], second: tuple[float, float], *, lazy: bool = False) -> Team:
    """Return eleven players, of which the first two after the goalkeeper stand at the given positions."""
    return _team(
        (*first, "RM"),
        (*second, "CF"),
        (-0.422, -0.19576, "LB"),
        (-0.5, -0.06356, "CB"),
        (-0.5, 0.063559, "CB"),
        (-0.422, 0.19576, "RB"),
        (-0.184212, -0.10568, "CM"),
        (-0.267574, 0.0, "CM"),
        (-0.184212, 0.10568, "CM"),
        (-0.01, -0.2161, "LM"),
        lazy=lazy,
    )


def _with_keeper_seat(team: Team) -> Team:
    return (_keeper(controllable=True), *team[1:])


_FIVE_BACK = ((-0.1, -0.1, "LB"), (-0.1, 0.1, "CB"))
_ELEVEN_KICKOFF = _eleven((0.0, 0.02), (0.0, -0.02))
_ELEVEN_WAITING = _eleven((-0.05, 0.0), (-0.01, 0.216102))

#: Full matches, both of whose teams have seats.
MATCHES: Mapping[str, MatchSetup] = {
    "1v1": MatchSetup(
        left=(_keeper(controllable=True),),
        right=(_keeper(controllable=True),),
        duration=500,
        difficulties=(0.0, 0.0),
    ),
    "5v5": MatchSetup(
        left=_team((0.0, 0.02, "RM"), (0.0, -0.02, "CF"), *_FIVE_BACK),
        right=_team((-0.04, 0.04, "RM"), (-0.04, -0.04, "CF"), *_FIVE_BACK),
        duration=3000,
        difficulties=(0.05, 0.05),
        draws_kickoff=True,
    ),
    "11v11": MatchSetup(
        left=_with_keeper_seat(_ELEVEN_KICKOFF),
        right=_with_keeper_seat(_ELEVEN_WAITING),
        duration=3000,
        difficulties=(1.0, 1.0),
        draws_kickoff=True,
    ),
}


def _academy(
    left: Team, right: Team, ball: tuple[float, float], *, duration: int = 400, ends_on_possession: bool = True
) -> MatchSetup:
    return MatchSetup(
        left=left,
        right=right,
        ball=ball,
        duration=duration,
        num_teams=1,
        offsides=False,
        ends_on_goal=True,
        ends_on_out=True,
        ends_on_possession=ends_on_possession,
    )


_ABSENT_KEEPER = (_keeper(x=1.0),)  # stands at the other end of the field
_CHASERS = tuple(
    Place(0.12, y, role) for y, role in ((0.2, "LB"), (0.1, "CB"), (0.0, "CM"), (-0.1, "CB"), (-0.2, "RB"))
)
_COUNTERATTACK = _team(
    (-0.672, -0.19576, "LB"),
    (-0.75, -0.06356, "CB"),
    (-0.75, 0.063559, "CB"),
    (-0.672, 0.19576, "RB"),
    (-0.434, -0.10568, "CM"),
    (-0.434, 0.10568, "CM"),
    (0.5, -0.3161, "CM"),
    (0.25, -0.1, "LM"),
    (0.25, 0.1, "RM"),
    (0.35, 0.316102, "CF"),
)


def _counterattack_defence(first_back: float) -> Team:
    """Return the defence against the counterattack.

    Args:
        first_back: x of the first centre back, who is in front of the ball (easy) or behind it (hard).
    """
    return _team(
        (0.128, -0.19576, "LB"),
        (first_back, -0.06356, "CB"),
        (-0.4, 0.063559, "CB"),
        (0.128, -0.19576, "RB"),
        (0.365, -0.10568, "CM"),
        (0.282, 0.0, "CM"),
        (0.365, 0.10568, "CM"),
        (0.54, -0.3161, "LM"),
        (0.51, 0.0, "RM"),
        (0.54, 0.316102, "CF"),
    )


#: Academies: the left team learns to score against the built-in AI.
ACADEMIES: Mapping[str, MatchSetup] = {
    "academy-empty-goal-close": _academy(_team((0.75, 0.0, "CB")), _ABSENT_KEEPER, (0.77, 0.0)),
    "academy-empty-goal": _academy(_team((0.0, 0.0, "CB")), _ABSENT_KEEPER, (0.02, 0.0)),
    "academy-run-to-score": _academy(_team((0.0, 0.0, "CB")), _ABSENT_KEEPER + _CHASERS, (0.02, 0.0)),
    "academy-run-to-score-with-keeper": _academy(_team((0.0, 0.0, "CB")), (_keeper(), *_CHASERS), (0.02, 0.0)),
    "academy-pass-and-shoot-with-keeper": _academy(
        _team((0.7, 0.0, "CB"), (0.7, -0.3, "CB")), _team((-0.75, 0.3, "CB")), (0.7, -0.28)
    ),
    "academy-run-pass-and-shoot-with-keeper": _academy(
        _team((0.7, 0.0, "CB"), (0.7, -0.3, "CB")), _team((-0.75, 0.1, "CB")), (0.7, -0.28)
    ),
    "academy-3-vs-1-with-keeper": _academy(
        _team((0.6, 0.0, "CM"), (0.7, 0.2, "CM"), (0.7, -0.2, "CM")), _team((-0.75, 0.0, "CB")), (0.62, 0.0)
    ),
    "academy-corner": _academy(
        _team(
            (1.0, 0.42, "LB"),
            (0.7, 0.15, "CB"),
            (0.7, 0.05, "CB"),
            (0.7, -0.05, "RB"),
            (0.0, 0.0, "CM"),
            (0.6, 0.35, "CM"),
            (0.8, 0.07, "CM"),
            (0.8, -0.03, "LM"),
            (0.8, -0.13, "RM"),
            (0.7, -0.3, "CF"),
        ),
        _team(
            (-0.75, -0.18, "LB"),
            (-0.75, -0.08, "CB"),
            (-0.75, 0.02, "CB"),
            (-1.0, -0.1, "RB"),
            (-0.8, -0.25, "CM"),
            (-0.88, -0.07, "CM"),
            (-0.88, 0.03, "CM"),
            (-0.88, 0.13, "LM"),
            (-0.75, 0.25, "RM"),
            (-0.2, 0.0, "CF"),
        ),
        (0.99, 0.41),
        ends_on_possession=False,
    ),
    "academy-counterattack-easy": _academy(_COUNTERATTACK, _counterattack_defence(0.4), (0.26, -0.11)),
    "academy-counterattack-hard": _academy(_COUNTERATTACK, _counterattack_defence(-0.4), (0.26, -0.11)),
    "academy-single-goal-versus-lazy": _academy(
        _ELEVEN_KICKOFF, _eleven((-0.05, 0.0), (-0.01, 0.216102), lazy=True), (-0.48, -0.06356), duration=3000
    ),
}

SETUPS: Mapping[str, MatchSetup] = {**MATCHES, **ACADEMIES}
