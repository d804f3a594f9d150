"""The match engine plays fixtures and calls the actors of every seat."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from attrs import evolve
from gymnasium import spaces
from ludus._sampling.match_engine import MatchEngine
from ludus._sampling.seats import Seats
from ludus._seeding import match_seeds
from ludus.environment import EnvironmentSpec, Role, RoleTick, Scenario, Tick
from ludus.errors import ContractError, PluginError
from ludus.records import Fixture

TWO = {"player": (0, 1)}


@pytest.fixture
def make_engine(logging_actor):
    """Return a maker of (engine, actors by participant, results) for an environment."""

    def make(game, *fixtures, matches_per_lane=32):
        actors, results = {}, []

        def resolve(fixture, seat):
            return actors.setdefault(fixture.participants[seat], logging_actor(len(actors))), 0

        engine = MatchEngine(
            environment=game, resolve=resolve, on_results=results.append, matches_per_lane=matches_per_lane
        )
        for fixture in fixtures:
            engine.add_fixture(fixture)
        return engine, actors, results

    return make


def play_all(engine):
    """Step the engine until no match is left; return the number of ticks."""
    ticks = 0
    while engine.step():
        ticks += 1
        assert ticks < 1000
    return ticks


def concatenate(results, name):
    """Return one array of all results."""
    return np.concatenate([part[name] for part in results]).tolist()


# -- acting seats ----------------------------------------------------------------------------------------------------


def test_only_acting_seats_decide(scripted, make_engine, fixture_of):
    """In a turn-based game every seat decides on its own ticks only."""
    game = scripted(TWO, 1, acting=lambda now: [("player", now % 2)], length=lambda row: 4)
    engine, actors, _ = make_engine(game, fixture_of("ab", matches=1))
    play_all(engine)
    assert [now for _, _, now, *_ in actors["a"].acted] == [0, 2]
    assert [now for _, _, now, *_ in actors["b"].acted] == [1, 3]


def test_one_call_decides_for_all_seats_of_an_actor(scripted, make_engine, fixture_of):
    """A simultaneous tick costs one call per actor for any number of matches and seats."""
    game = scripted(TWO, 8, length=lambda row: 3)
    engine, actors, _ = make_engine(game, fixture_of("aa", matches=8))
    play_all(engine)
    assert actors["a"].calls == 3
    assert len(actors["a"].acted) == engine.decisions == 3 * 8 * 2
    assert engine.ticks == 3 * 8


def test_actions_are_stored_at_their_seats(scripted, make_engine, fixture_of):
    """Each actor plays its own number in its own matches and seats."""
    game = scripted(TWO, 2)
    engine, _, _ = make_engine(
        game, fixture_of("ab", matches=1), fixture_of("bc", number=2, matches=1), matches_per_lane=1
    )
    engine.step()
    assert game.received[0]["player"][..., 0].tolist() == [[0, 1], [1, 2]]


def test_roles_have_separate_arrays(scripted, make_engine, fixture_of):
    """Seat ids count the seats of all roles."""
    game = scripted({"cat": (0,), "mouse": (1, 1, 1)}, 1, length=lambda row: 2)
    engine, actors, results = make_engine(game, fixture_of("cmnm", matches=1))
    play_all(engine)
    assert [(seat, now) for _, seat, now, *_ in actors["c"].acted] == [(0, 0), (0, 1)]
    assert [seat for _, seat, *_ in actors["m"].acted] == [0, 2, 0, 2]
    assert actors["m"].started == [1, 3]
    assert concatenate(results, "returns") == [[0, 0, 0, 0]]


def test_actors_get_the_slots_of_their_seats(scripted, fixture_of, logging_actor):
    """At decisions and at the end of matches."""
    logged = []

    class Many(logging_actor):
        def act(self, seats, rewards):
            logged.append(("act", seats.seat_ids.tolist(), seats.slots.tolist()))
            return super().act(seats, rewards)

        def end_seats(self, seats, rewards, **how):
            logged.append(("end", seats.seat_ids.tolist(), seats.slots.tolist()))

    many, other = Many(), logging_actor()
    models = {"b": (many, 4), "c": (many, 9)}
    engine = MatchEngine(
        environment=scripted(TWO, 2, length=lambda row: 1),
        resolve=lambda fixture, seat: models.get(fixture.participants[seat], (other, 0)),
        on_results=lambda arrays: None,
        matches_per_lane=1,
    )
    engine.add_fixture(fixture_of("ab", matches=1))
    engine.add_fixture(fixture_of("ca", number=2, matches=1))
    play_all(engine)
    assert logged == [("act", [1, 2], [4, 9]), ("end", [1, 2], [4, 9])]
    assert engine.slots_in_use(many).tolist() == [4, 9]
    assert engine.slots_in_use(other).tolist() == [0]


def test_seats_without_a_match_do_not_decide(scripted, make_engine, fixture_of):
    """Even if the environment marks them as acting or their match as ended."""
    game = scripted(TWO, 3)
    engine, actors, results = make_engine(game, fixture_of("ab", matches=1))
    tick = game._tick

    def wrong(*args, **how):
        made = tick(*args, **how)
        made.roles["player"].acting[:] = True
        made.terminated[1:] = True
        return made

    game._tick = wrong
    play_all(engine)
    assert {row for row, *_ in actors["a"].acted} == {0}
    assert engine.decisions == 3 * 2
    assert concatenate(results, "number") == [0]


# -- seats -------------------------------------------------------------------------------------------------------------


def make_seats(acting):
    """Return all acting seats of a role as the seats of one actor."""
    tick = RoleTick(observation={}, acting=acting, action_mask=None, reward=np.zeros(acting.shape, np.float32))
    index = np.flatnonzero(acting)
    return Seats(tick, index, seat_ids=index + 100, slots=index % 3)


@pytest.mark.parametrize("chosen", [[0, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
@pytest.mark.parametrize("order", ["C", "F"])
def test_seats_take_their_entries_of_an_array(chosen, order):
    """For arrays of any layout and any set of seats."""
    acting = np.array(chosen, bool).reshape(3, 2)
    array = np.asarray(np.arange(3 * 2 * 5).reshape(3, 2, 5), order=order)
    seats = make_seats(acting)
    assert seats.take(array).tolist() == array[acting].tolist()
    assert seats.match_indices.tolist() == np.argwhere(acting)[:, 0].tolist()


def test_all_seats_are_taken_as_a_view():
    """If all seats act for one actor, observations are not copied."""
    array = np.zeros((3, 2, 5))
    assert np.shares_memory(make_seats(np.ones((3, 2), bool)).take(array), array)


def test_selected_seats_keep_their_entries():
    """All attributes are selected."""
    part = make_seats(np.ones((3, 2), bool)).select(np.array([False, True, False, False, True, True]), ascending=True)
    assert part.take(np.arange(6).reshape(3, 2)).tolist() == [1, 4, 5]
    assert (part.seat_ids.tolist(), part.slots.tolist()) == ([101, 104, 105], [1, 1, 2])


# -- rewards ---------------------------------------------------------------------------------------------------------


def test_rewards_are_summed_until_the_seat_decides_again(scripted, make_engine, fixture_of):
    """Ticks are counted too; the end of the match counts like a decision."""
    game = scripted(
        TWO,
        1,
        acting=lambda now: [("player", 0)] if now in (0, 3) else [("player", 1)],
        length=lambda row: 5,
        reward=lambda now, role, seat: now if seat == 0 else 0.0,
    )
    engine, actors, results = make_engine(game, fixture_of("ab", matches=1))
    play_all(engine)
    assert [(now, reward, ticks) for _, _, now, reward, ticks in actors["a"].acted] == [(0, 0, 0), (3, 6, 3)]
    assert actors["a"].ended == [(0, 0, 9, 2)]
    assert concatenate(results, "returns") == [[15, 0]]


def test_actors_of_all_seats_are_called_at_the_end(scripted, make_engine, fixture_of):
    """The last reward reaches seats that never acted or no longer act."""
    game = scripted(
        {"player": (0, 1, 1)},
        1,
        acting=lambda now: [("player", 0)] + ([("player", 1)] if now == 0 else []),
        reward=lambda now, role, seat: 1.0 if now == 3 else 0.0,
    )
    engine, actors, _ = make_engine(game, fixture_of("abc", matches=1))
    play_all(engine)
    assert actors["a"].ended == [(0, 0, 1, 1)]
    assert actors["b"].ended == [(0, 1, 1, 3)]
    assert actors["c"].ended == [(0, 2, 1, 3)]


def test_a_new_match_starts_with_empty_sums(scripted, make_engine, fixture_of):
    """Rewards and ticks of the last match are not carried over."""
    game = scripted(TWO, 1, reward=lambda now, role, seat: 1.0)
    engine, actors, results = make_engine(game, fixture_of("ab", matches=2))
    play_all(engine)
    assert [(reward, ticks) for *_, now, reward, ticks in actors["a"].acted if now == 0] == [(0, 0), (0, 0)]
    assert concatenate(results, "returns") == [[3, 3], [3, 3]]
    assert concatenate(results, "ticks") == [3, 3]


# -- fixtures --------------------------------------------------------------------------------------------------------


def test_a_fixture_is_played_at_consecutive_match_indices(scripted, make_engine, fixture_of):
    """The seats of one opponent are adjacent."""
    game = scripted(TWO, 6)
    fixtures = [fixture_of(seats, number=i + 1) for i, seats in enumerate(("ab", "ac", "ad"))]
    engine, actors, _ = make_engine(game, *fixtures, matches_per_lane=2)
    engine.step()
    rows = {name: [row for row, *_ in actors[name].acted] for name in "bcd"}
    assert rows == {"b": [0, 1], "c": [2, 3], "d": [4, 5]}


def test_opponents_change_between_matches_only(scripted, make_engine, fixture_of):
    """Matches that end early take the next fixture while the others finish the last one."""
    game = scripted(TWO, 2, length=lambda row: 2 + 2 * row)
    engine, actors, results = make_engine(game, fixture_of("ab", matches=2), fixture_of("ac", number=2, matches=4))
    play_all(engine)
    matches = {name: [(row, now) for row, seat, now, *_ in actors[name].acted] for name in "bc"}
    assert matches["b"] == [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2), (1, 3)]
    by_row = {row: [now for r, now in matches["c"] if r == row] for row in (0, 1)}
    assert by_row[0] == [0, 1] * (len(by_row[0]) // 2)
    assert by_row[1] == [0, 1, 2, 3] * (len(by_row[1]) // 4)
    assert sorted(zip(concatenate(results, "fixture"), concatenate(results, "number"), strict=True)) == [
        (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3),
    ]  # fmt: skip


def test_match_seeds_derive_from_the_fixture(scripted, make_engine, fixture_of):
    """Match n of a fixture has the n-th seed, at any match index."""
    game = scripted(TWO, 2, length=lambda row: 1 + row)
    fixture = fixture_of("ab", matches=5)
    engine, _, results = make_engine(game, fixture, evolve(fixture_of("ba", number=2, matches=1), seed=99))
    play_all(engine)
    expected = [*match_seeds(7, np.arange(5)).tolist(), *match_seeds(99, np.arange(1)).tolist()]
    assert [seed for _, seed, _ in game.resets] == expected
    assert len(concatenate(results, "number")) == 6


def test_the_environment_gets_the_scenario_of_the_fixture(scripted, make_engine, fixture_of):
    """Matches of other fixtures keep theirs."""
    game = scripted(TWO, 2)
    special = fixture_of("ab", matches=1, scenario=Scenario(name="endgame"))
    engine, _, _ = make_engine(game, special, fixture_of("ab", number=2, matches=1), matches_per_lane=1)
    play_all(engine)
    assert [name for *_, name in game.resets] == ["endgame", "default"]


def test_match_indices_without_a_match_are_idle(scripted, make_engine, fixture_of):
    """They have no decisions and no ticks; a new fixture starts them."""
    game = scripted(TWO, 3)
    engine, actors, results = make_engine(game, fixture_of("ab", matches=1))
    engine.step()
    assert (engine.num_running, engine.ticks) == (1, 1)
    assert play_all(engine) == 2
    assert not engine.step()
    assert {row for row, *_ in actors["a"].acted} == {0}
    engine.add_fixture(fixture_of("ab", number=2, matches=3))
    play_all(engine)
    assert concatenate(results, "fixture") == [1, 2, 2, 2]


@pytest.mark.parametrize(("queued", "wanted"), [(0, 4), (1, 3), (4, 0), (6, 0)])
def test_one_fixture_is_requested_per_low_lane_and_one_in_reserve(scripted, make_engine, fixture_of, queued, wanted):
    """So that no match index waits for the coordinator."""
    engine, _, _ = make_engine(
        scripted(TWO, 6), *(fixture_of("ab", number=i + 1) for i in range(queued)), matches_per_lane=2
    )
    assert engine.num_wanted_fixtures() == wanted


def test_entries_of_actors_are_reused(scripted, make_engine, fixture_of):
    """The memory does not grow with the number of opponents."""
    engine, _, _ = make_engine(
        scripted(TWO, 1), *(fixture_of(("a", f"o{i}"), number=i + 1, matches=1) for i in range(20))
    )
    play_all(engine)
    assert len(engine._seating.actors) <= 3


def test_closing_closes_the_environment(scripted, make_engine):
    """The engine owns it."""
    game = scripted(TWO)
    make_engine(game)[0].close()
    assert game.closed


def test_an_exit_in_close_is_an_error_that_names_the_environment(scripted, make_engine, monkeypatch):
    """It would end a run in one process without an error."""
    game = scripted(TWO)
    monkeypatch.setattr(game, "close", lambda: sys.exit(0))
    with pytest.raises(PluginError, match=f"^environment {game.spec.name!r} failed: SystemExit: 0 "):
        make_engine(game)[0].close()


# -- environments that break the contract ----------------------------------------------------------------------------

RAISED = (
    r"environment 'scripted': tests.core.conftest, line \d+, raised ZeroDivisionError in {}: no board — LUDUS_DEBUG=1 "
    r"shows how$"
)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"reward": lambda now, role, seat: float("nan") if (now, seat) == (2, 1) else 0.0},
            "environment 'scripted': the reward of role 'player' seat 1 in match 0 after 2 ticks is nan",
        ),
        (
            {"masked": 1},
            "environment 'scripted': label 0 of role 'player' seat 0 in match 0 after 1 ticks has no legal action",
        ),
        ({"broken": ("step", 1)}, RAISED.format("step after 1 ticks")),
        ({"broken": ("reset", 0)}, RAISED.format("reset after 0 ticks")),
    ],
    ids=["reward", "mask", "step", "reset"],
)
def test_exceptions_of_the_environment_become_one_line(scripted, make_engine, fixture_of, how, message):
    """The error names the environment, the place and the tick."""
    engine, _, _ = make_engine(scripted(TWO, 2, **how), fixture_of("ab"))
    with pytest.raises(ContractError, match=f"^{message}") as caught:
        play_all(engine)
    assert "\n" not in str(caught.value)


def nan_at(row, seat, when, *, role="mouse"):
    """Return a function that shows NaN to one seat on one tick of a match."""

    def shown(name, observation, clock):
        if name == role and clock[row] == when:
            observation[row, seat, 1] = np.nan

    return shown


@pytest.mark.parametrize(
    ("when", "truncated", "method"), [(0, False, "act"), (2, False, "act"), (3, True, "end_seats")]
)
def test_an_actor_error_on_invalid_observations_names_the_environment(
    scripted, make_engine, fixture_of, logging_actor, monkeypatch, when, truncated, method
):
    """For decisions and final observations."""
    game = scripted({"cat": (0,), "mouse": (1, 1)}, 3, truncated=truncated, shown=nan_at(2, 1, when))
    engine, _, _ = make_engine(game, fixture_of("cmm"))

    def refuse(self, seats, since, **_):
        if not np.isfinite(seats.take(seats.tick.observation["obs"])).all():
            raise ContractError("role mouse: the outputs are not finite")
        return np.zeros((seats.index.size, 1), np.int64)

    monkeypatch.setattr(logging_actor, method, refuse)
    with pytest.raises(ContractError) as caught:
        play_all(engine)
    place = f"leaf 'obs' of role 'mouse' seat 1 in match 2 after {when} ticks is not finite"
    refused = "role mouse: the outputs are not finite"
    assert str(caught.value) == f"environment 'scripted': {place}; expected finite numbers ({refused})"


def test_an_actor_error_on_invalid_observations_keeps_its_place(
    scripted, make_engine, fixture_of, logging_actor, monkeypatch
):
    """The environment comes first, the place of the exception follows."""
    engine, _, _ = make_engine(scripted(TWO, 1, shown=nan_at(0, 0, 0, role="player")), fixture_of("ab"))
    monkeypatch.setattr(logging_actor, "act", lambda *_: {}["key"])
    place = rf"{__name__}, line \d+, raised KeyError: 'key' — LUDUS_DEBUG=1 shows how"
    with pytest.raises(
        ContractError, match=rf"^environment 'scripted': leaf 'obs' .*; expected finite numbers \({place}\)$"
    ):
        engine.step()


@pytest.mark.parametrize("seat", [0, 1])
def test_an_actor_error_on_finite_observations_is_raised_as_it_is(
    scripted, make_engine, fixture_of, logging_actor, monkeypatch, seat
):
    """Observations of seats that do not decide may be invalid."""
    game = scripted(TWO, 2, acting=lambda now: [("player", seat)], shown=nan_at(1, 1 - seat, 1, role="player"))
    engine, _, _ = make_engine(game, fixture_of("ab"))
    engine.step()
    monkeypatch.setattr(logging_actor, "act", lambda *_: (_ for _ in ()).throw(ContractError("no idea")))
    with pytest.raises(ContractError, match=r"^no idea$"):
        engine.step()


@pytest.mark.parametrize(("method", "ticks"), [("start_matches", 0), ("act", 0), ("end_seats", 3)])
def test_exceptions_of_actors_become_one_line(
    scripted, make_engine, fixture_of, logging_actor, monkeypatch, method, ticks
):
    """Agents, interfaces and policies are code of plugins."""
    engine, _, _ = make_engine(scripted(TWO, 2), fixture_of("ab"))

    def fail(*_, **__):
        return np.zeros(2).dot(np.zeros(3))

    monkeypatch.setattr(logging_actor, method, fail)
    problem = rf"^{__name__}, line \d+, raised ValueError after {ticks} ticks: shapes .* — LUDUS_DEBUG=1 shows how$"
    with pytest.raises(ContractError, match=problem):
        play_all(engine)


class PanicException(BaseException):
    """The exception of a panic in Rust."""


@pytest.fixture(params=["environment", "agent"])
def failing(request, scripted, make_engine, fixture_of, logging_actor, monkeypatch):
    """Return a function that plays a tick in which the environment or an agent raises."""
    game = scripted(TWO, 2)
    engine, _, _ = make_engine(game, fixture_of("ab"))

    def step(error):
        def fail(*_):
            raise error

        monkeypatch.setattr(*((game, "step") if request.param == "environment" else (logging_actor, "act")), fail)
        engine.step()

    return step


@pytest.mark.parametrize("error", [SystemExit(0), PanicException("at lib.rs:3")], ids=repr)
def test_an_exit_is_reported_like_an_exception(failing, error):
    """It would end a run in one process without an error."""
    with pytest.raises(ContractError, match=rf"raised {type(error).__name__} .*after 0 ticks: {error}"):
        failing(error)


def test_keyboard_interrupts_are_not_wrapped(failing):
    """Ctrl-C ends a command at any place."""
    with pytest.raises(KeyboardInterrupt):
        failing(KeyboardInterrupt)


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (lambda actions: actions[:, 0], "an array int64[2]"),
        (lambda actions: actions[:1], "an array int64[1, 1]"),  # would be spread over all seats
        (lambda actions: actions + 0.5, "an array float64[2, 1]"),  # would be cut off
        (lambda actions: actions.tolist(), "list"),
        (lambda actions: None, "NoneType"),
    ],
    ids=["flat", "one", "real", "list", "none"],
)
def test_actions_of_another_shape_or_type_are_rejected(
    scripted, make_engine, fixture_of, logging_actor, monkeypatch, wrong, found
):
    """The error names their source, their shape and the expected one."""
    engine, _, _ = make_engine(scripted(TWO, 2), fixture_of("ab"))
    right = logging_actor.act
    monkeypatch.setattr(logging_actor, "act", lambda *arguments: wrong(right(*arguments)))
    with pytest.raises(ContractError) as caught:
        play_all(engine)
    message = (
        f"LoggingActor returned {found} as actions of role 'player' after 0 ticks; expected int64[2, 1], one row per"
    )
    assert message in str(caught.value)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, bool])
def test_narrower_integers_are_accepted_as_actions(
    scripted, make_engine, fixture_of, logging_actor, monkeypatch, dtype
):
    """The conversion loses nothing."""
    engine, _, _ = make_engine(scripted(TWO, 2), fixture_of("ab"))
    right = logging_actor.act
    monkeypatch.setattr(logging_actor, "act", lambda *arguments: right(*arguments).astype(dtype))
    play_all(engine)
    assert engine.decisions > 0


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("seat", [0, 2])
def test_rewards_that_are_not_finite_are_rejected(scripted, make_engine, fixture_of, wrong, seat):
    """For any role and seat, among large and small rewards."""
    game = scripted(
        {"cat": (0,), "mouse": (1, 1, 1)},
        3,
        reward=lambda now, role, index: wrong if (now, role, index) == (1, "mouse", seat) else 3e38,
    )
    engine, _, _ = make_engine(game, fixture_of("cmmm"))
    with pytest.raises(ContractError, match=f"role 'mouse' seat {seat} in match 0 after 1 ticks is {wrong}"):
        engine.step()


def test_finite_rewards_of_any_size_are_accepted(scripted, make_engine, fixture_of):
    """Even if their sum over the batch overflows."""
    game = scripted(TWO, 4, reward=lambda now, role, index: 3e38 if index else -3e38, length=lambda row: 1)
    engine, _, results = make_engine(game, fixture_of("ab"))
    play_all(engine)
    assert concatenate(results, "returns") == [[np.float32(-3e38), np.float32(3e38)]] * 4


@pytest.mark.parametrize("wrong", [2.0, -0.5, np.nan])
@pytest.mark.parametrize("truncated", [False, True])
def test_outcomes_outside_0_and_1_are_rejected(scripted, make_engine, fixture_of, wrong, truncated):
    """The error names team, match and valid values; no result is reported."""
    game = scripted(TWO, 3, outcome=lambda row: wrong if row == 1 else 0.5, truncated=truncated)
    engine, _, results = make_engine(game, fixture_of("ab"))
    line = f"environment 'scripted': the outcome of team 0 in match 1 after 3 ticks is {wrong}; expected a number in"
    with pytest.raises(ContractError, match=line):
        play_all(engine)
    assert results == []


@pytest.mark.parametrize("outcome", [[[1], [1]], [1, 0], 1])
def test_outcomes_of_another_shape_are_rejected(scripted, make_engine, fixture_of, outcome):
    """The error states both shapes."""
    game = scripted(TWO, 2)
    step = game.step
    game.step = lambda actions: evolve(step(actions), outcome=np.array(outcome, np.float32))
    engine, _, results = make_engine(game, fixture_of("ab"))
    with pytest.raises(ContractError, match=r"'scripted': outcome has shape \[.*\] after 3 ticks; expected \[2, 2\]"):
        play_all(engine)
    assert results == []


def test_outcomes_of_running_matches_are_not_read(scripted, make_engine, fixture_of):
    """They may have any value until the match ends."""
    game = scripted(TWO, 2, length=lambda row: 2 + row)
    game.outcome = lambda row: 1.0 if game.clock[row] >= 2 + row else np.nan
    engine, _, results = make_engine(game, fixture_of("ab"))
    play_all(engine)
    assert concatenate(results, "outcome") == [[1, 0]] * 4


@pytest.mark.parametrize("empty", [0, 1, None])
def test_a_label_without_legal_actions_is_rejected(empty):
    """The error names the label; any action of a label may be the legal one."""
    mask = np.zeros((2, 1, 5), bool)
    mask[:, :, [1, 4]] = True  # labels of 2 and 3 actions
    if empty is not None:
        mask[1, 0, [[0, 1], [2, 3, 4]][empty]] = False
    game = MaskedEnvironment(mask)
    engine = MatchEngine(environment=game, resolve=lambda fixture, seat: (game, 0), on_results=lambda arrays: None)
    engine.add_fixture(Fixture(id=1, kind="train", player="", participants=("a",), seed=0, matches=9, reason=""))
    if empty is None:
        assert engine.step()
        return
    with pytest.raises(
        ContractError, match=f"label {empty} of role 'solo' seat 0 in match 1 after 0 ticks has no legal action"
    ):
        engine.step()


class MaskedEnvironment:
    """An environment with two labels and a constant mask, and the actor that plays it."""

    num_matches = 2

    def __init__(self, mask):
        role = Role(
            name="solo", observation_space=spaces.Discrete(2), action_space=spaces.MultiDiscrete([2, 3]), teams=(0,)
        )
        self.spec = EnvironmentSpec(name="masked", roles=(role,), turn="simultaneous")
        observed = {"observation": {}, "acting": np.ones((2, 1), bool), "reward": np.zeros((2, 1), np.float32)}
        self.tick = Tick(
            roles={"solo": RoleTick(action_mask=mask, **observed)},
            terminated=np.zeros(2, bool),
            truncated=np.zeros(2, bool),
            outcome=np.zeros((2, 1), np.float32),
        )

    def reset(self, seeds, *, indices, scenarios):
        """Show the tick."""
        return self.tick

    def step(self, actions):
        """Show the tick."""
        return self.tick

    def start_matches(self, seat_ids):
        """Nothing to do."""

    def act(self, seats, rewards):
        """Decide anything."""
        return np.zeros((seats.index.size, 2), np.int64)


def test_contract_errors_of_the_environment_are_not_wrapped(scripted, make_engine, fixture_of):
    """Their messages are complete."""
    game = scripted(TWO)
    game.step = lambda actions: (_ for _ in ()).throw(ContractError("action 9 is illegal"))
    engine, _, _ = make_engine(game, fixture_of("ab"))
    with pytest.raises(ContractError, match=r"^action 9 is illegal$"):
        engine.step()


def test_returns_of_players_are_means_over_their_seats(scripted, fixture_of, logging_actor):
    """NaN in matches in which a player has no seat."""
    game = scripted({"cat": (0,), "mouse": (1, 1)}, 2, length=lambda row: 1, reward=lambda now, role, seat: 2.0 + seat)
    cat, mouse, absent, results = logging_actor(), logging_actor(), logging_actor(), []
    engine = MatchEngine(
        game,
        lambda fixture, seat: (cat if seat == 0 and fixture.id == 1 else mouse, 0),
        results.append,
        matches_per_lane=1,
        players={"cat": cat, "mouse": mouse, "absent": absent},
    )
    for number in (1, 2):
        engine.add_fixture(fixture_of("abc", number=number, matches=1))
    engine.step()
    (arrays,) = results
    by_fixture = dict(zip(arrays["fixture"].tolist(), range(2), strict=True))
    first, second = by_fixture[1], by_fixture[2]
    seats = arrays["returns"]
    assert arrays["player/cat"][first] == seats[first, 0]
    assert np.isnan(arrays["player/cat"][second])
    assert arrays["player/mouse"][first] == pytest.approx(seats[first, 1:].mean())
    assert arrays["player/mouse"][second] == pytest.approx(seats[second].mean())
    assert np.isnan(arrays["player/absent"]).all()
