"""What each ability is worth: games trained with it and without it, with several seeds.

Every training is ``ludus train`` in one process with a budget of decisions, so that results do not depend on the load
of the machine. The final frozen model is evaluated, a table is printed, and everything is written as JSON. Trainings
that are there already are not repeated, unless their configuration has changed since. ::

    python benchmarks/ablations.py --seeds 1 2 3 --json benchmarks/results/ablations.json
    python benchmarks/ablations.py memory masks --seeds 1

Where variants need values of their own of an option, such as the learning rate, these are chosen by a sweep, every
variant with every value, and with other seeds than those of the proof. ::

    python benchmarks/ablations.py labels --sweep --seeds 11 12 13
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen
from counts import at_least_one
from ludus.runs import open_run
from ludus_terminal.pairs import play_pair
from safetensors.numpy import load_file
from trainings import train

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
        swept: An option, and its values that a sweep tries with every variant.
    """

    variants: dict[str, Variant]
    solved: float
    unsolved: float
    chance: float
    optimum: float = 1.0
    measure: str = "won"
    greedy: bool = True
    swept: tuple[str, tuple[str, ...]] = ("", ())

    def sweep(self) -> Proof:
        """Return every variant with every value of the swept option, and nothing expected of any."""
        name, values = self.swept
        variants = {}
        for label, variant in self.variants.items():
            others = tuple(setting for setting in variant.settings if not setting.startswith(f"{name}="))
            for value in values:
                variants[f"{label}, {value}"] = Variant(settings=(*others, f"{name}={value}"))
        return evolve(self, variants=variants)


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

#: By the name of the TOML file. One label in 17 of `labels` and `staleness` is guessed at 1/16, others at 1/3 or 1/4.
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
    "labels": Proof(
        variants={
            # each at the best rate of its own, which is the same for both
            "per-label": _with(f"{PPO}.label_objective=per-label", f"{PPO}.learning_rate=1e-2"),
            "joint": _without(f"{PPO}.label_objective=joint", f"{PPO}.learning_rate=1e-2"),
        },
        solved=0.8,
        unsolved=0.7,
        chance=(1 / 16 + 16 / 3) / 17,
        measure="return",
        swept=(f"{PPO}.learning_rate", ("2.5e-3", "5e-3", "1e-2", "2e-2")),
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


def run_proof(name: str, proof: Proof, *, seeds: Sequence[int], runs: Path, matches: int) -> dict[str, Any]:
    """Train and evaluate all variants of a proof with all seeds."""
    results: dict[str, Any] = {}
    for label, variant in proof.variants.items():
        results[label] = {"solves": variant.solves, "settings": list(variant.settings), "seeds": {}}
        for seed in seeds:
            folder = runs / f"{name}-{label.replace(' ', '_').replace(',', '')}-{seed}"
            took = train(HERE / f"{name}.toml", variant.settings, seed=seed, folder=folder)
            found = evaluate(folder, greedy=proof.greedy, matches=matches)
            results[label]["seeds"][str(seed)] = {"score": found[proof.measure], **found, **took}
    stated = {key: value for key, value in asdict(proof).items() if key not in ("variants", "swept")}
    return {**stated, "matches": matches, "variants": results}


def holds(proof: dict[str, Any], variant: dict[str, Any]) -> bool | None:
    """Return whether every seed of a variant is on its side of the thresholds; None if nothing is expected of it."""
    if variant["solves"] is None:
        return None
    scores = [seed["score"] for seed in variant["seeds"].values()]
    if variant["solves"]:
        return bool(min(scores) >= proof["solved"])
    return bool(max(scores) <= proof["unsolved"])


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


def best(swept: dict[str, Any]) -> Iterator[str]:
    """Yield the value of every variant whose mean score is best, of a sweep."""
    means: dict[str, dict[str, float]] = {}
    for label, variant in swept["variants"].items():
        scores = [seed["score"] for seed in variant["seeds"].values()]
        of, value = label.rsplit(", ", 1)
        means.setdefault(of, {})[value] = sum(scores) / len(scores)
    for of, by_value in means.items():
        value = max(by_value, key=lambda value: by_value[value])
        yield f"best for {of}: {value} ({by_value[value]:.3f} on average)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is missing, evaluate, print and write; return 1 if something expected does not hold, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("proofs", nargs="*", metavar="PROOF", help=f"default: all of {', '.join(PROOFS)}")
    parser.add_argument("--sweep", action="store_true", help="choose values of options instead of proving anything")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="choose and prove with different ones")
    parser.add_argument("--matches", type=at_least_one, default=500, help="per evaluation")
    parser.add_argument("--runs", type=Path, default=Path("runs/ablations"), help="where runs are kept")
    parser.add_argument("--json", type=Path, help="where results are written")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.proofs if name not in PROOFS]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(PROOFS)}")
    proofs = {name: PROOFS[name] for name in given.proofs or PROOFS}
    if given.sweep:
        proofs = {name: proof.sweep() for name, proof in proofs.items() if proof.swept[1]}
    given.runs.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for name, proof in proofs.items():
        results[name] = run_proof(name, proof, seeds=given.seeds, runs=given.runs, matches=given.matches)
        print(*list(table({name: results[name]}))[0 if len(results) == 1 else 1 :], sep="\n", flush=True)
        if given.sweep:
            print(*best(results[name]), sep="\n", flush=True)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    verdicts = [holds(proof, variant) for proof in results.values() for variant in proof["variants"].values()]
    return int(False in verdicts)


if __name__ == "__main__":
    raise SystemExit(main())
