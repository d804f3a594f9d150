"""Use installed components by name, without a run: environments, agents and interfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from attrs import frozen

from ludus._config.run_config import select_components
from ludus._plugins.manager import Plugins, load_plugins
from ludus._run.factories import make_agent, make_environment
from ludus.errors import ConfigError, PluginError
from ludus.lineup import Participant

if TYPE_CHECKING:
    from ludus._config.section_reader import SelectedComponent
    from ludus.agent import Agent
    from ludus.component import Component
    from ludus.environment import Environment

__all__ = ["Game", "default_agents", "open_game", "select_agent"]


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

    def participant(self, name: str) -> Participant:
        """Return one of the agents.

        Raises:
            ConfigError: The game was opened without this agent.
        """
        if name not in self._agents:
            raise ConfigError(f"agent {name!r}: expected one of {', '.join(self._agents) or 'no agents'}")
        return Participant(name)

    def default_participants(self, role: str) -> list[str]:  # noqa: ARG002 - agents play every role
        """Return the agents, which may fill unnamed seats of any role."""
        return list(self._agents)

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
