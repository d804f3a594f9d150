"""Rules change shares, pools and generations of weights while a league runs, and nothing of it is lost."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from ludus._messaging.messages import Checkpoint, FixtureRequest, Fixtures, FreezeRequest, ModelFrozen
from ludus._store.model_files import load_arrays
from ludus.errors import LudusError, ModelError, PluginError
from ludus.matchmaker import Pairing
from ludus.records import Fixture
from ludus.rule import Freeze, PoolChange, Reset, Share
from ludus.testing import league_runner

RESETS = {"rules": ["dummy-reset"], "dummy-reset": {"models": 2}, "every_matches": 8}


class Once:
    """A rule that returns its changes at the first call."""

    def __init__(self, *changes):
        self.changes = changes

    def decide(self, league, rng):
        """Return it, and from then on nothing."""
        changes, self.changes = self.changes, ()
        return changes


@pytest.fixture
def ruled(league):
    """Return a maker of leagues of two players with one rule."""

    def make(*changes, **given):
        runner = league(**{"players": {"main": {}, "other": {}}, "league": {"every_matches": 8}, **given})
        runner.coordinator.rule_runner.rules = {"once": Once(*changes)}
        return runner

    return make


def were_applied(runner):
    """Return whether the rules were applied."""
    return runner.coordinator.rule_runner.applied_at > 0


def assigned_shares(runner, *, count=64):
    """Return the share of the ticks of the next fixtures by player."""
    before = len(runner.sent)
    runner.coordinator.handle("sampler-0", FixtureRequest(kind="train", count=count))
    runner.coordinator.flush()
    answers = [message for _, _, message in runner.sent[before:] if isinstance(message, Fixtures)]
    fixtures = [fixture for answer in answers for fixture in answer.fixtures]
    length, ticks = runner.coordinator.training.scheduler.match_ticks, Counter()
    for fixture in fixtures:
        ticks[fixture.player] += length.get(fixture.player, np.mean([*length.values()] or 1.0))
    return {player: time / ticks.total() for player, time in ticks.items()}


# -- shares ----------------------------------------------------------------------------------------------------------


def test_rules_change_shares(ruled):
    """From then on, also after a resume; ticks assigned before do not count."""
    runner = ruled(Share(player="main", share=3.0))
    runner.until(lambda: were_applied(runner))
    assert assigned_shares(runner)["main"] == pytest.approx(0.75, abs=0.03)
    runner.finish()
    runner.close()
    runner.store.close()
    assert assigned_shares(ruled())["main"] == pytest.approx(0.75, abs=0.03)


def leave(runner, *changes):
    """Apply changes, commit, and close the run."""
    for change in changes:
        runner.coordinator.rule_runner.apply(change)
    assigned_shares(runner)
    runner.close()
    runner.store.close()


def resumed_shares(make, **given):
    """Return the shares of the resumed league, by player."""
    runner = make(**given)
    found = {name: view.share for name, view in runner.coordinator.league.players.items()}
    leave(runner)
    return found


def test_a_changed_configured_share_is_used(ruled):
    """It replaces the share that a rule has set; the shares of other players are kept."""
    leave(ruled(), Share(player="main", share=3.0), Share(player="other", share=5.0))
    anew = {"players": {"main": {"share": 2.0}, "other": {}}}
    assert resumed_shares(ruled) == {"main": 3.0, "other": 5.0}
    assert resumed_shares(ruled, **anew) == resumed_shares(ruled, **anew) == {"main": 2.0, "other": 5.0}
    assert assigned_shares(ruled(players={"main": {"share": 0.0}, "other": {}})) == {"other": 1.0}


def test_removing_a_rule_restores_configured_shares(ruled):
    """Adding another rule does not."""
    two = {"rules": ["dummy-reset"], "every_matches": 8}
    leave(ruled(league=two), Share(player="main", share=3.0))
    assert resumed_shares(ruled, league=two) == {"main": 3.0, "other": 1.0}
    assert resumed_shares(ruled) == {"main": 1.0, "other": 1.0}
    leave(ruled(), Share(player="main", share=3.0))
    assert resumed_shares(ruled, league=two) == {"main": 3.0, "other": 1.0}


def test_a_new_player_does_not_catch_up(ruled):
    """It gets its share of the following fixtures, wherever it stands among the players."""
    runner = ruled()
    runner.train(500)
    leave(runner)
    assert min(runner.coordinator.training.scheduler.assigned.values()) > 0
    resumed = ruled(players={"new": {}, "main": {}, "other": {}, "last": {}})
    assert all(share == pytest.approx(0.25, abs=0.05) for share in assigned_shares(resumed).values())
    assert len(assigned_shares(resumed)) == 4


def test_a_player_without_a_share_waits(ruled):
    """It gets no fixture, and does not catch up later."""
    runner = ruled(Share(player="other", share=0.0))
    runner.until(lambda: were_applied(runner))
    assert assigned_shares(runner) == {"main": 1.0}
    runner.coordinator.rule_runner.apply(Share(player="other", share=1.0))
    assert assigned_shares(runner)["main"] == pytest.approx(0.5, abs=0.03)


def test_one_player_must_have_a_share(ruled):
    """A league in which no player may train ends with an error."""
    runner = ruled(Share(player="main", share=0.0), Share(player="other", share=0.0))
    with pytest.raises(LudusError, match="every player's share of the ticks would be 0"):
        runner.until(lambda: False)


def test_rules_are_applied_every_so_many_matches(ruled):
    """By training matches, so that runs of one process are reproducible."""
    runner, at = ruled(), []
    runner.coordinator.rule_runner.rules["once"].decide = lambda league, rng: (
        at.append(runner.coordinator.counts.training) or ()
    )
    runner.until(lambda: len(at) == 5)
    assert all(later - earlier >= 8 for earlier, later in pairwise([0, *at]))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (Freeze(player="nobody", reason="x"), "there is no player 'nobody' in Freeze"),
        (Reset(player="main", reason="x", init="main@99"), "there is no frozen model 'main@99' in Reset"),
        (PoolChange(pool="best", model="main@99", enters=True), "there is no frozen model 'main@99' in PoolChange"),
    ],
)
def test_an_impossible_change_is_an_error(ruled, change, problem):
    """The message names the rule and the change."""
    runner = ruled(change)
    with pytest.raises(LudusError, match=rf"rule 'once': {problem}.* — fix its decide"):
        runner.until(lambda: were_applied(runner))


@pytest.mark.parametrize(
    ("record", "values", "problem"),
    [
        (Freeze, {"player": "main", "reason": 3}, "reason: expected a text, got 3"),
        (Reset, {"player": "main", "reason": "x", "init": None}, "init: expected a text, got None"),
        (Share, {"player": np.str_("main"), "share": 1.0}, "player: expected a text"),
        (Share, {"player": "main", "share": float("nan")}, "share: expected a number ≥ 0, got nan"),
        (Share, {"player": "main", "share": -1.0}, "share: expected a number ≥ 0, got -1.0"),
        (Share, {"player": "main", "share": np.float32(0.7)}, "share: expected a number ≥ 0"),
        (PoolChange, {"pool": None, "model": "main@1", "enters": True}, "pool: expected a text, got None"),
        (PoolChange, {"pool": "p", "model": "main@1", "enters": np.bool_(True)}, "enters: expected true or false"),
        (Pairing, {"opponents": ("main@1",), "reason": None}, "reason: expected a text, got None"),
    ],
)
def test_invalid_changes_are_refused_at_construction(record, values, problem):
    """So the traceback points to the code of the plugin."""
    with pytest.raises(ValueError, match=problem):
        record(**values)


def test_an_exception_of_a_rule_names_it(ruled):
    """As one line without a traceback."""
    runner = ruled()
    runner.coordinator.rule_runner.rules["once"].decide = lambda league, rng: 1 / 0
    with pytest.raises(PluginError, match="rule 'once' failed: ZeroDivisionError: division by zero"):
        runner.until(lambda: were_applied(runner))


@pytest.mark.parametrize("question", ["next_fixture", "on_model_frozen"])
def test_an_exception_of_a_matchmaker_names_its_player(league, question):
    """As one line without a traceback."""
    runner = league()
    runner.coordinator.training.matchmakers["main"] = SimpleNamespace(**{question: lambda *_: 1 / 0})
    ask = {
        "next_fixture": runner.coordinator.training.create,
        "on_model_frozen": lambda: runner.coordinator.models.admit("main", "main@1"),
    }
    with pytest.raises(PluginError, match="matchmaker of player 'main' failed: ZeroDivisionError"):
        ask[question]()


def test_rules_change_pools(ruled):
    """As matchmakers do."""
    runner = ruled()
    runner.until(lambda: runner.coordinator.league.players["main"].models)
    runner.coordinator.rule_runner.rules = {"once": Once(PoolChange(pool="best", model="main@1", enters=True))}
    runner.until(lambda: runner.coordinator.league.pool("best") == ("main@1",))


# -- models out of turn ----------------------------------------------------------------------------------------------


def test_a_rule_freezes_a_model(ruled):
    """Once, with the reason in its manifest; the player continues to learn."""
    runner = ruled(Freeze(player="main", reason="it is strong"), players={"main": {"freeze_every_decisions": 0}})
    league = runner.coordinator.league
    runner.until(lambda: league.models)
    runner.train(3000)
    assert list(league.models) == ["main@1"]
    assert league.models["main@1"].manifest["reason"] == "it is strong"
    assert league.players["main"].generation_starts == (0,)
    assert league.players["main"].decisions > league.models["main@1"].decisions


def test_players_are_reset(league):
    """Each generation has other initial weights and two models; numbers and versions continue."""
    runner = league(league=RESETS)
    view = lambda: runner.coordinator.league.players["main"]  # noqa: E731
    runner.until(lambda: view().generation == 2)
    runner.until(lambda: len(view().models) > view().generation_starts[-1])
    generation_starts = view().generation_starts
    assert generation_starts[0] == 0
    assert all(later - earlier >= 2 for earlier, later in pairwise(generation_starts))
    records = [runner.coordinator.league.models[model] for model in view().models]
    assert all(later.version >= earlier.version for earlier, later in pairwise(records))
    generations = [record.manifest["generation"] for record in records]
    assert [generations.index(number) + 1 for number in (1, 2)] == list(generation_starts[1:])
    assert records[generation_starts[1] - 1].manifest["reason"] == "generation 0 has 2 models"
    assert view().generation_start_decisions == records[generation_starts[2] - 1].decisions


def test_a_reset_loads_the_requested_weights(ruled):
    """Those of a frozen model of another player, with a new state of the trainer."""
    runner = ruled()
    league = runner.coordinator.league
    runner.until(lambda: league.players["main"].models)
    runner.coordinator.rule_runner.rules = {"once": Once(Reset(player="other", reason="catch up", init="main@1"))}
    runner.until(lambda: runner.learner("other").state.generation == 1)
    expected = load_arrays(runner.run_dir / "models", league.models["main@1"].hash)
    got = runner.learner("other").state.trainer.weights()
    assert expected.keys() == got.keys()
    assert all(np.array_equal(got[name], expected[name]) for name in expected)


def test_a_new_generation_has_no_payoffs(league):
    """It does not inherit results of earlier weights."""
    runner = league(league=RESETS)
    runner.until(lambda: runner.coordinator.league.players["main"].generation == 1)
    view = runner.coordinator.league.players["main"]
    assert view.live == f"main@{view.generation_starts[-1]}+"
    assert not runner.coordinator.league.payoff(view.live, ["random"]).any()
    assert runner.coordinator.league.payoff(f"main@{view.generation_starts[-1] - 1}+", ["random"]).any()


def test_segments_of_earlier_generations_are_dropped(league):
    """They were in flight when the player was reset."""
    runner = league(league=RESETS)
    learner = runner.learner("main")
    runner.until(lambda: learner.state.metrics.drops["dropped_reset"])
    assert learner.state.generation_version > 0


# -- what may go wrong -----------------------------------------------------------------------------------------------


def once(kind, **fields):
    """Return a test that loses the first message of a kind with these fields."""
    lost = []

    def lose(_receiver, message):
        if isinstance(message, kind) and all(getattr(message, name) == value for name, value in fields.items()):
            lost.append(message)
        return len(lost) == 1 and lost[0] is message

    lose.lost = lost
    return lose


def test_a_lost_freeze_request_is_repeated(ruled):
    """With the next heartbeat of the learner."""
    runner = ruled(Reset(player="main", reason="x"))
    runner.is_lost = once(FreezeRequest)
    runner.until(lambda: runner.coordinator.league.players["main"].generation == 1)
    assert runner.is_lost.lost


def test_a_freeze_request_is_fulfilled_once(ruled):
    """Repeated messages change nothing."""
    runner = ruled(Reset(player="main", reason="x"))
    runner.until(lambda: runner.coordinator.league.players["main"].generation == 1)
    (order, *_) = runner.messages(FreezeRequest)
    for _ in range(3):
        runner.learner("main").handle("coordinator", order)
    runner.train(4000)
    assert runner.coordinator.league.players["main"].generation_starts == (0, order.model)
    assert not runner.coordinator.rule_runner.requests.pending


def test_a_reset_to_a_model_that_does_not_fit_is_an_error(tables, tmp_path):
    """The message names the fix; nothing is committed, so the run can be resumed."""
    config = tables(players={"main": {}, "other": {}}, league={"every_matches": 8})
    config["players"]["other"] = {"algorithm": "ppo", "network": "mlp", "matchmaker": "dummy-uniform"}
    with league_runner(config, tmp_path / "run") as runner:
        runner.until(lambda: "main@1" in runner.coordinator.league.models)
        runner.coordinator.rule_runner.rules = {
            "once": Once(Reset(player="other", reason="restarts from main@1", init="main@1"))
        }
        with pytest.raises(ModelError, match=r"'other' cannot be reset \(restarts from main@1\): .* — ludus check"):
            runner.until(lambda: False)
        assert runner.learner("other").state.generation == 0
        runner.until(lambda: "other" in runner.store.checkpoints.latest())
        assert not any(m.generation for m in runner.messages(ModelFrozen))


@pytest.mark.parametrize("moment", ["ordered", "frozen", "committed"])
def test_a_reset_survives_the_loss_of_the_learner(ruled, moment):
    """Before it received the request, before its model was committed, and before its first checkpoint."""
    runner = ruled(Reset(player="main", reason="x"))
    league = runner.coordinator.league
    runner.until(lambda: runner.coordinator.rule_runner.requests.pending)
    if moment != "ordered":
        runner.until(lambda: any(m.generation for m in runner.messages(ModelFrozen)))
        runner.paused.add("learner-main")
    if moment == "committed":
        runner.until(lambda: league.players["main"].generation)
        assert runner.learner("main").state.generation == 0
    runner.paused.clear()
    runner.start("learner-main")
    runner.until(lambda: runner.learner("main").state.generation == 1)
    runner.train(runner.coordinator.league.decisions + 1000)
    assert league.players["main"].generation == 1
    reset = league.models[f"main@{league.players['main'].generation_starts[-1]}"]
    assert runner.learner("main").state.generation_version > reset.version


def test_a_freeze_survives_the_loss_of_the_learner(ruled):
    """Its checkpoint may hold the weights of its last model; the request is fulfilled after the next update."""
    runner = ruled(Freeze(player="main", reason="1"), players={"main": {"freeze_every_decisions": 0}})
    league = runner.coordinator.league
    runner.until(lambda: league.models)
    runner.until(lambda: league.players["main"].decisions > league.models["main@1"].decisions)
    runner.coordinator.rule_runner.apply(Freeze(player="main", reason="2"))
    runner.start("learner-main")
    runner.until(lambda: "main@2" in league.models)
    assert league.models["main@2"].manifest["reason"] == "2"
    assert not runner.coordinator.rule_runner.requests.pending


def test_a_resume_restores_generations(league):
    """Of the league and of the learner."""
    runner = league(league=RESETS)
    runner.until(lambda: runner.coordinator.league.players["main"].generation == 1)
    runner.train(runner.coordinator.league.decisions + 200)
    runner.finish()
    view = runner.coordinator.league.players["main"]
    generation = runner.learner("main").state.generation
    runner.close()
    runner.store.close()
    resumed = league(league=RESETS)
    assert resumed.coordinator.league.players["main"] == view
    resumed.until(lambda: resumed.learner("main").state.welcomed)
    assert resumed.learner("main").state.generation == generation == view.generation
    resumed.until(lambda: resumed.coordinator.league.players["main"].generation > generation)


def test_runs_with_rules_are_reproducible(league, tmp_path):
    """Same seed, same fixtures, same models, over several generations."""
    runs = [league(run_dir=tmp_path / name, league=RESETS) for name in "ab"]
    for runner in runs:
        runner.until(lambda runner=runner: runner.coordinator.league.players["main"].generation == 2)
        runner.finish()
    assert [m.fixtures for m in runs[0].messages(Fixtures)] == [m.fixtures for m in runs[1].messages(Fixtures)]
    hashes = [[model.hash for model in runner.coordinator.league.models.values()] for runner in runs]
    assert hashes[0] == hashes[1]
    assert isinstance(runs[0].messages(Fixtures)[0].fixtures[0], Fixture)
    assert runs[0].messages(Checkpoint)
