"""Options of the interfaces, environments and agents."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from ludus.option import Check, above, at_least, between, each, finite, name, one_of, option, optional, whole

_LEAVES = "Names of the observation leaves to change; empty: all leaves of a supported kind."

_IMAGES = "Names of the images; empty: all images."


def _leaf_names(value: object) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(isinstance(name, str) for name in value)


def _are_weights(value: object) -> bool:
    return isinstance(value, dict) and all(map(finite().accepts, value.values()))


def _are_three_numbers(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(map(finite().accepts, value))


def _are_shares(value: object) -> bool:
    return isinstance(value, dict) and all(0 < share <= 1 for share in value.values())


def _are_interfaces(value: object) -> bool:
    return isinstance(value, list | tuple) and all(_is_item(item, "name") for item in value)


def _is_item(item: object, key: str) -> bool:
    return isinstance(item, str) or (isinstance(item, dict) and isinstance(item.get(key), str))


def _are_agents(value: object) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(_is_agent(item) for item in value)


def _is_agent(item: object) -> bool:
    if not isinstance(item, dict):
        return isinstance(item, str)
    known = set(item) <= {"agent", "options", "interfaces"} and isinstance(item.get("options", {}), dict)
    return known and _is_item(item, "agent") and _are_interfaces(item.get("interfaces", ()))


_ITEMS = 'interface names, or tables such as { name = "frame-stack", frames = 2 }'
_INTERFACES = Check(f"a list of {_ITEMS}", _are_interfaces)
_INTERFACES_BY_ROLE = Check(
    f"a table with a list of {_ITEMS}, by role",
    lambda value: isinstance(value, dict) and all(map(_are_interfaces, value.values())),
)
_INTERFACES_BY_PART = Check(
    f"a list of lists of {_ITEMS}",
    lambda value: isinstance(value, tuple) and len(value) > 0 and all(map(_are_interfaces, value)),
)
_WIDTHS = "Number of action labels (or Box dimensions) of each part of the joint seat; empty: equal numbers."
_WRAPPED_OPTIONS = "Options of that environment."


@frozen(kw_only=True)
class AgentIndicatorConfig:
    """Options of the environment ``agent-indicator``."""

    game: str = option(help="Name of the environment whose seats observe their number.", lasting=True)
    options: dict[str, Any] = option({}, help=_WRAPPED_OPTIONS)
    leaf: str = option("agent", name(), help="Name of the new observation leaf.", lasting=True)
    by: str = option(
        "seat",
        one_of("seat", "team"),
        help="Number that is observed: of the seat in its role, or of the team.",
        lasting=True,
    )
    roles: tuple[str, ...] = option(
        (), help="Roles that get the leaf; empty: all roles of several seats.", lasting=True
    )


@frozen(kw_only=True)
class AsTeamConfig:
    """Options of the environment ``as-team``."""

    game: str = option(help="Name of the environment whose seats are joined.", lasting=True)
    options: dict[str, Any] = option({}, help=_WRAPPED_OPTIONS)
    role: str = option(help="Role whose seats of one team become one joint seat.", lasting=True)
    reward: str = option(
        "sum",
        one_of("sum", "shared"),
        help="Reward of a joint seat: the sum over its seats; shared: the mean, for environments that give all seats "
        "of a team the same reward.",
    )


@frozen(kw_only=True)
class CombineConfig:
    """Options of ``combine``."""

    parts: tuple[Any, ...] = option(
        check=_INTERFACES_BY_PART, help="Interfaces of each part of a joint seat, innermost first; an empty list: none."
    )
    widths: tuple[int, ...] = option((), help=_WIDTHS)


@frozen(kw_only=True)
class DelayConfig:
    """Options of ``delay``."""

    tick_ms: float = option(
        check=above(0.0), help="Length of a tick of the game in ms; with 1.0 all delays are in ticks; > 0."
    )
    min_ms: float = option(0.0, at_least(0.0), help="Shortest delay of a match in ms; ≥ 0.")
    max_ms: float = option(300.0, at_least(0.0), help="Longest delay of a match in ms, at least min_ms.")
    jitter_ms: float = option(0.0, at_least(0.0), help="Longest additional delay of a single decision in ms; ≥ 0.")
    fixed_ms: float | None = option(
        None, optional(at_least(0.0)), help="Delay of all matches in ms, at most max_ms; unset: drawn for every match."
    )
    actions: int = option(
        0,
        whole(-1, 1000),
        help="Number of last actions that are observed; 0: as many as can be under way; -1: no observation is added.",
    )
    first_action: tuple[float, ...] = option(
        (),
        each(finite(), least=0),
        help="Action before the first arrival, and in place of illegal choices; empty: choice 0 of every label.",
    )
    seed: int = option(0, whole(0, 2**63 - 1), help="Seed of delays and jitter; ≥ 0.")


@frozen(kw_only=True)
class TeamAgentConfig:
    """Options of the agent ``team-agent``."""

    agents: tuple[Any, ...] = option(
        check=Check('a list of agents, each a name or { agent = "…", options = {…}, interfaces = […] }', _are_agents),
        help="Agent of each part of a joint seat.",
    )
    interfaces: tuple[Any, ...] = option(
        (), _INTERFACES, help="Interfaces of the joint seat between the environment and the agents, innermost first."
    )
    widths: tuple[int, ...] = option((), help=_WIDTHS)


@frozen(kw_only=True)
class WithInterfacesConfig:
    """Options of the environment ``with-interfaces``."""

    game: str = option(help="Name of the environment behind the interfaces.", lasting=True)
    options: dict[str, Any] = option({}, help=_WRAPPED_OPTIONS)
    interfaces: dict[str, Any] = option(
        check=_INTERFACES_BY_ROLE,
        help="Interfaces by role, innermost first; other roles do not change.",
        lasting=True,
    )


@frozen(kw_only=True)
class AgentWithInterfacesConfig:
    """Options of the agent ``with-interfaces``."""

    agent: str = option(help="Name of the agent behind the interfaces.")
    options: dict[str, Any] = option({}, help="Options of that agent.")
    interfaces: tuple[Any, ...] = option(check=_INTERFACES, help="Interfaces, innermost first.")


@frozen(kw_only=True)
class FrameStackConfig:
    """Options of ``frame-stack``."""

    frames: int = option(4, whole(1, 1024), help="Number of stacked observations, the newest included.")
    leaves: tuple[str, ...] = option((), help=_LEAVES)
    padding: str = option(
        "first",
        one_of("first", "zeros"),
        help="What fills the frames before the first observation of a match: that observation, or zeros.",
    )


@frozen(kw_only=True)
class GreyConfig:
    """Options of ``grey``."""

    weights: tuple[float, ...] = option(
        (0.299, 0.587, 0.114),
        Check("three finite numbers", _are_three_numbers),
        help="Weights of red, green and blue; [0, 0, 1] takes the blue channel.",
    )
    leaves: tuple[str, ...] = option((), help=_IMAGES)


@frozen(kw_only=True)
class LabelChannelsConfig:
    """Options of ``label-channels``."""

    labels: tuple[str, ...] = option((), help="Names of the Discrete leaves; empty: all.")
    leaves: tuple[str, ...] = option((), help=_IMAGES)


@frozen(kw_only=True)
class MergeLabelsConfig:
    """Options of ``merge-labels``."""

    max_choices: int = option(
        10_000, whole(1, 1_000_000), help="Limit on the number of choices of the merged label.", learning=True
    )


@frozen(kw_only=True)
class OneHotConfig:
    """Options of ``one-hot``."""

    leaves: tuple[str, ...] = option((), help=_LEAVES)


@frozen(kw_only=True)
class ResizeConfig:
    """Options of ``resize``."""

    height: int = option(84, whole(1, 4096), help="New height.")
    width: int = option(84, whole(1, 4096), help="New width.")
    method: str = option(
        "area",
        one_of("area", "bilinear", "nearest"),
        help="How values are computed: mean of the covered area, interpolation, or the nearest pixel.",
    )
    leaves: tuple[str, ...] = option((), help=_IMAGES)


@frozen(kw_only=True)
class RewardPartsConfig:
    """Options of ``reward-parts``."""

    weights: dict[str, float] = option(
        {},
        Check("a table of finite numbers", _are_weights),
        help="Weights of reward parts by name; 1 for all others.",
        learning=True,
    )
    fade: dict[str, float] = option(
        {},
        Check("shares of the training budget in (0, 1]", _are_shares),
        help="Shares of the training budget, by part, after which the weight of a part is 0.",
        scheduled=True,
        learning=True,
    )
    once: tuple[str, ...] = option((), help="Parts that count only once per match and seat.", learning=True)


@frozen(kw_only=True)
class ScaleObservationConfig:
    """Options of ``scale-observation``."""

    low: float = option(-1.0, finite(), help="Lower end of the range.")
    high: float = option(1.0, finite(), help="Upper end of the range; above `low`.")
    leaves: tuple[str, ...] = option((), help=_LEAVES)


@frozen(kw_only=True)
class ScaleRewardConfig:
    """Options of ``scale-reward``."""

    factor: float = option(1.0, finite(), help="Factor of all rewards.", learning=True)
    clip: float = option(
        0.0, at_least(0.0), help="Scaled rewards are clipped to [-clip, clip]; 0: no clipping.", learning=True
    )


@frozen(kw_only=True)
class SelectLeavesConfig:
    """Options of ``select-leaves``."""

    keep: tuple[str, ...] = option(
        check=Check("a list of at least one leaf name", _leaf_names), help="Names of the observation leaves to keep."
    )


@frozen(kw_only=True)
class TeamRewardConfig:
    """Options of the environment ``team-reward``."""

    game: str = option(help="Name of the environment whose rewards are shared.", lasting=True)
    options: dict[str, Any] = option({}, help="Options of that environment.")
    spirit: float = option(
        0.0, between(0.0, 1.0), help="Weight of the team's mean reward; the rest is the seat's own reward."
    )
    granted: tuple[str, ...] = option(
        (), help="Reward parts that all of a team receive in full if one of it earns them."
    )
    zero_sum: bool = option(False, help="Whether to subtract the mean reward of the opponents.")
    roles: tuple[str, ...] = option((), help="Roles whose rewards change; empty: all roles.")
