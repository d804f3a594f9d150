"""Process groups exchange arrays, and report lost processes."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from ludus.errors import LinkError
from ludus_local.group import LocalRendezvous
from ludus_local.memory import SharedFolder

SPAWN = multiprocessing.get_context("spawn")
TIMEOUT_S = 60.0


class Weights:
    """A trainer with weights, state and a group."""

    def __init__(self, rank):
        self._weights = {"b": np.full((2, 3), rank, np.float32), "a": np.full((), rank, np.float64)}
        self._state = {"seed": np.array(rank + 5), "flags": np.array([rank == 0, True]), "none": np.zeros((0, 2))}

    def weights(self):
        """Return copies of the weights."""
        return {name: array.copy() for name, array in self._weights.items()}

    def state(self):
        """Return copies of the state."""
        return {name: array.copy() for name, array in self._state.items()}

    def load_weights(self, weights):
        """Set the weights."""
        self._weights = weights

    def load_state(self, state):
        """Set the state."""
        self._state = state

    def join(self, group):
        """Set the group."""
        self.group = group


def rendezvous(folder, rank):
    """Return the rendezvous of a process."""
    return LocalRendezvous(folder, SharedFolder(folder, f"learner-{rank}"))


def wait_for(pending):
    """Return a pending group once all processes have joined."""
    while (group := pending.poll()) is None:
        time.sleep(0.01)
    return group


def form(folder, name, *, rank, size=2):
    """Open a group as rank 0, or join it."""
    import torch

    torch.set_num_threads(1)
    where = rendezvous(folder, rank)
    while rank:
        with suppress(LinkError):  # not opened yet
            return where.join(name, rank=rank, size=size, timeout_s=TIMEOUT_S)
        time.sleep(0.01)
    return wait_for(where.open(name, size=size, timeout_s=TIMEOUT_S))


def exchange(rank, folder, size, results):
    """Put the results of all methods of a group into a queue."""
    import torch
    from ludus._learning.data_parallel import synchronize

    group = form(folder, "group-1", rank=rank, size=size)
    mean = [torch.tensor([1.0, 2.0]) * rank, torch.tensor([[4.0]]) * rank]
    group.mean(mean, weight=1 + 2 * rank)
    exact = torch.tensor([0.1 * (rank + 1)], dtype=torch.float64)
    group.mean([exact])
    large = [torch.arange(50_000.0) * (rank + 1), torch.ones(7, 5, requires_grad=True)]
    group.mean(large)  # does not fit into the present files
    assert torch.allclose(large[0], torch.arange(50_000.0) * (size + 1) / 2, rtol=1e-6)
    assert torch.equal(large[1], torch.ones(7, 5))
    copied = [torch.tensor([rank, 7]), torch.tensor([rank == 1])]
    group.copy(copied, source=1)
    group.copy([], source=0)
    much = [torch.full((3_000_001,), rank, dtype=torch.uint8)]  # larger than the capacity
    group.copy(much, source=1)
    assert much[0].all()
    least = [group.least(3 - rank), group.least(float("inf"))]
    group.close()

    trainer = Weights(rank)
    synchronize(trainer, form(folder, "again", rank=rank, size=size))
    everything = {**trainer.weights(), **trainer.state()}
    contents = {name: (str(array.dtype), array.tolist()) for name, array in everything.items()}
    results.put((rank, [tensor.tolist() for tensor in (*mean, exact, *copied)], least, contents))
    trainer.group.close()


def lose(rank, folder, size, results):
    """Lose a process during an exchange, and form another group."""
    import torch

    name, place = {0: ("first", 0), 1: ("first", 1), 2: ("second", 1)}[rank]
    group = form(folder, name, rank=place)
    if rank == 1:
        os._exit(0)
    if rank == 0:
        began = time.monotonic()
        try:
            while True:
                group.mean([torch.ones(10)])
        except LinkError as error:
            results.put((str(error), time.monotonic() - began))
        group.close()
        group = form(folder, "second", rank=0)
    both = [torch.tensor([float(rank)])]
    group.mean(both)
    results.put((rank, both[0].item()))
    group.close()


def run_processes(target, size, folder):
    """Return the results of one process per rank."""
    results = SPAWN.SimpleQueue()
    processes = [SPAWN.Process(target=target, args=(rank, folder, size, results)) for rank in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * size
    return [results.get() for _ in range(size)]


@pytest.mark.slow
def test_all_methods_of_a_group(tmp_path):
    """Weighted means, minima and copies are equal to the bit; trainers become that of rank 0; no file is left."""
    size = 3
    (_, *one), *others = sorted(run_processes(exchange, size, tmp_path))
    assert all(other == one for _, *other in others)
    tensors, least, trainer = one
    ranks = np.arange(size)
    mean = np.average(ranks, weights=1 + 2 * ranks)
    assert tensors[0] == pytest.approx([mean, 2 * mean])
    assert tensors[1:] == [[pytest.approx([4 * mean])], pytest.approx([0.05 * (size + 1)], abs=1e-15), [1, 7], [True]]
    assert least == [4 - size, float("inf")]
    assert trainer == {
        "b": ("float32", [[0.0] * 3] * 2),
        "a": ("float64", 0.0),
        "seed": ("int64", 5),
        "flags": ("bool", [True, True]),
        "none": ("float64", []),
    }
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_lost_process_is_noticed_at_once(tmp_path):
    """Long before the timeout; a process may form one group after another."""
    (error, waited_s), *rest = run_processes(lose, 3, tmp_path)
    assert "connection to a process of the group lost" in error
    assert waited_s < TIMEOUT_S / 2
    assert sorted(rest) == [(0, 1.0), (2, 1.0)]


def test_opening_a_group_does_not_block(tmp_path):
    """Processes that join and leave again are noticed."""
    pending = rendezvous(tmp_path, 0).open("group-1", size=3, timeout_s=TIMEOUT_S)
    assert pending.poll() is None
    one = rendezvous(tmp_path, 1).join("group-1", rank=1, size=3, timeout_s=TIMEOUT_S)
    assert pending.poll() is None
    two = rendezvous(tmp_path, 2).join("group-1", rank=2, size=3, timeout_s=TIMEOUT_S)
    group = pending.poll()
    assert (group.rank, group.size) == (0, 3)
    one.close()
    with pytest.raises(LinkError, match="connection to a process of the group lost"):
        group.least(1)
    group.close()
    with pytest.raises(LinkError, match="connection to a process of the group lost"):
        two.least(1)
    two.close()
    assert not list(tmp_path.iterdir())


def test_processes_at_different_operations_raise(tmp_path):
    """Instead of adding up unrelated values."""
    import torch

    pending = rendezvous(tmp_path, 0).open("group-1", size=2, timeout_s=TIMEOUT_S)
    one = rendezvous(tmp_path, 1).join("group-1", rank=1, size=2, timeout_s=TIMEOUT_S)
    group = wait_for(pending)
    with ThreadPoolExecutor(2) as pool:
        least, mean = pool.submit(group.least, 1), pool.submit(one.mean, [torch.ones(3)])
    for failed in (least, mean):
        with pytest.raises(LinkError, match="process group out of step: "):
            failed.result()
    group.close()
    one.close()
    assert not list(tmp_path.iterdir())


def test_joining_a_group_that_was_given_up_raises(tmp_path):
    """Before and after it was closed."""
    pending = rendezvous(tmp_path, 0).open("group-1", size=3, timeout_s=TIMEOUT_S)
    one = rendezvous(tmp_path, 1).join("group-1", rank=1, size=3, timeout_s=TIMEOUT_S)
    assert pending.poll() is None
    pending.close()
    with pytest.raises(LinkError, match="connection to a process of the group lost"):
        one.least(1)
    one.close()
    with pytest.raises(LinkError, match="the learner has closed the process group group-1"):
        rendezvous(tmp_path, 1).join("group-1", rank=1, size=3, timeout_s=TIMEOUT_S)
    assert not list(tmp_path.iterdir())
