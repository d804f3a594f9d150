"""Use installed components by name, without a run: environments, agents and interfaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from attrs import frozen

from ludus._config.run_config import parse_config, select_components
from ludus._plugins.manager import Plugins, load_plugins
from ludus._run.context import RunContext
from ludus._run.factories import learned_role, make_agent, make_environment, make_interfaces
from ludus._run.worker_factories import make_model_agent
from ludus._store.model_files import is_hash, load_arrays, load_manifest
from ludus.errors import ConfigError, LudusError, ModelError, PluginError
from ludus.lineup import Participant
from ludus.trust import ConfigSource

if TYPE_CHECKING:
    from ludus._config.section_reader import SelectedComponent
    from ludus.agent import Agent
    from ludus.component import Component
    from ludus.environment import Environment, EnvironmentSpec
    from ludus.interface import Interface

__all__ = [
    "Game",
    "can_make",
    "default_agents",
    "load_agent",
    "only_role",
    "open_agent",
    "open_game",
    "open_interfaces",
    "select_agent",
]


@frozen
class Game:
    """An installed environment and agents that play it, without a run; made by `open_game`."""

    _environment: SelectedComponent
    _agents: Mapping[str, SelectedComponent]

    def make_environment(self, num_matches: int) -> Environment:
        """Make a batch of the environment; the caller closes it.

        Raises:
            PluginError: The factory raised.
        """
        return make_environment(self._environment, num_matches)

    def participant(self, name: str, spec: EnvironmentSpec) -> Participant:
        """Return one of the agents, and its role if it can play one only.

        Raises:
            ConfigError: The game was opened without this agent.
        """
        if name not in self._agents:
            raise ConfigError(f"agent {name!r}: expected one of {', '.join(self._agents) or 'no agents'}")
        return Participant(name, only_role(spec, lambda role: make_agent(self._agents[name], spec, role)))

    def default_participants(self, role: str, spec: EnvironmentSpec) -> Iterator[str]:
        """Yield the agents that can play a role."""
        for name, agent in self._agents.items():
            if can_make(partial(make_agent, agent, spec, role)):
                yield name

    def agent(self, name: str, role: str, *, environment: Environment, deterministic: bool = False) -> Agent:  # noqa: ARG002 - for models only
        """Make one of the agents for a role.

        Raises:
            PluginError: The factory raised.
        """
        return make_agent(self._agents[name], environment.spec, role)


def open_game(
    environment: str,
    agents: Sequence[str] = (),
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    overrides: Sequence[str] = (),
) -> Game:
    """Select an installed environment and agents by name.

    Args:
        environment: Name of the environment.
        agents: Names of agents.
        options: Tables of their options by component name.
        overrides: Texts ``name.option=value``, which take precedence over `options`.

    Raises:
        ConfigError: With one line for every mistake.
    """
    wanted = [("environment", environment), *(("agent", agent) for agent in agents)]
    first, *others = select_components(load_plugins(), wanted, options=options, overrides=overrides)
    return Game(first, {agent.name: agent for agent in others})


def can_make(make: Callable[[], object]) -> bool:
    """Return whether an agent can be made."""
    try:
        make()
    except LudusError:
        return False
    return True


def only_role(spec: EnvironmentSpec, make: Callable[[str], object]) -> str:
    """Return the only role for which an agent can be made; empty if there are several or none."""
    if len(spec.roles) == 1:
        return ""
    roles = [role.name for role in spec.roles if can_make(partial(make, role.name))]
    return roles[0] if len(roles) == 1 else ""


def default_agents(plugins: Plugins, environment: str) -> list[str]:
    """Return the installed agents that play an environment and need no options, random ones first."""
    names = [
        name
        for name, agent in plugins.components("agent").items()
        if (not agent.environments or environment in agent.environments) and not _needs_options(agent)
    ]
    return sorted(names, key=lambda name: (name != "random", "random" not in name))


def _needs_options(component: Component) -> bool:
    try:
        config = component.load_config()
    except PluginError:  # such an agent cannot play
        return True
    return config is not None and any(option.default is attrs.NOTHING for option in attrs.fields(config))


def select_agent(plugins: Plugins, name: str) -> SelectedComponent:
    """Return an installed agent with default options.

    Raises:
        ConfigError: There is no such agent, or it needs options.
    """
    (selected,) = select_components(plugins, [("agent", name)])
    return selected


def load_agent(file: str | Path, role: str, *, spec: EnvironmentSpec, deterministic: bool = False) -> Agent:
    """Make an agent of a frozen model from its file and the manifest beside it, without the run.

    Args:
        file: ``…/<hash>.safetensors``, with ``<hash>.json`` beside it, as in the folder ``models`` of a run.
        role: Role that it plays.
        spec: Specification of the environment.
        deterministic: Take the most likely actions instead of sampling.

    Raises:
        ModelError: A file is missing or damaged, or the model learned another environment or role.
        ConfigError: A component of the model is not installed.
    """
    path = Path(file)
    if not is_hash(path.stem):
        raise ModelError(f"{path}: expected …/<hash>.safetensors, a file of a run's folder models under its own name")
    weights, manifest = load_arrays(path.parent, path.stem), load_manifest(path.parent, path.stem)
    learned = manifest.get("environment")
    if learned != spec.name:
        raise ModelError(f"{path}: learned {learned}, so it cannot play {spec.name}")
    players = {manifest.get("player"): manifest.get("config")}
    data = {"run": {"workers": 0}, "environment": {"name": learned}, "players": players}
    plugins = load_plugins()
    origin = ConfigSource(folder=path.parent)
    config = parse_config(data, source=str(path.with_suffix(".json")), plugins=plugins, origin=origin)
    (player,) = config.players.values()
    own_role = learned_role(player, spec).name
    if own_role != role:
        raise ModelError(f"{path}: learned the role {own_role}, so it cannot play {role}")
    run = RunContext(config=config, plugins=plugins, run_dir=path.parent)
    return make_model_agent(run, player.name, weights, spec=spec, deterministic=deterministic)


def open_agent(name: str, *, spec: EnvironmentSpec, role: str, options: Mapping[str, Any] | None = None) -> Agent:
    """Make an installed agent.

    Args:
        name: Name of the agent.
        spec: Specification of the environment that it plays.
        role: Role that it plays.
        options: Table of its options.

    Raises:
        ConfigError: With one line for every mistake.
        PluginError: The factory raised.
    """
    (selected,) = select_components(load_plugins(), [("agent", name)], options={name: options or {}})
    return make_agent(selected, spec, role)


def open_interfaces(items: Sequence[str | Mapping[str, Any]]) -> Interface:
    """Make installed interfaces and return their stack, which is not bound yet.

    Args:
        items: Names, or tables with a ``name`` and options, innermost first.

    Raises:
        ConfigError: With one line for every mistake.
        PluginError: A factory raised.
    """
    plugins = load_plugins()
    tables = [{"name": item} if isinstance(item, str) else item for item in items]
    selected = [
        component
        for table in tables
        for component in select_components(
            plugins,
            [("interface", table["name"])],
            options={table["name"]: {key: value for key, value in table.items() if key != "name"}},
        )
    ]
    return make_interfaces(selected)
