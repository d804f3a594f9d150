"""Observations on recorded and hand-made states, in the views of both teams."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from ludus_football.features import FeatureEncoder, feature_groups
from ludus_football.representations import GlobalEncoder, MinimapEncoder, Simple115Encoder
from ludus_football.state import DRIBBLE, SPRINT, GameMode, State

MATCHES = ("five", "eleven")
#: The paper's table: name, length for five players, length for eleven.
TABLE = [
    ("controlling player", 19, 19),
    ("ball", 18, 18),
    ("teammates", 36, 90),
    ("closest teammate", 9, 9),
    ("opponents", 45, 99),
    ("closest opponent", 9, 9),
    ("available actions", 19, 19),
    ("match state", 10, 10),
    ("offside", 10, 22),
    ("cards", 20, 44),
    ("sticky actions", 10, 10),
    ("distances to the ball", 9, 21),
]


def hand_made() -> State:
    """Return a state of two against two in which the left team's seat has the ball, 0.3 before the middle line."""
    state = State.empty((2, 2), (1, 1))
    state.position[:] = [[[-0.9, 0.1], [0.3, -0.2]], [[0.95, 0.0], [0.35, -0.2]]]
    state.direction[:] = [[[0, 0], [0.01, 0]], [[0, 0], [0, 0.01]]]
    state.tired[:] = [[0, 0.25], [0, 0.5]]
    state.role[:] = [[0, 9], [0, 3]]
    state.yellow[0, 1] = True
    state.ball[:] = [0.3, -0.2, 0.1]
    state.ball_direction[:] = [0.02, 0, 0.5]
    state.owner_team, state.owner_player = 0, 1
    state.sticky[0, [5, SPRINT]] = True  # bottom right in the order of directions, which starts with left
    state.score = (2, 1)
    state.steps_left = 750
    return state


def encode(state: State) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the observations of all seats, and the same by group."""
    encoder = FeatureEncoder(state.num_players, len(state.team))
    out = np.full((len(state.team), *encoder.shape), np.nan, np.float32)
    encoder.encode(state, out)
    return out, {group.name: out[:, group.slice] for group in encoder.groups}


@pytest.mark.parametrize(("capacity", "column", "total"), [(5, 1, 214), (11, 2, 370)])
def test_groups_have_the_lengths_of_the_paper(capacity, column, total):
    """Names, lengths and sum are those of the table, and the groups follow each other."""
    groups = feature_groups(capacity)
    assert [(group.name, len(group.meanings)) for group in groups] == [(row[0], row[column]) for row in TABLE]
    assert groups[0].start == 0
    assert all(after.start == before.slice.stop for before, after in pairwise(groups))
    assert groups[-1].slice.stop == total
    encoder = FeatureEncoder((capacity, capacity), 1)
    assert encoder.shape == (total,)


@pytest.mark.parametrize("match", MATCHES)
def test_both_teams_see_the_same_in_a_turned_field(recording, match):
    """Turning the field and exchanging the teams changes no observation, in all recorded states."""
    for state in recording.states(match):
        observed, _ = encode(state)
        turned, _ = encode(state.mirrored())
        np.testing.assert_allclose(turned, observed, atol=1e-6)


@pytest.mark.parametrize("match", MATCHES)
def test_numbers_are_finite_and_small(recording, match):
    """All numbers of the recorded states are within ±3, and 99 % of them within ±1."""
    observed = np.concatenate([encode(state)[0] for state in recording.states(match)])
    assert np.isfinite(observed).all()
    assert abs(observed).max() <= 3
    assert (abs(observed) <= 1).mean() > 0.97


@pytest.mark.parametrize("match", MATCHES)
def test_an_encoder_keeps_nothing_of_the_state_before(recording, match):
    """One encoder for all states, into a part of a larger array, writes what fresh ones write."""
    states = recording.states(match)
    encoder = FeatureEncoder(states[0].num_players, len(states[0].team))
    batch = np.full((3, len(states[0].team), *encoder.shape), np.nan, np.float32)
    for state in states:
        encoder.encode(state, batch[1])
        np.testing.assert_array_equal(batch[1], encode(state)[0])
    assert np.isnan(batch[[0, 2]]).all()


def test_own_player_and_ball_of_a_hand_made_state():
    """The numbers of the left seat are those computed by hand."""
    groups = encode(hand_made())[1]
    own, ball = groups["controlling player"][0], groups["ball"][0]
    np.testing.assert_allclose(own[:6], [0.3, -0.2, 0.544, 0, 0.544, 0.25], atol=1e-6)
    assert own[6:16].tolist() == [0] * 9 + [1]
    assert own[16] == 1
    # To the goal: 0.7 · 54.4 = 38.08 m and 0.2 · 83.6 = 16.72 m; its posts are 3.6784 m from the middle.
    np.testing.assert_allclose(own[17], np.hypot(38.08, 16.72) / 54.4, atol=1e-5)
    sees = np.arctan2(16.72 + 3.6784, 38.08) - np.arctan2(16.72 - 3.6784, 38.08)
    np.testing.assert_allclose(own[18], sees / np.pi, atol=1e-5)
    np.testing.assert_allclose(ball[:7], [0.3, -0.2, 0.02, 0.544, 0, 0.25, np.hypot(0.544, 0.25)], atol=1e-6)
    assert ball[10:].tolist() == [0, 0, 0, 0, 1, 0, 0, 0]


def test_other_players_of_a_hand_made_state():
    """The goalkeeper is the only and closest teammate, the nearest of two opponents is 2.72 m away."""
    groups = {name: numbers[0] for name, numbers in encode(hand_made())[1].items()}
    mate = [-1.2, 0.3, -0.9, 0.1, 0, 0, 0, 0, np.hypot(1.2 * 54.4, 0.3 * 83.6) / 54.4]
    near = [0.05, 0, 0.35, -0.2, 0, 0.836, 0.836, 0.5, 0.05]
    np.testing.assert_allclose(groups["teammates"], mate + [0] * 27, atol=1e-6)
    np.testing.assert_allclose(groups["closest teammate"], mate, atol=1e-6)
    np.testing.assert_allclose(groups["opponents"][9:18], near, atol=1e-6)
    assert not groups["opponents"][18:].any()
    np.testing.assert_allclose(groups["closest opponent"], near, atol=1e-6)
    keeper = np.hypot(0.65 * 54.4, 0.2 * 83.6) / 54.4
    np.testing.assert_allclose(groups["distances to the ball"], [mate[8], 0, 0, 0, keeper, 0.05, 0, 0, 0], atol=1e-6)


def test_the_right_seat_of_a_hand_made_state():
    """The right seat sees the field turned: it is at (-0.35, 0.2), moves to the top, and its opponent has the ball."""
    groups = {name: numbers[1] for name, numbers in encode(hand_made())[1].items()}
    np.testing.assert_allclose(groups["controlling player"][:6], [-0.35, 0.2, 0, -0.836, 0.836, 0.5], atol=1e-6)
    assert groups["controlling player"][6:17].tolist() == [0, 0, 0, 1] + [0] * 7
    np.testing.assert_allclose(groups["ball"][10:13], [0.05, 0, 0.05], atol=1e-6)
    assert groups["ball"][13:16].tolist() == [0, 0, 1]
    np.testing.assert_allclose(groups["match state"][:3], [0.25, 0.2, 0.4], atol=1e-6)


def test_match_cards_and_sticky_actions_of_a_hand_made_state():
    """Time, score, mode, the yellow card, and what holds on are in their places for both seats."""
    state = hand_made()
    state.mode = GameMode.CORNER
    groups = encode(state)[1]
    np.testing.assert_allclose(groups["match state"][0], [0.25, 0.4, 0.2, 0, 0, 0, 0, 1, 0, 0], atol=1e-6)
    assert np.flatnonzero(groups["cards"][0]).tolist() == [2]  # yellow of own player 1
    assert np.flatnonzero(groups["cards"][1]).tolist() == [12]  # yellow of opponent 1
    assert np.flatnonzero(groups["sticky actions"][0]).tolist() == [5, SPRINT]
    assert not groups["sticky actions"][1].any()
    state.sticky[1, [0, DRIBBLE]] = True  # to the left goal, which is ahead for the right team
    assert np.flatnonzero(encode(state)[1]["sticky actions"][1]).tolist() == [4, DRIBBLE]


def test_available_actions_are_a_group():
    """Far from the ball no kick is available; with it all are but releases."""
    groups = encode(hand_made())[1]
    assert groups["available actions"][0, 9:].tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("ball", "positions", "opponents", "expected"),
    [
        (0.2, (0.5, 0.4), (0.95, 0.45), (True, False)),  # the second one is behind the last opponent but one
        (0.6, (0.5, 0.4), (0.95, 0.45), (False, False)),  # behind the ball
        (-0.5, (-0.1, 0.1), (0.95, -0.2), (False, True)),  # in the own half
        (0.2, (0.5, 0.4), (0.95, 0.5), (False, False)),  # level with the last but one
    ],
)
def test_offside_positions(ball, positions, opponents, expected):
    """The rule holds for both teams in their own views."""
    state = State.empty((2, 2), (1, 1))
    state.ball[0] = ball
    state.position[:, :, 0] = [positions, opponents]
    assert encode(state)[1]["offside"][0, :2].tolist() == list(expected)
    groups = encode(state.mirrored())[1]
    assert groups["offside"][0, :2].tolist() == list(expected)  # the same seat, now on the right
    assert groups["offside"][1, 5:7].tolist() == list(expected)


def test_a_single_opponent_makes_no_offside():
    """The rule needs two opponents."""
    state = State.empty((2, 1), (1, 1))
    state.position[0, :, 0] = [0.5, 0.9]
    state.position[1, 0, 0] = 0.6
    assert not encode(state)[1]["offside"].any()


@pytest.mark.parametrize(
    ("x", "y", "own", "opponents"),
    [
        (0.71, 0.0, 0, 1),
        (0.69, 0.0, 0, 0),
        (-0.71, 0.24, 1, 0),
        (-0.69, 0.24, 0, 0),
        (0.9, 0.25, 0, 0),
        (-1, -0.25, 0, 0),
    ],
)
def test_the_ball_in_penalty_areas(x, y, own, opponents):
    """The areas reach 16.5 m from the goal lines and 20.16 m from the middle; the other team sees them exchanged."""
    state = State.empty((2, 2), (1, 1))
    state.ball[:2] = x, y
    assert encode(state)[1]["ball"][:, 16:].tolist() == [[own, opponents], [opponents, own]]


def test_a_player_sent_off_is_zero_but_for_its_card():
    """Its numbers vanish, distances skip it, and the flag of its red card is set."""
    state = hand_made()
    state.active[1, 1] = False
    groups = {name: numbers[0] for name, numbers in encode(state)[1].items()}
    assert not groups["opponents"][9:].any()
    np.testing.assert_allclose(groups["closest opponent"][2], 0.95, atol=1e-6)
    assert np.flatnonzero(groups["cards"]).tolist() == [2, 13]
    assert groups["distances to the ball"][5] == 0
    _, right = encode(state)
    assert not right["controlling player"][1].any()


def test_one_against_one_has_no_teammates():
    """The short layout stays, with zeros."""
    groups = encode(State.empty((1, 1), (1, 1)))[1]
    assert not groups["teammates"].any()
    assert not groups["closest teammate"].any()


@pytest.mark.parametrize("match", MATCHES)
def test_simple115_equals_the_library(recording, match):
    """All recorded states give the numbers of the library's own wrapper, for seats of both teams."""
    states, seats = recording.states(match), recording.array(f"{match}_reference_seats")
    encoder = Simple115Encoder(states[0].num_players, len(states[0].team))
    out = np.full((len(states[0].team), *encoder.shape), np.nan, np.float32)
    for state, expected in zip(states, recording.array(f"{match}_simple115"), strict=True):
        encoder.encode(state, out)
        np.testing.assert_allclose(out[seats], expected, atol=1e-6)


@pytest.mark.parametrize("match", MATCHES)
def test_the_minimap_equals_the_library(recording, match):
    """Recorded states give the dots of the library's own wrapper, for the first and the last seat."""
    states, seats = recording.states(match), recording.array(f"{match}_reference_seats")[[0, 3]]
    encoder = MinimapEncoder(states[0].num_players, len(states[0].team))
    indices = recording.array(f"{match}_minimap_states")
    out = np.full((len(states[0].team), *encoder.shape), 7, np.uint8)
    expected = np.zeros((len(indices), 2, *encoder.shape), np.uint8)
    expected[tuple(recording.array(f"{match}_minimap_marks").T)] = 255
    for index, image in zip(indices.tolist(), expected, strict=True):
        encoder.encode(states[index], out)
        np.testing.assert_array_equal(out[seats], image)


def test_the_state_of_critics():
    """Both teams get their players first; a flag marks who has the ball."""
    state = hand_made()
    encoder = GlobalEncoder(state.num_players)
    out = np.full((2, *encoder.shape), np.nan, np.float32)
    encoder.encode(state, out)
    assert encoder.shape == (113,)
    players = out[:, :90].reshape(2, 10, 9)
    np.testing.assert_allclose(players[0, 1], [0.3, -0.2, 0.544, 0, 0.544, 0.25, 1, 1, 1], atol=1e-6)
    np.testing.assert_allclose(players[1, 6], [-0.3, 0.2, -0.544, 0, 0.544, 0.25, 1, 1, 1], atol=1e-6)
    assert players[..., 6].sum() == 8
    assert players[..., 8].sum() == 2
    assert out[0, 100:103].tolist() == [0, 1, 0]
    assert out[1, 100:103].tolist() == [0, 0, 1]
    state.active[0, 1] = False
    encoder.encode(state, out)
    players = out[:, :90].reshape(2, 10, 9)
    assert not players[0, 1, :7].any()
    assert not players[1, 6, :7].any()


@pytest.mark.parametrize("match", MATCHES)
def test_the_state_of_critics_is_the_same_in_a_turned_field(recording, match):
    """Turning the field and exchanging the teams changes nothing."""
    for state in recording.states(match):
        encoder = GlobalEncoder(state.num_players)
        first, second = np.zeros((2, len(state.team), *encoder.shape), np.float32)
        encoder.encode(state, first)
        encoder.encode(state.mirrored(), second)
        np.testing.assert_allclose(second, first, atol=1e-6)
