"""``tune``: matches, samplers, learners and minibatch that suit this machine, measured in about two minutes."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing

from attrs import evolve, frozen

from ludus_bench._pieces import Setup, available_cores, oversubscription, table_of
from ludus_bench.machine import describe, limit_threads
from ludus_bench.parts import Updating
from ludus_bench.report import Figure, Limit, Report, figure_of
from ludus_bench.selfplay import Shape, played
from ludus_bench.single import record, said_of
from ludus_bench.timing import Plan, Rate, measure, summarize

__all__ = ["Choice", "bench_tune", "best_of", "candidates", "choices_to_run", "smallest_of_best", "snippet"]

_MATCHES = (64, 128, 256, 512, 1024)
_MINIBATCHES = (1024, 2048, 4096)
_NEAR = 0.97  # a smaller number that reaches so much of the best rate is preferred
_SPARE = 2.0  # how much faster samplers should be: in a run they also report, and not all is learned from
_STARTING_S = 12.0  # what a run takes before its window


@frozen(kw_only=True)
class Choice:
    """One way to spread a run, with the decisions per second that its parts promise.

    Attributes:
        workers: Sampler processes.
        learner_processes: Of each player.
        learner_threads: Of each of these.
        matches: Of each sampler.
        promised: By the rates of its parts; several processes promise what as many threads do.
    """

    workers: int
    learner_processes: int = 1
    learner_threads: int
    matches: int
    promised: float

    def threads(self, players: int, *, sampler_threads: int = 1) -> int:
        """Return how many threads compute in all processes together."""
        return self.workers * sampler_threads + players * self.learner_processes * self.learner_threads


def smallest_of_best(rates: dict[int, float], *, enough: float = math.inf) -> int:
    """Return the smallest key whose rate is nearly the highest or enough: it uses less memory, and is fresher."""
    wanted = min(enough, _NEAR * max(rates.values()))
    return min(key for key, rate in rates.items() if rate >= wanted)


def candidates(sampling: dict[int, float], updates: dict[int, float], *, cores: float, players: int) -> list[Choice]:
    """Return ways to spread a run over the cores, the most promising first.

    Samplers and learners run side by side, so the slower side decides; where they are more than the cores they
    share them evenly.

    Args:
        sampling: Matches to decisions per second of one sampler on one core.
        updates: Threads to decisions per second of one learner.
        cores: What there is.
        players: Learners.
    """
    found = []
    for workers, (threads, update) in itertools.product(range(1, max(2, math.floor(cores) + 1)), updates.items()):
        busy, learned = workers + players * threads, players * update
        matches = smallest_of_best(sampling, enough=_SPARE * learned / workers)
        promised = min(1.0, cores / busy) * min(workers * sampling[matches], learned)
        found.append(Choice(workers=workers, learner_threads=threads, matches=matches, promised=promised))
    return sorted(found, key=lambda choice: (-choice.promised, choice.threads(players)))


def choices_to_run(choices: Sequence[Choice], *, groups: bool) -> list[Choice]:
    """Return the choices to try as whole runs, in this order.

    Args:
        choices: The most promising first.
        groups: Whether trainers can learn in several processes; the best of those with several threads is then tried
            with as many processes, too.
    """
    found = list(choices[:3])
    several = next((choice for choice in found if choice.learner_threads > 1), None)
    if groups and several is not None:
        processes = evolve(several, learner_processes=several.learner_threads, learner_threads=1)
        found.insert(found.index(several) + 1, processes)
    return found


def best_of(runs: dict[Choice, float], *, players: int) -> Choice:
    """Return the choice with the fewest threads of those that are nearly as fast as the fastest."""
    best = max(runs.values())
    return min((choice for choice in runs if runs[choice] >= _NEAR * best), key=lambda choice: choice.threads(players))


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
    configured = [player.learner_processes for player in setup.config.players.values()]
    setup = setup.with_processes(1)
    sampling = _try_matches(setup, plan)
    sizes = _try_minibatches(setup, plan)
    size = smallest_of_best(_medians(sizes))
    tuned = setup if size == 0 else setup.with_minibatch(size)
    updates = _try_threads(tuned, plan, cores=cores)
    choices = candidates(_medians(sampling), _medians(updates), cores=cores, players=players)
    runs = _try_runs(tuned, choices, end=end)
    played_per_s = {choice: summarize(rates).median for choice, rates in runs.items()}
    best = best_of(played_per_s, players=players) if runs else choices[0]
    figures = [
        *_figures("sampling_per_s", "matches", sampling),
        *_figures("update_per_s", "minibatch", {rows: rate for rows, rate in sizes.items() if rows}),
        *_figures("update_per_s", "learner_threads", updates),
        *(_run_figure(choice, rates) for choice, rates in runs.items()),
    ]
    regrouped = setup.players if any(count != best.learner_processes for count in configured) else ()
    toml = snippet(best, regrouped=regrouped, option=tuned.minibatch_option if size else None)
    warning = oversubscription(best.threads(players, sampler_threads=setup.config.run.sampler_threads), cores)
    return Report(
        command="tune",
        figures=tuple(figures),
        machine=describe(),
        config={**said_of(setup), "players": len(setup.players)},
        values={
            "best": {
                "workers": best.workers,
                "learner_processes": best.learner_processes,
                "learner_threads": best.learner_threads,
                "matches": best.matches,
                "minibatch": size or None,
            },
            "promised_per_s": best.promised,
            "oversubscribed": bool(warning),
            "toml": toml,
        },
        notes=tuple(filter(None, [warning, _small(size), toml])),
    )


def _medians(rates: dict[int, Rate]) -> dict[int, float]:
    return {key: rate.median for key, rate in rates.items()}


def _small(size: int) -> str:
    said = f"minibatches of {size} rows change what is learned, not only how fast: compare before you keep them"
    return said if size else ""


def snippet(best: Choice, *, regrouped: Sequence[str] = (), option: tuple[str, int] | None) -> str:
    """Return the TOML lines that set a choice.

    Args:
        best: What to set.
        regrouped: Players that get another number of processes than they have.
        option: Dotted key and value of the algorithm's number of minibatches; None where it has none.
    """
    lines = ["[run]", f"workers = {best.workers}", f"learner_threads = {best.learner_threads}"]
    lines += ["", "[sampling]", f"matches = {best.matches}"]
    for player in regrouped:
        lines += ["", f"[{table_of(player)}]", f"learner_processes = {best.learner_processes}"]
    if option is not None:
        table, _, key = option[0].rpartition(".")
        lines += ["", f"[{table}]", f"{key} = {option[1]}"]
    return "\n".join(lines)


# -- trials --------------------------------------------------------------------------------------------------------


def _try_matches(setup: Setup, plan: Plan) -> dict[int, Rate]:
    with limit_threads(1), ExitStack() as stack:
        samplers = {count: stack.enter_context(closing(setup.sampling(matches=count))) for count in _MATCHES}
        rates = measure({f"{count} matches": sampler.work for count, sampler in samplers.items()}, plan)
    return {count: rates[f"{count} matches"] for count in _MATCHES}


def _try_minibatches(setup: Setup, plan: Plan) -> dict[int, Rate]:
    """Return rates by rows of a minibatch; by 0 alone where the algorithm has no such option."""
    recorded = record(setup, setup.learned().trainer.batch_decisions)
    sizes = _MINIBATCHES if setup.minibatch_option else (0,)
    tuned = {rows: setup.with_minibatch(rows) if rows else setup for rows in sizes}
    with limit_threads(1):
        works = {f"minibatches of {rows}": Updating.of(each.learned(), recorded).work for rows, each in tuned.items()}
        rates = measure(works, plan)
    return {rows: rates[f"minibatches of {rows}"] for rows in sizes}


def _try_threads(setup: Setup, plan: Plan, *, cores: float) -> dict[int, Rate]:
    recorded, found = record(setup, setup.learned().trainer.batch_decisions), {}
    for threads in _doubled(max(1, math.floor(cores))):
        with limit_threads(threads):  # from the start: a trainer divides its work among as many as there are then
            works = {f"{threads} threads": Updating.of(setup.learned(), recorded).work}
            [found[threads]] = measure(works, plan).values()
    return found


def _doubled(most: int) -> Sequence[int]:
    return [2**power for power in range(most.bit_length()) if 2**power <= most]


def _try_runs(setup: Setup, choices: Sequence[Choice], *, end: float) -> dict[Choice, tuple[float, ...]]:
    """Return the decisions per second of the most promising choices as whole runs, as many as there is time for."""
    found: dict[Choice, tuple[float, ...]] = {}
    for choice in choices_to_run(choices, groups=setup.learns_in_groups):
        window = min(15.0, (end - time.monotonic()) / 2 - _STARTING_S)
        if window < 3.0:
            break
        shape = Shape(workers=choice.workers, matches=choice.matches, learner_threads=choice.learner_threads)
        spread = setup.with_processes(choice.learner_processes)
        result = played(spread.dump(**shape.sections), seconds=window, warmup_s=2.0)
        found[choice] = result.per_s
    return found


def _figures(name: str, key: str, rates: dict[int, Rate]) -> list[Figure]:
    best = Limit(value=max((rate.median for rate in rates.values()), default=1.0), of="the best of these")
    return [figure_of(name, rate, limit=best, at={key: value}) for value, rate in rates.items()]


def _run_figure(choice: Choice, rates: tuple[float, ...]) -> Figure:
    at = {
        "workers": choice.workers,
        "learner_processes": choice.learner_processes,
        "learner_threads": choice.learner_threads,
        "matches": choice.matches,
    }
    limit = Limit(value=choice.promised, of="the parts measured alone, the slower side deciding")
    return Figure(name="run_decisions_per_s", summary=summarize(rates), limit=limit, at=at)
