"""``opponents``: what many different frozen opponents cost a sampler, compared with one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing

from ludus.errors import ConfigError
from ludus_local.memory import temporary_folder

from ludus_bench._pieces import Setup
from ludus_bench.machine import describe, limit_threads
from ludus_bench.report import Limit, Report, figure_of
from ludus_bench.single import Settings, said_of
from ludus_bench.timing import measure

__all__ = ["bench_opponents"]


def bench_opponents(
    setup: Setup, *, counts: Sequence[int], matches: int, rows_per_fixture: int, settings: Settings
) -> Report:
    """Measure samplers that play so many frozen opponents, all on the same number of matches.

    Args:
        setup: The configuration.
        counts: Numbers of opponents; one is measured in any case.
        matches: Matches at once.
        rows_per_fixture: Rows that play one fixture, so that ``matches / rows_per_fixture`` opponents play at once.
        settings: How to measure.

    Raises:
        ConfigError: Nobody is an opponent of anybody.
    """
    if setup.spec().num_teams < 2:
        raise ConfigError(f"environment {setup.config.environment.name!r} has one team, so nobody is an opponent there")
    numbers = sorted({1, *counts})
    with limit_threads(settings.threads), ExitStack() as stack:
        everyone = setup.freeze(numbers[-1], stack.enter_context(temporary_folder("ludus-bench")))
        samplers = {
            count: stack.enter_context(
                closing(
                    setup.sampling(matches=matches, opponents=everyone.first(count), rows_per_fixture=rows_per_fixture)
                )
            )
            for count in numbers
        }
        named = measure({f"{count} opponents": sampler.work for count, sampler in samplers.items()}, settings.plan)
        rates = {count: named[f"{count} opponents"] for count in numbers}
    one = Limit(value=rates[1].median, of="the same sampler with one opponent")
    figures = [figure_of("decisions_per_s", rates[count], limit=one, at={"opponents": count}) for count in numbers]
    at_once = -(-matches // rows_per_fixture)
    return Report(
        command="opponents",
        figures=tuple(figures),
        machine=describe(),
        config={
            **said_of(setup),
            "matches": matches,
            "rows_per_fixture": rows_per_fixture,
            "fixture_matches": samplers[1].fixture_matches,
            **settings.said(),
        },
        values={"relative": {str(count): rates[count].median / one.value for count in numbers}},
        notes=(f"opponents at once: at most {at_once}, one in every {rows_per_fixture} matches",),
    )
