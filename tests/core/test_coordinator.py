"""The coordinator says nothing it has not committed, shares work out fairly, and goes on where it was."""

from __future__ import annotations

import sqlite3
from collections import Counter

import numpy as np
import pytest
from attrs import evolve
from ludus._messaging.messages import (
    Checkpoint,
    Credit,
    Failure,
    FixtureRequest,
    Fixtures,
    Heartbeat,
    Hello,
    MetricsReport,
    ModelAck,
    ModelFrozen,
    Results,
    ResultsAck,
    Stop,
    Welcome,
)
from ludus._store.model_files import save_arrays
from ludus._store.store import Store
from ludus.errors import LudusError, StoreError
from ludus.matchmaker import Pairing, PoolChange
from ludus.recovery import ResumePoint
from ludus_dummy.events import received_events


def tell(runner, message, *, peer="sampler-0"):
    """Hand the coordinator one message and return its answers."""
    before = len(runner.sent)
    runner.coordinator.handle(peer, message)
    runner.coordinator.flush()
    return [message for who, to, message in runner.sent[before:] if to == peer]


def fixtures(runner, *, kind="train", count=1, peer="sampler-0"):
    """Ask for fixtures and return them."""
    answers = tell(runner, FixtureRequest(kind=kind, count=count), peer=peer)
    return tuple(fixture for answer in answers for fixture in answer.fixtures)


def results(fixture, *, report=1, matches=None, ticks=5, outcome=(1.0, 0.0)):
    """Return results of the first matches of a fixture."""
    count = fixture.matches if matches is None else matches
    arrays = {
        "fixture": np.full(count, fixture.id),
        "number": np.arange(count),
        "ticks": np.full(count, ticks, np.int32),
        "outcome": np.tile(np.array(outcome, np.float32), (count, 1)),
    }
    return Results(report=report, arrays=arrays)


def freeze(runner, number, *, player="main", decisions=0):
    """Freeze a model as a learner does and return the answers."""
    digest = save_arrays(runner.run_dir / "models", {"w": np.full(3, number)}, {"player": player})
    frozen = ModelFrozen(player=player, number=number, hash=digest, decisions=decisions or 100 * number, version=number)
    return tell(runner, frozen, peer=f"learner-{player}")


# -- committing ------------------------------------------------------------------------------------------------------


def test_nothing_is_answered_before_it_is_committed(league, monkeypatch):
    """If the disk refuses, no acknowledgement leaves and no plugin hears of it."""
    runner = league()
    (fixture,) = fixtures(runner)
    received_events.clear()
    before = len(runner.sent)

    def refuse(store):
        raise StoreError("the disk is full")

    monkeypatch.setattr(Store, "commit", refuse)
    runner.coordinator.handle("sampler-0", results(fixture))
    with pytest.raises(StoreError, match="the disk is full"):
        runner.coordinator.flush()
    assert len(runner.sent) == before
    assert not received_events


def test_answers_leave_after_the_commit(league, monkeypatch):
    """In this order, for results, models and fixtures alike."""
    runner, order = league(), []
    commit, send = Store.commit, type(runner.coordinator.link).send
    monkeypatch.setattr(Store, "commit", lambda store: (order.append("commit"), commit(store))[1])
    runner.coordinator.link.send = lambda peer, message: order.append(type(message).__name__) or True
    assert send
    runner.coordinator.handle("sampler-0", FixtureRequest(kind="train"))
    runner.coordinator.flush()
    assert order == ["commit", "Fixtures"]


def test_that_there_is_no_work_costs_no_commit(league, monkeypatch):
    """An idle evaluator does not wear out the disk."""
    runner = league(evaluation={"enabled": False})
    monkeypatch.setattr(Store, "commit", lambda store: pytest.fail("committed"))
    assert fixtures(runner, kind="eval", peer="sampler-0") == ()


def test_repeated_results_count_once(league):
    """They are acknowledged again."""
    runner = league()
    (fixture,) = fixtures(runner)
    for _ in range(2):
        assert tell(runner, results(fixture)) == [ResultsAck(report=1)]
    assert runner.coordinator.counts.training == fixture.matches == runner.store.matches.count()


def test_results_that_make_no_sense_are_refused_and_counted(league, caplog):
    """Whoever says them from elsewhere cannot end the run, and need not say them again; the log names it."""
    runner = league()
    (fixture,) = fixtures(runner)
    sound = results(fixture, outcome=(0.5, 0.5))
    outcome, ticks = sound.arrays["outcome"], sound.arrays["ticks"]
    for wrong in (
        {"outcome": np.ones((1, 9), np.float32)},
        {"ticks": -ticks},
        {"outcome": outcome * np.nan},
    ):
        broken = evolve(sound, arrays={**sound.arrays, **wrong})
        assert tell(runner, broken, peer="sampler-box-0") == [ResultsAck(report=1)]
    assert (runner.coordinator.stop_reason, runner.coordinator.counts.training) == ("", 0)
    assert runner.store.counters()["reports_refused"] == 3
    assert "refused report 2, of sampler-box-0: results: expected outcomes in [0, 1]" in caplog.text
    assert tell(runner, sound) == [ResultsAck(report=1)]  # what was dealt can still be played
    assert runner.coordinator.counts.training == fixture.matches


def test_plugins_hear_of_matches_and_models(league):
    """After the commit, once each."""
    runner = league()
    (fixture,) = fixtures(runner)
    received_events.clear()
    tell(runner, results(fixture))
    freeze(runner, 1)
    freeze(runner, 1)
    assert [name for name, _ in received_events] == ["match_ended", "model_frozen"]
    assert received_events[0][1] == (str(fixture.id), fixture.participants, (8.0, 0.0), 8)
    assert received_events[1][1][:2] == ("main", "main@1")


# -- training fixtures -----------------------------------------------------------------------------------------------


def test_many_fixtures_come_in_several_messages(league):
    """A message has a bound, and fixtures of many seats and parameters are large."""
    answers = tell(league(), FixtureRequest(kind="train", count=20))
    assert [len(answer.fixtures) for answer in answers] == [8, 8, 4]
    assert len({fixture.id for answer in answers for fixture in answer.fixtures}) == 20


def test_fixtures_follow_the_shares(league):
    """A player with three times the share gets three times the matches."""
    runner = league(players={"main": {"share": 3.0}, "other": {}})
    dealt = Counter(fixture.player for fixture in fixtures(runner, count=40))
    assert dealt == {"main": 30, "other": 10}


def test_shares_are_of_playing_time(league):
    """Whoever plays matches four times as long gets a quarter of the matches, after a resume too."""
    given = {"players": {"main": {}, "other": {}}, "sampling": {"fixture_matches": 64}}
    runner = league(**given)
    for number, fixture in enumerate(fixtures(runner, count=64)):
        tell(runner, results(fixture, report=1 + number, ticks=5 if fixture.player == "main" else 20))

    def dealt(runner):
        return Counter(fixture.player for fixture in fixtures(runner, count=50))

    fixtures(runner, count=50)  # what was dealt before lengths were known is made up for
    assert dealt(runner) == {"main": 40, "other": 10}
    runner.close()
    runner.store.close()
    assert dealt(league(**given)) == {"main": 40, "other": 10}


def test_one_long_match_changes_little(league):
    """How long a player's matches are is told by some hundreds of them, not by those that ended last."""
    runner = league(players={"main": {}, "other": {}}, sampling={"fixture_matches": 64})
    for number, fixture in enumerate(fixtures(runner, count=8)):
        tell(runner, results(fixture, report=1 + number, matches=63))
    (last,) = [fixture for fixture in fixtures(runner, count=2) if fixture.player == "main"]
    tell(runner, results(last, report=9, matches=1, ticks=500))
    dealt = Counter(fixture.player for fixture in fixtures(runner, count=50))
    assert 12 <= dealt["main"] <= 22  # about 50 · 5 / (5 + 7), not one of a hundred


def test_a_player_of_any_team_changes_seats(league):
    """From fixture to fixture."""
    runner = league(players={"main": {}, "other": {}})
    for name in runner.coordinator.training.matchmakers:
        runner.coordinator.training.matchmakers[name].next_fixture = lambda *_: Pairing(
            opponents=("random",), reason="test"
        )
    seats = [fixture.participants.index("main@0+") for fixture in fixtures(runner, count=8) if fixture.player == "main"]
    assert seats == [0, 1, 0, 1]


def test_a_role_of_one_team_keeps_its_seat(league):
    """In an asymmetric game nobody changes sides."""
    runner = league(environment="dummy-guess", players={"cat": {"role": "seeker"}, "mouse": {"role": "hider"}})
    assert {fixture.participants for fixture in fixtures(runner, count=8)} == {("mouse@0+", "cat@0+")}


def test_a_matchmaker_that_names_too_few_opponents_is_told(league):
    """The line names the player and what was expected."""
    runner = league()
    runner.coordinator.training.matchmakers["main"].next_fixture = lambda *_: Pairing(opponents=(), reason="")
    with pytest.raises(LudusError, match=r"matchmaker of player 'main': next_fixture named 0 opponents; expected 1"):
        fixtures(runner)


# -- evaluation ------------------------------------------------------------------------------------------------------


def test_ratings_are_paired(league):
    """The same seed from both seats, each fixture naming its pair."""
    runner = league(anchors=("random", "perfect"))
    first, second = fixtures(runner, kind="eval", peer="evaluator-0")
    assert first.participants == second.participants[::-1]
    assert (first.seed, first.matches) == (second.seed, second.matches)
    assert (first.paired, second.paired) == ("", str(first.id))


def test_a_pair_is_out_a_limited_number_of_times(league):
    """Idle evaluators do not all rate the same two; the third request finds nothing."""
    runner = league(anchors=("random", "perfect"))
    pair = ("random", "perfect")
    runner.coordinator.evaluation.matchmaker.next_evaluation = lambda *_: pair
    assert [len(fixtures(runner, kind="eval", peer="evaluator-0")) for _ in range(3)] == [2, 2, 0]


def test_ratings_keep_to_their_budget(league):
    """What is out counts, and what was played, after a resume too."""
    runner = league(anchors=("random", "perfect"), evaluation={"share": 0.5})
    assert not fixtures(runner, kind="eval", peer="evaluator-0")
    (trained,) = fixtures(runner)
    tell(runner, results(trained))
    rating = fixtures(runner, kind="eval", peer="evaluator-0")
    assert len(rating) == 2
    while sum(fixture.matches for fixture in rating) < 0.5 * trained.matches:
        rating += fixtures(runner, kind="eval", peer="evaluator-0")
    assert not fixtures(runner, kind="eval", peer="evaluator-0")
    for number, fixture in enumerate(rating):
        tell(runner, results(fixture, report=2 + number), peer="evaluator-0")
    assert runner.coordinator.counts.rating == sum(fixture.matches for fixture in rating)
    runner.close()
    runner.store.close()
    resumed = league(anchors=("random", "perfect"), evaluation={"share": 0.5})
    assert resumed.coordinator.counts.rating == runner.coordinator.counts.rating
    assert not fixtures(resumed, kind="eval", peer="evaluator-0")


def test_unfinished_ratings_of_who_is_gone_are_handed_out_again(league):
    """To whoever asks next; it need not come back."""
    runner = league(anchors=("random", "perfect"))
    out = fixtures(runner, kind="eval", peer="sampler-away-0")
    assert out
    tell(runner, MetricsReport(values={"ticks_per_s": 1.0}), peer="sampler-away-0")
    assert out[0] not in fixtures(runner, kind="eval", peer="evaluator-0")
    tell(runner, MetricsReport(values={}), peer="sampler-away-0")
    assert fixtures(runner, kind="eval", count=2, peer="evaluator-0") == out


def test_ratings_that_who_was_taken_for_gone_finishes_are_finished(league):
    """Nobody else gets them then."""
    runner = league(anchors=("random", "perfect"))
    (first, *_) = out = fixtures(runner, kind="eval", peer="sampler-away-0")
    tell(runner, MetricsReport(values={}), peer="sampler-away-0")
    tell(runner, results(first), peer="sampler-away-0")
    assert first not in fixtures(runner, kind="eval", count=len(out) + 1, peer="evaluator-0")


def test_unfinished_ratings_are_handed_out_again_after_a_restart(league):
    """Once each; finished ones are not."""
    runner = league(anchors=("random", "perfect"))
    first, second = fixtures(runner, kind="eval", peer="evaluator-0")
    tell(runner, results(first), peer="evaluator-0")
    tell(runner, results(second, report=2, matches=2), peer="evaluator-0")
    tell(runner, Hello(), peer="evaluator-0")
    assert fixtures(runner, kind="eval", peer="evaluator-0") == (second,)
    assert second not in fixtures(runner, kind="eval", peer="evaluator-0")


def test_unfinished_ratings_are_handed_out_again_after_a_resume(league):
    """Training that was out is given up: its live weights go on as others."""
    runner = league(anchors=("random", "perfect"))
    unfinished, finished = fixtures(runner, kind="eval", peer="evaluator-0")
    tell(runner, results(finished), peer="evaluator-0")
    fixtures(runner)
    runner.close()
    runner.store.close()
    resumed = league(anchors=("random", "perfect"))
    assert fixtures(resumed, kind="eval", peer="evaluator-0") == (unfinished,)
    assert resumed.coordinator.league.open_fixtures()[:1] == [unfinished]
    assert not [o for o in resumed.coordinator.league.open_fixtures() if o.kind == "train"]


# -- models ----------------------------------------------------------------------------------------------------------


def test_models_enter_the_pools_their_matchmaker_says(league):
    """And know their parents."""
    runner = league()
    assert freeze(runner, 1) == freeze(runner, 1) == [ModelAck(number=1, models=1)]
    freeze(runner, 2)
    assert runner.coordinator.league.pool("dummy") == ("main@1", "main@2")
    models = runner.coordinator.league.models
    assert models["main@2"].parent == models["main@1"].hash


def test_a_learner_and_its_successor_may_mean_the_same_number(league):
    """What the one froze may arrive after the other was welcomed; both models stay."""
    runner = league()
    freeze(runner, 1)
    digest = save_arrays(runner.run_dir / "models", {"w": np.zeros(3)}, {"player": "main"})
    late = ModelFrozen(player="main", number=1, hash=digest, decisions=90, version=9)
    assert tell(runner, late, peer="learner-main") == [ModelAck(number=1, models=2)]
    assert list(runner.coordinator.league.models) == ["main@1", "main@2"]
    assert runner.coordinator.league.models["main@2"].hash == digest


def test_weights_that_have_not_moved_are_another_model(league):
    """An algorithm may have collected data since, and who ordered it is told that it is there."""
    runner = league()
    digest = save_arrays(runner.run_dir / "models", {"w": np.zeros(3)}, {"player": "main"})
    for number in (1, 2, 2):
        frozen = ModelFrozen(player="main", number=number, hash=digest, decisions=100 * number, version=1)
        (answer,) = tell(runner, frozen, peer="learner-main")
        assert answer == ModelAck(number=number, models=number)
    assert [(m.hash, m.decisions) for m in runner.coordinator.league.models.values()] == [(digest, 100), (digest, 200)]


def test_a_model_that_missed_its_pools_enters_them_later(tables, league):
    """A crash between the two leaves nobody outside."""
    runner = league()
    admit = type(runner.coordinator.models).admit
    type(runner.coordinator.models).admit = lambda *_: None
    try:
        freeze(runner, 1)
    finally:
        type(runner.coordinator.models).admit = admit
    assert runner.coordinator.league.pool("dummy") == ()
    runner.close()
    runner.store.close()
    assert league().coordinator.league.pool("dummy") == ("main@1",)


def test_a_model_that_has_left_its_pools_stays_outside(tables, league):
    """A restart does not bring old models back into a pool that they had to leave."""
    runner = league()
    freeze(runner, 1)
    runner.coordinator.league.apply([PoolChange(pool="dummy", model="main@1", enters=False)])
    runner.store.commit()
    runner.close()
    runner.store.close()
    assert league().coordinator.league.pool("dummy") == ()


def test_a_learner_is_told_where_to_go_on(league):
    """Its models, its checkpoint and the time trained."""
    runner = league()
    saved = Checkpoint(player="main", path="learners/main/1", hash="a", version=4, decisions=9)
    tell(runner, saved, peer="learner-main")
    freeze(runner, 1)
    runner.now_s += 7.0
    runner.coordinator.flush()
    (welcome,) = tell(runner, Hello(), peer="learner-main")
    assert welcome == Welcome(
        elapsed_s=welcome.elapsed_s,
        resume=ResumePoint(models=1, checkpoint="learners/main/1", checkpoint_hash="a"),
    )
    assert welcome.elapsed_s >= 7.0
    assert tell(runner, Hello())[0].resume == ResumePoint()


def test_what_was_learned_since_the_checkpoint_is_lost_with_the_learner(league):
    """Decisions are those that its successor goes on from, or models would seem to be overdue."""
    runner = league()
    freeze(runner, 1)
    for said, counted in ((400, 400), (0, 400), (150, 150), (50, 100)):
        tell(runner, Heartbeat(count=said), peer="learner-main")
        assert runner.coordinator.decisions == counted


def test_a_run_does_not_end_by_decisions_that_are_lost(league):
    """Neither once a learner is gone, nor when its last words are read after that."""
    runner = league(run={"decisions": 500})
    coordinator = runner.coordinator
    freeze(runner, 1)
    tell(runner, Checkpoint(player="main", path="p", hash="0" * 64, version=2, decisions=200), peer="learner-main")
    tell(runner, Heartbeat(count=500), peer="learner-main")
    coordinator.membership.forget_unsaved(["learner-main", "sampler-0"])
    assert coordinator.stop_reason == "500 decisions are learned"
    coordinator.membership.forget_unsaved(["sampler-0"])
    assert (coordinator.stop_reason, coordinator.decisions) == ("", 200)
    tell(runner, Heartbeat(count=500), peer="learner-main")
    tell(runner, Hello(), peer="learner-main")
    assert (coordinator.stop_reason, coordinator.decisions) == ("", 200)


def test_decisions_never_fall_behind_a_model(league):
    """Though a learner may go on from a checkpoint that is older, and freeze again before it has caught up."""
    runner = league()
    freeze(runner, 3)
    freeze(runner, 2, decisions=120)
    view = runner.coordinator.league.players["main"]
    assert (view.decisions, view.frozen_decisions) == (300, 300)


def test_a_learner_hears_what_the_others_have_learned_from(league):
    """When it is welcomed, and whenever it tells its own."""
    runner = league(players={"main": {}, "other": {}, "third": {}})
    assert tell(runner, Heartbeat(count=60), peer="learner-main")[0].other_decisions == 0
    assert tell(runner, Heartbeat(count=40), peer="learner-other")[0].other_decisions == 60
    assert tell(runner, Hello(), peer="learner-third")[0].other_decisions == 100
    assert tell(runner, Heartbeat(count=0), peer="learner-third")[0].other_decisions == 100
    assert tell(runner, Heartbeat(count=9)) == []


def test_schedules_end_with_the_run_whatever_the_shares(league):
    """A player with four fifths of the matches is as far in them as the other one."""
    runner = league(
        sampling={"opponents_learn": False}, players={"main": {"share": 4.0}, "other": {}}, run={"decisions": 4000}
    )
    runner.train(2000)
    first, second = (runner.learner(name) for name in ("main", "other"))
    assert first.decisions > 2 * second.decisions
    assert first.progress == pytest.approx(0.5, abs=0.05)
    assert second.progress == pytest.approx(0.5, abs=0.1)


# -- the end ---------------------------------------------------------------------------------------------------------


def test_it_finishes_by_decisions(league):
    """Those of all players count."""
    runner = league(run={"decisions": 100}, players={"main": {}, "other": {}})
    assert not runner.coordinator.stop_reason
    tell(runner, Heartbeat(count=60), peer="learner-main")
    assert not runner.coordinator.stop_reason
    tell(runner, Heartbeat(count=40), peer="learner-other")
    assert runner.coordinator.stop_reason == "100 decisions are learned"


def test_it_finishes_by_time(league):
    """The clock counts over all resumes."""
    runner = league(run={"minutes": 1.0, "decisions": 0})
    runner.now_s += 61.0
    runner.coordinator.flush()
    assert runner.coordinator.stop_reason == "1 minutes are over"


def test_a_worker_that_comes_late_is_told_to_stop(league):
    """It was not there yet when the others were told."""
    runner = league()
    assert [type(answer) for answer in tell(runner, Hello())] == [Welcome]
    runner.coordinator.stop([])
    assert {type(answer) for answer in tell(runner, Hello())} == {Stop, Welcome}


@pytest.mark.parametrize("fatal", [True, False])
def test_a_fatal_failure_ends_the_run(league, fatal):
    """Another one is for the supervisor to tell."""
    runner = league()
    tell(runner, Failure(error="no such model", fatal=fatal))
    assert runner.coordinator.membership.errors == {"sampler-0": "no such model"}
    assert runner.coordinator.stop_reason == ("no such model" if fatal else "")


# -- resuming --------------------------------------------------------------------------------------------------------


def state(runner):
    """Return what a resume must restore."""
    league = runner.coordinator.league
    names = [*league.anchors, *league.models]
    return {
        "pools": {name: league.pool(name) for name in league.pools},
        "models": {name: model.hash for name, model in league.models.items()},
        "payoffs": [league.payoff(name, names).tolist() for name in names],
        "ratings": [league.rating(name) for name in names],
        "decisions": runner.coordinator.decisions,
        "matches": (runner.coordinator.counts.training, runner.coordinator.counts.rating),
        "dealt": dict(runner.coordinator.training.scheduler.assigned),
        "length": dict(runner.coordinator.training.scheduler.match_ticks),
        "turn": dict(runner.coordinator.training.seat_turns),
    }


def test_a_resumed_league_decides_like_one_that_was_never_stopped(league):
    """Pools, payoffs, ratings, counters and the random state are as they were: the next fixtures are the same."""
    runner = league(anchors=("random", "perfect"))
    runner.train(1500)
    runner.finish()
    before = state(runner)
    rng = runner.coordinator.rng.bit_generator.state
    assert min(before["matches"]) > 0
    assert before["models"]
    runner.close()
    runner.store.close()
    resumed = league(anchors=("random", "perfect"))
    assert state(resumed) == before
    assert resumed.coordinator.rng.bit_generator.state == rng
    resumed.train(2500)
    assert resumed.coordinator.counts.training > before["matches"][0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"rng": {}},
        {"assigned": {"main": None}},
        {"match_ticks": 3},
        {"seat_turns": {"main": "x"}},
        {"rules_applied_at": "x"},
        {"rules": 1},
    ],
    ids=str,
)
def test_what_a_resumed_league_cannot_go_on_from_is_damage(league, wrong):
    """As rows are from which no record can be made; who opened the database says which it is."""
    runner = league()
    runner.store.set_meta("matchmaking", wrong)
    runner.store.commit()
    runner.close()
    runner.store.close()
    with pytest.raises(sqlite3.DatabaseError, match="meta value 'matchmaking' is malformed"):
        league()


def test_a_league_goes_on_without_a_player(league):
    """Nobody meets its models again, which are in pools and in ratings that were under way."""
    players = {"main": {}, "other": {}}
    runner = league(players=players)
    runner.until(lambda: len(runner.coordinator.league.players["other"].models) > 1)
    gone = runner.coordinator.evaluation.create(("other@1", "random"), 4, reason="rating")
    runner.finish()
    before = max(m.id for answer in runner.messages(Fixtures) for m in answer.fixtures)
    runner.close()
    runner.store.close()
    resumed = league(players={"main": {}}, run={"decisions": 9000})
    assert resumed.coordinator.league.pool("dummy")
    resumed.train(resumed.coordinator.decisions + 1000)
    later = [fixture for answer in resumed.messages(Fixtures) for fixture in answer.fixtures]
    assert max(fixture.id for fixture in later) > max(before, gone[-1].id)
    assert not [name for fixture in later for name in fixture.participants if name.startswith("other@")]


def test_equal_leagues_are_equal_message_by_message(league, tmp_path):
    """Nothing depends on anything but the seed, not even metrics and schedules."""
    players = {"main": {}, "other": {"share": 0.5}}
    runs = [league(run_dir=tmp_path / name, anchors=("random", "perfect"), players=players) for name in "ab"]
    for runner in runs:
        runner.train(1200)
        runner.finish()
    assert state(runs[0]) == state(runs[1])
    assert [m.fixtures for m in runs[0].messages(Fixtures)] == [m.fixtures for m in runs[1].messages(Fixtures)]
    assert [m.progress for m in runs[0].messages(Credit)] == [m.progress for m in runs[1].messages(Credit)]
    assert runs[0].coordinator.membership.metrics == runs[1].coordinator.membership.metrics
