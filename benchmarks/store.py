"""Measure the league: what results cost to store, and how fast matchmakers get their answers.

python benchmarks/store.py [--results 100000] [--models 500 2000 5000 20000]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from counts import at_least_one
from ludus._league.league import League
from ludus._store.store import Store
from ludus.environment import Seat
from ludus.records import Fixture
from ludus_ratings.elo_table import EloTable

_SEATS = (Seat("player", 0, 0), Seat("player", 1, 1))


def make_league(folder: Path) -> League:
    """Return a fresh league of one player and one anchor."""
    store = Store.create(folder, {"seed": 1})
    league = League(store, players={"main": ("player", None)}, anchors=["random"], seats=_SEATS, ratings=EloTable)
    store.commit()
    return league


def reports(league: League, total: int, *, size: int, block: int) -> list[dict[str, np.ndarray]]:
    """Make fixtures of `block` matches and return `total` results in reports of `size` that mix them."""
    rng = np.random.default_rng(0)
    made = [league.create_fixture(_planned("train", "main@0+", "random", block)).id for _ in range(-(-total // block))]
    fixture, number = np.repeat(made, block)[:total], np.tile(np.arange(block), len(made))[:total]
    order = np.argsort(np.arange(total) + rng.uniform(0, 16 * block, total))  # 16 fixtures are played at a time
    wins = rng.integers(0, 3, total) / 2
    outcome = np.stack([wins, 1 - wins], axis=1).astype(np.float32)
    ticks = rng.integers(5, 50, total).astype(np.int32)
    chunks = (order[i : i + size] for i in range(0, total, size))
    return [
        {"fixture": fixture[rows], "number": number[rows], "ticks": ticks[rows], "outcome": outcome[rows]}
        for rows in chunks
    ]


def measure_results(folder: Path, total: int, *, size: int) -> None:
    """Print what results cost, fixtures and a commit per report included."""
    league = make_league(folder)
    cpu = _cpu_s()
    made = reports(league, total, size=size, block=64)
    fixtures_s = _cpu_s() - cpu
    cpu, wall = _cpu_s(), time.perf_counter()
    for arrays in made:
        league.record(arrays)
        league.store.commit()
    cpu, wall = _cpu_s() - cpu, time.perf_counter() - wall
    per_match = sum(path.stat().st_size for path in folder.glob("league.sqlite*")) / total
    print(f"results, {size:5} a commit: {total / wall:9,.0f}/s; 5,000/s cost {5000 * cpu / total:.1%} of a core")
    print(f"fixtures of 64: {fixtures_s / total * 64 * 1e6:.0f} µs each; {per_match:.0f} bytes a match")
    league.store.close()


def measure_queries(folder: Path, models: int) -> None:
    """Print how long a matchmaker waits for payoffs and ratings against all models."""
    league = make_league(folder)
    names = [league.freeze("main", hash=f"{i:064x}", decisions=i, version=i, manifest={}) for i in range(1, models + 1)]
    rng = np.random.default_rng(0)
    live = league.players["main"].live
    near = [("eval", name, names[max(0, i - 5) : i]) for i, name in enumerate(names)]  # as matchmakers have them rated
    for kind, me, others in (("train", live, names), ("eval", "random", names), *near):
        for other in others:
            fixture = league.create_fixture(_planned(kind, me, other, 8))
            wins = rng.integers(0, 3, 8) / 2
            league.record(
                {
                    "fixture": np.full(8, fixture.id),
                    "number": np.arange(8),
                    "ticks": np.ones(8, np.int32),
                    "outcome": np.stack([wins, 1 - wins], axis=1).astype(np.float32),
                }
            )
    league.store.commit()
    print(f"{models} models: payoff against all {_ms(lambda: league.payoff(live, names)):.2f} ms")
    start = time.perf_counter()
    league.rating(names[0])
    print(f"{models} models: first fit of all ratings {1e3 * (time.perf_counter() - start):.0f} ms")
    league.record(_one_more(league, names))
    start = time.perf_counter()
    league.rating(names[0])
    print(f"{models} models: fit after a new match {1e3 * (time.perf_counter() - start):.0f} ms")
    start = time.perf_counter()
    print(f"{models} models: deviation {league.rating(names[-1]).deviation:.0f}", end=" ")
    print(f"of one rating {1e3 * (time.perf_counter() - start):.1f} ms")
    print(f"{models} models: all ratings {_ms(lambda: [league.rating(name).mean for name in names]):.2f} ms")
    start = time.perf_counter()
    League.of(league.store, EloTable)
    print(f"{models} models: rebuilt from the store in {1e3 * (time.perf_counter() - start):.0f} ms")
    league.store.close()


def _planned(kind: str, a: str, b: str, matches: int) -> Fixture:
    return Fixture(id=0, kind=kind, player="main", participants=(a, b), matches=matches, seed=1, reason="benchmark")


def _one_more(league: League, names: list[str]) -> dict[str, np.ndarray]:
    fixture = league.create_fixture(_planned("eval", names[0], names[1], 1))
    outcome = np.array([[1, 0]], np.float32)
    ones = np.ones(1, np.int32)
    return {"fixture": np.array([fixture.id]), "number": np.zeros(1, np.int64), "ticks": ones, "outcome": outcome}


def _ms(call: object, repeats: int = 50) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()  # type: ignore[operator]
    return 1e3 * (time.perf_counter() - start) / repeats


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--results", type=at_least_one, default=100_000)
    parser.add_argument("--models", type=at_least_one, nargs="*", default=[500, 2000, 5000, 20_000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for size in (50, 500, 5000):
            measure_results(Path(folder) / str(size), options.results, size=size)
        for models in options.models:
            measure_queries(Path(folder) / f"queries-{models}", models)


if __name__ == "__main__":
    main()
