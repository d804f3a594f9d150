"""``tune``: matches, samplers, threads and minibatch that suit this machine, measured in about two minutes."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing

from attrs import frozen

from ludus_bench._pieces import Setup, available_cores
from ludus_bench.machine import describe, limit_threads, oversubscription
from ludus_bench.parts import Updating
from ludus_bench.report import Figure, Limit, Report, figure_of
from ludus_bench.selfplay import Shape, played
from ludus_bench.single import record, said_of
from ludus_bench.timing import Plan, Rate, measure, summarize

__all__ = ["Choice", "bench_tune", "candidates", "smallest_of_best", "snippet"]

_MATCHES = (64, 128, 256, 512, 1024)
_MINIBATCHES = (1024, 2048, 4096)
_NEAR = 0.97  # a smaller number that reaches so much of the best rate is preferred
_STARTING_S = 12.0  # what a run takes before its window


@frozen(kw_only=True)
class Choice:
    """One way to spread a run, with the decisions per second that its parts promise."""

    workers: int
    learner_threads: int
    promised: float

    def threads(self, players: int) -> int:
        """Return how many threads compute in all processes together."""
        return self.workers + players * self.learner_threads


def smallest_of_best(rates: dict[int, float]) -> int:
    """Return the smallest key whose rate is nearly the highest: what is smaller uses less memory and is fresher."""
    best = max(rates.values())
    return min(key for key, rate in rates.items() if rate >= _NEAR * best)


def candidates(sampling: float, updates: dict[int, float], *, cores: float, players: int) -> list[Choice]:
    """Return ways to spread a run over the cores, the most promising first.

    Samplers and learners run side by side, so the slower side decides; where they are more than the cores they
    share them evenly.

    Args:
        sampling: Decisions per second of one sampler on one core.
        updates: Threads to decisions per second of one learner.
        cores: What there is.
        players: Learners.
    """
    found = []
    for workers, (threads, update) in itertools.product(range(1, max(2, math.floor(cores) + 1)), updates.items()):
        busy = workers + players * threads
        share = min(1.0, cores / busy)
        found.append(
            Choice(
                workers=workers,
                learner_threads=threads,
                promised=share * min(workers * sampling, players * update),
            )
        )
    return sorted(found, key=lambda choice: (-choice.promised, choice.threads(players)))


def bench_tune(setup: Setup, *, seconds: float, plan: Plan) -> Report:
    """Try what there is to choose, part by part, then the best choices as whole runs.

    Args:
        setup: The configuration to tune.
        seconds: About how long all of it may take.
        plan: How long each part is measured.

    Raises:
        RunError: A trial run ended early.
    """
    end, cores, players = time.monotonic() + seconds, available_cores(), len(setup.players)
    sampling = _try_matches(setup, plan)
    matches = smallest_of_best({count: rate.median for count, rate in sampling.items()})
    sizes = _try_minibatches(setup, plan)
    size = smallest_of_best({rows: rate.median for rows, rate in sizes.items()})
    tuned = setup if size == 0 else setup.with_minibatch(size)
    updates = _try_threads(tuned, plan, cores=cores)
    medians = {threads: rate.median for threads, rate in updates.items()}
    choices = candidates(sampling[matches].median, medians, cores=cores, players=players)
    runs = _try_runs(tuned, choices, matches=matches, end=end)
    best = max(runs, key=lambda choice: summarize(runs[choice]).median) if runs else choices[0]
    figures = [
        *_figures("sampling_per_s", "matches", sampling),
        *_figures("update_per_s", "minibatch", {rows: rate for rows, rate in sizes.items() if rows}),
        *_figures("update_per_s", "learner_threads", updates),
        *(_run_figure(choice, rates) for choice, rates in runs.items()),
    ]
    toml = snippet(best, matches=matches, option=tuned.minibatch_option if size else None)
    warning = oversubscription(best.threads(players), cores)
    return Report(
        command="tune",
        figures=tuple(figures),
        machine=describe(),
        config={**said_of(setup), "players": players},
        values={
            "best": {
                "workers": best.workers,
                "learner_threads": best.learner_threads,
                "matches": matches,
                "minibatch": size or None,
            },
            "promised_per_s": best.promised,
            "oversubscribed": bool(warning),
            "toml": toml,
        },
        notes=tuple(filter(None, [warning, _small(size), toml])),
    )


def _small(size: int) -> str:
    said = f"minibatches of {size} rows change what is learned, not only how fast: compare before you keep them"
    return said if size else ""


def snippet(best: Choice, *, matches: int, option: tuple[str, int] | None) -> str:
    """Return the TOML lines that set a choice.

    Args:
        best: What to set.
        matches: Matches of each sampler.
        option: Dotted key and value of the algorithm's number of minibatches; None where it has none.
    """
    lines = ["[run]", f"workers = {best.workers}", f"learner_threads = {best.learner_threads}"]
    lines += ["", "[sampling]", f"matches = {matches}"]
    if option is not None:
        table, _, key = option[0].rpartition(".")
        lines += ["", f"[{table}]", f"{key} = {option[1]}"]
    return "\n".join(lines)


# -- trials --------------------------------------------------------------------------------------------------------


def _try_matches(setup: Setup, plan: Plan) -> dict[int, Rate]:
    with limit_threads(1), ExitStack() as stack:
        samplers = {count: stack.enter_context(closing(setup.sampling(matches=count))) for count in _MATCHES}
        rates = measure({str(count): sampler.work for count, sampler in samplers.items()}, plan)
    return {count: rates[str(count)] for count in _MATCHES}


def _try_minibatches(setup: Setup, plan: Plan) -> dict[int, Rate]:
    """Return rates by rows of a minibatch; by 0 alone where the algorithm has no such option."""
    recorded = record(setup, setup.learned().trainer.batch_decisions)
    sizes = _MINIBATCHES if setup.minibatch_option else (0,)
    tuned = {rows: setup.with_minibatch(rows) if rows else setup for rows in sizes}
    with limit_threads(1):
        works = {str(rows): Updating.of(each.learned(), recorded).work for rows, each in tuned.items()}
        rates = measure(works, plan)
    return {rows: rates[str(rows)] for rows in sizes}


def _try_threads(setup: Setup, plan: Plan, *, cores: float) -> dict[int, Rate]:
    learned = setup.learned()
    updating = Updating.of(learned, record(setup, learned.trainer.batch_decisions))
    found = {}
    for threads in _doubled(max(1, math.floor(cores))):
        with limit_threads(threads):
            found[threads] = measure({"": updating.work}, plan)[""]
    return found


def _doubled(most: int) -> Sequence[int]:
    return [2**power for power in range(most.bit_length()) if 2**power <= most]


def _try_runs(setup: Setup, choices: Sequence[Choice], *, matches: int, end: float) -> dict[Choice, tuple[float, ...]]:
    """Return the decisions per second of the most promising choices as whole runs, as many as there is time for."""
    found: dict[Choice, tuple[float, ...]] = {}
    for choice in choices[:3]:
        window = min(15.0, (end - time.monotonic()) / 2 - _STARTING_S)
        if window < 3.0:
            break
        shape = Shape(workers=choice.workers, matches=matches, learner_threads=choice.learner_threads)
        result = played(setup.dump(**shape.sections), seconds=window, warmup_s=2.0)
        found[choice] = result.per_s
    return found


def _figures(name: str, key: str, rates: dict[int, Rate]) -> list[Figure]:
    best = Limit(value=max((rate.median for rate in rates.values()), default=1.0), of="the best of these")
    return [figure_of(name, rate, limit=best, at={key: value}) for value, rate in rates.items()]


def _run_figure(choice: Choice, rates: tuple[float, ...]) -> Figure:
    at = {"workers": choice.workers, "learner_threads": choice.learner_threads}
    limit = Limit(value=choice.promised, of="the parts measured alone, the slower side deciding")
    return Figure(name="run_decisions_per_s", summary=summarize(rates), limit=limit, at=at)
