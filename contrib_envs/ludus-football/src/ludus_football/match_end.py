"""When a match ends before its time."""

from __future__ import annotations

from ludus_football.match_plan import MatchPlan
from ludus_football.state import NOBODY, GameMode, State


class MatchEnd:
    """Follows a match, and counts its goals.

    Args:
        plan: Plan of the match.
        first: Its first moment.
    """

    def __init__(self, plan: MatchPlan, first: State) -> None:
        setup = plan.start.setup
        self._on_goal = setup.ends_on_goal or plan.is_drill
        self._on_out = setup.ends_on_out
        self._on_possession = setup.ends_on_possession
        self._first_score = first.score
        self._mode = first.mode
        self._owner = first.owner_team

    def goals(self, state: State) -> tuple[int, int]:
        """Return the goals of both teams since the match has started."""
        return state.score[0] - self._first_score[0], state.score[1] - self._first_score[1]

    def is_over(self, state: State) -> bool:
        """Return whether the match ends at its next moment."""
        is_stopped = state.mode != GameMode.NORMAL and self._mode == GameMode.NORMAL
        is_lost = NOBODY not in (state.owner_team, self._owner) and state.owner_team != self._owner
        self._mode = state.mode
        if state.owner_team != NOBODY:
            self._owner = state.owner_team
        return (
            (self._on_goal and any(self.goals(state)))
            or (self._on_out and is_stopped)
            or (self._on_possession and is_lost)
        )
