"""Tests of heads, and of labels that choose entities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ludus_networks.encoders import EntityKeys
from ludus_networks.heads import AttentionLabel, Head, evaluate_heads

ROWS, WIDTH, KEY = 6, 5, 3


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def make_head(labels, attention=None, *, hidden=(), gain=1.0):
    """Return a head on `WIDTH` features."""
    return Head(WIDTH, hidden=hidden, activation="relu", labels=labels, gain=gain, attention=attention)


def make_keys(count, *, masked=True):
    """Return keys and a mask; in the first row no entity is present, in the second all are."""
    present = torch.rand(ROWS, count) < 0.5
    present[0], present[1] = False, True
    return EntityKeys(torch.randn(ROWS, count, KEY), present if masked else None)


KEYS = {"mice": make_keys(4), "towers": make_keys(2, masked=False)}
LABEL = AttentionLabel(encoders=("towers", "mice"), key=KEY, plain=1)


def test_attention_is_the_softmax_of_queries_times_keys():
    """p(t|a) = softmax(FC(h) · keys) over plain choices and entities present, by an explicit sum [HoK eq. 1]."""
    head = make_head((3, 7), {1: LABEL})
    features = torch.randn(ROWS, WIDTH)
    found = head(features, KEYS).detach()[:, 3:].softmax(1).numpy()
    query = head.queries["1"](features).detach()
    for row in range(ROWS):
        plain = head.out(features[row]).detach()[3:]
        keys = torch.cat([KEYS["towers"].keys[row], KEYS["mice"].keys[row][KEYS["mice"].present[row]]])
        scores = torch.cat([plain, torch.einsum("k,ek->e", query[row], keys)]).double().exp()
        is_present = np.r_[[True] * 3, KEYS["mice"].present[row].numpy()]
        np.testing.assert_allclose(found[row][is_present], scores / scores.sum(), atol=1e-6)
        assert (found[row][~is_present] == 0).all()


def test_other_labels_come_from_one_linear_layer():
    """Side by side around the label with attention."""
    head = make_head((3, 7, 2), {1: LABEL}, hidden=(8,))
    features = torch.randn(ROWS, WIDTH)
    out = head(features, KEYS)
    assert out.shape == (ROWS, 12)
    plain = head.out(head.layers(features))  # 3, 1 of the target, 2
    torch.testing.assert_close(torch.cat([out[:, :4], out[:, 10:]], dim=1), plain)


def test_head_with_attention_only_has_no_plain_layer():
    """Its only parameters are those of the query."""
    head = make_head((4,), {0: AttentionLabel(encoders=("mice",), key=KEY, plain=0)})
    out = head(torch.randn(ROWS, WIDTH), KEYS)
    assert out.shape == (ROWS, 4)
    assert {name for name, _ in head.named_parameters()} == {"queries.0.weight", "queries.0.bias"}


def test_logits_are_finite_without_entities():
    """Algorithms raise on outputs that are not finite."""
    out = make_head((4,), {0: AttentionLabel(encoders=("mice",), key=KEY, plain=0)})(torch.randn(ROWS, WIDTH), KEYS)
    assert torch.isfinite(out).all()
    torch.testing.assert_close(out[0].softmax(0), torch.full((4,), 0.25))


def test_gradients_reach_the_keys_of_present_entities_only():
    """Keys of absent entities have gradient 0."""
    keys = EntityKeys(KEYS["mice"].keys.clone().requires_grad_(), KEYS["mice"].present)
    head = make_head((4,), {0: AttentionLabel(encoders=("mice",), key=KEY, plain=0)})
    head(torch.randn(ROWS, WIDTH), {"mice": keys}).log_softmax(1)[:, 0].sum().backward()
    assert (keys.keys.grad[~keys.present] == 0).all()
    assert (keys.keys.grad[1] != 0).any()


def test_last_layers_have_the_requested_gain():
    """Outputs and queries are orthogonal with zero biases; hidden layers have the gain of their activation."""
    head = make_head((2, 7), {1: LABEL}, hidden=(8,), gain=0.01)
    for layer in (head.out, head.queries["1"]):
        torch.testing.assert_close(layer.weight @ layer.weight.T, 1e-4 * torch.eye(3), atol=1e-8, rtol=1e-4)
        assert (layer.bias == 0).all()
    hidden = head.layers[0].weight
    torch.testing.assert_close(hidden.T @ hidden, 2 * torch.eye(WIDTH), atol=1e-5, rtol=1e-4)


def test_head_without_attention_equals_its_layers():
    """Hidden layers, then the last layer."""
    head = make_head((7,), hidden=(8,))
    features = torch.randn(ROWS, WIDTH)
    torch.testing.assert_close(head(features, {}), head.out(torch.relu(head.layers[0](features))))


def test_linear_heads_are_evaluated_together():
    """The results equal those of the heads one by one, also of heads with hidden layers."""
    features = torch.randn(ROWS, WIDTH)
    for hidden in ((), (8,)):
        heads = {"policy": make_head((7,)), "value": make_head((1,), hidden=hidden)}
        outputs = evaluate_heads(heads, features, {})
        assert outputs.keys() == heads.keys()
        for name, head in heads.items():
            torch.testing.assert_close(outputs[name], head(features, {}))
