"""Steps per second of the PettingZoo and Gymnasium adapters beside the bare environments, in the same run.

Usage: python benchmarks/adapters.py [--seconds 1.0] [--rounds 3] [--matches 64] [--workers 2] [--cpu]

A step is one action of one match. The bare loops do what a learner needs too: they read observations and masks, draw
random legal actions and reset. "raw" is PettingZoo's environment without any wrapper, as many at once as the adapter
has matches: the most that an adapter can reach. "vector" is Gymnasium's own vectorised environment, which starts
matches from one stream of random numbers instead of a seed each. The adapters' actions are drawn before the clock
runs, where there are no masks. Rates are the best of the rounds, which alternate, so that what else runs on the
machine disturbs all alike. On a busy machine --cpu measures the processor time of this process instead of wall-clock
time, and leaves the workers out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import gymnasium
import numpy as np
import pettingzoo
from counts import at_least_one
from ludus.environment import Environment
from ludus_gymnasium.config import GymnasiumConfig
from ludus_gymnasium.environment import make_environment as make_gymnasium
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment as make_pettingzoo

Loop = Iterator[int]  # yields how many steps it has made


def bare_connect_four() -> Loop:
    """Play PettingZoo's own loop: last, step."""
    env = pettingzoo.make("aec", "classic/connect_four_v3")
    draws = np.random.default_rng(0).random(4096).tolist()
    count = 0
    while True:
        env.reset(seed=count)
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.step(None)
                continue
            legal = observation["action_mask"].nonzero()[0]
            env.step(int(legal[int(draws[count % 4096] * len(legal))]))
            count += 1
            yield count


def raw_connect_four(matches: int) -> Loop:
    """Play PettingZoo's environments in turn without wrappers and copy what is seen into arrays."""
    envs = [pettingzoo.make("aec", "classic/connect_four_v3").unwrapped for _ in range(matches)]
    drawn = np.random.default_rng(0).random((256, matches, 7))
    seen, mask = np.zeros((matches, 6, 7, 2), np.int8), np.zeros((matches, 7), np.bool_)

    def observe(index: int, env: pettingzoo.AECEnv) -> None:
        observation = env.observe(env.agent_selection)
        seen[index], mask[index] = observation["observation"], observation["action_mask"]

    for index, env in enumerate(envs):
        env.reset(seed=index)
        observe(index, env)
    count = 0
    while True:
        actions = (drawn[count // matches % 256] * mask).argmax(axis=1).tolist()
        for index, env in enumerate(envs):
            env.step(actions[index])
            if any(env.terminations.values()):
                for agent in env.agents:
                    env.observe(agent)
                env.reset(seed=count)
            observe(index, env)
        count += matches
        yield count


def vector_cart_pole(matches: int) -> Loop:
    """Step Gymnasium's vectorised environment, which starts matches again by itself."""
    env = gymnasium.make_vec("CartPole-v1", matches, vectorization_mode="vector_entry_point")
    actions = np.random.default_rng(0).integers(0, 2, (256, matches))
    env.reset(seed=0)
    count = 0
    while True:
        env.step(actions[count // matches % 256])
        count += matches
        yield count


def bare_cart_pole() -> Loop:
    """Play Gymnasium's own loop, without its checker, which the adapter leaves out as well."""
    env = gymnasium.make("CartPole-v1", disable_env_checker=True)
    actions = np.random.default_rng(0).integers(0, 2, 4096)
    count = 0
    while True:
        env.reset(seed=count)
        ended = False
        while not ended:
            _, _, terminated, truncated, _ = env.step(actions[count % 4096])
            ended = terminated or truncated
            count += 1
            yield count


def batched(env: Environment) -> Loop:
    """Play a ludus environment with random legal actions."""
    (role,) = env.spec.roles
    batch = env.num_matches
    random = np.random.default_rng(0)
    choices = int(role.action_space.n)  # type: ignore[attr-defined]
    drawn = random.random((256, batch, role.num_seats, choices))
    unmasked = drawn.argmax(axis=3)[..., None]
    tick = env.reset(np.arange(batch, dtype=np.uint64))
    count = steps = 0
    while True:
        mask = tick.roles[role.name].action_mask
        actions = unmasked[steps % 256] if mask is None else (drawn[steps % 256] * mask).argmax(axis=2)[..., None]
        tick = env.step({role.name: actions})
        ended = np.flatnonzero(tick.terminated | tick.truncated)
        if len(ended):
            tick = env.reset(np.arange(count, count + len(ended), dtype=np.uint64), indices=ended)
        steps += 1
        count += batch
        yield count


def rate(loop: Loop, seconds: float, clock: Callable[[], float]) -> float:
    """Return the steps per second of the next `seconds` of a loop."""
    first = count = next(loop)
    start = clock()
    while clock() - start < seconds:
        for _ in range(16):
            count = next(loop)
    return (count - first) / (clock() - start)


def report(title: str, loops: dict[str, Loop], *, given: argparse.Namespace) -> None:
    """Measure the loops in turn and print rates and ratios to the first."""
    clock = time.process_time if given.cpu else time.perf_counter
    if given.cpu:
        loops = {name: loop for name, loop in loops.items() if "workers" not in name}
    best = dict.fromkeys(loops, 0.0)
    for _ in range(given.rounds):
        for name, loop in loops.items():
            best[name] = max(best[name], rate(loop, given.seconds, clock))
    bare = next(iter(best.values()))
    print(title)
    for name, steps_per_s in best.items():
        print(f"  {name:<24}{steps_per_s:>12,.0f} steps/s  {steps_per_s / bare:>6.2f} x bare")


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=at_least_one, default=3)
    parser.add_argument("--matches", type=at_least_one, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    made: list[Environment] = []

    def make(factory: Callable[..., Environment], config: object) -> Loop:
        made.append(factory(config, num_matches=given.matches))
        return batched(made[-1])

    connect_four = {
        "bare": bare_connect_four(),
        "raw": raw_connect_four(given.matches),
        "series": make(make_pettingzoo, PettingZooConfig()),
        f"{given.workers} workers": make(make_pettingzoo, PettingZooConfig(workers=given.workers)),
    }
    cart_pole = {
        "bare": bare_cart_pole(),
        "vector": vector_cart_pole(given.matches),
        "series": make(make_gymnasium, GymnasiumConfig(vectorized="series")),
        f"{given.workers} workers": make(make_gymnasium, GymnasiumConfig(workers=given.workers)),
        "native": make(make_gymnasium, GymnasiumConfig(vectorized="native")),
    }
    with suppress(KeyboardInterrupt):
        report(f"connect_four_v3, {given.matches} matches", connect_four, given=given)
        report(f"CartPole-v1, {given.matches} matches", cart_pole, given=given)
    for env in made:
        env.close()


if __name__ == "__main__":
    main()
