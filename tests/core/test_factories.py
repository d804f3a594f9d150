"""From configuration to live objects, with plugin mistakes named."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import attrs
import numpy as np
import pytest
from attrs import evolve, frozen
from gymnasium import spaces
from ludus._config.run_config import parse_config
from ludus._config.toml import apply_overrides
from ludus._plugins.error_wrapping import close_environment
from ludus._plugins.loading import LoadedPlugin, PluginReport
from ludus._plugins.manager import Plugins
from ludus._run.factories import (
    learned_role,
    make,
    make_agent,
    make_algorithm,
    make_environment,
    make_evaluation_matchmaker,
    make_matchmaker,
    make_networks,
    player_role,
)
from ludus.component import Component
from ludus.environment import EnvironmentSpec, Role
from ludus.errors import ConfigError, ContractError, ModelError, PluginError
from ludus.interface import Identity, SeatView, Spaces
from ludus.network import NetworkRequest
from ludus.option import option

MODULE = "ludus_test_build_components"

ROLE = Role(name="player", observation_space=spaces.Box(0, 1, (3,)), action_space=spaces.Discrete(4), teams=(0, 1))
SPEC = EnvironmentSpec(name="game", roles=(ROLE,), turn="turn-based")
TWO_ROLES = EnvironmentSpec(
    name="game",
    roles=tuple(
        Role(name=name, observation_space=ROLE.observation_space, action_space=ROLE.action_space, teams=(team,))
        for team, name in enumerate(("cat", "mouse"))
    ),
    turn="simultaneous",
)


@frozen(kw_only=True)
class MixConfig:
    parts: list[str] = option([], help="Names of parts.")


class Made:
    """Remembers what it was made with."""

    def __init__(self, config, **arguments):
        self.config, self.arguments = config, arguments
        self.num_matches = arguments.get("num_matches")


class Mix(Made):
    def __init__(self, config, *, build):
        super().__init__(config)
        self.parts = [build(part) for part in config.parts]


@frozen(kw_only=True)
class WeightedConfig:
    label: str = option("none", help="What it is called.")
    weights: dict[str, float] = option({}, help="Of parts.")


class Weighted(Made):
    def __init__(self, config, *, build):
        super().__init__(config)
        self.parts = [build(part) for part in config.weights]


def fixed(config, *, build):
    """Make a matchmaker with a part that no option names."""
    return build("ghost")


class WrongSize(Made):
    num_matches = 3

    def __init__(self, config, **arguments):
        pass


class Configured(Identity):
    def __init__(self, config):
        assert config is None


class Fading(Identity):
    """An interface that fades a part itself: not at all here."""

    faded_parts = ("near",)

    def __init__(self, config):
        pass


class Double(Configured):
    """Shows every observation twice."""

    def bind(self, raw):
        return Spaces(spaces.Box(0, 1, (2 * raw.observation.shape[0],)), raw.action)


class Refusing(Configured):
    def bind(self, raw):
        raise ContractError("it needs images")


class Crashing(Configured):
    def bind(self, raw):
        raise KeyError("oops")


def crash(config, **arguments):
    """Raise an exception that is not one of ludus."""
    raise ZeroDivisionError("division by zero")


def reject(config, **arguments):
    """Raise a ContractError."""
    raise ContractError("no such board")


def lack(config, **arguments):
    """Raise another error of ludus."""
    raise ModelError("weights are missing")


def component(name, factory, config=None, **kwargs):
    """Return a component of a factory of this module."""
    path = None if config is None else f"{MODULE}:{config.__name__}"
    return Component(name=name, factory=f"{MODULE}:{factory.__name__}", config=path, **kwargs)


OFFERS = {
    "environment": tuple(
        component(name, factory)
        for name, factory in {"game": Made, "odd": WrongSize, "crash": crash, "reject": reject, "lack": lack}.items()
    ),
    "algorithm": (component("algo", Made),),
    "network": (component("net", Made),),
    "matchmaker": (
        component("mix", Mix, MixConfig),
        *(component(name, Mix, MixConfig) for name in ("other", "third")),
        component("weighted", Weighted, WeightedConfig),
        component("fixed", fixed),
        component("leaf", Made),
    ),
    "interface": (
        component("double", Double),
        component("fading", Fading),
        component("refusing", Refusing),
        component("crashing", Crashing),
        component("unmade", crash),
    ),
    "agent": (component("bot", Made), component("stranger", Made, environments=("chess",))),
    "launcher": (component("local", Made),),
    "rating": (component("elo", Made),),
    "metric-sink": (component("console", Made),),
}


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    module = ModuleType(MODULE)
    for thing in (
        Made,
        Mix,
        MixConfig,
        Weighted,
        WeightedConfig,
        fixed,
        WrongSize,
        Double,
        Fading,
        Refusing,
        Crashing,
        crash,
        reject,
        lack,
    ):
        setattr(module, thing.__name__, thing)
    monkeypatch.setitem(sys.modules, MODULE, module)


@pytest.fixture
def plugins():
    """Return plugins with all components above."""
    report = PluginReport(name="all", distribution="ludus-all", version="1", status="ok", offers=OFFERS)
    return Plugins([LoadedPlugin(report=report)])


@pytest.fixture
def configure(plugins):
    """Return a function that parses a small configuration with overrides."""

    def parse(*overrides):
        data = {"environment": {"name": "game"}, "players": {"main": {"algorithm": "algo", "matchmaker": "mix"}}}
        return parse_config(apply_overrides(data, overrides), source="run.toml", plugins=plugins)

    return parse


def test_environment(configure):
    """The number of matches is passed to the factory."""
    assert make_environment(configure().environment, 5).num_matches == 5


def test_environment_of_another_size(configure):
    """A wrong number of matches is an error that names the environment."""
    with pytest.raises(ContractError, match="environment 'odd': has 3 matches, expected 5"):
        make_environment(configure("environment.name=odd").environment, 5)


def test_exception_of_a_factory(configure):
    """It becomes one line with component, exception and message."""
    with pytest.raises(PluginError, match="environment 'crash' failed: ZeroDivisionError: division by zero") as error:
        make_environment(configure("environment.name=crash").environment, 5)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


class PanicException(BaseException):
    """What a panic in Rust becomes."""


@pytest.fixture
def failing(configure, monkeypatch):
    """Return a function that makes an algorithm whose factory raises."""

    def make(error):
        def factory(*_args, **_more):
            raise error

        monkeypatch.setattr(Component, "load_factory", lambda _: factory)
        return make_algorithm(configure().players["main"], ROLE)

    return make


@pytest.mark.parametrize("error", [SystemExit(0), PanicException("at lib.rs:3")], ids=repr)
def test_exit_of_a_factory_is_wrapped(failing, error):
    """SystemExit and panics of Rust code become a PluginError."""
    told = f"algorithm 'algo' failed: {type(error).__name__}: {error} — LUDUS_DEBUG=1 shows where"
    with pytest.raises(PluginError, match=f"^{told}$"):
        failing(error)


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_keyboard_interrupt_in_a_factory_is_raised(failing, error):
    """It is not an error of the factory."""
    with pytest.raises(error):
        failing(error)


def test_exit_of_a_closing_environment_is_wrapped():
    """The error names the environment."""
    environment = SimpleNamespace(spec=SimpleNamespace(name="board"), close=lambda: sys.exit(0))
    with pytest.raises(PluginError, match=r"^environment 'board' failed: SystemExit: 0 "):
        close_environment(environment)


def test_contract_error_in_a_factory_names_the_component(configure):
    """The name is a prefix of the message."""
    with pytest.raises(ContractError, match=r"^environment 'reject': no such board$"):
        make_environment(configure("environment.name=reject").environment, 5)


def test_other_errors_of_ludus_are_raised(configure):
    """They are not wrapped."""
    with pytest.raises(ModelError, match=r"^weights are missing$"):
        make_environment(configure("environment.name=lack").environment, 5)


def test_agent(configure):
    """The specification and the role are passed to the factory."""
    agent = make_agent(configure("anchors.a.agent=bot").anchors["a"].agent, SPEC, "player")
    assert agent.arguments == {"spec": SPEC, "role": "player"}


def test_agent_for_another_environment(configure, plugins):
    """An agent of another environment is an error."""
    chosen = configure("anchors.a.agent=bot").anchors["a"].agent
    stranger = plugins.get("agent", "stranger")
    chosen = type(chosen)(kind="agent", name="stranger", config=None, component=stranger)
    with pytest.raises(ConfigError, match="agent 'stranger' plays chess, not game"):
        make_agent(chosen, SPEC, "player")


def test_learned_role_defaults_to_the_only_one(configure):
    """The role of a symmetric game may be omitted."""
    assert learned_role(configure().players["main"], SPEC) is ROLE


def test_learned_role_by_name(configure):
    """The role is that of the player's option."""
    assert learned_role(configure("players.main.role=mouse").players["main"], TWO_ROLES).name == "mouse"


@pytest.mark.parametrize(
    ("overrides", "spec", "problem"),
    [
        ((), TWO_ROLES, "players.main.role: missing; expected one of cat, mouse"),
        (("players.main.role=dog",), TWO_ROLES, "players.main.role: expected one of cat, mouse, got 'dog'"),
        (("players.main.role=dog",), SPEC, "players.main.role: expected one of player, got 'dog'"),
        (
            ("players.main.role=dog",),
            evolve(SPEC, roles=(evolve(ROLE, seat_names=("a_0", "d_0")),)),
            "players.main.role: expected one of player, got 'dog'; the option roles of game assigns a_0, d_0 to roles",
        ),
    ],
)
def test_learned_role_wrong(configure, overrides, spec, problem):
    """A missing or unknown role is an error that lists the roles."""
    with pytest.raises(ConfigError) as error:
        learned_role(configure(*overrides).players["main"], spec)
    assert error.value.problems == (problem,)


def test_player_without_interfaces_sees_the_role(configure):
    """The role is unchanged."""
    assert player_role(configure().players["main"], SPEC) == (ROLE, None)


def test_player_with_interfaces(configure):
    """Interfaces transform the spaces in order."""
    player = configure('players.main.interfaces=["double", "double"]').players["main"]
    role, interface = player_role(player, SPEC)
    assert role.observation_space.shape == (12,)
    assert (role.name, role.teams) == (ROLE.name, ROLE.teams)
    assert interface is not None
    np.testing.assert_array_equal(interface.act(np.array([[2]]), np.array([0])), [[2]])


def test_guidance_of_the_role_fades_by_default(configure):
    """Without interfaces, and below them; parts that an interface fades itself are left to it."""
    spec = attrs.evolve(SPEC, roles=(attrs.evolve(ROLE, guidance=("near", "lift")),))
    parts = {"near": np.ones(1, np.float32), "lift": np.full(1, 2, np.float32)}
    view = SeatView(observation={}, action_mask=None, reward=np.full(1, 3, np.float32), reward_parts=parts)

    def faded(*overrides):
        role, interface = player_role(configure(*overrides).players["main"], spec)
        assert role.guidance == ("near", "lift")
        interface.set_progress(0.5)
        return interface.observe(view, np.arange(1)).reward.tolist()

    assert faded() == [1.5]
    assert faded('players.main.interfaces=["fading"]') == [2.0]


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("refusing", ContractError, "interface 'refusing': role 'player': it needs images"),
        ("crashing", PluginError, "interface 'crashing' failed: KeyError: 'oops'"),
        ("unmade", PluginError, "interface 'unmade' failed: ZeroDivisionError"),
    ],
)
def test_interface_that_fails(configure, name, kind, problem):
    """The error of a factory or of `bind` names the interface."""
    player = configure(f'players.main.interfaces=["{name}"]').players["main"]
    with pytest.raises(kind, match=problem):
        player_role(player, SPEC)


def test_algorithm_gets_role_and_network(configure):
    """The context can build the network of the player."""
    algorithm = make_algorithm(configure("players.main.network=net").players["main"], ROLE)
    context = algorithm.arguments["context"]
    request = NetworkRequest(observation={}, heads={})
    assert context.role is ROLE
    assert context.build_network(request).arguments == {"request": request}


def test_config_error_of_a_network_has_the_path_of_the_option(configure, monkeypatch):
    """The factory names the option only."""

    def refuse(_config, *, request):
        raise ConfigError("units: expected more")

    player = configure("players.main.network=net").players["main"]
    context = make_algorithm(player, ROLE).arguments["context"]
    monkeypatch.setattr(Component, "load_factory", lambda _: refuse)
    with pytest.raises(ConfigError, match=r"^players\.main\.net\.units: expected more$"):
        context.build_network(NetworkRequest(observation={}, heads={}))


def test_network_must_be_a_module(configure, monkeypatch):
    """The error names the network and the returned object."""

    class Asking(Made):
        def make_policy(self):
            context, request = self.arguments["context"], NetworkRequest(observation={}, heads={})
            context.build_inference(context.build_network(request), request)

    player = configure("players.main.network=net").players["main"]
    factories = {"algo": Asking, "net": lambda _config, *, request: "no"}
    monkeypatch.setattr(Component, "load_factory", lambda self: factories[self.name])
    with pytest.raises(ContractError, match=r"^network 'net': expected a torch\.nn\.Module as the network, got 'no'$"):
        make_networks(player, ROLE)


def test_factory_that_returns_none(configure, monkeypatch):
    """The error names the component."""
    player = configure().players["main"]
    monkeypatch.setattr(Component, "load_factory", lambda _: lambda *_args, **_more: None)
    with pytest.raises(ContractError, match=r"^algorithm 'algo': its factory returned None"):
        make_algorithm(player, ROLE)


def test_algorithm_without_network(configure):
    """An algorithm that needs a network raises a ConfigError."""
    algorithm = make_algorithm(configure().players["main"], ROLE)
    with pytest.raises(ConfigError, match=r"players\.main\.network: missing; the algorithm 'algo' needs a network"):
        algorithm.arguments["context"].build_network(NetworkRequest(observation={}, heads={}))


def test_matchmaker_with_parts(configure, plugins):
    """A mixture builds its parts with the options of the player's section."""
    player = configure('players.main.mix.parts=["other", "leaf"]', 'players.main.other.parts=["leaf"]').players["main"]
    mix = make_matchmaker(plugins, player)
    assert [type(part) for part in mix.parts] == [Mix, Made]
    assert [type(part) for part in mix.parts[0].parts] == [Made]


def test_options_of_a_part_of_a_part(configure, plugins):
    """They are in the player's section too."""
    parts = ("mix.parts=['other']", "other.parts=['third']", "third.parts=['leaf']")
    player = configure(*(f"players.main.{part}" for part in parts)).players["main"]
    mix = make_matchmaker(plugins, player)
    assert mix.parts[0].parts[0].config == MixConfig(parts=["leaf"])


@pytest.mark.parametrize(
    ("overrides", "cycle"),
    [
        (['players.main.mix.parts=["mix"]'], "mix → mix"),
        (['players.main.mix.parts=["other"]', 'players.main.other.parts=["mix"]'], "mix → other → mix"),
    ],
)
def test_matchmaker_that_contains_itself(configure, plugins, overrides, cycle):
    """The cycle is an error."""
    with pytest.raises(ConfigError, match=rf"^players\.main\.\w+\.parts\.0: {cycle} contains itself$"):
        make_matchmaker(plugins, configure(*overrides).players["main"])


@pytest.mark.parametrize("where", ["players.main", "evaluation"])
def test_matchmaker_part_that_is_named_by_a_key(configure, plugins, where):
    """The error names the key of the option, in sections of players and of the evaluation."""
    config = configure(f"{where}.matchmaker=weighted", f"{where}.weighted.weights={{leaf=1.0, nobody=2.0}}")
    section = config.evaluation if where == "evaluation" else config.players["main"]
    with pytest.raises(ConfigError, match=rf"^{where}\.weighted\.weights\.nobody: no installed plugin provides the"):
        make_matchmaker(plugins, section)


def test_matchmaker_part_that_no_option_names(configure, plugins):
    """The error names the part."""
    with pytest.raises(
        ConfigError, match=r"^players\.main\.ghost: no installed plugin provides the matchmaker 'ghost'"
    ):
        make_matchmaker(plugins, configure("players.main.matchmaker=fixed").players["main"])


def test_matchmaker_part_that_is_not_installed(configure, plugins):
    """The error names the option of the mixture."""
    with pytest.raises(
        ConfigError, match=r"^players\.main\.mix\.parts\.0: no installed plugin provides the matchmaker 'nobody'"
    ):
        make_matchmaker(plugins, configure('players.main.mix.parts=["nobody"]').players["main"])


@pytest.mark.parametrize("parts", [[], ["leaf"]])
def test_options_of_a_matchmaker_that_is_no_part(configure, plugins, parts):
    """Unused options are an error."""
    player = configure(f"players.main.mix.parts={parts}", 'players.main.other.parts=["leaf"]').players["main"]
    with pytest.raises(ConfigError) as error:
        make_matchmaker(plugins, player)
    [problem] = error.value.problems
    text = "the matchmaker 'other' is neither chosen in this section nor a part of 'mix' — remove the table, or use it"
    assert problem == f"players.main.other: unknown key: {text}"


def test_evaluation_uses_the_first_players_matchmaker(configure, plugins):
    """It is the default."""
    config = configure('players.main.mix.parts=["leaf"]')
    assert make_evaluation_matchmaker(plugins, config).config == MixConfig(parts=["leaf"])


def test_evaluation_with_its_own_matchmaker(configure, plugins):
    """Its section has options of its own."""
    config = configure("evaluation.matchmaker=other", 'evaluation.other.parts=["leaf"]')
    assert make_evaluation_matchmaker(plugins, config).config == MixConfig(parts=["leaf"])


def test_evaluation_section_without_matchmaker(configure, plugins):
    """Making its matchmaker is an error."""
    with pytest.raises(ConfigError, match=r"evaluation\.matchmaker: missing"):
        make_matchmaker(plugins, configure().evaluation)


def test_rating(configure):
    """Anchors, seats and sides are passed to the factory."""
    made = make(configure().league.rating, anchors=("a",), seats=(), sides={})
    assert made.arguments == {"anchors": ("a",), "seats": (), "sides": {}}


def test_sink_and_launcher(configure, tmp_path):
    """The run folder is passed to a sink, and only options to a launcher."""
    config = configure('metrics.sinks=["console"]')
    assert make(config.metrics.sinks[0], run_dir=tmp_path).arguments == {"run_dir": tmp_path}
    assert config.launcher is not None
    assert make(config.launcher).arguments == {}
