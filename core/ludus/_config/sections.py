"""The sections of a run's configuration, as frozen records.

Components are selected by name, and a table of that name in the same section holds their options::

    [environment]
    name = "some-game"
    [environment.some-game]
    width = 7
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from attrs import field, frozen

from ludus._config.section_reader import ConfigReader, SectionReader, SelectedComponent
from ludus._plugins.manager import Plugins
from ludus.option import at_least, between, name, option, optional, whole

DEFAULT_RATING = "elo"
_MAX_EVALUATION_MATCHES = 64  # by default; more would play more matches at once than most ratings need
_MATCHES_PER_ROW = 4  # default matches of a row per fixture; fewer spend more time on changing opponents


@frozen(kw_only=True)
class RunSection:
    """``[run]``: limits, processes and devices."""

    seed: int = option(0, at_least(0), help="Seed of everything random; equal seeds repeat a run if workers = 0.")
    minutes: float = option(0.0, at_least(0), help="Wall-clock limit in minutes; 0: none.")
    decisions: int = option(0, at_least(0), help="Limit of trained decisions over all players; 0: none.")
    workers: int | None = option(
        None,
        optional(whole(0, 10_000)),
        help="Sampler processes; 0: everything in one process, deterministic; unset: the cores that learners leave.",
    )
    learner_threads: int = option(
        0, between(0, 1024), help="Threads of every learner; 0: the free cores, or 1 in a single-process run."
    )
    sampler_threads: int = option(1, between(1, 1024), help="Threads of every sampler.")
    device: str = option(
        "cpu", help="Torch device of the learners, for example cpu, cuda:1, mps; cuda: all GPUs in turn."
    )
    launcher: str = option("local", name(), help="Component that places and starts worker processes.")
    checkpoint_s: float = option(
        30.0, at_least(1), help="Seconds between checkpoints of a learner; longer if writing them takes long."
    )
    restarts: int = option(
        3,
        at_least(0),
        help="Restarts of one worker within a minute, or without a committed checkpoint (learner), a committed result "
        "(sampler, evaluator) or an answer (service) in between, before the run fails.",
    )
    stall_s: float = option(60.0, at_least(1), help="Seconds without progress after which a worker is restarted.")
    log_mb: float = option(
        16.0, at_least(0.01), help="Size of the log of one worker in MiB; older output is dropped, and most of a flood."
    )
    sampler_memory_mb: int = option(
        0,
        at_least(0),
        help="Memory of one sampler or evaluator with its child processes, in MiB; above it they are killed, and it is "
        "restarted; 0: its part of 80 % of the memory of the machine or container.",
    )
    sampler_processes: int = option(
        1024, at_least(1), help="Processes of one sampler or evaluator; with more, they are killed and it is restarted."
    )


@frozen(kw_only=True)
class SamplingSection:
    """``[sampling]``: how matches are played and recorded."""

    matches: int = option(128, whole(1, 1_000_000), help="Matches that one sampler steps at once (B).")
    fixture_matches: int = option(
        0, whole(0, 10**9), help="Matches per fixture; 0: four times the rows that the fixture fills."
    )
    rows_per_fixture: int = option(64, whole(1, 1_000_000), help="Rows of a batch that one fixture fills.")
    credits: int = option(
        2,
        whole(1, 10_000),
        help="Blocks of segments that a sampler may have in flight to a learner; more if an update needs more of "
        "them, fewer if they would exceed max_staleness.",
    )
    max_staleness: int = option(
        16,
        at_least(0),
        help="Segments that are more versions older than the weights are dropped; off-policy players keep all.",
    )
    opponents_learn: bool = option(
        True,
        help="Whether live opponents learn from a match too; false: only the player that it was scheduled for, as in "
        "AET, so that shares of playing time are shares of training.",
    )
    inference: str = option(
        "auto",
        name(),
        help="Component that runs networks in samplers; eager: torch; auto: lean if installed, else eager.",
    )
    opponent_cache_mb: int = option(48, at_least(1), help="Weights of opponents that a sampler keeps loaded, in MiB.")

    @property
    def matches_per_fixture(self) -> int:
        """Return the number of matches of a fixture."""
        return self.fixture_matches or _MATCHES_PER_ROW * min(self.matches, self.rows_per_fixture)


@frozen(kw_only=True)
class PlayerConfig:
    """``[players.NAME]``: one learning identity.

    Attributes:
        name: Name of the player.
        parts: Further matchmakers that tables of the section configure, by name.
    """

    name: str
    role: str = option("", help="Role that it learns; empty: the only role of the environment.")
    algorithm: SelectedComponent = option(help="Component that decides and learns.")
    network: SelectedComponent | None = option(None, help="Component that makes its network, if the algorithm has one.")
    matchmaker: SelectedComponent = option(help="Component that chooses its opponents.")
    interfaces: tuple[SelectedComponent, ...] = option(
        (), help="Transforms of its observations, rewards and actions, innermost first."
    )
    freeze_every_decisions: int = option(
        500_000, at_least(0), help="Decisions between two frozen models; 0: only when a rule requests one."
    )
    share: float = option(
        1.0, at_least(0), help="Its share of the ticks played, relative to other players; 0: it does not train."
    )
    learner_processes: int = option(
        1,
        between(1, 64),
        help="Processes that compute its updates, each a shard of every batch; 1 in a single-process run.",
    )
    init: str = option("", help="Model file (…/<hash>.safetensors) to start from; empty: new weights.", path="read")
    parts: Mapping[str, SelectedComponent] = field(factory=dict)


@frozen(kw_only=True)
class AnchorConfig:
    """``[anchors.NAME]``: a scripted participant that is rated."""

    name: str
    agent: SelectedComponent = option(help="Component that plays.")
    interfaces: tuple[SelectedComponent, ...] = option(
        (), help="Transforms of its observations and actions, innermost first, for an agent of other spaces."
    )


@frozen(kw_only=True)
class RetentionSection:
    """``[league.retention.POOL]``: which models of a pool are kept; without the table all of them."""

    keep_newest: int = option(20, at_least(1), help="Newest models that stay in the pool.")
    keep_every: int = option(
        0, at_least(0), help="Of the older ones, those stay whose number is a multiple of this; 0: none."
    )


@frozen(kw_only=True)
class LeagueSection:
    """``[league]``: the rating method, the rules that change the league, and the retention of models."""

    rating: SelectedComponent = option(
        DEFAULT_RATING, help="Component that rates frozen models and anchors from the rating matches."
    )
    rules: tuple[SelectedComponent, ...] = option((), help="Names of rules, in the order in which they are applied.")
    every_matches: int = option(1000, at_least(1), help="Training matches between two applications of the rules.")
    paired_share: float = option(
        0.1,
        between(0, 1),
        help="Share of the fixtures of joined machines that this machine plays too, with the same seeds, to find "
        "machines whose results differ.",
    )
    retention: Mapping[str, RetentionSection] = option(
        {}, help="Tables by pool. Models that no pool keeps are retired: their weights are deleted."
    )


@frozen(kw_only=True)
class EvaluationSection:
    """``[evaluation]``: rating matches.

    Attributes:
        parts: Further matchmakers that tables of the section configure, by name.
    """

    enabled: bool = option(True, help="Whether rating matches are played.")
    matches: int = option(
        0, whole(0, 1_000_000), help="Matches that one evaluator steps at once; 0: as many as a sampler, at most 64."
    )
    share: float = option(0.0, at_least(0), help="Maximum of rating matches per training match; 0: no limit.")
    fixture_matches: int = option(
        20,
        whole(1, 10**9),
        help="Matches per rating fixture; in a game of one role, so many for each rotation of the teams.",
    )
    final_matches: int = option(
        200,
        whole(0, 1_000_000),
        help="Matches at the end of the run between each newest model and each anchor and some earlier models.",
    )
    final_minutes: float | None = option(
        None,
        optional(at_least(0)),
        help="Time for all final matches; of pairs that need more, fewer matches count. 0: no limit; unset: 10, or "
        "`run.minutes` if that is less.",
    )
    matchmaker: SelectedComponent | None = option(
        None, help="Component that chooses pairs; default: the first player's."
    )
    parts: Mapping[str, SelectedComponent] = field(factory=dict)


@frozen(kw_only=True)
class ReplaySection:
    """``[replays]``: which matches are recorded so that they can be played again."""

    evaluations: bool = option(True, help="Whether all rating matches are recorded.")
    training_share: float = option(
        0.0,
        between(0, 1),
        help="Share of the training matches that is recorded. Samplers copy the actions of all matches for it. It has "
        "no effect where the game does not repeat matches.",
    )
    max_mb: float = option(
        256.0, at_least(0.01), help="Size of all files of replays in MiB; the oldest file is deleted first."
    )


@frozen(kw_only=True)
class MetricsSection:
    """``[metrics]``: where metrics are written."""

    sinks: tuple[SelectedComponent, ...] = option((), help="Names of metric sinks.")
    full_hours: float = option(
        2.0,
        at_least(0),
        help="Hours of training for which metrics.jsonl keeps every report; one per minute for a day before, and one "
        "per ten minutes before that.",
    )
    interval_s: float = option(
        1.0, at_least(0.1), help="Seconds between two reports; at least 20 times the duration of a report."
    )


@frozen(kw_only=True)
class RunConfig:
    """The whole configuration of a run.

    Attributes:
        launcher: The component named by `run.launcher`; None if it is not installed and `run.workers` is 0.
        inference: The component that runs networks in samplers; None for torch.
        players: Players by name, in the order of the file.
        anchors: Anchors by name, in the order of the file.
        data: The plain tables that this was read from, overrides included.
        reader: Formats problems that are found later.
    """

    run: RunSection
    launcher: SelectedComponent | None
    inference: SelectedComponent | None
    environment: SelectedComponent
    sampling: SamplingSection
    players: Mapping[str, PlayerConfig]
    anchors: Mapping[str, AnchorConfig]
    league: LeagueSection
    evaluation: EvaluationSection
    replays: ReplaySection
    metrics: MetricsSection
    data: Mapping[str, Any]
    reader: ConfigReader = field(eq=False, repr=False)

    @property
    def evaluation_matches(self) -> int:
        """Return the number of matches that an evaluator, or the final evaluation, steps at once."""
        return self.evaluation.matches or min(self.sampling.matches, _MAX_EVALUATION_MATCHES)

    @property
    def learner_processes(self) -> int:
        """Return the number of processes that compute the updates of all players."""
        return sum(player.learner_processes for player in self.players.values())


def section_path(section: PlayerConfig | EvaluationSection) -> tuple[str, ...]:
    """Return the keys that lead to a section of the file."""
    return ("players", section.name) if isinstance(section, PlayerConfig) else ("evaluation",)


def part_key(owner: SelectedComponent, name: str) -> tuple[str | int, ...]:
    """Return the key, within a section, of the option of `owner` that names a part; `name` if no option does."""
    options = {} if owner.config is None else attrs.asdict(owner.config)
    return next(((owner.name, *keys) for keys in _find_name(options, name)), (name,))


def _find_name(value: object, name: str) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths within a value that hold `name`, as a key or as a value."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if name in (key, inner):
            yield (key,)
        yield from ((key, *rest) for rest in _find_name(inner, name))


def select_matchmaker_part(
    section: PlayerConfig | EvaluationSection, plugins: Plugins, name: str, *, owner: SelectedComponent | None = None
) -> SelectedComponent:
    """Return a matchmaker as configured in a section, or with default options.

    Args:
        section: Section that may hold the matchmaker's options.
        plugins: The installed plugins.
        name: Name of the matchmaker.
        owner: Matchmaker that it is a part of; error messages point to its option.

    Raises:
        ConfigError: The matchmaker is not installed, or lacks a required option.
    """
    if section.matchmaker is not None and name == section.matchmaker.name:
        return section.matchmaker
    if name in section.parts:
        return section.parts[name]
    reader = ConfigReader(plugins)
    keys = (name,) if owner is None else part_key(owner, name)
    part = SectionReader(reader, {}, section_path(section)).make("matchmaker", name, {}, keys=keys)
    reader.check()
    assert part is not None
    return part
