"""Samples per second of every algorithm's learner, beside a hand-written torch loop that does the same (`loops.py`).

Both begin with equal networks, see the same data and draw the same minibatches; how far their weights lie apart after
a first, small update is part of the result. Then they take turns, and with them the matrix products of the loop alone,
which nothing that multiplies the same can be faster than. Networks: ``mlp``, two layers of 256; ``gru``, the
same with a memory; ``aet`` and ``hok``, the presets (``hok`` without memory and targets for algorithms that refuse
these).

Run: ``python benchmarks/learners.py [--threads 1] [--device cpu] [--only ppo-mlp,dqn-hok] [--json]``. With one thread
on the CPU times are those of the processor, else of the clock.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from attrs import frozen
from counts import at_least_one
from gymnasium import Space, spaces
from loops import DQNLoop, Novelty, PPOLoop, SACLoop, Stream
from ludus import Role
from ludus.algorithm import AlgorithmContext, Trainer
from ludus.network import NetworkRequest
from ludus.segment import SegmentBatch
from ludus.spaces import label_sizes, leaf_spaces
from ludus_bench.gemm import torch_work, trace_gemms
from ludus_dqn.algorithm import DQN
from ludus_dqn.config import DQNConfig
from ludus_mappo.algorithm import make_mappo
from ludus_mappo.config import MAPPOConfig
from ludus_networks.config import AETConfig, HoKConfig, MLPConfig, ModularConfig
from ludus_networks.modular import make_modular
from ludus_networks.network import make_mlp
from ludus_networks.presets import make_aet, make_hok
from ludus_ppo.algorithm import PPO
from ludus_ppo.config import PPOConfig
from ludus_rnd_ppo.algorithm import RNDPPO
from ludus_rnd_ppo.config import RNDPPOConfig
from ludus_sac.algorithm import SAC
from ludus_sac.config import SACConfig
from torch import nn

STEPS = 16  # decisions of a segment
COMPARED = 2048  # decisions of the update after which weights are compared: rounding errors grow with every step
REPLAY = {"capacity": 50_000, "minibatch": 256}
CASES = (
    *(f"{name}-{network}" for name in ("ppo", "rnd-ppo", "mappo") for network in ("mlp", "gru", "aet", "hok")),
    *(f"{name}-{network}" for name in ("dqn", "sac") for network in ("mlp", "hok")),
)
FLAT: dict[str, Space[Any]] = {"obs": spaces.Box(-1, 1, (84,), np.float32)}
MOBA: dict[str, Space[Any]] = {
    "map": spaces.Box(0, 255, (16, 16, 6), np.uint8),
    "state": spaces.Box(-9, 9, (64,), np.float32),
    **{f"units{count}": spaces.Box(-9, 9, (count, 32), np.float32) for count in (2, 8, 4)},
    **{f"units{count}_present": spaces.MultiBinary(count) for count in (2, 8, 4)},
}
HIDDEN: dict[str, Space[Any]] = {"hidden": spaces.Box(-1, 1, (168,), np.float32)}


@frozen(kw_only=True)
class Case:
    """A trainer and the loop that does the same.

    Attributes:
        trainer: What is measured.
        batch: What it learns from.
        loop: The hand-written one, with its data.
        modules: Its networks, by what their names in the trainer's weights begin with.
        samples: Of an update.
    """

    trainer: Trainer
    batch: SegmentBatch
    loop: Callable[[], object]
    modules: Mapping[str, nn.Module]
    samples: int

    def update(self) -> None:
        """Let the trainer learn."""
        self.trainer.update(self.batch, progress=0.0)

    def apart(self) -> float:
        """Return the largest difference of a weight between trainer and loop."""
        weights = self.trainer.weights()
        return max(
            float(np.abs(weights[prefix + name] - tensor.detach().cpu().numpy()).max())
            for prefix, module in self.modules.items()
            for name, tensor in module.state_dict().items()
        )


class Built:
    """Builds networks, and keeps a copy of each as it was at first."""

    def __init__(self, network: str, *, recurrent: bool, compiled: bool) -> None:
        self.copies: list[nn.Module] = []
        self._network, self._recurrent, self._compiled = network, recurrent, compiled

    def __call__(self, request: NetworkRequest) -> nn.Module:
        """Return the network."""
        made = self._make(request)
        self.copies.append(copy.deepcopy(made))
        if self._compiled:
            made.compile()
            self.copies[-1].compile()
        return made

    def _make(self, request: NetworkRequest) -> nn.Module:
        if self._network == "mlp":
            return make_mlp(MLPConfig(), request=request)
        if self._network == "gru":
            return make_modular(ModularConfig(torso=(256, 256), core="gru", activation="tanh"), request=request)
        if self._network == "aet":
            return make_aet(AETConfig(), request=request)
        config = HoKConfig() if request.labels and self._recurrent else HoKConfig(target=-1)
        return make_hok(config if self._recurrent else HoKConfig(core="none", target=-1), request=request)


def make_role(network: str, action_space: Space[Any], *, privileged: bool) -> Role:
    """Return a role whose observations the network reads."""
    return Role(
        name="player",
        observation_space=spaces.Dict(MOBA if network in ("aet", "hok") else FLAT),
        action_space=action_space,
        teams=(0, 1),
        privileged_space=spaces.Dict(HIDDEN) if privileged else None,
    )


def random_leaf(space: Space[Any], lead: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return values of a leaf; of entities at least the first is there."""
    shape = (*lead, *(space.shape or ()))
    if space.dtype == np.float32:
        return rng.standard_normal(shape, dtype=np.float32)
    found = rng.integers(0, 256 if isinstance(space, spaces.Box) else 2, shape).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        found[..., 0] = 1
    return found


def make_batch(
    role: Role, segments: int, rng: np.random.Generator, *, values: tuple[str, ...] = (), state: Mapping[str, Any]
) -> SegmentBatch:
    """Return full segments of random decisions, about one in 200 of which ends its match."""
    lead = (STEPS + 1, segments)
    action: np.ndarray = rng.uniform(-1, 1, (*lead, *(role.action_space.shape or ()))).astype(np.float32)
    mask, extras = None, {name: 0.1 * rng.standard_normal(lead, dtype=np.float32) for name in values}
    if sizes := label_sizes(role.action_space):
        action = rng.integers(0, sizes, (*lead, len(sizes)))
        mask = rng.random((*lead, sum(sizes))) < 0.9
        np.put_along_axis(mask, action + np.cumsum([0, *sizes[:-1]]), values=True, axis=2)
        if values:  # of a policy that is nearly uniform, as it is at first
            legal = np.add.reduceat(mask, np.cumsum([0, *sizes[:-1]]), axis=2, dtype=np.float32)
            extras["log_prob"] = -np.log(legal) + 0.1 * rng.standard_normal(legal.shape, dtype=np.float32)
    return SegmentBatch(
        observation={n: random_leaf(s, lead, rng) for n, s in leaf_spaces(role.observation_space).items()},
        privileged={n: random_leaf(s, lead, rng) for n, s in leaf_spaces(role.privileged_space).items()},
        action=action,
        action_mask=mask,
        reward=rng.standard_normal(lead, dtype=np.float32),
        terminated=rng.random(lead) < 0.005,
        truncated=np.zeros(lead, bool),
        decided=np.ones(lead, bool),
        elapsed_ticks=np.ones(lead, np.int32),
        extras=extras,
        initial_state={name: np.zeros((segments, *leaf.shape[1:]), leaf.dtype) for name, leaf in state.items()},
        length=np.full(segments, STEPS, np.int32),
        version=np.zeros(segments, np.int64),
    )


# -- on-policy -----------------------------------------------------------------------------------------------------


def make_ppo_case(name: str, network: str, arguments: argparse.Namespace) -> Case:
    """Return PPO, RND-PPO or MAPPO with the loop."""
    wide = network in ("aet", "hok")
    discrete = spaces.MultiDiscrete([12, 16, 16, 16, 16, 14]) if wide else spaces.Discrete(7)
    role = make_role(network, discrete, privileged=name == "mappo")
    built = Built(network, recurrent=True, compiled=arguments.compile)
    context = AlgorithmContext(role=role, build_network=built)
    # what calls oneDNN by itself cannot be compiled
    common = {"precision": arguments.precision, "cpu_kernels": "plain" if arguments.compile else "auto"}
    algorithms: dict[str, Callable[[], Any]] = {
        "ppo": lambda: PPO(PPOConfig(**common), context=context),
        "rnd-ppo": lambda: RNDPPO(RNDPPOConfig(**common), context=context),
        "mappo": lambda: make_mappo(MAPPOConfig(**common), context=context),
    }
    algorithm = algorithms[name]()
    state = algorithm.make_policy().initial_state(1)
    built.copies.clear()
    trainer = algorithm.make_trainer(seed=0, device=arguments.device)
    networks = [module.to(arguments.device) for module in built.copies]
    values = ("value", "intrinsic_value") if name == "rnd-ppo" else ("value",)
    batch = make_batch(role, arguments.decisions // STEPS, np.random.default_rng(0), values=values, state=state)
    loop = make_ppo_loop(name, networks, role, arguments)
    prefixes = ("network.policy.", "network.critic.") if name == "mappo" else ("network.",)
    return Case(
        trainer=trainer,
        batch=batch,
        loop=lambda: loop.update(on_device(batch, arguments.device)),
        modules=dict(zip(prefixes, loop.networks, strict=True)),
        samples=arguments.decisions,
    )


def make_ppo_loop(name: str, networks: list[nn.Module], role: Role, arguments: argparse.Namespace) -> PPOLoop:
    """Return the loop with networks of its own."""
    device = torch.device(arguments.device)
    seat_ids, novelty = [Stream("value")], None
    if name == "rnd-ppo":
        networks, target, predictor = networks[:1], *networks[1:]
        seat_ids = [Stream("value", weight=2.0), Stream("intrinsic_value", weight=8.0)]
        read = {n: s.shape for n, s in leaf_spaces(role.observation_space).items() if isinstance(s, spaces.Box)}
        novelty = Novelty(target, predictor, read, device=device)
    elif name == "mappo":
        scale = torch.tensor([0.0, 1.0], device=device)
        seat_ids = [Stream("value", moments=torch.zeros(3, device=device), scale=scale)]
    return PPOLoop(
        networks,
        sizes=label_sizes(role.action_space),
        seat_ids=seat_ids,
        novelty=novelty,
        bf16=arguments.precision == "bf16",
    )


def on_device(batch: SegmentBatch, device: str) -> dict[str, Any]:
    """Return a batch as `PPOLoop` takes it."""

    def send(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(device)

    assert batch.action_mask is not None
    starts = np.zeros_like(batch.terminated)
    starts[1:] = batch.terminated[:-1]
    return {
        "seen": {name: send(leaf) for name, leaf in batch.observation.items()},
        "more": {name: send(leaf) for name, leaf in batch.privileged.items()},
        "starts": send(starts) if batch.initial_state else None,
        "action": send(batch.action),
        "mask": send(batch.action_mask),
        "reward": send(batch.reward[:-1]),
        "ended": send(batch.terminated[:-1]),
        **{name: send(extra) for name, extra in batch.extras.items()},
    }


# -- off-policy ----------------------------------------------------------------------------------------------------


def make_replay_case(name: str, network: str, arguments: argparse.Namespace) -> Case:
    """Return DQN on discrete or SAC on continuous actions, with the loop."""
    actions = spaces.Discrete(7) if name == "dqn" else spaces.Box(-1, 1, (4,), np.float32)
    role = make_role(network, actions, privileged=False)
    built = Built(network, recurrent=False, compiled=arguments.compile)
    context = AlgorithmContext(role=role, build_network=built)
    steps = max(1, arguments.decisions // REPLAY["minibatch"])
    options: dict[str, Any] = {
        "replay_capacity": REPLAY["capacity"],
        "minibatch_size": REPLAY["minibatch"],
        "updates_per_batch": steps,
        "learning_starts": 1,
    }
    algorithm: Any = (
        DQN(DQNConfig(**options), context=context) if name == "dqn" else SAC(SACConfig(**options), context=context)
    )
    trainer = algorithm.make_trainer(seed=0, device=arguments.device)
    networks = [module.to(arguments.device) for module in built.copies]
    batch = make_batch(role, arguments.decisions // STEPS, np.random.default_rng(0), state={})
    new = transitions(batch)
    loop: DQNLoop | SACLoop = (
        DQNLoop(networks[0], steps=steps, **REPLAY)
        if name == "dqn"
        else SACLoop(networks[0], networks[1:], steps=steps, **REPLAY)
    )
    prefixes = ("network.",) if name == "dqn" else ("actor.", "critics.networks.0.", "critics.networks.1.")
    return Case(
        trainer=trainer,
        batch=batch,
        loop=lambda: loop.update(new),
        modules=dict(zip(prefixes, networks, strict=True)),
        samples=steps * REPLAY["minibatch"],
    )


def transitions(batch: SegmentBatch) -> dict[str, np.ndarray]:
    """Return a batch as the loops' memory takes it, segment by segment."""

    def flat(array: np.ndarray) -> np.ndarray:
        return array.swapaxes(0, 1).reshape(-1, *array.shape[2:])

    found = {f"seen/{name}": flat(leaf[:-1]) for name, leaf in batch.observation.items()}
    found |= {f"after/{name}": flat(leaf[1:]) for name, leaf in batch.observation.items()}
    found |= {"action": flat(batch.action[:-1]), "reward": flat(batch.reward[:-1])}
    if batch.action_mask is not None:
        found["mask_after"] = flat(batch.action_mask[1:])
    return {**found, "discount": np.float32(0.99) * ~flat(batch.terminated[:-1])}


# -- measuring -----------------------------------------------------------------------------------------------------


def clock(arguments: argparse.Namespace) -> float:
    """Return seconds, of the processor where only one of its cores is at work."""
    if arguments.device != "cpu":
        torch.cuda.synchronize(arguments.device)
        return time.perf_counter()
    return time.process_time() if arguments.threads == 1 else time.perf_counter()


def make_case(name: str, arguments: argparse.Namespace) -> Case:
    """Return a case by its name, after a first update of both."""
    algorithm, _, network = name.rpartition("-")
    make = make_replay_case if algorithm in ("dqn", "sac") else make_ppo_case
    case = make(algorithm, network, arguments)
    case.update()
    case.loop()
    return case


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the median rates of a case, and the median ratio of neighbouring turns."""
    few = argparse.Namespace(**{**vars(arguments), "decisions": min(COMPARED, arguments.decisions)})
    apart = make_case(name, few).apart()
    case = make_case(name, arguments)
    products = torch_work(trace_gemms(case.loop), case.samples, device=arguments.device)
    products()
    works: tuple[Callable[[], object], ...] = (case.update, case.loop, products)
    found: list[list[float]] = [[] for _ in works]
    for number in range(arguments.rounds):
        for which in (0, 1, 2) if number % 2 else (1, 0, 2):
            start = clock(arguments)
            works[which]()
            found[which].append(case.samples / (clock(arguments) - start))
    ludus, loop, limit = (statistics.median(rates) for rates in found)
    ratio = statistics.median(one / other for one, other in zip(*found[:2], strict=True))
    return {"case": name, "ludus": ludus, "loop": loop, "ratio": ratio, "apart": apart, "products": limit}


def parse(given: list[str] | None = None) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES), help="cases, separated by commas")
    parser.add_argument("--decisions", type=at_least_one, default=16_384, help="decisions of a batch")
    parser.add_argument("--rounds", type=at_least_one, default=7, help="turns of each; the median counts")
    parser.add_argument("--threads", type=at_least_one, default=1, help="threads of torch")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--compile", action="store_true", help="compile both's networks by torch.compile; not unrolls")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16-backward", "bf16"), help="of PPO")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    arguments = parser.parse_args(given)
    if unknown := set(arguments.only.split(",")) - set(CASES):
        parser.error(f"unknown cases: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.exit(1, "torch finds no CUDA device here\n")
    return arguments


def main() -> None:
    """Measure and print."""
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    found = []
    for name in arguments.only.split(","):
        result = measure(name, arguments)
        found.append(result)
        if not arguments.json:
            sys.stdout.write(
                f"{name:<12} ludus {result['ludus']:>10,.0f}/s   loop {result['loop']:>10,.0f}/s   "
                f"ratio {result['ratio']:.2f}   products {result['products']:>11,.0f}/s   "
                f"weights apart {result['apart']:.0e}\n"
            )
            sys.stdout.flush()
    if arguments.json:
        sys.stdout.write(json.dumps({"options": vars(arguments), "cases": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
