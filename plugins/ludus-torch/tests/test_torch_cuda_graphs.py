"""Graphed functions: when they are recorded and replayed, and when they are called."""

from __future__ import annotations

import logging
from contextlib import nullcontext

import pytest
import torch
from attrs import frozen
from ludus_torch import cuda_graphs
from ludus_torch.cuda_graphs import GraphedCallable
from ludus_torch.testing import recorded_on_cpu

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@frozen
class Inputs:
    """Two tensors."""

    left: torch.Tensor
    right: torch.Tensor

    def named(self):
        """Return them by name."""
        return {"left": self.left, "right": self.right}


def inputs_of(size, value, device="cpu"):
    """Return inputs of two vectors of `size` numbers."""
    return Inputs(torch.full((size,), float(value), device=device), torch.arange(size, device=device))


class Sum:
    """A function that counts its calls and sums its inputs."""

    def __init__(self, device="cpu"):
        self.calls = 0
        self.total = torch.zeros((), device=device)

    def __call__(self, inputs):
        self.calls += 1
        self.total += inputs.left.sum()
        return inputs.left + inputs.right, inputs.left.sum()


@pytest.fixture
def cuda():
    """Record graphs without a GPU."""
    with recorded_on_cpu() as made:
        yield made


def test_every_call_counts_once(cuda):
    """Whether it calls, records or replays the function, it uses the inputs of that call."""
    function = Sum()
    recorded = GraphedCallable(function)
    for value in (1, 2, 3, 4):
        summed, total = recorded(inputs_of(3, value))
        assert summed.tolist() == [value, value + 1, value + 2]
        assert total == 3 * value
    assert function.total == 3 * (1 + 2 + 3 + 4)
    assert len(cuda) == 1


def test_results_are_not_overwritten(cuda):
    """Later calls return other tensors."""
    recorded = GraphedCallable(Sum())
    found = [recorded(inputs_of(3, value))[0] for value in (1, 2, 3, 4)]
    assert [tensor[0].item() for tensor in found] == [1, 2, 3, 4]


def test_every_shape_has_its_own_recording(cuda):
    """Made by the second call with that shape."""
    recorded = GraphedCallable(Sum())
    for size in (3, 4, 3, 4, 3, 4):
        assert recorded(inputs_of(size, 2))[1] == 2 * size
    assert len(cuda) == 2


def test_outputs_keep_their_structure(cuda):
    """A function may return a dict of tensors."""
    graphed = GraphedCallable(lambda inputs: {"double": 2 * inputs.left})
    found = [graphed(inputs_of(2, value)) for value in (1, 2, 3)]
    assert [outputs["double"].tolist() for outputs in found] == [[2, 2], [4, 4], [6, 6]]
    assert len(cuda) == 1


def test_recordings_are_bounded(cuda):
    """Further shapes are computed without recordings."""
    recorded = GraphedCallable(Sum())
    for size in range(1, cuda_graphs._MAX_RECORDINGS + 5):
        for _ in range(3):
            assert recorded(inputs_of(size, 2))[1] == 2 * size
    assert len(cuda) == cuda_graphs._MAX_RECORDINGS


def test_functions_that_cannot_be_recorded_are_called(monkeypatch, caplog):
    """The failure is logged once, and no call counts twice."""

    def broken(*_, **__):
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 0), raising=False)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object, raising=False)
    monkeypatch.setattr(torch.cuda, "Stream", object)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(torch.cuda, "graph", broken)
    function = Sum()
    recorded = GraphedCallable(function)
    for _ in range(4):
        assert recorded(inputs_of(3, 1))[1] == 3
    assert function.total == 12
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "(RuntimeError: operation not permitted when stream is capturing)" in record.getMessage()


@needs_gpu
def test_a_gpu_replays_recordings():
    """Results equal those of a CPU, although the function is called only to record it."""
    functions = {device: Sum(device) for device in ("cpu", "cuda")}
    recorded, plain = GraphedCallable(functions["cuda"]), functions["cpu"]
    for value in range(6):
        for size in (3, 5):
            there, here = recorded(inputs_of(size, value, "cuda")), plain(inputs_of(size, value))
            for one, other in zip(there, here, strict=True):
                assert torch.equal(one.cpu(), other)
    assert functions["cuda"].total.item() == functions["cpu"].total.item()
    assert functions["cuda"].calls == 4


@needs_gpu
def test_a_gpu_works_after_a_failed_recording(caplog):
    """A function that waits for the GPU cannot be recorded."""

    def function(inputs):
        return (inputs.left * inputs.left.sum().item(),)

    recorded = GraphedCallable(function)
    for value in (1, 2, 3):
        (found,) = recorded(inputs_of(2, value, "cuda"))
        assert found.tolist() == [2 * value * value] * 2
    assert len(caplog.records) == 1
