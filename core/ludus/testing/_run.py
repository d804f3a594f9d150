"""`check_run`: test every part of a run in seconds, as ``ludus check`` does.

Each step is a generator of lines; an exception of plugin code ends the step and becomes a failed finding.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from attrs import frozen

from ludus._config.run_config import find_unused_schedules, load_config
from ludus._plugins.error_wrapping import close_environment, format_error
from ludus._plugins.manager import Plugins, load_plugins
from ludus._run.check import check_options
from ludus._run.context import RunContext
from ludus._run.factories import make_environment
from ludus._seeding import match_seeds
from ludus.errors import ConfigError, LudusError
from ludus.testing._run_matchmaking import check_matchmaking
from ludus.testing._run_participants import (
    MAX_TICKS,
    NUM_MATCHES,
    check_anchor,
    check_player,
    describe_spaces,
    start_rollout,
)
from ludus.testing._spec_checks import check_spec
from ludus.testing._tick_checks import TickChecker

if TYPE_CHECKING:
    from ludus._config.sections import RunConfig
    from ludus.environment import Environment

__all__ = ["Finding", "check_run"]

_TICKS = 50  # of the rollout that checks the environment


@frozen
class Finding:
    """One line of the report.

    Args:
        status: Result of the check.
        subject: Part of the run.
        text: Description of the part, or the problem.
    """

    status: Literal["ok", "warn", "fail"]
    subject: str
    text: str


def check_run(path: str | Path, *, overrides: Sequence[str] = (), plugins: Plugins | None = None) -> Iterator[Finding]:
    """Check the run of a TOML file and yield findings as they are made; steps that need a failed step are skipped.

    Args:
        path: TOML file.
        overrides: Texts ``key.path=value``.
        plugins: Plugins to use; None: all installed plugins.
    """
    plugins = load_plugins() if plugins is None else plugins
    yield from _check_plugins(plugins)
    try:
        config = load_config(path, overrides=overrides, plugins=plugins)
    except ConfigError as error:
        yield from (Finding("fail", "configuration", problem) for problem in error.problems)
        return
    yield Finding("ok", "configuration", f"{_count(config.players, 'player')}, {_count(config.anchors, 'anchor')}")
    if problem := find_unused_schedules(config):
        yield Finding("warn", "configuration", problem)
    subject = f"environment {config.environment.name}"
    try:
        environment = make_environment(config.environment, NUM_MATCHES)
    except LudusError as error:
        yield Finding("fail", subject, str(error))
        return
    try:
        yield from _findings(subject, _check_environment(environment, config.run.seed))
        yield from _check_components(RunContext(config=config, plugins=plugins, run_dir=Path()), environment)
    finally:
        close_environment(environment)


def _check_components(context: RunContext, environment: Environment) -> Iterator[Finding]:
    """Check everything but the environment; nothing is written into the run folder."""
    config = context.config
    try:
        check_options(context)
    except LudusError as error:
        yield from (Finding("fail", "configuration", problem) for problem in str(error).splitlines())
        return
    for player in config.players.values():
        yield from _findings(f"player {player.name}", check_player(player, environment, context))
    for anchor in config.anchors.values():
        yield from _findings(f"anchor {anchor.name}", check_anchor(anchor, environment, config.run.seed))
    yield from _findings("matchmaking", check_matchmaking(context, environment))
    yield from _findings("processes", _check_processes(config))


def _count(items: Mapping[str, object], noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


def _findings(subject: str, texts: Iterator[str]) -> Iterator[Finding]:
    """Convert the lines of a step into passed findings, and its exception into a failed one."""
    try:
        for text in texts:
            yield Finding("ok", subject, text)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if os.environ.get("LUDUS_DEBUG"):
            raise
        yield Finding("fail", subject, format_error(error))


def _check_plugins(plugins: Plugins) -> Iterator[Finding]:
    loaded = [report.name for report in plugins.reports if report.status == "ok"]
    yield Finding("ok", "plugins", ", ".join(loaded) or "none")
    for report in plugins.reports:
        if report.status != "blocked":
            yield from (Finding("warn", f"plugin {report.name}", problem) for problem in report.problems)
    yield from (Finding("warn", "plugins", line) for line in plugins.unmatched_names())


def _check_environment(environment: Environment, seed: int) -> Iterator[str]:
    """Check the specification, and every tick of a rollout with random legal actions."""
    environment.reset(match_seeds(seed, np.arange(NUM_MATCHES)))  # spaces may be known only after the first reset
    spec = environment.spec
    check_spec(spec)
    checker = TickChecker(spec=spec, num_matches=NUM_MATCHES, max_idle_ticks=MAX_TICKS)
    rollout = start_rollout(environment, seed, checker)
    for _ in range(_TICKS):
        rollout.step()
        rollout.restart_ended()
    checker.finish()
    ended = sum(rollout.match_numbers)
    yield f"{spec.turn}, {len(spec.seats)} seats, {spec.num_teams} teams; {_TICKS} ticks, {ended} matches ended"
    for role in spec.roles:
        yield f"role {role.name} {describe_spaces(role)}"


def _check_processes(config: RunConfig) -> Iterator[str]:
    """Import the launcher and the metric sinks without starting them."""
    components = (*config.metrics.sinks, *filter(None, [config.launcher]))
    for chosen in components:
        chosen.component.load_factory()
    yield ", ".join(f"{chosen.kind} {chosen.name}" for chosen in components) or "none"
