"""Environment, policy, trainer and sampler as tasks, and the limit that they set together."""

from __future__ import annotations

from contextlib import closing

import attrs
import numpy as np
import pytest
import torch
from ludus.errors import ConfigError, ContractError
from ludus_bench._setup import open_setup
from ludus_bench.parts import TrainerPart, network_task, policy_task, rows_of
from ludus_bench.random_play import RandomPlay
from ludus_bench.selfplay import PartRates
from ludus_bench.timing import Rate, Stopwatch, harmonic


def make_setup(*overrides, algorithm="ppo"):
    """Return a small configuration."""
    return open_setup(environment="dummy-count", algorithm=algorithm, overrides=("sampling.matches=4", *overrides))


def record_rows(setup):
    """Return six recorded decisions."""
    with closing(setup.sampler(matches=4)) as sampler:
        return rows_of(sampler.record(8), 6)


def make_trainer(setup):
    """Return a trainer with a recorded batch."""
    player = setup.make_player()
    with closing(setup.sampler(matches=4)) as sampler:
        return TrainerPart.prepare(player, sampler.record(player.trainer.batch_decisions))


def test_random_play_restarts_matches_that_end():
    """All actions are legal: the environment raises at illegal ones."""
    play = RandomPlay(make_setup().environment(3), Stopwatch("wall"))
    for _ in range(200):
        assert play.step() == 3.0
    assert play.ticks == 600
    assert 0 < play.decisions <= 2 * 600
    assert play.stopwatch.total_s > 0


def test_rows_are_repeated_if_there_are_too_few():
    """A row holds every array of a decision."""
    with closing(make_setup().sampler(matches=4)) as sampler:
        recorded = sampler.record(20)
    few, many = rows_of(recorded, 5), rows_of(recorded, 10_000)
    assert {len(array) for array in few.values()} == {5}
    assert {len(array) for array in many.values()} == {10_000}
    assert np.array_equal(few["action"], many["action"][:5])
    assert few["decided"].all()


def test_samplers_get_new_weights_after_every_block():
    """The versions of recorded blocks increase."""
    setup = make_setup("players.main_agent.ppo.segment_decisions=32")
    with closing(setup.sampler(matches=4)) as sampler:
        versions = [block.version.max() for block in sampler.record(1000)]
    assert len(versions) > 3
    assert versions[1:] == sorted(set(versions))  # the second block begins before the first one arrives


def test_skipped_decisions_are_played_and_not_recorded(monkeypatch):
    """Matches that began together are out of step then."""
    setup = make_setup("players.main_agent.ppo.segment_decisions=32")
    with closing(setup.sampler(matches=4)) as sampler:
        played, play_tick = [], sampler.play_tick
        monkeypatch.setattr(sampler, "play_tick", lambda: played.append(play_tick()) or played[-1])
        recorded = sampler.record(20, skip=500)
    assert sum(played) >= 500
    assert 20 <= sum(batch.num_decisions for batch in recorded) < 300


def test_a_game_in_which_no_seat_acts_is_an_error(monkeypatch):
    """The sampler does not play forever."""
    with closing(make_setup().sampler(matches=4)) as sampler:
        monkeypatch.setattr(sampler, "play_tick", lambda: 0.0)
        with pytest.raises(ContractError, match="no seat acted"):
            sampler.record(1)


def test_an_update_takes_one_batch_of_the_recorded_segments():
    """However many were recorded."""
    setup = make_setup("players.main_agent.ppo.batch_decisions=32", "players.main_agent.ppo.segment_decisions=4")
    with closing(setup.sampler(matches=4)) as sampler:
        recorded = sampler.record(200)
    trainer = TrainerPart.prepare(setup.make_player(), recorded)
    assert 24 <= trainer.decisions < 48
    assert trainer.update() == trainer.decisions


def test_a_policy_decides_for_all_rows():
    """The task returns their number."""
    setup = make_setup()
    rows = record_rows(setup)
    assert policy_task(setup.make_player().policy, rows)() == 6.0
    assert len(rows["action"]) == 6


def test_a_trainer_that_never_learns_is_an_error(monkeypatch):
    """The message has the number of updates."""
    pytest.importorskip("ludus_dqn")
    monkeypatch.setattr("ludus_bench.parts._MAX_UPDATES", 3)
    setup = make_setup("players.main_agent.dqn.learning_starts=90_000", algorithm="dqn")
    with pytest.raises(ConfigError, match=r"player 'main_agent': the first 3 updates, with .* learned nothing"):
        make_trainer(setup)


def test_a_network_runs_alone_on_a_device():
    """The task returns the number of rows."""
    setup = make_setup()
    assert network_task(setup.make_player().policy, setup.network(), record_rows(setup), "cpu")() == 6.0


def test_an_algorithm_without_networks_cannot_be_measured_on_a_device():
    """The message names the algorithm."""
    with pytest.raises(ConfigError, match="'dummy-gradient' runs no network"):
        make_setup(algorithm="dummy-gradient").network()


def test_rows_of_a_minibatch_become_a_number_of_minibatches():
    """Rounded to a whole number."""
    setup = make_setup("players.main_agent.ppo.batch_decisions=100")
    assert setup.with_minibatch(30).minibatch_option == ("players.main_agent.ppo.num_minibatches", 3)
    assert make_setup(algorithm="dummy-gradient").minibatch_option is None


def test_a_configuration_is_dumped_with_other_values_and_without_sinks():
    """Other values stay."""
    text = make_setup("metrics.interval_s=5.0").dump(run={"workers": 3}, sampling={"matches": 7})
    assert "workers = 3" in text
    assert "matches = 7" in text
    assert 'matchmaker = "latest-self-play"' in text
    assert "metrics" not in text


def test_the_harmonic_rate_adds_times():
    """1 / (1/2 + 1/2) = 1."""
    assert harmonic(2.0, 2.0) == 1.0
    assert harmonic(3.0, 6.0) == pytest.approx(2.0)


def rate(per_s, cores=1.0):
    """Return a rate of one repeat."""
    return Rate(per_s=(per_s,), cores=cores)


def test_the_update_rate_of_a_gpu_is_a_limit():
    """More cores do not raise it; more GPUs do."""
    rates = PartRates(environment=rate(6.0), forward=rate(6.0), update=rate(6.0), rows=4, minibatch=8)
    assert rates.limit_per_s(2) == rates.limit_per_s(2, gpus=1) == pytest.approx(4)
    assert rates.limit_per_s(16) == rates.limit_per_s(16, gpus=9) == pytest.approx(32)
    assert (rates.limit_per_s(16, gpus=1), rates.limit_per_s(16, gpus=2)) == (6, 12)


def test_gpus_are_those_of_the_learners(monkeypatch):
    """At most one per learner process, and one if the device names it."""
    setup = open_setup(environment="dummy-count")
    assert (setup.device, setup.gpus) == ("cpu", 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    for device, learners, expected in (("cuda", 1, 1), ("cuda", 2, 2), ("cuda", 4, 3), ("cuda:1", 4, 1)):
        run = attrs.evolve(setup.config.run, device=device)
        player = attrs.evolve(setup.config.players["main_agent"], learner_processes=learners)
        config = attrs.evolve(setup.config, run=run, players={"main_agent": player})
        assert attrs.evolve(setup, config=config).gpus == expected


def test_without_a_file_every_role_has_a_player():
    """Players of several roles are named after their role."""
    assert open_setup(environment="dummy-count").players == ("main_agent",)
    setup = open_setup(environment="dummy-guess")
    assert setup.players == tuple(role.name for role in setup.spec.roles)
    assert len(setup.players) == 2
