"""How much memory the activations of a gradient step need, and how much they may take."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_SHARE = 16  # of the memory of the device, so that several learners fit beside samplers
_LEAST_BYTES, _MOST_BYTES = 1 << 28, 1 << 32


def memory_budget(activation_mb: int, device: torch.device) -> int:
    """Return how many bytes the activations of a gradient step may take.

    Args:
        activation_mb: Value of the option; 0: a sixteenth of the memory of the device, from 256 to 4096 MiB. Memory
            that is free does not count, since equal runs have equal results.
        device: Device of the trainer.
    """
    if activation_mb:
        return activation_mb << 20
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
    else:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(max(total // _SHARE, _LEAST_BYTES), _MOST_BYTES)


def saved_bytes(compute: Callable[[], Sequence[Tensor]]) -> int:
    """Return how many bytes of tensors a computation keeps for its gradient, weights included.

    Args:
        compute: Returns the results, which depend on the tensors that are counted.
    """
    storages: dict[int, int] = {}

    def record(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        results = compute()  # keep the tensors alive, so that no address is used twice
    del results
    return sum(storages.values())
