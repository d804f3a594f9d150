"""Effects of single parts of the papers' methods: paired seeds, equal decisions, common opponents.

Every study trains its base and variants without one part, all with the same seeds and the same number of decisions.
The frozen models then play thousands of matches against the same opponents: scripted agents, and the base's final
models of other seeds. The effect of a part is the score of the base minus that of the variant, with the t interval over
the seeds. Existing runs are not trained again, so more seeds can be added later. ::

    python benchmarks/ablations.py aet --seeds 8 --jobs 2 --json benchmarks/results/ablations_aet.json

With --commands it prints the command of every run instead, to be started elsewhere, or tried for two minutes each::

    python benchmarks/ablations.py dis-football-pools --seeds 1 --commands | sed 's/$/ --minutes 2/' | sh
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from ludus.runs import Run, open_run, score
from ludus_terminal.evaluate import play_pair
from scipy import stats

EXAMPLES = Path(__file__).parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))

from exploiter_figures import Training, train_all  # noqa: E402 - imported from the examples

BASE = "base"


@attrs.frozen(kw_only=True)
class Study:
    """A comparison.

    Args:
        config: TOML file, below ``examples/``.
        options: Values of ``--set`` of all runs.
        variants: Further values by variant; the name is that of the part that the variant lacks.
        players: Players whose models are evaluated.
        anchors: Scripted opponents: anchors of the TOML file or installed agents.
        decisions: Training budget of all players together.
        rivals: Whether the final models of the base's other seeds are opponents, too.
        points: Number of models of a run, evenly spread over its training, whose mean score counts; 1: the last one.
        greedy: Whether models take their most likely action.
    """

    config: str
    options: Sequence[str]
    variants: Mapping[str, Sequence[str]]
    players: Sequence[str]
    anchors: Sequence[str]
    decisions: int
    rivals: bool = True
    points: int = 1
    greedy: bool = False


def _of_each(players: Sequence[str], *settings: str) -> list[str]:
    return [f"players.{player}.{setting}" for player in players for setting in settings]


_NEVER = "1000000000"
_SIDES = ("cat", "mouse")
_DIVERSE = ("main_agent", "policy_explorer", "rnd_explorer", "mappo_explorer")
_FOOTBALL_POLICIES = ("main_agent", "possession_explorer", "history_explorer")
_FOOTBALL_METHODS = ("rnd_explorer", "mappo_explorer")
_FOOTBALL = (*_FOOTBALL_POLICIES, *_FOOTBALL_METHODS)
_ONE_PROCESS = ("run.minutes=0", "run.workers=0", "run.learner_threads=1", "evaluation.final_matches=0")


def _football_pools(*pools: str) -> list[str]:
    """Return the settings by which the players of football meet these pools; method explorers never meet `policies`."""
    policies, methods = (
        "[" + ", ".join(f'"{pool}"' for pool in pools if pool not in excluded) + "]" for excluded in ((), ("policies",))
    )
    return [
        *_of_each(_FOOTBALL_POLICIES, f"msm.pools={policies}"),
        *_of_each(_FOOTBALL_METHODS, f"msm.pools={methods}"),
    ]


_FOOTBALL_STUDY = partial(
    Study,
    config="dis_football_small.toml",
    options=(),
    players=("main_agent",),
    anchors=("easy",),
    decisions=6_000_000,
)

_MOBA_STUDY = partial(
    Study,
    config="hok_moba.toml",
    players=("main_agent",),
    anchors=("wandering", "pushing", "careful"),
    decisions=3_000_000,
)

STUDIES = {
    "aet": Study(
        config="aet_chase.toml",
        options=_of_each(_SIDES, "with-scenarios.period_s=10", "freeze_every_decisions=50000"),
        variants={
            "ADA": [f"league.every_matches={_NEVER}"],
            "environment randomisation": _of_each(_SIDES, f"with-scenarios.period_s={_NEVER}"),
            "20 % history": _of_each(_SIDES, "mixture.weights={latest-self-play = 1.0}"),
        },
        players=_SIDES,
        anchors=("weak", "medium", "strong"),
        decisions=1_500_000,
    ),
    "dis": Study(
        config="dis_team_game.toml",
        options=[*_of_each(_DIVERSE, "msm.long_s=0", "msm.long_models=3"), "league.restart-from.seconds=4"],
        variants={
            "importance of models (MSM)": _of_each(_DIVERSE, "msm.temperature=1000000"),
            "pools of other players": _of_each(_DIVERSE, 'msm.pools=["own", "own/long"]'),
            "all history": _of_each(_DIVERSE, "msm.alpha=1.0"),
        },
        players=("main_agent",),
        anchors=("team-game-perfect",),
        decisions=300_000,
    ),
    "dis-football-pools": _FOOTBALL_STUDY(  # ablations 1 to 5 of [DIS table 1]
        variants={
            "models of all players (DMMP)": _football_pools("own", "own/long", "own/superior", "policies"),
            "pools of several players": _football_pools("own", "own/long", "own/superior"),
            "pools of superior models": _football_pools("own", "own/long"),
            "all pools but SHMP": _football_pools("own"),
            "all history": _of_each(_FOOTBALL, "msm.alpha=1.0"),
        },
    ),
    "dis-football-factors": _FOOTBALL_STUDY(  # [DIS figure 11], and the explorers
        variants={
            "importance of models (MSM)": _of_each(_FOOTBALL, "msm.temperature=1000000"),
            "specific scenarios (SST)": _of_each(_FOOTBALL, "with-scenarios.play=[]"),
            "no matches against built-in AI": _of_each(
                _FOOTBALL,
                'with-scenarios.matchmaker="mixture"',
                "mixture={weights = {msm = 0.9, against-anchors = 0.1}, capacity = 100, long_s = 900}",
                'against-anchors.against=["easy"]',
            ),
            "no action mask": ['environment.football.mask="rules"'],
            "explorers": _of_each(_FOOTBALL[1:], "share=0"),
        },
    ),
    "hok": _MOBA_STUDY(
        options=(),
        variants={
            "action mask": ['players.main_agent.interfaces=["hide-mask"]'],
            "objective per label": ['players.main_agent.ppo.label_objective="joint"'],
            "target attention": [
                "players.main_agent.hok.target=-1",
                "players.main_agent.hok.plain=0",
                "players.main_agent.hok.targets=[]",
            ],
            "LSTM": ['players.main_agent.hok.core="none"'],
        },
    ),
    "hok-stale": _MOBA_STUDY(  # all segments end at the same time and are up to 64 batches old
        options=("sampling.matches=256", "sampling.max_staleness=64", "players.main_agent.ppo.batch_decisions=512"),
        variants={"dual clip": ["players.main_agent.ppo.dual_clip=0"]},
    ),
    "minimax": Study(
        config="minimax_exploiter/tictactoe.toml",
        options=["players.exploiter.dqn.minimax_alpha=0.1"],
        variants={"minimax reward": ["players.exploiter.dqn.minimax_alpha=0"]},
        players=("exploiter",),
        anchors=("perfect",),
        decisions=60_000,
        rivals=False,
        points=10,
        greedy=True,
    ),
}


def trainings(name: str, *, seeds: Sequence[int], decisions: int, runs: Path) -> dict[tuple[str, int], Training]:
    """Return the runs of a study by variant and seed."""
    study = STUDIES[name]
    variants: dict[str, Sequence[str]] = {BASE: (), **study.variants}
    return {
        (variant, seed): Training(
            config=EXAMPLES / study.config,
            folder=runs / f"{name}-{'-'.join(variant.split()).replace('%', 'percent')}-{decisions}-{seed}",
            options=[
                f"run.seed={seed}",
                f"run.decisions={decisions}",
                *_ONE_PROCESS,
                *study.options,
                *variants[variant],
            ],
            minutes=0,
        )
        for seed in seeds
        for variant in variants
    }


def evaluate(study: Study, folders: Mapping[tuple[str, int], Path], *, matches: int) -> list[dict[str, Any]]:
    """Return the scores of all runs against each opponent, as rows of variant, seed, player and scores."""
    rows = []
    with ExitStack() as stack:
        runs = {key: stack.enter_context(open_run(folder)) for key, folder in folders.items()}
        for (variant, seed), run in runs.items():
            rivals = [its_run for (name, other), its_run in runs.items() if name == BASE and other != seed]
            for player in study.players:
                scores = _scores(study, run, player, rivals=rivals if study.rivals else [], matches=matches)
                rows.append({"variant": variant, "seed": seed, "player": player, "scores": scores})
                print(f"{variant}, seed {seed}, {player}: {np.mean(scores):.3f}", flush=True)
    return rows


def _scores(study: Study, run: Run, player: str, *, rivals: Sequence[Run], matches: int) -> list[float]:
    """Return the mean score of a player's models against each opponent."""
    models = [model.participant for model in run.models.values() if model.player == player]
    chosen = [models[i] for i in np.linspace(0, len(models), study.points + 1).astype(int)[1:] - 1]
    role = run.config.players[player].role
    opponents = [(run, name) for name in study.anchors]
    opponents += [
        (rival, f"{other}@latest")
        for rival in rivals
        for other in study.players
        if not role or rival.config.players[other].role != role
    ]
    play = partial(_score, run, role=role, matches=matches, greedy=study.greedy)
    return [float(np.mean([play(model, its_run, name) for model in chosen])) for its_run, name in opponents]


def _score(run: Run, model: str, its_run: Run, name: str, *, role: str, matches: int, greedy: bool) -> float:
    """Return the score of a model against a participant of `its_run`, which plays the other role if there are two."""
    environment = run.make_environment(min(matches, 256))
    try:
        roles = {each.name: each.teams[0] for each in environment.spec.roles}
        own = role or next(iter(roles))
        other = next((each for each in roles if each != own), own)
        sides = [
            {own: run.agent(model, own, environment=environment, deterministic=greedy)},
            {other: its_run.agent(name, other, environment=environment)},
        ]
        is_first = roles[own] == 0
        played = play_pair(environment, sides if is_first else sides[::-1], matches=matches, seed=0)
    finally:
        environment.close()
    share = score(played.wins, played.draws, played.losses).score
    return share if is_first else 1 - share


def table(study: Study, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table of effects, with 95 % intervals over paired seeds."""
    yield "| part | player | seeds | with | without | effect | 95 % interval | |"
    yield "|---|---|---|---|---|---|---|---|"
    means = {(row["variant"], row["player"], row["seed"]): np.mean(row["scores"]) for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    for variant in study.variants:
        for player in study.players:
            full, without = (np.array([means[name, player, seed] for seed in seeds]) for name in (BASE, variant))
            low, high = _interval(full - without)
            effect = (full - without).mean()
            verdict = "significant" if low > 0 or high < 0 else "not significant"
            yield (
                f"| {variant} | {player} | {len(seeds)} | {full.mean():.3f} | {without.mean():.3f} | {effect:+.3f} "
                f"| {low:+.3f} to {high:+.3f} | {verdict} |"
            )


def _interval(differences: np.ndarray) -> tuple[float, float]:
    half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    return float(differences.mean() - half), float(differences.mean() + half)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train missing runs, play the matches, write the scores and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--seeds", type=int, default=8, help="number of seeds, from 1; at least 2")
    parser.add_argument("--decisions", type=int, help="training budget instead of that of the study")
    parser.add_argument("--matches", type=int, default=500, help="matches of a model against each opponent")
    parser.add_argument("--jobs", type=int, default=1, help="number of runs at a time; each takes one core")
    parser.add_argument("--runs", type=Path, default=Path("runs/ablations"), help="folder of the runs")
    parser.add_argument("--json", type=Path, help="file for the scores")
    parser.add_argument("--commands", action="store_true", help="print the command of every run, and train nothing")
    given = parser.parse_args(arguments)
    study = STUDIES[given.study]
    decisions = given.decisions or study.decisions
    missing = trainings(given.study, seeds=range(1, given.seeds + 1), decisions=decisions, runs=given.runs)
    if given.commands:
        print("\n".join(shlex.join(training.command()) for training in missing.values()))
        return
    train_all(list(missing.values()), jobs=given.jobs)
    rows = evaluate(study, {key: training.folder for key, training in missing.items()}, matches=given.matches)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(
            {"study": given.study, "decisions": decisions, "matches": given.matches, "rows": rows}, indent=1
        )
        given.json.write_text(text + "\n", encoding="utf-8")
    print("\n".join(table(study, rows)))


if __name__ == "__main__":
    main()
