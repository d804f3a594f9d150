"""How fast policies decide on a CPU, by runtime: ``python benchmarks/inference.py [compile]``.

An MLP 84-256-256 (relu) with a policy head of 7 and a value head of 1, on one thread. The first table is the network
alone, the second a whole decision of PPO: network, mask, sampling. The third is the network for 1,024 rows of 1 to 64
models in spans of equal length. Rates are rows per CPU second, medians of 7 rounds in which the runtimes take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch
from gymnasium import spaces
from ludus import Role
from ludus.algorithm import AlgorithmContext, PolicyInput
from ludus.inference import Eager, Inference, Span
from ludus.network import NetworkRequest, get_weights
from ludus_inference.compiled import Compiled
from ludus_inference.lean import Lean
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp
from ludus_ppo.algorithm import PPO
from ludus_ppo.config import PPOConfig
from ludus_ppo.policy import PPOPolicy
from threadpoolctl import threadpool_info

BATCHES = (1, 16, 64, 256, 1024)
MODELS = (1, 4, 16, 64)
SPAN_ROWS = 1024
ROUNDS, SECONDS = 7, 0.02
ROLE = Role(
    name="player",
    observation_space=spaces.Box(-1, 1, (84,), np.float32),
    action_space=spaces.Discrete(7),
    teams=(0, 1),
)
NETWORK = MLPConfig(activation="relu")
REQUEST = NetworkRequest(observation={"obs": ROLE.observation_space}, heads={"policy": 7}, critic_heads={"value": 1})
Runtime = Callable[[torch.nn.Module, NetworkRequest], Inference]


def policies(runtimes: Mapping[str, Runtime]) -> dict[str, tuple[Inference, PPOPolicy]]:
    """Return a runtime and a policy around it by name, all with the same network."""
    made: dict[str, tuple[Inference, PPOPolicy]] = {}
    for name, runtime in runtimes.items():
        inference = runtime(make_mlp(NETWORK, request=REQUEST), REQUEST)
        context = AlgorithmContext(
            role=ROLE,
            build_network=lambda request: make_mlp(NETWORK, request=request),
            build_inference=partial(_given, inference),
        )
        made[name] = inference, PPO(PPOConfig(), context=context).make_policy()
    return made


def _given(inference: Inference, *_: object) -> Inference:
    return inference


def rates(works: Mapping[str, Callable[[], object]], amount: int) -> dict[str, float]:
    """Return the median rate of each work in units per CPU second."""
    samples: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(ROUNDS):
        for name, work in works.items():
            calls, start = 0, time.process_time()
            while (spent := time.process_time() - start) < SECONDS:
                work()
                calls += 1
            samples[name].append(amount * calls / spent)
    return {name: statistics.median(times) for name, times in samples.items()}


def report(title: str, columns: tuple[int, ...], table: Mapping[int, Mapping[str, float]]) -> None:
    """Print one table."""
    print(f"{title:<22}" + "".join(f"{column:>11,}" for column in columns))
    for name in next(iter(table.values())):
        print(f"{name:<22}" + "".join(f"{table[column][name]:>11,.0f}" for column in columns))
    print()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compile", nargs="?", choices=["compile"], help="measure torch.compile, too")
    given = parser.parse_args()
    torch.set_num_threads(1)
    runtimes: dict[str, Runtime] = {"torch eager": Eager, "lean": Lean}
    if given.compile:
        runtimes["torch compile"] = Compiled
    kernels = ", ".join(
        f"{one['internal_api']} {one['architecture']}" for one in threadpool_info() if "architecture" in one
    )
    print(f"BLAS of NumPy: {kernels}\n")
    made, rng = policies(runtimes), np.random.default_rng(0)
    forward, decisions = {}, {}
    for rows in BATCHES:
        observation = {"obs": rng.standard_normal((rows, 84), dtype=np.float32)}
        mask = rng.random((rows, 7)) < 0.9
        mask[:, 0] = True
        alone = {
            name: lambda one=one, seen=observation: one.run(seen, privileged={}, state={})
            for name, (one, _) in made.items()
        }
        whole = {
            name: lambda one=one, seen=observation, mask=mask: one.act(PolicyInput(seen, action_mask=mask), rng=rng)
            for name, (_, one) in made.items()
        }
        forward[rows], decisions[rows] = rates(alone, rows), rates(whole, rows)
    report("network alone, rows", BATCHES, forward)
    report("decisions of PPO, rows", BATCHES, decisions)
    report("network, models", MODELS, {models: stacked(made, models, rng) for models in MODELS})


def stacked(made: Mapping[str, tuple[Inference, PPOPolicy]], models: int, rng: np.random.Generator) -> dict[str, float]:
    """Return rates of 1,024 rows that belong to several models."""
    observation = {"obs": rng.standard_normal((SPAN_ROWS, 84), dtype=np.float32)}
    size = SPAN_ROWS // models
    spans = [Span(slot, slot * size, (slot + 1) * size) for slot in range(models)]
    for slot in range(models):
        weights = get_weights(make_mlp(NETWORK, request=REQUEST))
        for inference, _ in made.values():
            inference.load(weights, slot=slot)
    works = {
        name: lambda one=one: one.run(observation, privileged={}, state={}, spans=spans)
        for name, (one, _) in made.items()
    }
    return rates(works, SPAN_ROWS)


if __name__ == "__main__":
    main()
