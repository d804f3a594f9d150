"""The rewards of DIS [DIS table 3] and the checkpoints of gfootball, as named parts."""

from __future__ import annotations

import math

import numpy as np

from ludus_football.events import Events
from ludus_football.reward_config import RewardWeights
from ludus_football.state import LEFT, NOBODY, State

#: Parts that all seats of a team get, and parts of single seats.
TEAM_PARTS = ("goal", "conceded", "excess", "win", "possession", "out", "checkpoint")
SEAT_PARTS = ("hold", "secondary_attack", "slide")
PARTS = TEAM_PARTS + SEAT_PARTS
#: Distances from the opponents' goal, in units of the field, at which a team with the ball reaches a checkpoint.
CHECKPOINTS = np.linspace(0.99, 0.19, 10)


class RewardTracker:
    """Writes the parts of the rewards of all seats.

    - ``goal`` and ``conceded``: goals of the own team and of the opponents, up to a goal difference of ``goal_clip``.
    - ``excess``: the other goals, with the same weights. A player with goal clipping [DIS §3.2.1] ignores them.
    - ``win``: + for the winner of the match, - for the other team.
    - ``possession``: + for the team that came into possession, - for the other.
    - ``out``: - for the team that put the ball out.
    - ``checkpoint``: + for every checkpoint that the team reaches for the first time, by having the ball at most
      `CHECKPOINTS` from the opponents' goal. A goal counts as reaching all that are left.
    - ``hold``: the seat's player has the ball after the step.
    - ``secondary_attack``: the assistant's seat, at the goal.
    - ``slide``: the seat whose slide won the ball.

    `ludus_football.events` defines the words. ``win`` and ``possession`` are zero-sum between teams of equal size, and
    so are goals if ``goal`` and ``conceded`` have the same weight.

    Args:
        weights: Rewards of the parts.
        team: ``[S] int64``: team of every seat.
    """

    def __init__(self, weights: RewardWeights, team: np.ndarray) -> None:
        self._weights = weights
        self._team = team
        self._lead = 0
        self._reached = [0, 0]  # checkpoints by team

    def start(self, state: State) -> None:
        """Read the first state of a match, which may have goals already."""
        self._lead = state.score[0] - state.score[1]
        self._reached = [0, 0]

    def write(self, events: Events, state: State, parts: dict[str, np.ndarray], *, winner: int = NOBODY) -> None:
        """Write the parts of one step.

        Args:
            events: What happened in the step.
            state: Moment after it.
            parts: Arrays ``[S] float32`` by the names of `PARTS`, overwritten.
            winner: Team that wins the match with it; -1: none.
        """
        weights = self._weights
        for part in parts.values():
            part[:] = 0
        lead = state.score[0] - state.score[1]
        if lead != self._lead:
            self._write_goals(lead, parts)
        self._lead = lead
        if weights.checkpoint:
            self._write_checkpoints(events, state, parts["checkpoint"])
        if winner != NOBODY:
            parts["win"][:] = weights.win * self._signs(winner)
        if events.gained != NOBODY:
            parts["possession"][:] = weights.possession * self._signs(events.gained)
        if events.put_out != NOBODY:
            parts["out"][self._team == events.put_out] = -weights.out
        np.multiply(events.has_ball, weights.hold, out=parts["hold"], casting="unsafe")
        if events.assistant >= 0:
            parts["secondary_attack"][events.assistant] = weights.secondary_attack
        if events.tackler >= 0:
            parts["slide"][events.tackler] = weights.slide

    def _write_checkpoints(self, events: Events, state: State, part: np.ndarray) -> None:
        team, reached = state.owner_team, 0
        if events.scored != NOBODY:
            team, reached = events.scored, len(CHECKPOINTS)
        elif team != NOBODY:
            goal_x = 1.0 if team == LEFT else -1.0
            distance = math.hypot(state.ball[0] - goal_x, state.ball[1])
            reached = int((distance <= CHECKPOINTS).sum())
        if reached > self._reached[team]:
            part[self._team == team] = self._weights.checkpoint * (reached - self._reached[team])
            self._reached[team] = reached

    def _signs(self, team: int) -> np.ndarray:
        """Return 1 for seats of a team and -1 for the others, ``[S] float32``."""
        return np.where(self._team == team, np.float32(1), np.float32(-1))

    def _write_goals(self, lead: int, parts: dict[str, np.ndarray]) -> None:
        weights = self._weights
        clip = weights.goal_clip or max(abs(lead), abs(self._lead))
        counted = max(-clip, min(lead, clip)) - max(-clip, min(self._lead, clip))
        scorer = int(lead < self._lead)
        weight = np.where(self._team == scorer, weights.goal, -weights.conceded)
        within, beyond = abs(counted), abs(lead - self._lead) - abs(counted)
        parts["goal"][:] = np.maximum(weight, 0) * within
        parts["conceded"][:] = np.minimum(weight, 0) * within
        parts["excess"][:] = weight * beyond
