"""What many distinct opponents cost: ``python benchmarks/opponents.py``.

Connect Four with random weights, an MLP 84-256-256, 1,024 matches at once in fixtures of 16 rows. One seat is the
learning player's and is recorded, the other one of N frozen models. Rates are decisions of both seats per CPU second of
the whole sampling loop, and the ratio is to one opponent in the same run.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from counts import at_least_one
from ludus._config.run_config import parse_config
from ludus._plugins.manager import load_plugins
from ludus._run.context import RunContext
from ludus._run.factories import learned_role, make_algorithm, make_environment, player_role
from ludus._run.sampler_factory import make_actor_cache, make_live_actor
from ludus._sampling.engine import Actor, Play
from ludus._store.model_files import save_arrays
from ludus.records import Fixture

MATCHES, ROWS, FIXTURE_MATCHES = 1024, 16, 64
TICKS, ROUNDS = 100, 5
CASES = ((1, 256), (64, 256), (500, 256), (500, 48))


def make_context(run_dir: Path, *, inference: str, cache_mb: int) -> RunContext:
    """Return the run of the workload."""
    plugins = load_plugins()
    player = {"algorithm": "ppo", "network": "mlp", "matchmaker": "latest-self-play", "mlp": {"activation": "relu"}}
    sampling = {
        "matches": MATCHES,
        "rows_per_fixture": ROWS,
        "inference": inference,
        "opponent_cache_mb": cache_mb,
    }
    data = {"environment": {"name": "connect4"}, "sampling": sampling, "players": {"main": player}}
    return RunContext(config=parse_config(data, source="benchmark", plugins=plugins), plugins=plugins, run_dir=run_dir)


def save_models(run: RunContext, count: int) -> tuple[dict[str, np.ndarray], list[str]]:
    """Write so many models with different weights; return one and the hashes of all."""
    player = run.config.players["main"]
    environment = make_environment(run.config.environment, 1)
    role, _ = player_role(player, learned_role(player, environment.spec))
    weights = make_algorithm(player, role).make_trainer(seed=0).weights()
    rng = np.random.default_rng(0)
    hashes = []
    for _ in range(count):
        noisy = {name: array + rng.normal(0, 0.01, array.shape).astype(np.float32) for name, array in weights.items()}
        hashes.append(save_arrays(run.run_dir / "models", noisy, {}))
    return weights, hashes


class Workload:
    """A sampling loop against some models.

    Args:
        run: The run whose actors play.
        weights: Of the learning player.
        models: Hashes of its opponents.
    """

    def __init__(self, run: RunContext, weights: dict[str, np.ndarray], models: list[str]) -> None:
        environment = make_environment(run.config.environment, MATCHES)
        self.live = make_live_actor(run, "sampler", "main", environment.spec, MATCHES)
        self.live.load(weights, 0)
        self.cache = make_actor_cache(run, "sampler", environment.spec, MATCHES)
        self.play = Play(
            environment=environment, resolve=self._resolve, on_results=lambda _: None, rows_per_fixture=ROWS
        )
        self._fixtures = self._endless(models)

    def _resolve(self, fixture: Fixture, seat: int) -> tuple[Actor, int]:
        if fixture.participants[seat] == "main+":
            return self.live, 0
        return self.cache.seated(fixture, seat, self.play.environment.spec, in_use=self.play.slots_in_use)

    @staticmethod
    def _endless(models: list[str]) -> Iterator[Fixture]:
        for number in itertools.count(1):
            name = f"main@{number % len(models)}"
            seats = ("main+", name) if number % 2 else (name, "main+")
            digest = models[number % len(models)]
            yield Fixture(
                id=number,
                kind="train",
                player="main",
                participants=seats,
                seed=number,
                matches=FIXTURE_MATCHES,
                reason="benchmark",
                models={name: digest},
            )

    def rate(self) -> float:
        """Play some ticks and return decisions per CPU second."""
        decisions, start = self.play.decisions, time.process_time()
        for _ in range(TICKS):
            for _ in range(self.play.wanted()):
                self.play.add(next(self._fixtures))
            self.play.step()
            while self.live.blocks:
                self.live.blocks.popleft()
        return (self.play.decisions - decisions) / (time.process_time() - start)


def read(arguments: Sequence[str] | None) -> Sequence[tuple[int, int]]:
    """Read the command line and return opponents and megabytes of every case, one opponent first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("opponents", type=at_least_one, nargs="?", help="default: the cases of the recorded table")
    parser.add_argument("cache_mb", type=at_least_one, nargs="?", default=256, help="memory for their weights (256)")
    given = parser.parse_args(arguments)
    if given.opponents is None:
        return CASES
    return list(dict.fromkeys([(1, given.cache_mb), (given.opponents, given.cache_mb)]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    cases = read(arguments)
    titles = ("opponents", "cache MB", "inference", "decisions/s", "spread", "ratio", "loaded MB")
    print("".join(f"{title:>12}" for title in titles))
    for inference in ("lean", "eager"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            weights, hashes = save_models(
                make_context(path, inference=inference, cache_mb=256), max(n for n, _ in cases)
            )
            loads = [
                Workload(make_context(path, inference=inference, cache_mb=cache_mb), weights, hashes[:count])
                for count, cache_mb in cases
            ]
            rates = in_turn([load.rate for load in loads])
        for (count, cache_mb), load, (median, spread) in zip(cases, loads, rates, strict=True):
            ratio, loaded = median / rates[0][0], load.cache.num_bytes / 2**20
            cells = (f"{median:,.0f}", f"{spread:.0%}", f"{ratio:.2f}", f"{loaded:.0f}")
            print("".join(f"{cell:>12}" for cell in (count, cache_mb, inference, *cells)))


def in_turn(works: list[Callable[[], float]]) -> list[tuple[float, float]]:
    """Return median and relative spread of each work's rates; the works take turns."""
    samples = [[work() for work in works] for _ in range(ROUNDS + 1)][1:]
    return [
        (statistics.median(rates), (max(rates) - min(rates)) / statistics.median(rates))
        for rates in zip(*samples, strict=True)
    ]


if __name__ == "__main__":
    main()
