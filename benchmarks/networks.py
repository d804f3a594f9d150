"""How many rows a second the networks learn from: forward and backward on one core, by CPU time.

Run: ``OMP_NUM_THREADS=1 python benchmarks/networks.py [repeats]``
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from counts import at_least_one
from gymnasium import Space, spaces
from ludus.network import NetworkRequest, RecurrentNetwork
from ludus_networks.config import AETConfig, DISConfig, HoKConfig, MLPConfig, ModularConfig
from ludus_networks.description import count_parameters
from ludus_networks.modular import make_modular
from ludus_networks.network import make_mlp
from ludus_networks.presets import make_aet, make_dis, make_hok
from ludus_networks.reference import AETInputs
from torch import Tensor, nn

ENTRIES = 16  # of an unroll
START_SHARE = 0.005  # of the entries at which a match starts

FOOTBALL = NetworkRequest(  # DIS table 2: 214 features in 5v5; 19 actions
    observation={"obs": spaces.Box(-np.inf, np.inf, (214,), np.float32)},
    heads={"policy": 19},
    critic_heads={"value": 1},
)


def units(count: int) -> dict[str, Space[Any]]:
    """Return a type of units of the game below."""
    name = f"units{count}"
    return {name: spaces.Box(-9, 9, (count, 32), np.float32), f"{name}_present": spaces.MultiBinary(count)}


MOBA = NetworkRequest(
    observation={
        "map": spaces.Box(0, 255, (16, 16, 6), np.uint8),
        "state": spaces.Box(-9, 9, (64,), np.float32),
        **units(2),
        **units(8),
        **units(4),
    },
    heads={"policy": 12 + 4 * 16 + 14},
    critic_heads={"value": 1},
    labels={"policy": (12, 16, 16, 16, 16, 14)},
)


def leaves(group: Mapping[str, Space[Any]], *lead: int) -> dict[str, Tensor]:
    """Return random numbers ``[*lead, …]`` for every leaf."""
    rng = np.random.default_rng(0)
    return {
        name: torch.from_numpy(rng.integers(0, 2, (*lead, *(space.shape or ()))).astype(space.dtype))
        for name, space in group.items()
    }


def step(made: nn.Module, request: NetworkRequest, rows: int) -> Callable[[], object]:
    """Return a call that learns from so many rows."""
    lead = (ENTRIES, rows // ENTRIES) if isinstance(made, RecurrentNetwork) else (rows,)
    groups = leaves(request.observation, *lead), leaves(request.privileged, *lead)

    def call() -> None:
        if isinstance(made, RecurrentNetwork):
            starts = torch.rand(lead) < START_SHARE
            outputs, _ = made.unroll(*groups, made.initial_state(rows // ENTRIES), starts=starts)
        else:
            outputs, _ = made(*groups, {})
        loss = torch.stack([output.square().mean() for output in outputs.values()]).sum()
        loss.backward()  # type: ignore[no-untyped-call]

    return call


def rows_per_second(call: Callable[[], object], rows: int, repeats: int) -> float:
    """Return the median of several calls after one that warms up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return rows / statistics.median(times)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repeats", type=at_least_one, nargs="?", default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    inputs = AETInputs()
    cat, mouse = inputs.request("cat"), inputs.request("mouse")
    networks: dict[str, tuple[nn.Module, NetworkRequest]] = {
        "`mlp`, 214 features": (make_mlp(MLPConfig(), request=FOOTBALL), FOOTBALL),
        "`modular`, the same layers": (make_modular(ModularConfig(activation="tanh"), request=FOOTBALL), FOOTBALL),
        "the same, `normalize`": (
            make_modular(ModularConfig(activation="tanh", normalize=True), request=FOOTBALL),
            FOOTBALL,
        ),
        "`dis`, 214 features": (make_dis(DISConfig(), request=FOOTBALL), FOOTBALL),
        '`hok`, `core = "none"`': (make_hok(HoKConfig(core="none"), request=MOBA), MOBA),
        "`hok`, unrolled": (make_hok(HoKConfig(), request=MOBA), MOBA),
        "`aet`, cat": (make_aet(AETConfig(concat=inputs.one_by_one("cat")), request=cat), cat),
        "`aet`, mouse": (make_aet(AETConfig(concat=inputs.one_by_one("mouse")), request=mouse), mouse),
    }
    for name, (made, request) in networks.items():
        found = [rows_per_second(step(made, request, rows), rows, repeats) for rows in (256, 2048)]
        sys.stdout.write(f"| {name} | {count_parameters(made):,} | {found[0]:,.0f} | {found[1]:,.0f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
