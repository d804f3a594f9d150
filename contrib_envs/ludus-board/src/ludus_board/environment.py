"""A batch of matches of a two-player game of placing stones, defined by `Rules`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from ludus.controls import Controls
from ludus.environment import EnvironmentSpec, Role, Scenario, Tick, allocate_tick
from ludus.errors import ContractError
from ludus.rendering import Scene

from ludus_board import opening, scene, terminal
from ludus_board.rules import ConnectFour, Rules, TicTacToe


def make_tictactoe(config: None, *, num_matches: int) -> BoardEnvironment:  # noqa: ARG001 - the game has no options
    """Return a batch of Tic-Tac-Toe matches."""
    return BoardEnvironment(TicTacToe(), num_matches=num_matches)


def make_connect4(config: None, *, num_matches: int) -> BoardEnvironment:  # noqa: ARG001 - the game has no options
    """Return a batch of Connect Four matches."""
    return BoardEnvironment(ConnectFour(), num_matches=num_matches)


def _spec(rules: Rules) -> EnvironmentSpec:
    height, width = rules.shape
    player = Role(
        name="player",
        observation_space=spaces.Box(0, 1, (height, width, 2), np.int8),
        action_space=spaces.Discrete(rules.num_actions),
        teams=(0, 1),
        statistics=("stones", "centre"),
    )
    return EnvironmentSpec(
        name=rules.name,
        roles=(player,),
        turn="turn-based",
        max_ticks=height * width,
        scenarios=(opening.SCENARIO,),
        zero_sum=True,
        constant_sum=True,
        perfect_information=True,
        reward_range=(-1.0, 1.0),
        sparse_rewards=True,
    )


class BoardEnvironment:
    """A batch of matches. Seats observe the board from their own side: plane 0 own stones, plane 1 the opponent's.

    Row 0 is on top. Seat 0 moves first. Only the scenario ``random-opening`` uses the seed; after an odd number of
    opening plies seat 1 moves first.

    Args:
        rules: Rules of the game.
        num_matches: B, at least 1.
    """

    def __init__(self, rules: Rules, *, num_matches: int) -> None:
        self._rules = rules
        self.spec = _spec(rules)
        self.num_matches = num_matches
        self._all_matches = np.arange(num_matches)
        self._cells = rules.shape[0] * rules.shape[1]
        self._stones = np.zeros((num_matches, 2), np.int64)
        self._plies = np.zeros(num_matches, np.int64)
        self._seat = np.zeros(num_matches, np.int64)  # seat to move
        self._running = np.zeros(num_matches, bool)
        self._tick = allocate_tick(self.spec, num_matches, masked_roles=("player",))
        self._player = self._tick.roles["player"]
        self._obs = self._player.observation["obs"].reshape(-1)  # views, for flat indices
        self._mask = self._player.action_mask.reshape(-1)  # type: ignore[union-attr]

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches; see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: A scenario or one of its parameters is unknown.
        """
        indices = self._all_matches if indices is None else np.asarray(indices, np.int64)
        opening_plies = opening.opening_plies(scenarios, len(indices), most=self._cells)
        self._stones[indices] = 0
        self._plies[indices] = 0
        self._seat[indices] = 0
        self._running[indices] = True
        self._player.observation["obs"][indices] = 0
        self._tick.clear(indices)
        if opening_plies is None:
            self._player.acting[indices] = (True, False)
            self._player.action_mask[indices] = True  # type: ignore[index]
        else:
            opening.play_openings(
                self._rules,
                np.asarray(seeds, np.uint64),
                opening_plies,
                lambda at, move: self._place(indices[at], move),
            )
            self._update_masks()
        return self._tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Place one stone in every running match; see `ludus.environment.Environment.step`.

        Raises:
            ContractError: A move is illegal; no match has been advanced.
        """
        indices = self._all_matches if self._running.all() else np.flatnonzero(self._running)
        moves = np.asarray(actions["player"]).ravel().take(2 * indices + self._seat.take(indices))
        self._require_legal(indices, moves)
        self._player.reward.fill(0)
        self._tick.terminated.fill(False)
        won = self._place(indices, moves)
        ended = won | (self._plies[indices] == self._cells)
        if ended.any():
            self._finish(indices[ended], won[ended])
        self._update_masks()
        return self._tick

    def close(self) -> None:
        """Do nothing; there is nothing to free."""

    def _require_legal(self, indices: np.ndarray, moves: np.ndarray) -> None:
        """Raise ContractError for the first illegal move."""
        known = (moves >= 0) & (moves < self._rules.num_actions)
        legal = known & self._mask.take(indices * (2 * self._rules.num_actions) + moves, mode="clip")
        if not legal.all():
            at = int(np.argmin(legal))
            match = indices[at]
            raise ContractError(
                f"{self.spec.name}: seat {self._seat[match]} of role 'player' in match {match} chose the illegal "
                f"action {moves[at]} ({self._place_name(int(moves[at]))}) on ply {self._plies[match]}; choose one "
                f"that action_mask allows"
            )

    def _place_name(self, move: int) -> str:
        known = 0 <= move < self._rules.num_actions
        return terminal.place_name(self._rules, move) if known else f"there are {self._rules.num_actions} actions"

    def _place(self, indices: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Place a stone of the seat to move in each match, pass the turn, and return ``[n] bool``: it won."""
        seat = self._seat.take(indices)
        stones = self._stones.reshape(-1)
        mine = 2 * indices + seat
        theirs = mine ^ 1
        own = stones.take(mine)
        bits, cells = self._rules.place(own | stones.take(theirs), moves)
        own |= bits
        stones[mine] = own
        self._obs[2 * (mine * self._cells + cells)] = 1
        self._obs[2 * (theirs * self._cells + cells) + 1] = 1
        self._plies[indices] += 1
        self._seat[indices] = 1 - seat
        return self._rules.won(own)

    def _finish(self, indices: np.ndarray, won: np.ndarray) -> None:
        """Score ended matches: the seat that moved last has won, or the board is full."""
        last = 1 - self._seat[indices]
        points = won.astype(np.float32)
        self._running[indices] = False
        self._tick.terminated[indices] = True
        self._player.reward[indices, last] = points
        self._player.reward[indices, 1 - last] = -points
        self._tick.outcome[indices, last] = 0.5 + 0.5 * points
        self._tick.outcome[indices, 1 - last] = 0.5 - 0.5 * points
        own = self._player.observation["obs"][indices, ..., 0]  # [n, 2, rows, columns]
        self._player.statistics["stones"][indices] = stones = own.sum(axis=(2, 3))
        self._player.statistics["centre"][indices] = own[..., own.shape[-1] // 2].sum(axis=2) / stones.clip(1)

    def _update_masks(self) -> None:
        """Write acting seats and masks."""
        np.logical_and(self._running, self._seat == 0, out=self._player.acting[:, 0])
        np.logical_and(self._running, self._seat == 1, out=self._player.acting[:, 1])
        legal = self._rules.legal(self._stones[:, 0] | self._stones[:, 1])
        self._player.action_mask[:] = legal[:, None]  # type: ignore[index]

    def render(self, match: int) -> str:
        """Return the board of a match with ANSI colours and coordinates."""
        return terminal.render(self._rules, self._player.observation["obs"][match, 0])

    def render_frame(self, match: int) -> Scene:
        """Return the board of a match, see `ludus.rendering.Renderable`."""
        return scene.draw_scene(self._rules, self._player.observation["obs"][match, 0])

    def controls(self, role: str, seat: int) -> Controls:  # noqa: ARG002 - equal for both seats
        """Return the controls: numbers and clicks place stones; see `ludus.controls.Controllable`."""
        numbers = [str(action + 1) for action in range(self._rules.num_actions)]
        return Controls(
            keys={number: number for number in numbers},
            point=lambda _, x, y: terminal.action_at(self._rules, x - scene.MARGIN, y),
            pointing="a click places a stone",
        )

    def action_name(self, role: str, action: np.ndarray) -> str:  # noqa: ARG002 - there is one role
        """Return the name of the action."""
        return terminal.action_name(self._rules, int(action[0]))

    def parse_action(self, role: str, text: str) -> np.ndarray:  # noqa: ARG002 - there is one role
        """Parse a typed action into ``[1] int64``.

        Raises:
            ValueError: The text is not an action; the message lists what is.
        """
        return np.array([terminal.parse_action(self._rules, text)], np.int64)
