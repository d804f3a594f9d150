"""V-trace: advantages and returns of decisions by older weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from ludus_ppo.estimators import gae, vtrace
from torch import tensor

NEVER = torch.zeros(4, 1, dtype=torch.bool)
ALL = tensor([[True], [True], [True], [False]])


def column(*numbers: float) -> torch.Tensor:
    """Return ``[n, 1]``."""
    return tensor(numbers).unsqueeze(1)


def estimate(reward, value, log_ratio, *, gae_lambda=1.0, terminated=NEVER, trainable=ALL, **clips):
    """Return advantages and returns of one segment with discount 0.5."""
    found = vtrace(
        reward,
        value,
        log_ratio=log_ratio,
        terminated=terminated,
        trainable=trainable,
        discount=torch.full_like(value, 0.5),
        gae_lambda=gae_lambda,
        **clips,
    )
    return [one.squeeze(1).tolist() for one in found]


def test_vtrace_by_hand():
    """Ratios 1/2, 1 and 2 (clipped to 1), rewards 1, 2, 3, values 0.5, 0.4, 0.3 and 0.2 to bootstrap from."""
    log_ratio = column(math.log(0.5), 0.0, math.log(2.0), 9.0)
    advantage, returns = estimate(column(1, 2, 3, 0), column(0.5, 0.4, 0.3, 0.2), log_ratio)
    third = 3 + 0.5 * 0.2 - 0.3
    second = 2 + 0.5 * 0.3 - 0.4 + 0.5 * third
    first = 0.5 * (1 + 0.5 * 0.4 - 0.5) + 0.5 * 0.5 * second
    assert returns == pytest.approx([0.5 + first, 0.4 + second, 0.3 + third, 0.2])
    assert advantage == pytest.approx(
        [1 + 0.5 * (0.4 + second) - 0.5, 2 + 0.5 * (0.3 + third) - 0.4, 3 + 0.5 * 0.2 - 0.3, 0]
    )


def test_a_terminated_match_does_not_bootstrap():
    """Undefined entries have no influence."""
    nan = float("nan")
    advantage, returns = estimate(
        column(1, 2, nan, nan),
        column(0.5, 0.4, nan, nan),
        column(0, 0, nan, nan),
        terminated=tensor([[True], [True], [False], [False]]),
        trainable=tensor([[True], [True], [False], [False]]),
    )
    assert advantage == pytest.approx([0.5, 1.6, 0, 0])
    assert returns[:2] == pytest.approx([1, 2])


def test_without_staleness_returns_are_those_of_gae():
    """With all ratios 1, the targets of V-trace are λ-returns; clips at or above 1 have no influence."""
    generator = torch.Generator().manual_seed(0)
    reward, value = torch.randn(9, 3, generator=generator), torch.randn(9, 3, generator=generator)
    terminated, trainable = torch.rand(9, 3, generator=generator) < 0.2, torch.ones(9, 3, dtype=torch.bool)
    trainable[-1] = False
    common = {
        "terminated": terminated,
        "trainable": trainable,
        "discount": torch.full_like(value, 0.9),
        "gae_lambda": 0.8,
    }
    _, returns = vtrace(reward, value, log_ratio=torch.zeros_like(value), rho_clip=2.0, **common)
    torch.testing.assert_close(returns[:-1], (gae(reward, value, **common) + value)[:-1])


@pytest.mark.filterwarnings("default")  # the other library warns about itself
def test_vtrace_agrees_with_torchrl():
    """On a segment without breaks, with stale decisions and both clips."""
    functional = pytest.importorskip("torchrl.objectives.value.functional")
    generator = torch.Generator().manual_seed(1)
    reward, value = torch.randn(21, 1, generator=generator), torch.randn(21, 1, generator=generator)
    new, old = torch.randn(21, 1, generator=generator), torch.randn(21, 1, generator=generator)
    trainable = torch.ones(21, 1, dtype=torch.bool)
    trainable[-1] = False
    _, returns = vtrace(
        reward,
        value,
        log_ratio=new - old,
        terminated=torch.zeros(21, 1, dtype=torch.bool),
        trainable=trainable,
        discount=torch.full_like(value, 0.9),
        gae_lambda=1.0,
        rho_clip=1.5,
        c_clip=0.8,
    )
    done = torch.zeros(20, 1, dtype=torch.bool)
    _, expected = functional.vtrace_advantage_estimate(
        0.9,
        new[:-1],
        old[:-1],
        value[:-1],
        value[1:],
        reward[:-1],
        done,
        rho_thresh=torch.tensor(1.5),
        c_thresh=torch.tensor(0.8),
    )
    np.testing.assert_allclose(returns[:-1], expected, rtol=1e-5, atol=1e-5)


def same(one, other, atol=1e-6):
    """Compare two sets of weights up to rounding."""
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], rtol=1e-4, atol=atol, err_msg=name)


def test_fresh_decisions_are_learned_as_with_gae(make_ppo, make_batch):
    """With λ = 1 and the weights that decided, both estimators are equal."""
    options = {"gae_lambda": 1.0, "num_minibatches": 2, "adam_eps": 1e-3}
    plain, corrected = make_ppo(**options), make_ppo(advantage="vtrace", **options)
    batch = make_batch(plain)
    trainers = [ppo.make_trainer(seed=1) for ppo in (plain, corrected)]
    for trainer in trainers:
        trainer.update(batch, progress=0.0)
    same(trainers[0].weights(), trainers[1].weights())


def test_stale_decisions_are_corrected(make_ppo, make_batch):
    """Values are those of the current weights, and rewards of actions that became unlikely count less."""
    options = {"gae_lambda": 1.0, "num_minibatches": 1, "normalize_advantage": False}
    ppo = make_ppo(advantage="vtrace", **options)
    batch = make_batch(ppo)
    fresh = ppo.make_trainer(seed=1).update(batch, progress=0.0).metrics
    batch.extras["value"] += 100  # recorded values are not used
    batch.extras["log_prob"] += 1.0  # all actions were more likely when recorded
    stale = ppo.make_trainer(seed=1).update(batch, progress=0.0).metrics
    assert abs(stale["return_mean"]) < 50
    assert stale["return_mean"] != pytest.approx(fresh["return_mean"], abs=1e-3)
