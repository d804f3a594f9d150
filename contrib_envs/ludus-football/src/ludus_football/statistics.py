"""Statistics of a match: ten behaviours of every seat, as in [DIS figure 8], and where its player was on average."""

from __future__ import annotations

import numpy as np

from ludus_football.actions import Action
from ludus_football.events import Events
from ludus_football.masks import seat_positions
from ludus_football.state import RIGHT, State

#: The paper does not list its ten behaviours. Its discussion of them names goals, shots, shots in the zone, short, long
#: and high passes, possession, and possession of the opponents.
BEHAVIOURS = (
    "goals",
    "shots",
    "zone_shots",
    "short_passes",
    "long_passes",
    "high_passes",
    "completed_passes",
    "possession",
    "opponent_possession",
    "slides",
)
STATISTICS = (*BEHAVIOURS, "mean_x", "mean_y")
_ROWS = {name: row for row, name in enumerate(STATISTICS)}
_KICK_ROWS = {
    Action.SHOT: _ROWS["shots"],
    Action.SHORT_PASS: _ROWS["short_passes"],
    Action.LONG_PASS: _ROWS["long_passes"],
    Action.HIGH_PASS: _ROWS["high_passes"],
}
#: Statistics that are means over the steps of a match.
_MEANS = [_ROWS[name] for name in ("possession", "opponent_possession", "mean_x", "mean_y")]


class StatisticsTracker:
    """Counts what every seat has done in a match.

    - ``goals``: goals of the own team that the seat's player was the last to touch.
    - ``shots``, ``short_passes``, ``long_passes``, ``high_passes``: kicks of the seat, see `ludus_football.events`.
    - ``zone_shots``: its shots with the ball in the penalty area of the opponents.
    - ``completed_passes``: its passes that reached a teammate.
    - ``possession``: share of the steps in which its player has the ball.
    - ``opponent_possession``: share of the steps in which an opponent has it.
    - ``slides``: how often it slid.
    - ``mean_x``, ``mean_y``: mean position of its player in the view of its team.

    Args:
        team: ``[S] int64``: team of every seat.
    """

    def __init__(self, team: np.ndarray) -> None:
        self._sums = np.zeros((len(STATISTICS), len(team)))
        self._view = np.where(team == RIGHT, -1.0, 1.0)
        self._team = team
        self._steps = 0

    def start(self) -> None:
        """Forget the last match."""
        self._sums[:] = 0
        self._steps = 0

    def add(self, events: Events, state: State) -> None:
        """Add one step.

        Args:
            events: What happened in the step.
            state: Moment after it.
        """
        sums = self._sums
        self._steps += 1
        if events.scorer >= 0:
            sums[_ROWS["goals"], events.scorer] += 1
        if events.kicker >= 0:
            sums[_KICK_ROWS[events.kick], events.kicker] += 1
            if events.kick == Action.SHOT and events.is_zone_kick:
                sums[_ROWS["zone_shots"], events.kicker] += 1
        if events.passer >= 0:
            sums[_ROWS["completed_passes"], events.passer] += 1
        sums[_ROWS["slides"]] += events.slides
        sums[_ROWS["possession"]] += events.has_ball
        sums[_ROWS["opponent_possession"]] += self._team == 1 - state.owner_team
        sums[_ROWS["mean_x"] :] += self._view * seat_positions(state).T

    def write(self, statistics: dict[str, np.ndarray]) -> None:
        """Write what was counted since the start of the match.

        Args:
            statistics: Arrays ``[S] float32`` by the names of `STATISTICS`, overwritten.
        """
        for name, row in _ROWS.items():
            statistics[name][:] = self._sums[row] / (max(1, self._steps) if row in _MEANS else 1)
