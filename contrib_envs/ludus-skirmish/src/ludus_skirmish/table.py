"""Scores of the scripted armies against each other: ``python -m ludus_skirmish.table``."""

from __future__ import annotations

import sys

import numpy as np
from ludus.agent import Agent, RandomAgent

from ludus_skirmish.bot import SkirmishBot
from ludus_skirmish.config import BotConfig, SkirmishConfig
from ludus_skirmish.environment import Skirmish
from ludus_skirmish.names import BATTLES


def make_agent(strength: int, environment: Skirmish) -> Agent:
    """Return the scripted army of a strength; 0 is a random agent."""
    if strength == 0:
        return RandomAgent(None, spec=environment.spec, role="army")
    return SkirmishBot(BotConfig(strength=strength), spec=environment.spec, role="army")


def mean_score(first: int, second: int, *, battle: str, matches: int = 256, seed: int = 0) -> float:
    """Play matches, half of them from each side, and return the mean score of the first agent in [0, 1].

    Args:
        first: Strength of an agent, 0 for random; likewise `second`.
        second: See `first`.
        battle: Option of the game.
        matches: Number of matches, even.
        seed: Seed of the first match; the others follow.
    """
    environment = Skirmish(SkirmishConfig(battle=battle), num_matches=matches)
    agents, rng = [make_agent(strength, environment) for strength in (first, second)], np.random.default_rng(seed)
    tick = environment.reset(np.arange(seed, seed + matches, dtype=np.uint64))
    army = tick.roles["army"]
    assert army.action_mask is not None
    rows = np.arange(matches)
    seats = np.stack([rows % 2, 1 - rows % 2])  # the seat of each agent
    score, running = np.zeros(matches), np.ones(matches, bool)
    action = np.zeros((matches, 2, len(environment.spec.roles[0].action_space.nvec)), np.int64)  # type: ignore[attr-defined]
    while running.any():
        for agent, seat in zip(agents, seats, strict=True):
            leaves = {name: leaf[rows, seat] for name, leaf in army.observation.items()}
            mask = army.action_mask[rows, seat]
            action[rows, seat] = agent.act(leaves, action_mask=mask, seat_ids=2 * rows + seat, rng=rng)
        tick = environment.step({"army": action})
        score[tick.terminated] = tick.outcome[rows, seats[0]][tick.terminated]
        running &= ~tick.terminated
    return float(score.mean())


def main() -> None:
    """Print the table."""
    for battle in BATTLES:
        for first in range(1, 4):
            for second in range(first):
                score = mean_score(first, second, battle=battle)
                sys.stdout.write(f"{battle}: {first} against {second or 'random'}: {score:.2f}\n")


if __name__ == "__main__":
    main()
