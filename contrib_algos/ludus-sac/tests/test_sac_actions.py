"""Kinds of actions: what is drawn, within which bounds, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import Role
from ludus.errors import ContractError
from ludus_sac.actions import Continuous, Discrete, action_kind

BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))


def kind_of(space):
    """Return the kind of a role with such actions."""
    observation = spaces.Box(-1, 1, (3,), np.float32)
    return action_kind(Role(name="cat", observation_space=observation, action_space=space, teams=(0, 1)))


def sample(kind, parameters, *, rows=20_000, mask=None, deterministic=False, seed=0):
    """Draw many actions from equal parameters."""
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
def test_discrete_actions_are_drawn_by_their_probabilities(mask, expected):
    """Logits 0, log 4, log 3; a masked action never comes, and the others share its part."""
    action = sample(kind_of(spaces.Discrete(3)), np.log([1, 4, 3]), mask=mask)
    shares = np.bincount(action[:, 0], minlength=3) / len(action)
    assert action.dtype == np.int64
    assert shares == pytest.approx(expected, abs=0.015)
    assert (shares == 0).tolist() == [share == 0 for share in expected]


def test_the_most_likely_legal_action_is_taken():
    """Whatever the forbidden one promises."""
    assert (sample(kind_of(spaces.Discrete(3)), [0, 9, 1], mask=[True, False, True], deterministic=True) == 2).all()


def test_the_discrete_expectation_is_over_legal_actions():
    """A quarter and three quarters."""
    action, weight = kind_of(spaces.Discrete(3)).expected(
        np.log(np.array([[1, 4, 3]], np.float32)), np.array([[True, False, True]])
    )
    assert action is None
    assert weight[0].tolist() == pytest.approx([0.25, 0, 0.75])
    assert weight.dtype == np.float32


def test_discrete_target_entropies_follow_the_masks():
    """Half of log 3, and nothing where there is no choice."""
    kind = kind_of(spaces.Discrete(4))
    mask = torch.tensor([[True, True, True, False], [False, False, True, False]])
    assert kind.target_entropy(mask, rows=torch.zeros(2), fraction=0.5).tolist() == pytest.approx([np.log(3) / 2, 0])
    assert kind.target_entropy(None, rows=torch.zeros(2), fraction=0.5).tolist() == pytest.approx([np.log(4) / 2])


def test_taken_values():
    """Of both critics, by the recorded actions."""
    q = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    taken = kind_of(spaces.Discrete(2)).taken(q, torch.tensor([[1], [0]]))
    assert taken.tolist() == [[2.0, 3.0], [6.0, 7.0]]


def test_an_all_false_mask_is_an_error():
    """It names the role and the label."""
    with pytest.raises(ContractError, match=r"role cat, label 0: the action mask forbids every choice"):
        sample(kind_of(spaces.Discrete(3)), [0, 0, 0], mask=[False] * 3)


# -- continuous ----------------------------------------------------------------------------------------------------


def test_continuous_actions_fill_their_bounds():
    """Half of them on either side of the centre, none outside."""
    action = sample(kind_of(BOX), [0, 0, 0, 0])
    assert action.dtype == np.float32
    assert ((action >= BOX.low) & (action <= BOX.high)).all()
    assert np.median(action, axis=0) == pytest.approx([0, 5], abs=0.15)


def test_deterministic_actions_are_the_squashed_mean():
    """By tanh 0.5 of the way from the centre to the bound."""
    action = sample(kind_of(BOX), [0.5, -0.5, 0, 0], rows=1, deterministic=True)
    assert action[0].tolist() == pytest.approx([2 * np.tanh(0.5), 5 - 5 * np.tanh(0.5)])


def test_saturated_actions_stay_within_bounds():
    """To the bit, also where bounds are no round numbers."""
    space = spaces.Box(np.array([0.1], np.float32), np.array([0.7], np.float32))
    action = sample(kind_of(space), [50, 2], rows=100)
    assert (action <= space.high).all()


def test_drawn_and_learned_actions_agree():
    """The same noise gives the same action in NumPy and in torch, scaled back."""
    kind = kind_of(BOX)
    parameters = np.random.default_rng(1).uniform(-2, 2, (50, 4)).astype(np.float32)
    action = kind.sample(parameters, None, rng=np.random.default_rng(2), deterministic=False)
    candidates = kind.candidates(torch.from_numpy(parameters), None, noise=kind.noise(50, np.random.default_rng(2)))
    assert torch.allclose(kind.critic_action(torch.from_numpy(action)), candidates.action, atol=1e-5)


def test_bounds_are_plus_and_minus_one_to_critics():
    """And whatever lies outside is brought inside."""
    found = kind_of(BOX).critic_action(torch.tensor([[-2.0, 10.0], [0.0, 5.0], [3.0, -1.0]]))
    assert found.tolist() == [[-1, 1], [0, 0], [1, -1]]


def test_the_continuous_target_entropy():
    """Minus the number of dimensions."""
    assert kind_of(BOX).target_entropy(None, rows=torch.zeros(5), fraction=0.5).tolist() == [-2.0]


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [spaces.Discrete(2), spaces.Box(-1, 1, (1,), np.float32)], ids=str)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_outputs_that_are_not_finite_are_an_error(space, bad):
    """Instead of some action."""
    with pytest.raises(ContractError, match="role cat: the network's policy outputs are not finite"):
        sample(kind_of(space), [0, bad])


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.MultiDiscrete([3, 2]), "needs a Discrete or Box action space, but that of role cat is"),
        (spaces.Box(-1, 1, (2, 2), np.float32), "a one-dimensional Box with finite bounds"),
        (spaces.Box(-1, np.inf, (2,), np.float32), "a one-dimensional Box with finite bounds"),
    ],
    ids=str,
)
def test_other_action_spaces_are_refused(space, message):
    """With one clear line."""
    with pytest.raises(ContractError, match=message):
        kind_of(space)


def test_kinds():
    """One for each kind of space."""
    assert isinstance(kind_of(spaces.Discrete(2)), Discrete)
    assert isinstance(kind_of(BOX), Continuous)
