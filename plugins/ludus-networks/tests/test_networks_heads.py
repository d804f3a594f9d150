"""Heads, and labels that choose entities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ludus_networks.heads import Head, Target
from ludus_networks.parts import Choices

ROWS, WIDTH, KEY = 6, 5, 3


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def head(labels, targets=None, *, hidden=(), gain=1.0):
    """Return a head on `WIDTH` features."""
    return Head(WIDTH, hidden=hidden, activation="relu", labels=labels, gain=gain, targets=targets)


def choices(count, *, masked=True):
    """Return keys and a mask; the first row has nobody, the second everybody."""
    present = torch.rand(ROWS, count) < 0.5
    present[0], present[1] = False, True
    return Choices(torch.randn(ROWS, count, KEY), present if masked else None)


TWO = {"mice": choices(4), "towers": choices(2, masked=False)}
TARGET = Target(encoders=("towers", "mice"), key=KEY, plain=1)


def test_attention_is_the_softmax_of_queries_times_keys():
    """p(t|a) = softmax(FC(h) · keys) over plain choices and those present, by an explicit sum [HoK eq. 1]."""
    made = head((3, 7), {1: TARGET})
    features = torch.randn(ROWS, WIDTH)
    found = made(features, TWO).detach()[:, 3:].softmax(1).numpy()
    query = made.queries["1"](features).detach()
    for row in range(ROWS):
        plain = made.out(features[row]).detach()[3:]
        keys = torch.cat([TWO["towers"].keys[row], TWO["mice"].keys[row][TWO["mice"].present[row]]])
        scores = torch.cat([plain, torch.einsum("k,ek->e", query[row], keys)]).double().exp()
        there = np.r_[[True] * 3, TWO["mice"].present[row].numpy()]
        np.testing.assert_allclose(found[row][there], scores / scores.sum(), atol=1e-6)
        assert (found[row][~there] == 0).all()


def test_other_labels_are_plain():
    """They come from one linear layer, side by side around the label that chooses."""
    made = head((3, 7, 2), {1: TARGET}, hidden=(8,))
    features = torch.randn(ROWS, WIDTH)
    out = made(features, TWO)
    assert out.shape == (ROWS, 12)
    plain = made.out(made.layers(features))  # 3, 1 of the target, 2
    torch.testing.assert_close(torch.cat([out[:, :4], out[:, 10:]], dim=1), plain)


def test_a_head_may_have_nothing_but_a_target():
    """Then there is no plain layer."""
    made = head((4,), {0: Target(encoders=("mice",), key=KEY, plain=0)})
    out = made(torch.randn(ROWS, WIDTH), TWO)
    assert out.shape == (ROWS, 4)
    assert {name for name, _ in made.named_parameters()} == {"queries.0.weight", "queries.0.bias"}


def test_logits_are_finite_where_nobody_is():
    """Algorithms refuse outputs that are not."""
    out = head((4,), {0: Target(encoders=("mice",), key=KEY, plain=0)})(torch.randn(ROWS, WIDTH), TWO)
    assert torch.isfinite(out).all()
    torch.testing.assert_close(out[0].softmax(0), torch.full((4,), 0.25))


def test_gradients_reach_the_keys_of_those_present_only():
    """A target's probability teaches the encoders of the entities that were there."""
    offered = Choices(TWO["mice"].keys.clone().requires_grad_(), TWO["mice"].present)
    made = head((4,), {0: Target(encoders=("mice",), key=KEY, plain=0)})
    made(torch.randn(ROWS, WIDTH), {"mice": offered}).log_softmax(1)[:, 0].sum().backward()
    assert (offered.keys.grad[~offered.present] == 0).all()
    assert (offered.keys.grad[1] != 0).any()


def test_last_layers_have_the_gain_asked_for():
    """Both outputs and queries are orthogonal with zero biases; hidden layers have the gain of their activation."""
    made = head((2, 7), {1: TARGET}, hidden=(8,), gain=0.01)
    for layer in (made.out, made.queries["1"]):
        torch.testing.assert_close(layer.weight @ layer.weight.T, 1e-4 * torch.eye(3), atol=1e-8, rtol=1e-4)
        assert (layer.bias == 0).all()
    hidden = made.layers[0].weight
    torch.testing.assert_close(hidden.T @ hidden, 2 * torch.eye(WIDTH), atol=1e-5, rtol=1e-4)


def test_a_plain_head_is_layers():
    """Without targets the outputs are those of hidden and last layer."""
    made = head((7,), hidden=(8,))
    features = torch.randn(ROWS, WIDTH)
    torch.testing.assert_close(made(features, {}), made.out(torch.relu(made.layers[0](features))))
