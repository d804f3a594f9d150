"""The agent ``openspiel-mcts``: Monte Carlo tree search."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves
from ludus.errors import ConfigError, ContractError

from ludus_openspiel.config import MCTSConfig
from ludus_openspiel.games import OpenSpielSpec, load_game, load_pyspiel, read_tensor, require_spec

_MAX_POSITIONS = 20_000


def make_agent(config: MCTSConfig, *, spec: EnvironmentSpec, role: str) -> MCTSAgent:  # noqa: ARG001 - there is one role
    """Make the agent.

    Raises:
        PluginError: OpenSpiel is not installed.
        ConfigError: The game is not turn-based with perfect information, without chance and with rewards at the end
            only; or its tensor does not show the whole position; or it is written in Python.
    """
    game, modes = require_spec(spec), load_pyspiel().GameType.ChanceMode
    plain = load_game(game.game).get_type().chance_mode == modes.DETERMINISTIC and game.reward_range is not None
    if game.turn != "turn-based" or not game.perfect_information or not plain:
        raise ConfigError(
            f"openspiel-mcts: expected a turn-based game of perfect information without chance and with rewards at its "
            f"end, got {game.game}"
        )
    if game.game.startswith("python_"):  # OpenSpiel's search would terminate the process
        raise ConfigError(f"openspiel-mcts: expected a game that OpenSpiel has in C++, got {game.game}")
    if not _distinguishes_moves(game):
        raise ConfigError(
            f"openspiel-mcts: different moves of {game.game} give equal {game.tensor} tensors; expected a game "
            f"whose tensor shows the whole position"
        )
    return MCTSAgent(config, game)


def _distinguishes_moves(spec: OpenSpielSpec) -> bool:
    """Return whether the tensor differs after different first moves of the game."""
    positions: dict[bytes, str] = {}
    start = load_game(spec.game).new_initial_state()
    for state in (start.child(action) for action in start.legal_actions()):
        if not state.is_terminal():
            seen = read_tensor(state, spec, player=state.current_player()).tobytes()
            if positions.setdefault(seen, str(state)) != str(state):
                return False
    return True


class MCTSAgent:
    """Searches the observed position, with a new tree for every decision.

    It finds the position by search from its last decision in the match: the nearest position in which it is the agent's
    turn and the tensor equals the observation.

    Args:
        config: Options of the search.
        spec: Spec of the game.
    """

    def __init__(self, config: MCTSConfig, spec: OpenSpielSpec) -> None:
        self._config, self._spec = config, spec
        self._game, self._pyspiel = load_game(spec.game), load_pyspiel()
        self._all_players = frozenset(range(self._game.num_players()))
        # Seat id → position after the agent's last decision, and the players that the agent may be.
        self._last_positions: dict[int, tuple[Any, frozenset[int]]] = {}

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - the game defines legal moves
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Search for every row, see `ludus.agent.Agent`.

        Raises:
            ContractError: A position cannot be reached from the agent's last decision.
        """
        actions = np.empty((seat_ids.size, 1), np.int64)
        seeds = rng.integers(2**31, size=seat_ids.size).tolist()
        for row, (seat_id, seed) in enumerate(zip(seat_ids.tolist(), seeds, strict=True)):
            state = self._find_position(seat_id, observation["obs"][row])
            action = self._make_searcher(seed).step(state)
            self._last_positions[seat_id] = state.child(action), frozenset({state.current_player()})
            actions[row] = action
        return actions

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the positions of these seats."""
        for seat_id in seat_ids.tolist():
            self._last_positions.pop(seat_id, None)

    def _find_position(self, seat_id: int, seen: np.ndarray) -> Any:
        """Return the nearest position since the last decision whose tensor is ``seen [...]``."""
        start = self._last_positions.get(seat_id) or (self._game.new_initial_state(), self._all_players)
        wanted, queue, known = seen.tobytes(), deque([start]), set()
        for _ in range(_MAX_POSITIONS):
            if not queue:
                break
            state, players = queue.popleft()
            player = state.current_player()
            if player >= 0:
                shown = read_tensor(state, self._spec, player=player).tobytes()
                if shown == wanted and player in players:
                    return state
                players -= {player}  # the agent acts at each of its turns
                reached = player, shown, players
                if not players or reached in known:  # transpositions
                    continue
                known.add(reached)
            queue.extend((state.child(action), players) for action in state.legal_actions())
        raise ContractError(
            f"openspiel-mcts cannot find the observed position of {self._spec.game}; it must act at every turn of its "
            f"seat, with observations that show the whole position"
        )

    def _make_searcher(self, seed: int) -> Any:
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
