"""Balance of options: scripted agents against each other. ``python -m ludus_chase.table columns=2 rows=2``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from ludus.agent import Agent, RandomAgent
from ludus.environment import EnvironmentSpec, RoleTick

from ludus_chase.bot import make_bot
from ludus_chase.config import BotConfig, ChaseConfig
from ludus_chase.environment import Chase

#: Scripted agents, from weak to strong.
NAMES = ("random", "weak", "medium", "strong")


def mean_mouse_points(
    pairs: Sequence[tuple[str, str]], config: ChaseConfig, *, matches: int, seed: int = 0
) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the average points of the mice and the average length in ticks, by pair of cat and mice.

    Args:
        pairs: Names of cat and mice.
        config: Options of the game.
        matches: Matches of each pair, all in one batch, on the same seeds for every pair.
        seed: Seed of the agents and of the first match.
    """
    environment, rng = Chase(config, num_matches=matches * len(pairs)), np.random.default_rng(seed)
    sides = dict(zip(("cat", "mouse"), (np.repeat(names, matches) for names in zip(*pairs, strict=True)), strict=True))
    agents = {
        (role, name): _agent(name, environment.spec, role)
        for role in sides
        for name in dict.fromkeys(sides[role].tolist())
    }
    for agent in agents.values():
        agent.reset(np.arange(4 * environment.num_matches))
    tick = environment.reset(np.tile(seed + np.arange(matches, dtype=np.uint64), len(pairs)))
    points, length = np.full(environment.num_matches, np.nan), np.zeros(environment.num_matches)
    while np.isnan(points).any():
        length += np.isnan(points)
        actions = {role: np.zeros((*tick.roles[role].acting.shape, 2), np.int64) for role in sides}
        for (role, name), agent in agents.items():
            actions[role] += _decide(agent, tick.roles[role], sides[role] == name, rng)
        tick = environment.step(actions)
        points[tick.terminated] = tick.outcome[tick.terminated, 1]
    means = np.stack([points, length]).reshape(2, len(pairs), matches).mean(axis=2).T.tolist()
    return {pair: (score, ticks) for pair, (score, ticks) in zip(pairs, means, strict=True)}


def _agent(name: str, spec: EnvironmentSpec, role: str) -> Agent:
    if name == "random":
        return RandomAgent(None, spec=spec, role=role)
    return make_bot(BotConfig(strength=name), spec=spec, role=role)


def _decide(agent: Agent, seen: RoleTick, among: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the actions ``[B, S, 2]`` of one role, 0 outside the matches ``among [B] bool``."""
    assert seen.action_mask is not None
    actions = np.zeros((*seen.acting.shape, 2), np.int64)
    matches, seats = np.nonzero(seen.acting & among[:, None])
    if len(matches):
        leaves = {name: leaf[matches, seats] for name, leaf in seen.observation.items()}
        seat_ids = matches * seen.acting.shape[1] + seats
        actions[matches, seats] = agent.act(
            leaves, action_mask=seen.action_mask[matches, seats], seat_ids=seat_ids, rng=rng
        )
    return actions


def table(config: ChaseConfig, *, matches: int, seed: int = 0) -> str:
    """Return a table of the mean points of the mice in percent and the mean ticks of a match.

    Args:
        config: Options of the game.
        matches: Matches of each pair.
        seed: See `mean_mouse_points`.
    """
    found = mean_mouse_points([(cat, mice) for cat in NAMES for mice in NAMES], config, matches=matches, seed=seed)
    lines = ["cat \\ mice  " + "".join(f"{mice:>16s}" for mice in NAMES)]
    for cat in NAMES:
        cells = (f"{100 * score:7.1f} % {ticks:6.0f}" for score, ticks in (found[cat, mice] for mice in NAMES))
        lines.append(f"{cat:12s}" + "".join(cells))
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Print the table for options ``name=value``, including ``matches=512`` per pair and ``seed=0``."""
    given = dict(argument.split("=", 1) for argument in arguments)
    values: dict[str, Any] = {name: text if name == "time_over" else json.loads(text) for name, text in given.items()}
    matches, seed = values.pop("matches", 512), values.pop("seed", 0)
    sys.stdout.write(f"{table(ChaseConfig(**values), matches=matches, seed=seed)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
