"""Statistics of matches: from the environment to the log, the league and the metrics."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from ludus._league.league import League
from ludus._sampling.channels import SamplerMetrics
from ludus._sampling.match_engine import MatchEngine
from ludus._store.store import Store
from ludus._store.verification import recount
from ludus.environment import EnvironmentSpec, Role, Scenario, Seat, allocate_tick
from ludus.errors import ContractError, WireError
from ludus.matchmaker import Statistic
from ludus.records import Fixture
from ludus.testing import check_environment

SEATS = (Seat("cat", 0, 0), Seat("mouse", 0, 1), Seat("mouse", 1, 1))


def play(game, fixture, actor):
    """Play a fixture and return its results, joined."""
    results = []
    engine = MatchEngine(environment=game, resolve=lambda fixture, seat: (actor, 0), on_results=results.append)
    engine.add_fixture(fixture)
    while engine.step():
        pass
    return {name: np.concatenate([part[name] for part in results]) for name in results[0]}


@pytest.fixture
def game(scripted):
    """Return a game of a cat and two mice with statistics."""
    statistics = {
        "cat": {"catches": lambda match, seat: match},
        "mouse": {"cheese": lambda match, seat: 10 * match + seat, "squeaks": lambda match, seat: 0.5},
    }
    return scripted({"cat": (0,), "mouse": (1, 1)}, 3, statistics=statistics)


def test_statistics_are_read_when_a_match_ends(game, fixture_of, logging_actor):
    """By role and name, one value per seat."""
    results = play(game, fixture_of("abb", matches=3), logging_actor())
    assert results["statistic/cat/catches"].tolist() == [[0], [1], [2]]
    assert results["statistic/mouse/cheese"].tolist() == [[0, 1], [10, 11], [20, 21]]
    assert results["statistic/mouse/squeaks"].tolist() == [[0.5, 0.5]] * 3
    assert results["statistic/mouse/squeaks"].dtype == np.float32


def test_a_statistic_that_is_not_finite_is_an_error(scripted, fixture_of, logging_actor):
    """The message names role, seat, match and statistic."""
    statistics = {"player": {"speed": lambda match, seat: np.nan if (match, seat) == (0, 1) else 1.0}}
    game = scripted({"player": (0, 1)}, 1, statistics=statistics)
    with pytest.raises(ContractError, match="statistic 'speed' of role 'player' seat 1 in match 0 after 3 ticks is"):
        play(game, fixture_of("aa", matches=1), logging_actor())


@pytest.mark.parametrize("kind", ["train", "eval"])
def test_samplers_report_means_and_send_those_of_evaluations(game, fixture_of, logging_actor, kind):
    """Statistics of training matches are metrics only."""
    metrics = SamplerMetrics(kind)
    metrics.report(0.0, ticks=0, decisions=0, waiting=False)
    sent = metrics.add_results(play(game, fixture_of("abb", matches=3), logging_actor()))
    assert {"statistic/cat/catches", "statistic/mouse/cheese"} <= set(sent) or kind == "train"
    assert (kind == "eval") == any(name.startswith("statistic/") for name in sent)
    reported = metrics.report(1.0, ticks=9, decisions=9, waiting=False)
    assert reported["statistic/cat/catches"] == 1
    assert reported["statistic/mouse/cheese"] == 10.5


def test_roles_declare_statistics():
    """Ticks hold an array for each, and names have one fixed form."""
    role = Role(
        name="player",
        observation_space=spaces.Discrete(2),
        action_space=spaces.Discrete(2),
        teams=(0, 1),
        statistics=("hits", "rate"),
    )
    player = allocate_tick(EnvironmentSpec(name="arena", roles=(role,), turn="simultaneous"), 4).roles["player"]
    assert {name: (array.shape, array.dtype) for name, array in player.statistics.items()} == dict.fromkeys(
        ("hits", "rate"), ((4, 2), np.dtype(np.float32))
    )
    with pytest.raises(ValueError, match="statistics"):
        attrs.evolve(role, statistics=("a/b",))


# --- the log ------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    """Return a new store of a game with a cat and two mice."""
    with Store.create(tmp_path / "run", {"seed": 1}) as store:
        store.declare({"cat": ("cat", 0), "mouse": ("mouse", 1)}, anchors=["random"], seats=SEATS)
        store.commit()
        yield store


def report(store, *, kind="eval", participants=("random", "mouse@1", "mouse@1"), **statistics):
    """Return the arrays of a report of two matches of a new fixture."""
    fixture = store.fixtures.add(
        Fixture(id=0, kind=kind, player="", participants=participants, seed=5, matches=2, reason="test")
    )
    return {
        "fixture": np.full(2, fixture.id),
        "number": np.arange(2),
        "ticks": np.full(2, 9, np.int32),
        "outcome": np.array([[1, 0], [0, 1]], np.float32),
        **{f"statistic/{name.replace('_', '/')}": np.array(v, np.float32) for name, v in statistics.items()},
    }


def sums(store):
    """Return the stored sums, and check that they are those of the log."""
    totals, counted = store.behaviour.totals(), recount(store).behaviour
    assert totals.keys() == counted.keys()
    for key, values in totals.items():
        np.testing.assert_allclose(values, counted[key])
    return {key: values.tolist() for key, values in totals.items()}


def test_statistics_of_evaluations_are_logged(store):
    """With every match, and as sums by participant: matches, sum and sum of squares of means over its seats."""
    store.matches.add_results(report(store, cat_catches=[[2], [4]], mouse_cheese=[[1, 3], [5, 7]]))
    store.matches.add_results(
        report(store, participants=("random", "mouse@1", "random"), mouse_cheese=[[1, 2], [3, 4]])
    )
    first, second, third, _ = store.matches.records()
    assert first.statistics == {"cat/catches": (2.0,), "mouse/cheese": (1.0, 3.0)}
    assert second.statistics == {"cat/catches": (4.0,), "mouse/cheese": (5.0, 7.0)}
    assert third.statistics == {"mouse/cheese": (1.0, 2.0)}
    assert sums(store) == {
        ("random", "cat/catches"): [2, 6, 20],
        ("mouse@1", "mouse/cheese"): [4, 2 + 6 + 1 + 3, 4 + 36 + 1 + 9],
        ("random", "mouse/cheese"): [2, 6, 20],
    }


def test_a_repeated_report_counts_once(store):
    """As its matches do."""
    arrays = report(store, cat_catches=[[2], [4]])
    for _ in range(2):
        store.matches.add_results(arrays)
    assert sums(store) == {("random", "cat/catches"): [2, 6, 20]}


def test_reports_may_lack_statistics(store):
    """A match has the statistics that were reported with it."""
    arrays = report(store, cat_catches=[[2], [4]], mouse_cheese=[[1, 3], [5, 7]])
    first, second = ({name: array[i : i + 1] for name, array in arrays.items()} for i in (0, 1))
    del first["statistic/mouse/cheese"], second["statistic/cat/catches"]
    store.matches.add_results(second)
    store.matches.add_results(first)
    assert [match.statistics for match in store.matches.records()] == [
        {"cat/catches": (2.0,)},
        {"mouse/cheese": (5.0, 7.0)},
    ]
    assert sums(store) == {("random", "cat/catches"): [1, 2, 4], ("mouse@1", "mouse/cheese"): [1, 6, 36]}


def test_statistics_of_training_matches_are_not_logged(store):
    """Other hosts may send them nevertheless."""
    store.matches.add_results(report(store, kind="train", cat_catches=[[2], [4]]))
    assert [match.statistics for match in store.matches.records()] == [{}, {}]
    assert sums(store) == {}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("dog/bites", np.zeros((2, 1), np.float32)),
        ("cat/Catches!", np.zeros((2, 1), np.float32)),
        ("cat", np.zeros((2, 1), np.float32)),
        ("cat/catches", np.zeros((2, 2), np.float32)),
        ("cat/catches", np.zeros((2, 1))),
        ("cat/catches", np.full((2, 1), np.inf, np.float32)),
    ],
)
def test_malformed_statistics_are_refused(store, name, values):
    """Unknown roles and names, other shapes and dtypes, and numbers that are not finite."""
    with pytest.raises(WireError, match="results: statistic"):
        store.matches.add_results({**report(store), f"statistic/{name}": values})


def test_the_league_returns_means_and_deviations(store):
    """Also after a restart, and nothing for participants without evaluations."""
    league = League.of(store)
    league.record(report(store, mouse_cheese=[[1, 3], [5, 7]]))
    league.record(report(store, mouse_cheese=[[1, 3], [5, 7]]))
    for read in (league, League.of(store)):
        assert read.statistics("mouse@1") == {"mouse/cheese": Statistic(mean=4.0, deviation=2.0, matches=4)}
        assert read.statistics("random") == {}


# --- the testing kit ----------------------------------------------------------------------------------------------


class Rounds:
    """Two rounds without a choice; the statistic counts them."""

    def __init__(self, num_matches, count=lambda ticks: ticks):
        role = Role(
            name="player",
            observation_space=spaces.Box(0, 9, (1,), np.float32),
            action_space=spaces.Discrete(2),
            teams=(0, 1),
            statistics=("rounds",),
        )
        self.spec = EnvironmentSpec(name="rounds", roles=(role,), turn="simultaneous", max_ticks=2)
        self.num_matches, self.count = num_matches, count
        self.now, self.ticks = allocate_tick(self.spec, num_matches), np.full(num_matches, 2)

    def reset(self, seeds, *, indices=None, scenarios=None):
        if any(scenario != Scenario() for scenario in scenarios or ()):
            raise ContractError("rounds has no scenarios")
        indices = slice(None) if indices is None else indices
        self.now.clear(indices)
        self.ticks[indices] = 0
        return self.show()

    def step(self, actions):
        running = self.ticks < 2
        if (actions["player"][running] > 1).any():
            raise ContractError("a choice is out of range")
        self.now.clear(slice(None))
        self.ticks += running
        self.now.terminated[:] = running & (self.ticks == 2)
        return self.show()

    def show(self):
        player = self.now.roles["player"]
        player.acting[:] = (self.ticks < 2)[:, None]
        player.observation["obs"][:] = self.ticks[:, None, None]
        player.statistics["rounds"][:] = self.count(self.ticks)[:, None]
        return self.now

    def close(self):
        pass


def test_the_kit_accepts_finite_statistics():
    """They may change during a match."""
    check_environment(Rounds, steps=20)


def test_the_kit_finds_statistics_that_are_not_finite():
    """On any tick."""
    with pytest.raises(ContractError, match="seat 0, match 0, tick 0: statistic 'rounds' is inf"):
        check_environment(lambda n: Rounds(n, lambda ticks: ticks + np.float32(np.inf)), steps=20)


def test_the_kit_finds_statistics_that_depend_on_other_matches():
    """Statistics are a function of the match, as rewards are."""
    with pytest.raises(ContractError, match="player statistic rounds differs"):
        check_environment(lambda n: Rounds(n, lambda ticks: np.arange(len(ticks), dtype=np.float32)), steps=20)
