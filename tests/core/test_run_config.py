"""The configuration of a run: sections, choices of components, and everything that can be wrong."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import ClassVar

import attrs
import pytest
from attrs import frozen
from ludus._config.run_config import (
    dump_config,
    find_unused_schedules,
    load_config,
    parse_config,
    read_rating,
    select_components,
)
from ludus._config.section_reader import SelectedComponent
from ludus._config.sections import (
    AnchorConfig,
    EvaluationSection,
    LeagueSection,
    MetricsSection,
    PlayerConfig,
    RunConfig,
    RunSection,
    SamplingSection,
    select_matchmaker_part,
)
from ludus._config.toml import apply_overrides
from ludus._plugins.loading import LoadedPlugin, PluginReport
from ludus._plugins.manager import Plugins
from ludus.component import Component
from ludus.errors import ConfigError
from ludus.option import Presets, at_least, between, option
from tomli_w import dumps as write_toml


@frozen(kw_only=True)
class GameConfig:
    width: int = option(7, at_least(1), help="Columns.")


@frozen(kw_only=True)
class AlgoConfig:
    learning_rate: float = option(3e-4, between(0, 1, open=True), help="Step size.")
    clip_epsilon: float = option(0.2, between(0, 1, open=True), help="Clip range.")


@frozen(kw_only=True)
class TunedConfig(AlgoConfig):
    weights: dict[str, float] = option({}, help="Weights.")

    PRESETS: ClassVar[Presets] = {
        "paper": {"learning_rate": 5e-5, "weights": {"a": 0.8, "b": 0.2}},
        "wrong": {"clip_epsilon": 7.0},
    }


@frozen(kw_only=True)
class InheritedConfig(TunedConfig):
    """Has the presets of its base class."""


@frozen(kw_only=True)
class ScheduledConfig(AlgoConfig):
    clip_epsilon_final: float | None = option(None, help="At the end.", scheduled=True)


@frozen(kw_only=True)
class FadeConfig:
    fade: dict[str, float] = option({}, help="When it is gone.", scheduled=True)


@frozen(kw_only=True)
class MixConfig:
    parts: dict[str, float] = option({}, help="Weights of parts.")


@frozen(kw_only=True)
class NeedyConfig:
    opponent: str = option(help="Must be given.")


@frozen(kw_only=True)
class BrokenConfig:
    thing: "NoSuchType" = option(None, help="Cannot be resolved.")  # noqa: F821, UP037


MODULE = "ludus_test_config_components"


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    """Make the configuration classes importable by path, as those of a plugin are."""
    module = ModuleType(MODULE)
    for cls in (
        *(GameConfig, AlgoConfig, ScheduledConfig, FadeConfig, MixConfig, NeedyConfig, BrokenConfig),
        *(TunedConfig, InheritedConfig),
    ):
        setattr(module, cls.__name__, cls)
    monkeypatch.setitem(sys.modules, MODULE, module)


def component(name, config=None, **kwargs):
    """Return a component that can be configured but not made."""
    path = None if config is None else f"{MODULE}:{config.__name__}"
    return Component(name=name, factory=f"{MODULE}:nothing", config=path, **kwargs)


OFFERS = {
    "environment": (component("game", GameConfig), component("plain")),
    "algorithm": (component("algo", AlgoConfig), component("other", ScheduledConfig), component("same", AlgoConfig)),
    "network": (component("net", AlgoConfig), component("same", AlgoConfig)),
    "matchmaker": (component("mix", MixConfig), component("pfsp", AlgoConfig), component("needy", NeedyConfig)),
    "interface": (component("stack", GameConfig), component("fade", FadeConfig), component("broken", BrokenConfig)),
    "inference": (component("lean"), component("tuned", TunedConfig), component("heir", InheritedConfig)),
    "agent": (component("bot", AlgoConfig, environments=("game",)), component("stranger", environments=("plain",))),
    "rule": (component("fair"), component("strict", GameConfig)),
    "rating": (component("elo"), component("glicko", GameConfig)),
    "launcher": (component("local"), component("cloud", GameConfig)),
    "metric-sink": (component("console"), component("board", GameConfig)),
}


@pytest.fixture
def plugins():
    """Return plugins with all components above."""
    report = PluginReport(name="all", distribution="ludus-all", version="1", status="ok", offers=OFFERS)
    return Plugins([LoadedPlugin(report=report)])


MINIMAL = {
    "environment": {"name": "game"},
    "players": {"main": {"algorithm": "algo", "matchmaker": "mix"}},
}


def parse(plugins, *overrides, data=MINIMAL) -> RunConfig:
    """Return the configuration of `data` with overrides."""
    return parse_config(apply_overrides(data, overrides), source="run.toml", plugins=plugins)


def problems(plugins, *overrides, data=MINIMAL) -> list[str]:
    """Return the problems of `data` with overrides, without the file name."""
    with pytest.raises(ConfigError) as error:
        parse(plugins, *overrides, data=data)
    return [problem.removeprefix("run.toml:") for problem in error.value.problems]


# -- what is right ---------------------------------------------------------------------------------------------


def test_minimal_file(plugins):
    """All other options have their defaults."""
    config = parse(plugins)
    assert config.run == RunSection()
    assert config.sampling == SamplingSection()
    assert config.evaluation == EvaluationSection()
    assert config.metrics == MetricsSection()
    assert config.anchors == {}
    assert config.environment.config == GameConfig()
    assert config.players["main"].algorithm.config == AlgoConfig()


SCHEDULED = {
    "environment": {"name": "game"},
    "players": {
        "one": {"algorithm": "other", "matchmaker": "mix", "other": {"clip_epsilon_final": 0.1}},
        "two": {"algorithm": "other", "matchmaker": "mix", "interfaces": ["fade"], "fade": {"fade": {"hint": 0.5}}},
    },
}


def test_schedules_without_a_budget_are_found(plugins):
    """The line holds the paths of all options that are set."""
    assert find_unused_schedules(parse(plugins, data=SCHEDULED)) == (
        "there is no training budget (run.minutes, run.decisions), so these have no effect: "
        "players.one.other.clip_epsilon_final, players.two.fade.fade"
    )
    assert not find_unused_schedules(parse(plugins))


@pytest.mark.parametrize("limit", ["run.minutes=0.5", "run.decisions=100"])
def test_schedules_with_a_budget_are_fine(plugins, limit):
    """Either limit is a budget."""
    assert not find_unused_schedules(parse(plugins, limit, data=SCHEDULED))


def test_every_option_is_documented():
    """Every plain option of every section has a help text."""
    own = {"name", "parts"}
    for cls in (
        RunSection,
        SamplingSection,
        PlayerConfig,
        AnchorConfig,
        EvaluationSection,
        LeagueSection,
        MetricsSection,
    ):
        for attribute in attrs.fields(cls):
            assert attribute.name in own or attribute.metadata.get("help"), f"{cls.__name__}.{attribute.name}"


def test_plain_options_are_read(plugins):
    """Sections take their own options."""
    config = parse(plugins, "run.seed=5", "run.minutes=2", "sampling.matches=4", "players.main.share=0.5")
    assert (config.run.seed, config.run.minutes, config.sampling.matches) == (5, 2.0, 4)
    assert config.players["main"].share == 0.5


def test_options_come_from_the_table_of_the_component(plugins):
    """The table has the name of the selected component."""
    config = parse(plugins, "environment.game.width=9", "players.main.algo.clip_epsilon=0.1")
    assert config.environment.config == GameConfig(width=9)
    assert config.players["main"].algorithm.config == AlgoConfig(clip_epsilon=0.1)


def test_component_without_options(plugins):
    """The configuration of a component without a configuration class is None."""
    assert parse(plugins, "environment.name=plain").environment.config is None


def test_player_with_all_components(plugins):
    """Interfaces keep their order."""
    player = parse(
        plugins, "players.main.network=net", 'players.main.interfaces=["stack", "stack"]', "players.main.stack.width=2"
    ).players["main"]
    assert player.network is not None
    assert player.network.name == "net"
    assert [chosen.config for chosen in player.interfaces] == [GameConfig(width=2)] * 2


def test_players_keep_their_order(plugins):
    """It is that of the file."""
    data = {**MINIMAL, "players": dict.fromkeys("zam", MINIMAL["players"]["main"])}
    assert list(parse(plugins, data=data).players) == ["z", "a", "m"]


def test_tables_of_other_matchmakers_are_parts(plugins):
    """The parts of a mixture are configured in the section of the player."""
    player = parse(plugins, "players.main.pfsp.clip_epsilon=0.4").players["main"]
    assert player.parts["pfsp"].config == AlgoConfig(clip_epsilon=0.4)
    assert select_matchmaker_part(player, plugins, "pfsp") is player.parts["pfsp"]


def test_part_without_table_has_defaults(plugins):
    """It is configured on demand."""
    part = select_matchmaker_part(parse(plugins).players["main"], plugins, "pfsp")
    assert part.config == AlgoConfig()


def test_part_with_the_name_of_the_selected_matchmaker(plugins):
    """It is the selected matchmaker with its options."""
    player = parse(plugins, "players.main.mix.parts.pfsp=1").players["main"]
    assert select_matchmaker_part(player, plugins, "mix") is player.matchmaker


def test_tables_of_selected_components_are_no_parts(plugins):
    """The table of the selected matchmaker is not a part of it."""
    player = parse(plugins, "players.main.mix.parts.pfsp=1", "players.main.algo.clip_epsilon=0.1").players["main"]
    assert player.parts == {}


@pytest.mark.parametrize(
    ("name", "problem"),
    [("needy", "players.main.needy.opponent: missing; expected a string"), ("nobody", "no installed plugin provides")],
)
def test_invalid_part(plugins, name, problem):
    """A part that lacks an option or is not installed is one line."""
    with pytest.raises(ConfigError) as error:
        select_matchmaker_part(parse(plugins).players["main"], plugins, name)
    assert problem in str(error.value)


def test_evaluation_with_a_matchmaker(plugins):
    """Its section may configure parts."""
    evaluation = parse(
        plugins, "evaluation.matchmaker=mix", "evaluation.mix.parts.pfsp=1", "evaluation.pfsp.clip_epsilon=0.3"
    ).evaluation
    assert evaluation.matchmaker is not None
    assert evaluation.matchmaker.config == MixConfig(parts={"pfsp": 1.0})
    assert select_matchmaker_part(evaluation, plugins, "pfsp").config == AlgoConfig(clip_epsilon=0.3)


def test_options_in_evaluation_without_a_matchmaker(plugins):
    """The matchmaker of the first player is used, with the options of its section."""
    text = "the matchmaker 'pfsp' is not chosen in this section — remove the table, or choose it"
    assert problems(plugins, "evaluation.pfsp.clip_epsilon=0.3") == [f"evaluation.pfsp: unknown key: {text}"]


@pytest.mark.parametrize("table", ["players.main.pfsp", "players.main.other", "evaluation.mix", "league.glicko"])
def test_empty_tables_of_other_components_are_ignored(plugins, table):
    """So --set can select another component than the one that the file configures."""
    config = parse(plugins, f"{table}.clip_epsilon=0.4", f"{table}={{}}")
    assert attrs.evolve(config, data=MINIMAL) == parse(plugins)


def test_anchors(plugins):
    """An anchor is an agent with a name of its own."""
    config = parse(plugins, "anchors.rock.agent=bot", "anchors.rock.bot.clip_epsilon=0.5")
    assert config.anchors["rock"].agent.config == AlgoConfig(clip_epsilon=0.5)


def test_duplicate_rules_are_an_error(plugins):
    """A rule has one table of options."""
    with pytest.raises(ConfigError, match=r"league\.rules: 'fair' is listed twice; expected every rule once"):
        parse(plugins, 'league.rules=["fair", "strict", "fair"]')


def test_sinks_rules_and_launcher(plugins):
    """They have tables of options too."""
    config = parse(
        plugins,
        'metrics.sinks=["console", "board"]',
        "metrics.board.width=3",
        'league.rules=["strict", "fair"]',
        "league.strict.width=2",
        "run.launcher=cloud",
        "run.cloud.width=1",
    )
    assert [chosen.config for chosen in config.metrics.sinks] == [None, GameConfig(width=3)]
    assert [chosen.config for chosen in config.league.rules] == [GameConfig(width=2), None]
    assert config.launcher is not None
    assert config.launcher.config == GameConfig(width=1)
    assert config.run.launcher == "cloud"


def test_single_process_run_needs_no_launcher(plugins):
    """The launcher need not be installed."""
    assert parse(plugins, "run.launcher=absent", "run.workers=0").launcher is None


def test_rating(plugins):
    """It has a table of options; the default is elo."""
    assert parse(plugins).league.rating.name == "elo"
    chosen = parse(plugins, "league.rating=glicko", "league.glicko.width=4").league.rating
    assert (chosen.name, chosen.config) == ("glicko", GameConfig(width=4))


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("launcher", "run.launcher: no installed plugin provides the launcher 'local' — .*: pip install ludus-local"),
        ("rating", "league.rating: no installed plugin provides the rating 'elo' — .*: pip install ludus-ratings"),
    ],
)
def test_missing_default_component_names_its_distribution(kind, problem):
    """The error is one line."""
    offers = {other: components for other, components in OFFERS.items() if other != kind}
    report = PluginReport(name="all", distribution="ludus-all", version="1", status="ok", offers=offers)
    [found] = problems(Plugins([LoadedPlugin(report=report)]))
    assert re.fullmatch(problem, found)


def test_read_rating(plugins, tmp_path):
    """Other components need not be installed; without a file the rating is the default."""
    path = tmp_path / "run.toml"
    assert read_rating(path, plugins=plugins).name == "elo"
    path.write_text('[environment]\nname = "gone"\n[league]\nrating = "glicko"\nrules = ["gone"]\n')
    assert read_rating(path, plugins=plugins).config == GameConfig()
    assert read_rating(path, overrides=["league.glicko.width=3"], plugins=plugins).config == GameConfig(width=3)
    with pytest.raises(ConfigError, match=r"--set league\.rating: .*did you mean 'glicko'"):
        read_rating(path, overrides=["league.rating=glico"], plugins=plugins)


def test_errors_start_with_the_file_or_the_override(plugins, tmp_path):
    """The path is that of the argument."""
    path = tmp_path / "mine.toml"
    path.write_text('[environment]\nname = "game"\n[players.main]\nalgorithm = "algo"\nmatchmaker = "mix"\n')
    assert load_config(path, plugins=plugins) == parse(plugins)
    with pytest.raises(ConfigError) as error:
        load_config(path, overrides=["run.seed=-1"], plugins=plugins)
    assert error.value.problems == ("--set run.seed: expected a number ≥ 0, got -1",)
    path.write_text(path.read_text().replace("mix", "mxi"))
    with pytest.raises(ConfigError) as error:
        load_config(path, overrides=["run.seed=-1", "players.main.algo.x=1"], plugins=plugins)
    assert [line.partition(": ")[0] for line in error.value.problems] == [
        "--set run.seed",
        "--set players.main.algo.x",
        f"{path}:players.main.matchmaker",
    ]


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        (
            "players.main.algo.clip_epsilon=0.1",
            "players.main: there is no player 'main'; players are main_agent, mouse",
        ),
        ("players.main.algo={clip_epsilon=0.1}", "players.main: there is no player 'main'; players are main_agent, m"),
        ("players.main={share=0.5}", "players.main: there is no player 'main'; players are main_agent, mouse"),
        ("anchors.rocks.bot.clip_epsilon=0.1", "anchors.rocks: there is no anchor 'rocks'; anchors are rock"),
    ],
)
def test_overrides_of_unknown_players_and_anchors(plugins, tmp_path, override, problem):
    """One line lists the existing ones."""
    path, player = tmp_path / "run.toml", MINIMAL["players"]["main"]
    anchors = {"rock": {"agent": "bot"}}
    path.write_text(
        write_toml({**MINIMAL, "players": dict.fromkeys(("main_agent", "mouse"), player), "anchors": anchors})
    )
    with pytest.raises(ConfigError) as error:
        load_config(path, overrides=["run.seed=1", override], plugins=plugins)
    [line] = error.value.problems
    assert line.startswith(f"--set {problem}")
    assert line.endswith(" — did you mean 'main_agent'?" if "main" in override else " — did you mean 'rock'?")


def test_overrides_of_incomplete_players(plugins, tmp_path):
    """Missing options are reported for players of the file and of overrides."""
    path = tmp_path / "run.toml"
    players = {"main_agent": MINIMAL["players"]["main"], "main": {"share": 0.5}}
    path.write_text(write_toml({**MINIMAL, "players": players}))
    overrides = ["players.main.init=''", "players.new.algorithm=algo", "anchors.rock.bot.clip_epsilon=0.1"]
    with pytest.raises(ConfigError) as error:
        load_config(path, overrides=overrides, plugins=plugins)
    assert [line.partition(";")[0].partition(" — ")[0] for line in error.value.problems] == [
        f"{path}:players.main.algorithm: missing",
        f"{path}:players.main.matchmaker: missing",
        f"{path}:players.new.matchmaker: missing",
        f"{path}:anchors.rock.agent: missing",
        "--set anchors.rock.bot: unknown key: the agent 'bot' is not chosen in this section",
    ]


def test_dump_loads_to_an_equal_config(plugins, tmp_path):
    """The stored file includes the overrides."""
    config = parse(
        plugins, "run.seed=9", 'metrics.sinks=["board"]', "players.main.algo.learning_rate=1e-5", "anchors.a.agent=bot"
    )
    path = tmp_path / "run.toml"
    path.write_text(dump_config(config), encoding="utf-8")
    assert load_config(path, plugins=plugins) == config


def test_select_components(plugins):
    """Options are given by component name."""
    game, bot = select_components(
        plugins, [("environment", "game"), ("agent", "bot")], overrides=["bot.clip_epsilon=0.1"]
    )
    assert isinstance(game, SelectedComponent)
    assert bot.config == AlgoConfig(clip_epsilon=0.1)


def test_select_components_with_mistakes(plugins):
    """Options of other components and unknown names are one line each."""
    with pytest.raises(ConfigError) as error:
        select_components(plugins, [("environment", "gane")], overrides=["bot.clip_epsilon=0.1"])
    assert len(error.value.problems) == 2
    assert "did you mean 'game'?" in error.value.problems[0]
    assert error.value.problems[1] == (
        "--set bot: unknown key: the agent 'bot' is not chosen in this section — remove the table, or choose it"
    )


# -- what is wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("run.seed=x", "run.seed: expected an integer, got 'x'"),
        ("run.seed=1.5", "run.seed: expected an integer, got 1.5"),
        ("run.workers=-1", "run.workers: expected a whole number from 0 to 10000, got -1"),
        ("run.wrokers=1", "run.wrokers: unknown key — did you mean 'workers'?"),
        ("run.launcher=3", "run.launcher: expected a string, got 3"),
        ("runs.seed=1", "runs: unknown section — did you mean 'run'?"),
        ("run=3", "run: expected a table, got 3"),
        ("players=3", "players: expected a table, got 3"),
        ("players.main=3", "players.main: expected a table, got 3"),
        ("run.learner_threads=9999", "run.learner_threads: expected a number in [0, 1024], got 9999"),
        ("sampling.fixture_matches=9223372036854775808", "sampling.fixture_matches: expected an integer of at most 64"),
        ("sampling.matches=0", "sampling.matches: expected a whole number from 1 to 1000000, got 0"),
        ("environment.name=7", "environment.name: expected the name of an installed environment, got 7"),
        ("environment.nmae=7", "environment.nmae: unknown key — did you mean 'name'?"),
        ("players.main.algoritm=algo", "players.main.algoritm: unknown key — did you mean 'algorithm'?"),
        ("players.main.interface=[]", "players.main.interface: unknown key — did you mean 'interfaces'?"),
        ("players.main.nmae=x", "players.main.nmae: unknown key"),
        ("environment.game.widht=7", "environment.game.widht: unknown key — did you mean 'width'?"),
        ("environment.game=7", "environment.game: expected a table, got 7"),
        ("players.main.share=-1", "players.main.share: expected a number ≥ 0, got -1"),
        ("players.main.algo.clip_epsilon=2.0", "players.main.algo.clip_epsilon: expected a number in (0, 1), got 2.0"),
        ("players.main.algo.clip=0.1", "players.main.algo.clip: unknown key — it is called 'clip_epsilon' here"),
        ("players.main.algo.clip_epsilom=0.1", "players.main.algo.clip_epsilom: unknown key — did you mean 'clip_ep"),
        ("players.main.algo.lr=0.1", "players.main.algo.lr: unknown key — it is called 'learning_rate' here"),
        (
            "players.main.algo.num-envs=8",
            "players.main.algo.num-envs: unknown key — it is called sampling.matches here",
        ),
        (
            "players.main.lr=0.1",
            "players.main.lr: unknown key: it is called 'learning_rate' here, an option of 'algo' — write",
        ),
        ("run.total_timesteps=9", "run.total_timesteps: unknown key — it is called run.decisions here"),
        ("environment.env_id=game", "environment.env_id: unknown key — it is called 'name' here"),
        ("n_envs=8", "n_envs: unknown section — it is called sampling.matches here"),
        ("players.main.pfsp.clip_epsilon=5", "players.main.pfsp.clip_epsilon: expected a number in (0, 1), got 5"),
        ("players.main.net.x=1", "players.main.net: unknown key: the network 'net' is not chosen in this section"),
        ("players.main.pfps.x=1", "players.main.pfps: unknown key — did you mean 'pfsp'?"),
        (
            "players.main.clip_epsilon=0.1",
            "players.main.clip_epsilon: unknown key: it is an option of 'algo' — write it into [players.main.algo]",
        ),
        (
            "players.main.parts.pfsp=1",
            "players.main.parts: unknown key: it is an option of 'mix' — write it into [players.main.mix]",
        ),
        ("environment.width=7", "environment.width: unknown key: it is an option of 'game' — write it into [env"),
        ("players.main.interfaces=stack", "players.main.interfaces: expected a list of names, got 'stack'"),
        (
            f"players.main.interfaces={['x'] * 65}",
            "players.main.interfaces: expected at most 64 names, got 65",
        ),
        (
            f"players.main.network={'x' * 65}",
            f"players.main.network: expected the name of an installed network, got '{'x' * 65}'",
        ),
        (
            "players.main.interfaces=[1]",
            "players.main.interfaces.0: expected the name of an installed interface, got 1",
        ),
        ("anchors.main.agent=bot", "anchors.main: a player has this name; choose another"),
        ("anchors.a.agent=stranger", "anchors.a.agent: 'stranger' plays plain, not game"),
        ("anchors.a.bot.clip_epsilon=0.1", "anchors.a.agent: missing; expected the name of an installed agent"),
        ("evaluation.matches=x", "evaluation.matches: expected an integer, got 'x'"),
        ("evaluation.enabled=1", "evaluation.enabled: expected true or false, got 1"),
        (
            "metrics.console.x=1",
            "metrics.console: unknown key: the metric-sink 'console' is not chosen in this section",
        ),
        ("metrics.interval_s=0", "metrics.interval_s: expected a number ≥ 0.1, got 0"),
    ],
)
def test_one_mistake(plugins, override, problem):
    """The line holds the path and the expected values."""
    [line, *_] = problems(plugins, override)
    assert line.startswith(problem)
    assert "did you mean" in problem or "did you mean" not in line


@pytest.mark.parametrize(
    ("override", "where", "meant"),
    [
        ("environment.name=gaem", "environment.name", "game"),
        ("players.main.algorithm=alog", "players.main.algorithm", "algo"),
        ("players.main.matchmaker=pfps", "players.main.matchmaker", "pfsp"),
        ('players.main.interfaces=["stack", "stak"]', "players.main.interfaces.1", "stack"),
        ("run.launcher=locla", "run.launcher", "local"),
        ("league.rating=eol", "league.rating", "elo"),
        ('metrics.sinks=["bord"]', "metrics.sinks.0", "board"),
    ],
)
def test_unknown_component(plugins, override, where, meant):
    """The line lists installed components and suggests a similar one."""
    [problem] = problems(plugins, override)
    assert problem.startswith(f"{where}: no installed plugin provides the ")
    assert f"did you mean {meant!r}?" in problem
    assert "installed: " in problem


@pytest.mark.parametrize(("key", "meant"), [("bto", "bot"), ("pfps", None), ("algi", None)])
def test_suggestions_are_limited_to_the_section(plugins, key, meant):
    """An anchor has neither matchmakers nor an algorithm."""
    hint = f" — did you mean {meant!r}?" if meant else ""
    found = problems(plugins, "anchors.rock.agent=bot", f"anchors.rock.{key}.clip_epsilon=0.1")
    assert found == [f"anchors.rock.{key}: unknown key{hint}"]


def test_unknown_option_beside_a_broken_component(plugins):
    """The owner of the option cannot be determined."""
    lost = Component(name="game", factory="nowhere:f", config="nowhere_at_all:Config")
    report = PluginReport(
        name="p", distribution="p", version="1", status="ok", offers={**OFFERS, "environment": (lost,)}
    )
    assert problems(Plugins([LoadedPlugin(report=report)]), "environment.width=7")[1:] == [
        "environment.width: unknown key"
    ]


# -- presets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tuned", "heir"])
def test_a_preset_sets_options(plugins, name):
    """Set the options of the preset, of a base class too; all others keep their defaults."""
    [chosen] = select_components(plugins, [("inference", name)], options={name: {"preset": "paper"}})
    assert chosen.config.learning_rate == 5e-5
    assert chosen.config.weights == {"a": 0.8, "b": 0.2}
    assert chosen.config.clip_epsilon == 0.2


def test_options_beside_a_preset_replace_its_options(plugins):
    """A table is replaced as a whole; overrides count as options of the table."""
    options = {"tuned": {"preset": "paper", "weights": {"c": 1.0}}}
    [chosen] = select_components(
        plugins, [("inference", "tuned")], options=options, overrides=["tuned.learning_rate=0.5"]
    )
    assert chosen.config == TunedConfig(learning_rate=0.5, weights={"c": 1.0})


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"preset": "papr"}, "tuned.preset: expected one of paper, wrong, got 'papr' — did you mean 'paper'?"),
        ({"preset": ["paper"]}, "tuned.preset: expected one of paper, wrong, got ['paper']"),
        ({"preset": "wrong"}, "tuned.clip_epsilon: expected a number in (0, 1), got 7.0"),
        ({"preset": "paper", "rate": 1.0}, "tuned.rate: unknown key"),
    ],
)
def test_wrong_presets(plugins, table, problem):
    """An unknown preset is one line with its place; options of a preset are checked as all others."""
    with pytest.raises(ConfigError) as error:
        select_components(plugins, [("inference", "tuned")], options={"tuned": table})
    assert str(error.value).startswith(problem)


def test_a_preset_of_a_component_without_presets(plugins):
    """The option is unknown."""
    [problem] = problems(plugins, "players.main.algo.preset=paper")
    assert problem.startswith("players.main.algo.preset: unknown key")


def test_a_preset_beside_the_table_of_its_component(plugins):
    """The message names the table to write it into."""
    [problem] = problems(plugins, "sampling.inference=tuned", "sampling.preset=paper")
    assert problem == "sampling.preset: unknown key: it is an option of 'tuned' — write it into [sampling.tuned]"


def test_options_of_a_component_without_options(plugins):
    """They are an error."""
    [problem] = problems(plugins, "environment.name=plain", "environment.plain.x=1")
    assert problem == "environment.plain: it has no options"


def test_missing_components(plugins):
    """The lines list installed components."""
    found = problems(plugins, data={"players": {"main": {}}})
    assert found == [
        "environment.name: missing; expected the name of an installed environment (game, plain installed)",
        "players.main.algorithm: missing; expected the name of an installed algorithm (algo, other, same installed)",
        "players.main.matchmaker: missing; expected the name of an installed matchmaker (mix, needy, pfsp installed)",
    ]


def test_no_player(plugins):
    """At least one player is required."""
    assert problems(plugins, data={"environment": {"name": "game"}}) == [
        "players: missing; expected at least one table [players.NAME]"
    ]


@pytest.mark.parametrize("name", ["Main", "a@1", "a b", ""])
def test_invalid_player_names(plugins, name):
    """They become parts of the names of models."""
    data = {**MINIMAL, "players": {name: MINIMAL["players"]["main"]}}
    assert problems(plugins, data=data)[0].startswith(f"players.{name}: expected a name of 1 to 64 characters")


def test_one_table_for_two_components(plugins):
    """A table that configures two selected components is an error."""
    found = problems(
        plugins, "players.main.algorithm=same", "players.main.network=same", "players.main.same.clip_epsilon=0.1"
    )
    assert found == ["players.main.same: ambiguous: both the algorithm and the network chosen here are called 'same'"]


def test_two_components_of_one_name_without_options(plugins):
    """Two components may share a name if neither is configured."""
    player = parse(plugins, "players.main.algorithm=same", "players.main.network=same").players["main"]
    assert player.network is not None
    assert player.network.kind == "network"


def test_all_mistakes_at_once(plugins):
    """Mistakes of all sections are reported."""
    found = problems(
        plugins, "run.seed=x", "sampling.matches=0", "players.main.algo.clip_epsilon=2.0", "anchors.a.agent=nobody"
    )
    assert [problem.partition(":")[0] for problem in found] == [
        "run.seed",
        "sampling.matches",
        "players.main.algo.clip_epsilon",
        "anchors.a.agent",
    ]


@pytest.mark.parametrize("key", ["run", "environment.name", "players.main", "players.main.network", "run.seed"])
def test_long_values_are_shortened(plugins, key):
    """The line still holds the expected values."""
    (found,) = [line for line in problems(plugins, f"{key}={[1] * 5000}") if line.startswith(f"{key}: ")]
    assert found.startswith(f"{key}: expected ")
    assert len(found) < 200


def test_duplicate_lines_are_removed(plugins):
    """A section may be read for several purposes."""
    found = problems(plugins, "players=3", "anchors.a.agent=bot", "anchors.b.agent=bot")
    assert found.count("players: expected a table, got 3") == 1


def test_broken_configuration_class_of_a_plugin(plugins):
    """It is a problem of the component without a traceback."""
    [problem] = problems(plugins, 'players.main.interfaces=["broken"]')
    assert problem.startswith(f"players.main.interfaces.0: 'broken': its configuration class {MODULE}:BrokenConfig")
    assert "NoSuchType" in problem


def test_configuration_class_that_is_missing():
    """It is a problem of the component."""
    lost = Component(name="game", factory="nowhere:f", config="nowhere_at_all:Config")
    report = PluginReport(
        name="p", distribution="p", version="1", status="ok", offers={**OFFERS, "environment": (lost,)}
    )
    [problem] = problems(Plugins([LoadedPlugin(report=report)]))
    assert problem.startswith("environment.name: component 'game': cannot import 'nowhere_at_all:Config'")


def test_clashing_component(plugins):
    """The line suggests which plugin to block."""
    reports = [
        PluginReport(name=name, distribution=name, version="1", status="ok", offers=OFFERS) for name in ("one", "two")
    ]
    found = problems(Plugins([LoadedPlugin(report=report) for report in reports]))
    assert any("is provided by one (plugin one) and two (plugin two)" in problem for problem in found)


@pytest.mark.parametrize(
    ("given", "matches"),
    [
        ({"matches": 256}, 256),
        ({"matches": 16}, 64),
        ({"matches": 256, "rows_per_fixture": 32}, 128),
        ({"matches": 256, "fixture_matches": 10}, 10),
    ],
)
def test_default_matches_per_fixture(given, matches):
    """A fixture has four matches per row; it fills at most all rows."""
    assert SamplingSection(**given).matches_per_fixture == matches


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"players": {"main": {"k": {f"k{i}": 1 for i in range(300_000)}}}}, "keys in a table, got 300,000"),
        ({f"k{i}": 1 for i in range(300_000)}, "top level: expected at most 10,000 keys in a table, got 300,001"),
        ({"environment": {"name": "game", "game": {"width": [1] * 100_000}}}, "items in a list, got 100,000"),
    ],
)
def test_impossible_sizes_are_one_line(plugins, change, line):
    """They are found before anything else is read."""
    with pytest.raises(ConfigError) as caught:
        parse_config({"run": {}, **change}, source="run.toml", plugins=plugins)
    assert len(caught.value.problems) == 1
    assert line in caught.value.problems[0]


def test_too_many_players_are_one_line(plugins):
    """None of them is read."""
    players = {f"p{i}": {"algorithm": "nope"} for i in range(5000)}
    lines = problems(plugins, data={**MINIMAL, "players": players})
    assert "players: expected at most 1,000 players, got 5,000" in lines
    assert len(lines) == 1


def test_many_mistakes_are_summarized(plugins):
    """By table, and in the whole file."""
    lines = problems(plugins, *(f"run.k{i}=1" for i in range(500)))
    assert len(lines) == 21
    assert lines[-1].endswith("run: 480 more unknown keys")
    players = {f"p{i}": {"algorithm": "nope", "matchmaker": "nope"} for i in range(900)}
    lines = problems(plugins, data={**MINIMAL, "players": players})
    assert len(lines) == 101
    assert lines[-1] == "1,700 more problems"
