"""Compiled losses and gradients equal plain ones, and a failure falls back to plain code."""

from __future__ import annotations

import logging
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus_ppo.compiling import Compilable

COMPILE = "ludus_ppo.compiling.torch.compile"


def broken(function):
    """Return a function that fails after half of its work."""

    def call(*arguments):
        function(*arguments).backward()
        raise RuntimeError("no compiler\nand more")

    return call


def gradient_by(compilable, weight):
    """Return the gradient of weight² by a compilable function."""

    def work(square):
        weight.grad = None
        square(weight).backward()
        return weight.grad.item()

    return compilable.run(work)


def test_a_failure_is_logged_once(monkeypatch, caplog):
    """The gradient is that of the plain function, then and later."""
    monkeypatch.setattr(COMPILE, broken)
    compilable = Compilable(torch.square, compiled=True)
    for _ in range(3):
        weight = torch.tensor(3.0, requires_grad=True)
        assert gradient_by(compilable, weight) == 6.0
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "RuntimeError: no compiler)" in record.getMessage()


def test_errors_of_the_plain_function_are_raised(monkeypatch, caplog):
    """The compiled function stays in use."""
    monkeypatch.setattr(COMPILE, lambda function: function)
    compilable = Compilable(torch.square, compiled=True)
    with pytest.raises(RuntimeError, match="scalar"):
        gradient_by(compilable, torch.ones(2, requires_grad=True))
    assert not caplog.records
    assert compilable._compiled is not None


@pytest.mark.parametrize(("requested", "recurrent", "compiled"), [(True, False, 1), (False, False, 0), (True, True, 0)])
def test_networks_without_recurrence_are_compiled_on_request(make_ppo, monkeypatch, requested, recurrent, compiled):
    """Nothing is compiled by default."""
    compiled_functions = []
    monkeypatch.setattr(COMPILE, lambda function: compiled_functions.append(function) or function)
    ppo = make_ppo(compile=requested)
    if recurrent:
        monkeypatch.setattr("ludus_ppo.networks.ActorCritic.recurrent", property(lambda _: object()), raising=False)
    ppo.make_trainer(seed=1)
    assert len(compiled_functions) == compiled


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler, when it is first imported
# a number that falls between two of bfloat16 may be rounded to either: a hundredth of one of Adam's steps
@pytest.mark.parametrize(("precision", "atol"), [("fp32", 1e-5), ("bf16-backward", 1e-4)])
def test_the_real_compiler_learns_what_torch_learns(make_ppo, make_batch, caplog, precision, atol):
    """With batches of several sizes and a changing clip range; all metrics agree."""
    pytest.importorskip("torch._inductor")
    options = {"num_minibatches": 2, "clip_epsilon_final": 0.1, "learning_rate": 1e-2}
    options |= {"precision": precision, "hidden": (32, 32)}
    plain, compiled = (make_ppo(compile=flag, **options).make_trainer(seed=1) for flag in (False, True))
    for step, segments in enumerate((6, 5, 7, 6)):
        batch = make_batch(make_ppo(), segments=segments)
        one, other = (trainer.update(batch, progress=step / 4) for trainer in (plain, compiled))
        assert other.metrics == pytest.approx(one.metrics, rel=1e-3, abs=1e-5)
    for name, array in plain.weights().items():
        np.testing.assert_allclose(compiled.weights()[name], array, rtol=1e-3, atol=atol, err_msg=name)
    assert not [record for record in caplog.records if record.name.startswith("ludus")]
    assert compiled._gradient_step._losses._compiled is not None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler, when it is first imported
def test_code_is_compiled_in_one_piece_and_holds_for_every_clip_range(make_ppo, make_batch, monkeypatch):
    """Also with several labels; a changing clip range does not trigger a compilation."""
    pytest.importorskip("torch._functorch.aot_autograd")
    torch.compiler.reset()  # what is known from other tests
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    monkeypatch.setattr(COMPILE, partial(torch.compile, backend=backend))
    ppo = make_ppo(spaces.MultiDiscrete([3, 2]), compile=True, num_minibatches=2, clip_epsilon_final=0.1)
    trainer = ppo.make_trainer(seed=1)
    for step, segments in enumerate((6, 5, 7)):
        trainer.update(make_batch(ppo, segments=segments), progress=step / 4)
    assert trainer._gradient_step._losses._compiled is not None
    assert len(graphs) == 2  # the first for its shapes alone, the second for all others
