"""Models are stored once; unused ones are dropped beyond the limit."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.errors import ModelError
from ludus.inference import Eager
from ludus_inference_server.models import Architecture, ModelCache, content_key


@pytest.fixture
def architecture(mlp):
    """Return an architecture."""
    network = mlp()
    return Architecture(Eager(*network), network.request)


@pytest.fixture
def put(weights):
    """Return a function that puts the model of a seed on a shelf, with a user."""

    def put(model_cache, architecture, seed):
        key = content_key(weights(seed))
        model_cache.add(architecture, key, weights(seed))
        return key, model_cache.hold(architecture, key)

    return put


def size(weights):
    """Return the bytes of a model."""
    return sum(array.nbytes for array in weights(0).values())


def test_the_key_depends_on_the_content(weights):
    """Names, shapes, dtypes and values, not their order."""
    one = {"a": np.zeros((2, 3), np.float32), "b": np.ones(2, np.float32)}
    others = [
        {"a": one["a"], "c": one["b"]},
        {"a": one["a"].reshape(3, 2), "b": one["b"]},
        {"a": one["a"].view(np.int32), "b": one["b"]},
        {"a": one["a"], "b": np.array([1, 2], np.float32)},
    ]
    assert content_key(dict(reversed(one.items()))) == content_key(one)
    assert len({content_key(weights) for weights in [one, *others]}) == 5


def test_every_model_has_a_slot(architecture, put):
    """Freed slots are reused first."""
    model_cache = ModelCache(0)
    keys = [put(model_cache, architecture, seed) for seed in range(3)]
    assert [slot for _, slot in keys] == [0, 1, 2]
    model_cache.release(architecture, keys[1][0])
    model_cache.shrink()
    assert put(model_cache, architecture, 7)[1] == 1


def test_weights_that_do_not_fit_take_no_slot(architecture, put):
    """The next model gets it."""
    model_cache = ModelCache(0)
    with pytest.raises(ModelError):
        model_cache.add(architecture, "key", {"x": np.zeros(1)})
    assert put(model_cache, architecture, 0)[1] == 0
    assert len(model_cache) == 1


def test_the_least_recently_used_model_is_removed(architecture, put, weights):
    """Until the unused ones are within the limit."""
    model_cache = ModelCache(2 * size(weights))
    keys = [put(model_cache, architecture, seed)[0] for seed in range(4)]
    model_cache.hold(architecture, keys[0])
    for key in (*keys, keys[0]):
        model_cache.release(architecture, key)
    model_cache.shrink()
    assert [model_cache.has(architecture, key) for key in keys] == [True, False, False, True]


def test_models_in_use_stay(architecture, put):
    """Whatever their number."""
    model_cache = ModelCache(0)
    keys = [put(model_cache, architecture, seed)[0] for seed in range(3)]
    model_cache.release(architecture, keys[2])
    model_cache.shrink()
    assert [model_cache.has(architecture, key) for key in keys] == [True, True, False]
