"""Gradients in chunks: sums in a fixed order, by any number of threads."""

from __future__ import annotations

import threading

import pytest
import torch
from ludus_ppo.gradients import ChunkedGradient
from torch import nn


def network() -> nn.Module:
    """Return a small network with a buffer and a parameter that gets no gradient."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    model.register_buffer("mean", torch.ones(3))
    model.register_parameter("idle", nn.Parameter(torch.ones(1)))
    return model


@pytest.fixture
def parts():
    """Return seven chunks of inputs of different size."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(rows, 3, generator=generator) for rows in (5, 9, 1, 4, 7, 3, 8)]


def gradients(model, threads, parts):
    """Return the results and the gradients of the sum of squares, chunk by chunk."""

    def backward(module, chunk):
        loss = module(parts[chunk]).square().sum()
        loss.backward()
        return loss.item()

    results = ChunkedGradient(model, threads).compute(len(parts), backward)
    return results, [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("threads", [1, 3])
def test_the_sum_over_chunks_is_the_gradient_of_all(parts, threads):
    """Chunked and unchunked gradients agree, and results come in the order of the chunks."""
    model, whole = network(), network()
    results, got = gradients(model, threads, parts)
    _, expected = gradients(whole, 1, [torch.cat(parts)])
    assert results == pytest.approx([whole(part).square().sum().item() for part in parts], rel=1e-5)
    assert got[0] is None
    torch.testing.assert_close(got[1:], expected[1:], rtol=1e-6, atol=1e-6)


def test_the_sum_does_not_depend_on_threads(parts):
    """Bit for bit, whoever computes which chunk when."""
    _, alone = gradients(network(), 1, parts)
    for threads in (2, 3, 9):
        _, together = gradients(network(), threads, parts)
        assert all(torch.equal(one, other) for one, other in zip(alone[1:], together[1:], strict=True))


def test_the_sum_does_not_depend_on_who_is_first(parts):
    """Chunks that finish in reverse order are added in order."""
    _, expected = gradients(network(), 1, parts[:3])
    done = [threading.Event() for _ in range(3)]
    model = network()

    def backward(module, chunk):
        if chunk < 2:
            assert done[chunk + 1].wait(5)
        module(parts[chunk]).square().sum().backward()
        done[chunk].set()

    ChunkedGradient(model, 3).compute(3, backward)
    got = [parameter.grad for parameter in model.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(expected[1:], got[1:], strict=True))


def test_replicas_share_values():
    """Whatever is loaded into the model or stepped by an optimiser is what every thread computes with."""
    model = network()
    gradient = ChunkedGradient(model, 2)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(7.0)
    meet = threading.Barrier(2)
    seen = {}

    def backward(module, _):
        meet.wait(5)
        seen[threading.get_ident()] = module
        module(torch.ones(1, 3)).sum().backward()

    gradient.compute(2, backward)
    assert len({id(module) for module in seen.values()}) == 2
    for module in seen.values():
        assert all((tensor == 7).all() for tensor in (*module.parameters(), *module.buffers()))


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_a_chunk_is_raised(parts, threads):
    """No further chunk is begun, and the next call works."""
    gradient = ChunkedGradient(network(), threads)
    begun = []

    def fail(_, chunk):
        begun.append(chunk)
        raise ValueError(f"chunk {chunk}")

    with pytest.raises(ValueError, match="chunk"):
        gradient.compute(50, fail)
    assert len(begun) <= threads

    def fine(module, chunk):
        module(parts[chunk]).sum().backward()
        return chunk

    assert gradient.compute(3, fine) == [0, 1, 2]


def test_an_error_of_a_helper_is_raised():
    """Also if the calling thread had nothing to complain about."""
    main = threading.get_ident()
    meet = threading.Barrier(2)

    def backward(module, _):
        meet.wait(5)
        module(torch.ones(1, 3)).sum().backward()
        if threading.get_ident() != main:
            raise ValueError("helper")

    with pytest.raises(ValueError, match="helper"):
        ChunkedGradient(network(), 2).compute(2, backward)
