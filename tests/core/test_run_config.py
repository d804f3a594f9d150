"""The configuration of a run: sections, choices of components, and everything that can be wrong."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import attrs
import pytest
from attrs import frozen
from ludus._config.matchmaker_parts import select_matchmaker_part
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
)
from ludus._config.toml import apply_overrides
from ludus._plugins.loading import LoadedPlugin, PluginReport
from ludus._plugins.manager import Plugins
from ludus.component import Component
from ludus.errors import ConfigError
from ludus.option import at_least, between, option
from tomli_w import dumps as write_toml


@frozen(kw_only=True)
class GameConfig:
    width: int = option(7, at_least(1), help="Columns.")


@frozen(kw_only=True)
class AlgoConfig:
    learning_rate: float = option(3e-4, between(0, 1, open=True), help="Step size.")
    clip_epsilon: float = option(0.2, between(0, 1, open=True), help="Clip range.")


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
    for cls in (GameConfig, AlgoConfig, ScheduledConfig, FadeConfig, MixConfig, NeedyConfig, BrokenConfig):
        setattr(module, cls.__name__, cls)
    monkeypatch.setitem(sys.modules, MODULE, module)


def component(name, config=None, **kwargs):
    """Return a component that cannot be made, only configured."""
    path = None if config is None else f"{MODULE}:{config.__name__}"
    return Component(name=name, factory=f"{MODULE}:nothing", config=path, **kwargs)


OFFERS = {
    "environment": (component("game", GameConfig), component("plain")),
    "algorithm": (component("algo", AlgoConfig), component("other", ScheduledConfig), component("same", AlgoConfig)),
    "network": (component("net", AlgoConfig), component("same", AlgoConfig)),
    "matchmaker": (component("mix", MixConfig), component("pfsp", AlgoConfig), component("needy", NeedyConfig)),
    "interface": (component("stack", GameConfig), component("fade", FadeConfig), component("broken", BrokenConfig)),
    "agent": (component("bot", AlgoConfig, environments=("game",)), component("stranger", environments=("plain",))),
    "rule": (component("fair"), component("strict", GameConfig)),
    "rating": (component("elo"), component("glicko", GameConfig)),
    "launcher": (component("local"), component("cloud", GameConfig)),
    "metric-sink": (component("console"), component("board", GameConfig)),
}


@pytest.fixture
def plugins():
    """Return plugins that offer all of the above."""
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


def test_minimal_file_gets_every_default(plugins):
    """An environment and a player are enough."""
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


def test_options_that_follow_a_budget_that_is_not_there_are_named(plugins):
    """By their paths, and only those that are set."""
    assert find_unused_schedules(parse(plugins, data=SCHEDULED)) == (
        "there is no training budget (run.minutes, run.decisions), so these have no effect: "
        "players.one.other.clip_epsilon_final, players.two.fade.fade"
    )
    assert not find_unused_schedules(parse(plugins))


@pytest.mark.parametrize("limit", ["run.minutes=0.5", "run.decisions=100"])
def test_a_budget_of_either_kind_is_followed(plugins, limit):
    """Then there is nothing to say."""
    assert not find_unused_schedules(parse(plugins, limit, data=SCHEDULED))


def test_every_option_is_documented():
    """Each plain option of each section has a line of help."""
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


def test_component_options_come_from_the_table_of_its_name(plugins):
    """The options of a chosen component stand beside the choice."""
    config = parse(plugins, "environment.game.width=9", "players.main.algo.clip_epsilon=0.1")
    assert config.environment.config == GameConfig(width=9)
    assert config.players["main"].algorithm.config == AlgoConfig(clip_epsilon=0.1)


def test_component_without_options(plugins):
    """A component without a configuration class has None."""
    assert parse(plugins, "environment.name=plain").environment.config is None


def test_player_with_everything(plugins):
    """Network and interfaces are chosen the same way, interfaces in order."""
    player = parse(
        plugins, "players.main.network=net", 'players.main.interfaces=["stack", "stack"]', "players.main.stack.width=2"
    ).players["main"]
    assert player.network is not None
    assert player.network.name == "net"
    assert [chosen.config for chosen in player.interfaces] == [GameConfig(width=2)] * 2


def test_players_keep_their_order(plugins):
    """The first player of the file stays the first."""
    data = {**MINIMAL, "players": dict.fromkeys("zam", MINIMAL["players"]["main"])}
    assert list(parse(plugins, data=data).players) == ["z", "a", "m"]


def test_tables_of_other_matchmakers_are_parts(plugins):
    """A mixture's parts are configured in the player's section."""
    player = parse(plugins, "players.main.pfsp.clip_epsilon=0.4").players["main"]
    assert player.parts["pfsp"].config == AlgoConfig(clip_epsilon=0.4)
    assert select_matchmaker_part(player, plugins, "pfsp") is player.parts["pfsp"]


def test_part_without_table_has_defaults(plugins):
    """A part that is not configured is made with its defaults, on demand."""
    part = select_matchmaker_part(parse(plugins).players["main"], plugins, "pfsp")
    assert part.config == AlgoConfig()


def test_the_chosen_matchmaker_is_its_own_part(plugins):
    """Asking for the chosen one by name gives it with its options."""
    player = parse(plugins, "players.main.mix.parts.pfsp=1").players["main"]
    assert select_matchmaker_part(player, plugins, "mix") is player.matchmaker


def test_tables_of_chosen_components_are_no_parts(plugins):
    """The chosen matchmaker's own table does not make it a part of itself."""
    player = parse(plugins, "players.main.mix.parts.pfsp=1", "players.main.algo.clip_epsilon=0.1").players["main"]
    assert player.parts == {}


@pytest.mark.parametrize(
    ("name", "problem"),
    [("needy", "players.main.needy.opponent: missing; expected a string"), ("nobody", "no installed plugin provides")],
)
def test_part_that_cannot_be_made(plugins, name, problem):
    """A part that lacks an option or is not installed is one line."""
    with pytest.raises(ConfigError) as error:
        select_matchmaker_part(parse(plugins).players["main"], plugins, name)
    assert problem in str(error.value)


def test_evaluation_may_choose_a_matchmaker(plugins):
    """Evaluations can have a matchmaker of their own, with parts."""
    evaluation = parse(
        plugins, "evaluation.matchmaker=mix", "evaluation.mix.parts.pfsp=1", "evaluation.pfsp.clip_epsilon=0.3"
    ).evaluation
    assert evaluation.matchmaker is not None
    assert evaluation.matchmaker.config == MixConfig(parts={"pfsp": 1.0})
    assert select_matchmaker_part(evaluation, plugins, "pfsp").config == AlgoConfig(clip_epsilon=0.3)


def test_options_for_evaluation_without_a_matchmaker_of_its_own(plugins):
    """The first player's matchmaker chooses, with that player's options."""
    text = "the matchmaker 'pfsp' is not chosen in this section — remove the table, or choose it"
    assert problems(plugins, "evaluation.pfsp.clip_epsilon=0.3") == [f"evaluation.pfsp: unknown key: {text}"]


@pytest.mark.parametrize("table", ["players.main.pfsp", "players.main.other", "evaluation.mix", "league.glicko"])
def test_an_empty_table_of_what_is_not_chosen_is_as_none(plugins, table):
    """So that --set can choose another component than the file has options for."""
    config = parse(plugins, f"{table}.clip_epsilon=0.4", f"{table}={{}}")
    assert attrs.evolve(config, data=MINIMAL) == parse(plugins)


def test_anchors(plugins):
    """An anchor is an agent under a name of its own."""
    config = parse(plugins, "anchors.rock.agent=bot", "anchors.rock.bot.clip_epsilon=0.5")
    assert config.anchors["rock"].agent.config == AlgoConfig(clip_epsilon=0.5)


def test_a_rule_stands_in_the_list_once(plugins):
    """It has one table of options, and would be asked once."""
    with pytest.raises(ConfigError, match=r"league\.rules: 'fair' is listed twice; expected every rule once"):
        parse(plugins, 'league.rules=["fair", "strict", "fair"]')


def test_sinks_rules_and_launcher(plugins):
    """Metric sinks, rules and the launcher have option tables too."""
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


def test_no_launcher_is_needed_in_one_process(plugins):
    """Without worker processes a launcher need not be installed."""
    assert parse(plugins, "run.launcher=absent", "run.workers=0").launcher is None


def test_ratings_are_chosen_by_name(plugins):
    """With a table of options; without a word it is elo."""
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
def test_a_default_that_is_not_installed_names_its_package(kind, problem):
    """In one line."""
    offers = {other: components for other, components in OFFERS.items() if other != kind}
    report = PluginReport(name="all", distribution="ludus-all", version="1", status="ok", offers=offers)
    [found] = problems(Plugins([LoadedPlugin(report=report)]))
    assert re.fullmatch(problem, found)


def test_how_a_run_rates_can_be_read_alone(plugins, tmp_path):
    """Whatever else of the file is not installed; without a file it is the default."""
    path = tmp_path / "run.toml"
    assert read_rating(path, plugins=plugins).name == "elo"
    path.write_text('[environment]\nname = "gone"\n[league]\nrating = "glicko"\nrules = ["gone"]\n')
    assert read_rating(path, plugins=plugins).config == GameConfig()
    assert read_rating(path, overrides=["league.glicko.width=3"], plugins=plugins).config == GameConfig(width=3)
    with pytest.raises(ConfigError, match=r"--set league\.rating: .*did you mean 'glicko'"):
        read_rating(path, overrides=["league.rating=glico"], plugins=plugins)


def test_load_names_the_file(plugins, tmp_path):
    """Errors begin with the path as the user gave it, those of overrides with the option."""
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
def test_overrides_of_somebody_who_is_not_there(plugins, tmp_path, override, problem):
    """One line says who is."""
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


def test_a_player_of_the_file_that_overrides_change(plugins, tmp_path):
    """It is there, and what it lacks is told; likewise of one that overrides add."""
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
    """What the run folder stores gives the same configuration, overrides included."""
    config = parse(
        plugins, "run.seed=9", 'metrics.sinks=["board"]', "players.main.algo.learning_rate=1e-5", "anchors.a.agent=bot"
    )
    path = tmp_path / "run.toml"
    path.write_text(dump_config(config), encoding="utf-8")
    assert load_config(path, plugins=plugins) == config


def test_chosen_from_the_command_line(plugins):
    """Components can be chosen without a file, their options by name."""
    game, bot = select_components(
        plugins, [("environment", "game"), ("agent", "bot")], overrides=["bot.clip_epsilon=0.1"]
    )
    assert isinstance(game, SelectedComponent)
    assert bot.config == AlgoConfig(clip_epsilon=0.1)


def test_chosen_from_the_command_line_wrongly(plugins):
    """Options of what was not chosen, and unknown names, are one line each."""
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
        ("run.workers=-1", "run.workers: expected a whole number ≥ 0, got -1"),
        ("run.wrokers=1", "run.wrokers: unknown key — did you mean 'workers'?"),
        ("run.launcher=3", "run.launcher: expected a string, got 3"),
        ("runs.seed=1", "runs: unknown section — did you mean 'run'?"),
        ("run=3", "run: expected a table, got 3"),
        ("players=3", "players: expected a table, got 3"),
        ("players.main=3", "players.main: expected a table, got 3"),
        ("run.learner_threads=9999", "run.learner_threads: expected a number in [0, 1024], got 9999"),
        ("sampling.fixture_matches=9223372036854775808", "sampling.fixture_matches: expected an integer of at most 64"),
        ("sampling.matches=0", "sampling.matches: expected a number ≥ 1, got 0"),
        ("environment.name=7", "environment.name: expected the name of an installed environment, got 7"),
        ("environment.nmae=7", "environment.nmae: unknown key — did you mean 'name'?"),
        ("players.main.algoritm=algo", "players.main.algoritm: unknown key — did you mean 'algorithm'?"),
        ("players.main.interface=[]", "players.main.interface: unknown key — did you mean 'interfaces'?"),
        ("players.main.nmae=x", "players.main.nmae: unknown key"),
        ("environment.game.widht=7", "environment.game.widht: unknown key — did you mean 'width'?"),
        ("environment.game=7", "environment.game: expected a table, got 7"),
        ("players.main.share=-1", "players.main.share: expected a number ≥ 0, got -1"),
        ("players.main.algo.clip_epsilon=2.0", "players.main.algo.clip_epsilon: expected a number in (0, 1), got 2.0"),
        ("players.main.algo.clip=0.1", "players.main.algo.clip: unknown key — did you mean 'clip_epsilon'?"),
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
    """A single mistake is reported where it is, with what was expected."""
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
    """A component that is not installed is one line with the installed ones and the one that was meant."""
    [problem] = problems(plugins, override)
    assert problem.startswith(f"{where}: no installed plugin provides the ")
    assert f"did you mean {meant!r}?" in problem
    assert "installed: " in problem


@pytest.mark.parametrize(("key", "meant"), [("bto", "bot"), ("pfps", None), ("algi", None)])
def test_only_what_could_stand_there_is_suggested(plugins, key, meant):
    """An anchor has neither matchmakers nor an algorithm."""
    hint = f" — did you mean {meant!r}?" if meant else ""
    found = problems(plugins, "anchors.rock.agent=bot", f"anchors.rock.{key}.clip_epsilon=0.1")
    assert found == [f"anchors.rock.{key}: unknown key{hint}"]


def test_an_option_of_a_component_that_cannot_be_imported(plugins):
    """Whether it has that option cannot be told."""
    lost = Component(name="game", factory="nowhere:f", config="nowhere_at_all:Config")
    report = PluginReport(
        name="p", distribution="p", version="1", status="ok", offers={**OFFERS, "environment": (lost,)}
    )
    assert problems(Plugins([LoadedPlugin(report=report)]), "environment.width=7")[1:] == [
        "environment.width: unknown key"
    ]


def test_component_without_options_refuses_them(plugins):
    """Options of a component that has none are an error."""
    [problem] = problems(plugins, "environment.name=plain", "environment.plain.x=1")
    assert problem == "environment.plain: it has no options"


def test_missing_choices(plugins):
    """Every required choice is asked for, with what is installed."""
    found = problems(plugins, data={"players": {"main": {}}})
    assert found == [
        "environment.name: missing; expected the name of an installed environment (game, plain installed)",
        "players.main.algorithm: missing; expected the name of an installed algorithm (algo, other, same installed)",
        "players.main.matchmaker: missing; expected the name of an installed matchmaker (mix, needy, pfsp installed)",
    ]


def test_no_player(plugins):
    """A run needs a player."""
    assert problems(plugins, data={"environment": {"name": "game"}}) == [
        "players: missing; expected at least one table [players.NAME]"
    ]


@pytest.mark.parametrize("name", ["Main", "a@1", "a b", ""])
def test_bad_player_names(plugins, name):
    """Names of players become parts of model names and must be plain."""
    data = {**MINIMAL, "players": {name: MINIMAL["players"]["main"]}}
    assert problems(plugins, data=data)[0].startswith(f"players.{name}: expected a name of 1 to 64 characters")


def test_one_table_for_two_components(plugins):
    """A table that two chosen components could claim is refused, not guessed."""
    found = problems(
        plugins, "players.main.algorithm=same", "players.main.network=same", "players.main.same.clip_epsilon=0.1"
    )
    assert found == ["players.main.same: ambiguous: both the algorithm and the network chosen here are called 'same'"]


def test_two_components_of_one_name_without_options(plugins):
    """Two components may share a name as long as neither is configured."""
    player = parse(plugins, "players.main.algorithm=same", "players.main.network=same").players["main"]
    assert player.network is not None
    assert player.network.kind == "network"


def test_all_mistakes_at_once(plugins):
    """Mistakes in different sections are all reported."""
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
def test_a_value_of_many_parts_is_cut(plugins, key):
    """A line says what was expected, whatever stands there instead."""
    (found,) = [line for line in problems(plugins, f"{key}={[1] * 5000}") if line.startswith(f"{key}: ")]
    assert found.startswith(f"{key}: expected ")
    assert len(found) < 200


def test_no_line_comes_twice(plugins):
    """A section that is read for several purposes is complained about once."""
    found = problems(plugins, "players=3", "anchors.a.agent=bot", "anchors.b.agent=bot")
    assert found.count("players: expected a table, got 3") == 1


def test_broken_configuration_class_of_a_plugin(plugins):
    """A configuration class that cannot be read is a problem of its component, not a traceback."""
    [problem] = problems(plugins, 'players.main.interfaces=["broken"]')
    assert problem.startswith(f"players.main.interfaces.0: 'broken': its configuration class {MODULE}:BrokenConfig")
    assert "NoSuchType" in problem


def test_configuration_class_that_is_missing():
    """A configuration class that cannot be imported is a problem of its component."""
    lost = Component(name="game", factory="nowhere:f", config="nowhere_at_all:Config")
    report = PluginReport(
        name="p", distribution="p", version="1", status="ok", offers={**OFFERS, "environment": (lost,)}
    )
    [problem] = problems(Plugins([LoadedPlugin(report=report)]))
    assert problem.startswith("environment.name: component 'game': cannot import 'nowhere_at_all:Config'")


def test_clashing_component(plugins):
    """A component that two plugins provide is a problem that says what to block."""
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
def test_a_fixture_has_four_rounds_unless_told(given, matches):
    """Of a table, which has no more rows than there are."""
    assert SamplingSection(**given).matches_per_fixture == matches
