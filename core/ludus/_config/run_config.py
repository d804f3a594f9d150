"""The configuration of a run: from a TOML file to frozen records, with every mistake reported at once.

Components are chosen by name, and a table of that name beside the choice holds their options::

    [environment]
    name = "some-game"
    [environment.some-game]
    width = 7

Plain options are read by `ludus._config.structuring`; this module knows the sections and the choices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import tomli_w
from attrs import field, frozen

from ludus._config.sections import Chosen, Reader, Section
from ludus._config.structuring import Problem, did_you_mean
from ludus._config.toml import apply_overrides, read_toml
from ludus._plugins.manager import Plugins
from ludus.option import Check, at_least, between, name, option, optional

_RATING = "elo"
_ROUNDS = 4  # matches of a row against one opponent; with fewer, more time goes into meeting the next one


@frozen(kw_only=True)
class RunSection:
    """``[run]``: how long, with how many processes, and on what."""

    seed: int = option(0, at_least(0), help="Seed of everything random; equal seeds repeat a run where workers = 0.")
    minutes: float = option(0.0, at_least(0), help="Wall-clock limit in minutes; 0: none.")
    decisions: int = option(0, at_least(0), help="Limit of trained decisions over all players; 0: none.")
    workers: int | None = option(
        None,
        optional(Check("a whole number ≥ 0", at_least(0).accepts)),
        help="Sampler processes; 0: everything in one process, deterministic; unset: the cores that learners leave.",
    )
    learner_threads: int = option(
        0, between(0, 1024), help="Threads of every learner; 0: the free cores, in one process 1."
    )
    sampler_threads: int = option(1, between(1, 1024), help="Threads of every sampler.")
    device: str = option(
        "cpu", help="Torch device of the learners, for example cpu, cuda:1, mps; cuda: they get the GPUs in turn."
    )
    launcher: str = option("local", name(), help="Component that places and starts worker processes.")
    checkpoint_s: float = option(
        30.0, at_least(1), help="Seconds between checkpoints of a learner; more where they take long."
    )
    restarts: int = option(
        3,
        at_least(0),
        help="Restarts of one worker within a minute, or without a committed checkpoint (learner), a committed result "
        "(sampler, evaluator) or an answer (service) in between, before the run is given up.",
    )
    stall_s: float = option(60.0, at_least(1), help="A worker without progress for so many seconds is restarted.")


@frozen(kw_only=True)
class SamplingSection:
    """``[sampling]``: how matches become segments."""

    matches: int = option(128, at_least(1), help="Matches that one sampler steps at once (B).")
    fixture_matches: int = option(
        0,
        at_least(0),
        help="Matches played per fixture before the next is asked for; 0: four times the rows that it fills.",
    )
    rows_per_fixture: int = option(64, at_least(1), help="Rows of a batch that one fixture fills.")
    credits: int = option(
        2,
        at_least(1),
        help="Blocks of segments that a sampler may have under way to a learner; more where an update takes more, "
        "fewer where they would be too old in the end.",
    )
    max_staleness: int = option(
        16,
        at_least(0),
        help="Segments older than so many versions are dropped; none for players that learn off-policy, from a memory.",
    )
    opponents_learn: bool = option(
        True,
        help="Whether live opponents learn from a match too; false: only the player that it was made for, as in AET, "
        "so that shares of playing time are shares of training.",
    )
    inference: str = option(
        "auto",
        name(),
        help="Component that runs networks in samplers; eager: torch; auto: lean where installed, else eager.",
    )
    opponent_cache_mb: int = option(48, at_least(1), help="Weights of opponents that a sampler keeps loaded.")

    @property
    def matches_per_fixture(self) -> int:
        """Return how many matches a fixture has."""
        return self.fixture_matches or _ROUNDS * min(self.matches, self.rows_per_fixture)


@frozen(kw_only=True)
class PlayerConfig:
    """``[players.NAME]``: one learning identity.

    Attributes:
        name: The player's name.
        parts: Matchmakers configured by a table of the section, besides the chosen one.
    """

    name: str
    role: str = option("", help="The role it learns; empty: the only role of the environment.")
    algorithm: Chosen = option(help="Component that decides and learns.")
    network: Chosen | None = option(None, help="Component that makes its network; some algorithms need none.")
    matchmaker: Chosen = option(help="Component that chooses its opponents.")
    interfaces: tuple[Chosen, ...] = option((), help="Transforms of what it sees and does, innermost first.")
    freeze_every_decisions: int = option(
        500_000, at_least(0), help="Decisions between two frozen models; 0: only when a rule says so."
    )
    share: float = option(1.0, at_least(0), help="Its share of the ticks played, relative to others; 0: it waits.")
    learner_processes: int = option(
        1,
        between(1, 64),
        help="Processes that compute its updates together, each a part of every batch; in one process 1.",
    )
    init: str = option("", help="Model file (…/<hash>.safetensors) to start from; empty: fresh weights.")
    parts: Mapping[str, Chosen] = field(factory=dict)


@frozen(kw_only=True)
class AnchorConfig:
    """``[anchors.NAME]``: a scripted participant with a rating."""

    name: str
    agent: Chosen = option(help="Component that plays.")


@frozen(kw_only=True)
class LeagueSection:
    """``[league]``: how it rates, and what changes in it while it runs."""

    rating: Chosen = option(_RATING, help="Component that rates frozen models and anchors by the rating matches.")
    rules: tuple[Chosen, ...] = option((), help="Rules, by name, asked in this order.")
    every_matches: int = option(1000, at_least(1), help="Training matches between two looks at the rules.")


@frozen(kw_only=True)
class EvaluationSection:
    """``[evaluation]``: matches that only rate.

    Attributes:
        parts: Matchmakers configured by a table of the section, besides the chosen one.
    """

    enabled: bool = option(True, help="Whether rating matches are played.")
    matches: int = option(64, at_least(1), help="Matches that one evaluator steps at once.")
    share: float = option(0.0, at_least(0), help="Rating matches per training match at most; 0: no limit.")
    fixture_matches: int = option(
        20,
        at_least(1),
        help="Matches per evaluation fixture; as many again with swapped seats where the game has one role.",
    )
    final_matches: int = option(
        200, at_least(0), help="Matches of each newest model against each anchor and a few earlier models at the end."
    )
    matchmaker: Chosen | None = option(None, help="Component that chooses pairs; default: the first player's.")
    parts: Mapping[str, Chosen] = field(factory=dict)


@frozen(kw_only=True)
class MetricsSection:
    """``[metrics]``: where numbers go."""

    sinks: tuple[Chosen, ...] = option((), help="Metric sinks, by name.")
    interval_s: float = option(
        1.0, at_least(0.1), help="Seconds between two reports; 20 times what one takes, at least."
    )


@frozen(kw_only=True)
class RunConfig:
    """Everything about a run that a person decides.

    Attributes:
        launcher: The component named by `run.launcher`; None if it is not installed and `run.workers` is 0.
        inference: The component that runs networks in samplers; None where torch does.
        players: By name, in the order of the file.
        anchors: By name, in the order of the file.
        data: The plain tables that this was read from, overrides included.
        reader: Tells mistakes that are found later.
    """

    run: RunSection
    launcher: Chosen | None
    inference: Chosen | None
    environment: Chosen
    sampling: SamplingSection
    players: Mapping[str, PlayerConfig]
    anchors: Mapping[str, AnchorConfig]
    league: LeagueSection
    evaluation: EvaluationSection
    metrics: MetricsSection
    data: Mapping[str, Any]
    reader: Reader = field(eq=False, repr=False)

    @property
    def learner_processes(self) -> int:
        """Return how many processes compute the updates of all players together."""
        return sum(player.learner_processes for player in self.players.values())


def load_config(path: str | Path, *, overrides: Sequence[str] = (), plugins: Plugins) -> RunConfig:
    """Read a TOML file.

    Args:
        path: The file.
        overrides: Texts ``key.path=value`` that replace single values.
        plugins: What is installed.

    Raises:
        ConfigError: With one line for every mistake in the file or the overrides.
    """
    data = apply_overrides(read_toml(path), overrides)
    return parse_config(data, source=str(path), plugins=plugins, overrides=overrides)


def parse_config(data: Mapping[str, Any], *, source: str, plugins: Plugins, overrides: Sequence[str] = ()) -> RunConfig:
    """Build the records from plain tables.

    Args:
        data: Tables as TOML gives them.
        source: What the error lines name, usually the path of the file.
        plugins: What is installed.
        overrides: Those that `data` holds already, which their mistakes are put down to.

    Raises:
        ConfigError: With one line for every mistake.
    """
    reader = Reader(plugins, f"{source}:", overrides)
    for key in data:
        if key not in _SECTIONS:
            reader.problems.append(Problem((key,), f"unknown section{did_you_mean(key, _SECTIONS)}"))
    run, launcher = _read_run(reader.section(data, "run"))
    environment = _read_environment(reader.section(data, "environment"))
    sampling, inference = _read_sampling(reader.section(data, "sampling"))
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
        "metrics": _read_metrics(reader.section(data, "metrics")),
    }
    reader.check()
    return RunConfig(**sections, data=data, reader=reader)


def schedule_problem(config: RunConfig) -> str:
    """Return one line on the options that follow a training budget that the run does not have; empty if none does."""
    if config.run.minutes or config.run.decisions:
        return ""
    paths = (
        f"players.{player.name}.{chosen.name}.{option}"
        for player in config.players.values()
        for chosen in (player.algorithm, *player.interfaces)
        for option in _scheduled(chosen.config)
    )
    idle = ", ".join(dict.fromkeys(paths))
    return idle and f"there is no training budget (run.minutes, run.decisions), so these have no effect: {idle}"


def _scheduled(options: Any) -> list[str]:
    """Return the names of the options that make something follow the training budget."""
    fields = attrs.fields(type(options)) if options is not None else ()
    return [
        field.name
        for field in fields
        if "unscheduled" in field.metadata and getattr(options, field.name) != field.metadata["unscheduled"]
    ]


def read_rating(path: Path, *, overrides: Sequence[str] = (), plugins: Plugins) -> Chosen:
    """Return how the run of a TOML file rates, whatever else of it is not installed; arguments as for `load_config`.

    Raises:
        ConfigError: The method is not installed, or has other options; or the file cannot be read.
    """
    data = apply_overrides(read_toml(path) if path.exists() else {}, overrides)
    reader = Reader(plugins, f"{path}:", overrides)
    rating = reader.section(data, "league").choose("rating", "rating", default=_RATING)
    reader.check()
    assert rating is not None
    return rating


def dump_config(config: RunConfig) -> str:
    """Return TOML text that `load_config` reads to an equal configuration."""
    return tomli_w.dumps(config.data)


def choose_components(
    plugins: Plugins,
    wanted: Sequence[tuple[str, str]],
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    overrides: Sequence[str] = (),
) -> list[Chosen]:
    """Choose components without a file, as ``ludus watch --env`` does.

    Args:
        plugins: What is installed.
        wanted: Pairs of kind and name.
        options: Their tables by name.
        overrides: Texts ``name.option=value``, which go before `options`.

    Raises:
        ConfigError: With one line for every mistake.
    """
    reader = Reader(plugins, overrides=overrides)
    section = Section(reader, apply_overrides(options or {}, overrides), ())
    chosen = [section.take(kind, name, name) for kind, name in wanted]
    section.build(_NoOptions)
    reader.check()
    return [one for one in chosen if one is not None]


def section_path(section: PlayerConfig | EvaluationSection) -> tuple[str, ...]:
    """Return where a section stands in the file."""
    return ("players", section.name) if isinstance(section, PlayerConfig) else ("evaluation",)


def part_key(of: Chosen, name: str) -> tuple[str | int, ...]:
    """Return under which key of a section the options of `of` name another component; the name where none does."""
    options = {} if of.config is None else attrs.asdict(of.config)
    return next(((of.name, *keys) for keys in _keys(options, name)), (name,))


def _keys(value: object, name: str) -> Iterator[tuple[str | int, ...]]:
    """Yield where a value says `name`, as a key or as a value."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if name in (key, inner):
            yield (key,)
        yield from ((key, *rest) for rest in _keys(inner, name))


def matchmaker_part(
    section: PlayerConfig | EvaluationSection, plugins: Plugins, name: str, *, of: Chosen | None = None
) -> Chosen:
    """Return the matchmaker `name` as configured in a section, or with default options.

    Args:
        section: Where it is configured.
        plugins: What is installed.
        name: The matchmaker's.
        of: The one that asks for it as its part, which is where a mistake in the name stands.

    Raises:
        ConfigError: It is not installed, or it has options that must be given.
    """
    if section.matchmaker is not None and name == section.matchmaker.name:
        return section.matchmaker
    if name in section.parts:
        return section.parts[name]
    reader = Reader(plugins)
    at = (name,) if of is None else part_key(of, name)
    part = Section(reader, {}, section_path(section)).make("matchmaker", name, {}, at=at)
    reader.check()
    assert part is not None
    return part


_SECTIONS = ("run", "environment", "sampling", "players", "anchors", "league", "evaluation", "metrics")


def _read_run(section: Section) -> tuple[RunSection | None, Chosen | None]:
    wanted = section.table.get("launcher", "local")
    launcher = None
    needed = section.table.get("workers", 1) != 0
    if isinstance(wanted, str) and (needed or wanted in section.reader.plugins.components("launcher")):
        launcher = section.take("launcher", wanted, "launcher")
    return section.build(RunSection), launcher


def _read_sampling(section: Section) -> tuple[SamplingSection | None, Chosen | None]:
    wanted, inference = section.table.get("inference", "auto"), None
    if wanted == "auto" and "lean" in section.reader.plugins.components("inference"):
        wanted = "lean"
    if isinstance(wanted, str) and wanted not in ("auto", "eager"):
        inference = section.take("inference", wanted, "inference")
    return section.build(SamplingSection), inference


def _read_environment(section: Section) -> Chosen | None:
    environment = section.choose("environment", "name", required=True)
    section.build(_EnvironmentSection, name=environment)
    return environment


@frozen
class _NoOptions:
    """A section that holds nothing but choices."""


@frozen
class _EnvironmentSection:
    name: Chosen | None = option(help="The environment.")


def _read_players(reader: Reader, data: Mapping[str, Any]) -> dict[str, PlayerConfig]:
    names = reader.section(data, "players").table
    if not names:
        reader.problems.append(Problem(("players",), "missing; expected at least one table [players.NAME]"))
    players = {}
    for player in names:
        if _is_nobody(reader, "players", names, player, needs="algorithm"):
            continue
        _check_name(reader, "players", player)
        section = reader.section(data, "players", player)
        read = section.build(
            PlayerConfig,
            name=player,
            algorithm=section.choose("algorithm", "algorithm", required=True),
            network=section.choose("network", "network"),
            matchmaker=section.choose("matchmaker", "matchmaker", required=True),
            interfaces=section.choose_many("interface", "interfaces"),
            parts=section.parts("matchmaker"),
        )
        if read is not None:
            players[player] = read
    return players


def _read_anchors(reader: Reader, data: Mapping[str, Any], environment: Chosen | None) -> dict[str, AnchorConfig]:
    anchors = {}
    names = reader.section(data, "anchors").table
    for anchor in names:
        if _is_nobody(reader, "anchors", names, anchor, needs="agent"):
            continue
        _check_name(reader, "anchors", anchor)
        if anchor in reader.section(data, "players").table:
            reader.problems.append(Problem(("anchors", anchor), "a player has this name; choose another"))
        section = reader.section(data, "anchors", anchor)
        agent = section.choose("agent", "agent", required=True)
        if agent is not None and environment is not None:
            plays = agent.component.environments
            if plays and environment.name not in plays:
                section.problem(f"{agent.name!r} plays {', '.join(plays)}, not {environment.name}", "agent")
        read = section.build(AnchorConfig, name=anchor, agent=agent)
        if read is not None:
            anchors[anchor] = read
    return anchors


def _is_nobody(reader: Reader, section: str, tables: Mapping[str, Any], name: str, *, needs: str) -> bool:
    """Tell of somebody whom overrides change, but neither the file nor they themselves add; return whether it is so."""
    known = [other for other, table in tables.items() if isinstance(table, dict) and needs in table]
    nobody = bool(known) and name not in known and reader.sets(tables[name], (section, name))
    if nobody:
        text = f"there is no {section[:-1]} {name!r}; {section} are {', '.join(known)}{did_you_mean(name, known)}"
        reader.problems.append(Problem((section, name), text))
    return nobody


def _check_name(reader: Reader, section: str, word: str) -> None:
    check = name()
    if not check.accepts(word):
        reader.problems.append(Problem((section, word), f"expected {check.expected}"))


def _read_league(section: Section) -> LeagueSection | None:
    rating = section.choose("rating", "rating", default=_RATING)
    rules = section.choose_many("rule", "rules")
    names = [rule.name for rule in rules]
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        section.problem(f"{twice[0]!r} stands there twice; expected every rule once", "rules")
    return section.build(LeagueSection, rating=rating, rules=rules)


def _read_evaluation(section: Section) -> EvaluationSection | None:
    wanted = "matchmaker" in section.table
    matchmaker = section.choose("matchmaker", "matchmaker")
    parts = section.parts("matchmaker") if wanted else {}  # else the first player's section says what is part of what
    return section.build(EvaluationSection, matchmaker=matchmaker, parts=parts)


def _read_metrics(section: Section) -> MetricsSection | None:
    return section.build(MetricsSection, sinks=section.choose_many("metric-sink", "sinks"))
