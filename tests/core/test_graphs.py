"""Work that is recorded: what is copied where, and when it is called as it is."""

from __future__ import annotations

import logging
from contextlib import nullcontext

import pytest
import torch
from attrs import frozen
from ludus import graphs
from ludus.graphs import GraphedCallable
from ludus.testing import recorded_on_cpu

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
    """Return inputs of so many numbers each."""
    return Inputs(torch.full((size,), float(value), device=device), torch.arange(size, device=device))


class Sum:
    """A function that counts its calls, and keeps a total of what it has seen."""

    def __init__(self, device="cpu"):
        self.calls = 0
        self.total = torch.zeros((), device=device)

    def __call__(self, inputs):
        self.calls += 1
        self.total += inputs.left.sum()
        return inputs.left + inputs.right, inputs.left.sum()


@pytest.fixture
def cuda():
    """Let graphs be recorded without a GPU."""
    with recorded_on_cpu() as made:
        yield made


def test_every_call_counts_once(cuda):
    """Called as it is, recorded, or repeated, with the numbers of that call."""
    function = Sum()
    recorded = GraphedCallable(function)
    for value in (1, 2, 3, 4):
        summed, total = recorded(inputs_of(3, value))
        assert summed.tolist() == [value, value + 1, value + 2]
        assert total == 3 * value
    assert function.total == 3 * (1 + 2 + 3 + 4)
    assert len(cuda) == 1


def test_results_stay(cuda):
    """What a call has returned is not written over by the next ones."""
    recorded = GraphedCallable(Sum())
    found = [recorded(inputs_of(3, value))[0] for value in (1, 2, 3, 4)]
    assert [tensor[0].item() for tensor in found] == [1, 2, 3, 4]


def test_every_shape_has_a_recording_of_its_own(cuda):
    """From the second call with it on."""
    recorded = GraphedCallable(Sum())
    for size in (3, 4, 3, 4, 3, 4):
        assert recorded(inputs_of(size, 2))[1] == 2 * size
    assert len(cuda) == 2


def test_recordings_are_bounded(cuda):
    """Shapes that come too late are not recorded, but computed."""
    recorded = GraphedCallable(Sum())
    for size in range(1, graphs._MOST + 5):
        for _ in range(3):
            assert recorded(inputs_of(size, 2))[1] == 2 * size
    assert len(cuda) == graphs._MOST


def test_what_is_not_used_any_more_is_given_up(cuda, monkeypatch):
    """For a shape that comes again and again later on."""
    monkeypatch.setattr(graphs, "_UNUSED", 20)
    recorded = GraphedCallable(Sum())
    for size in range(1, graphs._MOST + 1):
        for _ in range(2):
            recorded(inputs_of(size, 2))
    for call in range(30):
        for size in (1, 100):
            assert recorded(inputs_of(size, call))[1] == call * size
    assert len(cuda) == graphs._MOST + 1
    for _ in range(2):
        assert recorded(inputs_of(2, 3))[1] == 6  # the one that was given up
    assert len(cuda) == graphs._MOST + 2


def test_what_cannot_be_recorded_is_called_as_it_is(monkeypatch, caplog):
    """The failure is told once, and counts no call twice."""

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
def test_a_gpu_repeats_what_was_recorded():
    """The same as a CPU, while the function is called only to be recorded."""
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
def test_a_gpu_goes_on_after_what_it_cannot_record(caplog):
    """Waiting for it cannot be recorded."""

    def function(inputs):
        return (inputs.left * inputs.left.sum().item(),)

    recorded = GraphedCallable(function)
    for value in (1, 2, 3):
        (found,) = recorded(inputs_of(2, value, "cuda"))
        assert found.tolist() == [2 * value * value] * 2
    assert len(caplog.records) == 1
