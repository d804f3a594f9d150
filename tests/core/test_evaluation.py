"""Fixtures are played to their end in one process."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from ludus._sampling.evaluation import play_matches, play_out
from ludus.errors import ContractError


class ConstantAgent:
    """Plays its number."""

    def __init__(self, number):
        self.number = number

    def reset(self, seat_ids):
        pass

    def act(self, observation, *, action_mask, seat_ids, rng):
        return np.full((seat_ids.size, 1), self.number, np.int64)


def test_every_seating_is_played_on_the_same_seeds(scripted):
    """Each agent decides in its seats."""
    game = scripted({"player": (0, 1)}, 4, reward=lambda now, role, seat: 1.0 - seat)
    a, b = ConstantAgent(1), ConstantAgent(2)
    played = play_matches(game, [(a, b), (b, a)], matches=5, seed=3)
    assert [arrays["number"].size for arrays in played] == [5, 5]
    assert all(arrays["outcome"].tolist() == [[1, 0]] * 5 for arrays in played)
    assert all(arrays["returns"].tolist() == [[3, 0]] * 5 for arrays in played)
    assert all(arrays["ticks"].tolist() == [3] * 5 for arrays in played)
    seeds = sorted(seed for _, seed, _ in game.resets)
    assert seeds[::2] == seeds[1::2]
    assert {tuple(row) for actions in game.received for row in actions["player"][..., 0].tolist()} >= {(1, 2), (2, 1)}


def test_an_agent_can_have_several_seats(scripted):
    """Of any role."""
    game, observed = scripted({"cat": (0,), "mouse": (1, 1)}, 2), []
    mouse = ConstantAgent(2)
    mouse.act = lambda observation, *, seat_ids, **more: (
        observed.append(seat_ids.size) or np.full((seat_ids.size, 1), 2)
    )
    play_matches(game, [(ConstantAgent(1), mouse, mouse)], matches=4, seed=3)
    assert set(observed) == {4}
    assert all((actions["cat"][0, 0, 0], *actions["mouse"][0, :, 0]) == (1, 2, 2) for actions in game.received)


def test_an_environment_without_an_end_is_an_error(scripted, fixture_of, logging_actor, monkeypatch):
    """The message suggests a time limit."""
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 10**9)
    monkeypatch.setattr("ludus._sampling.match_engine.MatchEngine.step", lambda play: True)
    with pytest.raises(ContractError, match="'scripted': no match ended for a million ticks"):
        play_out(game, [fixture_of("ab")], lambda fixture, seat: (logging_actor(), 0))


def test_a_stopped_evaluation_has_no_results(scripted, fixture_of, logging_actor):
    """Short matches would be overrepresented among the matches that have ended."""
    ticks = iter([False, False, False, True])
    game = scripted({"player": (0, 1)}, 2, length=lambda row: 2 if row == 0 else 10**9)
    played = play_out(game, [fixture_of("ab")], lambda fixture, seat: (logging_actor(), 0), stop=lambda: next(ticks))
    assert played == {}
    assert len(game.resets) > 2  # one match had ended


def test_at_the_end_of_the_time_the_first_matches_of_every_fixture_count(
    scripted, fixture_of, logging_actor, monkeypatch
):
    """Match 0 has ended in both fixtures, match 1 in one of them; match 3 has ended, but match 2 has not."""
    clock = iter(range(1000))
    monkeypatch.setattr("ludus._sampling.evaluation.time.monotonic", lambda: next(clock))
    lengths = {0: 2, 1: 2, 2: 10**9, 3: 2, 4: 2, 5: 10**9, 6: 10**9, 7: 10**9}
    game = scripted({"player": (0, 1)}, 8, length=lambda row: lengths[row])
    fixtures = [fixture_of("ab", matches=4, number=1), fixture_of("ba", matches=4, number=2)]
    played = play_out(game, fixtures, lambda fixture, seat: (logging_actor(), 0), end_s=20)
    assert sorted(zip(played["fixture"].tolist(), played["number"].tolist(), strict=True)) == [(1, 0), (2, 0)]
    assert {array.shape[0] for array in played.values()} == {2}


def test_without_an_ended_match_the_time_limit_leaves_no_results(scripted, fixture_of, logging_actor):
    """The caller then has nothing to record."""
    game = scripted({"player": (0, 1)}, 2, length=lambda row: 10**9)
    assert play_out(game, [fixture_of("ab")], lambda fixture, seat: (logging_actor(), 0), end_s=0.0) == {}


def test_returns_are_statistics_where_they_are_the_score(scripted, fixture_of, logging_actor):
    """Also in a game of one team; otherwise they are not logged."""
    for teams, score, logged in (((0, 1), "outcome", False), ((0, 1), "return", True), ((0, 0), "outcome", True)):
        game = scripted({"player": teams}, 1, reward=lambda now, role, seat: 1.0 + seat)
        game.spec = attrs.evolve(game.spec, score=score)
        played = play_out(game, [fixture_of("ab", matches=2)], lambda fixture, seat: (logging_actor(), 0))
        assert ("statistic/player/return" in played) == logged
        if logged:
            assert played["statistic/player/return"].tolist() == [[3, 6], [3, 6]]


def test_progress_is_reported_when_matches_end(scripted, fixture_of, logging_actor):
    """With the numbers of ended and of all matches."""
    game, calls = scripted({"player": (0, 1)}, 2), []
    actor = logging_actor()
    play_out(
        game, [fixture_of("ab", matches=4)], lambda fixture, seat: (actor, 0), on_progress=lambda *n: calls.append(n)
    )
    assert calls == [(2, 4), (4, 4)]
