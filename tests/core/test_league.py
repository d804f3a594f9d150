"""The league in memory, and its state after a restart."""

from __future__ import annotations

from functools import partial

import attrs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus._league.league import League
from ludus._league.participants import Name, parse
from ludus._messaging.messages import Checkpoint
from ludus._store.store import Store
from ludus.environment import Scenario, Seat
from ludus.errors import ConfigError, StoreError
from ludus.matchmaker import LeagueView, PoolChange, Rating
from ludus.records import Fixture
from ludus_dummy.config import ShareConfig
from ludus_dummy.league import ShareTable

SEATS = (Seat("player", 0, 0), Seat("player", 1, 1))
PLAYERS = {"main": ("player", None), "exploiter": ("player", 1)}
ANCHORS = ("random", "strong")


@pytest.fixture
def league(tmp_path):
    """Return a new league of two players and two anchors."""
    with Store.create(tmp_path / "run", {"seed": 1}) as store:
        yield League(store, players=PLAYERS, anchors=ANCHORS, seats=SEATS, ratings=partial(ShareTable, ShareConfig()))


def freeze(league, player="main", *, times=1):
    """Freeze the next models of a player and return the last one's name."""
    for _ in range(times):
        number = 1 + len(league.players[player].models)
        digest = f"{len(league.models) + 1:064x}"
        name = league.freeze(player, hash=digest, decisions=10 * number, version=number, manifest={})
    return name


def planned(seats, *, kind="train", player="main", matches=1, **more):
    """Return a fixture before the store gives it an id."""
    more = {"seed": 1, "reason": "test", **more}
    return Fixture(id=0, kind=kind, player=player, participants=tuple(seats), matches=matches, **more)


def play(league, a, b, points, *, kind="train"):
    """Play a fixture of a against b; `points` are those of a, one number per match."""
    fixture = league.create_fixture(planned([a, b], kind=kind, matches=len(points)))
    points = np.asarray(points, np.float32)
    return league.record(
        {
            "fixture": np.full(len(points), fixture.id),
            "number": np.arange(len(points)),
            "ticks": np.ones(len(points), np.int32),
            "outcome": np.stack([points, 1 - points], axis=1),
        }
    )


def state(league):
    """Return all that matchmakers can read."""
    names = [*league.anchors, *league.models, *(view.live for view in league.players.values())]
    return (
        dict(league.players),
        league.anchors,
        {name: league.pool(name) for name in league.pools},
        [league.payoff(name, names).tolist() for name in names],
        [league.rating(name) for name in names],
    )


# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("main@7", Name("main", 7, live=False)),
        ("main@7+", Name("main", 7, live=True)),
        ("main@0+", Name("main", 0, live=True)),
        ("a.b-c_2@10", Name("a.b-c_2", 10, live=False)),
        ("minimax3", Name("minimax3", None, live=False)),
        ("main@07", Name("main@07", None, live=False)),
        ("main@", Name("main@", None, live=False)),
    ],
)
def test_names_are_parsed(text, name):
    """Frozen and live participants; all other names are anchors."""
    assert parse(text) == name


def test_a_league_is_a_league_view(league):
    """Type checkers accept a league as a LeagueView."""
    view: LeagueView = league
    assert view.anchors == ANCHORS


# --- players and models -------------------------------------------------------------------------------------------


def test_a_player_starts_live_and_without_models(league):
    """Generation 0 has no frozen model."""
    view = league.players["exploiter"]
    assert (view.live, view.models, view.decisions) == ("exploiter@0+", (), 0)
    assert (view.name, view.role, view.team) == ("exploiter", "player", 1)


def test_freezing_starts_the_next_generation(league):
    """The model is in the league, the live participant has a new name, and the decisions are known."""
    assert freeze(league, times=2) == "main@2"
    view = league.players["main"]
    assert (view.live, view.models, view.decisions) == ("main@2+", ("main@1", "main@2"), 20)
    assert league.players["exploiter"].models == ()


def test_the_parent_of_a_model_comes_from_its_manifest(league):
    """The record holds the hash."""
    league.freeze("main", hash="a" * 64, decisions=1, version=1, manifest={"parent": "c" * 64})
    assert league.models["main@1"].parent == "c" * 64


def test_decisions_do_not_decrease(league):
    """A model frozen from older weights does not lower the counter."""
    league.set_decisions("main", 500)
    freeze(league)
    assert league.players["main"].decisions == 500


# --- pools --------------------------------------------------------------------------------------------------------


def test_pools_keep_their_order(league):
    """Oldest first; a model that left is gone; an unknown pool is empty."""
    freeze(league, times=3)
    league.apply(PoolChange(pool="history", model=f"main@{i}", enters=True) for i in (2, 1, 3))
    league.apply([PoolChange(pool="history", model="main@1", enters=False)])
    assert league.pool("history") == ("main@2", "main@3")
    assert league.pool("nowhere") == ()


@pytest.mark.parametrize("enters", [True, False])
def test_a_change_that_changes_nothing_is_not_logged(league, enters):
    """Entering twice or leaving without being there."""
    freeze(league)
    league.apply([PoolChange(pool="history", model="main@1", enters=True)] * (1 if enters else 0))
    before = list(league.store.pools.records())
    league.apply([PoolChange(pool="history", model="main@1", enters=enters)])
    assert list(league.store.pools.records()) == before


@pytest.mark.parametrize("model", ["main@1", "main@0+", "random"])
def test_only_frozen_models_enter_pools(league, model):
    """Live weights and anchors are refused."""
    with pytest.raises(StoreError, match="not a frozen model"):
        league.apply([PoolChange(pool="history", model=model, enters=True)])


# --- fixtures -----------------------------------------------------------------------------------------------------


def test_a_fixture_names_the_files_of_its_models(league):
    """A sampler learns the hashes of the frozen participants, and nothing for live ones and anchors."""
    freeze(league)
    plan = planned(["main@1+", "main@1"], matches=8, seed=3, reason="why", scenario=Scenario(name="corner"))
    fixture = league.create_fixture(plan)
    assert fixture.models == {"main@1": league.models["main@1"].hash}
    assert (fixture.participants, fixture.matches, fixture.seed) == (("main@1+", "main@1"), 8, 3)
    assert (fixture.kind, fixture.player, fixture.reason, fixture.scenario.name) == ("train", "main", "why", "corner")


@pytest.mark.parametrize("participant", ["main@1", "main@1+", "nobody", "main"])
def test_a_participant_that_cannot_play_is_refused(league, participant):
    """Not yet frozen, not live, or unknown."""
    with pytest.raises(StoreError, match="cannot play now"):
        league.create_fixture(planned(["main@0+", participant]))


def test_unfinished_fixtures_stay_open(league):
    """As long as a match is missing."""
    fixture = league.create_fixture(planned(["main@0+", "random"], matches=3))
    one = {
        "fixture": [fixture.id],
        "number": [1],
        "ticks": np.ones(1, np.int32),
        "outcome": np.ones((1, 2), np.float32),
    }
    league.record({name: np.asarray(values) for name, values in one.items()})
    league.store.commit()
    assert League.of(league.store).open_fixtures() == [fixture]


def test_fixtures_with_replaced_live_weights_are_closed(league):
    """After a freeze the earlier live weights cannot play."""
    league.create_fixture(planned(["main@0+", "random"], matches=3))
    kept = league.create_fixture(planned(["exploiter@0+", "random"], player="exploiter", matches=3))
    freeze(league)
    assert [again.id for again in league.open_fixtures()] == [kept.id]
    assert [record.id for record in league.store.fixtures.unfinished()] == [kept.id]


def test_a_removed_player_cannot_play(league):
    """Neither live nor as a model; its models are in no pool until it is configured again."""
    gone, kept = freeze(league, "exploiter"), freeze(league)
    league.apply([PoolChange(pool="all", model=model, enters=True) for model in (gone, kept)])
    for seats in (["exploiter@1+", "random"], [gone, "random"], [kept, gone]):
        league.create_fixture(planned(seats, kind="eval"))
    wanted = league.create_fixture(planned([kept, "random"], kind="eval"))
    few = {"main": PLAYERS["main"]}
    left = League(league.store, players=few, anchors=ANCHORS, seats=SEATS)
    assert left.open_fixtures() == [wanted]
    assert left.pool("all") == (kept,)
    with pytest.raises(StoreError, match="cannot play now"):
        left.create_fixture(planned([kept, gone]))
    assert League(league.store, players=PLAYERS, anchors=ANCHORS, seats=SEATS).pool("all") == (gone, kept)


def test_a_reader_closes_nothing(league):
    """Opening a league for reading changes nothing."""
    league.create_fixture(planned(["main@0+", "random"], matches=3))
    freeze(league)
    league.store.commit()
    with Store.read(league.store.run_dir) as store:
        assert League.of(store).open_fixtures() == []
        assert len(store.fixtures.unfinished()) == 1


# --- payoffs ------------------------------------------------------------------------------------------------------


def test_payoffs_count_wins_draws_and_losses(league):
    """From both sides, training and evaluation together; zero without matches."""
    freeze(league)
    play(league, "main@1", "random", [1, 1, 0.5, 0])
    play(league, "random", "main@1", [1], kind="eval")
    np.testing.assert_array_equal(
        league.payoff("main@1", ["random", "strong", "main@1"]), [[2, 1, 2], [0] * 3, [0] * 3]
    )
    np.testing.assert_array_equal(league.payoff("random", ["main@1"]), [[2, 1, 2]])
    assert league.payoff("main@1", []).shape == (0, 3)
    assert league.payoff("nobody", ["random"]).tolist() == [[0, 0, 0]]


def test_older_generations_count_half_each(league):
    """Right after a freeze the live participant has a win rate: its past, halved with every generation."""
    play(league, "main@0+", "random", [1] * 8)
    freeze(league)
    play(league, "main@1", "random", [0.5] * 4)
    play(league, "main@1+", "random", [0] * 2)
    np.testing.assert_array_equal(league.payoff("main@1+", ["random"]), [[4, 4, 2]])
    freeze(league)
    np.testing.assert_array_equal(league.payoff("main@2+", ["random"]), [[2, 2, 1]])


def test_a_frozen_model_has_only_its_own_counts(league):
    """Counts of earlier and later live weights are not included."""
    play(league, "main@0+", "random", [1])
    freeze(league)
    play(league, "main@1+", "random", [0])
    np.testing.assert_array_equal(league.payoff("main@1", ["random"]), [[0, 0, 0]])


def test_a_live_opponent_inherits_its_past(league):
    """On both sides."""
    play(league, "exploiter@0+", "main@0+", [1, 1, 0, 0.5])
    freeze(league)
    np.testing.assert_array_equal(league.payoff("exploiter@0+", ["main@1+", "main@1"]), [[1, 0.5, 0.5], [0, 0, 0]])
    np.testing.assert_array_equal(league.payoff("main@1+", ["exploiter@0+"]), [[0.5, 0.5, 1]])


def test_no_payoff_against_itself(league):
    """Nor against its own past weights."""
    freeze(league)
    play(league, "main@1+", "main@1", [1] * 4)
    freeze(league)
    np.testing.assert_array_equal(league.payoff("main@2+", ["main@2+", "main@1"]), [[0, 0, 0], [2, 0, 0]])


@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_payoffs_mirror_each_other(tmp_path_factory, data):
    """Wins of one are losses of the other, for frozen, live and scripted participants alike."""
    with Store.create(tmp_path_factory.mktemp("runs") / "run", {}) as store:
        league = League(store, players=PLAYERS, anchors=ANCHORS, seats=SEATS)
        for _ in range(data.draw(st.integers(1, 8))):
            names = [*ANCHORS, *league.models, *(view.live for view in league.players.values())]
            a, b = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
            play(league, a, b, data.draw(st.lists(st.sampled_from([0, 0.5, 1]), min_size=1, max_size=3)))
            if data.draw(st.booleans()):
                freeze(league, data.draw(st.sampled_from(list(PLAYERS))))
        names = [*ANCHORS, *league.models, *(view.live for view in league.players.values())]
        payoffs = np.array([league.payoff(name, names) for name in names])  # [n, n, 3]
        np.testing.assert_allclose(payoffs, payoffs.transpose(1, 0, 2)[..., ::-1])


# --- ratings ------------------------------------------------------------------------------------------------------


def test_only_evaluations_of_fixed_participants_are_rated(league):
    """Neither training nor live weights move a rating."""
    freeze(league)
    play(league, "main@1", "random", [1] * 10)
    play(league, "main@1+", "random", [1] * 10, kind="eval")
    assert league.rating("main@1") == Rating(50.0, 50 / 2**0.5, 0)
    play(league, "main@1", "random", [1] * 10 + [0] * 2, kind="eval")
    rating = league.rating("main@1")
    assert (rating.mean, rating.matches) == (100 * 11 / 14, 12)


class Reader:
    """A table that keeps the replayed matches."""

    def __init__(self, *, anchors, seats, sides):
        self.made = (anchors, seats)
        self.replayed = []

    def add(self, a, b, count):
        """Leave sums alone."""

    def replay(self, first, matches):
        """Keep fixture and number of every match."""
        self.replayed.append((first, [(match.fixture.id, match.number) for match in matches]))


def test_a_table_replays_from_the_oldest_new_fixture(tmp_path):
    """All evaluation matches in the order of the log, however their results arrive; no training matches."""
    with Store.create(tmp_path / "run", {}) as store:
        league = League(store, players=PLAYERS, anchors=ANCHORS, seats=SEATS, ratings=Reader)
        table = league._ratings
        freeze(league)
        play(league, "main@1", "random", [1], kind="eval")  # fixture 1
        play(league, "main@1", "random", [1])
        late = [league.create_fixture(planned(["main@1", "strong"], kind="eval", matches=2)).id for _ in range(2)]
        for fixture, number in ((late[1], 1), (late[0], 1), (late[1], 0)):
            row = {"fixture": np.array([fixture]), "number": np.array([number]), "ticks": np.ones(1, np.int32)}
            league.record(row | {"outcome": np.array([[1, 0]], np.float32)})
        assert late == [3, 4]
        assert table.made == (ANCHORS, SEATS)
        later = [(4, [(4, 1)]), (3, [(3, 1), (4, 1)]), (4, [(4, 0), (4, 1)])]
        assert table.replayed == [(0, []), (1, [(1, 0)]), *later]
        again = League.of(store, Reader)._ratings
        assert again.replayed == [(0, [(1, 0), (3, 1), (4, 0), (4, 1)])]


class Counted(ShareTable):
    """A rating table that rates by the number of its results."""

    added = 0

    def __len__(self):
        return self.added

    def add(self, a, b, count):
        """Count the results, besides."""
        self.added += 1
        super().add(a, b, count)


def test_a_table_may_be_falsy(tmp_path):
    """A table with a length of 0 is used."""
    with Store.create(tmp_path / "run", {}) as store:
        table = partial(Counted, ShareConfig())
        league = League(store, players=PLAYERS, anchors=ANCHORS, seats=SEATS, ratings=table)
        freeze(league)
        assert league.rating("main@1") == Rating(50.0, 50 / 2**0.5, 0)
        play(league, "main@1", "random", [1] * 10, kind="eval")
        assert league.rating("main@1").matches == 10


# --- restarts -----------------------------------------------------------------------------------------------------


def test_a_restart_changes_nothing_readable(league):
    """Players, pools, payoffs and ratings are rebuilt from the store."""
    play(league, "main@0+", "random", [1, 0, 0.5])
    freeze(league, times=2)
    freeze(league, "exploiter")
    play(league, "main@2", "random", [1, 1, 0], kind="eval")
    play(league, "exploiter@1", "main@2", [1, 1, 0.5, 0], kind="eval")
    league.apply([PoolChange(pool="p", model=name, enters=True) for name in league.models])
    league.apply([PoolChange(pool="p", model="main@1", enters=False)])
    league.set_decisions("main", 12345)
    league.store.checkpoints.put(Checkpoint(player="main", path="p", hash="0" * 64, version=1, decisions=12345))
    league.store.commit()
    ratings = partial(ShareTable, ShareConfig())
    assert state(League.of(league.store, ratings)) == state(league)
    with Store.read(league.store.run_dir) as store:
        assert state(League.of(store, ratings)) == state(league)
    assert League.of(league.store).rating("main@2") == Rating(0.0, np.inf, 0)


@pytest.mark.parametrize(("checkpoint", "counted"), [(0, 100), (90, 100), (110, 110)])
def test_unsaved_decisions_are_dropped_at_a_restart(league, checkpoint, counted):
    """Decisions are those of the newest model or checkpoint; 0 without either."""
    league.freeze("main", hash="f" * 64, decisions=100, version=1, manifest={})
    if checkpoint:
        league.store.checkpoints.put(
            Checkpoint(player="main", path="p", hash="0" * 64, version=1, decisions=checkpoint)
        )
    for player in ("main", "exploiter"):
        league.set_decisions(player, 120)
    opened = League.of(league.store)
    assert [opened.players[player].decisions for player in ("main", "exploiter")] == [counted, 0]
    assert league.store.counters()["decisions/main"] == counted


def test_opening_makes_one_view_per_player(league, monkeypatch):
    """With the generations of all its models."""
    for generation in (0, 1, 1, 2, 2):
        league.freeze("main", hash="f" * 64, decisions=7, version=1, manifest={"generation": generation})
    freeze(league, "exploiter", times=40)
    made = []
    evolve = attrs.evolve
    monkeypatch.setattr(attrs, "evolve", lambda *args, **changes: made.append(changes) or evolve(*args, **changes))
    opened = League.of(league.store)
    assert opened.players == league.players
    assert opened.players["main"].generation_starts == (0, 2, 4)
    assert len([changes for changes in made if "models" in changes]) == 2


def test_many_participants(league):
    """The tables grow with the league."""
    freeze(league, times=100)
    for number in range(1, 101):
        play(league, "main@100+", f"main@{number}", [1] * (1 + number % 5))
    wins = league.payoff("main@100+", [f"main@{number}" for number in range(1, 101)])[:, 0]
    assert wins.tolist() == [1 + number % 5 for number in range(1, 101)]
    assert league.payoff("main@1", ["main@100+", "main@100"]).tolist() == [[0, 0, 2], [0, 0, 0]]


# --- resolving ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "participant"),
    [
        ("main", "main@2+"),
        ("main@live", "main@2+"),
        ("main@2+", "main@2+"),
        ("main@latest", "main@2"),
        ("main@1", "main@1"),
        ("exploiter@latest", "exploiter@0+"),
        ("random", "random"),
    ],
)
def test_texts_are_resolved(league, name, participant):
    """By number, as the latest, as the live one, or by an anchor name."""
    freeze(league, times=2)
    assert league.roster.resolve(name) == participant


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("randm", "did you mean 'random'"),
        ("mian@latest", "did you mean 'main@latest'"),
        ("main@9", "did you mean 'main@"),
        ("zzzzzz", "; models are main@1 to main@2; anchors are random, strong"),
        ("main@1+", "did you mean 'main@"),
        ("", "; models are "),
    ],
)
def test_an_unknown_name_gets_a_hint(league, name, hint):
    """The message suggests the closest name, or lists names."""
    freeze(league, times=2)
    with pytest.raises(ConfigError, match=hint):
        league.roster.resolve(name)
