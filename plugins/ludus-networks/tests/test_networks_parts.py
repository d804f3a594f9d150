"""Encoders against the same written out by NumPy, and what absent entities must not do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus_networks.config import EntityPart, ImagePart, VectorPart
from ludus_networks.encoders import Convolution
from ludus_networks.parts import EntityEncoder, ImageEncoder, Style, VectorEncoder
from torch import nn

E, F = 5, 3
STYLE = Style(activation="relu", scale=True, clip=None)
MICE = {"mice": spaces.Box(-9, 9, (E, F), np.float32), "there": spaces.MultiBinary(E)}
POOLS = ["max", "mean", "attention", "concat"]


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def arrays(module):
    """Return the weights by name."""
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def dense(x, weights, layer):
    """Apply a linear layer of `weights` to the last axis."""
    return x @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]


def entities(pool="max", *, key=2, present="there", style=STYLE):
    """Return an encoder of mice whose biases are not 0."""
    part = EntityPart(leaf="mice", present=present, hidden=(7, 4), pool=pool, key=key)
    encoder = EntityEncoder(MICE, part, style)
    for name, parameter in encoder.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return encoder


def mice(rows=6, seed=0):
    """Return entities and a mask; the first row has none, the second all."""
    rng = np.random.default_rng(seed)
    there = rng.integers(0, 2, (rows, E), np.int8)
    there[0], there[1] = 0, 1
    return {
        "mice": torch.from_numpy(rng.normal(size=(rows, E, F)).astype(np.float32)),
        "there": torch.from_numpy(there),
    }


def pooled(pool, represented, there, weights):
    """Pool ``represented [E, w]`` of one row by NumPy."""
    if pool == "concat":
        return (represented * there[:, None]).ravel()
    kept = represented[there]
    if not len(kept):
        return np.zeros(represented.shape[1])
    if pool == "attention":
        scores = np.exp(dense(kept, weights, "score").ravel())
        return scores / scores.sum() @ kept
    return kept.max(0) if pool == "max" else kept.mean(0)


# -- vectors -------------------------------------------------------------------------------------------------------

VECTOR = {"a": spaces.Box(-1, 1, (2, 2), np.float32), "b": spaces.Discrete(3), "c": spaces.Box(0, 255, (1,), np.uint8)}


def vector_rows():
    """Return two rows of every leaf, and the same joined in the order b, a, c."""
    leaves = {
        "a": torch.tensor([[[1.0, 2], [3, 4]], [[5, 6], [7, 8]]]),
        "b": torch.tensor([2, 0]),
        "c": torch.tensor([[51], [255]], dtype=torch.uint8),
    }
    return leaves, np.array([[0, 0, 1, 1, 2, 3, 4, 0.2], [1, 0, 0, 5, 6, 7, 8, 1]], np.float32)


def test_vectors_are_joined_and_pass_layers():
    """In the order of the option, not of the spaces."""
    encoder = VectorEncoder(VECTOR, VectorPart(leaves=("b", "a", "c"), hidden=(6, 4)), STYLE)
    leaves, joined = vector_rows()
    weights = arrays(encoder)
    expected = np.maximum(dense(np.maximum(dense(joined, weights, "layers.0"), 0), weights, "layers.2"), 0)
    np.testing.assert_allclose(encoder(leaves)[0].detach().numpy(), expected, atol=1e-5)
    assert encoder.width == 4


def test_vectors_without_layers_are_joined_only():
    """An empty list of layers changes nothing."""
    encoder = VectorEncoder(VECTOR, VectorPart(leaves=("b", "a", "c"), hidden=()), STYLE)
    leaves, joined = vector_rows()
    np.testing.assert_allclose(encoder(leaves)[0].numpy(), joined)
    assert encoder.width == joined.shape[1]


def test_vectors_are_normalised_but_for_one_hot():
    """Numbers become standard, choices stay 0 and 1."""
    style = Style(activation="relu", scale=True, clip=5.0)
    encoder = VectorEncoder(VECTOR, VectorPart(leaves=("b", "a", "c"), hidden=()), style)
    leaves, joined = vector_rows()
    encoder.update_statistics(leaves)
    out = encoder(leaves)[0].numpy()
    np.testing.assert_array_equal(out[:, :3], joined[:, :3])
    np.testing.assert_allclose(out[:, 3:], [[-1] * 5, [1] * 5], atol=1e-5)


def test_a_leaf_named_twice_counts_once():
    """Also where it is normalised."""
    style = Style(activation="relu", scale=True, clip=5.0)
    encoder = VectorEncoder(VECTOR, VectorPart(leaves=("a", "a"), hidden=()), style)
    assert encoder(vector_rows()[0])[0].shape == (2, encoder.width) == (2, 4)


# -- images --------------------------------------------------------------------------------------------------------


def convolve(image, weight, bias, stride):
    """Convolve ``image [C, H, W]`` by sums over windows, padded so that odd kernels keep the size."""
    half = weight.shape[-1] // 2
    padded = np.pad(image, ((0, 0), (half, half), (half, half)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[-2:], axis=(1, 2))[:, ::stride, ::stride]
    return np.einsum("chwij,ocij->ohw", windows, weight) + bias[:, None, None]


def images(shape=(9, 6, 2), rows=3):
    """Return the space of an image, rows of bytes, and those channels first in 0 to 1."""
    space = spaces.Box(0, 255, shape, np.uint8)
    array = np.random.default_rng(0).integers(0, 256, (rows, *shape), np.uint8)
    return space, torch.from_numpy(array), array.transpose(0, 3, 1, 2) / 255.0


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pool", ["mean", "max", "flatten"])
def test_residual_blocks(stride, pool):
    """Two blocks of two convolutions and a shortcut, written out."""
    space, leaf, image = images()
    part = ImagePart(leaf="map", channels=(4, 4), stride=stride, pool=pool, hidden=(5,))
    encoder = ImageEncoder(space, part, STYLE)
    weights, expected = arrays(encoder), []
    for row in image:
        x = row
        for block in ("tower.0", "tower.1"):
            layer = [weights.get(f"{block}.{name}.weight") for name in ("first", "second", "shortcut")]
            bias = [weights.get(f"{block}.{name}.bias") for name in ("first", "second", "shortcut")]
            change = convolve(np.maximum(convolve(x, layer[0], bias[0], stride), 0), layer[1], bias[1], 1)
            x = np.maximum(change + (x if layer[2] is None else convolve(x, layer[2], bias[2], stride)), 0)
        cells = x.ravel() if pool == "flatten" else getattr(x, pool)(axis=(1, 2))
        expected.append(np.maximum(dense(cells, weights, "layers.0"), 0))
    np.testing.assert_allclose(encoder({"map": leaf})[0].detach().numpy(), expected, atol=1e-4)
    assert encoder.width == 5


def test_a_shortcut_costs_nothing_where_shapes_agree():
    """The first block changes the number of channels, the second does not."""
    encoder = ImageEncoder(images()[0], ImagePart(leaf="map", channels=(4, 4), stride=1), STYLE)
    assert {name for name in arrays(encoder) if "shortcut" in name} == {
        "tower.0.shortcut.weight",
        "tower.0.shortcut.bias",
    }


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 2), (5, 3)])
def test_plain_convolutions(kernel, stride):
    """A stack of them, written out."""
    space, leaf, image = images((11, 7, 1))
    part = ImagePart(leaf="map", kind="conv", channels=(3, 2), kernel=kernel, stride=stride, pool="flatten")
    encoder = ImageEncoder(space, part, STYLE)
    weights = arrays(encoder)
    for row, out in zip(image, encoder({"map": leaf})[0].detach().numpy(), strict=True):
        x = row
        for layer in ("tower.0", "tower.2"):
            x = np.maximum(convolve(x, weights[f"{layer}.weight"], weights[f"{layer}.bias"], stride), 0)
        np.testing.assert_allclose(out, x.ravel(), atol=1e-4)


# -- entities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", POOLS)
def test_entities_pass_shared_layers_and_are_pooled(pool):
    """Features and keys, row by row and entity by entity by NumPy."""
    encoder, leaves = entities(pool), mice()
    weights = arrays(encoder)
    features, choices = encoder(leaves)
    for row, there, out, keys in zip(
        leaves["mice"].numpy(), leaves["there"].numpy() > 0, features.detach(), choices.keys.detach(), strict=True
    ):
        encoded = np.maximum(dense(np.maximum(dense(row, weights, "layers.0"), 0), weights, "layers.2"), 0)
        np.testing.assert_allclose(out, pooled(pool, encoded[:, :4], there, weights), atol=1e-5)
        np.testing.assert_allclose(keys[there], encoded[there, 4:], atol=1e-5)
    assert encoder.width == features.shape[1]
    assert (choices.present == (leaves["there"] > 0)).all()


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("junk", [1e30, torch.nan, torch.inf])
def test_absent_entities_change_nothing(pool, junk):
    """Whatever stands in their features: outputs and gradients are bit for bit the same."""
    encoder, leaves = entities(pool), mice()
    spoiled = torch.where(leaves["there"].bool().unsqueeze(2), leaves["mice"], junk)
    results = []
    for features in (leaves["mice"], spoiled):
        out, choices = encoder(leaves | {"mice": features})
        loss = out.sum() + torch.where(choices.present.unsqueeze(2), choices.keys, 0).sum()
        results.append([out, *torch.autograd.grad(loss, list(encoder.parameters()))])
    for before, after in zip(*results, strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("pool", POOLS)
def test_no_entity_at_all_is_zero(pool):
    """Not NaN, in value and gradient."""
    encoder, leaves = entities(pool), mice()
    leaves["there"].zero_()
    out, _ = encoder(leaves)
    assert (out == 0).all()
    out.sum().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in encoder.parameters())


@pytest.mark.parametrize("pool", ["max", "mean", "attention"])
def test_the_order_of_entities_does_not_matter(pool):
    """Pooled features stay, and keys move with their entities."""
    encoder, leaves = entities(pool), mice()
    order = torch.tensor([3, 0, 4, 2, 1])
    out, choices = encoder(leaves)
    moved, moved_choices = encoder({name: leaf[:, order] for name, leaf in leaves.items()})
    torch.testing.assert_close(moved, out)
    torch.testing.assert_close(moved_choices.keys, choices.keys[:, order])


def test_without_a_mask_all_are_there():
    """As if the mask were all ones."""
    encoder = entities(present="")
    masked = entities()
    masked.load_state_dict(encoder.state_dict())
    leaves = mice()
    everyone = leaves | {"there": torch.ones_like(leaves["there"])}
    torch.testing.assert_close(encoder(leaves)[0], masked(everyone)[0])
    assert encoder(leaves)[1].present is None


def test_entities_without_keys_offer_nothing():
    """There is nothing to choose from then."""
    assert entities(key=0)(mice())[1] is None


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.float32])
def test_masks_of_any_kind(kind):
    """Everything but 0 is there."""
    encoder, leaves = entities(), mice()
    out = encoder(leaves | {"there": leaves["there"].to(kind)})[0]
    torch.testing.assert_close(out, encoder(leaves)[0])


def test_bytes_of_entities_are_scaled():
    """255 is 1."""
    leaves = MICE | {"mice": spaces.Box(0, 255, (E, F), np.uint8)}
    encoder = EntityEncoder(leaves, EntityPart(leaf="mice", hidden=(4,)), STYLE)
    plain = entities(present="")
    plain = EntityEncoder(MICE, EntityPart(leaf="mice", hidden=(4,)), STYLE)
    plain.load_state_dict(encoder.state_dict())
    array = torch.randint(0, 256, (2, E, F), dtype=torch.uint8)
    torch.testing.assert_close(encoder({"mice": array})[0], plain({"mice": array / 255.0})[0])


def test_statistics_of_entities_are_of_those_present():
    """Absent entities count neither in mean nor in number."""
    encoder, leaves = entities(style=Style(activation="relu", scale=True, clip=5.0)), mice(rows=50)
    leaves["mice"][~leaves["there"].bool()] = torch.nan
    encoder.update_statistics(leaves)
    there = leaves["mice"][leaves["there"].bool()]
    torch.testing.assert_close(encoder.norm.mean, there.mean(0))
    torch.testing.assert_close(encoder.norm.variance, there.var(0, correction=0))
    assert encoder.norm.count == len(there)


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (1, 3), (3, 2)])
def test_convolutions_are_those_of_torch(kernel, stride):
    """Outputs and gradients, channels last, also where kernels of one cell step over others."""
    ours = Convolution(2, 3, kernel, stride, kernel // 2)
    plain = nn.Conv2d(2, 3, kernel, stride, kernel // 2).double()  # oneDNN has no such layers
    plain.load_state_dict(ours.state_dict())
    image = torch.rand(5, 8, 6, 2).requires_grad_()
    copied = image.detach().double().requires_grad_()
    got, expected = ours(image.permute(0, 3, 1, 2)), plain(copied.permute(0, 3, 1, 2))
    got.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(got.double(), expected, atol=1e-5, rtol=1e-5)
    pairs = zip((image, *ours.parameters()), (copied, *plain.parameters()), strict=True)
    for found, wanted in pairs:
        torch.testing.assert_close(found.grad.double(), wanted.grad, atol=1e-4, rtol=1e-5)
