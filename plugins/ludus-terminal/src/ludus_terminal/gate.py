"""``ludus gate``: play two participants of a run until a sequential test decides whether one is stronger."""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import attrs
import click
import numpy as np
from attrs import define, field, frozen
from ludus.cli_types import FiniteRange
from ludus.environment import Scenario
from ludus.errors import ConfigError
from ludus.runs import Run, open_run
from ludus_ratings.sequential import MAX_ELO, SequentialTest, Verdict, normalized_elo

from ludus_terminal.evaluate import SCENARIO, SEED
from ludus_terminal.promotion import add_to_pool, check_promotion
from ludus_terminal.seed_pairs import PairLog, PairPlan, PairRounds

__all__ = ["gate"]

_STATUS: dict[Verdict, int] = {"passed": 0, "refused": 1, "undecided": 2}
_POINTS = ("0", "½", "1", "1½", "2")
_INTERVAL_S = 10.0  # between two lines where the output is no terminal
_ELO = FiniteRange(-MAX_ELO, MAX_ELO)
_RATE = FiniteRange(0.0, 0.5, min_open=True, max_open=True)


@click.command()
@click.argument("run_dir", metavar="RUN")
@click.argument("candidate")
@click.argument("reference")
@click.option("--elo0", type=_ELO, default=0.0, show_default=True, help="Normalized Elo of a candidate to refuse.")
@click.option("--elo1", type=_ELO, default=50.0, show_default=True, help="Normalized Elo of a candidate that passes.")
@click.option("--alpha", type=_RATE, default=0.05, show_default=True, help="Error rate: passes with elo0.")
@click.option("--beta", type=_RATE, default=0.05, show_default=True, help="Error rate: refused with elo1.")
@click.option(
    "--max-matches",
    type=click.IntRange(2, 10**9),
    default=10_000,
    show_default=True,
    help="Number of matches after which the test ends undecided.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of matches and sampling.")
@click.option("--deterministic", is_flag=True, help="Models take their most likely action instead of sampling.")
@SCENARIO
@click.option("--processes", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes that play.")
@click.option("--pool", default="", metavar="POOL", help="Add the candidate to this pool if it passes.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def gate(
    context: click.Context,
    run_dir: str,
    candidate: str,
    reference: str,
    *,
    elo0: float,
    elo1: float,
    alpha: float,
    beta: float,
    max_matches: int,
    seed: int,
    deterministic: bool,
    scenario: Scenario,
    processes: int,
    pool: str,
    as_json: bool,
) -> None:
    """Test whether CANDIDATE is stronger than REFERENCE; stop as soon as the matches decide it.

    Both are models, anchors or installed agents of one role. They play pairs of matches: on the same seed with
    exchanged seats, or each against the same others where they cannot meet. The test is a sequential probability ratio
    test of the normalized Elo of the candidate, --elo0 against --elo1. The exit status is 0 if the candidate passes, 1
    if it is refused and 2 if the test is undecided after --max-matches; errors have 1 and 2 too. The pairs are kept in
    the folder gates of the run, so that the same command goes on after an interruption.
    """
    try:
        test = SequentialTest(elo0=elo0, elo1=elo1, alpha=alpha, beta=beta)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with open_run(run_dir) as run:
        names = (_resolve(run, candidate), _resolve(run, reference))
        if names[0] == names[1]:
            raise ConfigError(f"{names[0]} cannot be stronger than itself; name two different participants")
        if pool:
            check_promotion(run, names[0], pool)
        plan = PairPlan(run_dir, *names, seed=seed, scenario=scenario.name, deterministic=deterministic).seat(run)
        log = PairLog.of(plan, run)
    with PairRounds(plan, processes=processes) as rounds:
        state = _run_test(test, rounds, log, max_matches=max_matches, progress=_Progress(is_quiet=as_json))
    promoted = bool(pool) and state.verdict == "passed" and _promote(Path(run_dir), plan.candidate, pool)
    if as_json:
        entered = {"pool": pool if promoted else None}
        click.echo(json.dumps({"participants": plan.participants, **state.json(), **entered}))
    else:
        click.echo(state.summary(plan))
        if promoted:
            click.echo(f"{plan.candidate} is in the pool {pool} now")
    context.exit(_STATUS[state.verdict])


def _resolve(run: Run, text: str) -> str:
    """Return a participant with its number: ``@latest`` must not become another model while a test is interrupted."""
    place, separator, name = text.rpartition("=")
    player = name.partition("@")[0]
    known = player in run.league.players or name in run.league.anchors
    if not known and name in run.plugins.components("agent"):
        return text
    return place + separator + run.resolve(f"{name}@latest" if name in run.league.players else name)


def _promote(folder: Path, model: str, pool: str) -> bool:
    """Add a model to a pool, and return whether it has not been there."""
    with open_run(folder) as run:
        if model in run.pools.get(pool, ()):
            return False
    add_to_pool(folder, model, pool)
    return True


def _run_test(
    test: SequentialTest, rounds: PairRounds, log: PairLog, *, max_matches: int, progress: _Progress
) -> _State:
    """Add the rounds of the log, then new ones, until the test is decided or has enough matches."""
    kept = log.read()
    state = _State(test, np.zeros(5, np.int64))
    for number in itertools.count():
        if number == len(kept):
            kept.append(rounds.play(number))
            log.write(kept)
        state = _State(test, state.counts + kept[number])
        if state.verdict != "undecided" or state.matches >= max_matches:
            break
        progress.show(state)
    progress.end()
    return state


@frozen
class _State:
    """A test after some pairs, with at least one."""

    test: SequentialTest
    counts: np.ndarray

    @property
    def matches(self) -> int:
        return 2 * int(self.counts.sum())

    @property
    def ratio(self) -> float:
        return float(self.test.log_likelihood_ratio(self.counts))

    @property
    def verdict(self) -> Verdict:
        return self.test.verdict(self.counts)

    @property
    def score(self) -> float:
        return float(self.counts @ np.arange(5)) / (2.0 * self.matches)

    def text(self) -> str:
        elo = normalized_elo(self.counts)
        estimate = "normalized Elo {:+.0f} [{:+.0f}, {:+.0f}], ".format(*elo) if elo else ""
        return (
            f"{self.matches:,} matches, score {self.score:.3f}, {estimate}"
            f"LLR {self.ratio:+.2f} in ({self.test.lower:.2f}, {self.test.upper:.2f})"
        )

    def summary(self, plan: PairPlan) -> str:
        first, second, test = plan.candidate, plan.reference, self.test
        pairs = ", ".join(f"{count} of {points}" for points, count in zip(_POINTS, self.counts, strict=True))
        verdict = {
            "passed": f"{first} passes: stronger than {second} (normalized Elo {test.elo1:g} accepted, "
            f"{test.elo0:g} rejected)",
            "refused": f"{first} is refused: not stronger than {second} (normalized Elo {test.elo0:g} accepted, "
            f"{test.elo1:g} rejected)",
            "undecided": f"undecided whether {first} is stronger than {second} (normalized Elo {test.elo0:g} or "
            f"{test.elo1:g}); a larger --max-matches goes on",
        }[self.verdict]
        second += f" beside {', '.join(plan.others)}" if plan.others else ""
        return f"{first} against {second}: {self.text()}\npairs by points of {first}: {pairs}\n{verdict}"

    def json(self) -> dict[str, Any]:
        elo = normalized_elo(self.counts)
        return {
            "verdict": self.verdict,
            "llr": self.ratio,
            "bounds": [self.test.lower, self.test.upper],
            **attrs.asdict(self.test),
            "matches": self.matches,
            "pairs": self.counts.tolist(),
            "score": self.score,
            "normalized_elo": elo and elo[0],
            "interval": elo and list(elo[1:]),
        }


@define(kw_only=True)
class _Progress:
    """Shows the state of a test: in a terminal as one line that changes, else as a line from time to time."""

    is_quiet: bool
    _shown_s: float = field(init=False, factory=time.monotonic)

    def show(self, state: _State) -> None:
        if self.is_quiet:
            return
        if sys.stdout.isatty():
            click.echo(f"\r\x1b[K{state.text()}", nl=False)
        elif time.monotonic() - self._shown_s >= _INTERVAL_S:
            self._shown_s = time.monotonic()
            click.echo(state.text())

    def end(self) -> None:
        if not self.is_quiet and sys.stdout.isatty():
            click.echo("\r\x1b[K", nl=False)
