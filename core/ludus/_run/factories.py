"""From configuration to live objects: every call of a plugin's factory is here.

What a factory raises becomes one line that names the component and the exception, so that a mistake in a plugin never
looks like one of ludus.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ludus._config.run_config import EvaluationSection, PlayerConfig, RunConfig, matchmaker_part, part_key, section_path
from ludus._config.sections import Chosen
from ludus._plugins.error_wrapping import wrap_errors
from ludus._plugins.manager import Plugins
from ludus.agent import Agent
from ludus.algorithm import Algorithm, AlgorithmContext
from ludus.environment import Environment, EnvironmentSpec, Role
from ludus.errors import ConfigError, ContractError, UnsupportedNetwork
from ludus.inference import Eager, Inference
from ludus.interface import Interface, bind_role, stack
from ludus.launcher import Worker
from ludus.matchmaker import Matchmaker
from ludus.network import NetworkRequest
from ludus.service import Network, ServiceContext, ServiceEndpoint

if TYPE_CHECKING:
    from torch import nn

_log = logging.getLogger("ludus.inference")


def make_environment(chosen: Chosen, num_matches: int) -> Environment:
    """Make an environment of `num_matches` matches.

    Raises:
        PluginError: Its factory raised.
        ContractError: It has another number of matches.
    """
    environment: Environment = make(chosen, num_matches=num_matches)
    with wrap_errors(_named(chosen)):
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
    agent: Agent = make(chosen, spec=spec, role=role)
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
    interface = stack(*(make(chosen) for chosen in player.interfaces))
    with wrap_errors(_named(*player.interfaces)):
        return bind_role(role, interface), interface


def make_algorithm(
    player: PlayerConfig,
    role: Role,
    *,
    runtime: Chosen | None = None,
    site: ServiceEndpoint | None = None,
) -> Algorithm:
    """Make a player's algorithm.

    Args:
        player: Whose.
        role: The role as the player sees it, from `player_role`.
        runtime: What its policies run networks by; torch where None.
        site: Where they run, for a runtime with a service; without, it does without the service.

    Raises:
        PluginError: Its factory raised.
    """
    build_inference = partial(make_inference, runtime, site=site)
    return _algorithm(player, role, build_inference)


def make_networks(player: PlayerConfig, role: Role) -> list[Network]:
    """Make the networks that a policy of a player runs, in the order in which it asks for runtimes.

    Raises:
        PluginError: A factory raised.
        ContractError: What it made is no module.
    """
    made: list[Network] = []

    def keep(module: nn.Module, request: NetworkRequest) -> Inference:
        if not hasattr(module, "state_dict"):
            who = _named(player.network or player.algorithm)
            raise ContractError(f"{who}: expected a torch.nn.Module as the network, got {module!r:.200}")
        made.append(Network(module, request))
        return Eager(module, request)

    _algorithm(player, role, keep).make_policy()
    return made


def _algorithm(
    player: PlayerConfig, role: Role, build_inference: Callable[[nn.Module, NetworkRequest], Inference]
) -> Algorithm:
    def build_network(request: NetworkRequest) -> nn.Module:
        if player.network is None:
            raise ConfigError(
                f"players.{player.name}.network: missing; the algorithm {player.algorithm.name!r} needs a network"
            )
        try:
            network: nn.Module = make(player.network, request=request)
        except ConfigError as error:  # its lines begin with the option
            table = f"players.{player.name}.{player.network.name}"
            raise ConfigError(*(f"{table}.{problem}" for problem in error.problems)) from error
        return network

    context = AlgorithmContext(role=role, build_network=build_network, build_inference=build_inference)
    algorithm: Algorithm = make(player.algorithm, context=context)
    return algorithm


def make_inference(
    chosen: Chosen | None,
    module: nn.Module,
    request: NetworkRequest,
    *,
    site: ServiceEndpoint | None = None,
) -> Inference:
    """Make a runtime for a network: the one chosen if it can run the network, else torch.

    A component with a service is told where it runs, if there is a service.

    Raises:
        PluginError: Its factory raised anything but `UnsupportedNetwork`.
    """
    if chosen is not None:
        try:
            where = {} if chosen.component.service is None else {"site": site}
            inference: Inference = make(chosen, module=module, request=request, **where)
        except UnsupportedNetwork as error:
            _log.info("inference %r cannot run this network (%s); torch runs it", chosen.name, error)
        else:
            return inference
    return Eager(module, request)


def make_service(chosen: Chosen, context: ServiceContext) -> Worker:
    """Make the service of an inference component that has one.

    Raises:
        PluginError: It raised.
    """
    factory = chosen.component.load_service()
    assert factory is not None
    with wrap_errors(_named(chosen)):
        service: Worker = factory(chosen.config, context=context)
    return service


def make_matchmaker(plugins: Plugins, section: PlayerConfig | EvaluationSection) -> Matchmaker:
    """Make the matchmaker chosen in a section, with the parts it asks for.

    Raises:
        ConfigError: A part is not installed, lacks an option, or contains itself; or there are options for another one.
        PluginError: A factory raised.
    """
    if section.matchmaker is None:
        raise ConfigError("evaluation.matchmaker: missing")
    unused, where = dict(section.parts), ".".join(section_path(section))

    def made(chosen: Chosen, path: tuple[str, ...]) -> Matchmaker:
        path = (*path, chosen.name)

        def build(name: str) -> Matchmaker:
            if name in path:
                key = ".".join(map(str, part_key(chosen, name)))
                raise ConfigError(f"{where}.{key}: {' → '.join((*path, name))} contains itself")
            unused.pop(name, None)
            return made(matchmaker_part(section, plugins, name, of=chosen), path)

        matchmaker: Matchmaker = make(chosen, build=build)
        return matchmaker

    matchmaker = made(section.matchmaker, ())
    if unused:
        text = (
            f"is neither chosen in this section nor a part of {section.matchmaker.name!r} — remove the table, or use it"
        )
        raise ConfigError(*(f"{where}.{name}: unknown key: the matchmaker {name!r} {text}" for name in unused))
    return matchmaker


def make_evaluation_matchmaker(plugins: Plugins, config: RunConfig) -> Matchmaker | None:
    """Make the matchmaker that chooses rating matches: the one configured, or that of the first player.

    Returns:
        None where no rating matches are played.

    Raises:
        ConfigError: As `make_matchmaker`.
        PluginError: A factory raised.
    """
    first = next(iter(config.players.values()))
    section = first if config.evaluation.matchmaker is None else config.evaluation
    return make_matchmaker(plugins, section) if config.evaluation.enabled else None


def make(chosen: Chosen, **arguments: object) -> Any:
    """Make a component whose factory needs nothing but these arguments.

    Raises:
        PluginError: Its factory raised.
        ContractError: Its factory returned None.
    """
    factory = chosen.component.load_factory()
    with wrap_errors(_named(chosen)):
        made = factory(chosen.config, **arguments)
        if made is None:
            raise ContractError("its factory returned None — does it end without a return?")
        return made


def _named(*chosen: Chosen) -> str:
    return f"{chosen[0].kind} {', '.join(repr(one.name) for one in chosen)}"
