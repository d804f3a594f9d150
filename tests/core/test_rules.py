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

ANEW = {"rules": ["dummy-reset"], "dummy-reset": {"models": 2}, "every_matches": 8}


class Once:
    """A rule that says one thing, when it is asked for the first time."""

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


def asked(runner):
    """Return whether the rules were asked."""
    return runner.coordinator.rule_runner.applied_at > 0


def shares(runner, *, count=64):
    """Return whose the playing time of the next fixtures is."""
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
    """From then on, and also after the league was resumed; what was dealt before is of no account."""
    runner = ruled(Share(player="main", share=3.0))
    runner.until(lambda: asked(runner))
    assert shares(runner)["main"] == pytest.approx(0.75, abs=0.03)
    runner.finish()
    runner.close()
    runner.store.close()
    assert shares(ruled())["main"] == pytest.approx(0.75, abs=0.03)


def left(runner, *changes):
    """Change shares as a rule does, commit, and leave the run to its successor."""
    for change in changes:
        runner.coordinator.rule_runner.apply(change)
    shares(runner)
    runner.close()
    runner.store.close()


def configured(make, **given):
    """Return the shares of the resumed league, by player."""
    runner = make(**given)
    found = {name: view.share for name, view in runner.coordinator.league.players.items()}
    left(runner)
    return found


def test_a_share_that_is_configured_anew_wins(ruled):
    """Over what a rule has made of it; the shares of others stay, and so it is from then on."""
    left(ruled(), Share(player="main", share=3.0), Share(player="other", share=5.0))
    anew = {"players": {"main": {"share": 2.0}, "other": {}}}
    assert configured(ruled) == {"main": 3.0, "other": 5.0}
    assert configured(ruled, **anew) == configured(ruled, **anew) == {"main": 2.0, "other": 5.0}
    assert shares(ruled(players={"main": {"share": 0.0}, "other": {}})) == {"other": 1.0}


def test_without_the_rule_the_configured_shares_hold_again(ruled):
    """Another rule beside it changes nothing."""
    two = {"rules": ["dummy-reset"], "every_matches": 8}
    left(ruled(league=two), Share(player="main", share=3.0))
    assert configured(ruled, league=two) == {"main": 3.0, "other": 1.0}
    assert configured(ruled) == {"main": 1.0, "other": 1.0}
    left(ruled(), Share(player="main", share=3.0))
    assert configured(ruled, league=two) == {"main": 3.0, "other": 1.0}


def test_a_player_that_comes_later_is_not_owed_the_past(ruled):
    """It takes its share of what follows, wherever it stands among the players."""
    runner = ruled()
    runner.train(500)
    left(runner)
    assert min(runner.coordinator.training.scheduler.assigned.values()) > 0
    resumed = ruled(players={"new": {}, "main": {}, "other": {}, "last": {}})
    assert all(share == pytest.approx(0.25, abs=0.05) for share in shares(resumed).values())
    assert len(shares(resumed)) == 4


def test_a_player_without_a_share_waits(ruled):
    """It gets no match, and when it is back no more than its share of those that follow."""
    runner = ruled(Share(player="other", share=0.0))
    runner.until(lambda: asked(runner))
    assert shares(runner) == {"main": 1.0}
    runner.coordinator.rule_runner.apply(Share(player="other", share=1.0))
    assert shares(runner)["main"] == pytest.approx(0.5, abs=0.03)


def test_somebody_must_train(ruled):
    """A league in which nobody may play ends with a line that says so."""
    runner = ruled(Share(player="main", share=0.0), Share(player="other", share=0.0))
    with pytest.raises(LudusError, match="every player's share of the ticks would be 0"):
        runner.until(lambda: False)


def test_rules_are_asked_every_so_many_matches(ruled):
    """By training matches, so that a run of one process repeats itself."""
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
def test_a_rule_that_wants_the_impossible_is_told(ruled, change, problem):
    """The line names the rule and the change."""
    runner = ruled(change)
    with pytest.raises(LudusError, match=rf"rule 'once': {problem}.* — fix its decide"):
        runner.until(lambda: asked(runner))


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
def test_what_no_message_or_database_takes_is_refused_where_it_is_made(record, values, problem):
    """So the line that fails is the plugin's own."""
    with pytest.raises(ValueError, match=problem):
        record(**values)


def test_a_rule_that_raises_is_named(ruled):
    """As one line, not as a traceback."""
    runner = ruled()
    runner.coordinator.rule_runner.rules["once"].decide = lambda league, rng: 1 / 0
    with pytest.raises(PluginError, match="rule 'once' failed: ZeroDivisionError: division by zero"):
        runner.until(lambda: asked(runner))


@pytest.mark.parametrize("question", ["next_fixture", "on_model_frozen"])
def test_a_matchmaker_that_raises_is_named(league, question):
    """The line says whose it is."""
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
    """Once, with the reason in its manifest; the player learns on."""
    runner = ruled(Freeze(player="main", reason="it is strong"), players={"main": {"freeze_every_decisions": 0}})
    league = runner.coordinator.league
    runner.until(lambda: league.models)
    runner.train(3000)
    assert list(league.models) == ["main@1"]
    assert league.models["main@1"].manifest["reason"] == "it is strong"
    assert league.players["main"].generation_starts == (0,)
    assert league.players["main"].decisions > league.models["main@1"].decisions


def test_players_start_anew(league):
    """Each generation has other initial weights and two models, numbered on; versions go on as well."""
    runner = league(league=ANEW)
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


def test_a_generation_begins_with_the_weights_it_is_told(ruled):
    """A frozen model of another player, and a fresh state of the trainer."""
    runner = ruled()
    league = runner.coordinator.league
    runner.until(lambda: league.players["main"].models)
    runner.coordinator.rule_runner.rules = {"once": Once(Reset(player="other", reason="catch up", init="main@1"))}
    runner.until(lambda: runner.learner("other").state.generation == 1)
    expected = load_arrays(runner.run_dir / "models", league.models["main@1"].hash)
    got = runner.learner("other").state.trainer.weights()
    assert expected.keys() == got.keys()
    assert all(np.array_equal(got[name], expected[name]) for name in expected)


def test_the_new_generation_has_no_record(league):
    """What the weights before it won is not its own."""
    runner = league(league=ANEW)
    runner.until(lambda: runner.coordinator.league.players["main"].generation == 1)
    view = runner.coordinator.league.players["main"]
    assert view.live == f"main@{view.generation_starts[-1]}+"
    assert not runner.coordinator.league.payoff(view.live, ["random"]).any()
    assert runner.coordinator.league.payoff(f"main@{view.generation_starts[-1] - 1}+", ["random"]).any()


def test_segments_of_the_weights_before_are_dropped(league):
    """They were under way when the player started anew."""
    runner = league(league=ANEW)
    learner = runner.learner("main")
    runner.until(lambda: learner.metrics.drops["dropped_reset"])
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


def test_an_order_that_is_lost_is_given_again(ruled):
    """With the next sign of life of the learner."""
    runner = ruled(Reset(player="main", reason="x"))
    runner.is_lost = once(FreezeRequest)
    runner.until(lambda: runner.coordinator.league.players["main"].generation == 1)
    assert runner.is_lost.lost


def test_an_order_is_followed_once(ruled):
    """However often it is heard."""
    runner = ruled(Reset(player="main", reason="x"))
    runner.until(lambda: runner.coordinator.league.players["main"].generation == 1)
    (order, *_) = runner.messages(FreezeRequest)
    for _ in range(3):
        runner.learner("main").handle("coordinator", order)
    runner.train(4000)
    assert runner.coordinator.league.players["main"].generation_starts == (0, order.model)
    assert not runner.coordinator.rule_runner.requests.pending


def test_nobody_starts_anew_from_a_model_that_does_not_fit(tables, tmp_path):
    """The line says who, why and what to do; nothing of it is committed, so the run can be resumed."""
    config = tables(players={"main": {}, "other": {}}, league={"every_matches": 8})
    config["players"]["other"] = {"algorithm": "ppo", "network": "mlp", "matchmaker": "dummy-uniform"}
    with league_runner(config, tmp_path / "run") as runner:
        runner.until(lambda: "main@1" in runner.coordinator.league.models)
        runner.coordinator.rule_runner.rules = {
            "once": Once(Reset(player="other", reason="restarts from main@1", init="main@1"))
        }
        with pytest.raises(ModelError, match=r"'other' cannot be reset \(restarts from main@1\): .* — let the rule"):
            runner.until(lambda: False)
        assert runner.learner("other").state.generation == 0
        runner.until(lambda: "other" in runner.store.checkpoints.latest())
        assert not any(m.generation for m in runner.messages(ModelFrozen))


@pytest.mark.parametrize("moment", ["ordered", "frozen", "committed"])
def test_a_learner_that_dies_over_an_order_starts_anew_all_the_same(ruled, moment):
    """Before it heard of it, before its model was committed, and before its first checkpoint."""
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
    runner.train(runner.coordinator.decisions + 1000)
    assert league.players["main"].generation == 1
    reset = league.models[f"main@{league.players['main'].generation_starts[-1]}"]
    assert runner.learner("main").state.generation_version > reset.version


def test_a_learner_that_died_follows_an_order_to_freeze_once_it_has_learned_again(ruled):
    """Its checkpoint holds the weights of its last model, which cannot be frozen twice; no order is lost over that."""
    runner = ruled(Freeze(player="main", reason="1"), players={"main": {"freeze_every_decisions": 0}})
    league = runner.coordinator.league
    runner.until(lambda: league.models)
    runner.until(lambda: league.players["main"].decisions > league.models["main@1"].decisions)
    runner.coordinator.rule_runner.apply(Freeze(player="main", reason="2"))
    runner.start("learner-main")
    runner.until(lambda: "main@2" in league.models)
    assert league.models["main@2"].manifest["reason"] == "2"
    assert not runner.coordinator.rule_runner.requests.pending


def test_a_resumed_league_knows_its_generations(league):
    """Births, shares and the learner's own count."""
    runner = league(league=ANEW)
    runner.until(lambda: runner.coordinator.league.players["main"].generation == 1)
    runner.train(runner.coordinator.decisions + 200)
    runner.finish()
    view = runner.coordinator.league.players["main"]
    generation = runner.learner("main").state.generation
    runner.close()
    runner.store.close()
    resumed = league(league=ANEW)
    assert resumed.coordinator.league.players["main"] == view
    resumed.until(lambda: resumed.learner("main").state.welcomed)
    assert resumed.learner("main").state.generation == generation == view.generation
    resumed.until(lambda: resumed.coordinator.league.players["main"].generation > generation)


def test_leagues_with_rules_repeat_themselves(league, tmp_path):
    """Same seed, same fixtures, same models, over several generations."""
    runs = [league(run_dir=tmp_path / name, league=ANEW) for name in "ab"]
    for runner in runs:
        runner.until(lambda runner=runner: runner.coordinator.league.players["main"].generation == 2)
        runner.finish()
    assert [m.fixtures for m in runs[0].messages(Fixtures)] == [m.fixtures for m in runs[1].messages(Fixtures)]
    hashes = [[model.hash for model in runner.coordinator.league.models.values()] for runner in runs]
    assert hashes[0] == hashes[1]
    assert isinstance(runs[0].messages(Fixtures)[0].fixtures[0], Fixture)
    assert runs[0].messages(Checkpoint)
