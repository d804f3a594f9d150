"""The opponents' values of a position are recorded with the decisions that led to it, and with no others."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from ludus._sampling.actors import AgentActor, LiveActor, PolicyAgent
from ludus._sampling.match_engine import MatchEngine
from ludus._sampling.opponents import StackActor
from ludus._sampling.recorder import Recorder
from ludus._sampling.segment_layout import SegmentLayout
from ludus.agent import EvaluatingAgent
from ludus.algorithm import Decision
from ludus.environment import Role
from ludus.interface import Identity
from ludus.segment import Field

ROLE = Role(
    name="player",
    observation_space=spaces.Box(0, 1e9, (2,), np.float32),
    action_space=spaces.Discrete(4),
    teams=(0, 1),
)
FIELD = Field("opponent_value", source="opponents")
LOWEST = Field("opponent_lowest", source="opponent-minima")


class ClockPolicy:
    """A policy whose value is the tick of the match times a factor; the last observation leaf holds the tick."""

    def __init__(self, factor=1.0):
        self.factor = factor
        self.privileged = []

    def initial_state(self, rows):
        return {}

    def load(self, weights):
        pass

    def act(self, inputs, *, rng, deterministic=False):
        self.privileged.append(sorted(inputs.privileged))
        ticks = inputs.observation["obs"][:, 1]
        return Decision(action=np.zeros((len(ticks), 1), np.int64), value=self.factor * ticks)


class Bot:
    """A scripted agent that evaluates nothing."""

    def reset(self, seat_ids):
        pass

    def act(self, observation, *, action_mask, seat_ids, rng):
        return np.zeros((len(seat_ids), 1), np.int64)


class EvaluatingBot(Bot):
    """A bot whose value is ten times the tick."""

    def act_and_evaluate(self, observation, *, action_mask, seat_ids, rng):
        return self.act(observation, action_mask=action_mask, seat_ids=seat_ids, rng=rng), 10 * observation["obs"][:, 1]


def make_observer(*, decisions=8, seat_ids=8, factor=1.0):
    """Return a live actor that records its opponents' values."""
    actor = LiveActor(
        player="main",
        policy=ClockPolicy(factor),
        interface=None,
        recorder=Recorder(SegmentLayout.for_role(ROLE, fields=(FIELD, LOWEST), decisions=decisions), seat_ids),
        rng=np.random.default_rng(0),
        num_seats=seat_ids,
    )
    actor.load({}, 1)
    return actor


def make_bot_actor(agent):
    """Return the actor of an agent."""
    return AgentActor(agent, np.random.default_rng(0))


def recorded_values(game, fixture, actors, *, match=0):
    """Play a fixture with the participant "a" as the observer; return its recorded values by decision of a match."""
    batch = recorded_block(game, fixture, actors)
    return batch.extras["opponent_value"][: batch.length[match], match].tolist()


def recorded_block(game, fixture, actors):
    """Play a fixture with the participant "a" as the observer; return its only block."""
    engine = MatchEngine(
        environment=game,
        resolve=lambda fixture, seat: (actors[fixture.participants[seat]], 0),
        on_results=lambda arrays: None,
        observers=[actor for actor in actors.values() if isinstance(actor, LiveActor)],
    )
    engine.add_fixture(fixture)
    while engine.step():
        pass
    (batch,) = [*actors["a"].blocks, actors["a"].recorder.flush()]
    return batch


def recorded_values_by_block(game, fixture, actor):
    """Play a fixture against an evaluating bot; return the values in all blocks of the first trajectory."""
    engine = MatchEngine(
        environment=game,
        resolve=lambda fixture, seat: (
            {"a": actor, "b": make_bot_actor(EvaluatingBot())}[fixture.participants[seat]],
            0,
        ),
        on_results=lambda arrays: None,
        observers=[actor],
    )
    engine.add_fixture(fixture)
    while engine.step():
        pass
    batches = [*actor.blocks, actor.recorder.flush()]
    return np.concatenate([batch.extras["opponent_value"][: batch.length[0], 0] for batch in batches])


def test_in_turns_the_value_is_from_the_opponents_next_turn(scripted, fixture_of):
    """Decisions at ticks 0, 2 and 4 get values of ticks 1 and 3; the match ends after the last one."""
    game = scripted({"player": (0, 1)}, 1, acting=lambda now: [("player", now % 2)], length=lambda row: 5)
    got = recorded_values(
        game, fixture_of("ab", matches=1), {"a": make_observer(), "b": make_bot_actor(EvaluatingBot())}
    )
    np.testing.assert_equal(got, [10, 30, np.nan])


def test_with_simultaneous_moves_the_value_is_from_the_next_tick(scripted, fixture_of):
    """Although the seat decides on that tick itself."""
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 4)
    got = recorded_values(
        game, fixture_of("ab", matches=1), {"a": make_observer(), "b": make_bot_actor(EvaluatingBot())}
    )
    np.testing.assert_equal(got, [10, 20, 30, np.nan])


def test_the_first_value_after_a_decision_is_recorded(scripted, fixture_of):
    """An opponent may decide several times before the seat does, or not at all."""
    acting_seats = {0: [0, 1], 1: [1], 2: [1], 3: [0], 4: [0, 1]}
    game = scripted(
        {"player": (0, 1)}, 1, acting=lambda now: [("player", seat) for seat in acting_seats[now]], length=lambda row: 5
    )
    got = recorded_values(
        game, fixture_of("ab", matches=1), {"a": make_observer(), "b": make_bot_actor(EvaluatingBot())}
    )
    np.testing.assert_equal(got, [10, 40, np.nan])


def test_decisions_before_one_value_share_it(scripted, fixture_of):
    """[Minimax §4.2]; decisions after the last value get none."""
    acting_seats = {0: [0], 1: [0], 2: [0], 3: [1], 4: [0], 5: [0, 1], 6: [0]}
    game = scripted(
        {"player": (0, 1)}, 1, acting=lambda now: [("player", seat) for seat in acting_seats[now]], length=lambda row: 7
    )
    got = recorded_values(
        game, fixture_of("ab", matches=1), {"a": make_observer(), "b": make_bot_actor(EvaluatingBot())}
    )
    np.testing.assert_equal(got, [30, 30, 30, 50, np.nan, np.nan])


def test_a_value_is_not_recorded_in_an_earlier_match(scripted, fixture_of):
    """The decisions at ticks 2 and 3 of the first match of the trajectory stay without a value."""
    acting_seats = {0: [0], 1: [1], 2: [0], 3: [0]}
    game = scripted(
        {"player": (0, 1)}, 1, acting=lambda now: [("player", seat) for seat in acting_seats[now]], length=lambda row: 4
    )
    got = recorded_values(
        game, fixture_of("ab", matches=2), {"a": make_observer(), "b": make_bot_actor(EvaluatingBot())}
    )
    np.testing.assert_equal(got, [10, np.nan, np.nan] * 2)


@pytest.mark.parametrize("decisions", [2, 3])
def test_a_value_is_not_recorded_in_sent_blocks(scripted, fixture_of, decisions):
    """Only the decision that is carried over can still get one."""
    acting_seats = {0: [0], 1: [0], 2: [0], 3: [0], 4: [1], 5: [0], 6: [1]}
    game = scripted(
        {"player": (0, 1)}, 1, acting=lambda now: [("player", seat) for seat in acting_seats[now]], length=lambda row: 7
    )
    actor = make_observer(decisions=decisions)
    got = recorded_values_by_block(game, fixture_of("ab", matches=1), actor)
    assert got.tolist() == pytest.approx(
        {2: [np.nan] * 2 + [40] * 2, 3: [np.nan] * 3 + [40]}[decisions] + [60], nan_ok=True
    )


def test_the_value_is_the_mean_over_opponents(scripted, fixture_of):
    """Opponents without a value and team mates do not count."""
    game = scripted({"player": (0, 0, 1, 1, 1)}, 1, length=lambda row: 3)
    actors = {
        "a": make_observer(),
        "m": make_bot_actor(PolicyAgent(ClockPolicy(99.0), 5)),
        "b": make_bot_actor(EvaluatingBot()),
        "c": make_bot_actor(Bot()),
    }
    actors["d"] = make_bot_actor(PolicyAgent(ClockPolicy(4.0), 5))
    np.testing.assert_equal(recorded_values(game, fixture_of("ambcd", matches=1), actors), [7, 14, np.nan])


def test_in_turns_observers_get_each_others_values(scripted, fixture_of):
    """A waiting observer gets the value of the deciding one."""
    game = scripted({"player": (0, 1)}, 1, acting=lambda now: [("player", now % 2)], length=lambda row: 5)
    actors = {"a": make_observer(), "b": make_observer(factor=10.0)}
    np.testing.assert_equal(recorded_values(game, fixture_of("ab", matches=1), actors), [10, 30, np.nan])
    theirs = actors["b"].recorder.flush()
    np.testing.assert_equal(theirs.extras["opponent_value"][: theirs.length[0], 0].tolist(), [2, 4])


def test_in_turns_both_seats_of_self_play_get_values(scripted, fixture_of):
    """From the same policy."""
    game = scripted({"player": (0, 1)}, 1, acting=lambda now: [("player", now % 2)], length=lambda row: 5)
    first, second = (
        recorded_values(game, fixture_of("aa", matches=1), {"a": make_observer()}, match=seat) for seat in (0, 1)
    )
    np.testing.assert_equal(first, [1, 3, np.nan])
    np.testing.assert_equal(second, [2, 4])


def test_simultaneous_observers_do_not_get_each_others_values(scripted, fixture_of):
    """The first to decide could not get the value of the second."""
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 4)
    got = recorded_values(game, fixture_of("ab", matches=1), {"a": make_observer(), "b": make_observer(factor=10.0)})
    np.testing.assert_equal(got, [np.nan] * 4)


def test_later_values_of_simultaneous_observers_are_not_recorded(scripted, fixture_of):
    """At tick 3 an observer evaluates the result of tick 2, not of ticks 0 and 1."""
    acting_seats = {0: [0], 1: [0], 2: [0, 1], 3: [1]}
    game = scripted(
        {"player": (0, 1)}, 1, acting=lambda now: [("player", seat) for seat in acting_seats[now]], length=lambda row: 4
    )
    got = recorded_values(game, fixture_of("ab", matches=1), {"a": make_observer(), "b": make_observer(factor=10.0)})
    np.testing.assert_equal(got, [np.nan, np.nan, 30])


def test_observers_without_values_leave_decisions_waiting(scripted, fixture_of):
    """At tick 1 an observer without values decides; the first value is that of the bot at tick 2."""
    acting = {0: [0], 1: [1], 2: [2], 3: [0]}
    game = scripted(
        {"player": (0, 1, 1)}, 1, acting=lambda now: [("player", seat) for seat in acting[now]], length=lambda row: 4
    )
    actors = {"a": make_observer(), "b": make_observer(), "c": make_bot_actor(EvaluatingBot())}
    actors["b"].policy.factor = np.nan
    np.testing.assert_equal(recorded_values(game, fixture_of("abc", matches=1), actors), [20, np.nan])


def test_waiting_observers_get_the_mean_of_observers_and_others(scripted, fixture_of):
    """At tick 1: an observer with value 4 and a bot with value 10."""
    acting = {0: [0], 1: [1, 2], 2: [0]}
    game = scripted(
        {"player": (0, 1, 1)}, 1, acting=lambda now: [("player", seat) for seat in acting[now]], length=lambda row: 3
    )
    actors = {"a": make_observer(), "b": make_observer(factor=4.0), "c": make_bot_actor(EvaluatingBot())}
    np.testing.assert_equal(recorded_values(game, fixture_of("abc", matches=1), actors), [7, np.nan])


def test_a_decision_that_is_carried_over_keeps_its_value(scripted, fixture_of):
    """Blocks are full after every second decision."""
    actor = make_observer(decisions=2)
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 5)
    got = recorded_values_by_block(game, fixture_of("ab", matches=1), actor)
    np.testing.assert_equal(got.tolist(), [10, 20, 30, 40, np.nan])


def test_values_of_other_matches_are_not_recorded(scripted, fixture_of):
    """Two matches of different length; the second opponent has no values."""
    game = scripted({"player": (0, 1)}, 2, length=lambda row: 2 + row)
    actor, judge = make_observer(), make_bot_actor(EvaluatingBot())
    engine = MatchEngine(
        environment=game,
        resolve=lambda fixture, seat: (
            {"a": actor, "b": judge, "c": make_bot_actor(Bot())}[fixture.participants[seat]],
            0,
        ),
        on_results=lambda arrays: None,
        matches_per_lane=1,
        observers=[actor],
    )
    engine.add_fixture(fixture_of("ab", matches=1))
    engine.add_fixture(fixture_of("ac", number=2, matches=1))
    while engine.step():
        pass
    batch = actor.recorder.flush()
    np.testing.assert_equal(batch.extras["opponent_value"][:2, 0].tolist(), [10, np.nan])
    assert np.isnan(batch.extras["opponent_value"][:3, 1]).all()


@pytest.mark.parametrize("observed", [True, False])
def test_frozen_critics_get_privileged_leaves_for_observers_only(scripted, fixture_of, observed):
    """Without observers their values would cost time for nothing."""
    game, policy = scripted({"player": (0, 1)}, 1), ClockPolicy()
    plain_tick = game._tick

    def tick(ended, *, stepped):
        made = plain_tick(ended, stepped=stepped)
        made.roles["player"].privileged = {"secret": np.ones((1, 2, 1), np.float32)}
        return made

    game._tick = tick
    frozen = StackActor(policy=policy, interface=None, rng=np.random.default_rng(0), num_seats=2)
    frozen.load({})
    actors = {"a": make_bot_actor(Bot()), "b": frozen}
    readers = []
    if observed:
        actors["a"] = LiveActor(
            player="main",
            policy=ClockPolicy(),
            interface=None,
            recorder=Recorder(
                SegmentLayout.for_role(
                    Role(
                        name="player",
                        observation_space=ROLE.observation_space,
                        action_space=ROLE.action_space,
                        teams=(0, 1),
                        privileged_space=spaces.Dict({"secret": spaces.Box(0, 1, (1,), np.float32)}),
                    ),
                    fields=(FIELD,),
                    decisions=8,
                ),
                2,
            ),
            rng=np.random.default_rng(0),
            num_seats=2,
        )
        actors["a"].load({}, 1)
        readers = [actors["a"]]
    engine = MatchEngine(
        environment=game,
        resolve=lambda fixture, seat: (actors[fixture.participants[seat]], 0),
        on_results=lambda arrays: None,
        observers=readers,
    )
    engine.add_fixture(fixture_of("ab", matches=1))
    while engine.step():
        pass
    assert policy.privileged == [["secret"] if observed else []] * 3
    if observed:
        got = actors["a"].recorder.flush().extras["opponent_value"][:3, 0].tolist()
        np.testing.assert_equal(got, [1, 2, np.nan])


# -- the lowest values of opponents ----------------------------------------------------------------------------


class BoundedClockPolicy(ClockPolicy):
    """A clock whose lowest value is minus its factor, for every model."""

    def evaluate(self, inputs):
        raise NotImplementedError

    def lowest_values(self, rows, spans):
        assert sum(span.stop - span.start for span in spans) in (0, rows)
        return np.full(rows, -self.factor, np.float32)


def frozen(policy, interface=None):
    """Return the actor of a frozen model."""
    actor = StackActor(policy=policy, interface=interface, rng=np.random.default_rng(0), num_seats=2)
    actor.load({})
    return actor


SPARSE = {"sparse_rewards": True, "reward_range": (-2.0, 2.0)}


@pytest.mark.parametrize(
    ("make_opponent", "spec", "expected"),
    [
        (lambda: frozen(BoundedClockPolicy(5.0)), {}, -5),
        (lambda: frozen(ClockPolicy(5.0)), {}, 0),
        (lambda: make_bot_actor(EvaluatingBot()), {}, 0),
        (lambda: frozen(BoundedClockPolicy(5.0)), SPARSE, -2),
        (lambda: make_bot_actor(EvaluatingBot()), SPARSE, -2),
        (lambda: frozen(BoundedClockPolicy(5.0), Identity()), SPARSE, -5),
        (lambda: frozen(BoundedClockPolicy(5.0)), {**SPARSE, "sparse_rewards": False}, -5),
        (lambda: frozen(BoundedClockPolicy(5.0)), {**SPARSE, "reward_range": None}, -5),
    ],
    ids=[
        "the policy's",
        "unknown of a policy",
        "unknown of a bot",
        "the game's",
        "the game's of a bot",
        "an interface may scale rewards",
        "not sparse",
        "unknown range",
    ],
)
def test_the_lowest_value_of_the_opponent_is_recorded(scripted, fixture_of, make_opponent, spec, expected):
    """That of a game of sparse rewards, else that of the policy, else 0; NaN without a value."""
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 3)
    game.spec = attrs.evolve(game.spec, **spec)
    observer = make_observer()
    recorded = recorded_block(game, fixture_of("ab", matches=1), {"a": observer, "b": make_opponent()})
    np.testing.assert_equal(recorded.extras["opponent_lowest"][:3, 0].tolist(), [expected, expected, np.nan])


def test_the_lowest_value_is_the_mean_over_opponents(scripted, fixture_of):
    """-4 of a policy, and 0 of a bot that keeps none: as for the values, the mean."""
    game = scripted({"player": (0, 1, 1)}, 1, length=lambda row: 2)
    actors = {
        "a": make_observer(),
        "b": frozen(BoundedClockPolicy(4.0)),
        "c": make_bot_actor(EvaluatingBot()),
    }
    recorded = recorded_block(game, fixture_of("abc", matches=1), actors)
    np.testing.assert_equal(recorded.extras["opponent_value"][:2, 0].tolist(), [7, np.nan])
    np.testing.assert_equal(recorded.extras["opponent_lowest"][:2, 0].tolist(), [-2, np.nan])


def test_policy_agents_evaluate_behind_an_interface():
    """The value is NaN if the policy computes none."""
    observation, seat_ids = {"obs": np.array([[0, 3], [0, 4]], np.float32)}, np.arange(2)
    more = {"action_mask": None, "seat_ids": seat_ids, "rng": np.random.default_rng(0)}
    agent = PolicyAgent(ClockPolicy(10), 2, interface=Identity())
    assert isinstance(agent, EvaluatingAgent)
    assert agent.act_and_evaluate(observation, **more)[1].tolist() == [30, 40]
    assert np.isnan(
        PolicyAgent(ValuelessPolicy(), 2, interface=Identity()).act_and_evaluate(observation, **more)[1]
    ).all()


class ValuelessPolicy(ClockPolicy):
    """A policy whose decisions have no value."""

    def act(self, inputs, **options):
        return Decision(action=super().act(inputs, **options).action)
