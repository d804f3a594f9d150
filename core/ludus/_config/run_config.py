"""Load the configuration of a run from a TOML file, and report every mistake in it at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import tomli_w
from attrs import frozen

from ludus._config.other_names import hint_for_key
from ludus._config.section_reader import ConfigReader, SectionReader, SelectedComponent
from ludus._config.sections import (
    DEFAULT_RATING,
    AnchorConfig,
    EvaluationSection,
    LeagueSection,
    MetricsSection,
    PlayerConfig,
    ReplaySection,
    RunConfig,
    RunSection,
    SamplingSection,
)
from ludus._config.structuring import Problem
from ludus._config.toml import apply_overrides, find_large, read_toml
from ludus._plugins.manager import Plugins
from ludus.errors import ConfigError
from ludus.option import name, option
from ludus.printing import did_you_mean
from ludus.trust import NO_FILE, ConfigSource

_MOST_PARTICIPANTS = 1000
_SECTIONS = ("run", "environment", "sampling", "players", "anchors", "league", "evaluation", "replays", "metrics")


def load_config(path: str | Path, *, overrides: Sequence[str] = (), plugins: Plugins) -> RunConfig:
    """Load a configuration from a TOML file.

    Args:
        path: Path of the file.
        overrides: Texts ``key.path=value`` that replace single values.
        plugins: The installed plugins.

    Raises:
        ConfigError: With one line for every mistake in the file or the overrides.
    """
    data = apply_overrides(read_toml(path), overrides)
    origin = ConfigSource(folder=Path(path).parent)
    return parse_config(data, source=str(path), plugins=plugins, overrides=overrides, origin=origin)


def parse_config(
    data: Mapping[str, Any],
    *,
    source: str,
    plugins: Plugins,
    overrides: Sequence[str] = (),
    origin: ConfigSource = NO_FILE,
) -> RunConfig:
    """Build a configuration from plain tables.

    Args:
        data: Tables as read from TOML.
        source: Prefix of error lines, usually the path of the file.
        plugins: The installed plugins.
        overrides: Overrides already applied to `data`; errors in their values are attributed to them.
        origin: Where the tables were read, which decides about the modules that they may name.

    Raises:
        ConfigError: With one line for every mistake.
    """
    if too_large := [f"{source}:{problem}" for problem in find_large(data)]:
        raise ConfigError(*too_large)
    reader = ConfigReader(plugins, f"{source}:", overrides, origin=origin)
    for key in data:
        if key not in _SECTIONS:
            reader.problems.append(Problem((key,), f"unknown section{hint_for_key(key, _SECTIONS)}"))
    run, launcher = _read_run(reader.section(data, "run"))
    environment = _read_environment(reader.section(data, "environment"))
    sampling, inference = _read_sampling(reader.section(data, "sampling"))
    metrics = reader.section(data, "metrics")
    sections: dict[str, Any] = {
        "run": run,
        "launcher": launcher,
        "inference": inference,
        "environment": environment,
        "sampling": sampling,
        "players": _read_players(reader, data),
        "anchors": _read_anchors(reader, data, environment),
        "league": _read_league(reader.section(data, "league")),
        "evaluation": _read_evaluation(reader.section(data, "evaluation")),
        "replays": reader.section(data, "replays").build(ReplaySection),
        "metrics": metrics.build(MetricsSection, sinks=metrics.select_all("metric-sink", "sinks")),
    }
    reader.check()
    return RunConfig(**sections, data=data, reader=reader)


def dump_config(config: RunConfig) -> str:
    """Return TOML text that `load_config` reads to an equal configuration."""
    return tomli_w.dumps(config.data)


def read_rating(path: Path, *, overrides: Sequence[str] = (), plugins: Plugins) -> SelectedComponent:
    """Return the rating method of a TOML file; other components of the file need not be installed.

    Args:
        path: Path of the file; a missing file selects the default method.
        overrides: As for `load_config`.
        plugins: The installed plugins.

    Raises:
        ConfigError: The method is not installed or has other options, or the file cannot be read.
    """
    data = apply_overrides(read_toml(path) if path.exists() else {}, overrides)
    reader = ConfigReader(plugins, f"{path}:", overrides)
    rating = reader.section(data, "league").select("rating", "rating", default=DEFAULT_RATING)
    reader.check()
    assert rating is not None
    return rating


def select_components(
    plugins: Plugins,
    kinds_and_names: Sequence[tuple[str, str]],
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    overrides: Sequence[str] = (),
) -> list[SelectedComponent]:
    """Select components without a file, as ``ludus watch --env`` does.

    Args:
        plugins: The installed plugins.
        kinds_and_names: Kind and name of every component.
        options: Tables of options by component name.
        overrides: Texts ``name.option=value``, which take precedence over `options`.

    Raises:
        ConfigError: With one line for every mistake.
    """
    reader = ConfigReader(plugins, overrides=overrides)
    section = SectionReader(reader, apply_overrides(options or {}, overrides), ())
    selected = [section.take(kind, name, name) for kind, name in kinds_and_names]
    section.build(_NoOptions)
    reader.check()
    return [component for component in selected if component is not None]


def find_unused_schedules(config: RunConfig) -> str:
    """Return one line about options that follow a training budget in a run without a budget; empty if none do."""
    if config.run.minutes or config.run.decisions:
        return ""
    paths = (
        f"players.{player.name}.{component.name}.{option}"
        for player in config.players.values()
        for component in (player.algorithm, *player.interfaces)
        for option in _scheduled_options(component.config)
    )
    unused = ", ".join(dict.fromkeys(paths))
    return unused and f"there is no training budget (run.minutes, run.decisions), so these have no effect: {unused}"


def _scheduled_options(options: Any) -> list[str]:
    """Return the names of the options whose values follow the training budget."""
    fields = attrs.fields(type(options)) if options is not None else ()
    return [
        field.name
        for field in fields
        if "unscheduled" in field.metadata and getattr(options, field.name) != field.metadata["unscheduled"]
    ]


# -- sections --------------------------------------------------------------------------------------------------------


@frozen
class _NoOptions:
    """A section without plain options."""


@frozen
class _EnvironmentSection:
    name: SelectedComponent | None = option(help="The environment.")


def _read_run(section: SectionReader) -> tuple[RunSection | None, SelectedComponent | None]:
    name, launcher = section.table.get("launcher", "local"), None
    required = section.table.get("workers", 1) != 0
    if isinstance(name, str) and (required or name in section.reader.plugins.components("launcher")):
        launcher = section.take("launcher", name, "launcher")
    return section.build(RunSection), launcher


def _read_sampling(section: SectionReader) -> tuple[SamplingSection | None, SelectedComponent | None]:
    name, inference = section.table.get("inference", "auto"), None
    if name == "auto" and "lean" in section.reader.plugins.components("inference"):
        name = "lean"
    if isinstance(name, str) and name not in ("auto", "eager"):
        inference = section.take("inference", name, "inference")
    return section.build(SamplingSection), inference


def _read_environment(section: SectionReader) -> SelectedComponent | None:
    environment = section.select("environment", "name", required=True)
    section.build(_EnvironmentSection, name=environment)
    return environment


def _limited(reader: ConfigReader, section: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tables of players or anchors; too many are a problem, and none are read."""
    tables = reader.section(data, section).table
    if len(tables) <= _MOST_PARTICIPANTS:
        return tables
    text = f"expected at most {_MOST_PARTICIPANTS:,} {section}, got {len(tables):,}"
    reader.problems.append(Problem((section,), text))
    return {}


def _read_players(reader: ConfigReader, data: Mapping[str, Any]) -> dict[str, PlayerConfig]:
    tables = _limited(reader, "players", data)
    if not data.get("players"):
        reader.problems.append(Problem(("players",), "missing; expected at least one table [players.NAME]"))
    players = {}
    for player in tables:
        if _is_misspelt_override(reader, "players", tables, player, required_key="algorithm"):
            continue
        _check_name(reader, "players", player)
        section = reader.section(data, "players", player)
        config = section.build(
            PlayerConfig,
            name=player,
            algorithm=section.select("algorithm", "algorithm", required=True),
            network=section.select("network", "network"),
            matchmaker=section.select("matchmaker", "matchmaker", required=True),
            interfaces=section.select_all("interface", "interfaces"),
            parts=section.select_tables("matchmaker"),
        )
        if config is not None:
            players[player] = config
    return players


def _read_anchors(
    reader: ConfigReader, data: Mapping[str, Any], environment: SelectedComponent | None
) -> dict[str, AnchorConfig]:
    anchors = {}
    tables = _limited(reader, "anchors", data)
    for anchor in tables:
        if _is_misspelt_override(reader, "anchors", tables, anchor, required_key="agent"):
            continue
        _check_name(reader, "anchors", anchor)
        if anchor in reader.section(data, "players").table:
            reader.problems.append(Problem(("anchors", anchor), "a player has this name; choose another"))
        section = reader.section(data, "anchors", anchor)
        agent = section.select("agent", "agent", required=True)
        if agent is not None and environment is not None:
            plays, games = agent.component.environments, _game_names(environment)
            if plays and not set(plays) & set(games):
                section.add_problem(f"{agent.name!r} plays {', '.join(plays)}, not {games[-1]}", "agent")
        interfaces = section.select_all("interface", "interfaces")
        config = section.build(AnchorConfig, name=anchor, agent=agent, interfaces=interfaces)
        if config is not None:
            anchors[anchor] = config
    return anchors


def _game_names(environment: SelectedComponent) -> list[str]:
    """Return the names of an environment and of those that it wraps.

    A wrapper names the wrapped environment by its option ``game`` and holds its table in the option ``options``.
    """
    names = [environment.name]
    options: Mapping[str, Any] = {} if environment.config is None else attrs.asdict(environment.config)
    while isinstance(options.get("game"), str):
        names.append(options["game"])
        inner = options.get("options")
        options = inner if isinstance(inner, Mapping) else {}
    return names


def _is_misspelt_override(
    reader: ConfigReader, section: str, tables: Mapping[str, Any], name: str, *, required_key: str
) -> bool:
    """Return whether overrides alone make a table that misses its required key, and record the problem."""
    names = [other for other, table in tables.items() if isinstance(table, dict) and required_key in table]
    misspelt = bool(names) and name not in names and reader.is_overridden(tables[name], (section, name))
    if misspelt:
        text = f"there is no {section[:-1]} {name!r}; {section} are {', '.join(names)}{did_you_mean(name, names)}"
        reader.problems.append(Problem((section, name), text))
    return misspelt


def _check_name(reader: ConfigReader, section: str, word: str) -> None:
    check = name()
    if not check.accepts(word):
        reader.problems.append(Problem((section, word), f"expected {check.expected}"))


def _read_league(section: SectionReader) -> LeagueSection | None:
    rating = section.select("rating", "rating", default=DEFAULT_RATING)
    rules = section.select_all("rule", "rules")
    names = [rule.name for rule in rules]
    if duplicates := [name for i, name in enumerate(names) if name in names[:i]]:
        section.add_problem(f"{duplicates[0]!r} is listed twice; expected every rule once", "rules")
    return section.build(LeagueSection, rating=rating, rules=rules)


def _read_evaluation(section: SectionReader) -> EvaluationSection | None:
    has_matchmaker = "matchmaker" in section.table
    matchmaker = section.select("matchmaker", "matchmaker")
    parts = section.select_tables("matchmaker") if has_matchmaker else {}  # else those of the first player are used
    return section.build(EvaluationSection, matchmaker=matchmaker, parts=parts)
