"""What matchmakers do to a league, and what they cost: ``python benchmarks/league.py [--seeds 5] [--json FILE]``.

In three synthetic worlds (`ludus.testing`) every matchmaker trains a player by formula, and the true win rates of
everything it froze are known. Then each answers "whom next?" in a real league of 10, 500 and 5,000 models.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from counts import at_least_one
from ludus._league.league import League
from ludus._plugins.manager import load_plugins
from ludus._store.store import Store
from ludus.environment import Seat
from ludus.matchmaker import Matchmaker
from ludus.records import Fixture
from ludus.rule import Rule
from ludus.testing import EloWorld, RockPaperScissors, SpinningTop, SyntheticLeague, SyntheticPlayer, World
from ludus_ratings.elo_table import EloTable

STEPS = 600
SIZES = (10, 500, 5000)
#: Per world: from which win rate on a model counts as beaten in "matches until the pool is beaten".
BEATEN = {"elo": 0.55, "rock-paper-scissors": 0.45, "spinning top": 0.55}
WORLDS: dict[str, World] = {
    "elo": EloWorld(),
    "rock-paper-scissors": RockPaperScissors(),
    "spinning top": SpinningTop(),
}
_PLUGINS = load_plugins()


def make(kind: str, name: str, **options: Any) -> Any:
    """Return a component with these options; its parts have their defaults."""
    component = _PLUGINS.get(kind, name)
    make_config = component.load_config()
    assert make_config is not None, f"{name} has no options"
    config = make_config(**options)
    if kind == "rule":
        return component.load_factory()(config)
    return component.load_factory()(config, build=lambda part: make(kind, part))


def matchmakers(**kept: Any) -> dict[str, Matchmaker]:
    """Return the matchmakers by what the tables call them."""
    return {
        "latest-self-play": make("matchmaker", "latest-self-play", **kept),
        "uniform-history": make("matchmaker", "uniform-history", **kept),
        "pfsp": make("matchmaker", "pfsp", **kept),
        "AET 80/20": make("matchmaker", "mixture", **kept),
        "msm": make("matchmaker", "msm", **{"long_s": 0.0, "long_models": 10, **kept}),
        "minimax-main": make("matchmaker", "minimax-main", **kept),
        "alphastar-main": make("matchmaker", "alphastar-main", **kept),
        "alphastar-league-exploiter": make("matchmaker", "alphastar-league-exploiter", **kept),
        "nash": make("matchmaker", "nash", **kept),
    }


# -- leagues ---------------------------------------------------------------------------------------------------------


def alone(matchmaker: Matchmaker, **given: Any) -> Callable[[World, int], SyntheticLeague]:
    """Return what makes a league of one player, whose models are rated for those matchmakers that need it."""

    def league(world: World, seed: int) -> SyntheticLeague:
        player = SyntheticPlayer(matchmaker=matchmaker, **given)
        rate = make("matchmaker", "uncertain", pools=("own",), deviation=0.1)
        return SyntheticLeague(
            world=world, players={"main": player}, seed=seed, evaluation=rate, ratings=EloTable(), rated=4
        )

    return league


def minimax_league(world: World, seed: int) -> SyntheticLeague:
    """Return a main agent and an exploiter in generations."""
    players = {
        "main": SyntheticPlayer(matchmaker=make("matchmaker", "minimax-main"), freeze_every=0),
        "exploiter": SyntheticPlayer(matchmaker=make("matchmaker", "latest-frozen"), freeze_every=0),
    }
    rule = make("rule", "generations", enough_matches=30, converged=0.7)
    return SyntheticLeague(world=world, players=players, rules=[rule], seed=seed)


def alphastar_league(world: World, seed: int) -> SyntheticLeague:
    """Return a main agent, a main exploiter and a league exploiter."""
    main = make("matchmaker", "alphastar-main", exploiters=("exploiter",))
    players = {
        "main": SyntheticPlayer(matchmaker=main, share=2.0),
        "exploiter": SyntheticPlayer(matchmaker=make("matchmaker", "curriculum", against=("main",)), freeze_every=0),
        "hunter": SyntheticPlayer(matchmaker=make("matchmaker", "alphastar-league-exploiter"), freeze_every=0),
    }
    rule = make(
        "rule",
        "alphastar",
        main_exploiters=("exploiter",),
        league_exploiters=("hunter",),
        least_decisions=2560,
        most_decisions=5120,
        enough_matches=20,
    )
    return SyntheticLeague(world=world, players=players, rules=[rule], seed=seed)


def dis_league(world: World, seed: int) -> SyntheticLeague:
    """Return a main agent and a policy explorer with shared pools of superior models."""
    msm = make("matchmaker", "msm", long_s=0.0, long_models=10)
    players = {"main": SyntheticPlayer(matchmaker=msm), "explorer": SyntheticPlayer(matchmaker=msm, rate=1.5)}
    rules: Sequence[Rule] = [
        make("rule", "superior", candidates=5, enough_matches=8, top=2),
        make("rule", "restart-from", source="main", decisions=12800),
    ]
    tournament = make("matchmaker", "tournament", candidates=5, enough_matches=8, top=2)
    rating = {"evaluation": tournament, "ratings": EloTable(), "rated": 8}
    return SyntheticLeague(world=world, players=players, rules=rules, seed=seed, **rating)


def contestants() -> dict[str, Callable[[World, int], SyntheticLeague]]:
    """Return what the tables compare."""
    leagues: dict[str, Callable[[World, int], SyntheticLeague]]
    leagues = {name: alone(matchmaker) for name, matchmaker in matchmakers().items()}
    return leagues | {"Minimax league": minimax_league, "AlphaStar league": alphastar_league, "DIS league": dis_league}


# -- what becomes of the player --------------------------------------------------------------------------------------


def trained(world: World, make_league: Callable[[World, int], SyntheticLeague], seed: int) -> dict[str, Any]:
    """Train one league and return figures about its main player, and its models."""
    league, path = make_league(world, seed), []
    late: Mapping[tuple[str, str], int] = {}
    pool_then: tuple[str, ...] = ()
    for step in range(STEPS):
        if step == 3 * STEPS // 4:
            late, pool_then = dict(league.met), league.players["main"].models
        league.step()
        path.append(league.strategies[league.players["main"].live].copy())
    view = league.players["main"]
    models = np.array([league.strategies[model] for model in view.models])
    rates = np.array([world.win_rate(one, models) for one in path[:: max(1, STEPS // 60)]])  # [snapshots, models]
    final = world.win_rate(path[-1], models)
    met = [league.met["main", model] > late.get(("main", model), 0) for model in pool_then]
    return {
        "worst": float(final.min()),
        "forgetting": float(np.mean(np.maximum(rates.max(axis=0) - final, 0))),
        "coverage": float(np.mean(met)) if met else 0.0,
        "cycles": cyclic(world, path[3 * STEPS // 4 :]),
        "models": len(models),
        "last": path[-1],
        "strategies": models,
    }


def cyclic(world: World, path: Sequence[np.ndarray], *, snapshots: int = 30, margin: float = 0.02) -> float:
    """Return the share of triples of a path in which a beats b, b beats c and c beats a, each by a margin."""
    some = np.array([path[i] for i in np.linspace(0, len(path) - 1, snapshots).round().astype(int)])
    beats = np.array([world.win_rate(one, some) for one in some]) > 0.5 + margin
    a, b, c = np.array(list(combinations(range(snapshots), 3))).T
    return float(np.mean((beats[a, b] & beats[b, c] & beats[c, a]) | (beats[b, a] & beats[c, b] & beats[a, c])))


def until_beaten(name: str, make_league: Callable[[World, int], SyntheticLeague], seed: int) -> float | None:
    """Return the training matches until no model of a given pool is left unbeaten; None: some are after all steps."""
    world, rng = WORLDS[name], np.random.default_rng(1000 + seed)
    league = make_league(world, seed)
    models = [league.freeze("main", strategy) for strategy in reference(world, rng)]
    for _ in range(STEPS):
        league.step()
        if league.win_rates(league.players["main"].live, models).min() >= BEATEN[name]:
            return league.played
    return None


def reference(world: World, rng: np.random.Generator) -> np.ndarray:
    """Return ``[30, d]``: a pool of all styles; in worlds with strength up to 3 stronger than a beginner."""
    strength, turn = rng.uniform(0, 3, 30), rng.uniform(0, 2 * np.pi, 30)
    if isinstance(world, SpinningTop):
        width = np.exp(-strength / world.height)
        return np.stack([strength, width * np.cos(turn), width * np.sin(turn)], axis=1)
    if isinstance(world, EloWorld):
        return strength[:, None]
    return 1.5 * np.stack([np.cos(turn + k * 2 * np.pi / 3) for k in range(3)], axis=1)


def compare(seeds: int) -> list[dict[str, Any]]:
    """Return one row for every world and contestant; every figure once per seed."""
    rows = []
    for world_name, world in WORLDS.items():
        found = {
            name: [trained(world, league, seed) for seed in range(seeds)] for name, league in contestants().items()
        }
        for name, runs in found.items():
            everybody = [
                np.concatenate([other[seed]["strategies"] for other in found.values()]) for seed in range(seeds)
            ]
            row: dict[str, Any] = {"world": world_name, "matchmaker": name}
            for figure in ("worst", "forgetting", "coverage", "cycles", "models"):
                row[figure] = [run[figure] for run in runs]
            row["worst of all"] = [
                float(world.win_rate(run["last"], others).min()) for run, others in zip(runs, everybody, strict=True)
            ]
            if name in matchmakers():
                fixed = alone(matchmakers()[name], freeze_every=0)
                row["matches to beat"] = [until_beaten(world_name, fixed, seed) for seed in range(seeds)]
            rows.append(row)
            print(line(row), flush=True)
    return rows


def interval(values: Sequence[float]) -> str:
    """Return mean and 95 % interval (Student's t)."""
    t = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262}.get(len(values), 2.0)
    half = t * float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"{np.mean(values):.2f} ± {half:.2f}"


def line(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    beat = [np.inf if matches is None else matches for matches in row.get("matches to beat", [])]
    middle = float(np.median(beat)) if beat else np.nan
    shown = "" if not beat else "never" if np.isinf(middle) else f"{middle:,.0f}"
    figures = (interval(row[name]) for name in ("worst", "worst of all", "forgetting", "coverage", "cycles"))
    return f"| {row['world']} | {row['matchmaker']} | {' | '.join(figures)} | {shown} |"


HEAD = """| world | matchmaker | worst v own | worst v all | forgetting | coverage | cyclic triples | until beaten |
|---|---|---|---|---|---|---|---|"""


# -- what a decision costs -------------------------------------------------------------------------------------------


def league_of(folder: Path, models: int) -> League:
    """Return a real league of one player with so many models in its pool, all of them met many times."""
    store = Store.create(folder, {"seed": 1})
    seats = (Seat("player", 0, 0), Seat("player", 1, 1))
    league = League(store, players={"main": ("player", None)}, anchors=("random",), seats=seats, ratings=EloTable)
    rng, keeper = np.random.default_rng(0), make("matchmaker", "latest-self-play", capacity=10_000, long_models=10)
    for i in range(1, models + 1):
        model = league.freeze("main", hash=f"{i:064x}", decisions=i, version=i, manifest={})
        league.apply(keeper.on_model_frozen(league, "main", model))
        known = league.players["main"].models
        pairs = [(model, known[-2])] if i > 1 else []
        pairs += [(league.players["main"].live, known[j]) for j in rng.integers(0, i, 4)]
        if i > models - 16:  # the last ones have met everybody
            pairs += [(league.players["main"].live, other) for other in known]
        _play(league, pairs, rng)
    store.commit()
    return league


def _play(league: League, pairs: Sequence[tuple[str, str]], rng: np.random.Generator) -> None:
    ids = []
    for a, b in pairs:
        fixture = Fixture(id=0, kind="train", player="main", participants=(a, b), matches=4, seed=1, reason="benchmark")
        ids.append(league.create_fixture(fixture).id)
    n = 4 * len(ids)
    won = rng.integers(0, 2, n).astype(np.float32)
    arrays: dict[str, np.ndarray] = {"number": np.tile(np.arange(4), len(ids)), "ticks": np.ones(n, np.int32)}
    league.record({"fixture": np.repeat(ids, 4), "outcome": np.stack([won, 1 - won], axis=1), **arrays})


def costs(sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Return milliseconds of CPU per fixture, by matchmaker and size of the pool, while results keep arriving."""
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            league, rng = league_of(Path(folder) / "run", size), np.random.default_rng(0)
            for name, matchmaker in matchmakers(capacity=10_000).items():
                times = []
                for _ in range(100):
                    start = time.thread_time()  # so that other programs do not count
                    pairing = matchmaker.next_fixture(league, "main", rng)
                    times.append(1e3 * (time.thread_time() - start))
                    if pairing.opponents[0] != league.players["main"].live:
                        _play(league, [(league.players["main"].live, pairing.opponents[0])], rng)
                p50, p99 = np.percentile(times, [50, 99])
                rows.append({"matchmaker": name, "models": size, "p50_ms": float(p50), "p99_ms": float(p99)})
                print(f"| {name} | {size:,} | {p50:.3f} | {p99:.3f} |", flush=True)
            league.store.close()
    return rows


def main() -> None:
    """Run everything and print Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=at_least_one, default=5)
    parser.add_argument("--sizes", type=at_least_one, nargs="*", default=SIZES, help="pools for the cost of a decision")
    parser.add_argument("--only", choices=("worlds", "costs"))
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"steps": STEPS, "seeds": options.seeds}
    if options.only != "costs":
        print(HEAD)
        found["worlds"] = compare(options.seeds)
    if options.only != "worlds":
        print("\n| matchmaker | models | CPU ms per fixture | p99 |\n|---|---|---|---|")
        found["costs"] = costs(options.sizes)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
