"""A seat may end before its match: it does not act again, and its last decision is closed."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from ludus._sampling.actors import AgentActor, LiveActor
from ludus._sampling.match_engine import MatchEngine
from ludus._sampling.recorder import Recorder
from ludus._sampling.segment_layout import SegmentLayout
from ludus.algorithm import Decision
from ludus.environment import EnvironmentSpec, Role, allocate_tick
from ludus.errors import ContractError
from ludus.segment import Field

ROLE = Role(
    name="player",
    observation_space=spaces.Box(0, 1e9, (2,), np.float32),
    action_space=spaces.Discrete(4),
    teams=(0, 1),
    seat_endings=True,
)
FIELDS = (Field("value"), Field("opponent_value", source="opponents"))


class ClockPolicy:
    """Values every observation with the tick of the match."""

    def initial_state(self, rows):
        return {}

    def act(self, inputs, *, rng, deterministic=False):
        value = inputs.observation["obs"][:, 1]
        return Decision(action=np.zeros((len(value), 1), np.int64), extras={"value": value}, value=value)

    def load(self, weights):
        pass


def make_live(num_seats, *, decisions=8, trajectories=None):
    """Return a live actor that records its decisions and the values of its opponents."""
    actor = LiveActor(
        player="main",
        policy=ClockPolicy(),
        interface=None,
        recorder=Recorder(SegmentLayout.for_role(ROLE, fields=FIELDS, decisions=decisions), trajectories or num_seats),
        rng=np.random.default_rng(0),
        num_seats=num_seats,
    )
    actor.load({}, 1)
    return actor


class EvaluatingBot:
    """Plays 0 and values every position with ten times the tick."""

    def act(self, observation, *, action_mask, seat_ids, rng):
        return np.zeros((seat_ids.size, 1), np.int64)

    def act_and_evaluate(self, observation, **options):
        return self.act(observation, **options), 10 * observation["obs"][:, 1]

    def reset(self, seat_ids):
        pass


def play(game, fixture, actors):
    """Play a fixture and return its results, joined."""
    results = []
    engine = MatchEngine(
        environment=game,
        resolve=lambda fixture, seat: (actors[fixture.participants[seat]], 0),
        on_results=results.append,
        observers=[actor for actor in actors.values() if isinstance(actor, LiveActor)],
    )
    engine.add_fixture(fixture)
    while engine.step():
        pass
    return {name: np.concatenate([part[name] for part in results]) for name in results[0]}


def one_per_tick(tick, role, index):
    """Give every seat 1 on every tick."""
    return 1.0


@pytest.mark.parametrize("how", ["terminated", "truncated"])
def test_an_ended_seat_gets_its_rewards_until_its_end(scripted, fixture_of, logging_actor, how):
    """It decides no more; the others play on. Later rewards count in the returns of the match."""
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 5, reward=one_per_tick, ends={("player", 0): (2, how)})
    actors = {"a": logging_actor(), "b": logging_actor()}
    results = play(game, fixture_of("ab", matches=1), actors)
    assert [now for _, _, now, *_ in actors["a"].acted] == [0, 1]
    assert actors["a"].ended == [(0, 0, 1.0, 1)]
    assert [now for _, _, now, *_ in actors["b"].acted] == [0, 1, 2, 3, 4]
    assert actors["b"].ended == [(0, 1, 1.0, 1)]
    assert results["returns"].tolist() == [[5.0, 5.0]]


def test_a_seat_that_waits_gets_all_rewards_until_its_end(scripted, fixture_of, logging_actor):
    """Its last decision may be several ticks ago."""
    game = scripted(
        {"player": (0, 1)},
        1,
        acting=lambda now: [("player", 1)] + [("player", 0)] * (now == 0),
        length=lambda row: 5,
        reward=one_per_tick,
        ends={("player", 0): (3, "terminated")},
    )
    actors = {"a": logging_actor(), "b": logging_actor()}
    play(game, fixture_of("ab", matches=1), actors)
    assert actors["a"].ended == [(0, 0, 3.0, 3)]


@pytest.mark.parametrize(
    ("length", "ends", "terminated", "truncated"),
    [
        (4, (2, "terminated"), [False, True], [False, False]),
        (4, (2, "truncated"), [False, False], [False, True]),
        (2, (2, "terminated"), [False, True], [False, False]),
        (2, (9, "terminated"), [False, False], [False, True]),
    ],
    ids=["dies early", "truncated alone", "dies as the match is truncated", "outlives all"],
)
def test_segments_of_ended_seats(scripted, fixture_of, length, ends, terminated, truncated):
    """A terminated seat has no successor; a truncated one has its observation of the tick on which it ended."""
    game = scripted(
        {"player": (0, 1)},
        1,
        length=lambda row: length,
        reward=one_per_tick,
        truncated=True,
        ends={("player", 0): ends},
    )
    live = make_live(2)
    play(game, fixture_of("ab", matches=1), {"a": live, "b": AgentActor(EvaluatingBot(), np.random.default_rng(0))})
    batch = live.recorder.flush()
    assert batch.length.tolist() == [2]
    assert batch.reward[:2, 0].tolist() == [1, 1]
    assert batch.terminated[:2, 0].tolist() == terminated
    assert batch.truncated[:2, 0].tolist() == truncated
    assert batch.decided[:2, 0].all()
    if truncated[1]:
        assert not batch.decided[2, 0]
        assert batch.extras["value"][2, 0] == 2  # the value of the tick on which it ended


def test_matches_of_ended_seats_are_recorded_one_after_another(scripted, fixture_of):
    """Every match has two decisions of the seat that dies and four of the other one."""
    game = scripted(
        {"player": (0, 1)}, 2, length=lambda row: 4, reward=one_per_tick, ends={("player", 0): (2, "terminated")}
    )
    live = make_live(4, decisions=50)
    results = play(game, fixture_of("aa", matches=6), {"a": live})
    assert len(results["returns"]) == 6
    batch = live.recorder.flush()
    assert batch.num_decisions == 6 * (2 + 4)
    assert (batch.terminated & batch.trainable()).sum() == 12
    assert batch.reward[batch.trainable()].tolist() == [1.0] * 36
    ends = np.argwhere((batch.terminated & batch.trainable()).T)  # trajectory, entry
    lengths = [
        int(entry - before)
        for column in range(batch.num_segments)
        for before, entry in zip([-1, *ends[ends[:, 0] == column, 1]], ends[ends[:, 0] == column, 1], strict=False)
    ]
    assert sorted(lengths) == [2] * 6 + [4] * 6


def test_ended_seats_get_no_values_of_opponents(scripted, fixture_of):
    """The last decision ended the seat, so no opponent's value belongs to it, nor to the matches of other seats."""
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 5, ends={("player", 0): (2, "terminated")})
    live = make_live(2, trajectories=1)  # that of the ended seat: no other may get the value in its place
    bot = AgentActor(EvaluatingBot(), np.random.default_rng(0))
    play(game, fixture_of("ab", matches=2), {"a": live, "b": bot})
    batch = live.recorder.flush()
    np.testing.assert_equal(batch.extras["opponent_value"][:4, 0], np.float32([10, np.nan, 10, np.nan]))


def test_waiting_observers_get_no_values_after_their_end(scripted, fixture_of):
    """A seat that ended without deciding on that tick does not wait for a value."""
    game = scripted(
        {"player": (0, 1)},
        1,
        acting=lambda now: [("player", 0)] if now == 0 else [("player", 1)] * (now > 1),
        length=lambda row: 4,
        ends={("player", 0): (1, "terminated")},
    )
    live = make_live(2, trajectories=1)
    bot = AgentActor(EvaluatingBot(), np.random.default_rng(0))
    play(game, fixture_of("ab", matches=1), {"a": live, "b": bot})
    np.testing.assert_equal(live.recorder.flush().extras["opponent_value"][:1, 0], np.float32([np.nan]))


def test_a_seat_that_acts_after_its_end_is_an_error(scripted, fixture_of, logging_actor):
    """The message names the seat."""
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 5, ends={("player", 0): (2, "terminated")})
    tick = game._tick

    def wrong(*args, **how):
        made = tick(*args, **how)
        made.roles["player"].acting[:] = True
        return made

    game._tick = wrong
    with pytest.raises(ContractError, match="role 'player' seat 0 in match 0 after 2 ticks acts although the seat has"):
        play(game, fixture_of("aa", matches=1), {"a": logging_actor()})


def test_flags_of_idle_matches_and_repeated_flags_change_nothing(scripted, fixture_of, logging_actor):
    """The engine ends every seat of a running match once."""
    game = scripted({"player": (0, 1)}, 2, length=lambda row: 5, ends={("player", 0): (2, "terminated")})
    tick = game._tick

    def wrong(*args, **how):
        made = tick(*args, **how)
        made.roles["player"].terminated[:, 0] |= game.clock >= 2
        made.roles["player"].terminated[1] = True
        return made

    game._tick = wrong
    actor = logging_actor()
    play(game, fixture_of("aa", matches=1), {"a": actor})
    assert [(match, seat) for match, seat, *_ in actor.ended] == [(0, 0), (0, 1)]


def test_ticks_have_flags_of_seats_where_the_role_declares_them():
    """They are cleared with the rewards."""
    plain = attrs.evolve(ROLE, name="plain", seat_endings=False)
    spec = EnvironmentSpec(name="arena", roles=(ROLE, plain), turn="simultaneous")
    tick = allocate_tick(spec, 3)
    player = tick.roles["player"]
    assert (tick.roles["plain"].terminated, tick.roles["plain"].truncated) == (None, None)
    assert player.terminated.shape == player.truncated.shape == (3, 2)
    player.terminated[:] = player.truncated[:] = True
    player.reward[:] = 1
    tick.clear(np.array([0, 2]))
    for array in (player.terminated, player.truncated, player.reward):
        assert array.tolist() == [[False, False], [True, True], [False, False]]
