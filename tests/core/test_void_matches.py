"""A match that its environment loses counts nowhere, is played again, and leaves no wrong decision."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus._sampling.match_engine import MatchEngine
from ludus._sampling.match_state import SeatTotals
from ludus._sampling.recorder import Recorder
from ludus._sampling.segment_layout import SegmentLayout
from ludus.environment import Role

ROLE = Role(
    name="player",
    observation_space=spaces.Box(0, 1e9, (1,), np.float32),
    action_space=spaces.Discrete(5),
    teams=(0,),
)
ONE = {"player": (0,)}


@pytest.fixture
def play(scripted, logging_actor, fixture_of):
    """Return a function that plays matches of which some steps lose one, and returns game, actor and results."""

    def make(void_steps, *, num_matches=1, matches=2):
        game = scripted(ONE, num_matches, length=lambda row: 3)
        step, number = game.step, 0

        def voiding_step(actions):
            nonlocal number
            tick = step(actions)
            number += 1
            void = np.zeros(num_matches, bool)
            if number in void_steps:
                void[0] = True
                game.clock[0] = -1
                tick = evolve(tick, terminated=tick.terminated & ~void, void=void)
                for role in tick.roles.values():
                    role.acting[0], role.reward[0] = False, 0
            return evolve(tick, void=void, elapsed_ticks=np.full(num_matches, 4, np.int32))

        game.step = voiding_step
        actor, results = logging_actor(0), []
        engine = MatchEngine(environment=game, resolve=lambda *_: (actor, 0), on_results=results.append)
        engine.add_fixture(fixture_of("a", matches=matches))
        while engine.step():
            assert number < 100
        return game, actor, results

    return make


@pytest.mark.parametrize("void_steps", [(), (1,), (2, 3), (3,)])
def test_a_void_match_is_played_again_with_its_seed(void_steps, play):
    """Every match of the fixture has one result, whatever was lost before."""
    game, _, results = play(void_steps)
    assert np.concatenate([part["number"] for part in results]).tolist() == [0, 1]
    assert np.concatenate([part["ticks"] for part in results]).tolist() == [3, 3]
    seeds = [seed for _, seed, _ in game.resets]
    assert len(set(seeds)) == 2
    assert seeds == [seeds[0]] * (1 + len(void_steps)) + [seeds[-1]]


def test_other_matches_go_on(play):
    """The results of both match indices are complete."""
    _, _, results = play((2,), num_matches=2, matches=4)
    assert sorted(np.concatenate([part["number"] for part in results]).tolist()) == [0, 1, 2, 3]


def make_recorder():
    """Return a recorder of one trajectory."""
    return Recorder(SegmentLayout.for_role(ROLE, fields=(), decisions=6), 1)


def decide(recorder, value):
    """Assign a reward to the last decision, and record another one."""
    recorder.assign_rewards(np.array([0]), reward=np.array([value], np.float32), elapsed_ticks=np.array([2]))
    entry = {"observation/obs": np.array([[value]], np.float32), "action": np.array([[1]])}
    recorder.add_decisions(np.array([0]), entry, version=1)
    if recorder.full:
        return [recorder.flush()]
    return []


def end(recorder, *, terminated):
    """End the match of the trajectory: by its rules, or void."""
    flags = np.array([terminated]), np.array([False])
    recorder.end_trajectories(
        np.array([0]),
        reward=np.ones(1, np.float32),
        elapsed_ticks=np.array([1]),
        terminated=flags[0],
        truncated=flags[1],
    )
    recorder.close_trajectories(np.array([0]))


def test_the_decision_before_the_loss_bootstraps():
    """The last decision is dropped; its observation stays, as that of a truncated match."""
    recorder = make_recorder()
    recorder.open_trajectories(1)
    for value in (1.0, 2.0, 3.0):
        decide(recorder, value)
    end(recorder, terminated=False)
    batch = recorder.flush()
    assert batch.decided[:3, 0].tolist() == [True, True, False]
    assert batch.truncated[:3, 0].tolist() == [False, True, False]
    assert batch.reward[:2, 0].tolist() == [2.0, 3.0]
    assert batch.observation["obs"][2, 0, 0] == 3.0


def test_a_single_decision_leaves_nothing():
    """The next match begins where it was."""
    recorder = make_recorder()
    recorder.open_trajectories(1)
    decide(recorder, 1.0)
    end(recorder, terminated=False)
    recorder.open_trajectories(1)
    decide(recorder, 5.0)
    end(recorder, terminated=True)
    batch = recorder.flush()
    assert batch.length[0] == 1
    assert batch.observation["obs"][0, 0, 0] == 5.0
    assert batch.terminated[0, 0]


def test_a_match_without_a_decision_of_the_seat_leaves_nothing():
    """There is nothing to drop."""
    recorder = make_recorder()
    recorder.open_trajectories(1)
    end(recorder, terminated=False)
    decide(recorder, 1.0)
    end(recorder, terminated=True)
    assert recorder.flush().length[0] == 1


@settings(max_examples=80, deadline=None)
@given(matches=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=8))
def test_all_other_decisions_are_recorded_once(matches):
    """Of every match the decisions in their order, without the last one of a void match."""
    recorder, blocks, expected, value = make_recorder(), [], [], 0
    for count, is_void in matches:
        recorder.open_trajectories(1)
        for _ in range(count):
            value += 1
            blocks += decide(recorder, float(value))
            expected.append(float(value))
        if is_void and count:
            expected.pop()
        end(recorder, terminated=not is_void)
        if recorder.full:
            blocks.append(recorder.flush())
    blocks.append(recorder.flush())
    found = []
    for block in blocks:
        for at in range(int(block.length[0]) if block.length.size else 0):
            if block.decided[at, 0]:
                found.append(float(block.observation["obs"][at, 0, 0]))
                assert block.elapsed_ticks[at, 0] > 0
    assert found == expected


def test_elapsed_ticks_are_those_of_the_game(scripted):
    """A step may advance the matches by different numbers of ticks."""
    game = scripted(ONE, 2)
    totals = SeatTotals(game.spec, 2)
    tick = game.reset(np.zeros(2, np.uint64))
    totals.add(evolve(tick, elapsed_ticks=np.array([3, 0], np.int32)))
    totals.add(tick)
    seats = np.arange(2)
    assert totals.since_decision(totals.roles[0], seats, seats).elapsed_ticks.tolist() == [4, 1]


@pytest.mark.parametrize(
    ("dropped", "observations", "rewards", "ticks"),
    [
        ((), [1, 2, 3], [2, 3, 4], [2, 2, 2]),
        ((2,), [1, 3], [2 + 3, 4], [4, 2]),
        ((1,), [2, 3], [3, 4], [2, 2]),
        ((1, 2), [3], [4], [2]),
        ((3,), [1, 2], [2, 3 + 4], [2, 4]),
        ((2, 3), [1], [2 + 3 + 4], [6]),
        ((1, 2, 3), [], [], []),
    ],
)
def test_dropped_decisions_are_withdrawn(dropped, observations, rewards, ticks):
    """Their rewards and ticks belong to the decision before, which ends with the match if it is the last one."""
    recorder, player = make_recorder(), np.array([0])
    recorder.open_trajectories(1)
    for value in (1, 2, 3, 4):
        reward, elapsed = np.array([value], np.float32), np.array([2], np.int32)
        if value - 1 in dropped:
            before = recorder.withdraw_decisions(player)
            reward, elapsed = reward + before[0], elapsed + before[1]
        if value == 4:
            over = {"terminated": np.array([True]), "truncated": np.array([False])}
            recorder.end_trajectories(player, reward=reward, elapsed_ticks=elapsed, **over)
            continue
        recorder.assign_rewards(player, reward=reward, elapsed_ticks=elapsed)
        entry = {"observation/obs": np.array([[value]], np.float32), "action": np.array([[1]])}
        recorder.add_decisions(player, entry, version=1)
    batch = recorder.flush()
    length = int(batch.length[0]) if batch.length.size else 0
    assert batch.observation["obs"][:length, :1, 0].ravel().tolist() == observations
    assert batch.reward[:length, :1].ravel().tolist() == rewards
    assert batch.elapsed_ticks[:length, :1].ravel().tolist() == ticks
    assert batch.terminated[:length, :1].ravel().tolist() == [False] * (length - 1) + [True] * (length > 0)


def test_a_decision_of_an_earlier_block_is_not_reached():
    """It was sent already, with the observation of the withdrawn one as its bootstrap entry."""
    recorder, player = make_recorder(), np.array([0])
    recorder.open_trajectories(1)
    for value in (1.0, 2.0):
        decide(recorder, value)
    first = recorder.flush()
    assert first.observation["obs"][:2, 0, 0].tolist() == [1.0, 2.0]
    assert [array.tolist() for array in recorder.withdraw_decisions(player)] == [[0.0], [0]]
    decide(recorder, 3.0)
    end(recorder, terminated=True)
    second = recorder.flush()
    assert second.observation["obs"][: int(second.length[0]), 0, 0].tolist() == [3.0]
