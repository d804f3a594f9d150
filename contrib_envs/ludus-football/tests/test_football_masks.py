"""The rules of the action mask, on hand-made and recorded states."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_football.actions import KICKS, TURNED_ACTIONS, Action
from ludus_football.masks import available
from ludus_football.state import DRIBBLE, SPRINT, State


def allowed(state: State, seat=0) -> set[Action]:
    """Return the available actions of a seat."""
    out = available(state, np.zeros((len(state.team), len(Action)), bool))
    return {action for action in Action if out[seat, action]}


def at(*, player, ball, owner=-1) -> State:
    """Return a state of one against one with the left player and the ball at these places."""
    state = State.empty((1, 1), (1, 1))
    state.position[0, 0] = player
    state.position[1, 0] = (0.9, 0.3)
    state.ball[:2] = ball
    state.owner_team, state.owner_player = owner, 0 if owner >= 0 else -1
    return state


ALWAYS = {Action(choice) for choice in (*range(9), Action.RELEASE_DIRECTION, Action.SPRINT, Action.DRIBBLE)}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (at(player=(0.5, 0), ball=(0.5, 0)), {*KICKS, Action.SLIDING}),
        (at(player=(0.5, 0), ball=(0.57, 0)), {*KICKS, Action.SLIDING}),  # 3.8 m
        (at(player=(0.5, 0), ball=(0.5, 0.05)), {Action.SLIDING}),  # 4.2 m
        (at(player=(0.5, 0), ball=(0.6, 0)), {Action.SLIDING}),  # 5.4 m
        (at(player=(0.5, 0), ball=(0.62, 0)), set()),  # 6.5 m
        (at(player=(0.5, 0), ball=(0.9, 0), owner=0), set()),
        (at(player=(0.5, 0), ball=(0.9, 0), owner=1), {Action.SLIDING}),
        (at(player=(-0.1, 0), ball=(-0.1, 0)), {*KICKS, Action.SLIDING} - {Action.SHOT}),
    ],
)
def test_kicks_and_slides(state, expected):
    """Kicks need the ball near, slides that or an opponent with it, and shots the other half; the same turned."""
    assert allowed(state) == ALWAYS | expected
    assert allowed(state.mirrored()) == ALWAYS | expected


def test_what_holds_on_can_be_released_and_not_chosen():
    """Sprint and dribble change places with their releases."""
    state = at(player=(0.5, 0), ball=(-0.5, 0))
    state.sticky[0, SPRINT] = True
    assert allowed(state) == ALWAYS - {Action.SPRINT} | {Action.RELEASE_SPRINT}
    state.sticky[0, DRIBBLE] = True
    assert allowed(state) == ALWAYS - {Action.SPRINT, Action.DRIBBLE} | {Action.RELEASE_SPRINT, Action.RELEASE_DRIBBLE}


def test_a_player_sent_off_kicks_nothing():
    """Its place does not matter."""
    state = at(player=(0.5, 0), ball=(0.5, 0))
    state.active[0, 0] = False
    assert allowed(state) == ALWAYS
    state.active[0, 0] = True
    state.controlled[0] = -1
    assert allowed(state) == ALWAYS


@pytest.mark.parametrize("match", ["five", "eleven"])
def test_recorded_states(recording, match):
    """In all recorded states, whoever has the ball can pass, and directions are always there."""
    for state in recording.states(match):
        for seat, (team, player) in enumerate(zip(state.team, state.controlled, strict=True)):
            actions = allowed(state, seat)
            assert actions >= ALWAYS - {Action.SPRINT, Action.DRIBBLE}
            if (team, player) == (state.owner_team, state.owner_player):
                assert Action.SHORT_PASS in actions


def test_turned_actions():
    """A turn exchanges opposite directions and nothing else, and two turns are none."""
    pairs = {(Action.LEFT, Action.RIGHT), (Action.TOP, Action.BOTTOM), (Action.TOP_LEFT, Action.BOTTOM_RIGHT)}
    for first, second in pairs:
        assert TURNED_ACTIONS[first] == second
        assert TURNED_ACTIONS[second] == first
    assert TURNED_ACTIONS[TURNED_ACTIONS].tolist() == TURNED_ACTIONS[[0]].tolist() + list(range(1, 19))
    assert TURNED_ACTIONS[9:].tolist() == list(range(9, 19))
