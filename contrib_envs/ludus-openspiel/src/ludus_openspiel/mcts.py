"""The agent ``openspiel-mcts``: Monte Carlo tree search."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves
from ludus.errors import ConfigError, ContractError

from ludus_openspiel.config import MCTSConfig
from ludus_openspiel.games import OpenSpielSpec, load_game, load_pyspiel, read_tensor, require_spec

__all__ = ["MCTSAgent", "make_agent"]

_MAX_POSITIONS = 20_000


def make_agent(config: MCTSConfig, *, spec: EnvironmentSpec, role: str) -> MCTSAgent:  # noqa: ARG001 - there is one
    """Make the agent.

    Raises:
        PluginError: OpenSpiel is not installed.
        ConfigError: It is no game of perfect information with turns, without chance, and with rewards at the end, or
            what players see does not show the whole position, or it is written in Python.
    """
    game, modes = require_spec(spec), load_pyspiel().GameType.ChanceMode
    plain = load_game(game.game).get_type().chance_mode == modes.DETERMINISTIC and game.reward_range is not None
    if game.turn != "turn-based" or not game.perfect_information or not plain:
        raise ConfigError(
            f"openspiel-mcts: expected a turn-based game of perfect information without chance and with rewards at its "
            f"end, got {game.game}"
        )
    if game.game.startswith("python_"):  # OpenSpiel's search ends the process in them
        raise ConfigError(f"openspiel-mcts: expected a game that OpenSpiel has in C++, got {game.game}")
    if not _shows_moves(game):
        raise ConfigError(
            f"openspiel-mcts: different moves of {game.game} look alike in its {game.tensor} tensor; expected a game "
            f"whose players see the whole position"
        )
    return MCTSAgent(config, game)


def _shows_moves(spec: OpenSpielSpec) -> bool:
    """Return whether what the next player sees tells the first moves of the game apart, where they differ."""
    looks: dict[tuple[float, ...], str] = {}
    start = load_game(spec.game).new_initial_state()
    for state in (start.child(action) for action in start.legal_actions()):
        if not state.is_terminal():
            seen = tuple(read_tensor(state, spec.tensor, player=state.current_player()))
            if looks.setdefault(seen, str(state)) != str(state):
                return False
    return True


class MCTSAgent:
    """Searches the position it sees, with a new tree for every decision.

    It follows each match from its own last decision: the position on the board is the nearest one from there in which
    it is the agent's turn again and the player to move sees what the agent sees.

    Args:
        config: Of the search.
        spec: The game's.
    """

    def __init__(self, config: MCTSConfig, spec: OpenSpielSpec) -> None:
        self._config, self._spec = config, spec
        self._game, self._pyspiel = load_game(spec.game), load_pyspiel()
        self._anybody = frozenset(range(self._game.num_players()))
        # Stream → the position after the agent's last decision there, and the players that the agent may be.
        self._left: dict[int, tuple[Any, frozenset[int]]] = {}

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - the game knows
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Search in every row, see `ludus.agent.Agent`.

        Raises:
            ContractError: What a row shows cannot be reached from the agent's last decision there.
        """
        actions = np.empty((seat_ids.size, 1), np.int64)
        seeds = rng.integers(2**31, size=seat_ids.size).tolist()
        for row, (stream, seed) in enumerate(zip(seat_ids.tolist(), seeds, strict=True)):
            state = self._find(stream, observation["obs"][row])
            action = self._bot(seed).step(state)
            self._left[stream] = state.child(action), frozenset({state.current_player()})
            actions[row] = action
        return actions

    def reset(self, seat_ids: np.ndarray) -> None:
        """Forget the matches of these streams."""
        for stream in seat_ids.tolist():
            self._left.pop(stream, None)

    def _find(self, stream: int, seen: np.ndarray) -> Any:
        """Return the nearest position since the last decision whose player to move sees ``seen [...]``."""
        start = self._left.get(stream) or (self._game.new_initial_state(), self._anybody)
        wanted, queue, known = seen.tobytes(), deque([start]), set()
        for _ in range(_MAX_POSITIONS):
            if not queue:
                break
            state, players = queue.popleft()
            player = state.current_player()
            if player >= 0:
                shown = np.array(read_tensor(state, self._spec.tensor, player=player), np.float32).tobytes()
                if shown == wanted and player in players:
                    return state
                players -= {player}  # the agent is asked at each of its turns
                reached = player, shown, players
                if not players or reached in known:  # moves often lead to one position in several ways
                    continue
                known.add(reached)
            queue.extend((state.child(action), players) for action in state.legal_actions())
        raise ContractError(
            f"openspiel-mcts cannot tell which position of {self._spec.game} it sees; expected to be asked at every "
            f"turn of a match, with observations that show the whole position"
        )

    def _bot(self, seed: int) -> Any:
        config = self._config
        rollouts = self._pyspiel.RandomRolloutEvaluator(n_rollouts=config.rollouts, seed=seed)
        return self._pyspiel.MCTSBot(
            self._game,
            rollouts,
            config.uct_c,
            config.simulations,
            config.max_memory_mb,
            config.solve,
            seed,
            False,  # verbose
        )
