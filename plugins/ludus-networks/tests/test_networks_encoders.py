"""Tests of the encoders against NumPy, and of absent entities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus_networks.config import EntityPart, ImagePart, VectorPart
from ludus_networks.encoders import EntityEncoder, VectorEncoder
from ludus_networks.images import Convolution, ImageEncoder
from ludus_networks.layers import EncoderSettings
from torch import nn

E, F = 5, 3
SETTINGS = EncoderSettings(activation="relu", scale=True, clip=None)
MICE = {"mice": spaces.Box(-9, 9, (E, F), np.float32), "present": spaces.MultiBinary(E)}
POOLS = ["max", "mean", "attention", "concat"]


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def arrays(module):
    """Return the weights by name."""
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def apply_linear(x, weights, layer):
    """Apply a linear layer of `weights` to the last axis."""
    return x @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]


def make_entity_encoder(pool="max", *, key=2, present="present", settings=SETTINGS):
    """Return an encoder of mice with nonzero biases."""
    part = EntityPart(leaf="mice", present=present, hidden=(7, 4), pool=pool, key=key)
    encoder = EntityEncoder(MICE, part, settings)
    for name, parameter in encoder.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return encoder


def make_mice(rows=6, seed=0):
    """Return entities and a mask; the first row has no entity, the second all."""
    rng = np.random.default_rng(seed)
    is_present = rng.integers(0, 2, (rows, E), np.int8)
    is_present[0], is_present[1] = 0, 1
    return {
        "mice": torch.from_numpy(rng.normal(size=(rows, E, F)).astype(np.float32)),
        "present": torch.from_numpy(is_present),
    }


def apply_pool(pool, features, is_present, weights):
    """Pool ``features [E, w]`` of one row by NumPy."""
    if pool == "concat":
        return (features * is_present[:, None]).ravel()
    kept = features[is_present]
    if not len(kept):
        return np.zeros(features.shape[1])
    if pool == "attention":
        scores = np.exp(apply_linear(kept, weights, "score").ravel())
        return scores / scores.sum() @ kept
    return kept.max(0) if pool == "max" else kept.mean(0)


# -- vectors -------------------------------------------------------------------------------------------------------

VECTOR = {"a": spaces.Box(-1, 1, (2, 2), np.float32), "b": spaces.Discrete(3), "c": spaces.Box(0, 255, (1,), np.uint8)}


def make_vector_rows():
    """Return two rows of every leaf, and the same joined in the order b, a, c."""
    leaves = {
        "a": torch.tensor([[[1.0, 2], [3, 4]], [[5, 6], [7, 8]]]),
        "b": torch.tensor([2, 0]),
        "c": torch.tensor([[51], [255]], dtype=torch.uint8),
    }
    return leaves, np.array([[0, 0, 1, 1, 2, 3, 4, 0.2], [1, 0, 0, 5, 6, 7, 8, 1]], np.float32)


def test_vector_encoder_joins_leaves_and_applies_layers():
    """In the order of the option, not of the spaces."""
    encoder = VectorEncoder(VECTOR, VectorPart(leaves=("b", "a", "c"), hidden=(6, 4)), SETTINGS)
    leaves, joined = make_vector_rows()
    weights = arrays(encoder)
    expected = np.maximum(
        apply_linear(np.maximum(apply_linear(joined, weights, "layers.0"), 0), weights, "layers.2"), 0
    )
    np.testing.assert_allclose(encoder(leaves)[0].detach().numpy(), expected, atol=1e-5)
    assert encoder.width == 4


def test_vector_encoder_without_layers_joins_leaves():
    """Without changing them."""
    encoder = VectorEncoder(VECTOR, VectorPart(leaves=("b", "a", "c"), hidden=()), SETTINGS)
    leaves, joined = make_vector_rows()
    np.testing.assert_allclose(encoder(leaves)[0].numpy(), joined)
    assert encoder.width == joined.shape[1]


def test_vector_encoder_normalizes_all_but_one_hot_columns():
    """One-hot columns stay 0 and 1."""
    settings = EncoderSettings(activation="relu", scale=True, clip=5.0)
    encoder = VectorEncoder(VECTOR, VectorPart(leaves=("b", "a", "c"), hidden=()), settings)
    leaves, joined = make_vector_rows()
    encoder.update_statistics(leaves)
    out = encoder(leaves)[0].numpy()
    np.testing.assert_array_equal(out[:, :3], joined[:, :3])
    np.testing.assert_allclose(out[:, 3:], [[-1] * 5, [1] * 5], atol=1e-5)


def test_leaf_named_twice_is_read_once():
    """With normalization too."""
    settings = EncoderSettings(activation="relu", scale=True, clip=5.0)
    encoder = VectorEncoder(VECTOR, VectorPart(leaves=("a", "a"), hidden=()), settings)
    assert encoder(make_vector_rows()[0])[0].shape == (2, encoder.width) == (2, 4)


# -- images --------------------------------------------------------------------------------------------------------


def convolve(image, weight, bias, stride):
    """Convolve ``image [C, H, W]`` by sums over windows, padded so that odd kernels keep the size."""
    half = weight.shape[-1] // 2
    padded = np.pad(image, ((0, 0), (half, half), (half, half)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[-2:], axis=(1, 2))[:, ::stride, ::stride]
    return np.einsum("chwij,ocij->ohw", windows, weight) + bias[:, None, None]


def make_images(shape=(9, 6, 2), rows=3):
    """Return the space of an image, rows of bytes, and the rows channels first in [0, 1]."""
    space = spaces.Box(0, 255, shape, np.uint8)
    array = np.random.default_rng(0).integers(0, 256, (rows, *shape), np.uint8)
    return space, torch.from_numpy(array), array.transpose(0, 3, 1, 2) / 255.0


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pool", ["mean", "max", "flatten"])
def test_residual_blocks(stride, pool):
    """Two blocks of two convolutions and a shortcut, by NumPy."""
    space, leaf, image = make_images()
    part = ImagePart(leaf="map", channels=(4, 4), stride=stride, pool=pool, hidden=(5,))
    encoder = ImageEncoder({"map": space}, part, SETTINGS)
    weights, expected = arrays(encoder), []
    for row in image:
        x = row
        for block in ("tower.0", "tower.1"):
            layer = [weights.get(f"{block}.{name}.weight") for name in ("first", "second", "shortcut")]
            bias = [weights.get(f"{block}.{name}.bias") for name in ("first", "second", "shortcut")]
            change = convolve(np.maximum(convolve(x, layer[0], bias[0], stride), 0), layer[1], bias[1], 1)
            x = np.maximum(change + (x if layer[2] is None else convolve(x, layer[2], bias[2], stride)), 0)
        cells = x.ravel() if pool == "flatten" else getattr(x, pool)(axis=(1, 2))
        expected.append(np.maximum(apply_linear(cells, weights, "layers.0"), 0))
    np.testing.assert_allclose(encoder({"map": leaf})[0].detach().numpy(), expected, atol=1e-4)
    assert encoder.width == 5


def test_shortcut_has_no_weights_if_shapes_agree():
    """The first block changes the number of channels, the second does not."""
    encoder = ImageEncoder({"map": make_images()[0]}, ImagePart(leaf="map", channels=(4, 4), stride=1), SETTINGS)
    assert {name for name in arrays(encoder) if "shortcut" in name} == {
        "tower.0.shortcut.weight",
        "tower.0.shortcut.bias",
    }


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 2), (5, 3)])
def test_convolutions(kernel, stride):
    """A stack of two, by NumPy."""
    space, leaf, image = make_images((11, 7, 1))
    part = ImagePart(leaf="map", kind="conv", channels=(3, 2), kernel=kernel, stride=stride, pool="flatten")
    encoder = ImageEncoder({"map": space}, part, SETTINGS)
    weights = arrays(encoder)
    for row, out in zip(image, encoder({"map": leaf})[0].detach().numpy(), strict=True):
        x = row
        for layer in ("tower.0", "tower.2"):
            x = np.maximum(convolve(x, weights[f"{layer}.weight"], weights[f"{layer}.bias"], stride), 0)
        np.testing.assert_allclose(out, x.ravel(), atol=1e-4)


# -- entities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", POOLS)
def test_entity_encoder_applies_shared_layers_and_pools(pool):
    """Features and keys, row by row and entity by entity by NumPy."""
    encoder, leaves = make_entity_encoder(pool), make_mice()
    weights = arrays(encoder)
    features, keys = encoder(leaves)
    for row, is_present, out, key in zip(
        leaves["mice"].numpy(), leaves["present"].numpy() > 0, features.detach(), keys.keys.detach(), strict=True
    ):
        encoded = np.maximum(
            apply_linear(np.maximum(apply_linear(row, weights, "layers.0"), 0), weights, "layers.2"), 0
        )
        np.testing.assert_allclose(out, apply_pool(pool, encoded[:, :4], is_present, weights), atol=1e-5)
        np.testing.assert_allclose(key[is_present], encoded[is_present, 4:], atol=1e-5)
    assert encoder.width == features.shape[1]
    assert (keys.present == (leaves["present"] > 0)).all()


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("junk", [1e30, torch.nan, torch.inf])
def test_absent_entities_have_no_influence(pool, junk):
    """Whatever their features are, outputs and gradients are equal bit for bit."""
    encoder, leaves = make_entity_encoder(pool), make_mice()
    spoiled = torch.where(leaves["present"].bool().unsqueeze(2), leaves["mice"], junk)
    results = []
    for features in (leaves["mice"], spoiled):
        out, keys = encoder(leaves | {"mice": features})
        loss = out.sum() + torch.where(keys.present.unsqueeze(2), keys.keys, 0).sum()
        results.append([out, *torch.autograd.grad(loss, list(encoder.parameters()))])
    for before, after in zip(*results, strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("pool", POOLS)
def test_no_entity_at_all_is_zero(pool):
    """Not NaN, in value and gradient."""
    encoder, leaves = make_entity_encoder(pool), make_mice()
    leaves["present"].zero_()
    out, _ = encoder(leaves)
    assert (out == 0).all()
    out.sum().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in encoder.parameters())


@pytest.mark.parametrize("pool", ["max", "mean", "attention"])
def test_pooled_features_do_not_depend_on_the_order_of_entities(pool):
    """Keys move with their entities."""
    encoder, leaves = make_entity_encoder(pool), make_mice()
    order = torch.tensor([3, 0, 4, 2, 1])
    out, keys = encoder(leaves)
    moved, moved_keys = encoder({name: leaf[:, order] for name, leaf in leaves.items()})
    torch.testing.assert_close(moved, out)
    torch.testing.assert_close(moved_keys.keys, keys.keys[:, order])


def test_all_entities_are_present_without_a_mask():
    """As with a mask of ones."""
    encoder = make_entity_encoder(present="")
    masked = make_entity_encoder()
    masked.load_state_dict(encoder.state_dict())
    leaves = make_mice()
    all_present = leaves | {"present": torch.ones_like(leaves["present"])}
    torch.testing.assert_close(encoder(leaves)[0], masked(all_present)[0])
    assert encoder(leaves)[1].present is None


def test_encoder_without_keys_returns_none():
    """In place of the keys."""
    assert make_entity_encoder(key=0)(make_mice())[1] is None


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.float32])
def test_mask_may_have_any_dtype(kind):
    """Every nonzero entry means present."""
    encoder, leaves = make_entity_encoder(), make_mice()
    out = encoder(leaves | {"present": leaves["present"].to(kind)})[0]
    torch.testing.assert_close(out, encoder(leaves)[0])


def test_entities_of_bytes_are_scaled():
    """255 becomes 1."""
    leaves = MICE | {"mice": spaces.Box(0, 255, (E, F), np.uint8)}
    encoder = EntityEncoder(leaves, EntityPart(leaf="mice", hidden=(4,)), SETTINGS)
    plain = make_entity_encoder(present="")
    plain = EntityEncoder(MICE, EntityPart(leaf="mice", hidden=(4,)), SETTINGS)
    plain.load_state_dict(encoder.state_dict())
    array = torch.randint(0, 256, (2, E, F), dtype=torch.uint8)
    torch.testing.assert_close(encoder({"mice": array})[0], plain({"mice": array / 255.0})[0])


def test_statistics_ignore_absent_entities():
    """In mean, variance and count."""
    encoder, leaves = (
        make_entity_encoder(settings=EncoderSettings(activation="relu", scale=True, clip=5.0)),
        make_mice(rows=50),
    )
    leaves["mice"][~leaves["present"].bool()] = torch.nan
    encoder.update_statistics(leaves)
    present_mice = leaves["mice"][leaves["present"].bool()]
    torch.testing.assert_close(encoder.norm.mean, present_mice.mean(0))
    torch.testing.assert_close(encoder.norm.variance, present_mice.var(0, correction=0))
    assert encoder.norm.count == len(present_mice)


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (1, 3), (3, 2)])
def test_convolution_equals_torch(kernel, stride):
    """Outputs and gradients, channels last, also if a kernel of one cell skips cells."""
    convolution = Convolution(2, 3, kernel, stride, kernel // 2)
    plain = nn.Conv2d(2, 3, kernel, stride, kernel // 2).double()  # oneDNN has no such layers
    plain.load_state_dict(convolution.state_dict())
    image = torch.rand(5, 8, 6, 2).requires_grad_()
    copied = image.detach().double().requires_grad_()
    got, expected = convolution(image.permute(0, 3, 1, 2)), plain(copied.permute(0, 3, 1, 2))
    got.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(got.double(), expected, atol=1e-5, rtol=1e-5)
    pairs = zip((image, *convolution.parameters()), (copied, *plain.parameters()), strict=True)
    for found, expected_leaf in pairs:
        torch.testing.assert_close(found.grad.double(), expected_leaf.grad, atol=1e-4, rtol=1e-5)
