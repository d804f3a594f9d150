"""Tests of the targets and losses against hand-computed numbers and against torchrl."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ludus_dqn.losses import dueling_q, masked, td_loss, td_target
from torch import nn


def compute_targets(**changes):
    """Return the targets of two transitions of a game with three actions."""
    arguments = {
        "reward": torch.tensor([1.0, -2.0]),
        "discount": torch.tensor([0.5, 0.0]),
        "next_target_q": torch.tensor([[1.0, 4.0, 8.0], [9.0, 9.0, 9.0]]),
        "next_online_q": None,
        "next_mask": None,
        **changes,
    }
    return td_target(arguments.pop("reward"), arguments.pop("discount"), **arguments).tolist()


def test_q_learning_target():
    """1 + 0.5 · 8 = 5; a terminated match leaves the reward alone."""
    assert compute_targets() == [5, -2]


def test_double_q_learning_uses_the_action_of_the_online_network():
    """It prefers action 0, which the target network values at 1: 1 + 0.5 · 1."""
    assert compute_targets(next_online_q=torch.tensor([[3.0, 2.0, 1.0], [0.0, 0.0, 0.0]])) == [1.5, -2]


def test_target_ignores_illegal_actions():
    """The best action is illegal, so the second best counts: 1 + 0.5 · 4."""
    mask = torch.tensor([[True, True, False], [True, True, True]])
    assert compute_targets(next_mask=mask) == [3, -2]


def test_online_network_ignores_illegal_actions():
    """It prefers 0, which is illegal, then 1."""
    online = torch.tensor([[3.0, 2.0, 1.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[False, True, True], [True, True, True]])
    assert compute_targets(next_online_q=online, next_mask=mask) == [3, -2]


def test_masked_values():
    """Illegal actions are -inf."""
    q = torch.tensor([[1.0, 2.0]])
    assert masked(q, torch.tensor([[True, False]])).tolist() == [[1, -torch.inf]]
    assert masked(q, None) is q


def test_huber_loss():
    """½ · 0.5² = 0.125 and 3 - ½ = 2.5; their mean."""
    loss = td_loss(torch.tensor([0.5, 3.0]), torch.zeros(2), kind="huber")
    assert loss.item() == pytest.approx((0.125 + 2.5) / 2)


def test_mse_loss():
    """0.25 and 9; their mean."""
    assert td_loss(torch.tensor([0.5, 3.0]), torch.zeros(2), kind="mse").item() == pytest.approx(4.625)


@pytest.mark.parametrize(("kind", "expected"), [("huber", (0.125 + 0.5 * 2.5) / 2), ("mse", (0.25 + 4.5) / 2)])
def test_importance_weights(kind, expected):
    """Losses are weighted one by one, then averaged."""
    loss = td_loss(torch.tensor([0.5, 3.0]), torch.zeros(2), kind=kind, weight=torch.tensor([1.0, 0.5]))
    assert loss.item() == pytest.approx(expected)


def test_dueling_q():
    """10 + (1, 2, 6) - 3."""
    assert dueling_q(torch.tensor([[10.0]]), torch.tensor([[1.0, 2.0, 6.0]])).tolist() == [[8, 9, 13]]


@pytest.mark.filterwarnings("ignore:No target network updater")
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("kind", ["huber", "mse"])
def test_loss_equals_torchrl(double, kind):
    """On random networks and transitions, with target networks."""
    pytest.importorskip("torchrl")
    from tensordict import TensorDict
    from torchrl.data import OneHot
    from torchrl.modules import QValueActor
    from torchrl.objectives import DQNLoss

    torch.manual_seed(0)
    actor = QValueActor(nn.Linear(3, 4), spec=OneHot(4), action_space="one-hot")
    torchrl_loss = DQNLoss(
        actor, loss_function="smooth_l1" if kind == "huber" else "l2", delay_value=True, double_dqn=double
    )
    torchrl_loss.make_value_estimator(gamma=0.9)
    torchrl_loss.target_value_network_params.data.apply_(lambda tensor: tensor.normal_())
    obs, after = torch.randn(50, 3), torch.randn(50, 3)
    action, reward = torch.randint(4, (50,)), torch.randn(50)
    terminated = torch.rand(50) < 0.2
    ends = {"reward": reward[:, None], "done": terminated[:, None], "terminated": terminated[:, None]}
    data = TensorDict(
        {
            "observation": obs,
            "action": nn.functional.one_hot(action, 4),
            "next": TensorDict({"observation": after, **ends}, [50]),
        },
        [50],
    )
    expected = torchrl_loss(data)["loss"]
    parameters = {name.split(".")[-1]: p for name, p in actor.named_parameters()}
    online = nn.functional.linear(obs, parameters["weight"], parameters["bias"])
    parameters_of_target = torchrl_loss.target_value_network_params.flatten_keys(".")
    target_weights = {name.split(".")[-1]: value for name, value in parameters_of_target.items()}
    target = td_target(
        reward,
        0.9 * (~terminated).float(),
        next_target_q=nn.functional.linear(after, target_weights["weight"], target_weights["bias"]),
        next_online_q=nn.functional.linear(after, parameters["weight"], parameters["bias"]) if double else None,
        next_mask=None,
    ).detach()
    loss = td_loss(online.gather(1, action[:, None]).squeeze(1), target, kind=kind)
    assert np.isclose(loss.item(), expected.item(), atol=1e-6)
