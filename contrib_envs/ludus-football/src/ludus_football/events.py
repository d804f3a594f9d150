"""What happens between two moments of a match: kicks, passes, changes of possession, slides, balls put out, goals.

The engine reports who has the ball, not what players did to it. Events are derived from that:

- A *holder* is the player who has the ball. At a set piece it is the player nearest to the ball, who takes it. While
  the ball is on its way, no player holds it.
- A team is *in possession* from the moment one of its players holds the ball until a player of the other team does, or
  a goal is scored.
- A *kick* of a seat is a pass or shot that it chose while its player held the ball, at most `KICK_STEPS` before the
  ball left that player and became faster by `KICK_SPEED_M`. The last choice counts. First-time kicks of players who
  never held the ball are not seen.
- A pass is *completed* if a teammate is the next holder, before play stops.
- A slide is *won* if its player is the next holder after an opponent, at most `SLIDE_STEPS` after the seat chose it
  near an opponent who held the ball.
- A *secondary attack*, or assist, is the last change of the ball between two teammates before one of them scores, with
  no opponent and no stop of play in between. It belongs to the seat of the first of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from attrs import define, field

from ludus_football.actions import KICKS, PASSES, Action
from ludus_football.masks import SLIDE_REACH_M, ball_distances
from ludus_football.state import METRES, NOBODY, PENALTY_X, PENALTY_Y, GameMode, State

#: In the engine a kick leaves the player 1 to 11 steps after it was chosen.
KICK_STEPS = 12
#: Least increase of the speed of the ball by a kick, in metres per step.
KICK_SPEED_M = 0.5
SLIDE_STEPS = 10
#: Greatest distance in metres from the ball of the player who takes a set piece.
TAKER_REACH_M = 3.0
_OUT = (GameMode.GOAL_KICK, GameMode.CORNER, GameMode.THROW_IN)
_LONG_AGO = 1_000_000
#: Members of enumerations are slow to look up.
_SLIDING, _NORMAL, _KICKS = int(Action.SLIDING), int(GameMode.NORMAL), tuple(map(int, KICKS))


class Holder(NamedTuple):
    """Player who holds the ball, and the seat that controls it; -1: none."""

    team: int = NOBODY
    player: int = NOBODY
    seat: int = -1

    def is_player(self, other: Holder) -> bool:
        """Return whether both are the same player, or both none."""
        return self[:2] == other[:2]


class Kick(NamedTuple):
    """A pass or shot that a seat chose, and the player who held the ball then."""

    holder: Holder
    action: Action


@define(kw_only=True, eq=False)
class Events:
    """What happened in one step. Teams and seats are -1 where it did not happen.

    Attributes:
        scored: Team that scored.
        scorer: Seat of the last holder, if that team was in possession.
        assistant: Seat of the secondary attack.
        gained: Team that came into possession; the other team was before.
        put_out: Team that put the ball out of the field, so that the other one gets a goal kick, corner or throw-in.
        kicker: Seat whose kick left the player.
        kick: What it chose.
        is_zone_kick: Whether the ball was in the penalty area of the opponents then.
        passer: Seat whose pass was completed.
        tackler: Seat that won a slide.
        slides: ``[S] bool``: seats that began a slide, wherever the ball is.
        has_ball: ``[S] bool``: seats whose player has the ball after the step.
    """

    scored: int = NOBODY
    scorer: int = -1
    assistant: int = -1
    gained: int = NOBODY
    put_out: int = NOBODY
    kicker: int = -1
    kick: Action = Action.IDLE
    is_zone_kick: bool = False
    passer: int = -1
    tackler: int = -1
    slides: np.ndarray
    has_ball: np.ndarray


@define
class EventTracker:
    """Derives the events of a match from its consecutive states.

    Call `start` with the first state of a match and `update` with every later one. No array of a state is kept.
    """

    _mode: int = field(init=False, default=GameMode.NORMAL)
    _score: tuple[int, int] = field(init=False, default=(0, 0))
    _ball: np.ndarray = field(init=False, factory=lambda: np.zeros(3, np.float32))
    _speed: float = field(init=False, default=0.0)
    _now: Holder = field(init=False, default=Holder())
    _last: Holder = field(init=False, default=Holder())  # of the team in possession
    _before_last: Holder = field(init=False, default=Holder())  # teammate who had the ball before
    _choice: Kick | None = field(init=False, default=None)
    _choice_steps: int = field(init=False, default=0)
    _flight: Kick | None = field(init=False, default=None)
    _may_tackle: np.ndarray = field(init=False, factory=lambda: np.zeros(0, bool))
    _tackle_steps: np.ndarray = field(init=False, factory=lambda: np.zeros(0, np.int64))
    _slide_steps: np.ndarray = field(init=False, factory=lambda: np.zeros(0, np.int64))

    def start(self, state: State) -> None:
        """Read the first state of a match."""
        seats = len(state.team)
        self._tackle_steps = np.full(seats, _LONG_AGO)
        self._slide_steps = np.full(seats, _LONG_AGO)
        self._choice, self._flight = None, None
        self._now = self._last = self._before_last = Holder()
        self._remember(state)
        self._last = self._now

    def update(self, state: State, actions: np.ndarray) -> Events:
        """Return what happened since the last state.

        Args:
            state: Moment that the actions led to.
            actions: ``[S] int64``, chosen in the last state; entries of seats that do not act hold `Action.IDLE`.
        """
        events = Events(
            slides=self._begin_slides(actions),
            has_ball=(state.team == state.owner_team) & (state.controlled == state.owner_player),
        )
        self._choose_kick(actions)
        ball, speed = self._ball, self._speed
        scored = next((team for team in (0, 1) if state.score[team] > self._score[team]), NOBODY)
        if scored != NOBODY:
            self._score_goal(events, scored)
        elif state.mode not in (self._mode, _NORMAL):
            events.put_out = _team_that_put_out(state)
            self._stop_play()
        self._remember(state)
        if self._choice is not None:
            self._follow_kick(events, ball, self._speed - speed)
        if self._now.team != NOBODY:
            self._hold(events)
        return events

    def _begin_slides(self, actions: np.ndarray) -> np.ndarray:
        """Note which seats chose to slide, and return ``[S] bool``: for which of them a slide begins."""
        chosen = np.asarray(actions == _SLIDING)
        self._slide_steps += 1
        self._tackle_steps += 1
        if not chosen.any():
            return chosen
        self._tackle_steps[chosen & self._may_tackle] = 0
        chosen &= self._slide_steps > SLIDE_STEPS
        self._slide_steps[chosen] = 0
        return chosen

    def _choose_kick(self, actions: np.ndarray) -> None:
        """Note the kick that the seat of the holder chose."""
        seat = self._now.seat
        self._choice_steps += 1
        if self._choice_steps > KICK_STEPS:
            self._choice = None
        if seat >= 0 and actions[seat] in _KICKS:
            self._choice, self._choice_steps = Kick(self._now, Action(actions[seat])), 0

    def _score_goal(self, events: Events, team: int) -> None:
        events.scored = team
        if self._last.team == team:
            events.scorer = self._last.seat
            events.assistant = self._before_last.seat
        self._stop_play()
        self._last = Holder()

    def _stop_play(self) -> None:
        """End what leads from one player to another; the team stays in possession."""
        self._choice, self._flight = None, None
        self._last, self._before_last = Holder(self._last.team), Holder()

    def _follow_kick(self, events: Events, ball: np.ndarray, speed_gain: float) -> None:
        """Count the chosen kick if the ball left its player.

        Args:
            events: Events of the step.
            ball: ``[3] float32``: where the ball was before the step.
            speed_gain: Increase of its speed in metres per step.
        """
        kick = self._choice
        if kick is None or self._now.is_player(kick.holder):
            return
        if speed_gain > KICK_SPEED_M:
            events.kicker, events.kick = kick.holder.seat, kick.action
            x = ball[0] if kick.holder.team == 0 else -ball[0]
            events.is_zone_kick = bool(x >= 1 - PENALTY_X and abs(ball[1]) <= PENALTY_Y)
            self._flight = kick if kick.action in PASSES else None
            self._choice = None
        elif self._now.team != NOBODY:
            self._choice = None  # another player took the ball

    def _hold(self, events: Events) -> None:
        """Note who holds the ball, and what follows from the change."""
        now, last = self._now, self._last
        if self._flight is not None:
            passer = self._flight.holder
            if now.team == passer.team and now.player != passer.player:
                events.passer = passer.seat
            self._flight = None
        if last.team == 1 - now.team:
            events.gained = now.team
            if self._mode == _NORMAL and now.seat >= 0 and self._tackle_steps[now.seat] <= SLIDE_STEPS:
                events.tackler = now.seat
        if last.team != now.team:
            self._before_last = Holder()
        elif now.player != last.player:
            self._before_last = last
        self._last = now

    def _remember(self, state: State) -> None:
        self._mode, self._score = state.mode, state.score
        self._ball = state.ball.copy()
        self._now = _find_holder(state)
        moved = state.ball_direction[:2] * METRES
        self._speed = float(np.sqrt(moved @ moved))
        self._may_tackle = state.team == 1 - state.owner_team
        if state.owner_team != NOBODY:
            self._may_tackle &= ball_distances(state) <= SLIDE_REACH_M


def _find_holder(state: State) -> Holder:
    """Return the player who has the ball, or who takes the set piece."""
    team, player = state.owner_team, state.owner_player
    if team == NOBODY and state.mode != _NORMAL:
        team, player = _nearest_player(state)
    if team == NOBODY:
        return Holder()
    seats = np.flatnonzero((state.team == team) & (state.controlled == player))
    return Holder(team, player, int(seats[0]) if seats.size else -1)


def _nearest_player(state: State) -> tuple[int, int]:
    """Return team and index of the player nearest to the ball; -1 if none is within `TAKER_REACH_M`."""
    apart = (state.position - state.ball[:2]) * METRES
    distance = np.where(state.active, np.hypot(apart[..., 0], apart[..., 1]), np.inf)
    team, player = divmod(int(distance.argmin()), distance.shape[1])
    return (team, player) if distance[team, player] <= TAKER_REACH_M else (NOBODY, NOBODY)


def _team_that_put_out(state: State) -> int:
    """Return the team against which a goal kick, corner or throw-in is given; -1 for other set pieces."""
    if state.mode not in _OUT:
        return NOBODY
    side = int(state.ball[0] > 0)  # team whose goal is on the side of the ball
    if state.mode == GameMode.CORNER:
        return side
    if state.mode == GameMode.GOAL_KICK:
        return 1 - side
    taker = _find_holder(state).team
    return NOBODY if taker == NOBODY else 1 - taker
