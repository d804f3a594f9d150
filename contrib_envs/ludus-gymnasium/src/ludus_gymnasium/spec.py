"""The spec of a Gymnasium environment: one role, one seat, and what decides its matches."""

from __future__ import annotations

from typing import Any

import gymnasium
from ludus.environment import EnvironmentSpec, Role
from ludus.errors import ContractError
from ludus.spaces import leaf_spaces
from ludus_copies import (
    SteppingOptions,
    check_entity_names,
    is_reached,
    observation_notes,
    plain_action_space,
    plain_observation_space,
)

from ludus_gymnasium.config import GymnasiumConfig

#: The one role, with one seat.
ROLE = "player"


def winning_return(env: gymnasium.Env[Any, Any], win_return: float | None) -> float | None:
    """Return the least return of a win, None if it is not defined."""
    if win_return is None and env.spec is not None:
        return env.spec.reward_threshold
    return win_return


def mask_in_observation(space: gymnasium.Space[Any], mask_key: str) -> bool:
    """Return whether observations carry an action mask beside other leaves."""
    return isinstance(space, gymnasium.spaces.Dict) and mask_key in space.spaces and len(space.spaces) > 1


def without_mask(space: gymnasium.Space[Any], mask_key: str) -> gymnasium.Space[Any]:
    """Return an observation space without the action mask."""
    if not isinstance(space, gymnasium.spaces.Dict) or not mask_in_observation(space, mask_key):
        return space
    return gymnasium.spaces.Dict({key: part for key, part in space.spaces.items() if key != mask_key})


def outcome_points(total: float, winning_return: float | None) -> float:
    """Return the points of a match: 1 or 0 as its return is a winning one or not, ½ where that is not defined."""
    return 0.5 if winning_return is None else float(is_reached(total, winning_return))


def make_spec(env: gymnasium.Env[Any, Any], config: GymnasiumConfig) -> EnvironmentSpec:
    """Return the spec of an environment.

    Raises:
        ContractError: Its spaces have no array form.
    """
    try:
        declared = without_mask(env.observation_space, config.mask_key)
        check_entity_names(config.max_entities, [declared])
        observation_space = plain_observation_space(
            declared, channels=config.channels, max_entities=config.max_entities
        )
        leaf_spaces(observation_space)
        action_space = plain_action_space(env.action_space)
    except ContractError as error:
        raise ContractError(f"game {config.id!r}: {error}") from error
    role = Role(
        name=ROLE,
        observation_space=observation_space,
        action_space=action_space,
        teams=(0,),
        statistics=tuple(config.statistics),
    )
    stepping = SteppingOptions.of(config)
    max_ticks = None if env.spec is None else env.spec.max_episode_steps
    if max_ticks is not None and not config.max_ticks:  # the registry counts steps of the game
        max_ticks = -(-max_ticks // stepping.frame_skip)
    least = winning_return(env, config.win_return)
    if least is None:
        score, rule = "return", "no win_return, so every match is a draw; compare returns"
    else:
        score, rule = "outcome", f"a return of at least {least:g} wins"
    return EnvironmentSpec(
        name="gymnasium",
        roles=(role,),
        turn="simultaneous",
        max_ticks=max_ticks,
        repeatable=env.spec is None or not env.spec.nondeterministic,
        score=score if config.score == "auto" else config.score,  # type: ignore[arg-type]
        outcome_rule=rule,
        notes=(
            *observation_notes(declared, channels=config.channels, max_entities=config.max_entities),
            *stepping.notes,
        ),
    )
