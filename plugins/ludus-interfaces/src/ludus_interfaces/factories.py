"""Factories of the components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import attrs
from ludus.agent import Agent
from ludus.environment import Environment, EnvironmentSpec
from ludus.errors import ConfigError
from ludus.installed import open_agent, open_game, open_interfaces
from ludus.interface import Interface, Spaces, bind_spec, wrap_agent

from ludus_interfaces.actions import HideMask, MergeLabels
from ludus_interfaces.config import (
    AgentIndicatorConfig,
    AgentWithInterfacesConfig,
    AsTeamConfig,
    CombineConfig,
    DelayConfig,
    FrameStackConfig,
    GreyConfig,
    LabelChannelsConfig,
    MergeLabelsConfig,
    OneHotConfig,
    ResizeConfig,
    RewardPartsConfig,
    ScaleObservationConfig,
    ScaleRewardConfig,
    SelectLeavesConfig,
    TeamAgentConfig,
    TeamRewardConfig,
    WithInterfacesConfig,
)
from ludus_interfaces.delay import Delay
from ludus_interfaces.environment import wrap_environment
from ludus_interfaces.frames import FrameStack
from ludus_interfaces.images import Grey, LabelChannels, Resize
from ludus_interfaces.indicator import indicate_agents
from ludus_interfaces.joint_seats import combine, is_joint, split_spaces
from ludus_interfaces.observations import Flatten, OneHot, ScaleObservation, SelectLeaves
from ludus_interfaces.rewards import RewardParts, ScaleReward
from ludus_interfaces.sharing import share_rewards
from ludus_interfaces.teams import as_team, team_agent


def delay(config: DelayConfig) -> Interface:
    """Make ``delay``."""
    return Delay(**attrs.asdict(config, recurse=False))


def flatten(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``flatten``."""
    return Flatten()


def frame_stack(config: FrameStackConfig) -> Interface:
    """Make ``frame-stack``."""
    return FrameStack(config.frames, leaves=config.leaves, padding=config.padding)


def grey(config: GreyConfig) -> Interface:
    """Make ``grey``."""
    return Grey(config.weights, leaves=config.leaves)


def label_channels(config: LabelChannelsConfig) -> Interface:
    """Make ``label-channels``."""
    return LabelChannels(config.labels, leaves=config.leaves)


def hide_mask(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``hide-mask``."""
    return HideMask()


def merge_labels(config: MergeLabelsConfig) -> Interface:
    """Make ``merge-labels``."""
    return MergeLabels(max_choices=config.max_choices)


def one_hot(config: OneHotConfig) -> Interface:
    """Make ``one-hot``."""
    return OneHot(config.leaves)


def resize(config: ResizeConfig) -> Interface:
    """Make ``resize``."""
    return Resize(config.height, config.width, method=config.method, leaves=config.leaves)


def reward_parts(config: RewardPartsConfig) -> Interface:
    """Make ``reward-parts``."""
    return RewardParts(config.weights, fade=config.fade, once=config.once)


def scale_observation(config: ScaleObservationConfig) -> Interface:
    """Make ``scale-observation``."""
    return ScaleObservation(config.low, config.high, leaves=config.leaves)


def scale_reward(config: ScaleRewardConfig) -> Interface:
    """Make ``scale-reward``."""
    return ScaleReward(config.factor, clip=config.clip)


def select_leaves(config: SelectLeavesConfig) -> Interface:
    """Make ``select-leaves``."""
    return SelectLeaves(config.keep)


def combined(config: CombineConfig) -> Interface:
    """Make ``combine``.

    Raises:
        ConfigError: An interface is not installed, or lacks an option.
    """
    parts = []
    for k, items in enumerate(config.parts):
        with _under(f"parts.{k}."):
            parts.append(open_interfaces(items))
    return combine(*parts, widths=config.widths or None)


# -- environments ----------------------------------------------------------------------------------------------------


def agent_indicator(config: AgentIndicatorConfig, *, num_matches: int) -> Environment:
    """Make ``agent-indicator``; raises as `team_reward`."""
    game = _game(config, num_matches, "agent-indicator")
    return indicate_agents(game, leaf=config.leaf, by=config.by, roles=config.roles)


def team_reward(config: TeamRewardConfig, *, num_matches: int) -> Environment:
    """Make ``team-reward``.

    Raises:
        ConfigError: There is no such environment, or it has no such options.
        PluginError: The factory of the environment raised.
    """
    return share_rewards(
        _game(config, num_matches, "team-reward"),
        spirit=config.spirit,
        granted=config.granted,
        zero_sum=config.zero_sum,
        roles=config.roles,
    )


def team_environment(config: AsTeamConfig, *, num_matches: int) -> Environment:
    """Make ``as-team``; raises as `team_reward`."""
    reward: Literal["sum", "shared"] = "shared" if config.reward == "shared" else "sum"
    return as_team(_game(config, num_matches, "as-team"), config.role, reward=reward)


def environment_with_interfaces(config: WithInterfacesConfig, *, num_matches: int) -> Environment:
    """Make ``with-interfaces``; raises as `team_reward`."""
    interfaces = {}
    for role, items in config.interfaces.items():
        with _under(f"environment.with-interfaces.interfaces.{role}."):
            interfaces[role] = open_interfaces(items)
    return wrap_environment(_game(config, num_matches, "with-interfaces"), interfaces)


def _game(
    config: AgentIndicatorConfig | TeamRewardConfig | AsTeamConfig | WithInterfacesConfig,
    num_matches: int,
    wrapper: str,
) -> Environment:
    """Make the environment that a wrapper wraps."""
    try:
        game = open_game(config.game, options={config.game: config.options})
        return game.make_environment(num_matches)
    except ConfigError as error:
        raise ConfigError(*(_with_path(problem, config.game, wrapper) for problem in error.problems)) from None


def _with_path(problem: str, game: str, wrapper: str) -> str:
    """Return a problem of `open_game` with the path of its option in the run's TOML file."""
    path, _, text = problem.partition(": ")
    if text.startswith("no installed plugin"):
        return f"environment.{wrapper}.game: {text}"
    if path == game or path.startswith(f"{game}."):
        return f"environment.{wrapper}.options{path.removeprefix(game)}: {text}"
    return problem  # of an environment that is wrapped in turn


@contextmanager
def _under(table: str) -> Iterator[None]:
    """Prefix the paths of configuration errors."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(*(f"{table}{problem}" for problem in error.problems)) from None


# -- agents ------------------------------------------------------------------------------------------------------------


def agent_with_interfaces(config: AgentWithInterfacesConfig, *, spec: EnvironmentSpec, role: str) -> Agent:
    """Make the agent ``with-interfaces``.

    Raises:
        ConfigError: The agent or an interface is not installed, or lacks an option.
        ContractError: An interface cannot work on the role's spaces.
    """
    with _under("with-interfaces."):
        return _wrapped(config.agent, config.options, config.interfaces, spec=spec, role=role)


def _wrapped(
    agent: str, options: Mapping[str, Any], interfaces: Sequence[Any], *, spec: EnvironmentSpec, role: str
) -> Agent:
    interface = open_interfaces(interfaces)
    inner = bind_spec(spec, role, interface)
    return wrap_agent(open_agent(agent, spec=inner, role=role, options=options), interface)


def agent_of_parts(config: TeamAgentConfig, *, spec: EnvironmentSpec, role: str) -> Agent:
    """Make ``team-agent``; its first agent plays the roles without joint seats. Raises as `agent_with_interfaces`."""
    own, widths = spec.role(role), config.widths or None
    if not is_joint(own.observation_space):
        return _part_agent(config, 0, spec=spec, role=role)
    with _under("team-agent."):
        interface = open_interfaces(config.interfaces)
    raw = Spaces(own.observation_space, own.action_space)
    agents = []
    for k, part in enumerate(split_spaces(interface.bind(raw), len(config.agents), widths=widths)):
        part_role = attrs.evolve(
            own, observation_space=part.observation, action_space=part.action, privileged_space=None, labels_used=None
        )
        inner = attrs.evolve(spec, roles=tuple(part_role if other is own else other for other in spec.roles))
        agents.append(_part_agent(config, k, spec=inner, role=role))
    return team_agent(agents, interface, raw=raw, widths=widths)


def _part_agent(config: TeamAgentConfig, part: int, *, spec: EnvironmentSpec, role: str) -> Agent:
    """Make the agent of a part for the part's spaces."""
    entry = config.agents[part]
    table: Mapping[str, Any] = {"agent": entry} if isinstance(entry, str) else entry
    with _under(f"team-agent.agents.{part}."):
        return _wrapped(table["agent"], table.get("options", {}), table.get("interfaces", ()), spec=spec, role=role)
