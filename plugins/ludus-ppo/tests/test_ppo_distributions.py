"""Sampling in NumPy: frequencies, masks, recorded log-probabilities, bounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus import ContractError, Role
from ludus_ppo.distributions import Categorical, Gaussian, Hybrid, distribution_for


class FixedUniform:
    """A generator that always draws the same number."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self, shape, dtype):
        return np.full(shape, self.number, dtype)


def role(action_space) -> Role:
    """Return a role with this action space."""
    return Role(name="cat", observation_space=spaces.Discrete(1), action_space=action_space, teams=(0,))


def draw(distribution, parameters, mask=None, *, rng=None, deterministic=False):
    """Sample from a distribution."""
    parameters = np.asarray(parameters, np.float32)
    rng = rng or np.random.default_rng(0)
    return distribution.sample(parameters, mask, rng=rng, deterministic=deterministic)


def test_choices_come_with_their_probabilities():
    """The frequencies of legal choices are those of the masked softmax."""
    logits = np.log(np.tile([[1, 2, 3, 4, 2, 2]], (40_000, 1)))
    mask = np.tile([[True, True, False, True, True, True]], (40_000, 1))
    action = draw(Categorical(role(spaces.MultiDiscrete([4, 2]))), logits, mask).action
    np.testing.assert_allclose(np.bincount(action[:, 0]) / 40_000, np.array([1, 2, 0, 4]) / 7, atol=0.01)
    np.testing.assert_allclose(np.bincount(action[:, 1]) / 40_000, [0.5, 0.5], atol=0.01)


@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.1, 3.0, 1e3, 1e30]))
@settings(deadline=None, max_examples=30)
def test_masked_choices_are_never_drawn(seed, scale):
    """For any logits; log-probabilities are finite or very small."""
    rng = np.random.default_rng(seed)
    mask = rng.random((50, 6)) < 0.3
    mask[np.arange(50), rng.integers(0, 6, 50)] = True
    for deterministic in (False, True):
        sample = draw(
            Categorical(role(spaces.Discrete(6))),
            rng.standard_normal((50, 6)) * scale,
            mask,
            rng=rng,
            deterministic=deterministic,
        )
        assert np.take_along_axis(mask, sample.action, axis=1).all()
        assert np.isfinite(sample.extras["log_prob"]).all()


@pytest.mark.parametrize("number", [0.0, 1 - 2**-24])
def test_the_ends_of_the_unit_interval_draw_legal_choices(number):
    """The smallest and the largest random number lead to legal choices, not to masked ones at the edges."""
    mask = np.array([[False, True, True, False]] * 4096)
    logits = np.random.default_rng(0).standard_normal((4096, 4))
    sample = draw(Categorical(role(spaces.Discrete(4))), logits, mask, rng=FixedUniform(number))
    assert set(sample.action.ravel()) == {1 if number == 0.0 else 2}


def test_sampling_and_loss_agree_on_the_log_prob():
    """Of NumPy and of torch."""
    distribution = Categorical(role(spaces.MultiDiscrete([3, 2])))
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((20, 5)).astype(np.float32)
    mask = np.tile([[True, False, True, True, True]], (20, 1))
    sample = draw(distribution, logits, mask)
    log_prob, _ = distribution.terms(
        torch.from_numpy(logits), action=torch.from_numpy(sample.action), extras={}, mask=torch.from_numpy(mask)
    )
    np.testing.assert_allclose(sample.extras["log_prob"], log_prob, rtol=1e-5, atol=1e-6)


def test_deterministic_takes_the_most_likely_legal_choice():
    """The largest legal logit."""
    mask = np.array([[True, True, False], [True, True, True]])
    sample = draw(Categorical(role(spaces.Discrete(3))), [[1.0, 2.0, 3.0]] * 2, mask, deterministic=True)
    assert sample.action.tolist() == [[1], [2]]


def test_a_label_without_legal_choice_is_an_error():
    """The message names the role and the label."""
    mask = np.array([[True, True, False, False]])
    with pytest.raises(ContractError, match="role cat, label 1: the action mask forbids every choice"):
        draw(Categorical(role(spaces.MultiDiscrete([2, 2]))), np.zeros((1, 4)), mask)


@pytest.mark.parametrize("space", [spaces.Discrete(2), spaces.Box(-1, 1, (1,), np.float32)])
def test_outputs_that_are_not_finite_are_an_error(space):
    """The error names the role."""
    with pytest.raises(ContractError, match="role cat: the network's policy outputs are not finite"):
        draw(distribution_for(role(space)), [[np.nan, 0.0]])


def test_a_recorded_action_against_its_mask_is_an_error():
    """The error names role and label."""
    distribution = Categorical(role(spaces.MultiDiscrete([2, 2])))
    mask = torch.tensor([[True, True, True, False]])
    distribution.check(torch.tensor([[1, 0]]), mask)
    with pytest.raises(ContractError, match="label 1: a recorded action is forbidden"):
        distribution.check(torch.tensor([[0, 1]]), mask)


def test_gaussian_actions_are_scaled_into_the_box():
    """Means of -1, 0 and 1 are the low end, the centre and the high end; actions are clipped."""
    distribution = Gaussian(role(spaces.Box(np.array([0.0], np.float32), np.array([10.0], np.float32))))
    sample = draw(distribution, [[-1, 0], [0, 0], [1, 0], [7, 0]], deterministic=True)
    assert sample.action.ravel().tolist() == [0.0, 5.0, 10.0, 10.0]
    assert sample.extras["unbounded_action"].ravel().tolist() == [-1.0, 0.0, 1.0, 7.0]


def test_gaussian_actions_of_an_unbounded_box_are_not_scaled():
    """The action is the sample."""
    distribution = Gaussian(role(spaces.Box(-np.inf, np.inf, (2,), np.float32)))
    sample = draw(distribution, [[3.0, -4.0, 0.0, 0.0]])
    np.testing.assert_array_equal(sample.action, sample.extras["unbounded_action"])


def test_gaussian_log_prob_is_that_of_the_unclipped_sample():
    """NumPy and torch agree, also where the action is clipped."""
    distribution = Gaussian(role(spaces.Box(-1, 1, (2,), np.float32)))
    parameters = np.tile(np.float32([[0.9, -0.9, 0.5, 0.1]]), (50, 1))
    sample = draw(distribution, parameters)
    assert (np.abs(sample.action) == 1).any()
    extras = {"unbounded_action": torch.from_numpy(sample.extras["unbounded_action"])}
    log_prob, _ = distribution.terms(torch.from_numpy(parameters), action=torch.zeros(50, 2), extras=extras, mask=None)
    np.testing.assert_allclose(sample.extras["log_prob"], log_prob, rtol=1e-5)


def test_gaussian_spread_follows_the_log_std():
    """Samples have the mean and the standard deviation of the parameters."""
    distribution = Gaussian(role(spaces.Box(-np.inf, np.inf, (1,), np.float32)))
    drawn = draw(distribution, np.tile([[2.0, np.log(0.5)]], (20_000, 1))).action
    assert drawn.mean() == pytest.approx(2.0, abs=0.02)
    assert drawn.std() == pytest.approx(0.5, abs=0.02)


def test_a_matrix_of_actions_is_refused():
    """Only vectors of real actions are supported."""
    with pytest.raises(ContractError, match="one-dimensional Box"):
        distribution_for(role(spaces.Box(-1, 1, (2, 2), np.float32)))


HYBRID = spaces.Tuple(
    (
        spaces.MultiDiscrete([3, 2]),
        spaces.Box(-1, 1, (2,), np.float32),
        spaces.Box(np.float32([0.0]), np.float32([10.0])),
    )
)


def test_terms_of_a_hybrid_action_are_those_of_torch():
    """One per label under its mask, and one per Box; their sums are those of the joint distribution."""
    distribution, rng = distribution_for(role(HYBRID)), np.random.default_rng(0)
    assert isinstance(distribution, Hybrid)
    assert distribution.head_sizes == {"policy": 5, "reals": 3}
    parameters = rng.standard_normal((40, 11)).astype(np.float32)
    mask = rng.random((40, 5)) < 0.5
    mask[:, [1, 3]] = True
    sample = draw(distribution, parameters, mask, rng=rng)
    assert (sample.action.shape, sample.action.dtype) == ((40, 5), np.float32)
    extras = {name: torch.from_numpy(array) for name, array in sample.extras.items()}
    tensors = torch.from_numpy(parameters)
    log_prob, entropy = distribution.terms(
        tensors, action=torch.from_numpy(sample.action), extras=extras, mask=torch.from_numpy(mask)
    )

    logits = torch.where(torch.from_numpy(mask), tensors[:, :5], -torch.inf)
    normal = torch.distributions.Normal(tensors[:, 5:8], tensors[:, 8:].exp())
    density = normal.log_prob(extras["unbounded_action"])
    parts = [torch.distributions.Categorical(logits=part) for part in logits.split([3, 2], dim=1)]
    chosen = torch.from_numpy(sample.action[:, :2]).long()
    expected = [part.log_prob(chosen[:, label]) for label, part in enumerate(parts)]
    expected += [density[:, :2].sum(1), density[:, 2]]
    entropies = [part.entropy() for part in parts] + [normal.entropy()[:, :2].sum(1), normal.entropy()[:, 2]]
    torch.testing.assert_close(log_prob, torch.stack(expected, dim=1))
    torch.testing.assert_close(entropy, torch.stack(entropies, dim=1))
    torch.testing.assert_close(extras["log_prob"], log_prob)


def test_a_hybrid_action_in_numbers():
    """Two even choices and a standard normal at its mean: log ½ - log √(2π); entropy log 2 + ½ log(2πe)."""
    distribution = Hybrid(role(spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (1,), np.float32)))))
    log_prob, entropy = distribution.terms(
        torch.zeros(1, 4), action=torch.tensor([[1.0, 0.0]]), extras={"unbounded_action": torch.zeros(1, 1)}, mask=None
    )
    assert log_prob.sum().item() == pytest.approx(-0.693147 - 0.918939, abs=1e-5)
    assert entropy.sum().item() == pytest.approx(0.693147 + 1.418939, abs=1e-5)


def test_hybrid_actions_obey_masks_and_bounds():
    """Masked choices are never drawn, numbers are clipped to their Box, deterministic ones are the most likely."""
    distribution, mask = Hybrid(role(HYBRID)), np.tile([[True, False, True, False, True]], (500, 1))
    parameters = np.tile(np.float32([[0, 9, 1, 5, 0, 0, 0.5, 0, 1, 1, 1]]), (500, 1))
    action = draw(distribution, parameters, mask).action
    assert set(action[:, 0]) == {0.0, 2.0}
    assert set(action[:, 1]) == {1.0}
    assert action[:, 4].min() == 0.0
    assert action[:, 4].max() == 10.0
    first = draw(distribution, parameters[:1], mask[:1], deterministic=True).action
    assert first.tolist() == [[2.0, 1.0, 0.0, 0.5, 5.0]]


def test_a_recorded_hybrid_action_against_its_mask_is_an_error():
    """The error names role and label."""
    distribution, mask = Hybrid(role(HYBRID)), torch.tensor([[True, True, True, True, False]])
    distribution.check(torch.tensor([[2.0, 0.0, 0.3, 0.3, 3.0]]), mask)
    with pytest.raises(ContractError, match="label 1: a recorded action is forbidden"):
        distribution.check(torch.tensor([[2.0, 1.0, 0.3, 0.3, 3.0]]), mask)


def test_unused_labels_of_a_hybrid_action_do_not_count():
    """`Role.labels_used` is about labels; every Box is used."""
    used = ((True, False), (True, True), (True, False))
    distribution = Hybrid(
        Role(name="cat", observation_space=spaces.Discrete(1), action_space=HYBRID, teams=(0,), labels_used=used)
    )
    action = torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0, 0.0]])
    assert distribution.labels_used(action).tolist() == [[True] * 4, [True, False, True, True]]
    with pytest.raises(ContractError, match="continuous actions have no probabilities"):
        distribution.probabilities(np.zeros((1, 11), np.float32), None)


@pytest.mark.parametrize("temperature", [0.5, 4.0])
def test_temperature_flattens_choices(temperature):
    """Log-probabilities are divided by it and normalized again; real numbers get its multiple of the variance."""
    space = spaces.Tuple((spaces.Discrete(3), spaces.Box(-np.inf, np.inf, (1,))))
    hybrid, logits = distribution_for(role(space)), np.log([[1.0, 2.0, 4.0]])
    parameters = np.tile(np.concatenate([logits, [[5.0, np.log(2.0)]]], axis=1), (40_000, 1)).astype(np.float32)
    action = draw(hybrid, hybrid.temper(parameters, temperature)).action
    expected = np.array([1.0, 2.0, 4.0]) ** (1 / temperature)
    np.testing.assert_allclose(np.bincount(action[:, 0].astype(int)) / 40_000, expected / expected.sum(), atol=0.01)
    assert action[:, 1].mean() == pytest.approx(5.0, abs=0.1)
    assert action[:, 1].std() == pytest.approx(2.0 * np.sqrt(temperature), rel=0.03)
