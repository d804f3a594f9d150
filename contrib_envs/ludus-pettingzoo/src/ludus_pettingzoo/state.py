"""The state of a game, which critics read and policies never see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from ludus.environment import Tick
from ludus.errors import ConfigError, ContractError
from ludus.spaces import leaf_spaces
from ludus_copies import MaxEntities, check_entity_names, observation_writer, plain_observation_space
from ludus_copies_options import DEFAULT_ENTITIES

from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.seating import AgentSpaces

#: Name of the privileged leaf with the state.
STATE = "game_state"
MAX_NUMBERS = 4096  # of a state that is read by default; larger ones are images of the screen, for example


class GameState:
    """Reads the state of a game and writes it to the privileged leaves of all seats.

    Args:
        env: Environment with a `state_space` and a method `state`, reset at least once.
        game: Id of the environment, for error messages.
        channels: Axis of the channels of images.
        max_entities: Number of entities of a Sequence that are kept.

    Attributes:
        declared: Dict space with the state as the game declares it.

    Raises:
        ContractError: The environment has no state, or one of another form than it declares.
    """

    def __init__(
        self, env: Any, *, game: str, channels: str = "auto", max_entities: MaxEntities = DEFAULT_ENTITIES
    ) -> None:
        declared = getattr(env, "state_space", None)
        if not isinstance(declared, Space):
            raise ContractError(f"game {game!r} has no state_space")
        self.declared = spaces.Dict({STATE: declared})
        self.space = plain_observation_space(self.declared, channels=channels, max_entities=max_entities)
        self._channels = channels
        self._env = env
        self._subject = f"game {game!r}: state()"
        self._writers: list[Any] = []
        self._shared: list[np.ndarray] = []
        scratch = {name: np.zeros(leaf.shape or (), leaf.dtype) for name, leaf in leaf_spaces(self.space).items()}
        self.num_numbers = sum(array.size for array in scratch.values())
        self._write(observation_writer(self.declared, scratch, channels=channels))

    def bind(self, tick: Tick) -> None:
        """Store the privileged leaves of a match."""
        for role in tick.roles.values():
            first = {name: leaf[0, ...] for name, leaf in role.privileged.items()}
            self._writers.append(observation_writer(self.declared, first, channels=self._channels))
            self._shared += role.privileged.values()

    def write(self) -> None:
        """Write the present state.

        Raises:
            ContractError: It has another form than the game declares.
        """
        for writer in self._writers:
            self._write(writer)
        for leaf in self._shared:
            leaf[1:] = leaf[0]

    def _write(self, writer: Any) -> None:
        try:
            writer({STATE: self._env.state()})
        except NotImplementedError as error:
            raise ContractError(f"{self._subject} is not implemented") from error
        except ContractError as error:
            raise ContractError(f"{self._subject}: {error}") from error


def find_state(env: Any, config: PettingZooConfig) -> GameState | None:
    """Return the state of a game as the option `state` chooses; None without one.

    Raises:
        ConfigError: The option is ``"always"``, but the game has no usable state.
    """
    choice = config.state
    if choice == "never":
        return None
    try:
        state = GameState(env, game=config.id, channels=config.channels, max_entities=config.max_entities)
    except ContractError as error:
        if choice == "always":
            raise ConfigError(f'state: {error}; choose "auto" or "never"') from error
        return None
    return state if choice == "always" or state.num_numbers <= MAX_NUMBERS else None


def check_leaf_names(config: PettingZooConfig, agents: Iterable[AgentSpaces], state: GameState | None) -> None:
    """Check the names of leaves in the options.

    Raises:
        ConfigError: There is no such leaf.
    """
    declared = [] if state is None else [state.declared]
    check_entity_names(config.max_entities, [*(its_spaces.unwrapped for its_spaces in agents), *declared])
