"""The real engine: determinism, sides, set pieces, stored states."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from attrs import evolve
from ludus.errors import ContractError, PluginError
from ludus_football.actions import TURNED_ACTIONS, Action
from ludus_football.config import FootballConfig
from ludus_football.engine import Engine, Start, load_library
from ludus_football.engine_states import replace_constants, replace_set_piece
from ludus_football.formations import MATCHES, SETUPS, exchange_line_ups
from ludus_football.library import make_library
from ludus_football.match_plan import seat_players
from ludus_football.state import GameMode, State

FIVE = MATCHES["5v5"]


@pytest.fixture(scope="module")
def engines():
    """Return two engines of 5v5 in which every field player is a seat."""
    pytest.importorskip("gfootball_engine", reason="the football engine is not installed", exc_type=ImportError)
    return [Engine(seat_players(FIVE, "all"), follows_ball=False) for _ in range(2)]


def kick_off(seed=1, **changes) -> Start:
    """Return a start of 5v5 with all seats."""
    return Start(**{"setup": FIVE, "agents": (4, 4), "seed": seed, **changes})


def numbers(state: State) -> np.ndarray:
    """Return all numbers of a state as a vector."""
    arrays = (state.ball, state.ball_direction, state.ball_rotation, state.position, state.direction, state.tired)
    whole = [state.owner_team, state.owner_player, state.mode, *state.score]
    return np.concatenate([*map(np.ravel, arrays), np.ravel(state.sticky), whole])


def play(engine: Engine, ticks: int, *, seed=0, turn=False) -> list[np.ndarray]:
    """Play random actions, and return the numbers of every moment."""
    rng = np.random.default_rng(seed)
    moments = []
    for _ in range(ticks):
        actions = rng.integers(19, size=8)
        moments.append(numbers(engine.step(np.roll(actions, 4) if turn else actions, np.ones(8, bool))))
    return moments


def test_equal_seeds_and_actions_give_equal_matches(engines):
    """It does not matter which matches the engine played before, nor which other engines the process has."""
    first, second = engines
    start = kick_off(seed=9)
    expected = [numbers(first.start(start)), *play(first, 60)]
    first.start(kick_off(seed=10, mode=GameMode.CORNER))
    play(first, 40, seed=5)
    again = [numbers(first.start(start)), *play(first, 60)]
    np.testing.assert_array_equal(expected, again)
    second.start(kick_off(seed=11))
    play(second, 30)
    np.testing.assert_array_equal(expected, [numbers(second.start(start)), *play(second, 60)])
    first.start(kick_off(seed=12))
    assert (np.array(play(first, 60)) != np.array(expected[1:])).any()


def test_two_engines_play_in_turn(engines):
    """Steps of one engine change nothing in the other."""
    for engine, seed in zip(engines, (3, 4), strict=True):
        engine.start(kick_off(seed=seed))
    rngs = [np.random.default_rng(seed) for seed in (3, 4)]
    mixed = [
        [numbers(e.step(r.integers(19, size=8), np.ones(8, bool))) for e, r in zip(engines, rngs, strict=True)]
        for _ in range(40)
    ]
    for index, seed in enumerate((3, 4)):
        engines[0].start(kick_off(seed=seed))
        np.testing.assert_array_equal(play(engines[0], 40, seed=seed), [both[index] for both in mixed])


def test_both_sides_are_the_same_game(engines):
    """A match with exchanged line-ups, taker and actions is the same match, turned by 180 degrees."""
    first, second = engines
    left = [first.start(kick_off(seed=21))]
    right = [second.start(kick_off(seed=21, setup=exchange_line_ups(FIVE), taker=1))]
    rng = np.random.default_rng(2)
    for _ in range(60):
        actions = rng.integers(19, size=8)
        left.append(first.step(actions, np.ones(8, bool)))
        right.append(second.step(np.roll(actions, 4), np.ones(8, bool)))
    for one, other in zip(left, right, strict=True):
        turned = other.mirrored()
        np.testing.assert_allclose(one.ball, turned.ball, atol=1e-5)
        np.testing.assert_allclose(one.position, turned.position, atol=1e-5)
        np.testing.assert_array_equal(one.sticky, np.roll(turned.sticky, 4, axis=0))
        assert (one.owner_team, one.owner_player, one.score) == (turned.owner_team, turned.owner_player, turned.score)


def test_seats_move_their_own_players_in_their_own_view(engines):
    """``right`` takes the left team's players to higher x and the right team's to lower x, and so on for ``top``."""
    for action, axis, sign in ((Action.RIGHT, 0, 1), (Action.TOP, 1, -1)):
        before = engines[0].start(kick_off())
        for _ in range(15):
            after = engines[0].step(np.array([action, *[0] * 6, action]), np.ones(8, bool))
        moved = (after.position - before.position)[..., axis]
        assert after.controlled.tolist() == [1, 2, 3, 4, 1, 2, 3, 4]
        assert sign * moved[0, 1] > 0.03
        assert sign * moved[1, 4] < -0.03


def test_sticky_actions_are_those_of_the_engine(engines):
    """They are followed here without asking the engine, which has the same ones."""
    engine = engines[0]
    engine.start(kick_off(seed=2))
    backend = load_library().e_BackendAction
    names = [Action(number).name.lower() for number in range(1, 9)] + ["sprint", "dribble"]
    rng = np.random.default_rng(8)
    seen = 0
    for _ in range(60):
        state = engine.step(rng.integers(19, size=8), np.ones(8, bool))
        asked = [
            [engine._game.sticky_action_state(getattr(backend, name), seat < 4, seat % 4) for name in names]
            for seat in range(8)
        ]
        np.testing.assert_array_equal(state.sticky, asked)
        seen += int(state.sticky.sum())
    assert seen > 100


@pytest.mark.parametrize(
    ("mode", "ball"),
    [(GameMode.CORNER, (1.0, -0.42)), (GameMode.FREE_KICK, (0.5, 0.1)), (GameMode.THROW_IN, (0.2, 0.42))],
)
@pytest.mark.parametrize("taker", [0, 1])
def test_set_pieces_start_a_match(engines, mode, ball, taker):
    """The engine moves the players: one of the taking team is at the ball, and it goes on when the ball is played."""
    sign = 1 - 2 * taker
    setup = evolve(FIVE, ball=(sign * ball[0], sign * ball[1]))
    state = engines[0].start(kick_off(setup=setup, mode=mode, taker=taker))
    assert state.mode == mode
    np.testing.assert_allclose(state.ball[:2], setup.ball, atol=0.01)
    nearest = np.linalg.norm(state.position - state.ball[:2], axis=-1).min(axis=1)
    assert nearest[taker] < 0.07 < nearest[1 - taker]
    assert engines[0].step(np.zeros(8, np.int64), np.ones(8, bool)).mode == mode
    for tick in range(15):  # an action that is repeated is a button that is held, which delays the kick
        state = engines[0].step(np.full(8, 0 if tick else Action.SHORT_PASS), np.ones(8, bool))
    assert state.mode == GameMode.NORMAL


def test_a_saved_moment_goes_on(engines):
    """All positions are those of the moment, and the seed of the new match decides what is random."""
    first, second = engines
    first.start(kick_off(seed=6))
    play(first, 50)
    saved, moment = first.save(), first._state
    again = second.load(kick_off(seed=7), saved)
    np.testing.assert_allclose(again.position, moment.position)
    np.testing.assert_allclose(again.ball, moment.ball)
    assert not again.sticky.any()
    seventh = play(second, 40)
    second.load(kick_off(seed=7), saved)
    np.testing.assert_array_equal(seventh, play(second, 40))
    second.load(kick_off(seed=8), saved)
    assert (np.array(seventh) != np.array(play(second, 40))).any()


def test_a_saved_moment_of_other_seats_is_refused(engines):
    """The engine would end the process."""
    engines[0].start(kick_off(agents=(4, 0)))
    saved = engines[0].save()
    with pytest.raises(ContractError, match=r"5 against 5 players with 4 and 0 seats; expected .* with 4 and 4 seats"):
        engines[1].load(kick_off(), saved)


@pytest.mark.parametrize("state", [b"", bytes(40_000)])
def test_states_of_another_layout_are_refused(state):
    """Both functions check what they replace."""
    with pytest.raises(PluginError, match=r"unknown layout; expected gfootball 2\.10\.2"):
        replace_set_piece(state, GameMode.CORNER)
    with pytest.raises(PluginError, match="unknown layout"):
        replace_constants(state, state)


def test_the_built_in_ai_plays_seats_that_do_not_act(engines):
    """They take no actions, and their players move."""
    before = engines[0].start(kick_off(seed=3))
    for _ in range(30):
        after = engines[0].step(np.full(8, Action.TOP), np.arange(8) < 4)
    moved = np.abs(after.position - before.position)[1, 1:].max(axis=-1)
    assert (moved > 0.005).any()
    assert not after.sticky[4:].any()


def test_the_engine_follows_the_ball_for_one_seat_a_team():
    """The seat of a team has a player of the team, another one after a while."""
    pytest.importorskip("gfootball_engine", reason="the football engine is not installed", exc_type=ImportError)
    engine = Engine(seat_players(FIVE, "active"), follows_ball=True)
    engine.start(kick_off(agents=(1, 1)))
    rng = np.random.default_rng(0)
    seen = np.array([engine.step(rng.integers(9, 13, size=2), np.ones(2, bool)).controlled for _ in range(150)])
    assert seen.min() >= -1
    assert seen.max() <= 4
    assert all(len(np.unique(column)) > 1 for column in seen.T)


def test_closed_engines_leave_their_game_to_others():
    """The engine never frees the memory of a game, so processes that make many environments would grow."""
    pytest.importorskip("gfootball_engine", reason="the football engine is not installed", exc_type=ImportError)
    first = Engine(seat_players(FIVE, "all"), follows_ball=False)
    first.start(kick_off(seed=5))
    expected = play(first, 20)
    game = first._game
    first.start(kick_off(seed=6, mode=GameMode.CORNER))
    first.close()
    first.close()
    second = Engine(seat_players(FIVE, "all"), follows_ball=False)
    third = Engine(seat_players(FIVE, "all"), follows_ball=False)
    assert second._game is game
    assert third._game is not game
    second.start(kick_off(seed=5))
    np.testing.assert_array_equal(expected, play(second, 20))
    second.close()
    third.close()


def test_directions_turn_by_180_degrees():
    """The third action of the first team is the seventh of the other one."""
    assert TURNED_ACTIONS.tolist() == [0, 5, 6, 7, 8, 1, 2, 3, 4, *range(9, 19)]


@pytest.mark.parametrize("name", SETUPS)
def test_a_missing_engine_is_one_line(monkeypatch, name):
    """It states what to install, for all scenarios."""
    from ludus_football.game import make_game

    load_library.cache_clear()
    monkeypatch.setitem(sys.modules, "gfootball_engine", None)
    with pytest.raises(PluginError, match=r"gfootball_engine.*README of ludus-football lists") as caught:
        make_game(scenario=name)
    assert isinstance(caught.value.__cause__, ImportError)
    monkeypatch.undo()
    load_library.cache_clear()


def test_the_engine_alone_is_what_the_environment_is_compared_with():
    """It plays matches with random actions, one after another."""
    pytest.importorskip("gfootball_engine", reason="the football engine is not installed", exc_type=ImportError)
    library = make_library(FootballConfig(scenario="1v1", max_ticks=5))
    for _ in range(12):
        library.choose()
        library.advance()
    assert library._matches == 3
    assert "1v1" in library.description
    library.close()
