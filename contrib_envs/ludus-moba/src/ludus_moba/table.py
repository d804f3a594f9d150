"""Scores of the scripted heroes against each other: ``python -m ludus_moba.table``."""

from __future__ import annotations

import sys

import numpy as np
from ludus.agent import Agent, RandomAgent

from ludus_moba.bot import MobaBot
from ludus_moba.config import BotConfig, MobaConfig
from ludus_moba.environment import Moba


def make_agent(strength: int, environment: Moba) -> Agent:
    """Return the scripted hero of a strength; 0 is a random agent."""
    if strength == 0:
        return RandomAgent(None, spec=environment.spec, role="hero")
    return MobaBot(BotConfig(strength=strength), spec=environment.spec, role="hero")


def mean_score(first: int, second: int, *, matches: int = 32, config: MobaConfig | None = None, seed: int = 0) -> float:
    """Play matches, each seed from both seats, and return the mean score of the first agent in [0, 1].

    Args:
        first: Strength of an agent, 0 for random; likewise `second`.
        second: See `first`.
        matches: Number of matches, even.
        config: Options of the game; None: without the map, which these agents do not read.
        seed: Seed of the first match; the others follow.
    """
    environment = Moba(config or MobaConfig(map=False), num_matches=matches)
    agents, rng = [make_agent(strength, environment) for strength in (first, second)], np.random.default_rng(seed)
    half = matches // 2
    tick = environment.reset(np.tile(np.arange(seed, seed + half, dtype=np.uint64), 2))
    hero = tick.roles["hero"]
    assert hero.action_mask is not None
    seats = np.repeat([[0, 1], [1, 0]], half, axis=0)  # the seat of each agent
    score, running = np.zeros(matches), np.ones(matches, bool)
    rows = np.arange(matches)
    while running.any():
        action = np.zeros((matches, 2, 6), np.int64)
        for agent, seat in zip(agents, seats.T, strict=True):
            leaves = {name: leaf[rows, seat] for name, leaf in hero.observation.items()}
            mask = hero.action_mask[rows, seat]
            action[rows, seat] = agent.act(leaves, action_mask=mask, seat_ids=2 * rows + seat, rng=rng)
        tick = environment.step({"hero": action})
        score[tick.terminated] = tick.outcome[rows, seats[:, 0]][tick.terminated]
        running &= ~tick.terminated
    return float(score.mean())


def main() -> None:
    """Print the table."""
    for first in range(1, 5):
        for second in range(first):
            sys.stdout.write(f"{first} against {second or 'random'}: {mean_score(first, second):.2f}\n")


if __name__ == "__main__":
    main()
