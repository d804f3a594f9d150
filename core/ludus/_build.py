"""From configuration to live objects: every call of a plugin's factory is here.

What a factory raises becomes one line that names the component and the exception, so that a mistake in a plugin never
looks like one of ludus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludus._config import matchmaker_part
from ludus.algorithm import AlgorithmContext
from ludus.errors import ConfigError, ContractError, LudusError, PluginError
from ludus.interface import bind_role, stack

if TYPE_CHECKING:
    from torch import nn

    from ludus._config import Chosen, EvaluationSection, PlayerConfig, RunConfig
    from ludus._plugins import Plugins
    from ludus.agent import Agent
    from ludus.algorithm import Algorithm
    from ludus.environment import Environment, EnvironmentSpec, Role
    from ludus.interface import Interface
    from ludus.launcher import Launcher
    from ludus.matchmaker import Matchmaker
    from ludus.metrics import MetricSink
    from ludus.network import NetworkRequest

__all__ = [
    "learned_role",
    "make_agent",
    "make_algorithm",
    "make_environment",
    "make_evaluation_matchmaker",
    "make_launcher",
    "make_matchmaker",
    "make_sink",
    "player_role",
]


def make_environment(chosen: Chosen, num_matches: int) -> Environment:
    """Make an environment of `num_matches` matches.

    Raises:
        PluginError: Its factory raised.
        ContractError: It has another number of matches.
    """
    environment: Environment = _make(chosen, num_matches=num_matches)
    with _blamed(chosen):
        if environment.num_matches != num_matches:
            raise ContractError(f"has {environment.num_matches} matches, expected {num_matches}")
    return environment


def make_agent(chosen: Chosen, spec: EnvironmentSpec, role: str) -> Agent:
    """Make a scripted agent for a role.

    Raises:
        ConfigError: It does not play this environment.
        PluginError: Its factory raised.
    """
    plays = chosen.component.environments
    if plays and spec.name not in plays:
        raise ConfigError(f"agent {chosen.name!r} plays {', '.join(plays)}, not {spec.name}")
    agent: Agent = _make(chosen, spec=spec, role=role)
    return agent


def learned_role(player: PlayerConfig, spec: EnvironmentSpec) -> Role:
    """Return the environment's role that a player learns.

    Raises:
        ConfigError: There is no such role, or several and the player names none.
    """
    names = ", ".join(role.name for role in spec.roles)
    if not player.role and len(spec.roles) > 1:
        raise ConfigError(f"players.{player.name}.role: missing; expected one of {names}")
    for role in spec.roles:
        if player.role in ("", role.name):
            return role
    raise ConfigError(f"players.{player.name}.role: expected one of {names}, got {player.role!r}")


def player_role(player: PlayerConfig, role: Role) -> tuple[Role, Interface | None]:
    """Put a player's interfaces before a role.

    Args:
        player: Whose.
        role: The role as the environment declares it.

    Returns:
        The role as the player sees it, and the bound interface; None where it has none.

    Raises:
        PluginError: A factory or `bind` raised.
        ContractError: An interface cannot work on these spaces.
    """
    if not player.interfaces:
        return role, None
    interface = stack(*(_make(chosen) for chosen in player.interfaces))
    with _blamed(*player.interfaces):
        return bind_role(role, interface), interface


def make_algorithm(player: PlayerConfig, role: Role) -> Algorithm:
    """Make a player's algorithm.

    Args:
        player: Whose.
        role: The role as the player sees it, from `player_role`.

    Raises:
        PluginError: Its factory raised.
    """

    def build_network(request: NetworkRequest) -> nn.Module:
        if player.network is None:
            raise ConfigError(
                f"players.{player.name}.network: missing; the algorithm {player.algorithm.name!r} needs a network"
            )
        network: nn.Module = _make(player.network, request=request)
        return network

    context = AlgorithmContext(role=role, build_network=build_network)
    algorithm: Algorithm = _make(player.algorithm, context=context)
    return algorithm


def make_matchmaker(plugins: Plugins, section: PlayerConfig | EvaluationSection) -> Matchmaker:
    """Make the matchmaker chosen in a section, with the parts it asks for.

    Raises:
        ConfigError: A part is not installed, lacks an option, or contains itself.
        PluginError: A factory raised.
    """
    if section.matchmaker is None:
        raise ConfigError("evaluation.matchmaker: missing")

    def make(name: str, path: tuple[str, ...]) -> Matchmaker:
        if name in path:
            raise ConfigError(f"matchmaker {' → '.join((*path, name))}: contains itself")
        build: Callable[[str], Matchmaker] = lambda part: make(part, (*path, name))  # noqa: E731
        matchmaker: Matchmaker = _make(matchmaker_part(section, plugins, name), build=build)
        return matchmaker

    return make(section.matchmaker.name, ())


def make_evaluation_matchmaker(plugins: Plugins, config: RunConfig) -> Matchmaker:
    """Make the matchmaker that chooses rating matches: the one configured, or that of the first player.

    Raises:
        ConfigError: As `make_matchmaker`.
        PluginError: A factory raised.
    """
    first = next(iter(config.players.values()))
    return make_matchmaker(plugins, first if config.evaluation.matchmaker is None else config.evaluation)


def make_sink(chosen: Chosen, run_dir: Path) -> MetricSink:
    """Make a metric sink that may write below `run_dir`.

    Raises:
        PluginError: Its factory raised.
    """
    sink: MetricSink = _make(chosen, run_dir=run_dir)
    return sink


def make_launcher(chosen: Chosen) -> Launcher:
    """Make a launcher.

    Raises:
        PluginError: Its factory raised.
    """
    launcher: Launcher = _make(chosen)
    return launcher


def _make(chosen: Chosen, **arguments: object) -> Any:
    factory = chosen.component.load_factory()
    with _blamed(chosen):
        return factory(chosen.config, **arguments)


@contextmanager
def _blamed(*chosen: Chosen) -> Iterator[None]:
    """Turn what plugin code raises into an error that names the component."""
    who = f"{chosen[0].kind} {', '.join(repr(one.name) for one in chosen)}"
    try:
        yield
    except ContractError as error:
        raise ContractError(f"{who}: {error}") from error
    except LudusError:
        raise
    except Exception as error:
        raise PluginError(f"{who} failed: {type(error).__name__}: {error} — LUDUS_DEBUG=1 shows where") from error
