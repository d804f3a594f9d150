"""Exporters: what they write is read back and compared with torch."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import torch
from ludus.errors import ModelError
from ludus_onnx.comparison import largest_error, make_session
from ludus_onnx.conversion import convert
from ludus_onnx.flat_module import NETWORK_GROUPS, make_exportable


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
