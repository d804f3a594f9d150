"""Whole leagues against leagues without one of their parts, at equal wall-clock on one core.

Every variant is trained with every seed, one after the other and in turns, so that what disturbs the machine hits all
alike. Then all final models play each other and scripted bots in one process, and are rated together. Trainings and
matches that are there already are not repeated, so it can be stopped and started again, and seeds can be added. ::

    python benchmarks/league_ablations.py dis --seeds 1 2 3 --minutes 2 --json benchmarks/results/league_dis.json
    python benchmarks/league_ablations.py minimax --minutes 10 --most 2
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve
from counts import at_least_one
from league_matches import Arena, Entrant, models, pairs, progress, rate
from league_studies import STUDIES, Study
from league_tables import markdown, summarize, write
from ludus.runs import Score, open_run
from trainings import is_trained, told_of, train

HERE = Path(__file__).parent / "league_ablations"


def trainings(study: str, *, variants: Sequence[str], seeds: Sequence[int], runs: Path) -> dict[tuple[str, int], Path]:
    """Return the folders of all runs by variant and seed, in the order in which they are trained.

    Every seed begins with another variant, so that none always has the machine as it is at the beginning.
    """
    order = [
        (variants[(place + turn) % len(variants)], seed)
        for turn, seed in enumerate(seeds)
        for place in range(len(variants))
    ]
    return {(variant, seed): runs / f"{study}-{_plain(variant)}-{seed}" for variant, seed in order}


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def train_all(
    study: str,
    folders: Mapping[tuple[str, int], Path],
    *,
    budget: Sequence[str],
    most: int | None = None,
    least_share: float = 0.0,
) -> bool:
    """Train what is missing, and return whether nothing is missing any more.

    Args:
        study: Name of the study.
        folders: By variant and seed.
        budget: Settings of all variants, which say when each is over.
        most: After so many trainings it stops; None: not before the last one.
        least_share: Of a core that each must have had, otherwise it is repeated the next time.
    """
    for number, ((variant, seed), folder) in enumerate(folders.items(), start=1):
        settings = (*STUDIES[study].variants[variant], *budget)
        file = HERE / f"{study}.toml"
        if is_trained(file, settings, seed=seed, folder=folder, least_share=least_share):
            continue
        if most == 0:
            return False
        most = most and most - 1
        took = train(file, settings, seed=seed, folder=folder, least_share=least_share)
        print(
            f"{number}/{len(folders)} {variant}, seed {seed}: {took['cpu_s']:.0f} of {took['wall_s']:.0f} s", flush=True
        )
    return True


def entrants_of(study: Study, folders: Mapping[tuple[str, int], Path]) -> list[Entrant]:
    """Return the final models of all runs."""
    found = []
    for (variant, seed), folder in folders.items():
        for player in study.players:
            [(model, _)] = models(folder, player, points=1)
            several = f" {player}" if len(study.players) > 1 else ""
            found.append(evolve(model, name=f"{variant} {seed}{several}", variant=variant, seed=seed))
    return found


def anchors_of(study: Study, arena: Arena) -> list[Entrant]:
    """Return the scripted opponents in every role."""
    roles = [role.name for role in arena.spec.roles]
    return [
        Entrant(name=label if arena.symmetric else f"{label} {role}", role=role, key=name)
        for label, name in study.anchors.items()
        for role in roles
    ]


def evaluate(
    study: Study, folders: Mapping[tuple[str, int], Path], arena: Arena, given: argparse.Namespace
) -> dict[str, Any]:
    """Let everybody play and return what is known of every run, every scripted opponent, and every pair."""
    anchors = anchors_of(study, arena)
    entrants = [*entrants_of(study, folders), *anchors]
    results: dict[tuple[int, int], Score] = {}
    for i, j in pairs(arena, entrants):
        results[i, j] = arena.meet(entrants[i], entrants[j], matches=given.matches)
    ratings = rate(len(entrants), results)
    found = [
        {
            "name": who.name,
            "variant": who.variant,
            "seed": who.seed,
            "player": who.player,
            "model": who.key,
            "rating": rating,
        }
        for who, rating in zip(entrants, ratings, strict=True)
    ]
    runs = []
    for (variant, seed), folder in folders.items():
        players = progress(folder)
        for player in study.players:
            players[player]["curve"] = curve(folder, player, anchors, arena, given)
        took = json.loads(told_of(folder).read_text(encoding="utf-8"))["took"]
        runs.append({"variant": variant, "seed": seed, **took, "players": players})
    return {
        "entrants": found,
        "pairs": [[entrants[i].name, entrants[j].name, r.wins, r.draws, r.losses] for (i, j), r in results.items()],
        "runs": runs,
    }


def curve(
    folder: Path, player: str, anchors: Sequence[Entrant], arena: Arena, given: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return what models of a run got against each scripted opponent, in the order in which they were frozen."""
    points = []
    for model, when in models(folder, player, points=given.points):
        met = [bot for bot in anchors if arena.symmetric or arena.team(bot) != arena.team(model)]
        shares = {bot.name: arena.meet(model, bot, matches=given.curve_matches).score for bot in met}
        points.append({**when, "score": sum(shares.values()) / len(shares), "anchors": shares})
    return points


def read(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--variants", nargs="+", metavar="NAME", help="default: all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--minutes", type=float, default=2.0, help="of wall-clock per training")
    parser.add_argument("--decisions", type=int, default=0, help="of all players per training, instead of minutes")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for all variants alike")
    parser.add_argument(
        "--most", type=at_least_one, help="trainings now; those that are missing are left to another time"
    )
    parser.add_argument(
        "--least-core", type=float, default=0.0, help="trainings that had a smaller share of a core are repeated"
    )
    parser.add_argument(
        "--matches", type=at_least_one, default=200, help="per pair of final models, and with scripted opponents"
    )
    parser.add_argument("--points", type=at_least_one, default=6, help="models of every curve over training time")
    parser.add_argument(
        "--curve-matches", type=at_least_one, default=100, help="of each of them with each scripted opponent"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/leagues"), help="where runs and matches are kept")
    parser.add_argument("--json", type=Path, help="where results are written, with .csv, .md and .png beside it")
    given = parser.parse_args(arguments)
    known = STUDIES[given.study].variants
    given.variants = given.variants or list(known)
    if unknown := [name for name in given.variants if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return given


def budget(given: argparse.Namespace) -> tuple[str, ...]:
    """Return the settings of all variants: by what trainings end, and what the command line adds."""
    if given.decisions:
        return (f"run.decisions={given.decisions}", "run.minutes=0", *given.set)
    return (f"run.minutes={given.minutes:g}", *given.set)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is missing, evaluate, print and write."""
    given = read(arguments)
    study = STUDIES[given.study]
    given.runs.mkdir(parents=True, exist_ok=True)
    folders = trainings(given.study, variants=given.variants, seeds=given.seeds, runs=given.runs)
    least = given.least_core if not given.decisions else 0.0  # the same decisions are the same training anywhere
    if not train_all(given.study, folders, budget=budget(given), most=given.most, least_share=least):
        print("some trainings are still missing; start it again to go on")
        return 0
    with open_run(next(iter(folders.values()))) as run:
        arena = Arena(run=run, log=given.runs / f"{given.study}-matches.jsonl")
        found = evaluate(study, folders, arena, given)
    stated = {"study": given.study, "title": study.title, "budget": list(budget(given)), "seeds": given.seeds}
    settings = {name: list(study.variants[name]) for name in given.variants}
    results = {**stated, "matches": given.matches, "settings": settings, **found}
    results |= summarize(results, study)
    print("\n".join(markdown(results)))
    if given.json:
        write(results, given.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
