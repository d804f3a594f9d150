"""Tests of the formulas against numbers computed by hand, by torch.distributions and by torchrl."""

from __future__ import annotations

import math

import pytest
import torch
from ludus_sac.losses import (
    critic_loss,
    entropy,
    masked_categorical,
    soft_target,
    soft_value,
    squashed_normal,
    temperature_loss,
)
from torch import distributions, nn
from torch.nn import functional


def uniform(*shape, seed=0):
    """Return numbers in [-1, 1]."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1


# -- distributions -------------------------------------------------------------------------------------------------


def test_squashed_density_equals_torch():
    """A tanh-transformed normal distribution, in double precision."""
    mean, log_std, noise = uniform(50, 3), uniform(50, 3, seed=1), 2 * uniform(50, 3, seed=2)
    action, log_prob = squashed_normal(mean, log_std, noise)
    reference = distributions.TransformedDistribution(
        distributions.Normal(mean, log_std.exp()), [distributions.TanhTransform()]
    )
    assert torch.allclose(action, torch.tanh(mean + log_std.exp() * noise))
    assert torch.allclose(log_prob, reference.log_prob(action).sum(dim=1, keepdim=True), atol=1e-8)


def test_squashed_density_integrates_to_one():
    """Over (-1, 1), by the trapezoidal rule."""
    noise = torch.linspace(-8, 8, 20_001, dtype=torch.float64).unsqueeze(1)
    action, log_prob = squashed_normal(torch.full_like(noise, 0.3), torch.full_like(noise, -0.2), noise)
    assert torch.trapezoid(log_prob[:, 0].exp(), action[:, 0]).item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("mean", [-30.0, 30.0])
def test_density_is_finite_where_tanh_rounds_to_one(mean):
    """log(1 - tanh²) is -inf in floating point; its exact value is nearly -2 (|u| - log 2)."""
    means = torch.tensor([[mean]], requires_grad=True)
    action, log_prob = squashed_normal(means, torch.zeros(1, 1), torch.zeros(1, 1))
    log_prob.sum().backward()
    assert action.abs().item() == 1.0
    assert log_prob.item() == pytest.approx(-0.5 * math.log(2 * math.pi) + 2 * (30 - math.log(2)), rel=1e-6)
    assert means.grad.item() == pytest.approx(2 * math.copysign(1, mean))


def test_masked_probabilities():
    """Two legal actions with logits 0 and log 3 have 1/4 and 3/4; the illegal one has probability 0 and no gradient."""
    logits = torch.tensor([[0.0, 100.0, math.log(3)]], requires_grad=True)
    mask = torch.tensor([[True, False, True]])
    log_prob, prob = masked_categorical(logits, mask)
    assert prob[0].tolist() == pytest.approx([0.25, 0.0, 0.75])
    assert log_prob[0].tolist() == pytest.approx([math.log(0.25), 0.0, math.log(0.75)])
    (prob * (log_prob + torch.tensor([1.0, 2.0, 3.0]))).sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 1] == 0
    assert logits.grad[0, 0] != 0


def test_all_actions_are_legal_without_a_mask():
    """Equal to torch's softmax."""
    logits = uniform(5, 4)
    log_prob, prob = masked_categorical(logits, None)
    assert torch.equal(log_prob, torch.log_softmax(logits, dim=1))
    assert torch.allclose(prob, torch.softmax(logits, dim=1))


# -- values and losses ---------------------------------------------------------------------------------------------


def test_soft_value_of_one_sample():
    """Q - alpha log π = 3 - 0.5 · -2."""
    value = soft_value(torch.tensor([[3.0]]), torch.tensor([[-2.0]]), torch.tensor([[1.0]]), alpha=torch.tensor(0.5))
    assert value.tolist() == [4.0]


def test_discrete_soft_value_equals_enumeration():
    """Action by action, in plain numbers."""
    q, logits = uniform(6, 4), uniform(6, 4, seed=1)
    mask = torch.tensor([[True, False, True, True]] * 6)
    log_prob, prob = masked_categorical(logits, mask)
    found = soft_value(q, log_prob, prob, alpha=torch.tensor(0.3))
    for row in range(6):
        total = sum(math.exp(logits[row, a]) for a in (0, 2, 3))
        chances = {a: math.exp(logits[row, a]) / total for a in (0, 2, 3)}
        expected = sum(p * (float(q[row, a]) - 0.3 * math.log(p)) for a, p in chances.items())
        assert found[row].item() == pytest.approx(expected, abs=1e-7)


def test_softmax_of_values_maximizes_the_soft_value():
    """V = alpha log Σ exp(Q / alpha) is the largest soft value, with gradient 0."""
    q, alpha = uniform(1, 4), 0.4
    logits = (q / alpha).requires_grad_()
    value = soft_value(q, *masked_categorical(logits, None), alpha=torch.tensor(alpha))
    value.sum().backward()
    assert value.item() == pytest.approx(alpha * torch.logsumexp(q / alpha, dim=1).item())
    assert logits.grad.abs().max() < 1e-9


def test_entropy_of_discrete_actions():
    """Of probabilities 1/4 and 3/4."""
    log_prob, prob = masked_categorical(torch.tensor([[0.0, 5.0, math.log(3)]]), torch.tensor([[True, False, True]]))
    assert entropy(log_prob, prob).item() == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))


def test_soft_target():
    """1 + 0.9 · 10; a terminated match leaves the reward alone."""
    target = soft_target(torch.tensor([1.0, 1.0]), torch.tensor([0.9, 0.0]), torch.tensor([10.0, 10.0]))
    assert target.tolist() == [10.0, 1.0]


def test_critic_loss():
    """½ · (1 + 9)/2 of the first and ½ · (4 + 0)/2 of the second."""
    q = torch.tensor([[1.0, 5.0], [0.0, 2.0]])
    assert critic_loss(q, torch.tensor([2.0, 2.0])).item() == pytest.approx(2.5 + 1.0)


@pytest.mark.parametrize(("mean_entropy", "sign"), [(2.0, 1), (0.5, -1)])
def test_temperature_gradient(mean_entropy, sign):
    """The gradient in log alpha is H - H_target."""
    log_alpha = torch.tensor(-1.0, requires_grad=True)
    temperature_loss(log_alpha, torch.full((4,), mean_entropy), torch.tensor([1.0])).backward()
    assert log_alpha.grad.item() == pytest.approx(mean_entropy - 1.0)
    assert math.copysign(1, log_alpha.grad.item()) == sign


# -- an independent implementation -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:No target network updater")
def test_discrete_losses_equal_torchrl():
    """Critic, policy and temperature on random networks and transitions; torchrl has no ½ before the square."""
    pytest.importorskip("torchrl")
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torchrl.data import OneHot
    from torchrl.modules import OneHotCategorical, ProbabilisticActor, ValueOperator
    from torchrl.objectives import DiscreteSACLoss

    torch.manual_seed(0)
    logits = TensorDictModule(nn.Linear(3, 4), in_keys=["observation"], out_keys=["logits"])
    policy = ProbabilisticActor(logits, spec=OneHot(4), in_keys=["logits"], distribution_class=OneHotCategorical)
    critic = ValueOperator(nn.Linear(3, 4), in_keys=["observation"], out_keys=["action_value"])
    torchrl_loss = DiscreteSACLoss(
        policy, critic, action_space="one-hot", num_actions=4, loss_function="l2", alpha_init=0.3, target_entropy=0.9
    )
    torchrl_loss.make_value_estimator(gamma=0.9)
    torchrl_loss.target_qvalue_network_params.data.apply_(lambda tensor: tensor.normal_())
    obs, after, action, reward = torch.randn(50, 3), torch.randn(50, 3), torch.randint(4, (50,)), torch.randn(50)
    terminated = torch.rand(50) < 0.2
    ends = {"reward": reward[:, None], "done": terminated[:, None], "terminated": terminated[:, None]}
    following = TensorDict({"observation": after, **ends}, [50])
    chosen = functional.one_hot(action, 4)
    expected_losses = torchrl_loss(TensorDict({"observation": obs, "action": chosen, "next": following}, [50]))

    def critics(parameters, observation):
        weight, bias = (parameters.flatten_keys(".")[f"module.{name}"] for name in ("weight", "bias"))
        return torch.einsum("koi,ni->kno", weight, observation) + bias[:, None]

    alpha = torch.tensor(0.3)
    online, delayed = torchrl_loss.qvalue_network_params, torchrl_loss.target_qvalue_network_params
    log_prob, prob = masked_categorical(logits.module(after), None)
    value = soft_value(critics(delayed, after).min(dim=0).values, log_prob, prob, alpha=alpha)
    target = soft_target(reward, 0.9 * (~terminated).float(), value)
    taken = critics(online, obs).gather(2, action.expand(2, 50)[..., None])[..., 0]
    assert torch.allclose(2 * critic_loss(taken, target), expected_losses["loss_qvalue"], atol=1e-5)
    log_prob, prob = masked_categorical(logits.module(obs), None)
    policy_loss = -soft_value(critics(online, obs).min(dim=0).values, log_prob, prob, alpha=alpha).mean()
    assert torch.allclose(policy_loss, expected_losses["loss_actor"], atol=1e-5)
    alpha_loss = temperature_loss(alpha.log(), entropy(log_prob, prob), torch.full((50,), 0.9))
    assert torch.allclose(alpha_loss, expected_losses["loss_alpha"], atol=1e-5)
