"""Results of scripted agents beside those that other implementations of the rules give: ``python -m …calibrate``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from attrs import frozen
from ludus.agent import Agent, RandomAgent

from ludus_pommerman.agents import SimpleAgent, StopAgent
from ludus_pommerman.config import PommermanConfig
from ludus_pommerman.environment import Pommerman

_AGENTS = {"random": RandomAgent, "simple": SimpleAgent, "stop": StopAgent}


@frozen(kw_only=True)
class Row:
    """A line of the table: what was measured in an implementation of the original rules.

    Args:
        name: What plays.
        variant: Variant of the game.
        agents: Agent of each seat.
        games: Number of matches that were measured.
        length: Mean number of steps.
        shares: Share of matches by result: the number of a team that wins, or ``"tie"``.
    """

    name: str
    variant: str
    agents: tuple[str, ...]
    games: int
    length: float
    shares: dict[str, float]


TABLE = (
    Row(
        name="4 random, free-for-all", variant="ffa", agents=("random",) * 4, games=3414, length=24,
        shares={"tie": 0.032, "0": 0.26, "1": 0.23, "2": 0.26, "3": 0.22},
    ),
    Row(
        name="4 simple, free-for-all", variant="ffa", agents=("simple",) * 4, games=35, length=481,
        shares={"tie": 0.31},
    ),
    Row(
        name="simple v random, team", variant="team", agents=("simple", "random") * 2, games=538, length=30,
        shares={"0": 0.998},
    ),
    Row(
        name="simple v stop, team", variant="team", agents=("simple", "stop") * 2, games=113, length=179,
        shares={"0": 0.95, "1": 0.03, "tie": 0.03},
    ),
    Row(
        name="simple v simple, team", variant="team", agents=("simple",) * 4, games=68, length=330,
        shares={"0": 0.54, "1": 0.31, "tie": 0.15},
    ),
    Row(
        name="simple v simple, one-vs-one", variant="one-vs-one", agents=("simple",) * 2, games=176, length=194,
        shares={"0": 0.35, "1": 0.48, "tie": 0.16},
    ),
)  # fmt: skip


@frozen
class Results:
    """What matches resulted in.

    Attributes:
        lengths: ``[n] int64``: steps of each match.
        outcomes: ``[n, teams] float32``.
    """

    lengths: np.ndarray
    outcomes: np.ndarray

    def share(self, result: str) -> float:
        """Return the share of matches that a team won, or that ended as a tie."""
        if result == "tie":
            return float((self.outcomes.max(axis=1) < 1).mean())
        return float((self.outcomes[:, int(result)] == 1).mean())


def play(variant: str, agents: Sequence[str], *, matches: int, seed: int = 0) -> Results:
    """Play matches of scripted agents.

    Args:
        variant: Variant of the game.
        agents: Name of the agent of each seat: random, simple or stop.
        matches: Number of matches, all at once.
        seed: Seed of the first match and of the agents.
    """
    environment = Pommerman(PommermanConfig(variant=variant), num_matches=matches)
    made: dict[str, Agent] = {
        name: _AGENTS[name](None, spec=environment.spec, role="player") for name in dict.fromkeys(agents)
    }
    rng = np.random.default_rng(seed)
    tick = environment.reset(np.arange(seed, seed + matches, dtype=np.uint64))
    player = tick.roles["player"]
    lengths, outcomes = np.zeros(matches, np.int64), np.zeros_like(tick.outcome)
    names = np.array(agents)
    while player.acting.any():
        action = np.zeros((matches, len(agents), 1), np.int64)
        lengths += player.acting.any(axis=1)
        for name, agent in made.items():
            match, seat = np.nonzero(player.acting & (names == name))
            leaves = {leaf: values[match, seat] for leaf, values in player.observation.items()}
            seats = match * len(agents) + seat
            action[match, seat] = agent.act(leaves, action_mask=None, seat_ids=seats, rng=rng)
        tick = environment.step({"player": action})
        outcomes[tick.terminated] = tick.outcome[tick.terminated]
    return Results(lengths, outcomes)


def deviations(row: Row, results: Results) -> dict[str, float]:
    """Return by how many standard errors results differ from a row of the table, by result and for ``"length"``.

    The standard error is that of both samples. It assumes that lengths scatter as they do in `results`; of shares it is
    that of the mean share, and at least that of one match.
    """
    count = len(results.lengths)
    scale = np.sqrt(1 / count + 1 / row.games)
    found = {"length": (results.lengths.mean() - row.length) / (results.lengths.std() * scale)}
    for result, share in row.shares.items():
        own = results.share(result)
        mean = (own * count + share * row.games) / (count + row.games)
        error = max(float(np.sqrt(mean * (1 - mean))) * scale, 1 / min(count, row.games))
        found[result] = (own - share) / error
    return {name: float(value) for name, value in found.items()}


def main() -> None:
    """Print the table; the argument is the number of matches of each row (512)."""
    matches = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    for row in TABLE:
        results = play(row.variant, row.agents, matches=matches)
        found = deviations(row, results)
        sys.stdout.write(f"{row.name}: {matches} matches here, {row.games} there\n")
        sys.stdout.write(
            f"  length {results.lengths.mean():.0f}, there {row.length:.0f} ({found['length']:+.1f} standard errors)\n"
        )
        for result, share in row.shares.items():
            name = "tie" if result == "tie" else f"team {result} wins"
            own = results.share(result)
            sys.stdout.write(f"  {name} {own:.1%}, there {share:.1%} ({found[result]:+.1f} standard errors)\n")


if __name__ == "__main__":
    main()
