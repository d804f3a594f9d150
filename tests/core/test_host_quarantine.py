"""Fixtures of other hosts are played again, and a host whose results differ is quarantined until it is released."""

from __future__ import annotations

import numpy as np
import pytest
from ludus._league import host_quarantine as _quarantine
from ludus._league.host_quarantine import request_release
from ludus._messaging.messages import FixtureRequest, Results, ResultsAck

REMOTE, LOCAL = "sampler-box-0", "sampler-0"


def send(runner, message, peer):
    """Send a message and return the answers."""
    before = len(runner.sent)
    runner.coordinator.handle(peer, message)
    runner.coordinator.flush()
    return [message for _, to, message in runner.sent[before:] if to == peer]


def request(runner, peer, count=1):
    """Request fixtures."""
    answers = send(runner, FixtureRequest(kind="train", count=count), peer)
    return [fixture for answer in answers for fixture in answer.fixtures]


def play(runner, fixture, peer, chance, rng):
    """Report all matches of a fixture, which its player wins with a chance."""
    wins = rng.random(fixture.matches) < chance
    team = next(seat for seat, name in enumerate(fixture.participants) if name.startswith(f"{fixture.player}@"))
    outcome = np.where((np.arange(2) == team)[None, :], wins[:, None], ~wins[:, None]).astype(np.float32)
    arrays = {
        "fixture": np.full(fixture.matches, fixture.id),
        "number": np.arange(fixture.matches),
        "ticks": np.full(fixture.matches, 5, np.int32),
        "outcome": outcome,
    }
    return send(runner, Results(report=fixture.id, arrays=arrays), peer)


def play_until(runner, done, *, chance, rounds=150):
    """Let a sampler of either host play until a condition holds; the remote player wins with a chance."""
    rng = np.random.default_rng(1)
    for _ in range(rounds):
        if done():
            return True
        for peer, own in ((REMOTE, chance), (LOCAL, 0.5)):
            for fixture in request(runner, peer):
                play(runner, fixture, peer, own, rng)
    return False


@pytest.fixture
def paired(league):
    """Return a league in which all fixtures of other hosts are played again."""
    return league(league={"paired_share": 1.0}, sampling={"fixture_matches": 100})


def test_a_fixture_of_another_host_is_played_again_with_the_same_seed(paired):
    """By a sampler of this host; the other host gets no repetition, and its fixture does not show that there is one."""
    (own,) = request(paired, REMOTE)
    (other,) = request(paired, "sampler-away-0")
    assert {own.paired, other.paired} == {""}
    assert own.seed != other.seed
    repeated = request(paired, LOCAL, count=3)
    for first, again in zip((own, other), repeated, strict=False):
        assert (again.seed, again.participants, again.player) == (first.seed, first.participants, first.player)
        assert again.paired == str(first.id)
    assert repeated[2].paired == ""


def test_without_other_hosts_nothing_is_repeated(paired):
    """Runs on one machine are unchanged."""
    assert [fixture.paired for fixture in request(paired, LOCAL, count=20)] == [""] * 20


def test_fixtures_that_waited_too_long_are_not_repeated(paired):
    """Live weights have changed."""
    request(paired, REMOTE)
    paired.now_s += 61.0
    assert [fixture.paired for fixture in request(paired, LOCAL)] == [""]


def test_a_biased_host_is_quarantined(paired):
    """It gets no fixtures, its results are dropped, and the line names the view."""
    quarantine = paired.coordinator.quarantine
    assert play_until(paired, lambda: quarantine.hosts, chance=0.64)
    (line,) = quarantine.take_news().values()
    assert "box is quarantined: over " in line
    assert "`ludus release RUN HOST`" in line
    assert request(paired, REMOTE) == []
    (other,) = request(paired, "sampler-away-0")
    before = paired.store.matches.count()
    assert send(paired, Results(report=9, arrays={}), REMOTE) == [ResultsAck(report=9)]
    assert paired.store.counters()["reports_quarantined"] == 1
    play(paired, other, "sampler-away-0", 0.5, np.random.default_rng(0))
    assert paired.store.matches.count() == before + other.matches


def test_an_honest_host_is_not(paired):
    """Over thousands of matches."""
    assert not play_until(paired, lambda: paired.coordinator.quarantine.hosts, chance=0.5, rounds=25)
    test = paired.coordinator.quarantine._tests["box"]
    assert test.matches > 2000
    assert test.log_evidence < 2.0


def test_a_repeated_report_counts_once(paired):
    """Neither side can be counted twice, whatever the second report holds."""
    (fixture,) = request(paired, REMOTE)
    (repeated,) = request(paired, LOCAL)
    rng = np.random.default_rng(0)
    for _ in range(3):
        play(paired, fixture, REMOTE, 0.5, rng)
        play(paired, repeated, LOCAL, 0.5, rng)
    assert paired.coordinator.quarantine._tests["box"].matches == fixture.matches


def test_a_quarantine_survives_a_resume_until_it_is_released(paired, league):
    """The request is deleted after the commit of the release."""
    paired.coordinator.quarantine.hosts["box"] = "its results differ"
    paired.coordinator.quarantine._save()
    paired.coordinator.commit()
    paired.close()
    paired.store.close()
    resumed = league(league={"paired_share": 1.0})
    assert resumed.coordinator.quarantine.take_news() == {"box": "its results differ"}
    assert request(resumed, REMOTE) == []
    path = request_release(resumed.run_dir, "box")
    for _ in range(3):
        resumed.now_s += 1.0
        resumed.coordinator.flush()
    assert not path.exists()
    assert resumed.coordinator.quarantine.take_news() == {}
    assert request(resumed, REMOTE) != []
    assert resumed.store.meta("quarantined_hosts") == {}


def test_the_memory_of_pairs_is_bounded(paired, monkeypatch):
    """A host that reports nothing fills it."""
    monkeypatch.setattr(_quarantine, "_MAX_PAIRS", 3)
    for _ in range(10):
        request(paired, REMOTE)
        request(paired, LOCAL)
    assert len(paired.coordinator.quarantine._pairs) == 6
