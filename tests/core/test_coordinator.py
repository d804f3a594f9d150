"""The coordinator: commits before answers, shares, ratings, models and resumes."""

from __future__ import annotations

import sqlite3
from collections import Counter

import numpy as np
import pytest
from attrs import evolve
from ludus._league import model_scan
from ludus._messaging.messages import (
    Checkpoint,
    Credit,
    DamagedModel,
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
from ludus._store.model_files import save_arrays, save_checkpoint
from ludus._store.store import Store
from ludus.errors import LudusError, StoreError
from ludus.matchmaker import Pairing, PoolChange
from ludus.recovery import ResumePoint
from ludus.rule import Reset
from ludus_dummy.events import received_events


def send(runner, message, *, peer="sampler-0"):
    """Send the coordinator a message and return its answers."""
    before = len(runner.sent)
    runner.coordinator.handle(peer, message)
    runner.coordinator.flush()
    return [message for _, to, message in runner.sent[before:] if to == peer]


def fixtures(runner, *, kind="train", count=1, peer="sampler-0"):
    """Request fixtures and return them."""
    answers = send(runner, FixtureRequest(kind=kind, count=count), peer=peer)
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
    return send(runner, frozen, peer=f"learner-{player}")


def checkpoint(runner, *, version, decisions):
    """Write a checkpoint as a learner does and return its message."""
    saved = save_checkpoint(runner.run_dir / "learners" / "main", {"w": np.ones(3)}, {})
    return Checkpoint(player="main", path=saved.path, hash=saved.hash, version=version, decisions=decisions)


# -- committing ------------------------------------------------------------------------------------------------------


def test_no_answer_before_the_commit(league, monkeypatch):
    """If the disk fails, no acknowledgement is sent and no event is emitted."""
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


def test_answers_are_sent_after_the_commit(league, monkeypatch):
    """The commit comes first."""
    runner, order = league(), []
    commit = Store.commit
    monkeypatch.setattr(Store, "commit", lambda store: (order.append("commit"), commit(store))[1])
    runner.coordinator.link.send = lambda peer, message: order.append(type(message).__name__) or True
    runner.coordinator.handle("sampler-0", FixtureRequest(kind="train"))
    runner.coordinator.flush()
    assert order == ["commit", "Fixtures"]


def test_an_empty_fixture_answer_needs_no_commit(league, monkeypatch):
    """An idle evaluator causes no commits."""
    runner = league(evaluation={"enabled": False})
    monkeypatch.setattr(Store, "commit", lambda store: pytest.fail("committed"))
    assert fixtures(runner, kind="eval", peer="evaluator-0") == ()


def test_repeated_results_count_once(league):
    """A repeated report is acknowledged again."""
    runner = league()
    (fixture,) = fixtures(runner)
    for _ in range(2):
        assert send(runner, results(fixture)) == [ResultsAck(report=1)]
    assert runner.coordinator.counts.training == fixture.matches == runner.store.matches.count()


def test_malformed_results_are_refused_and_counted(league, caplog):
    """A malformed report is acknowledged and logged with its worker, and does not end the run."""
    runner = league()
    (fixture,) = fixtures(runner, peer="sampler-box-0")
    sound = results(fixture, outcome=(0.5, 0.5))
    outcome, ticks = sound.arrays["outcome"], sound.arrays["ticks"]
    for wrong in (
        {"outcome": np.ones((1, 9), np.float32)},
        {"ticks": -ticks},
        {"outcome": outcome * np.nan},
    ):
        broken = evolve(sound, arrays={**sound.arrays, **wrong})
        assert send(runner, broken, peer="sampler-box-0") == [ResultsAck(report=1)]
    assert (runner.coordinator.stop_reason, runner.coordinator.counts.training) == ("", 0)
    assert runner.store.counters()["reports_refused"] == 3
    assert "refused message 2, of sampler-box-0: results: expected outcomes in [0, 1]" in caplog.text
    assert send(runner, sound, peer="sampler-box-0") == [ResultsAck(report=1)]  # what was dealt can still be played
    assert runner.coordinator.counts.training == fixture.matches


def test_events_of_matches_and_models(league):
    """Events are emitted once each, after the commit."""
    runner = league()
    (fixture,) = fixtures(runner)
    received_events.clear()
    send(runner, results(fixture))
    freeze(runner, 1)
    freeze(runner, 1)
    assert [name for name, _ in received_events] == ["match_ended", "model_frozen"]
    assert received_events[0][1] == (str(fixture.id), fixture.participants, (8.0, 0.0), 8)
    assert received_events[1][1][:2] == ("main", "main@1")


# -- training fixtures -----------------------------------------------------------------------------------------------


def test_many_fixtures_are_split_into_messages(league):
    """A message has at most 8 fixtures."""
    answers = send(league(), FixtureRequest(kind="train", count=20))
    assert [len(answer.fixtures) for answer in answers] == [8, 8, 4]
    assert len({fixture.id for answer in answers for fixture in answer.fixtures}) == 20


def test_fixtures_follow_the_shares(league):
    """A player with three times the share gets three times the fixtures."""
    runner = league(players={"main": {"share": 3.0}, "other": {}})
    dealt = Counter(fixture.player for fixture in fixtures(runner, count=40))
    assert dealt == {"main": 30, "other": 10}


def test_shares_are_shares_of_ticks(league):
    """A player with matches of four times the length gets a quarter of the fixtures, also after a resume."""
    given = {"players": {"main": {}, "other": {}}, "sampling": {"fixture_matches": 64}}
    runner = league(**given)
    for number, fixture in enumerate(fixtures(runner, count=64)):
        send(runner, results(fixture, report=1 + number, ticks=5 if fixture.player == "main" else 20))

    def dealt(runner):
        return Counter(fixture.player for fixture in fixtures(runner, count=50))

    fixtures(runner, count=50)  # what was dealt before lengths were known is made up for
    assert dealt(runner) == {"main": 40, "other": 10}
    runner.close()
    runner.store.close()
    assert dealt(league(**given)) == {"main": 40, "other": 10}


def test_one_long_match_changes_little(league):
    """The length of matches is a mean over hundreds of matches."""
    runner = league(players={"main": {}, "other": {}}, sampling={"fixture_matches": 64})
    for number, fixture in enumerate(fixtures(runner, count=8)):
        send(runner, results(fixture, report=1 + number, matches=63))
    (last,) = [fixture for fixture in fixtures(runner, count=2) if fixture.player == "main"]
    send(runner, results(last, report=9, matches=1, ticks=500))
    dealt = Counter(fixture.player for fixture in fixtures(runner, count=50))
    assert 12 <= dealt["main"] <= 22  # about 50 · 5 / (5 + 7), not one of a hundred


def test_a_player_of_any_team_rotates_seats(league):
    """The seat changes with every fixture."""
    runner = league(players={"main": {}, "other": {}})
    for name in runner.coordinator.training.matchmakers:
        runner.coordinator.training.matchmakers[name].next_fixture = lambda *_: Pairing(
            opponents=("random",), reason="test"
        )
    seats = [fixture.participants.index("main@0+") for fixture in fixtures(runner, count=8) if fixture.player == "main"]
    assert seats == [0, 1, 0, 1]


def test_a_role_of_one_team_keeps_its_seat(league):
    """In an asymmetric game no player changes sides."""
    runner = league(environment="dummy-guess", players={"cat": {"role": "seeker"}, "mouse": {"role": "hider"}})
    assert {fixture.participants for fixture in fixtures(runner, count=8)} == {("mouse@0+", "cat@0+")}


def test_too_few_opponents_are_an_error(league):
    """The message names the player and the expected number."""
    runner = league()
    runner.coordinator.training.matchmakers["main"].next_fixture = lambda *_: Pairing(opponents=(), reason="")
    with pytest.raises(LudusError, match=r"matchmaker of player 'main': next_fixture named 0 opponents; expected 1"):
        fixtures(runner)


# -- evaluation ------------------------------------------------------------------------------------------------------


def test_rating_fixtures_are_paired(league):
    """Both have the same seed and swapped seats, and the second refers to the first."""
    runner = league(anchors=("random", "perfect"))
    first, second = fixtures(runner, kind="eval", peer="evaluator-0")
    assert first.participants == second.participants[::-1]
    assert (first.seed, first.matches) == (second.seed, second.matches)
    assert (first.paired, second.paired) == ("", str(first.id))


def test_a_pair_is_assigned_a_limited_number_of_times(league):
    """The third request for the same pair gets no fixture."""
    runner = league(anchors=("random", "perfect"))
    pair = ("random", "perfect")
    runner.coordinator.evaluation.matchmaker.next_evaluation = lambda *_: pair
    assert [len(fixtures(runner, kind="eval", peer="evaluator-0")) for _ in range(3)] == [2, 2, 0]


def test_rating_matches_stay_within_the_budget(league):
    """Assigned and finished matches count, also after a resume."""
    runner = league(anchors=("random", "perfect"), evaluation={"share": 0.5})
    assert not fixtures(runner, kind="eval", peer="evaluator-0")
    (trained,) = fixtures(runner)
    send(runner, results(trained))
    rating = fixtures(runner, kind="eval", peer="evaluator-0")
    assert len(rating) == 2
    while sum(fixture.matches for fixture in rating) < 0.5 * trained.matches:
        rating += fixtures(runner, kind="eval", peer="evaluator-0")
    assert not fixtures(runner, kind="eval", peer="evaluator-0")
    for number, fixture in enumerate(rating):
        send(runner, results(fixture, report=2 + number), peer="evaluator-0")
    assert runner.coordinator.counts.rating == sum(fixture.matches for fixture in rating)
    runner.close()
    runner.store.close()
    resumed = league(anchors=("random", "perfect"), evaluation={"share": 0.5})
    assert resumed.coordinator.counts.rating == runner.coordinator.counts.rating
    assert not fixtures(resumed, kind="eval", peer="evaluator-0")


def test_unfinished_ratings_of_a_lost_worker_are_reassigned(league):
    """The next worker that requests fixtures gets them."""
    runner = league(anchors=("random", "perfect"))
    out = fixtures(runner, kind="eval", peer="evaluator-away")
    assert out
    send(runner, MetricsReport(values={"ticks_per_s": 1.0}), peer="evaluator-away")
    assert out[0] not in fixtures(runner, kind="eval", peer="evaluator-0")
    send(runner, MetricsReport(values={}), peer="evaluator-away")
    assert fixtures(runner, kind="eval", count=2, peer="evaluator-0") == out


def test_ratings_finished_by_a_worker_reported_lost_are_not_reassigned(league):
    """Their results count, and no other worker gets them."""
    runner = league(anchors=("random", "perfect"))
    (first, *_) = out = fixtures(runner, kind="eval", peer="evaluator-away")
    send(runner, MetricsReport(values={}), peer="evaluator-away")
    send(runner, results(first), peer="evaluator-away")
    assert first not in fixtures(runner, kind="eval", count=len(out) + 1, peer="evaluator-0")


def test_unfinished_ratings_are_reassigned_after_a_restart(league):
    """Each is assigned once; finished ones are not."""
    runner = league(anchors=("random", "perfect"))
    first, second = fixtures(runner, kind="eval", peer="evaluator-0")
    send(runner, results(first), peer="evaluator-0")
    send(runner, results(second, report=2, matches=2), peer="evaluator-0")
    send(runner, Hello(), peer="evaluator-0")
    assert fixtures(runner, kind="eval", peer="evaluator-0") == (second,)
    assert second not in fixtures(runner, kind="eval", peer="evaluator-0")


def test_unfinished_ratings_are_reassigned_after_a_resume(league):
    """Training fixtures are closed, because their live weights change."""
    runner = league(anchors=("random", "perfect"))
    unfinished, finished = fixtures(runner, kind="eval", peer="evaluator-0")
    send(runner, results(finished), peer="evaluator-0")
    fixtures(runner)
    runner.close()
    runner.store.close()
    resumed = league(anchors=("random", "perfect"))
    assert fixtures(resumed, kind="eval", peer="evaluator-0") == (unfinished,)
    assert resumed.coordinator.league.open_fixtures()[:1] == [unfinished]
    assert not [o for o in resumed.coordinator.league.open_fixtures() if o.kind == "train"]


# -- models ----------------------------------------------------------------------------------------------------------


def test_models_enter_the_pools_of_their_matchmaker(league):
    """Manifests name the parent model."""
    runner = league()
    assert freeze(runner, 1) == freeze(runner, 1) == [ModelAck(number=1, models=1)]
    freeze(runner, 2)
    assert runner.coordinator.league.pool("dummy") == ("main@1", "main@2")
    models = runner.coordinator.league.models
    assert models["main@2"].parent == models["main@1"].hash


def test_two_models_may_be_sent_with_the_same_number(league):
    """A model of a lost learner may arrive after its successor has frozen one; both are kept."""
    runner = league()
    freeze(runner, 1)
    digest = save_arrays(runner.run_dir / "models", {"w": np.zeros(3)}, {"player": "main"})
    late = ModelFrozen(player="main", number=1, hash=digest, decisions=90, version=9)
    assert send(runner, late, peer="learner-main") == [ModelAck(number=1, models=2)]
    assert list(runner.coordinator.league.models) == ["main@1", "main@2"]
    assert runner.coordinator.league.models["main@2"].hash == digest


def test_equal_weights_after_more_decisions_are_another_model(league):
    """The model is acknowledged under its own number."""
    runner = league()
    digest = save_arrays(runner.run_dir / "models", {"w": np.zeros(3)}, {"player": "main"})
    for number in (1, 2, 2):
        frozen = ModelFrozen(player="main", number=number, hash=digest, decisions=100 * number, version=1)
        (answer,) = send(runner, frozen, peer="learner-main")
        assert answer == ModelAck(number=number, models=number)
    assert [(m.hash, m.decisions) for m in runner.coordinator.league.models.values()] == [(digest, 100), (digest, 200)]


def test_a_model_that_missed_its_pools_enters_them_at_the_resume(tables, league):
    """A crash may come between the commit of a model and its admission to pools."""
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


def test_a_model_that_left_its_pools_does_not_return(tables, league):
    """A resume admits only models that were in no pool."""
    runner = league()
    freeze(runner, 1)
    runner.coordinator.league.apply([PoolChange(pool="dummy", model="main@1", enters=False)])
    runner.store.commit()
    runner.close()
    runner.store.close()
    assert league().coordinator.league.pool("dummy") == ()


def test_welcome_holds_what_a_learner_resumes_from(league):
    """It holds the number of models, the checkpoint and the time trained."""
    runner = league()
    saved = checkpoint(runner, version=4, decisions=9)
    send(runner, saved, peer="learner-main")
    freeze(runner, 1)
    runner.now_s += 7.0
    runner.coordinator.flush()
    (welcome,) = send(runner, Hello(), peer="learner-main")
    assert welcome == Welcome(
        elapsed_s=welcome.elapsed_s,
        resume=ResumePoint(models=1, checkpoint=saved.path, checkpoint_hash=saved.hash),
    )
    assert welcome.elapsed_s >= 7.0
    assert send(runner, Hello())[0].resume == ResumePoint()


def test_decisions_since_the_checkpoint_are_lost_with_a_learner(league):
    """Decisions are those that its successor resumes from, at least those of the newest model."""
    runner = league()
    freeze(runner, 1)
    for reported, counted in ((400, 400), (0, 400), (150, 150), (50, 100)):
        send(runner, Heartbeat(count=reported), peer="learner-main")
        assert runner.coordinator.league.decisions == counted


def test_lost_decisions_do_not_end_a_run(league):
    """Neither after a learner is lost, nor when its last heartbeat arrives later."""
    runner = league(run={"decisions": 500})
    coordinator = runner.coordinator
    freeze(runner, 1)
    send(runner, checkpoint(runner, version=2, decisions=200), peer="learner-main")
    send(runner, Heartbeat(count=500), peer="learner-main")
    coordinator.membership.forget_unsaved(["learner-main", "sampler-0"])
    assert coordinator.stop_reason == "500 decisions are learned"
    coordinator.membership.forget_unsaved(["sampler-0"])
    assert (coordinator.stop_reason, coordinator.league.decisions) == ("", 200)
    send(runner, Heartbeat(count=500), peer="learner-main")
    send(runner, Hello(), peer="learner-main")
    assert (coordinator.stop_reason, coordinator.league.decisions) == ("", 200)


def test_decisions_are_at_least_those_of_the_newest_model(league):
    """A learner may resume from an older checkpoint and freeze again."""
    runner = league()
    freeze(runner, 3)
    freeze(runner, 2, decisions=120)
    view = runner.coordinator.league.players["main"]
    assert (view.decisions, view.frozen_decisions) == (300, 300)


def test_learners_receive_the_decisions_of_other_players(league):
    """With the welcome, and as answer to every heartbeat."""
    runner = league(players={"main": {}, "other": {}, "third": {}})
    assert send(runner, Heartbeat(count=60), peer="learner-main")[0].other_decisions == 0
    assert send(runner, Heartbeat(count=40), peer="learner-other")[0].other_decisions == 60
    assert send(runner, Hello(), peer="learner-third")[0].other_decisions == 100
    assert send(runner, Heartbeat(count=0), peer="learner-third")[0].other_decisions == 100
    assert send(runner, Heartbeat(count=9)) == []


def test_schedules_end_with_the_run_for_all_shares(league):
    """Players with different shares have the same progress."""
    runner = league(
        sampling={"opponents_learn": False}, players={"main": {"share": 4.0}, "other": {}}, run={"decisions": 4000}
    )
    runner.train(2000)
    first, second = (runner.learner(name) for name in ("main", "other"))
    assert first.state.decisions > 2 * second.state.decisions
    assert first.state.progress(first.clock()) == pytest.approx(0.5, abs=0.05)
    assert second.state.progress(second.clock()) == pytest.approx(0.5, abs=0.1)


# -- the end ---------------------------------------------------------------------------------------------------------


def test_a_run_stops_by_decisions(league):
    """Decisions of all players count."""
    runner = league(run={"decisions": 100}, players={"main": {}, "other": {}})
    assert not runner.coordinator.stop_reason
    send(runner, Heartbeat(count=60), peer="learner-main")
    assert not runner.coordinator.stop_reason
    send(runner, Heartbeat(count=40), peer="learner-other")
    assert runner.coordinator.stop_reason == "100 decisions are learned"


def test_a_run_stops_by_time(league):
    """The time counts over all resumes."""
    runner = league(run={"minutes": 1.0, "decisions": 0})
    runner.now_s += 61.0
    runner.coordinator.flush()
    assert runner.coordinator.stop_reason == "1 minutes are over"


def test_a_late_worker_is_stopped(league):
    """A worker that connects while the run stops receives a stop, too."""
    runner = league()
    assert [type(answer) for answer in send(runner, Hello())] == [Welcome]
    runner.coordinator.stop([])
    assert {type(answer) for answer in send(runner, Hello())} == {Stop, Welcome}


@pytest.mark.parametrize("fatal", [True, False])
def test_a_fatal_failure_ends_the_run(league, fatal):
    """Other failures are left to the supervisor."""
    runner = league()
    send(runner, Failure(error="no such model", fatal=fatal))
    assert runner.coordinator.membership.errors == {"sampler-0": "no such model"}
    assert runner.coordinator.stop_reason == ("no such model" if fatal else "")


# -- resuming --------------------------------------------------------------------------------------------------------


def state(runner):
    """Return the state that a resume must restore."""
    league = runner.coordinator.league
    names = [*league.anchors, *league.models]
    return {
        "pools": {name: league.pool(name) for name in league.pools},
        "models": {name: model.hash for name, model in league.models.items()},
        "payoffs": [league.payoff(name, names).tolist() for name in names],
        "ratings": [league.rating(name) for name in names],
        "decisions": runner.coordinator.league.decisions,
        "matches": (runner.coordinator.counts.training, runner.coordinator.counts.rating),
        "dealt": dict(runner.coordinator.training.scheduler.assigned),
        "length": dict(runner.coordinator.training.scheduler.match_ticks),
        "turn": dict(runner.coordinator.training.seat_turns),
    }


def test_a_resume_restores_the_league(league):
    """Pools, payoffs, ratings, counters and the random generator are restored."""
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
def test_malformed_matchmaking_state_is_damage(league, wrong):
    """The error names the value."""
    runner = league()
    runner.store.set_meta("matchmaking", wrong)
    runner.store.commit()
    runner.close()
    runner.store.close()
    with pytest.raises(sqlite3.DatabaseError, match="meta value 'matchmaking' is malformed"):
        league()


def test_a_league_continues_without_a_removed_player(league):
    """No fixture has its models, also not those from pools or unfinished ratings."""
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
    resumed.train(resumed.coordinator.league.decisions + 1000)
    later = [fixture for answer in resumed.messages(Fixtures) for fixture in answer.fixtures]
    assert max(fixture.id for fixture in later) > max(before, gone[-1].id)
    assert not [name for fixture in later for name in fixture.participants if name.startswith("other@")]


def test_equal_runs_send_equal_messages(league, tmp_path):
    """Fixtures, progress and metrics depend on the seed only."""
    players = {"main": {}, "other": {"share": 0.5}}
    runs = [league(run_dir=tmp_path / name, anchors=("random", "perfect"), players=players) for name in "ab"]
    for runner in runs:
        runner.train(1200)
        runner.finish()
    assert state(runs[0]) == state(runs[1])
    assert [m.fixtures for m in runs[0].messages(Fixtures)] == [m.fixtures for m in runs[1].messages(Fixtures)]
    assert [m.progress for m in runs[0].messages(Credit)] == [m.progress for m in runs[1].messages(Credit)]
    assert runs[0].coordinator.membership.metrics == runs[1].coordinator.membership.metrics


def test_a_restarted_learner_resumes_from_the_checkpoint_before_a_damaged_one(league, caplog):
    """The coordinator compares the file with its hash whenever a learner registers."""
    runner = league()
    before, newest = (checkpoint(runner, version=n, decisions=100 * n) for n in (1, 2))
    for saved in (before, newest):
        send(runner, saved, peer="learner-main")
    send(runner, Heartbeat(count=250), peer="learner-main")
    (runner.run_dir / newest.path).write_bytes(b"")
    (welcome,) = send(runner, Hello(), peer="learner-main")
    assert (welcome.resume.checkpoint, welcome.resume.checkpoint_hash) == (before.path, before.hash)
    assert runner.coordinator.league.decisions == 100
    assert f"; resumed from {before.path}, 150 decisions are lost" in caplog.text


def test_a_report_of_a_sound_model_changes_nothing(league):
    """A host may have lost its own copy; other workers get the fixtures."""
    runner = league()
    freeze(runner, 1)
    (digest,) = (model.hash for model in runner.coordinator.league.models.values())
    for reported in (digest, "0" * 64, "no hash"):
        send(runner, DamagedModel(hash=reported))
    assert runner.coordinator.league.pool("dummy") == ("main@1",)


def test_repeated_reports_read_one_file(league, monkeypatch):
    """However often a worker reports a model, and however many models it reports."""
    runner = league()
    for number in range(1, 8):
        freeze(runner, number)
    read = []
    monkeypatch.setattr(model_scan, "check_model", lambda folder, digest: read.append(digest))
    coordinator = runner.coordinator
    hashes = [model.hash for model in coordinator.league.models.values()]
    for digest in hashes * 50:
        coordinator.handle("sampler-0", DamagedModel(hash=digest))
    assert read == []
    for _ in range(20):
        runner.now_s += 1.0
        coordinator.flush()
    assert read == hashes[:4]  # further ones have to be reported again
    assert coordinator.refusals.total == 0


def test_inspections_leave_time_for_everything_else(league, monkeypatch):
    """After a file that took a second to read, nothing is read for nine."""
    runner = league()
    for number in (1, 2):
        freeze(runner, number)

    def check(folder, digest):
        runner.now_s += 1.0

    monkeypatch.setattr(model_scan, "check_model", check)
    coordinator, start_s = runner.coordinator, runner.now_s
    for model in coordinator.league.models.values():
        coordinator.handle("sampler-0", DamagedModel(hash=model.hash))
    coordinator.flush()
    coordinator.flush()
    assert runner.now_s == start_s + 1.0
    runner.now_s += 9.0
    coordinator.flush()
    assert runner.now_s == start_s + 11.0


def test_a_reset_to_a_damaged_model_is_withdrawn(league):
    """The rule may request another one."""
    runner = league()
    freeze(runner, 1)
    coordinator = runner.coordinator
    coordinator.rule_runner.apply(Reset(player="main", reason="test", init="main@1"))
    digest = coordinator.league.models["main@1"].hash
    (runner.run_dir / "models" / f"{digest}.safetensors").unlink()
    send(runner, DamagedModel(hash=digest), peer="learner-main")
    assert coordinator.models.requests.pending == {}
    assert coordinator.league.roster.quarantined == {"main@1"}
    with pytest.raises(StoreError, match="the file of 'main@1' is damaged"):
        coordinator.league.apply([PoolChange(pool="p", model="main@1", enters=True)])


def test_rating_fixtures_of_a_quarantined_model_are_closed(league):
    """They would never be finished."""
    runner = league()
    freeze(runner, 1)
    coordinator = runner.coordinator
    assigned = fixtures(runner, kind="eval", peer="evaluator-0")
    assert any("main@1" in fixture.participants for fixture in assigned)
    digest = coordinator.league.models["main@1"].hash
    (runner.run_dir / "models" / f"{digest}.safetensors").unlink()
    send(runner, DamagedModel(hash=digest), peer="evaluator-0")
    assert runner.store.fixtures.unfinished() == []
    assert fixtures(runner, kind="eval", peer="evaluator-0") == ()
