"""Updates of a process group equal those of one trainer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gymnasium import spaces
from ludus import ContractError
from ludus.testing import update_together
from ludus_networks.config import ModularConfig
from ludus_networks.modular import make_modular

WHOLE = {
    "num_minibatches": 1,
    "epochs": 3,
    "learning_rate": 1e-2,
}  # Adam turns rounding errors of tiny steps into steps


def normalizing(request):
    """Build a network with running statistics."""
    return make_modular(ModularConfig(torso=(16,), normalize=True), request=request)


def recurrent(request):
    """Build a recurrent network with running statistics."""
    return make_modular(ModularConfig(torso=(8,), core="gru", core_size=8, normalize=True), request=request)


def close(one, other, *, atol=2e-4):
    """Compare named arrays up to rounding."""
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], atol=atol, rtol=1e-3, err_msg=name)


def compare(ppo, batches, bounds):
    """Compare a group on shards with one trainer on whole batches; return the last results of both."""
    alone, *group = (ppo.make_trainer(seed=1) for _ in range(len(bounds)))
    for batch in batches:
        expected = alone.update(batch, progress=0.0)
        parts = [batch.part(start, end) for start, end in itertools.pairwise(bounds)]
        results = update_together(group, parts)
    for trainer in group:
        close(trainer.weights(), alone.weights())
        close(trainer.state(), alone.state())
    return expected, results


@pytest.mark.parametrize("bounds", [(0, 3, 6), (0, 1, 6), (0, 2, 4, 6)], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize_advantage": False, "value_clip": 0.2},
        {"normalize_value": True},
        {"advantage": "vtrace"},
        {"build_network": normalizing},
        {"action_space": spaces.Box(-1, 1, (2,), np.float32)},
    ],
    ids=["plain", "not normalized", "normalized values", "v-trace", "statistics", "continuous"],
)
def test_a_group_learns_what_one_learns(make_ppo, make_batch, options, bounds):
    """With shards of equal and of different sizes, over several updates."""
    ppo = make_ppo(**{**WHOLE, **options})
    batches = [make_batch(ppo, seed=seed) for seed in range(3)]
    expected, results = compare(ppo, batches, bounds)
    assert {result.samples for result in results} == {expected.samples}
    assert {result.gradient_steps for result in results} == {expected.gradient_steps}
    assert results[0].metrics == results[1].metrics == pytest.approx(expected.metrics, abs=1e-3)


def test_values_explain_returns_over_the_whole_batch(make_ppo, make_batch):
    """Also if values differ between shards and are constant within each."""
    ppo = make_ppo(gamma=0.0)
    batch = make_batch(ppo)
    batch.reward[:] = batch.extras["value"][:] = np.repeat([[-1, 1]], 3)
    results = update_together([ppo.make_trainer(seed=1) for _ in range(2)], batch.divide(2))
    for result in results:
        assert result.metrics["explained_variance"] == 1.0
        assert result.metrics["value_mean"] == result.metrics["return_mean"] == 0.0


def test_recurrent_networks_learn_in_groups(make_ppo, make_batch):
    """Shards consist of whole segments."""
    ppo = make_ppo(**WHOLE, build_network=recurrent)
    batches = [make_batch(make_ppo(build_network=normalizing), seed=seed) for seed in range(2)]
    for batch in batches:
        batch.initial_state = ppo.make_policy().initial_state(6)
    compare(ppo, batches, (0, 2, 6))


def test_all_processes_make_as_many_steps(make_ppo, make_batch):
    """The shard with the fewest decisions limits the number of minibatches."""
    ppo = make_ppo(num_minibatches=8, epochs=2)
    batch = make_batch(ppo)
    batch.length[0] = 3
    group = [ppo.make_trainer(seed=1) for _ in range(2)]
    results = update_together(group, [batch.part(0, 1), batch.part(1, 6)])
    assert [result.gradient_steps for result in results] == [6, 6]
    close(*(trainer.weights() for trainer in group), atol=0)


def test_all_processes_stop_after_the_same_pass(make_ppo, make_batch):
    """The KL divergence is that of the whole batch."""
    ppo = make_ppo(**{**WHOLE, "epochs": 20, "target_kl": 0.05})
    expected, results = compare(ppo, [make_batch(ppo)], (0, 1, 6))
    assert 1 < expected.gradient_steps < 20
    assert [result.gradient_steps for result in results] == [expected.gradient_steps] * 2


def test_an_error_in_one_process_changes_none(make_ppo, make_batch):
    """Not even statistics that another process has updated; the next update works."""
    ppo = make_ppo(build_network=normalizing, normalize_value=True)
    group = [ppo.make_trainer(seed=1) for _ in range(2)]
    before = [(trainer.weights(), trainer.state()) for trainer in group]
    batch = make_batch(ppo)
    parts = batch.divide(2)
    parts[0].extras["value"] = np.full_like(parts[0].extras["value"], np.nan)
    with pytest.raises(ContractError, match="not finite"):
        update_together(group, parts)
    for trainer, (weights, state) in zip(group, before, strict=True):
        close(trainer.weights(), weights, atol=0)
        close(trainer.state(), state, atol=0)
    update_together(group, make_batch(ppo, seed=1).divide(2))
    close(*(trainer.weights() for trainer in group), atol=0)


def test_all_processes_make_as_many_steps_of_a_fractional_pass(make_ppo, make_batch):
    """The number of segments in a fractional pass is random."""
    ppo = make_ppo(build_network=recurrent, epochs=1.5, num_minibatches=8)
    batch = make_batch(make_ppo(build_network=normalizing), segments=12)
    batch.initial_state = ppo.make_policy().initial_state(12)
    batch.length[:] = [8, 1, 1, 1, 1, 1] + [4] * 6
    group = [ppo.make_trainer(seed=1) for _ in range(2)]
    for _ in range(20):
        one, other = update_together(group, [batch.part(0, 6), batch.part(6, 12)])
        assert one.gradient_steps == other.gradient_steps
    close(*(trainer.weights() for trainer in group), atol=0)


def test_networks_without_statistics_learn_in_groups(make_ppo, make_batch):
    """There is nothing to exchange."""
    ppo = make_ppo(**WHOLE, build_network=lambda request: make_modular(ModularConfig(torso=(16,)), request=request))
    compare(ppo, [make_batch(ppo)], (0, 3, 6))
