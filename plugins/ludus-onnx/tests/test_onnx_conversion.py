"""Exporters: what they write is read back and compared with torch."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.errors import ModelError
from ludus.network import NetworkRequest
from ludus_networks.config import HoKConfig
from ludus_networks.presets import make_hok
from ludus_onnx.comparison import largest_error, make_session
from ludus_onnx.conversion import convert
from ludus_onnx.flat_module import NETWORK_GROUPS, make_exportable


def make_recurrent():
    """Return the network of Honor of Kings in small, with rows of units, an LSTM and a label that chooses units."""
    torch.manual_seed(0)
    units = spaces.Box(-1, 1, (3, 4), np.float32)
    request = NetworkRequest(
        observation={"units": units, "units_present": spaces.MultiBinary(3), "kind": spaces.Discrete(3)},
        heads={"policy": 5},
        critic_heads={"value": 1},
        labels={"policy": (2, 3)},
    )
    options = HoKConfig(target=1, targets=("units",), core="lstm", core_size=8, units=(8,), vector=(8,), torso=(8,))
    network = make_hok(options, request=request).eval()
    rng = np.random.default_rng(0)
    rows = {
        "observation/units": rng.random((20, 3, 4), np.float32),
        "observation/units_present": rng.integers(0, 2, (20, 3)).astype(np.int8),
        "observation/kind": rng.integers(0, 3, 20),
        **{f"state/{name}": rng.random((20, 8), np.float32) for name in network.initial_state(1)},
    }
    return make_exportable(network, NETWORK_GROUPS, rows)


@pytest.fixture(scope="module")
def recurrent():
    """Return the small network with its rows."""
    return make_recurrent()


@pytest.fixture(scope="module")
def converted(recurrent):
    """Write it in an opset that dynamo does not write, so that both exporters are tried."""
    return convert(recurrent, opset=15)


def test_other_opset_is_refused_and_the_next_exporter_is_used(converted):
    """The reason is kept."""
    assert converted.exporter == "torchscript"
    assert "instead of 15" in converted.refused["dynamo"]
    assert converted.max_error < 1e-5


def test_recurrent_state_is_input_and_output(converted, recurrent):
    """Every state has an input and an output, and rows of all numbers are accepted."""
    session = make_session(converted.data)
    states = [name for name in recurrent.inputs if name.startswith("state/")]
    assert states
    assert {f"next_{name}" for name in states} <= {entry.name for entry in session.get_outputs()}
    assert largest_error(session, recurrent) == converted.max_error


def test_wrong_outputs_are_refused(recurrent):
    """A file whose outputs differ by more than the tolerance is no success."""
    wrong = {name: array + np.float32(1e-3) for name, array in recurrent.outputs.items()}
    with pytest.raises(ModelError, match=r"torchscript: its outputs differ by 1\.0e-03"):
        convert(attrs.evolve(recurrent, outputs=wrong), exporters=["torchscript"])


def test_fixed_number_of_rows_is_refused():
    """A module that depends on the number of rows at its export is no success."""

    class Fixed(torch.nn.Module):
        def forward(self, observation, privileged, state):
            leaf = observation["obs"]
            return {"sum": leaf.sum(1) * float(int(leaf.shape[0]))}, {}

    rows = {"observation/obs": np.ones((10, 2), np.float32)}
    with pytest.raises(ModelError, match="torchscript"):
        convert(make_exportable(Fixed(), NETWORK_GROUPS, rows), exporters=["torchscript"])
