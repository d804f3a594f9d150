"""What opponents think of a position reaches the decision that led there, and no other."""

from __future__ import annotations

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


class Clock:
    """A policy whose value is the tick of the match times a factor; the last observation leaf tells the tick."""

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
    """A scripted agent that expects ten times the tick, or says nothing of it."""

    def reset(self, seat_ids):
        pass

    def act(self, observation, *, action_mask, seat_ids, rng):
        return np.zeros((len(seat_ids), 1), np.int64)


class Judge(Bot):
    """One that evaluates."""

    def act_and_evaluate(self, observation, *, action_mask, seat_ids, rng):
        return self.act(observation, action_mask=action_mask, seat_ids=seat_ids, rng=rng), 10 * observation["obs"][:, 1]


def reader(*, decisions=8, seat_ids=8, factor=1.0):
    """Return a live actor that learns from its opponents' values."""
    actor = LiveActor(
        player="main",
        policy=Clock(factor),
        interface=None,
        recorder=Recorder(SegmentLayout.for_role(ROLE, fields=(FIELD,), decisions=decisions), seat_ids),
        rng=np.random.default_rng(0),
        num_seats=seat_ids,
    )
    actor.load({}, 1)
    return actor


def bot(agent):
    """Return an agent in a seat."""
    return AgentActor(agent, np.random.default_rng(0))


def noted(game, fixture, actors, *, match=0):
    """Play a fixture with the participant "a" as the reader; returns its notes by decision of a stream."""
    play = MatchEngine(
        environment=game,
        resolve=lambda fixture, seat: (actors[fixture.participants[seat]], 0),
        on_results=lambda arrays: None,
        observers=[actor for actor in actors.values() if isinstance(actor, LiveActor)],
    )
    play.add_fixture(fixture)
    while play.step():
        pass
    (batch,) = [*actors["a"].blocks, actors["a"].recorder.flush()]
    return batch.extras["opponent_value"][: batch.length[match], match].tolist()


def noted_in_blocks(game, fixture, actor):
    """Play a fixture against a bot that evaluates; returns the notes in all blocks of the first stream."""
    play = MatchEngine(
        environment=game,
        resolve=lambda fixture, seat: ({"a": actor, "b": bot(Judge())}[fixture.participants[seat]], 0),
        on_results=lambda arrays: None,
        observers=[actor],
    )
    play.add_fixture(fixture)
    while play.step():
        pass
    batches = [*actor.blocks, actor.recorder.flush()]
    return np.concatenate([batch.extras["opponent_value"][: batch.length[0], 0] for batch in batches])


def test_in_turns_it_is_the_opponents_next_turn(scripted, fixture_of):
    """Decided at ticks 0, 2 and 4, answered at 1 and 3; after the last one the match is over."""
    game = scripted({"player": (0, 1)}, 1, acting=lambda now: [("player", now % 2)], length=lambda row: 5)
    got = noted(game, fixture_of("ab", matches=1), {"a": reader(), "b": bot(Judge())})
    np.testing.assert_equal(got, [10, 30, np.nan])


def test_when_all_decide_at_once_it_is_the_next_tick(scripted, fixture_of):
    """The evaluation of the tick that a decision led to, although the seat decides on that tick itself."""
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 4)
    got = noted(game, fixture_of("ab", matches=1), {"a": reader(), "b": bot(Judge())})
    np.testing.assert_equal(got, [10, 20, 30, np.nan])


def test_the_first_answer_counts(scripted, fixture_of):
    """An opponent may decide several times before the seat does, or not at all."""
    who = {0: [0, 1], 1: [1], 2: [1], 3: [0], 4: [0, 1]}
    game = scripted(
        {"player": (0, 1)}, 1, acting=lambda now: [("player", seat) for seat in who[now]], length=lambda row: 5
    )
    got = noted(game, fixture_of("ab", matches=1), {"a": reader(), "b": bot(Judge())})
    np.testing.assert_equal(got, [10, 40, np.nan])


def test_decisions_before_one_answer_share_it(scripted, fixture_of):
    """[Minimax §4.2]: pairs are by time and need not be unique; after the last answer there is none."""
    who = {0: [0], 1: [0], 2: [0], 3: [1], 4: [0], 5: [0, 1], 6: [0]}
    game = scripted(
        {"player": (0, 1)}, 1, acting=lambda now: [("player", seat) for seat in who[now]], length=lambda row: 7
    )
    got = noted(game, fixture_of("ab", matches=1), {"a": reader(), "b": bot(Judge())})
    np.testing.assert_equal(got, [30, 30, 30, 50, np.nan, np.nan])


def test_an_answer_does_not_reach_an_earlier_match(scripted, fixture_of):
    """The decisions at ticks 2 and 3 of the first match, in the same stream, stay without."""
    who = {0: [0], 1: [1], 2: [0], 3: [0]}
    game = scripted(
        {"player": (0, 1)}, 1, acting=lambda now: [("player", seat) for seat in who[now]], length=lambda row: 4
    )
    got = noted(game, fixture_of("ab", matches=2), {"a": reader(), "b": bot(Judge())})
    np.testing.assert_equal(got, [10, np.nan, np.nan] * 2)


@pytest.mark.parametrize("decisions", [2, 3])
def test_an_answer_does_not_reach_what_has_left(scripted, fixture_of, decisions):
    """Full after every second or third decision, a block leaves with all but the one that is carried over."""
    who = {0: [0], 1: [0], 2: [0], 3: [0], 4: [1], 5: [0], 6: [1]}
    game = scripted(
        {"player": (0, 1)}, 1, acting=lambda now: [("player", seat) for seat in who[now]], length=lambda row: 7
    )
    actor = reader(decisions=decisions)
    got = noted_in_blocks(game, fixture_of("ab", matches=1), actor)
    assert got.tolist() == pytest.approx(
        {2: [np.nan] * 2 + [40] * 2, 3: [np.nan] * 3 + [40]}[decisions] + [60], nan_ok=True
    )


def test_opponents_are_averaged_and_team_mates_left_out(scripted, fixture_of):
    """Against two that evaluate and one that does not; the seat beside says 99."""
    game = scripted({"player": (0, 0, 1, 1, 1)}, 1, length=lambda row: 3)
    actors = {"a": reader(), "m": bot(PolicyAgent(Clock(99.0), 5)), "b": bot(Judge()), "c": bot(Bot())}
    actors["d"] = bot(PolicyAgent(Clock(4.0), 5))
    np.testing.assert_equal(noted(game, fixture_of("ambcd", matches=1), actors), [7, 14, np.nan])


def test_in_turns_readers_hear_of_each_other(scripted, fixture_of):
    """Whoever waits hears what the other expects as it decides."""
    game = scripted({"player": (0, 1)}, 1, acting=lambda now: [("player", now % 2)], length=lambda row: 5)
    actors = {"a": reader(), "b": reader(factor=10.0)}
    np.testing.assert_equal(noted(game, fixture_of("ab", matches=1), actors), [10, 30, np.nan])
    theirs = actors["b"].recorder.flush()
    np.testing.assert_equal(theirs.extras["opponent_value"][: theirs.length[0], 0].tolist(), [2, 4])


def test_in_turns_both_seats_of_self_play_are_told(scripted, fixture_of):
    """Of each other, by the same policy."""
    game = scripted({"player": (0, 1)}, 1, acting=lambda now: [("player", now % 2)], length=lambda row: 5)
    first, second = (noted(game, fixture_of("aa", matches=1), {"a": reader()}, match=seat) for seat in (0, 1))
    np.testing.assert_equal(first, [1, 3, np.nan])
    np.testing.assert_equal(second, [2, 4])


def test_readers_that_decide_at_once_do_not_hear_of_each_other(scripted, fixture_of):
    """Whoever decides first could not have heard the other; nobody is told what belongs to an earlier decision."""
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 4)
    got = noted(game, fixture_of("ab", matches=1), {"a": reader(), "b": reader(factor=10.0)})
    np.testing.assert_equal(got, [np.nan] * 4)


def test_what_readers_that_decided_at_once_say_later_is_not_taken_for_it(scripted, fixture_of):
    """They both decide at tick 2; at tick 3 the other speaks of where that one led, not of where tick 0 and 1 did."""
    who = {0: [0], 1: [0], 2: [0, 1], 3: [1]}
    game = scripted(
        {"player": (0, 1)}, 1, acting=lambda now: [("player", seat) for seat in who[now]], length=lambda row: 4
    )
    got = noted(game, fixture_of("ab", matches=1), {"a": reader(), "b": reader(factor=10.0)})
    np.testing.assert_equal(got, [np.nan, np.nan, 30])


def test_readers_that_say_nothing_do_not_close_what_waits(scripted, fixture_of):
    """At tick 1 a reader decides that does not evaluate; the first who does is the bot, at tick 2."""
    acting = {0: [0], 1: [1], 2: [2], 3: [0]}
    game = scripted(
        {"player": (0, 1, 1)}, 1, acting=lambda now: [("player", seat) for seat in acting[now]], length=lambda row: 4
    )
    actors = {"a": reader(), "b": reader(), "c": bot(Judge())}
    actors["b"].policy.factor = np.nan
    np.testing.assert_equal(noted(game, fixture_of("abc", matches=1), actors), [20, np.nan])


def test_who_waits_hears_readers_and_others_at_once(scripted, fixture_of):
    """The mean of both opponents at tick 1: a reader that expects 4 and a bot that expects 10."""
    acting = {0: [0], 1: [1, 2], 2: [0]}
    game = scripted(
        {"player": (0, 1, 1)}, 1, acting=lambda now: [("player", seat) for seat in acting[now]], length=lambda row: 3
    )
    actors = {"a": reader(), "b": reader(factor=4.0), "c": bot(Judge())}
    np.testing.assert_equal(noted(game, fixture_of("abc", matches=1), actors), [7, np.nan])


def test_a_decision_that_is_carried_over_takes_its_note_along(scripted, fixture_of):
    """Blocks are full after every second decision here."""
    actor = reader(decisions=2)
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 5)
    got = noted_in_blocks(game, fixture_of("ab", matches=1), actor)
    np.testing.assert_equal(got.tolist(), [10, 20, 30, 40, np.nan])


def test_matches_do_not_hear_of_each_other(scripted, fixture_of):
    """Two rows, of different length; the second opponent says nothing."""
    game = scripted({"player": (0, 1)}, 2, length=lambda row: 2 + row)
    actor, judge = reader(), bot(Judge())
    play = MatchEngine(
        environment=game,
        resolve=lambda fixture, seat: ({"a": actor, "b": judge, "c": bot(Bot())}[fixture.participants[seat]], 0),
        on_results=lambda arrays: None,
        matches_per_lane=1,
        observers=[actor],
    )
    play.add_fixture(fixture_of("ab", matches=1))
    play.add_fixture(fixture_of("ac", number=2, matches=1))
    while play.step():
        pass
    batch = actor.recorder.flush()
    np.testing.assert_equal(batch.extras["opponent_value"][:2, 0].tolist(), [10, np.nan])
    assert np.isnan(batch.extras["opponent_value"][:3, 1]).all()


@pytest.mark.parametrize("asked", [True, False])
def test_frozen_critics_see_privileged_leaves_only_for_a_reader(scripted, fixture_of, asked):
    """Their policies never do; what it costs is only paid where it is wanted."""
    game, policy = scripted({"player": (0, 1)}, 1), Clock()
    plain_tick = game._tick

    def tick(ended, *, stepped):
        made = plain_tick(ended, stepped=stepped)
        made.roles["player"].privileged = {"secret": np.ones((1, 2, 1), np.float32)}
        return made

    game._tick = tick
    frozen = StackActor(policy=policy, interface=None, rng=np.random.default_rng(0), num_seats=2)
    frozen.load({})
    actors = {"a": bot(Bot()), "b": frozen}
    readers = []
    if asked:
        actors["a"] = LiveActor(
            player="main",
            policy=Clock(),
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
    play = MatchEngine(
        environment=game,
        resolve=lambda fixture, seat: (actors[fixture.participants[seat]], 0),
        on_results=lambda arrays: None,
        observers=readers,
    )
    play.add_fixture(fixture_of("ab", matches=1))
    while play.step():
        pass
    assert policy.privileged == [["secret"] if asked else []] * 3
    if asked:
        got = actors["a"].recorder.flush().extras["opponent_value"][:3, 0].tolist()
        np.testing.assert_equal(got, [1, 2, np.nan])


def test_a_policy_behind_an_interface_still_evaluates():
    """And one that does not compute what it expects says NaN."""
    observation, seat_ids = {"obs": np.array([[0, 3], [0, 4]], np.float32)}, np.arange(2)
    more = {"action_mask": None, "seat_ids": seat_ids, "rng": np.random.default_rng(0)}
    agent = PolicyAgent(Clock(10), 2, interface=Identity())
    assert isinstance(agent, EvaluatingAgent)
    assert agent.act_and_evaluate(observation, **more)[1].tolist() == [30, 40]
    assert np.isnan(PolicyAgent(Silent(), 2, interface=Identity()).act_and_evaluate(observation, **more)[1]).all()


class Silent(Clock):
    """A policy that does not say what it expects."""

    def act(self, inputs, **options):
        return Decision(action=super().act(inputs, **options).action)
