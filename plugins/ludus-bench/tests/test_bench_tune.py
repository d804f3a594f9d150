"""Choices of ``ludus bench tune`` from known rates."""

from __future__ import annotations

import tomllib

import pytest
from attrs import evolve
from ludus_bench.tune import Choice, best_of, candidates, choices_to_run, smallest_of_best, snippet


def test_the_smallest_of_nearly_equal_sizes_is_taken():
    """A rate within 3 % of the best counts as equal."""
    assert smallest_of_best({64: 50.0, 128: 98.0, 256: 100.0}) == 128
    assert smallest_of_best({64: 50.0, 128: 96.0, 256: 100.0}) == 256
    assert smallest_of_best({64: 50.0, 128: 96.0, 256: 100.0}, enough=60.0) == 128


def test_the_slower_side_sets_the_rate():
    """A sampler of 100/s and a learner of 60/s on two cores train 60/s."""
    best = candidates({64: 100.0}, {1: 60.0}, cores=2, players=1)[0]
    assert best == Choice(workers=1, learner_threads=1, matches=64, predicted_per_s=60.0)


def test_matches_are_limited_to_the_rate_of_learners():
    """All samplers together play twice as much as learners train, or as much as they can."""
    sampling = {64: 100.0, 128: 210.0, 256: 260.0, 512: 265.0}
    found = {choice.workers: choice for choice in candidates(sampling, {1: 100.0}, cores=2, players=1)}
    assert (found[1].matches, found[1].predicted_per_s) == (128, 100.0)
    assert found[2].matches == 64
    assert candidates(sampling, {1: 150.0}, cores=2, players=1)[0].matches == 256


def test_fewer_threads_win_if_almost_as_fast():
    """A difference within the tolerance does not count."""
    few, many = (Choice(workers=n, learner_threads=1, matches=64, predicted_per_s=1.0) for n in (1, 2))
    assert best_of({many: 100.0, few: 98.0}, players=1) == few
    assert best_of({many: 100.0, few: 90.0}, players=1) == many


def test_cores_go_to_the_slower_side():
    """On four cores, three samplers feed a learner that is three times as fast."""
    assert candidates({64: 100.0}, {1: 300.0, 2: 310.0}, cores=4, players=1)[0].workers == 3
    assert candidates({64: 300.0}, {1: 100.0, 2: 190.0}, cores=4, players=1)[0].learner_threads == 2


def test_more_threads_than_cores_share_them():
    """Two players and a sampler on two cores: two thirds of what each could do."""
    best = candidates({64: 100.0}, {1: 50.0}, cores=2, players=2)[0]
    assert best.threads(players=2) == 3
    assert best.predicted_per_s == pytest.approx(100.0 * 2 / 3)


def test_several_threads_are_tried_as_processes_too():
    """Right after the choice with threads; not if trainers cannot learn in groups."""
    found = candidates({64: 300.0}, {1: 100.0, 2: 190.0, 4: 200.0}, cores=8, players=1)[:3]
    first = next(choice for choice in found if choice.learner_threads > 1)
    tried = choices_to_run(found, groups=True)
    at = tried.index(first)
    assert tried[at + 1] == evolve(first, learner_processes=first.learner_threads, learner_threads=1)
    assert tried[at + 1].threads(1) == first.threads(1)
    assert [*tried[: at + 1], *tried[at + 2 :]] == found
    assert choices_to_run(found, groups=False) == found
    alone = candidates({64: 100.0}, {1: 60.0}, cores=2, players=1)[:3]
    assert choices_to_run(alone, groups=True) == alone


def test_processes_win_if_faster_than_threads():
    """A difference within the tolerance does not count."""
    threads = Choice(workers=1, learner_threads=2, matches=64, predicted_per_s=1.0)
    processes = evolve(threads, learner_processes=2, learner_threads=1)
    assert best_of({threads: 100.0, processes: 110.0}, players=1) == processes
    assert best_of({threads: 100.0, processes: 102.0}, players=1) == threads


def test_the_snippet_sets_the_choice():
    """It is valid TOML, also for player names with dots."""
    best = Choice(workers=3, learner_processes=2, learner_threads=2, matches=128, predicted_per_s=1.0)
    text = snippet(best, changed_players=["main", "v1.2"], option=("players.main.ppo.num_minibatches", 4))
    assert tomllib.loads(text) == {
        "run": {"workers": 3, "learner_threads": 2},
        "sampling": {"matches": 128},
        "players": {"main": {"learner_processes": 2, "ppo": {"num_minibatches": 4}}, "v1.2": {"learner_processes": 2}},
    }
    assert "players" not in tomllib.loads(snippet(best, option=None))
