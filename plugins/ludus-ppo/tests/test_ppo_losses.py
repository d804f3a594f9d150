"""The loss formulas against numbers worked out by hand, and against other libraries."""

from __future__ import annotations

import math

import pytest
import torch
from ludus_ppo import action_terms, losses
from ludus_ppo.action_terms import gaussian_terms
from ludus_ppo.losses import joint_log_prob, mean_over_labels, value_loss
from ludus_torch import ppo_losses as fused
from torch import distributions, tensor


@pytest.fixture(params=[losses.policy_loss, fused.policy_loss], ids=["plain", "fused"])
def policy_loss(request):
    """Return the plain formula or its fused equivalent."""
    return request.param


@pytest.fixture(params=[action_terms.categorical_terms, fused.categorical_terms], ids=["plain", "fused"])
def categorical_terms(request):
    """Return the plain formula or its fused equivalent."""
    return request.param


@pytest.fixture
def objective(policy_loss):
    """Return a function that returns the objective of one decision."""

    def compute(ratio: float, advantage: float, *, dual_clip: float = 3.0) -> float:
        log_prob = tensor([[math.log(ratio)]])
        old_log_prob = torch.zeros(1, 1)
        loss, *_ = policy_loss(log_prob, old_log_prob, tensor([advantage]), clip_epsilon=0.2, dual_clip=dual_clip)
        return -loss.item()

    return compute


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 2.0, 2.0),
        (1.5, 2.0, 2.4),  # clipped: 1.2 · 2
        (0.5, 2.0, 1.0),  # the smaller of 0.5 · 2 and 0.8 · 2
        (1.5, -1.0, -1.5),  # the smaller of -1.5 and -1.2
        (0.5, -1.0, -0.8),
        (5.0, -1.0, -3.0),  # the dual clip bounds -5
    ],
)
def test_objective_by_hand(objective, ratio, advantage, expected):
    """The objective of one decision is the paper's."""
    assert objective(ratio, advantage) == pytest.approx(expected, rel=1e-6)


def test_dual_clip_can_be_switched_off(objective):
    """Without the dual clip a large ratio at negative advantage counts in full."""
    assert objective(5.0, -1.0, dual_clip=0.0) == pytest.approx(-5.0, rel=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.1, 1.0, True), (1.3, 1.0, False), (0.7, 1.0, True), (0.7, -1.0, False), (2.9, -1.0, True), (3.1, -1.0, False)],
)
def test_gradient_stops_where_the_objective_is_clipped(policy_loss, ratio, advantage, moves):
    """A clipped ratio has no gradient; beyond η at negative advantage neither."""
    log_prob = tensor([[math.log(ratio)]], requires_grad=True)
    policy_loss(log_prob, torch.zeros(1, 1), tensor([advantage]), clip_epsilon=0.2, dual_clip=3.0)[0].backward()
    assert bool(log_prob.grad.abs().item() > 0) is moves


def test_objective_of_a_huge_ratio_is_finite(policy_loss):
    """A ratio that would overflow gives a finite objective and gradient."""
    log_prob = tensor([[500.0], [500.0]], requires_grad=True)
    advantage = tensor([1.0, -1.0])
    found = policy_loss(log_prob, torch.zeros(2, 1), advantage, clip_epsilon=0.2, dual_clip=3.0)
    found[0].backward()
    assert all(torch.isfinite(number) for number in found)
    assert torch.isfinite(log_prob.grad).all()


def test_a_bounded_ratio_has_no_gradient(policy_loss):
    """Without the dual clip, a ratio that is bounded against overflow is a constant."""
    log_prob = tensor([[500.0], [1.0]], requires_grad=True)
    policy_loss(log_prob, torch.zeros(2, 1), tensor([-1.0, -1.0]), clip_epsilon=0.2, dual_clip=0.0)[0].backward()
    assert log_prob.grad.tolist() == [[0.0], [pytest.approx(math.e / 2)]]


def test_labels_are_clipped_one_by_one(policy_loss):
    """Each label has its own ratio and all share the advantage [HoK eq. 3]."""
    log_prob = tensor([[math.log(1.5), math.log(0.5)]], requires_grad=True)
    loss, *_ = policy_loss(log_prob, torch.zeros(1, 2), tensor([2.0]), clip_epsilon=0.2, dual_clip=3.0)
    loss.backward()
    assert loss.item() == pytest.approx(-2.4 - 1.0)
    assert log_prob.grad.tolist() == [pytest.approx([0.0, -1.0])]


def evaluated(function, inputs, **arguments):
    """Return the outputs of a loss function, and the gradient of a random weighting of them."""
    inputs = inputs.clone().requires_grad_()
    outputs = function(inputs, **arguments)
    generator = torch.Generator().manual_seed(9)
    weighted = [(output * torch.randn(output.shape, generator=generator)).sum() for output in outputs]
    sum(weighted).backward()
    return [output.detach() for output in outputs], inputs.grad


@pytest.mark.parametrize("use_labels", [False, True])
@pytest.mark.parametrize("dual_clip", [0.0, 3.0])
@pytest.mark.parametrize("labels", [1, 3])
def test_the_fused_policy_loss_equals_the_formula(labels, dual_clip, use_labels):
    """Values and gradients, for ratios within and beyond all clips."""
    generator = torch.Generator().manual_seed(labels)
    log_prob = 2 * torch.randn(500, labels, generator=generator)
    log_prob[0] = 30.0
    arguments = {
        "old_log_prob": torch.randn(500, labels, generator=generator),
        "advantage": torch.randn(500, generator=generator),
        "clip_epsilon": 0.2,
        "dual_clip": dual_clip,
        "used": torch.rand(500, labels, generator=generator) < 0.7 if use_labels else None,
    }
    plain, gradient = evaluated(lambda *a, **k: losses.policy_loss(*a, **k)[:1], log_prob, **arguments)
    fast, fused_gradient = evaluated(lambda *a, **k: fused.policy_loss(*a, **k)[:1], log_prob, **arguments)
    torch.testing.assert_close(fast, plain, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(fused_gradient, gradient, rtol=1e-6, atol=1e-6)
    assert gradient.any()
    statistics = [function(log_prob, **arguments)[1:] for function in (losses.policy_loss, fused.policy_loss)]
    torch.testing.assert_close(*statistics, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sizes", [(7,), (4, 5, 2)])
def test_the_fused_categorical_terms_equal_the_formula(sizes, masked):
    """Values and gradients, with and without masks."""
    generator = torch.Generator().manual_seed(len(sizes))
    logits = torch.randn(200, sum(sizes), generator=generator)
    mask = torch.rand(200, sum(sizes), generator=generator) < 0.6
    mask[:, [sum(sizes[:label]) for label in range(len(sizes))]] = True
    arguments = {
        "action": torch.zeros(200, len(sizes), dtype=torch.int64),
        "mask": mask if masked else None,
        "sizes": sizes,
    }
    plain, gradient = evaluated(action_terms.categorical_terms, logits, **arguments)
    fast, fused_gradient = evaluated(fused.categorical_terms, logits, **arguments)
    torch.testing.assert_close(fast, plain, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(fused_gradient, gradient, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("used", [None, tensor([[True, False], [True, True]])])
def test_the_gradient_is_that_of_the_formula(policy_loss, used):
    """Loss and gradient equal those that torch derives, also with labels that are not used."""
    log_prob = tensor([[0.1, -0.5], [0.15, 2.0]], requires_grad=True)
    copied = log_prob.detach().clone().requires_grad_()
    advantage = tensor([1.5, -0.5])
    loss, *_ = policy_loss(log_prob, torch.zeros(2, 2), advantage, clip_epsilon=0.2, dual_clip=3.0, used=used)
    gain, of_clipped = copied.exp() * advantage[:, None], copied.exp().clamp(0.8, 1.2) * advantage[:, None]
    expected = torch.minimum(gain, of_clipped)
    expected = torch.where(advantage[:, None] < 0, torch.maximum(expected, 3 * advantage[:, None]), expected)
    expected = -(expected if used is None else expected * used).sum(dim=1).mean()
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(log_prob.grad, copied.grad)
    assert log_prob.grad.any()


def test_joint_log_prob_is_the_sum_over_used_labels():
    """The log-probability of the whole action leaves labels out that it did not use."""
    log_prob = tensor([[-1.0, -2.0], [-3.0, -4.0]])
    used = tensor([[True, True], [True, False]])
    assert joint_log_prob(log_prob).tolist() == [[-3.0], [-7.0]]
    assert joint_log_prob(log_prob, used).tolist() == [[-3.0], [-3.0]]


def test_mean_over_labels():
    """Labels are summed and rows averaged, whether or not some labels are unused."""
    terms = tensor([[1.0, 2.0], [3.0, 4.0]])
    assert mean_over_labels(terms).item() == 5.0
    assert mean_over_labels(terms, tensor([[True, False], [True, True]])).item() == 4.0


def test_categorical_terms_by_hand(categorical_terms):
    """Two labels of 2 and 3 choices, one choice masked."""
    logits = tensor([[0.0, math.log(3.0), 7.0, 0.0, 0.0]])
    mask = tensor([[True, True, False, True, True]])
    log_prob, entropy = categorical_terms(logits, tensor([[1, 2]]), mask=mask, sizes=(2, 3))
    assert log_prob.tolist() == [pytest.approx([math.log(0.75), math.log(0.5)])]
    assert entropy.tolist() == [pytest.approx([-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)), math.log(2)])]


def test_masked_choices_have_probability_zero_and_no_gradient(categorical_terms):
    """Neither log-probability nor entropy sends a gradient to a masked logit."""
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    mask = tensor([True, False, True, False]).expand(5, 4)
    action = torch.zeros(5, 1, dtype=torch.int64)
    log_prob, entropy = categorical_terms(logits, action, mask=mask, sizes=(4,))
    masked, _ = categorical_terms(logits, action + 1, mask=mask, sizes=(4,))
    assert (masked.exp() == 0).all()
    (log_prob.sum() + entropy.sum()).backward()
    assert (logits.grad[:, [1, 3]] == 0).all()
    assert (logits.grad[:, [0, 2]] != 0).all()


def test_categorical_terms_agree_with_torch_distributions(categorical_terms):
    """Unmasked labels are ordinary categorical distributions."""
    logits = torch.randn(8, 9, generator=torch.Generator().manual_seed(1))
    action = torch.stack([torch.arange(8) % 4, torch.arange(8) % 5], dim=1)
    log_prob, entropy = categorical_terms(logits, action, mask=None, sizes=(4, 5))
    for label, part in enumerate(logits.split([4, 5], dim=1)):
        expected = distributions.Categorical(logits=part)
        torch.testing.assert_close(log_prob[:, label], expected.log_prob(action[:, label]))
        torch.testing.assert_close(entropy[:, label], expected.entropy())


def test_gaussian_terms_agree_with_torch_distributions():
    """A continuous action is one label with the joint density of its dimensions."""
    mean, log_std, action = torch.randn(3, 6, 2, generator=torch.Generator().manual_seed(2))
    log_prob, entropy = gaussian_terms(torch.cat([mean, log_std], dim=1), action)
    expected = distributions.Normal(mean, log_std.exp())
    torch.testing.assert_close(log_prob, expected.log_prob(action).sum(1, keepdim=True))
    torch.testing.assert_close(entropy, expected.entropy().sum(1, keepdim=True))


def test_value_loss_by_hand():
    """The mean of squared errors, without a factor ½."""
    loss = value_loss(tensor([1.0, 2.0]), tensor([2.0, 4.0]), old_value=tensor([1.0, 1.0]))
    assert loss.item() == 2.5


def test_value_clip_by_hand():
    """A value that moved further than the clip counts as the clipped value, if that has the larger error."""
    loss = value_loss(tensor([1.0, 2.0]), tensor([2.0, 4.0]), old_value=tensor([1.0, 1.0]), value_clip=0.5)
    assert loss.item() == (1.0 + 2.5**2) / 2


def test_how_far_the_policy_moved_by_hand(policy_loss):
    """KL is estimated from whole actions, the clip fraction is a share of labels; unused labels count for neither."""
    log_prob = tensor([[math.log(2.0), 0.0], [0.0, 5.0]])
    used = tensor([[True, True], [True, False]])
    arguments = {"old_log_prob": torch.zeros(2, 2), "advantage": torch.zeros(2), "clip_epsilon": 0.2, "dual_clip": 3.0}
    _, kl, share = policy_loss(log_prob, **arguments, used=used)
    assert kl.item() == pytest.approx((2.0 - 1.0 - math.log(2.0)) / 2)
    assert share.item() == pytest.approx(1 / 3)
    assert policy_loss(log_prob, **arguments)[2].item() == pytest.approx(1 / 2)


@pytest.mark.filterwarnings("default")  # the other library warns about itself
def test_losses_agree_with_torchrl(policy_loss, categorical_terms):
    """Clipped objective, entropy and value loss are those of torchrl's ClipPPOLoss."""
    tensordict = pytest.importorskip("tensordict")
    objectives = pytest.importorskip("torchrl.objectives")
    from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModule
    from torchrl.modules import OneHotCategorical, ProbabilisticActor

    seeded = torch.Generator().manual_seed(3)
    logits, old_log_prob = torch.randn(16, 4, generator=seeded), -2 * torch.rand(16, generator=seeded)
    value, returns, advantage = torch.randn(3, 16, generator=seeded)
    action = torch.arange(16) % 4
    identity = torch.nn.Identity
    actor = ProbabilisticActor(
        TensorDictModule(identity(), in_keys=["logits_in"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    assert isinstance(actor, ProbabilisticTensorDictSequential)
    critic = TensorDictModule(identity(), in_keys=["value_in"], out_keys=["state_value"])
    loss = objectives.ClipPPOLoss(
        actor, critic, clip_epsilon=0.2, entropy_coeff=1.0, critic_coeff=1.0, loss_critic_type="l2"
    )
    data = tensordict.TensorDict(
        {
            "logits_in": logits,
            "value_in": value[:, None],
            "action": torch.nn.functional.one_hot(action, 4),
            "action_log_prob": old_log_prob,
            "advantage": advantage[:, None],
            "value_target": returns[:, None],
        },
        [16],
    )
    expected = loss(data)
    log_prob, entropy = categorical_terms(logits, action[:, None], mask=None, sizes=(4,))
    ours, *_ = policy_loss(log_prob, old_log_prob[:, None], advantage, clip_epsilon=0.2, dual_clip=0.0)
    torch.testing.assert_close(ours, expected["loss_objective"])
    torch.testing.assert_close(-mean_over_labels(entropy), expected["loss_entropy"])
    torch.testing.assert_close(value_loss(value, returns, old_value=value), expected["loss_critic"])
