"""Matches that people play: in the log and as replays, and in no rating or payoff of the league."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from attrs import evolve
from ludus._league.change_requests import record_human_match
from ludus._league.human_matches import HumanMatch
from ludus._league.league import League
from ludus._store.store import Store
from ludus.errors import RunError
from ludus.human_matches import RecordedMatch, name_person
from ludus.replays import find_matches, find_replay, stream_steps, verify_replays
from ludus.runs import find_damage, match_seeds, open_run

VALUES = {
    "participants": ["human:guest", "random"],
    "seed": 5,
    "scenario": "default",
    "outcome": [1.0, 0.0],
    "returns": [1.0, -1.0],
    "ticks": 7,
    "reason": "played in the browser",
}


@pytest.fixture
def runner(league):
    """Return a running league with the anchor random."""
    return league()


def record_while_running(runner, match):
    """Record a match of a run that goes on, and return the id of its fixture."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(record_human_match, runner.run_dir, match, timeout_s=30)
        while not answer.done():
            runner.now_s += 0.01
            runner.coordinator.flush()
            time.sleep(0.001)
        return answer.result()


def test_a_running_run_logs_the_match(runner):
    """It has a finished fixture of its own, and the database agrees with itself."""
    number = record_while_running(runner, HumanMatch(**VALUES))
    with open_run(runner.run_dir) as run:
        (match,) = run.matches(kind="human")
        assert (match.fixture.id, match.fixture.participants, match.outcome, match.ticks) == (
            number,
            ("human:guest", "random"),
            (1.0, 0.0),
            7,
        )
        assert run.num_matches(kind="human") == 1
        assert find_damage(run) == []
    assert runner.coordinator.league.open_fixtures() == []


def test_a_stopped_run_logs_the_match(runner):
    """The caller writes it."""
    runner.coordinator.commit()
    runner.store.close()
    assert record_human_match(runner.run_dir, HumanMatch(**VALUES)) == 1


def test_ratings_and_matchmakers_do_not_see_it(runner):
    """Neither at once nor after a new start; the payoffs of the log have a kind of their own."""
    league = runner.coordinator.league
    before = (league.rating("random"), league.payoff("random", ["human:guest"]).tolist(), runner.coordinator.counts)
    record_while_running(runner, HumanMatch(**VALUES))
    assert (league.rating("random"), league.payoff("random", ["human:guest"]).tolist(), runner.coordinator.counts) == (
        before
    )
    with Store.read(runner.run_dir) as store:
        again = League.of(store)
        assert again.payoff("human:guest", ["random"]).tolist() == [[0.0, 0.0, 0.0]]
        assert store.payoffs.totals()["human", "human:guest", "random"].tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("participants", ["human:guest"]),
        ("participants", ["random", "random"]),
        ("participants", ["human:guest", "main@0+"]),
        ("participants", ["human:guest", "a\nb"]),
        ("participants", ["human:guest", 3]),
        ("participants", 3),
        ("seed", -1),
        ("seed", 2**63),
        ("seed", "5"),
        ("scenario", "<b>"),
        ("outcome", [1.0]),
        ("outcome", [2.0, 0.0]),
        ("outcome", [float("nan"), 0.0]),
        ("returns", [float("inf"), 0.0]),
        ("ticks", 0),
        ("ticks", 2**40),
        ("reason", None),
        ("other", 1),
    ],
)
def test_a_malformed_request_is_dropped(runner, name, value):
    """Nothing of it is in the log, and the run goes on."""
    folder = runner.run_dir / "requests"
    folder.mkdir(exist_ok=True)
    (folder / "00000000000000000001-1-1.json").write_text(json.dumps({**VALUES, name: value}))
    runner.now_s += 1
    runner.coordinator.flush()
    assert list(folder.glob("*.json")) == []
    with open_run(runner.run_dir) as run:
        assert list(run.fixtures(kind="human")) == []


def test_a_refused_match_is_an_error(runner):
    """The caller learns that the log does not have it."""
    runner.coordinator.commit()
    runner.store.close()
    with pytest.raises(RunError, match="did not accept the match"):
        record_human_match(runner.run_dir, HumanMatch(**{**VALUES, "ticks": -1}))


@pytest.mark.parametrize("name", ["", "Anna", "a b", "<b>", "a" * 33, "ä", "-a"])
def test_names_of_people_are_plain(name):
    """They are shown in pages and terminals."""
    with pytest.raises(ValueError, match="expected 1 to 32"):
        name_person(name)
    assert name_person("anna.2") == "human:anna.2"


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_recorded_match_is_shown_again(repeatable, runner, toml):
    """It is played, with the states and the result of the match; where the game does not repeat, it has its frames."""
    toml("run/run.toml")
    runner.coordinator.commit()
    runner.store.close()
    with open_run(runner.run_dir) as run:
        environment = run.make_environment(1)
        environment.spec = evolve(environment.spec, repeatable=repeatable)
        recorded = RecordedMatch(environment, participants=("human:guest", "random"), seed=5)
        rng, tick = np.random.default_rng(1), recorded.reset(match_seeds(5, np.array([0])))
        while not recorded.has_ended:
            mask = tick.roles["player"].action_mask
            legal = np.ones((1, 2, 2), bool) if mask is None else mask
            tick = recorded.step({"player": (rng.random(legal.shape) * legal).argmax(axis=2)[..., None]})
        name = recorded.save(runner.run_dir, max_mb=1.0, reason="test")
        recorded.close()
    with open_run(runner.run_dir) as run:
        (match,) = find_matches(run, name)
        assert (match.fixture.kind, match.fixture.reason) == ("human", "test")
        replay = find_replay(run, match)
        assert replay.outcome == match.outcome
        found = verify_replays(run)
        assert (found.played, found.streams, found.superseded, found.problems) == (repeatable, not repeatable, 0, ())
        if not repeatable:
            assert [step.number for step in stream_steps(replay) if step.frame] == list(range(match.ticks + 1))
