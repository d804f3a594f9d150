"""What each ability is worth: games trained with it and without it, with several seeds.

Every training is ``ludus train`` in one process with a budget of decisions, so that results do not depend on the load
of the machine. The final frozen model is evaluated, a table is printed, and everything is written as JSON. Trainings
that are there already are not repeated, unless their configuration has changed since. ::

    python benchmarks/ablations.py --seeds 1 2 3 --json benchmarks/results/ablations.json
    python benchmarks/ablations.py memory masks --seeds 1
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, frozen
from ludus.runs import open_run, play_pair
from safetensors.numpy import load_file

HERE = Path(__file__).parent / "ablations"
PLAYER = "main"
PPO = f"players.{PLAYER}.ppo"
MODULAR = f"players.{PLAYER}.modular"


@frozen(kw_only=True)
class Variant:
    """One way to train.

    Args:
        settings: What differs from the TOML file, as ``key.path=value``.
        solves: Whether it is expected to solve the game; None: it is only reported.
    """

    settings: tuple[str, ...] = ()
    solves: bool | None = None


@frozen(kw_only=True)
class Proof:
    """A game, ways to train for it, and what is expected of them.

    Args:
        variants: By name.
        solved: From this score on, the game is solved.
        unsolved: Up to this score, it is not.
        chance: The score without the ability, or by guessing.
        optimum: The best score there is.
        measure: ``"won"``: the share of won matches; ``"return"``: the mean return.
        greedy: Whether the most likely actions are played. Otherwise actions are sampled as in training: where noise
            slows learning down, greedy play hides how unsure the policy still is.
    """

    variants: dict[str, Variant]
    solved: float
    unsolved: float
    chance: float
    optimum: float = 1.0
    measure: str = "won"
    greedy: bool = True


def _with(*settings: str) -> Variant:
    return Variant(settings=settings, solves=True)


def _without(*settings: str) -> Variant:
    return Variant(settings=settings, solves=False)


def _exploring(algorithm: str) -> tuple[str, ...]:
    options = f"players.{PLAYER}.{algorithm}"
    return (
        f"players.{PLAYER}.algorithm={algorithm}",
        f"{options}.learning_rate=1e-3",
        f"{options}.batch_decisions=2048",
    )


_MATCHES_16 = ("sampling.matches=16", "sampling.fixture_matches=16", "sampling.rows_per_fixture=16")

#: By the name of the TOML file. 1/17 of the labels of `labels` and `staleness` is guessed at 1/16, the others at 1/4.
PROOFS: dict[str, Proof] = {
    "memory": Proof(
        variants={
            "lstm": _with(),
            "gru": _with(f"{MODULAR}.core=gru"),
            # 33,536 weights below the heads; the LSTM and what is before it have 33,728
            "feed-forward": _without(f"{MODULAR}.core=none", f"{MODULAR}.torso=[64, 256, 64]"),
        },
        solved=0.95,
        unsolved=0.35,
        chance=1 / 4,
    ),
    "exploration": Proof(
        variants={"rnd-ppo": _with(*_exploring("rnd-ppo")), "ppo": _without(*_exploring("ppo"))},
        solved=0.95,
        unsolved=0.11,
        chance=0.1,
        measure="return",
    ),
    "teams": Proof(
        variants={"global critic": _with(), "local critic": _without(f"players.{PLAYER}.mappo.critic=local")},
        solved=0.9,
        unsolved=0.5,
        chance=1 / 64,
        greedy=False,
    ),
    "masks": Proof(
        variants={"masked": _with(), "no mask": _without("environment.key-ring.masked=false")},
        solved=0.95,
        unsolved=0.5,
        chance=1 / 1024,
    ),
    "targets": Proof(
        variants={"attention": _with(), "plain labels": _without(f"{MODULAR}.attention=[]")},
        solved=0.95,
        unsolved=0.6,
        chance=0.340,
    ),
    # nothing is expected here: which ratio learns faster depends on the learning rate
    "labels": Proof(
        variants={
            f"{ratio}, {rate}": Variant(settings=(f"{PPO}.label_objective={ratio}", f"{PPO}.learning_rate={rate}"))
            for rate in ("1e-3", "2e-3", "5e-3")
            for ratio in ("per-label", "joint")
        },
        solved=0.85,
        unsolved=0.6,
        chance=1 / 16 / 4**16,
    ),
    "staleness": Proof(
        variants={
            "dual clip": _with(),
            "v-trace": _with(f"{PPO}.dual_clip=0", f"{PPO}.advantage=vtrace"),
            "neither": _without(f"{PPO}.dual_clip=0"),
            "neither, fresh": Variant(settings=(f"{PPO}.dual_clip=0", *_MATCHES_16)),
            "dual clip, 3e-3": Variant(settings=(f"{PPO}.learning_rate=3e-3",)),
            "v-trace, 3e-3": Variant(
                settings=(f"{PPO}.learning_rate=3e-3", f"{PPO}.dual_clip=0", f"{PPO}.advantage=vtrace")
            ),
            "neither, 3e-3": Variant(settings=(f"{PPO}.learning_rate=3e-3", f"{PPO}.dual_clip=0")),
        },
        solved=0.8,
        unsolved=0.65,
        chance=(1 / 16 + 16 / 4) / 17,
        measure="return",
    ),
    "privileged": Proof(
        variants={"critic sees luck": _with(), "critic is blind": _without("environment.luck.told=false")},
        solved=0.85,
        unsolved=0.2,
        chance=1 / 4**8,
        greedy=False,
    ),
}


def train(proof: str, settings: Sequence[str], *, seed: int, folder: Path) -> dict[str, Any]:
    """Train one variant with one seed, unless that has been done, and return ``cpu_s`` and ``wall_s``.

    Raises:
        subprocess.CalledProcessError: The training failed.
    """
    file, told = HERE / f"{proof}.toml", folder.with_suffix(".json")
    what = {"toml": file.read_text(encoding="utf-8"), "settings": list(settings), "seed": seed}
    if told.exists():
        known = json.loads(told.read_text(encoding="utf-8"))
        if known["what"] == what:
            return dict(known["took"])
    shutil.rmtree(folder, ignore_errors=True)  # of another configuration, or not finished
    command = [sys.executable, "-m", "ludus", "train", str(file), "--run", str(folder), "--workers", "0", "--json"]
    command += [part for setting in (f"run.seed={seed}", *settings) for part in ("--set", setting)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    took = {"cpu_s": round(cpu_s, 1), "wall_s": round(time.monotonic() - began, 1)}
    told.write_text(json.dumps({"what": what, "took": took}, indent=1) + "\n", encoding="utf-8")
    return took


def evaluate(folder: Path, *, greedy: bool, matches: int) -> dict[str, float]:
    """Return how the final model of a run plays: ``won``, ``return``, and how many ``weights`` it has."""
    with open_run(folder) as run:
        newest = run.resolve(f"{PLAYER}@latest")
        environment = run.make_environment(min(matches, 250))
        try:
            (role,) = (role.name for role in environment.spec.roles)
            agent = run.agent(newest, role, environment=environment, deterministic=greedy)
            record = play_pair(environment, [{role: agent}], matches=matches, seed=0)
        finally:
            environment.close()
        weights = load_file(folder / "models" / f"{run.models[newest].hash}.safetensors")
    return {
        "won": record.wins / matches,
        "return": record.mean_return,
        "weights": float(sum(array.size for array in weights.values())),
    }


def run_proof(name: str, *, seeds: Sequence[int], runs: Path, matches: int) -> dict[str, Any]:
    """Train and evaluate all variants of a proof with all seeds."""
    proof = PROOFS[name]
    results: dict[str, Any] = {}
    for label, variant in proof.variants.items():
        results[label] = {"solves": variant.solves, "settings": list(variant.settings), "seeds": {}}
        for seed in seeds:
            folder = runs / f"{name}-{label.replace(' ', '_').replace(',', '')}-{seed}"
            took = train(name, variant.settings, seed=seed, folder=folder)
            found = evaluate(folder, greedy=proof.greedy, matches=matches)
            results[label]["seeds"][str(seed)] = {"score": found[proof.measure], **found, **took}
    stated = {key: value for key, value in asdict(proof).items() if key != "variants"}
    return {**stated, "matches": matches, "variants": results}


def holds(proof: dict[str, Any], variant: dict[str, Any]) -> bool | None:
    """Return whether every seed of a variant is on its side of the thresholds; None if nothing is expected of it."""
    if variant["solves"] is None:
        return None
    scores = [seed["score"] for seed in variant["seeds"].values()]
    if variant["solves"]:
        return min(scores) >= proof["solved"]
    return max(scores) <= proof["unsolved"]


def table(results: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table."""
    words = ("proof", "variant", "scores", "expected", "holds", "chance", "best", "CPU s each")
    yield "{:<12} {:<17} {:<24} {:<9} {:<6} {:>7} {:>5}  {}".format(*words)
    for name, proof in results.items():
        for label, variant in proof["variants"].items():
            seeds = variant["seeds"].values()
            scores = " ".join(f"{seed['score']:.3f}" for seed in seeds)
            limit = {True: f">= {proof['solved']:g}", False: f"<= {proof['unsolved']:g}", None: ""}[variant["solves"]]
            verdict = {True: "yes", False: "NO", None: ""}[holds(proof, variant)]
            seconds = " ".join(f"{seed['cpu_s']:.0f}" for seed in seeds)
            yield (
                f"{name:<12} {label:<17} {scores:<24} {limit:<9} {verdict:<6} {proof['chance']:>7.3f} "
                f"{proof['optimum']:>5g}  {seconds}"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is missing, evaluate, print and write; return 1 if something expected does not hold, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("proofs", nargs="*", metavar="PROOF", help=f"default: all of {', '.join(PROOFS)}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--matches", type=int, default=500, help="per evaluation")
    parser.add_argument("--runs", type=Path, default=Path("runs/ablations"), help="where runs are kept")
    parser.add_argument("--json", type=Path, help="where results are written")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.proofs if name not in PROOFS]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(PROOFS)}")
    given.runs.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for name in given.proofs or PROOFS:
        results[name] = run_proof(name, seeds=given.seeds, runs=given.runs, matches=given.matches)
        print(*list(table({name: results[name]}))[0 if len(results) == 1 else 1 :], sep="\n", flush=True)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    verdicts = [holds(proof, variant) for proof in results.values() for variant in proof["variants"].values()]
    return int(False in verdicts)


if __name__ == "__main__":
    raise SystemExit(main())
