"""The parts that benchmarks measure: environment, policy, trainer, and the rates that they make together."""

from __future__ import annotations

from contextlib import closing

import attrs
import numpy as np
import pytest
import torch
from ludus.__main__ import main
from ludus.errors import ConfigError, ContractError
from ludus_bench._pieces import Source, open_setup
from ludus_bench._sampling import Dealer
from ludus_bench.gemm import trace_gemms
from ludus_bench.parts import Acting, Computing, Rates, Updating, all_different, as_played, harmonic, rows_of
from ludus_bench.play import RandomPlay
from ludus_bench.report import Limit
from ludus_bench.single import on_device
from ludus_bench.timing import Rate, Stopwatch
from ludus_torch.linear import has_bf16


def setup_of(*overrides, algorithm="ppo"):
    """Return a small configuration."""
    return open_setup(
        Source(environment="dummy-count", algorithm=algorithm, overrides=("sampling.matches=4", *overrides))
    )


def acting_of(setup, **how):
    """Return six decisions of a configuration."""
    with closing(setup.sampling(matches=4)) as sampling:
        return Acting(learned=setup.learned(**how), batches=[rows_of(sampling.record(8), 6)])


def updating_of(setup, **how):
    """Return an update of a configuration."""
    learned = setup.learned(**how)
    with closing(setup.sampling(matches=4)) as sampling:
        return Updating.of(learned, sampling.record(learned.trainer.batch_decisions))


def test_random_play_is_legal_and_goes_on_for_ever():
    """Rows that end start anew; the environment raises at an illegal action."""
    play = RandomPlay(setup_of().environment(3), Stopwatch("wall"))
    for _ in range(200):
        assert play.step() == 3.0
    assert play.ticks == 600
    assert 0 < play.decisions <= 2 * 600
    assert play.inside.total_s > 0


def test_rows_are_decisions_repeated_where_there_are_fewer():
    """With everything that was recorded of them."""
    setup = setup_of()
    sampling = setup.sampling(matches=4)
    recorded = sampling.record(20)
    sampling.close()
    few, many = rows_of(recorded, 5), rows_of(recorded, 10_000)
    assert {len(array) for array in few.values()} == {5}
    assert {len(array) for array in many.values()} == {10_000}
    assert np.array_equal(few["action"], many["action"][:5])
    assert few["decided"].all()


def test_samplers_get_new_weights_after_every_block():
    """Or what a network answered before would be remembered for ever."""
    with closing(setup_of().sampling(matches=4)) as sampling:
        versions = [block.version.max() for block in sampling.record(1000)]
    assert len(versions) > 3
    assert versions[1:] == sorted(set(versions))  # the second is begun before the first has arrived


def test_what_is_played_before_is_not_recorded(monkeypatch):
    """So that matches that began together are out of step."""
    with closing(setup_of().sampling(matches=4)) as sampling:
        played, work = [], sampling.work
        monkeypatch.setattr(sampling, "work", lambda: played.append(work()) or played[-1])
        recorded = sampling.record(20, after=500)
    assert sum(played) >= 500
    assert 20 <= sum(batch.num_decisions for batch in recorded) < 300


def test_an_update_takes_about_one_batch():
    """However much was recorded."""
    setup = setup_of("players.main_agent.ppo.batch_decisions=32", "players.main_agent.ppo.segment_decisions=4")
    sampling = setup.sampling(matches=4)
    recorded = sampling.record(200)
    sampling.close()
    updating = Updating.of(setup.learned(), recorded)
    assert 24 <= updating.decisions < 48
    assert updating.work() == updating.decisions


def test_acting_decides_for_all_rows():
    """And says for how many."""
    acting = acting_of(setup_of())
    assert acting.work() == 6.0
    assert [len(rows["action"]) for rows in acting.batches] == [6]


def test_decisions_as_played_meet_new_weights_after_every_block(monkeypatch):
    """Tick by tick, each block by itself; the rest of a tick that a block ends with is left out."""
    setup = setup_of()
    with closing(setup.sampling(matches=4)) as sampling:
        recorded = sampling.record(400)
    learned, rows, done = setup.learned(), 3, []
    monkeypatch.setattr(learned.policy, "load", lambda weights: done.append("load"))
    act = learned.policy.act
    monkeypatch.setattr(
        learned.policy, "act", lambda inputs, **how: done.append(len(inputs.observation["obs"])) or act(inputs, **how)
    )
    acting = as_played(learned, recorded, rows)
    assert acting.work() == acting.count
    assert done == [x for block in recorded for x in ("load", *[rows] * (block.num_decisions // rows))]
    assert len(recorded) > 1


def test_decisions_that_are_all_different_hold_what_was_seen():
    """Every element has the values that it had, mostly beside others; where nothing was decided nothing changes."""
    pytest.importorskip("ludus_board")
    setup = open_setup(Source(environment="connect4"))
    with closing(setup.sampling(matches=64)) as sampling:
        recorded = sampling.record(4000, after=4000)
    changed = all_different(recorded)
    assert any(np.count_nonzero(~block.trainable()) for block in recorded)
    for before, since in zip(recorded, changed, strict=True):
        chosen = before.trainable()
        assert since.observation.keys() == before.observation.keys()
        for name, leaf in before.observation.items():
            dealt = since.observation[name]
            assert (dealt.dtype, dealt.shape) == (leaf.dtype, leaf.shape)
            np.testing.assert_array_equal(np.sort(dealt[chosen], axis=0), np.sort(leaf[chosen], axis=0))
            np.testing.assert_array_equal(dealt[~chosen], leaf[~chosen])
        np.testing.assert_array_equal(since.action, before.action)
    assert share_of_different(recorded) < 0.9
    assert share_of_different(changed) > 0.99


def test_large_observations_differ_by_some_of_their_elements(monkeypatch):
    """Of images it would take long to deal all anew."""
    pytest.importorskip("ludus_board")
    monkeypatch.setattr("ludus_bench.parts._MOST_DEALT", 5)
    with closing(open_setup(Source(environment="connect4")).sampling(matches=64)) as sampling:
        recorded = sampling.record(4000, after=4000)
    for before, since in zip(recorded, all_different(recorded), strict=True):
        for name, leaf in before.observation.items():
            changed = (since.observation[name] != leaf).any(axis=(0, 1))
            assert 1 <= np.count_nonzero(changed) <= 5


def share_of_different(batches):
    """Return which share of observations are the first of their kind."""
    seen = rows_of(batches, sum(np.count_nonzero(batch.trainable()) for batch in batches))
    leaves = [leaf.reshape(len(leaf), -1) for name, leaf in seen.items() if name.startswith("observation/")]
    rows = np.concatenate(leaves, axis=1)
    return len(np.unique(rows, axis=0)) / len(rows)


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_a_decision_has_the_products_of_the_networks_that_act(algorithm):
    """Two layers and the heads; the critics of sac have nothing to say then."""
    pytest.importorskip(f"ludus_{algorithm}")
    setup = setup_of(algorithm=algorithm)
    heads = {"ppo": 2, "sac": 1}[algorithm]
    assert len(acting_of(setup, plain=True).gemms()) == 2 + heads


@pytest.mark.parametrize("kernels", ["auto", "torch", "onednn"])
def test_an_update_has_the_products_of_every_pass(kernels):
    """Forwards, and backwards to the weights and to all inputs but the first, whatever the kernels are.

    With rounded gradients both heads are one product.
    """
    options = {"epochs": 3, "num_minibatches": 2, "batch_decisions": 32, "segment_decisions": 4, "cpu_kernels": kernels}
    setup = setup_of(*(f"players.main_agent.ppo.{name}={value}" for name, value in options.items()))
    products = 3 if has_bf16() else 4
    assert len(updating_of(setup, plain=True).gemms()) == 3 * 2 * (products + products + products - 1)


def test_networks_that_only_make_targets_have_no_gradients():
    """Deep Q-learning runs three networks with as many rows, and learns one."""
    pytest.importorskip("ludus_dqn")
    options = {"updates_per_batch": 5, "minibatch_size": 16, "learning_starts": 1, "double": "true"}
    setup = setup_of(*(f"players.main_agent.dqn.{name}={value}" for name, value in options.items()), algorithm="dqn")
    gemms = updating_of(setup, plain=True).gemms()
    forward, backward = 3, 5
    assert len(gemms) == 5 * (3 * forward + backward)


def test_a_trainer_that_never_learns_is_said_instead_of_measured(monkeypatch):
    """With how long it was waited for."""
    pytest.importorskip("ludus_dqn")
    monkeypatch.setattr("ludus_bench.parts._MOST_UPDATES", 3)
    setup = setup_of("players.main_agent.dqn.learning_starts=90_000", algorithm="dqn")
    with pytest.raises(ConfigError, match=r"player 'main_agent': the first 3 updates, with .* learned nothing"):
        updating_of(setup)


def test_a_network_runs_alone_on_a_device():
    """With its inputs taken there and its heads taken back."""
    setup = setup_of()
    work = on_device(acting_of(setup), setup.network(), "cpu")
    assert work() == 6.0
    assert len(trace_gemms(work)) == 4


def test_without_a_network_there_is_nothing_to_run_alone():
    """Which is said with the algorithm's name."""
    with pytest.raises(ConfigError, match="'dummy-gradient' runs no network"):
        setup_of(algorithm="dummy-gradient").network()


def test_a_game_in_which_nobody_acts_is_said_instead_of_played_for_ever(monkeypatch):
    """With what to do about it."""
    with closing(setup_of().sampling(matches=4)) as sampling:
        monkeypatch.setattr(sampling, "work", lambda: 0.0)
        with pytest.raises(ContractError, match="no seat acted"):
            sampling.record(1)


def test_without_another_team_there_are_no_opponents(capsys):
    """Whatever the algorithm is."""
    pytest.importorskip("ludus_gymnasium")
    assert main(["bench", "opponents", "--env", "gymnasium"]) == 1
    assert capsys.readouterr().err == "error: environment 'gymnasium' has one team, so nobody is an opponent there\n"


def test_opponents_differ_from_each_other(tmp_path):
    """Each has a file of its own."""
    found = setup_of().freeze(3, tmp_path)
    assert len(set(found.hashes.values())) == 3
    assert list(found.hashes) == ["main_agent@1", "main_agent@2", "main_agent@3"]


def test_opponents_are_models_of_the_player_that_learns_their_role(tmp_path):
    """Both roles in turn, each against every model of the other one, drawn by lot."""
    setup = open_setup(Source(environment="dummy-guess"))
    hider, seeker = setup.players
    frozen = setup.freeze(3, tmp_path)
    roles = [seat.role for seat in setup.spec().seats]
    dealer = Dealer(((0, hider), (1, seeker)), 16, frozen.first(2))
    assert roles == [hider, seeker]
    fixtures = dealer.deal(40).fixtures
    assert {(fixture.player, *fixture.participants) for fixture in fixtures} == {
        (hider, f"{hider}@0+", f"{seeker}@1"),
        (hider, f"{hider}@0+", f"{seeker}@2"),
        (seeker, f"{hider}@1", f"{seeker}@0+"),
        (seeker, f"{hider}@2", f"{seeker}@0+"),
    }
    assert [fixture.player for fixture in fixtures[:4]] in ([hider, seeker] * 2, [seeker, hider] * 2)
    for fixture in fixtures:
        (model,) = set(fixture.participants) & set(frozen.hashes)
        assert fixture.models == {model: frozen.hashes[model]}


def test_a_minibatch_becomes_a_number_of_minibatches():
    """As near as whole numbers allow."""
    setup = setup_of("players.main_agent.ppo.batch_decisions=100")
    assert setup.with_minibatch(30).minibatch_option == ("players.main_agent.ppo.num_minibatches", 3)
    assert setup_of(algorithm="dummy-gradient").minibatch_option is None


def test_a_configuration_is_written_with_other_values_and_without_sinks():
    """What is not named stays."""
    text = setup_of("metrics.interval_s=5.0").dump(run={"workers": 3}, sampling={"matches": 7})
    assert "workers = 3" in text
    assert "matches = 7" in text
    assert 'matchmaker = "latest-self-play"' in text
    assert "metrics" not in text


def test_rates_one_after_another_add_up_as_times():
    """1 / (1/2 + 1/2) = 1."""
    assert harmonic(2.0, 2.0) == 1.0
    assert harmonic(3.0, 6.0) == pytest.approx(2.0)


def test_rates_measured_in_turns_are_joined():
    """Repeats of all turns count, and medians of what there is one of in each."""

    def turn(env, update, limit):
        limits = {"forward": None, "update": Limit(value=limit, of="products")}
        each, played = (computing(x * update, cores=update / 10) for x in (1, 2))
        return Rates(env=env, each=each, played=played, rows=4, minibatch=8, limits=limits)

    joined = Rates.joined([turn(1.0, 5.0, 30.0), turn(2.0, 7.0, 10.0), turn(6.0, 9.0, 20.0)])
    assert (joined.env, joined.rows, joined.minibatch) == (2.0, 4, 8)
    assert joined.each.update == Rate(per_s=(5.0, 7.0, 9.0), cores=pytest.approx(0.7))
    assert joined.played.forward == Rate(per_s=(10.0, 14.0, 18.0), cores=pytest.approx(0.7))
    assert joined.limits == {"forward": None, "update": Limit(value=20.0, of="products")}


def computing(per_s, cores=1.0):
    """Return equal rates of forward and update."""
    rate = Rate(per_s=(per_s,), cores=cores)
    return Computing(forward=rate, update=rate)


def test_a_gpu_bounds_what_all_cores_play():
    """It updates no faster for there being more of them."""
    rates = Rates(env=6.0, each=computing(6.0), played=computing(12.0), rows=4, minibatch=8, limits={})
    assert rates.selfplay(2) == rates.selfplay(2, gpus=1) == pytest.approx(4)
    assert rates.selfplay(16) == rates.selfplay(16, gpus=9) == pytest.approx(32)
    assert (rates.selfplay(16, gpus=1), rates.selfplay(16, gpus=2)) == (6, 12)
    assert rates.selfplay(2, as_played=True) == pytest.approx(6)
    assert rates.selfplay(16, gpus=1, as_played=True) == 12


def test_gpus_are_those_that_learners_get(monkeypatch):
    """Of all where any will do, and no more than there are learners."""
    setup = open_setup(Source(environment="dummy-count"))
    assert (setup.device, setup.gpus) == ("cpu", 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    for device, learners, expected in (("cuda", 1, 1), ("cuda", 2, 2), ("cuda", 4, 3), ("cuda:1", 4, 1)):
        run = attrs.evolve(setup.config.run, device=device)
        player = attrs.evolve(setup.config.players["main_agent"], learner_processes=learners)
        config = attrs.evolve(setup.config, run=run, players={"main_agent": player})
        assert attrs.evolve(setup, config=config).gpus == expected


def test_without_a_file_every_role_has_a_player():
    """Named after the role where there are several."""
    assert open_setup(Source(environment="dummy-count")).players == ("main_agent",)
    several = open_setup(Source(environment="dummy-guess"))
    assert several.players == tuple(role.name for role in several.spec().roles)
    assert len(several.players) == 2
