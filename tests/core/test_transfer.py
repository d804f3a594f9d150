"""A player that starts from the weights of another one copies what fits and keeps what old inputs have learned."""

from __future__ import annotations

import numpy as np
import pytest
from ludus._learning.transfer import transfer_weights
from ludus.errors import ModelError
from ludus.network import InputColumns


def leaf(name, width, shape=None):
    """Return the columns of a leaf."""
    return InputColumns(name, width, (width,) if shape is None else shape)


def arrays(start, **shapes):
    """Return arrays of different numbers, by names in which __ stands for a dot."""
    made = {}
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        made[name.replace("__", ".")] = np.arange(start, start + size, dtype=np.float32).reshape(shape)
        start += size
    return made


def transferred(own, source, *, new=(), old=(), layer="net.in.weight"):
    """Return the transfer of arrays whose layer reads these columns."""
    return transfer_weights(own, source, own_inputs={layer: new}, source_inputs={layer: old})


OLD = arrays(1, net__in__weight=(2, 3), net__in__bias=(2,), net__out__weight=(4, 2), scale=())


def test_equal_shapes_are_copied():
    """All arrays of both, with inputs known or not."""
    own = arrays(100, net__in__weight=(2, 3), net__in__bias=(2,), net__out__weight=(4, 2), scale=())
    for columns in ((), (leaf("obs", 3),)):
        result = transferred(own, OLD, new=columns, old=columns)
        assert all(np.array_equal(result.weights[name], OLD[name]) for name in OLD)
        assert (result.grown, result.kept, result.dropped) == ((), {}, ())
        assert result.describe() == "its weights fit"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ([leaf("obs", 3), leaf("past", 2)], [[1, 2, 3, 0, 0], [4, 5, 6, 0, 0]]),
        ([leaf("a", 1), leaf("obs", 3), leaf("z", 1)], [[0, 1, 2, 3, 0], [0, 4, 5, 6, 0]]),
        ([leaf("obs", 5)], [[1, 2, 3, 0, 0], [4, 5, 6, 0, 0]]),
        ([leaf("obs", 6, (2, 3))], [[0, 0, 0, 1, 2, 3], [0, 0, 0, 4, 5, 6]]),
    ],
    ids=["a leaf behind", "leaves around", "more features", "frames, the newest last"],
)
def test_new_columns_are_0(new, expected):
    """Old columns follow their leaf."""
    own = arrays(100, net__in__weight=(2, sum(one.width for one in new)), net__in__bias=(2,), net__out__weight=(4, 2))
    result = transferred(own, OLD, new=new, old=[leaf("obs", 3)])
    assert result.weights["net.in.weight"].tolist() == expected
    assert np.array_equal(result.weights["net.in.bias"], OLD["net.in.bias"])
    assert result.grown == ("net.in",)
    assert result.dropped == ("scale",)
    assert result.describe() == "its weights fit; new inputs of net.in start at 0; scale of the source is not used"


def test_columns_follow_their_leaves():
    """In another order the array has the same shape, and still changes."""
    own = arrays(100, net__in__weight=(2, 3))
    old, new = [leaf("a", 1), leaf("b", 2)], [leaf("b", 2), leaf("a", 1)]
    assert transferred(own, OLD, new=new, old=old).weights["net.in.weight"].tolist() == [[2, 3, 1], [5, 6, 4]]


def test_channels_of_convolutions_are_columns():
    """Axis 1 of the kernels."""
    own, source = arrays(100, net__in__weight=(2, 3, 1, 2)), arrays(1, net__in__weight=(2, 2, 1, 2))
    weights = transferred(own, source, new=[leaf("map", 3)], old=[leaf("map", 2)]).weights["net.in.weight"]
    assert weights.tolist() == [[[[1, 2]], [[3, 4]], [[0, 0]]], [[[5, 6]], [[7, 8]], [[0, 0]]]]


def test_statistics_of_new_columns_keep_their_start_values():
    """A variance of 0 would divide by 0."""
    own = {"norm.variance": np.ones(3, np.float32)}
    source = {"norm.variance": np.array([4, 9], np.float32)}
    columns = {"new": [leaf("past", 1), leaf("obs", 2)], "old": [leaf("obs", 2)]}
    result = transferred(own, source, **columns, layer="norm.variance")
    assert result.weights["norm.variance"].tolist() == [1, 4, 9]


def test_layers_that_do_not_fit_keep_their_start_values():
    """With bias and weight together, and the reason; new layers without one."""
    own = arrays(100, net__in__weight=(5, 3), net__in__bias=(5,), net__out__weight=(4, 2), net__new__weight=(1, 1))
    result = transferred(own, OLD, new=[leaf("obs", 3)], old=[leaf("obs", 3)])
    assert all(np.array_equal(result.weights[f"net.in.{part}"], own[f"net.in.{part}"]) for part in ("weight", "bias"))
    assert np.array_equal(result.weights["net.out.weight"], OLD["net.out.weight"])
    assert result.misfits == {"net.in": "shape [2, 3] instead of [5, 3]"}
    assert result.kept.keys() == {"net.in", "net.new"}


@pytest.mark.parametrize(
    ("width", "new", "old", "reason"),
    [
        (2, [leaf("obs", 2)], [leaf("obs", 3)], "3 columns of obs instead of 2"),
        (3, [leaf("other", 3)], [leaf("obs", 3)], "it does not read obs"),
        (5, [InputColumns("trunk", 5)], [InputColumns("trunk", 3)], "3 columns of trunk instead of 5"),
        (3, [InputColumns("obs", 3)], [leaf("obs", 3)], "it does not read obs"),
        (5, [leaf("obs", 5)], [], "shape [2, 3] instead of [2, 5]"),
        (3, [leaf("obs", 3)], [], "other inputs of unknown columns"),
    ],
    ids=["fewer inputs", "another leaf", "features of another size", "features", "unknown", "unknown, equal shape"],
)
def test_first_layers_that_do_not_fit(width, new, old, reason):
    """Equal inputs would not give equal outputs."""
    own = arrays(100, net__in__weight=(2, width), net__out__weight=(4, 2))
    assert transferred(own, OLD, new=new, old=old).misfits == {"net.in": reason}


def test_without_a_layer_that_fits_a_player_cannot_start():
    """Numbers such as a scale do not count."""
    own = {**arrays(100, net__in__weight=(5, 3)), "scale": OLD["scale"]}
    with pytest.raises(ModelError, match=r"no layer fits: net.in \(shape \[2, 3\] instead of \[5, 3\]\)"):
        transferred(own, OLD)
