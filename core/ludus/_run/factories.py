"""Make components from the configuration; every call of a plugin's factory is in this module.

An exception of a factory is wrapped in an error that names the component.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ludus._config.section_reader import SelectedComponent
from ludus._config.sections import (
    AnchorConfig,
    EvaluationSection,
    PlayerConfig,
    RunConfig,
    part_key,
    section_path,
    select_matchmaker_part,
)
from ludus._plugins.error_wrapping import wrap_errors
from ludus._plugins.manager import Plugins
from ludus.activity import MAKING_GAMES, report_activity
from ludus.agent import Agent, BuiltinAgent
from ludus.algorithm import Algorithm, AlgorithmContext
from ludus.environment import Environment, EnvironmentSpec, Role
from ludus.errors import ConfigError, ContractError, LudusError, UnsupportedNetwork
from ludus.inference import Eager, Inference
from ludus.interface import FadingGuidance, Interface, bind_role, bind_spec, faded_parts, stack, wrap_agent
from ludus.launcher import Worker
from ludus.matchmaker import Matchmaker
from ludus.network import NetworkRequest
from ludus.service import Network, ServiceContext, ServiceEndpoint

if TYPE_CHECKING:
    from torch import nn

_log = logging.getLogger("ludus.inference")


def make_environment(selected: SelectedComponent, num_matches: int) -> Environment:
    """Make an environment of `num_matches` matches.

    Raises:
        PluginError: The factory raised.
        ContractError: The environment has another number of matches.
    """
    report_activity(MAKING_GAMES, 0, num_matches)
    environment: Environment = make(selected, num_matches=num_matches)
    with wrap_errors(_describe(selected)):
        if environment.num_matches != num_matches:
            raise ContractError(f"has {environment.num_matches} matches, expected {num_matches}")
    return environment


def make_agent(selected: SelectedComponent, spec: EnvironmentSpec, role: str) -> Agent:
    """Make a scripted agent for a role.

    Raises:
        ConfigError: The agent does not play this environment.
        PluginError: The factory raised.
    """
    plays = selected.component.environments
    if plays and spec.name not in plays:
        raise ConfigError(f"agent {selected.name!r} plays {', '.join(plays)}, not {spec.name}")
    agent: Agent = make(selected, spec=spec, role=role)
    return agent


def learned_role(player: PlayerConfig, spec: EnvironmentSpec) -> Role:
    """Return the environment's role that a player learns.

    Raises:
        ConfigError: The role does not exist, or the player names none of several.
    """
    names = ", ".join(role.name for role in spec.roles)
    if not player.role and len(spec.roles) > 1:
        raise ConfigError(f"players.{player.name}.role: missing; expected one of {names}")
    for role in spec.roles:
        if player.role in ("", role.name):
            return role
    seats = ", ".join(name for role in spec.roles for name in role.seat_names)
    hint = f"; the option roles of {spec.name} assigns {seats} to roles" if seats else ""
    raise ConfigError(f"players.{player.name}.role: expected one of {names}, got {player.role!r}{hint}")


def player_role(player: PlayerConfig, spec: EnvironmentSpec) -> tuple[Role, Interface | None]:
    """Bind a player's interfaces to the role that it learns.

    Returns:
        The role as the player observes it, and the bound interface; None without interfaces and guidance.

    Raises:
        ConfigError: The player's role is missing or wrong.
        PluginError: A factory or `bind` raised.
        ContractError: An interface cannot work on these spaces.
    """
    role = learned_role(player, spec)
    if not player.interfaces and not role.guidance:
        return role, None
    interface = make_interfaces(player.interfaces, f"players.{player.name}.")
    if guidance := [part for part in role.guidance if part not in faded_parts(interface)]:
        interface = stack(FadingGuidance(guidance), interface)
    with wrap_errors(_describe(*player.interfaces) if player.interfaces else f"role {role.name!r}"):
        return bind_role(role, interface), interface


def make_interfaces(selected: Sequence[SelectedComponent], table: str = "") -> Interface:
    """Make interfaces and return their stack.

    Args:
        selected: The interfaces, innermost first.
        table: Prefix of their tables in the configuration, for messages.

    Raises:
        ConfigError: An option is wrong; the message has its path.
        PluginError: A factory raised.
    """
    interfaces = []
    for component in selected:
        try:
            interfaces.append(make(component))
        except ConfigError as error:
            raise ConfigError(*(f"{table}{component.name}.{problem}" for problem in error.problems)) from error
    return stack(*interfaces)


def make_wrapped_agent(
    agent: SelectedComponent, interfaces: Sequence[SelectedComponent], spec: EnvironmentSpec, role: str, table: str = ""
) -> Agent:
    """Make a scripted agent behind interfaces, which plays the environment of `spec`.

    Args:
        agent: The agent, which is made for the role behind the interfaces.
        interfaces: The interfaces, innermost first; empty: none.
        spec: Specification of the environment.
        role: Role that it plays.
        table: Prefix of the tables of the components in the configuration, for messages.

    Raises:
        ConfigError: The agent does not play this environment, an option is wrong, or a built-in bot has interfaces.
        ContractError: An interface cannot work on these spaces.
        PluginError: A factory raised.
    """
    if not interfaces:
        return make_agent(agent, spec, role)
    interface = make_interfaces(interfaces, table)
    with wrap_errors(_describe(*interfaces)):
        inner = bind_spec(spec, role, interface)
    inner_agent = make_agent(agent, inner, role)
    if isinstance(inner_agent, BuiltinAgent):
        names = ", ".join(repr(component.name) for component in interfaces)
        raise ConfigError(f"{table}interfaces: expected none, as the environment plays its built-in bots, got {names}")
    return wrap_agent(inner_agent, interface)


def anchor_roles(anchor: AnchorConfig, spec: EnvironmentSpec) -> list[str]:
    """Return the roles that an anchor plays: those for which its agent can be made.

    Raises:
        LudusError: It plays no role; the error of the first one.
    """
    roles, refusals = [], []
    for role in spec.roles:
        try:
            make_wrapped_agent(anchor.agent, anchor.interfaces, spec, role.name, f"anchors.{anchor.name}.")
        except LudusError as error:
            refusals.append(error)
        else:
            roles.append(role.name)
    if not roles:
        raise refusals[0]
    return roles


def make_algorithm(
    player: PlayerConfig, role: Role, *, runtime: SelectedComponent | None = None, site: ServiceEndpoint | None = None
) -> Algorithm:
    """Make a player's algorithm.

    Args:
        player: Configuration of the player.
        role: The role as the player observes it, from `player_role`.
        runtime: Inference runtime of its policies; None for torch.
        site: Endpoint of the runtime's service; None to run networks in this process.

    Raises:
        PluginError: The factory raised.
    """
    build_inference = partial(make_inference, runtime, site=site)
    return _algorithm(player, role, build_inference)


def count_weights(player: PlayerConfig, role: Role) -> int:
    """Return how many weights the network of a player has, without allocating them; 0 if that is not possible.

    Args:
        player: Configuration of the player.
        role: The role as the player observes it, from `player_role`.
    """
    import torch  # noqa: PLC0415 - takes seconds

    counts: list[int] = []
    if player.network is None:
        return 0

    def count(request: NetworkRequest) -> nn.Module:
        assert player.network is not None
        network: nn.Module = make(player.network, request=request)
        counts.append(sum(parameter.numel() for parameter in network.parameters()))
        return network

    context = AlgorithmContext(role=role, build_network=count, build_inference=Eager)
    with suppress(Exception), torch.device("meta"):  # tensors without values, which most policies read in the end
        make(player.algorithm, context=context).make_policy()
    return sum(counts)


def make_networks(player: PlayerConfig, role: Role) -> list[Network]:
    """Make the networks that a policy of a player runs, in the order in which it requests runtimes.

    Raises:
        PluginError: A factory raised.
        ContractError: A network is not a torch module.
    """
    networks: list[Network] = []

    def record_network(module: nn.Module, request: NetworkRequest) -> Inference:
        if not hasattr(module, "state_dict"):
            component = _describe(player.network or player.algorithm)
            raise ContractError(f"{component}: expected a torch.nn.Module as the network, got {module!r:.200}")
        networks.append(Network(module, request))
        return Eager(module, request)

    _algorithm(player, role, record_network).make_policy()
    return networks


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
        except ConfigError as error:  # every line starts with the name of an option
            table = f"players.{player.name}.{player.network.name}"
            raise ConfigError(*(f"{table}.{problem}" for problem in error.problems)) from error
        return network

    context = AlgorithmContext(role=role, build_network=build_network, build_inference=build_inference)
    algorithm: Algorithm = make(player.algorithm, context=context)
    return algorithm


def make_inference(
    selected: SelectedComponent | None,
    module: nn.Module,
    request: NetworkRequest,
    *,
    site: ServiceEndpoint | None = None,
) -> Inference:
    """Make the selected runtime for a network, or torch's if that does not support the network.

    Args:
        selected: The inference component; None for torch.
        module: The network.
        request: What the network was requested for.
        site: Endpoint of the component's service, if it has one.

    Raises:
        PluginError: The factory raised anything but `UnsupportedNetwork`.
    """
    if selected is not None:
        try:
            arguments = {} if selected.component.service is None else {"site": site}
            inference: Inference = make(selected, module=module, request=request, **arguments)
        except UnsupportedNetwork as error:
            _log.info("inference %r cannot run this network (%s); torch runs it", selected.name, error)
        else:
            return inference
    return Eager(module, request)


def make_service(selected: SelectedComponent, context: ServiceContext) -> Worker:
    """Make the service of an inference component that has one.

    Raises:
        PluginError: The factory raised.
    """
    factory = selected.component.load_service()
    assert factory is not None
    with wrap_errors(_describe(selected)):
        service: Worker = factory(selected.config, context=context)
    return service


def make_matchmaker(plugins: Plugins, section: PlayerConfig | EvaluationSection) -> Matchmaker:
    """Make the matchmaker selected in a section, with the parts that it builds.

    Raises:
        ConfigError: A part is not installed, lacks an option or contains itself; or options of a part are unused.
        PluginError: A factory raised.
    """
    if section.matchmaker is None:
        raise ConfigError("evaluation.matchmaker: missing")
    unused, table = dict(section.parts), ".".join(section_path(section))

    def make_part(selected: SelectedComponent, ancestors: tuple[str, ...]) -> Matchmaker:
        path = (*ancestors, selected.name)

        def build(name: str) -> Matchmaker:
            if name in path:
                key = ".".join(map(str, part_key(selected, name)))
                raise ConfigError(f"{table}.{key}: {' → '.join((*path, name))} contains itself")
            unused.pop(name, None)
            return make_part(select_matchmaker_part(section, plugins, name, owner=selected), path)

        matchmaker: Matchmaker = make(selected, build=build)
        return matchmaker

    matchmaker = make_part(section.matchmaker, ())
    if unused:
        text = (
            f"is neither chosen in this section nor a part of {section.matchmaker.name!r} — remove the table, or use it"
        )
        raise ConfigError(*(f"{table}.{name}: unknown key: the matchmaker {name!r} {text}" for name in unused))
    return matchmaker


def make_evaluation_matchmaker(plugins: Plugins, config: RunConfig) -> Matchmaker | None:
    """Make the matchmaker of rating matches: the configured one, or that of the first player.

    Returns:
        The matchmaker; None if no rating matches are played.

    Raises:
        ConfigError: As `make_matchmaker`.
        PluginError: A factory raised.
    """
    first = next(iter(config.players.values()))
    section = first if config.evaluation.matchmaker is None else config.evaluation
    return make_matchmaker(plugins, section) if config.evaluation.enabled else None


def make(selected: SelectedComponent, **arguments: object) -> Any:
    """Make a component by calling its factory with its configuration and these arguments.

    Raises:
        PluginError: The factory raised.
        ContractError: The factory returned None.
    """
    factory = selected.component.load_factory()
    with wrap_errors(_describe(selected)):
        component = factory(selected.config, **arguments)
        if component is None:
            raise ContractError("its factory returned None — does it end without a return?")
        return component


def _describe(*selected: SelectedComponent) -> str:
    return f"{selected[0].kind} {', '.join(repr(component.name) for component in selected)}"
