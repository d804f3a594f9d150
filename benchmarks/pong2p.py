"""How fast two-player Pong is, on one core: ``python benchmarks/pong2p.py``."""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from ludus_pong2p.config import Pong2pConfig
from ludus_pong2p.environment import Pong2p, make_environment

BATCHES = (64, 256, 1024)
REPEATS = 5
SECONDS = 0.5


def decisions_per_second(environment: Pong2p) -> float:
    """Return random seat decisions per CPU second, resets included and the choice of actions not."""
    matches = environment.num_matches
    rng = np.random.default_rng(0)
    actions = rng.integers(3, size=(64, matches, 2, 1))
    environment.reset(np.arange(matches, dtype=np.uint64))
    steps, start = 0, time.process_time()
    while time.process_time() < start + SECONDS:
        tick = environment.step({"player": actions[steps % len(actions)]})
        steps += 1
        ended = np.flatnonzero(tick.terminated | tick.truncated)
        if ended.size:
            environment.reset(ended.astype(np.uint64) + np.uint64(steps), indices=ended)
    return 2 * matches * steps / (time.process_time() - start)


def main() -> None:
    """Print a table with one column per batch size: medians of some repeats."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(f"{'matches':22}" + "".join(f"{batch:>14,}" for batch in BATCHES))
    for observation in ("vector", "image", "both"):
        for frame_skip in (1, 4):
            config = Pong2pConfig(observation=observation, frame_skip=frame_skip)
            rates = [
                statistics.median(
                    decisions_per_second(make_environment(config, num_matches=batch)) for _ in range(REPEATS)
                )
                for batch in BATCHES
            ]
            name = f"{observation}, frame_skip {frame_skip}"
            print(f"{name:22}" + "".join(f"{rate:>14,.0f}" for rate in rates) + "  seat decisions/s")


if __name__ == "__main__":
    main()
