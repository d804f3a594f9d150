"""Tests of the kinds of actions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import Role
from ludus.errors import ContractError
from ludus_sac.actions import Continuous, Discrete, action_kind

BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))


def make_kind(space):
    """Return the kind of actions of a role with the given action space."""
    observation = spaces.Box(-1, 1, (3,), np.float32)
    return action_kind(Role(name="cat", observation_space=observation, action_space=space, teams=(0, 1)))


def sample(kind, parameters, *, rows=20_000, mask=None, deterministic=False, seed=0):
    """Sample many actions from equal parameters."""
    return kind.sample(
        np.tile(np.array(parameters, np.float32), (rows, 1)),
        None if mask is None else np.tile(mask, (rows, 1)),
        rng=np.random.default_rng(seed),
        deterministic=deterministic,
    )


# -- discrete ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "expected"), [(None, [1 / 8, 4 / 8, 3 / 8]), ([True, False, True], [1 / 4, 0, 3 / 4])]
)
def test_discrete_actions_are_sampled_by_their_probabilities(mask, expected):
    """Logits 0, log 4, log 3; a masked action is never sampled."""
    action = sample(make_kind(spaces.Discrete(3)), np.log([1, 4, 3]), mask=mask)
    shares = np.bincount(action[:, 0], minlength=3) / len(action)
    assert action.dtype == np.int64
    assert shares == pytest.approx(expected, abs=0.015)
    assert (shares == 0).tolist() == [share == 0 for share in expected]


def test_deterministic_discrete_action_is_the_most_likely_legal_one():
    """The illegal action has the largest logit."""
    assert (sample(make_kind(spaces.Discrete(3)), [0, 9, 1], mask=[True, False, True], deterministic=True) == 2).all()


def test_discrete_expectation_covers_legal_actions():
    """Weights ¼ and ¾."""
    action, weight = make_kind(spaces.Discrete(3)).expected(
        np.log(np.array([[1, 4, 3]], np.float32)), np.array([[True, False, True]])
    )
    assert action is None
    assert weight[0].tolist() == pytest.approx([0.25, 0, 0.75])
    assert weight.dtype == np.float32


def test_discrete_target_entropy_depends_on_the_mask():
    """Half of log 3, and 0 for a single legal action."""
    kind = make_kind(spaces.Discrete(4))
    mask = torch.tensor([[True, True, True, False], [False, False, True, False]])
    assert kind.target_entropy(mask, rows=torch.zeros(2), fraction=0.5).tolist() == pytest.approx([np.log(3) / 2, 0])
    assert kind.target_entropy(None, rows=torch.zeros(2), fraction=0.5).tolist() == pytest.approx([np.log(4) / 2])


def test_taken_selects_the_values_of_recorded_actions():
    """Of both critics."""
    q = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    taken = make_kind(spaces.Discrete(2)).taken(q, torch.tensor([[1], [0]]))
    assert taken.tolist() == [[2.0, 3.0], [6.0, 7.0]]


def test_mask_without_a_legal_action_raises():
    """The message names the role and the label."""
    with pytest.raises(ContractError, match=r"role cat, label 0: the action mask forbids every choice"):
        sample(make_kind(spaces.Discrete(3)), [0, 0, 0], mask=[False] * 3)


# -- continuous ----------------------------------------------------------------------------------------------------


def test_continuous_actions_lie_within_their_bounds():
    """Half of them on either side of the centre."""
    action = sample(make_kind(BOX), [0, 0, 0, 0])
    assert action.dtype == np.float32
    assert ((action >= BOX.low) & (action <= BOX.high)).all()
    assert np.median(action, axis=0) == pytest.approx([0, 5], abs=0.15)


def test_deterministic_continuous_action_is_the_squashed_mean():
    """Tanh 0.5 of the way from the centre to the bound."""
    action = sample(make_kind(BOX), [0.5, -0.5, 0, 0], rows=1, deterministic=True)
    assert action[0].tolist() == pytest.approx([2 * np.tanh(0.5), 5 - 5 * np.tanh(0.5)])


def test_saturated_actions_stay_within_bounds():
    """Exactly, also if the bounds are rounded."""
    space = spaces.Box(np.array([0.1], np.float32), np.array([0.7], np.float32))
    action = sample(make_kind(space), [50, 2], rows=100)
    assert (action <= space.high).all()


def test_policy_and_trainer_sample_equal_actions():
    """The same noise gives the same action in NumPy and in torch, scaled to [-1, 1]."""
    kind = make_kind(BOX)
    parameters = np.random.default_rng(1).uniform(-2, 2, (50, 4)).astype(np.float32)
    action = kind.sample(parameters, None, rng=np.random.default_rng(2), deterministic=False)
    candidates = kind.candidates(torch.from_numpy(parameters), None, noise=kind.noise(50, np.random.default_rng(2)))
    assert torch.allclose(kind.critic_action(torch.from_numpy(action)), candidates.action, atol=1e-5)


def test_critic_action_scales_the_bounds_to_one():
    """Actions outside the bounds are clipped."""
    found = make_kind(BOX).critic_action(torch.tensor([[-2.0, 10.0], [0.0, 5.0], [3.0, -1.0]]))
    assert found.tolist() == [[-1, 1], [0, 0], [1, -1]]


def test_continuous_target_entropy():
    """Minus the number of dimensions."""
    assert make_kind(BOX).target_entropy(None, rows=torch.zeros(5), fraction=0.5).tolist() == [-2.0]


# -- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [spaces.Discrete(2), spaces.Box(-1, 1, (1,), np.float32)], ids=str)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_outputs_that_are_not_finite_raise(space, bad):
    """No action is returned."""
    with pytest.raises(ContractError, match="role cat: the network's policy outputs are not finite"):
        sample(make_kind(space), [0, bad])


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.MultiDiscrete([3, 2]), "expected a Discrete or Box action space, but role cat has"),
        (spaces.Box(-1, 1, (2, 2), np.float32), "a one-dimensional Box with finite bounds"),
        (spaces.Box(-1, np.inf, (2,), np.float32), "a one-dimensional Box with finite bounds"),
    ],
    ids=str,
)
def test_unsupported_action_space_raises(space, message):
    """The message states the expected space."""
    with pytest.raises(ContractError, match=message):
        make_kind(space)


def test_action_kind_depends_on_the_space():
    """Discrete or Continuous."""
    assert isinstance(make_kind(spaces.Discrete(2)), Discrete)
    assert isinstance(make_kind(BOX), Continuous)
