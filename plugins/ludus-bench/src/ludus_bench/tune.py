"""``tune``: choose matches, samplers, learner threads and minibatch for this machine in about two minutes."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing

from attrs import asdict, evolve, frozen

from ludus_bench._setup import Setup, available_cores, oversubscription, table_of
from ludus_bench.machine import describe_machine, limit_threads
from ludus_bench.parts import TrainerPart, record_segments
from ludus_bench.report import Figure, Limit, Report, rate_figure
from ludus_bench.selfplay import Shape, run_for
from ludus_bench.timing import Plan, Rate, measure, summarize

_MATCHES = (64, 128, 256, 512, 1024)
_MINIBATCHES = (1024, 2048, 4096)
_TOLERANCE = 0.97  # prefer the smallest setting that reaches this share of the best rate
_SAMPLER_SURPLUS = 2.0  # samplers should be this much faster: they also send results, and some segments are dropped
_STARTUP_S = 12.0  # duration of a run before its window


@frozen(kw_only=True)
class Choice:
    """One distribution of a run over the cores, with its predicted decisions per second.

    Attributes:
        workers: Number of sampler processes.
        learner_processes: Processes of each player's learner.
        learner_threads: Threads of each of these processes.
        matches: Matches of each sampler.
        predicted_per_s: Decisions per second by the rates of the parts; processes count like threads.
    """

    workers: int
    learner_processes: int = 1
    learner_threads: int
    matches: int
    predicted_per_s: float

    def settings(self) -> dict[str, int]:
        """Return the settings by name, without the prediction."""
        return asdict(self, filter=lambda field, _: field.name != "predicted_per_s")

    def threads(self, players: int, *, sampler_threads: int = 1) -> int:
        """Return the number of computing threads of all processes."""
        return self.workers * sampler_threads + players * self.learner_processes * self.learner_threads


def smallest_of_best(rates: dict[int, float], *, enough: float = math.inf) -> int:
    """Return the smallest key whose rate is almost the highest, or enough; smaller settings use less memory."""
    required = min(enough, _TOLERANCE * max(rates.values()))
    return min(key for key, rate in rates.items() if rate >= required)


def candidates(sampling: dict[int, float], updates: dict[int, float], *, cores: float, players: int) -> list[Choice]:
    """Return the distributions of a run over the cores, the fastest by prediction first.

    Samplers and learners run at the same time, so the slower side sets the rate; if there are more threads than cores,
    they share the cores evenly.

    Args:
        sampling: Decisions per second of one sampler on one core, by number of matches.
        updates: Decisions per second of one learner, by number of threads.
        cores: Available cores.
        players: Number of learners.
    """
    choices = []
    for workers, (threads, update) in itertools.product(range(1, max(2, math.floor(cores) + 1)), updates.items()):
        busy, trained = workers + players * threads, players * update
        matches = smallest_of_best(sampling, enough=_SAMPLER_SURPLUS * trained / workers)
        predicted_per_s = min(1.0, cores / busy) * min(workers * sampling[matches], trained)
        choices.append(
            Choice(workers=workers, learner_threads=threads, matches=matches, predicted_per_s=predicted_per_s)
        )
    return sorted(choices, key=lambda choice: (-choice.predicted_per_s, choice.threads(players)))


def choices_to_run(choices: Sequence[Choice], *, groups: bool) -> list[Choice]:
    """Return the choices to try as whole runs, in this order.

    Args:
        choices: Choices, the fastest by prediction first.
        groups: Whether trainers can learn in several processes; the first choice with several threads is then also
            tried with as many processes.
    """
    selected = list(choices[:3])
    threaded = next((choice for choice in selected if choice.learner_threads > 1), None)
    if groups and threaded is not None:
        processes = evolve(threaded, learner_processes=threaded.learner_threads, learner_threads=1)
        selected.insert(selected.index(threaded) + 1, processes)
    return selected


def best_of(runs: dict[Choice, float], *, players: int) -> Choice:
    """Return the choice with the fewest threads among those that are almost as fast as the fastest."""
    best = max(runs.values())
    return min(
        (choice for choice in runs if runs[choice] >= _TOLERANCE * best), key=lambda choice: choice.threads(players)
    )


def bench_tune(setup: Setup, *, seconds: float, plan: Plan) -> Report:
    """Try settings part by part, then the best combinations as whole runs.

    Args:
        setup: Configuration to tune.
        seconds: Approximate duration.
        plan: Duration of the measurement of each part.

    Raises:
        RunError: A trial run ended early.
    """
    end, cores = time.monotonic() + seconds, available_cores()
    best, size, figures = _try_settings(setup.with_processes(1), plan, end=end, cores=cores)
    configured = [player.learner_processes for player in setup.config.players.values()]
    changed_players = setup.players if any(count != best.learner_processes for count in configured) else ()
    option = setup.with_minibatch(size).minibatch_option if size else None
    toml = snippet(best, changed_players=changed_players, option=option)
    threads = best.threads(len(setup.players), sampler_threads=setup.config.run.sampler_threads)
    warning = oversubscription(threads, cores)
    minibatch_note = (
        f"minibatches of {size} rows change what a player learns, not only the speed: compare runs before you keep them"
    )
    return Report(
        command="tune",
        figures=figures,
        machine=describe_machine(),
        config={**setup.describe(), "players": len(setup.players)},
        values={
            "best": {**best.settings(), "minibatch": size or None},
            "predicted_per_s": best.predicted_per_s,
            "oversubscribed": bool(warning),
            "toml": toml,
        },
        notes=tuple(filter(None, [warning, minibatch_note if size else "", toml])),
    )


def _try_settings(setup: Setup, plan: Plan, *, end: float, cores: float) -> tuple[Choice, int, tuple[Figure, ...]]:
    """Return the best distribution, the best rows of a minibatch, and one figure for each setting that was tried.

    The rows are 0 if the algorithm has no such option.
    """
    players = len(setup.players)
    sampling = _try_matches(setup, plan)
    minibatches = _try_minibatches(setup, plan)
    size = smallest_of_best(_medians(minibatches))
    tuned = setup.with_minibatch(size) if size else setup
    threads = _try_threads(tuned, plan, cores=cores)
    choices = candidates(_medians(sampling), _medians(threads), cores=cores, players=players)
    runs = _try_runs(tuned, choices, end=end)
    run_medians = {choice: summarize(rates).median for choice, rates in runs.items()}
    figures = (
        *_figures("sampling_per_s", "matches", sampling),
        *_figures("update_per_s", "minibatch", minibatches if size else {}),
        *_figures("update_per_s", "learner_threads", threads),
        *(_run_figure(choice, rates) for choice, rates in runs.items()),
    )
    return best_of(run_medians, players=players) if runs else choices[0], size, figures


def _medians(rates: dict[int, Rate]) -> dict[int, float]:
    return {key: rate.median for key, rate in rates.items()}


def snippet(best: Choice, *, changed_players: Sequence[str] = (), option: tuple[str, int] | None) -> str:
    """Return the TOML lines that set a choice.

    Args:
        best: Choice to set.
        changed_players: Players whose number of learner processes changes.
        option: Dotted key and value of the algorithm's number of minibatches; None without such an option.
    """
    lines = ["[run]", f"workers = {best.workers}", f"learner_threads = {best.learner_threads}"]
    lines += ["", "[sampling]", f"matches = {best.matches}"]
    for player in changed_players:
        lines += ["", f"[{table_of(player)}]", f"learner_processes = {best.learner_processes}"]
    if option is not None:
        table, _, key = option[0].rpartition(".")
        lines += ["", f"[{table}]", f"{key} = {option[1]}"]
    return "\n".join(lines)


# -- trials --------------------------------------------------------------------------------------------------------


def _try_matches(setup: Setup, plan: Plan) -> dict[int, Rate]:
    with limit_threads(1), ExitStack() as stack:
        samplers = {count: stack.enter_context(closing(setup.sampler(matches=count))) for count in _MATCHES}
        rates = measure({f"{count} matches": sampler.play_tick for count, sampler in samplers.items()}, plan)
    return {count: rates[f"{count} matches"] for count in _MATCHES}


def _try_minibatches(setup: Setup, plan: Plan) -> dict[int, Rate]:
    """Return rates by rows of a minibatch; by 0 alone if the algorithm has no such option."""
    recorded = record_segments(setup, setup.make_player().trainer.batch_decisions)
    sizes = _MINIBATCHES if setup.minibatch_option else (0,)
    tuned = {rows: setup.with_minibatch(rows) if rows else setup for rows in sizes}
    with limit_threads(1):
        tasks = {
            f"minibatches of {rows}": TrainerPart.prepare(variant.make_player(), recorded).update
            for rows, variant in tuned.items()
        }
        rates = measure(tasks, plan)
    return {rows: rates[f"minibatches of {rows}"] for rows in sizes}


def _try_threads(setup: Setup, plan: Plan, *, cores: float) -> dict[int, Rate]:
    recorded = record_segments(setup, setup.make_player().trainer.batch_decisions)
    rates = {}
    for threads in _powers_of_two(max(1, math.floor(cores))):
        with limit_threads(threads):  # a trainer divides its work by the number of threads at its start
            task = TrainerPart.prepare(setup.make_player(), recorded).update
            [rates[threads]] = measure({f"{threads} threads": task}, plan).values()
    return rates


def _powers_of_two(maximum: int) -> list[int]:
    return [2**power for power in range(maximum.bit_length())]


def _try_runs(setup: Setup, choices: Sequence[Choice], *, end: float) -> dict[Choice, tuple[float, ...]]:
    """Return the decisions per second of whole runs, for as many choices as the time allows."""
    rates: dict[Choice, tuple[float, ...]] = {}
    for choice in choices_to_run(choices, groups=setup.supports_groups):
        window = min(15.0, (end - time.monotonic()) / 2 - _STARTUP_S)
        if window < 3.0:
            break
        shape = Shape(workers=choice.workers, matches=choice.matches, learner_threads=choice.learner_threads)
        toml = setup.with_processes(choice.learner_processes).dump(**shape.sections)
        rates[choice] = run_for(toml, seconds=window, warmup_s=2.0).per_s
    return rates


def _figures(name: str, key: str, rates: dict[int, Rate]) -> list[Figure]:
    best = Limit(value=max((rate.median for rate in rates.values()), default=1.0), description="the best of these")
    return [rate_figure(name, rate, limit=best, at={key: value}) for value, rate in rates.items()]


def _run_figure(choice: Choice, rates: tuple[float, ...]) -> Figure:
    limit = Limit(value=choice.predicted_per_s, description="the prediction by the parts measured alone")
    return Figure(name="run_decisions_per_s", summary=summarize(rates), limit=limit, at=choice.settings())
