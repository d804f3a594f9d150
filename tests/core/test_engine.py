"""Matches are played as their fixtures say, and every seat hears exactly what concerns it."""

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
def table(diary):
    """Return a maker of (play, actors by participant, results) on a game."""

    def make(game, *fixtures, matches_per_lane=32):
        actors, results = {}, []

        def resolve(fixture, seat):
            return actors.setdefault(fixture.participants[seat], diary(len(actors))), 0

        play = MatchEngine(
            environment=game, resolve=resolve, on_results=results.append, matches_per_lane=matches_per_lane
        )
        for fixture in fixtures:
            play.add_fixture(fixture)
        return play, actors, results

    return make


def play_out(play):
    """Play until nothing is left; returns the ticks it took."""
    ticks = 0
    while play.step():
        ticks += 1
        assert ticks < 1000
    return ticks


def joined(results, name):
    """Return one array of all results."""
    return np.concatenate([part[name] for part in results]).tolist()


# -- who acts --------------------------------------------------------------------------------------------------------


def test_turns_are_taken_by_who_acts(scripted, table, fixture_of):
    """In a turn-based game every seat decides on its own ticks only."""
    game = scripted(TWO, 1, acting=lambda now: [("player", now % 2)], length=lambda row: 4)
    play, actors, _ = table(game, fixture_of("ab", matches=1))
    play_out(play)
    assert [now for _, _, now, *_ in actors["a"].acted] == [0, 2]
    assert [now for _, _, now, *_ in actors["b"].acted] == [1, 3]


def test_all_rows_of_an_actor_are_decided_at_once(scripted, table, fixture_of):
    """A simultaneous tick costs one call per actor, however many rows and seats it has."""
    game = scripted(TWO, 8, length=lambda row: 3)
    play, actors, _ = table(game, fixture_of("aa", matches=8))
    play_out(play)
    assert actors["a"].calls == 3
    assert len(actors["a"].acted) == play.decisions == 3 * 8 * 2
    assert play.ticks == 3 * 8


def test_actions_reach_the_seats_they_were_chosen_for(scripted, table, fixture_of):
    """Each actor plays its own number in its own rows and seats."""
    game = scripted(TWO, 2)
    play, _, _ = table(game, fixture_of("ab", matches=1), fixture_of("bc", number=2, matches=1), matches_per_lane=1)
    play.step()
    assert game.received[0]["player"][..., 0].tolist() == [[0, 1], [1, 2]]


def test_one_against_many_and_roles(scripted, table, fixture_of):
    """Each role has its own arrays; seats are numbered through the roles."""
    game = scripted({"cat": (0,), "mouse": (1, 1, 1)}, 1, length=lambda row: 2)
    play, actors, results = table(game, fixture_of("cmnm", matches=1))
    play_out(play)
    assert [(seat, now) for _, seat, now, *_ in actors["c"].acted] == [(0, 0), (0, 1)]
    assert [seat for _, seat, *_ in actors["m"].acted] == [0, 2, 0, 2]
    assert actors["m"].started == [1, 3]
    assert joined(results, "returns") == [[0, 0, 0, 0]]


def test_slots_are_told_with_the_seats(scripted, fixture_of, diary):
    """An actor that holds several models hears which one plays where, at decisions and at the end."""
    heard = []

    class Many(diary):
        def act(self, seats, rewards):
            heard.append(("act", seats.seat_ids.tolist(), seats.slots.tolist()))
            return super().act(seats, rewards)

        def end_matches(self, seats, rewards, **how):
            heard.append(("end", seats.seat_ids.tolist(), seats.slots.tolist()))

    many, other = Many(), diary()
    models = {"b": (many, 4), "c": (many, 9)}
    play = MatchEngine(
        environment=scripted(TWO, 2, length=lambda row: 1),
        resolve=lambda fixture, seat: models.get(fixture.participants[seat], (other, 0)),
        on_results=lambda arrays: None,
        matches_per_lane=1,
    )
    play.add_fixture(fixture_of("ab", matches=1))
    play.add_fixture(fixture_of("ca", number=2, matches=1))
    play_out(play)
    assert heard == [("act", [1, 2], [4, 9]), ("end", [1, 2], [4, 9])]
    assert play.slots_in_use(many).tolist() == [4, 9]
    assert play.slots_in_use(other).tolist() == [0]


def test_a_row_without_a_match_is_never_asked(scripted, table, fixture_of):
    """Even if the environment believes that somebody acts or that a match ends there."""
    game = scripted(TWO, 3)
    play, actors, results = table(game, fixture_of("ab", matches=1))
    tick = game._tick

    def wrong(*args, **how):
        made = tick(*args, **how)
        made.roles["player"].acting[:] = True
        made.terminated[1:] = True
        return made

    game._tick = wrong
    play_out(play)
    assert {row for row, *_ in actors["a"].acted} == {0}
    assert play.decisions == 3 * 2
    assert joined(results, "number") == [0]


# -- what a seat sees ------------------------------------------------------------------------------------------------


def seats_of(acting):
    """Return all acting seats of a role as one actor's."""
    tick = RoleTick(observation={}, acting=acting, action_mask=None, reward=np.zeros(acting.shape, np.float32))
    index = np.flatnonzero(acting)
    return Seats(tick, index, seat_ids=index + 100, slots=index % 3)


@pytest.mark.parametrize("chosen", [[0, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
@pytest.mark.parametrize("order", ["C", "F"])
def test_seats_take_their_entries(chosen, order):
    """From arrays of any layout, whether some or all of them act."""
    acting = np.array(chosen, bool).reshape(3, 2)
    array = np.asarray(np.arange(3 * 2 * 5).reshape(3, 2, 5), order=order)
    seats = seats_of(acting)
    assert seats.take(array).tolist() == array[acting].tolist()
    assert seats.match_indices.tolist() == np.argwhere(acting)[:, 0].tolist()


def test_all_seats_are_taken_without_a_copy():
    """A tick on which everybody acts for one actor costs no copy of what they see."""
    array = np.zeros((3, 2, 5))
    assert np.shares_memory(seats_of(np.ones((3, 2), bool)).take(array), array)


def test_some_of_the_seats():
    """A part has its own entries of everything."""
    part = seats_of(np.ones((3, 2), bool)).select(np.array([False, True, False, False, True, True]))
    assert part.take(np.arange(6).reshape(3, 2)).tolist() == [1, 4, 5]
    assert (part.seat_ids.tolist(), part.slots.tolist()) == ([101, 104, 105], [1, 1, 2])


# -- rewards ---------------------------------------------------------------------------------------------------------


def test_a_reward_while_not_acting_belongs_to_the_last_decision(scripted, table, fixture_of):
    """It is summed up, with the ticks, until the seat acts again or the match ends."""
    game = scripted(
        TWO,
        1,
        acting=lambda now: [("player", 0)] if now in (0, 3) else [("player", 1)],
        length=lambda row: 5,
        reward=lambda now, role, seat: now if seat == 0 else 0.0,
    )
    play, actors, results = table(game, fixture_of("ab", matches=1))
    play_out(play)
    assert [(now, reward, ticks) for _, _, now, reward, ticks in actors["a"].acted] == [(0, 0, 0), (3, 6, 3)]
    assert actors["a"].ended == [(0, 0, 9, 2)]
    assert joined(results, "returns") == [[15, 0]]


def test_every_seat_hears_of_the_end(scripted, table, fixture_of):
    """The last reward reaches seats that died long ago or never acted."""
    game = scripted(
        {"player": (0, 1, 1)},
        1,
        acting=lambda now: [("player", 0)] + ([("player", 1)] if now == 0 else []),
        reward=lambda now, role, seat: 1.0 if now == 3 else 0.0,
    )
    play, actors, _ = table(game, fixture_of("abc", matches=1))
    play_out(play)
    assert actors["a"].ended == [(0, 0, 1, 1)]
    assert actors["b"].ended == [(0, 1, 1, 3)]
    assert actors["c"].ended == [(0, 2, 1, 3)]


def test_a_new_match_starts_from_nothing(scripted, table, fixture_of):
    """Neither reward nor ticks of the last match are carried over."""
    game = scripted(TWO, 1, reward=lambda now, role, seat: 1.0)
    play, actors, results = table(game, fixture_of("ab", matches=2))
    play_out(play)
    assert [(reward, ticks) for *_, now, reward, ticks in actors["a"].acted if now == 0] == [(0, 0), (0, 0)]
    assert joined(results, "returns") == [[3, 3], [3, 3]]
    assert joined(results, "ticks") == [3, 3]


# -- fixtures --------------------------------------------------------------------------------------------------------


def test_a_fixture_fills_consecutive_rows(scripted, table, fixture_of):
    """The rows of one opponent lie side by side."""
    game = scripted(TWO, 6)
    fixtures = [fixture_of(seats, number=i + 1) for i, seats in enumerate(("ab", "ac", "ad"))]
    play, actors, _ = table(game, *fixtures, matches_per_lane=2)
    play.step()
    rows = {name: [row for row, *_ in actors[name].acted] for name in "bcd"}
    assert rows == {"b": [0, 1], "c": [2, 3], "d": [4, 5]}


def test_opponents_change_between_matches_only(scripted, table, fixture_of):
    """Rows that end early take the next fixture while the others finish the last one."""
    game = scripted(TWO, 2, length=lambda row: 2 + 2 * row)
    play, actors, results = table(game, fixture_of("ab", matches=2), fixture_of("ac", number=2, matches=4))
    play_out(play)
    matches = {name: [(row, now) for row, seat, now, *_ in actors[name].acted] for name in "bc"}
    assert matches["b"] == [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2), (1, 3)]
    by_row = {row: [now for r, now in matches["c"] if r == row] for row in (0, 1)}
    assert by_row[0] == [0, 1] * (len(by_row[0]) // 2)
    assert by_row[1] == [0, 1, 2, 3] * (len(by_row[1]) // 4)
    assert sorted(zip(joined(results, "fixture"), joined(results, "number"), strict=True)) == [
        (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3),
    ]  # fmt: skip


def test_seeds_are_those_of_the_fixture(scripted, table, fixture_of):
    """Match n of a fixture has the n-th of its seeds, in whichever row it is played."""
    game = scripted(TWO, 2, length=lambda row: 1 + row)
    fixture = fixture_of("ab", matches=5)
    play, _, results = table(game, fixture, evolve(fixture_of("ba", number=2, matches=1), seed=99))
    play_out(play)
    expected = [*match_seeds(7, np.arange(5)).tolist(), *match_seeds(99, np.arange(1)).tolist()]
    assert [seed for _, seed, _ in game.resets] == expected
    assert len(joined(results, "number")) == 6


def test_scenarios_are_passed_on(scripted, table, fixture_of):
    """A fixture's scenario is played, and rows with another one keep theirs."""
    game = scripted(TWO, 2)
    special = fixture_of("ab", matches=1, scenario=Scenario(name="endgame"))
    play, _, _ = table(game, special, fixture_of("ab", number=2, matches=1), matches_per_lane=1)
    play_out(play)
    assert [name for *_, name in game.resets] == ["endgame", "default"]


def test_rows_without_a_match_are_idle(scripted, table, fixture_of):
    """Nobody is asked for them and they count for nothing; a new fixture wakes them."""
    game = scripted(TWO, 3)
    play, actors, results = table(game, fixture_of("ab", matches=1))
    play.step()
    assert (play.num_running, play.ticks) == (1, 1)
    assert play_out(play) == 2
    assert not play.step()
    assert {row for row, *_ in actors["a"].acted} == {0}
    play.add_fixture(fixture_of("ab", number=2, matches=3))
    play_out(play)
    assert joined(results, "fixture") == [1, 2, 2, 2]


@pytest.mark.parametrize(("queued", "wanted"), [(0, 4), (1, 3), (4, 0), (6, 0)])
def test_it_wants_as_many_fixtures_as_tables_and_one(scripted, table, fixture_of, queued, wanted):
    """One is always in reserve, so that no row waits for the coordinator."""
    play, _, _ = table(scripted(TWO, 6), *(fixture_of("ab", number=i + 1) for i in range(queued)), matches_per_lane=2)
    assert play.num_wanted_fixtures() == wanted


def test_places_of_actors_are_used_again(scripted, table, fixture_of):
    """A league of thousands of opponents leaves no trail in the sampler."""
    play, _, _ = table(scripted(TWO, 1), *(fixture_of(("a", f"o{i}"), number=i + 1, matches=1) for i in range(20)))
    play_out(play)
    assert len(play._seating.actors) <= 3


def test_closing_closes_the_environment(scripted, table):
    """It belongs to the play alone."""
    game = scripted(TWO)
    table(game)[0].close()
    assert game.closed


def test_an_environment_that_exits_when_closed_is_named(scripted, table, monkeypatch):
    """As games with a window do; a run in one process would end with it, as if all were well."""
    game = scripted(TWO)
    monkeypatch.setattr(game, "close", lambda: sys.exit(0))
    with pytest.raises(PluginError, match=f"^environment {game.spec.name!r} failed: SystemExit: 0 "):
        table(game)[0].close()


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
def test_a_broken_environment_is_named_in_one_line(scripted, table, fixture_of, how, message):
    """The line says who, where and when; ticks are those of the environment, however many rows it has."""
    play, _, _ = table(scripted(TWO, 2, **how), fixture_of("ab"))
    with pytest.raises(ContractError, match=f"^{message}") as caught:
        play_out(play)
    assert "\n" not in str(caught.value)


def spoiled(row, seat, when, *, role="mouse"):
    """Return what shows NaN to one seat at one tick of the match."""

    def shown(name, observation, clock):
        if name == role and clock[row] == when:
            observation[row, seat, 1] = np.nan

    return shown


@pytest.mark.parametrize(("when", "truncated", "who"), [(0, False, "act"), (2, False, "act"), (3, True, "end_matches")])
def test_observations_that_are_not_finite_are_told_of_when_somebody_fails_at_them(
    scripted, table, fixture_of, diary, monkeypatch, when, truncated, who
):
    """Decisions and final observations; the line says where it is and what was made of it."""
    game = scripted({"cat": (0,), "mouse": (1, 1)}, 3, truncated=truncated, shown=spoiled(2, 1, when))
    play, _, _ = table(game, fixture_of("cmm"))

    def refuse(self, seats, since, **_):
        if not np.isfinite(seats.take(seats.tick.observation["obs"])).all():
            raise ContractError("role mouse: the outputs are not finite")
        return np.zeros((seats.index.size, 1), np.int64)

    monkeypatch.setattr(diary, who, refuse)
    with pytest.raises(ContractError) as caught:
        play_out(play)
    place = f"leaf 'obs' of role 'mouse' seat 1 in match 2 after {when} ticks is not finite"
    refused = "role mouse: the outputs are not finite"
    assert str(caught.value) == f"environment 'scripted': {place}; expected finite numbers ({refused})"


def test_what_is_raised_at_observations_that_are_not_finite_keeps_its_place(
    scripted, table, fixture_of, diary, monkeypatch
):
    """The environment is told of first, and who could not make anything of it next."""
    play, _, _ = table(scripted(TWO, 1, shown=spoiled(0, 0, 0, role="player")), fixture_of("ab"))
    monkeypatch.setattr(diary, "act", lambda *_: {}["key"])
    place = rf"{__name__}, line \d+, raised KeyError: 'key' — LUDUS_DEBUG=1 shows how"
    with pytest.raises(
        ContractError, match=rf"^environment 'scripted': leaf 'obs' .*; expected finite numbers \({place}\)$"
    ):
        play.step()


@pytest.mark.parametrize("seat", [0, 1])
def test_who_fails_at_finite_observations_is_to_blame(scripted, table, fixture_of, diary, monkeypatch, seat):
    """Also while a seat that does not decide is shown anything."""
    game = scripted(TWO, 2, acting=lambda now: [("player", seat)], shown=spoiled(1, 1 - seat, 1, role="player"))
    play, _, _ = table(game, fixture_of("ab"))
    play.step()
    monkeypatch.setattr(diary, "act", lambda *_: (_ for _ in ()).throw(ContractError("no idea")))
    with pytest.raises(ContractError, match=r"^no idea$"):
        play.step()


@pytest.mark.parametrize(("method", "ticks"), [("start_matches", 0), ("act", 0), ("end_matches", 3)])
def test_what_a_participant_raises_is_one_line_with_its_place(
    scripted, table, fixture_of, diary, monkeypatch, method, ticks
):
    """Agents, interfaces and policies are code of plugins, too; NumPy raises in nobody's name."""
    play, _, _ = table(scripted(TWO, 2), fixture_of("ab"))

    def fail(*_, **__):
        return np.zeros(2).dot(np.zeros(3))

    monkeypatch.setattr(diary, method, fail)
    problem = rf"^{__name__}, line \d+, raised ValueError after {ticks} ticks: shapes .* — LUDUS_DEBUG=1 shows how$"
    with pytest.raises(ContractError, match=problem):
        play_out(play)


class PanicException(BaseException):
    """What a panic in Rust becomes."""


@pytest.fixture(params=["environment", "agent"])
def failing(request, scripted, table, fixture_of, diary, monkeypatch):
    """Return a function that plays a tick in which the environment or an agent raises."""
    game = scripted(TWO, 2)
    play, _, _ = table(game, fixture_of("ab"))

    def step(error):
        def fail(*_):
            raise error

        monkeypatch.setattr(*((game, "step") if request.param == "environment" else (diary, "act")), fail)
        play.step()

    return step


@pytest.mark.parametrize("error", [SystemExit(0), PanicException("at lib.rs:3")], ids=repr)
def test_who_exits_is_told_like_who_raises(failing, error):
    """A run in one process would end with it, as if all were well, or with a traceback."""
    with pytest.raises(ContractError, match=rf"raised {type(error).__name__} .*after 0 ticks: {error}"):
        failing(error)


def test_an_interruption_is_no_fault_of_who_plays(failing):
    """Ctrl-C ends a command wherever it is."""
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
def test_actions_of_another_shape_or_type_are_refused(scripted, table, fixture_of, diary, monkeypatch, wrong, found):
    """The line says whose they are, what they are and what they should be."""
    play, _, _ = table(scripted(TWO, 2), fixture_of("ab"))
    right = diary.act
    monkeypatch.setattr(diary, "act", lambda *given: wrong(right(*given)))
    with pytest.raises(ContractError) as caught:
        play_out(play)
    message = f"Diary returned {found} as actions of role 'player' after 0 ticks; expected int64[2, 1], one row per"
    assert message in str(caught.value)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, bool])
def test_narrower_actions_are_taken(scripted, table, fixture_of, diary, monkeypatch, dtype):
    """They lose nothing."""
    play, _, _ = table(scripted(TWO, 2), fixture_of("ab"))
    right = diary.act
    monkeypatch.setattr(diary, "act", lambda *given: right(*given).astype(dtype))
    play_out(play)
    assert play.decisions > 0


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("seat", [0, 2])
def test_rewards_that_are_not_finite_are_found(scripted, table, fixture_of, wrong, seat):
    """Each of them, in any role and place, among large and small ones."""
    game = scripted(
        {"cat": (0,), "mouse": (1, 1, 1)},
        3,
        reward=lambda now, role, index: wrong if (now, role, index) == (1, "mouse", seat) else 3e38,
    )
    play, _, _ = table(game, fixture_of("cmmm"))
    with pytest.raises(ContractError, match=f"role 'mouse' seat {seat} in match 0 after 1 ticks is {wrong}"):
        play.step()


def test_finite_rewards_of_any_size_pass(scripted, table, fixture_of):
    """Their sum over the batch may overflow, they do not."""
    game = scripted(TWO, 4, reward=lambda now, role, index: 3e38 if index else -3e38, length=lambda row: 1)
    play, _, results = table(game, fixture_of("ab"))
    play_out(play)
    assert joined(results, "returns") == [[np.float32(-3e38), np.float32(3e38)]] * 4


@pytest.mark.parametrize("wrong", [2.0, -0.5, np.nan])
@pytest.mark.parametrize("truncated", [False, True])
def test_outcomes_lie_between_lost_and_won(scripted, table, fixture_of, wrong, truncated):
    """The line says whose outcome is wrong, where, and what there may be; nothing of it is reported."""
    game = scripted(TWO, 3, outcome=lambda row: wrong if row == 1 else 0.5, truncated=truncated)
    play, _, results = table(game, fixture_of("ab"))
    line = f"environment 'scripted': the outcome of team 0 in match 1 after 3 ticks is {wrong}; expected a number in"
    with pytest.raises(ContractError, match=line):
        play_out(play)
    assert results == []


@pytest.mark.parametrize("outcome", [[[1], [1]], [1, 0], 1])
def test_every_team_has_an_outcome(scripted, table, fixture_of, outcome):
    """The line says what shape there is, and which is expected."""
    game = scripted(TWO, 2)
    step = game.step
    game.step = lambda actions: evolve(step(actions), outcome=np.array(outcome, np.float32))
    play, _, results = table(game, fixture_of("ab"))
    with pytest.raises(ContractError, match=r"'scripted': outcome has shape \[.*\] after 3 ticks; expected \[2, 2\]"):
        play_out(play)
    assert results == []


def test_outcomes_of_running_matches_are_not_read(scripted, table, fixture_of):
    """They may be anything until the match ends."""
    game = scripted(TWO, 2, length=lambda row: 2 + row)
    game.outcome = lambda row: 1.0 if game.clock[row] >= 2 + row else np.nan
    play, _, results = table(game, fixture_of("ab"))
    play_out(play)
    assert joined(results, "outcome") == [[1, 0]] * 4


@pytest.mark.parametrize("empty", [0, 1, None])
def test_every_label_needs_a_legal_action(empty):
    """The one without is named; an action that is legal may be any of its label."""
    mask = np.zeros((2, 1, 5), bool)
    mask[:, :, [1, 4]] = True  # labels of 2 and 3 actions
    if empty is not None:
        mask[1, 0, [[0, 1], [2, 3, 4]][empty]] = False
    game = Masked(mask)
    play = MatchEngine(environment=game, resolve=lambda fixture, seat: (game, 0), on_results=lambda arrays: None)
    play.add_fixture(Fixture(id=1, kind="train", player="", participants=("a",), seed=0, matches=9, reason=""))
    if empty is None:
        assert play.step()
        return
    with pytest.raises(
        ContractError, match=f"label {empty} of role 'solo' seat 0 in match 1 after 0 ticks has no legal action"
    ):
        play.step()


class Masked:
    """A game of two labels that shows one mask, and the actor that plays it."""

    num_matches = 2

    def __init__(self, mask):
        role = Role(
            name="solo", observation_space=spaces.Discrete(2), action_space=spaces.MultiDiscrete([2, 3]), teams=(0,)
        )
        self.spec = EnvironmentSpec(name="masked", roles=(role,), turn="simultaneous")
        seen = {"observation": {}, "acting": np.ones((2, 1), bool), "reward": np.zeros((2, 1), np.float32)}
        self.tick = Tick(
            roles={"solo": RoleTick(action_mask=mask, **seen)},
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


def test_an_own_error_of_the_environment_passes(scripted, table, fixture_of):
    """What already says what is wrong is not wrapped."""
    game = scripted(TWO)
    game.step = lambda actions: (_ for _ in ()).throw(ContractError("action 9 is illegal"))
    play, _, _ = table(game, fixture_of("ab"))
    with pytest.raises(ContractError, match=r"^action 9 is illegal$"):
        play.step()
