"""Reward parts are passed to interfaces with the rewards of decisions, and to metrics by match."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from ludus._messaging.messages import Credit
from ludus._sampling.actors import LiveActor
from ludus._sampling.match_engine import MatchEngine
from ludus._sampling.recorder import Recorder
from ludus._sampling.segment_layout import SegmentLayout
from ludus.algorithm import Decision
from ludus.environment import Role
from ludus.interface import Identity, ScheduledInterface, stack

ROLE = Role(
    name="player",
    observation_space=spaces.Box(0, 1e9, (2,), np.float32),
    action_space=spaces.Discrete(4),
    teams=(0, 1),
)


class ConstantPolicy:
    """A policy that always chooses the same action."""

    def initial_state(self, rows):
        return {}

    def load(self, weights):
        pass

    def act(self, inputs, *, rng, deterministic=False):
        return Decision(action=np.zeros((len(inputs.observation["obs"]), 1), np.int64))


class LoggingInterface(Identity):
    """Logs reward parts and progress."""

    def __init__(self):
        self.parts, self.progress = [], []

    def observe(self, view, seat_ids):
        self.parts.append({name: values.tolist() for name, values in view.reward_parts.items()})
        return attrs.evolve(view, reward=view.reward_parts.get("gold", view.reward) * 10)

    def set_progress(self, progress):
        self.progress.append(progress)


def make_live(interface, seat_ids=2):
    """Return a live actor behind an interface."""
    actor = LiveActor(
        player="main",
        policy=ConstantPolicy(),
        interface=interface,
        recorder=Recorder(SegmentLayout.for_role(ROLE, fields=(), decisions=8), seat_ids),
        rng=np.random.default_rng(0),
        num_seats=seat_ids,
    )
    actor.load({}, 1)
    return actor


@pytest.fixture
def make_mine(scripted):
    """Return a turn-based game in which tick n brings n gold and costs a half."""

    def make(matches=1):
        game = scripted(
            {"player": (0, 1)},
            matches,
            acting=lambda now: [("player", now % 2)],
            length=lambda row: 4,
            reward=lambda now, role, seat: now - 0.5,
        )
        plain = game._tick

        def tick(ended, *, stepped):
            made = plain(ended, stepped=stepped)
            gold = np.repeat(np.maximum(game.clock, 0)[:, None], 2, axis=1).astype(np.float32) * stepped
            cost = np.where(gold > 0, np.float32(-0.5), np.float32(0))
            made.roles["player"].reward_parts = {"gold": gold, "cost": cost}
            return made

        game._tick = tick
        return game

    return make


def play(game, fixture, actors):
    """Play a fixture; return the results."""
    results = []
    play = MatchEngine(
        environment=game,
        resolve=lambda fixture, seat: (actors[fixture.participants[seat]], 0),
        on_results=results.append,
    )
    play.add_fixture(fixture)
    while play.step():
        pass
    return results


def test_parts_are_summed_until_the_seat_decides(make_mine, fixture_of, logging_actor):
    """A seat that waits two ticks gets the sums of both; a new match starts at 0."""
    notes = LoggingInterface()
    actor = make_live(notes)
    play(make_mine(), fixture_of("ab", matches=2), {"a": actor, "b": logging_actor()})
    first_match, last = notes.parts[1:3], notes.parts[3]
    assert first_match == [{"gold": [3.0], "cost": [-1.0]}, {"gold": [7.0], "cost": [-1.0]}]
    assert last == {"gold": [0.0], "cost": [0.0]}
    batch = actor.recorder.flush()
    assert batch.reward[:4, 0].tolist() == [30, 70, 30, 70]


def test_parts_are_reported_by_match(make_mine, fixture_of, logging_actor):
    """As means over the seats of a role."""
    results = play(make_mine(2), fixture_of("ab", matches=2), {"a": logging_actor(), "b": logging_actor()})
    (arrays,) = results
    assert arrays["part/player/gold"].tolist() == [10, 10]
    assert arrays["part/player/cost"].tolist() == [-2, -2]
    assert arrays["returns"].tolist() == [[8, 8], [8, 8]]


def test_games_without_parts_report_none(scripted, fixture_of, logging_actor):
    """Results have no part arrays."""
    (arrays, *_) = play(
        scripted({"player": (0, 1)}, 1), fixture_of("ab", matches=1), {"a": logging_actor(), "b": logging_actor()}
    )
    assert set(arrays) == {"fixture", "number", "ticks", "outcome", "returns"}


def test_scheduled_interfaces_get_the_progress():
    """Also inside of a stack; other interfaces do not need the method."""
    notes = LoggingInterface()
    assert isinstance(notes, ScheduledInterface)
    assert not isinstance(Identity(), ScheduledInterface)
    make_live(notes).set_progress(0.25)
    make_live(stack(Identity(), notes)).set_progress(0.5)
    make_live(Identity()).set_progress(0.75)
    make_live(None).set_progress(1.0)
    assert notes.progress == [0.25, 0.5]


def test_credits_contain_the_progress():
    """It is passed to the live actor."""
    assert Credit(player="main", acked=0, credits=1, version=0).progress == 0.0
