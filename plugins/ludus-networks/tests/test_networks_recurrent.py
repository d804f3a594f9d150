"""Tests of the recurrent layers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from ludus_networks.recurrent import RecurrentCore

T, N, INPUTS, SIZE = 6, 4, 3, 5
BOTH = pytest.mark.parametrize("kind", ["lstm", "gru"])


def make_case(kind, seed=0):
    """Return a core, features and a nonzero state."""
    torch.manual_seed(seed)
    core = RecurrentCore(kind, INPUTS, SIZE)
    for parameter in core.parameters():  # biases are mostly 0 at first
        torch.nn.init.normal_(parameter, std=0.5)
    state = {name: torch.randn(N, SIZE) for name in core.names}
    return core, torch.randn(T, N, INPUTS), state


def step_through(core, features, state, starts):
    """Step through the entries; reset the state where a match starts."""
    outputs = []
    for t in range(len(features)):
        fresh = core.initial(N)
        state = {name: torch.where(starts[t][:, None], fresh[name], leaf) for name, leaf in state.items()}
        output, state = core.step(features[t], state)
        outputs.append(output)
    return torch.stack(outputs), state


@BOTH
@settings(deadline=None, max_examples=25)
@given(bits=st.lists(st.booleans(), min_size=T * N, max_size=T * N))
def test_unroll_equals_stepping(kind, bits):
    """Outputs and last state, wherever matches start."""
    core, features, state = make_case(kind)
    starts = torch.tensor(bits).reshape(T, N)
    outputs, after = core.unroll(features, state, starts=starts)
    expected, expected_after = step_through(core, features, state, starts)
    torch.testing.assert_close(outputs, expected, atol=1e-5, rtol=0)
    for name in core.names:
        torch.testing.assert_close(after[name], expected_after[name], atol=1e-5, rtol=0)


@BOTH
def test_gradients_of_unroll_equal_those_of_stepping(kind):
    """Of weights, features and initial state."""
    starts = torch.zeros(T, N, dtype=torch.bool)
    starts[0, 1] = starts[2, 0] = starts[2, 3] = starts[5, 1] = True
    gradients = []
    for way in (lambda core, *rest: core.unroll(rest[0], rest[1], starts=rest[2]), step_through):
        core, features, state = make_case(kind)
        leaves = [features, *state.values()]
        for leaf in leaves:
            leaf.requires_grad_()
        way(core, features, state, starts)[0].square().sum().backward()
        gradients.append([leaf.grad for leaf in (*leaves, *core.parameters())])
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@BOTH
def test_outputs_after_a_start_do_not_depend_on_entries_before(kind):
    """Their gradient is 0."""
    core, features, state = make_case(kind)
    starts = torch.zeros(T, N, dtype=torch.bool)
    starts[3, 2] = True
    features.requires_grad_()
    outputs, _ = core.unroll(features, state, starts=starts)
    gradient = torch.autograd.grad(outputs[3:, 2].sum(), features)[0]
    assert (gradient[:3] == 0).all()
    assert (gradient[3:, 2] != 0).any()


@BOTH
def test_nan_in_the_state_does_not_cross_a_start(kind):
    """Outputs are finite."""
    core, features, state = make_case(kind)
    starts = torch.zeros(T, N, dtype=torch.bool)
    starts[0] = True
    outputs, _ = core.unroll(features, {name: leaf * torch.nan for name, leaf in state.items()}, starts=starts)
    assert torch.isfinite(outputs).all()


def sigmoid(x):
    """Return the logistic function."""
    return 1 / (1 + np.exp(-x))


def test_lstm_step_equals_the_formula():
    """One step, computed by NumPy from the weights."""
    core, features, state = make_case("lstm")
    w_ih, w_hh, b_ih, b_hh = (parameter.detach().numpy() for parameter in core.parameters())
    gates = features[0].numpy() @ w_ih.T + b_ih + state["h"].numpy() @ w_hh.T + b_hh
    i, f, g, o = np.split(gates, 4, axis=1)
    c = sigmoid(f) * state["c"].numpy() + sigmoid(i) * np.tanh(g)
    output, after = core.step(features[0], state)
    np.testing.assert_allclose(after["c"].detach().numpy(), c, atol=1e-6)
    np.testing.assert_allclose(output.detach().numpy(), sigmoid(o) * np.tanh(c), atol=1e-6)


def test_gru_step_equals_the_formula():
    """One step, computed by NumPy from the weights."""
    core, features, state = make_case("gru")
    w_ih, w_hh, b_ih, b_hh = (parameter.detach().numpy() for parameter in core.parameters())
    x_r, x_z, x_n = np.split(features[0].numpy() @ w_ih.T + b_ih, 3, axis=1)
    h_r, h_z, h_n = np.split(state["h"].numpy() @ w_hh.T + b_hh, 3, axis=1)
    z, n = sigmoid(x_z + h_z), np.tanh(x_n + sigmoid(x_r + h_r) * h_n)
    output, _ = core.step(features[0], state)
    np.testing.assert_allclose(output.detach().numpy(), (1 - z) * n + z * state["h"].numpy(), atol=1e-6)


@BOTH
def test_gates_are_orthogonal(kind):
    """Recurrent weights of every gate are orthogonal; the forget biases of an LSTM are 1."""
    core = RecurrentCore(kind, INPUTS, SIZE)
    for gate in core.weight_hh.split(SIZE):
        torch.testing.assert_close(gate @ gate.T, torch.eye(SIZE), atol=1e-5, rtol=0)
    open_gates = core.bias_ih[SIZE : 2 * SIZE]
    assert (open_gates == (1.0 if kind == "lstm" else 0.0)).all()
    assert (core.bias_hh == 0).all()


@BOTH
def test_core_supports_deepcopy_and_functional_call(kind):
    """Copies have their own weights, and a functional call uses the weights passed to it."""
    core, features, state = make_case(kind)
    other = copy.deepcopy(core)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
    expected = other.step(features[0], state)[0]
    assert (core.step(features[0], state)[0] != expected).any()
    starts = torch.zeros(T, N, dtype=torch.bool)

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.core = core

        def forward(self):
            return self.core.step(features[0], state)[0], self.core.unroll(features, state, starts=starts)[0]

    weights = {f"core.{name}": tensor for name, tensor in other.state_dict().items()}
    step, unrolled = torch.func.functional_call(Both(), weights)
    torch.testing.assert_close(step, expected)
    torch.testing.assert_close(unrolled, other.unroll(features, state, starts=starts)[0])


@BOTH
def test_core_computes_in_float32_under_autocast(kind):
    """Outputs and state."""
    core, features, state = make_case(kind)
    starts = torch.zeros(T, N, dtype=torch.bool)
    exact = core.unroll(features.bfloat16().float(), state, starts=starts)[0]
    with torch.autocast("cpu", torch.bfloat16):
        outputs, after = core.unroll(features.bfloat16(), state, starts=starts)
        output, _ = core.step(features[0].bfloat16(), state)
    assert {outputs.dtype, output.dtype, *(leaf.dtype for leaf in after.values())} == {torch.float32}
    torch.testing.assert_close(outputs, exact)
