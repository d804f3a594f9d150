"""Loading of OpenSpiel games and their specs.

OpenSpiel is imported on first use, so that everything else works without it.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from attrs import frozen
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role
from ludus.errors import ConfigError, PluginError
from ludus.option import name as valid_name
from ludus.printing import did_you_mean
from ludus_copies import ImageLayout, image_note

#: The role of all players without the option `roles`, with a seat and a team for every player, in OpenSpiel's order.
ROLE = "player"

_ROLE_NAME = valid_name()
#: Parameters of games that name files or folders, also of games within games.
_FILE_PARAMETER = re.compile(r"(\w*file\w*|\w+_root)\s*=\s*([^,()]*)")


@frozen(kw_only=True)
class OpenSpielSpec(EnvironmentSpec):
    """The spec of an OpenSpiel game.

    Args:
        game: Name and parameters as `load_game` takes them.
        tensor: Tensor that players observe: ``"information_state"`` or ``"observation"``.
        declared_shape: Shape of the tensor as OpenSpiel declares it.
        image: How OpenSpiel orders the axes of a tensor with three axes; None: it is no image.
        players: The players of each role by number from 0, in the order of the role's seats.
    """

    game: str
    tensor: str
    declared_shape: tuple[int, ...]
    image: ImageLayout | None
    players: Mapping[str, tuple[int, ...]]


def load_pyspiel() -> Any:
    """Import OpenSpiel.

    Raises:
        PluginError: It is not installed.
    """
    try:
        import pyspiel  # noqa: PLC0415 - see above
    except ImportError as error:
        raise PluginError(
            f'OpenSpiel cannot be imported ({error}); install it: pip install "open_spiel>=1.5"'
        ) from error
    return pyspiel


@functools.lru_cache(maxsize=16)
def load_game(name: str) -> Any:
    """Load a ``pyspiel.Game`` by name and parameters; it is stateless and shared by all matches.

    Raises:
        PluginError: OpenSpiel is not installed.
        ConfigError: The game or a parameter does not exist, or the game is not supported, or a file that a parameter
            names is outside of the current folder.
    """
    pyspiel, short = load_pyspiel(), name.partition("(")[0]
    _check_files(name)
    if short.startswith("python_"):
        importlib.import_module("open_spiel.python.games")  # registers games written in Python
    known = pyspiel.registered_names()
    if short not in known:
        raise ConfigError(f"game: OpenSpiel has no game {short!r}{did_you_mean(short, known)}")
    try:
        game = pyspiel.load_game(name)
    except (pyspiel.SpielError, IndexError) as error:  # IndexError if a parameter is missing
        raise ConfigError(f"game: {name!r} cannot be made: {str(error).splitlines()[0]}") from error
    kind = game.get_type()
    if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise ConfigError(f"game: {name!r} is a mean field game, which has no matches")
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        raise ConfigError(
            f"game: {name!r} draws its own random numbers, which no seed determines; "
            f"expected a game whose chance outcomes are explicit"
        )
    return game


def _check_files(game: str) -> None:
    """Check the files that the parameters of a game name, since a run file from elsewhere may name any.

    Raises:
        ConfigError: A file does not exist, or is outside of the current folder.
    """
    for parameter, value in _FILE_PARAMETER.findall(game):
        path = Path(value.strip())
        if value and not ((path.is_file() or path.is_dir()) and path.resolve().is_relative_to(Path.cwd().resolve())):
            raise ConfigError(f"game: {parameter} {value!r}: expected a file below the current folder, {Path.cwd()}")


def choose_tensor(game: Any, wanted: str) -> str:
    """Return the tensor that players observe; `wanted` as in `OpenSpielConfig`.

    Raises:
        ConfigError: The game does not have the tensor.
    """
    kind = game.get_type()
    offered = {
        "information_state": kind.provides_information_state_tensor,
        "observation": kind.provides_observation_tensor,
    }
    if wanted == "auto":
        hides = kind.information == load_pyspiel().GameType.Information.IMPERFECT_INFORMATION
        order = ("information_state", "observation") if hides else ("observation", "information_state")
        wanted = next((name for name in order if offered[name]), "")
    if not offered.get(wanted):
        names = " and ".join(name for name, has_tensor in offered.items() if has_tensor) or "no tensor at all"
        raise ConfigError(f"observation: {kind.short_name} has no {wanted or 'tensor'}; it offers {names}")
    return wanted


def _tensor_shape(game: Any, tensor: str) -> tuple[int, ...]:
    """Return the shape of a tensor as OpenSpiel declares it.

    Raises:
        ConfigError: The game declares the tensor but does not have it.
    """
    try:
        has_state = tensor == "information_state"
        return tuple(game.information_state_tensor_shape() if has_state else game.observation_tensor_shape())
    except load_pyspiel().SpielError as error:
        name = game.get_type().short_name
        raise ConfigError(f"observation: {name} has no {tensor} tensor: {str(error).splitlines()[0]}") from error


def _image_layout(game: Any, tensor: str, shape: tuple[int, ...]) -> ImageLayout | None:
    """Return how OpenSpiel orders the axes of a tensor with three axes; None for other tensors."""
    if len(shape) != 3:
        return None
    has_state = tensor == "information_state"
    layout = game.information_state_tensor_layout() if has_state else game.observation_tensor_layout()
    return ImageLayout("HWC" if layout == load_pyspiel().TensorLayout.HWC else "CHW")


def read_tensor(state: Any, spec: OpenSpielSpec, *, player: int) -> np.ndarray:
    """Return what a player observes in a ``pyspiel.State``: the leaf ``"obs"``, in float32."""
    read = state.information_state_tensor if spec.tensor == "information_state" else state.observation_tensor
    tensor = np.array(read(player), np.float32).reshape(spec.declared_shape)
    return tensor if spec.image is None else spec.image.convert(tensor)


def make_spec(
    game: str,
    *,
    observation: str,
    max_ticks: int,
    roles: Mapping[str, Sequence[int]] | None = None,
    score: str = "auto",
) -> OpenSpielSpec:
    """Return the spec of a game; arguments as in `OpenSpielConfig`.

    Raises:
        PluginError: OpenSpiel is not installed.
        ConfigError: The game cannot be made, does not offer the observation, or a player is not in exactly one role.
    """
    loaded = load_game(game)
    types, kind = load_pyspiel().GameType, loaded.get_type()
    tensor = choose_tensor(loaded, observation)
    players, length = loaded.num_players(), loaded.max_game_length()
    players_of = _checked_roles(roles or {ROLE: range(players)}, players)
    shape = _tensor_shape(loaded, tensor)
    image = _image_layout(loaded, tensor, shape)
    tensor_space = spaces.Box(-np.inf, np.inf, shape, np.float32)
    observation_space = tensor_space if image is None else image.convert_space(tensor_space)
    action_space = spaces.Discrete(loaded.num_distinct_actions())
    cooperative = kind.utility == types.Utility.IDENTICAL
    decided = _decide(
        score,
        num_teams=len(set(_teams(range(players), one_team=cooperative))),
        general=kind.utility == types.Utility.GENERAL_SUM,
    )
    at_the_end = kind.reward_model == types.RewardModel.TERMINAL
    return OpenSpielSpec(
        name="openspiel",
        roles=tuple(
            Role(
                name=name,
                observation_space=observation_space,
                action_space=action_space,
                teams=_teams(its_players, one_team=cooperative),
            )
            for name, its_players in players_of.items()
        ),
        turn="turn-based" if kind.dynamics == types.Dynamics.SEQUENTIAL else "simultaneous",
        max_ticks=min(max_ticks, length) if max_ticks else length,
        zero_sum=kind.utility == types.Utility.ZERO_SUM,
        constant_sum=players == 2 and not cooperative,
        perfect_information=kind.information == types.Information.PERFECT_INFORMATION,
        reward_range=(loaded.min_utility(), loaded.max_utility()) if at_the_end else None,
        sparse_rewards=at_the_end,
        score=decided.score,
        outcome_rule=decided.rule,
        notes=() if image is None else (image_note("obs", shape, image),),
        game=game,
        tensor=tensor,
        declared_shape=shape,
        image=image,
        players=players_of,
    )


def _teams(players: Sequence[int], *, one_team: bool) -> tuple[int, ...]:
    """Return the team of each player: every player is a team, unless all are paid the same."""
    return (0,) * len(players) if one_team else tuple(players)


@frozen
class _Decision:
    """What measures the participants of a game, and what decides its matches, in words."""

    score: Literal["outcome", "return"]
    rule: str


def _decide(score: str, *, num_teams: int, general: bool) -> _Decision:
    """Return what decides a match.

    Args:
        score: The option `score`.
        num_teams: 1 where all players get the same returns.
        general: The returns of the players have no constant sum.
    """
    one_team = num_teams == 1
    if score == "return" or (score == "auto" and (one_team or general)):
        return _Decision("return", "one team: compare returns" if one_team else "the highest return wins")
    return _Decision("outcome", "a positive return wins" if one_team else "the highest return wins")


def _checked_roles(roles: Mapping[str, Sequence[int]], players: int) -> dict[str, tuple[int, ...]]:
    """Return the players of each role.

    Raises:
        ConfigError: The name of a role is malformed, or a player is not in exactly one role.
    """
    for name in roles:
        if not _ROLE_NAME.accepts(name):
            raise ConfigError(f"roles: expected {_ROLE_NAME.expected} for a role, got {name!r}")
    given = [player for its_players in roles.values() for player in its_players]
    if sorted(given) != list(range(players)) or not all(roles.values()):
        raise ConfigError(
            f"roles: expected every player from 0 to {players - 1} in one role and no empty role, got "
            f"{', '.join(f'{name} = {list(its_players)}' for name, its_players in roles.items())}"
        )
    return {name: tuple(its_players) for name, its_players in roles.items()}


def require_spec(spec: EnvironmentSpec) -> OpenSpielSpec:
    """Return `spec` as that of an OpenSpiel game.

    Raises:
        ConfigError: It is the spec of another environment.
    """
    if not isinstance(spec, OpenSpielSpec):
        raise ConfigError(f"expected a game of the environment 'openspiel', got {spec.name!r}")
    return spec
