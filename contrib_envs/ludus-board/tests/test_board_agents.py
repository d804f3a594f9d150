"""The scripted agents: legal moves, random choices among equal ones, and playing strength."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from ludus.agent import EvaluatingAgent, RandomAgent
from ludus_board import bitboard
from ludus_board.config import MinimaxConfig
from ludus_board.environment import BoardEnvironment, make_connect4, make_tictactoe
from ludus_board.minimax import MinimaxAgent, move_values
from ludus_board.perfect import PerfectAgent
from ludus_board.plugin import ludus_register_agents

WIDTH, HEIGHT = 7, 6  # of Connect Four
LINES = ({0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {0, 3, 6}, {1, 4, 7}, {2, 5, 8}, {0, 4, 8}, {2, 4, 6})  # of Tic-Tac-Toe


def agent_for(environment: BoardEnvironment, kind: type, config: object = None) -> object:
    """Make an agent for the environment's one role."""
    return kind(config, spec=environment.spec, role="player")


def results(environment: BoardEnvironment, agents: tuple, matches: int) -> np.ndarray:
    """Return wins, draws and losses of the agent in seat 0 over at least so many matches."""
    rng = np.random.default_rng(0)
    seeds = np.arange(environment.num_matches, dtype=np.uint64)
    player = environment.reset(seeds).roles["player"]
    counts = np.zeros(3, int)
    while counts.sum() < matches:
        actions = np.zeros((environment.num_matches, 2, 1), np.int64)
        for seat, agent in enumerate(agents):
            rows = np.flatnonzero(player.acting[:, seat])
            seen, mask = {"obs": player.observation["obs"][rows, seat]}, player.action_mask[rows, seat]
            actions[rows, seat] = agent.act(seen, action_mask=mask, seat_ids=rows, rng=rng)
        tick = environment.step({"player": actions})
        ended = np.flatnonzero(tick.terminated)
        counts += [int((tick.outcome[ended, 0] == points).sum()) for points in (1.0, 0.5, 0.0)]
        environment.reset(seeds[ended], indices=ended)
    return counts


def act(agent: object, observation: np.ndarray, *, mask: np.ndarray | None = None) -> np.ndarray:
    """Return the actions of the agent, with a fixed seed."""
    n = len(observation)
    rng = np.random.default_rng(1)
    return agent.act({"obs": observation}, action_mask=mask, seat_ids=np.arange(n), rng=rng)


# --- a slow Connect Four: a position is a tuple of columns, each a tuple of 0 (own) and 1 (the opponent's) -----------


def slow_won(position: tuple, side: int) -> bool:
    """Return whether a side has four in a row."""

    def at(column: int, row: int) -> bool:
        inside = 0 <= column < WIDTH and 0 <= row < HEIGHT
        return inside and row < len(position[column]) and position[column][row] == side

    return any(
        all(at(c + i * dc, r + i * dr) for i in range(4))
        for c in range(WIDTH)
        for r in range(HEIGHT)
        for dc, dr in ((1, 0), (0, 1), (1, 1), (1, -1))
    )


def slow_play(position: tuple, column: int) -> tuple:
    """Return the position after the side to move played the column, seen by the other side."""
    after = [*position[:column], (*position[column], 0), *position[column + 1 :]]
    return tuple(tuple(1 - stone for stone in stones) for stones in after)


@functools.cache
def slow_value(position: tuple, depth: int, *, windows: bool) -> float:
    """Return the minimax value of an undecided position to the side to move, as `move_values` counts it."""
    moves = [column for column in range(WIDTH) if len(position[column]) < HEIGHT]
    if not moves:
        return 0.0
    if depth == 0:
        return slow_windows(position) if windows else 0.0
    return max(slow_move(position, column, depth, windows=windows) for column in moves)


def slow_move(position: tuple, column: int, depth: int, *, windows: bool) -> float:
    """Return the minimax value of a column that has room."""
    after = slow_play(position, column)
    if slow_won(after, 1):
        return 99.0
    value = -slow_value(after, depth - 1, windows=windows)
    return value - np.sign(value) if abs(value) > 1 else value


def slow_windows(position: tuple) -> float:
    """Return the value of counting open rows, as `bitboard.open_rows` documents it."""
    cells = {(c, r): stone for c, stones in enumerate(position) for r, stone in enumerate(stones)}
    score = 3 * sum({0: 1, 1: -1}[stone] for stone in position[3])
    for c in range(WIDTH):
        for r in range(HEIGHT):
            for dc, dr in ((1, 0), (0, 1), (1, 1), (1, -1)):
                row = [(c + i * dc, r + i * dr) for i in range(4)]
                if all(0 <= x < WIDTH and 0 <= y < HEIGHT for x, y in row):
                    stones = [cells[cell] for cell in row if cell in cells]
                    if len(set(stones)) == 1:
                        score += {2: 2, 3: 5}.get(len(stones), 0) * (1 if stones[0] == 0 else -1)
    return score / (abs(score) + 50)


def random_positions(count: int, *, seed: int, plies: tuple[int, int] = (4, 36)) -> list:
    """Return undecided positions after so many random plies (from, to) that do not win."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < count:
        position, wanted = ((),) * WIDTH, int(rng.integers(plies[0], plies[1] + 1))
        for _ in range(wanted):
            moves = [column for column in range(WIDTH) if len(position[column]) < HEIGHT]
            after = slow_play(position, int(rng.choice(moves)))
            position = position if slow_won(after, 1) else after
        if sum(map(len, position)) >= plies[0]:
            found.append(position)
    return found


def observed(positions: list) -> np.ndarray:
    """Return the observations ``[n, 6, 7, 2]`` of the side to move."""
    seen = np.zeros((len(positions), HEIGHT, WIDTH, 2), np.int8)
    for number, position in enumerate(positions):
        for column, stones in enumerate(position):
            for height, stone in enumerate(stones):
                seen[number, HEIGHT - 1 - height, column, stone] = 1
    return seen


@pytest.mark.parametrize(
    ("depth", "windows", "count"),
    [(1, False, 60), (2, False, 60), (3, False, 40), (4, False, 12), (1, True, 40), (2, True, 20), (3, True, 8)],
)
def test_move_values_are_those_of_a_slow_minimax(depth, windows, count):
    """Every column of random positions has the value of plain recursive minimax, full columns none."""
    positions = random_positions(count, seed=depth)
    own, other = bitboard.decode(observed(positions))
    values = move_values(own, other, depth=depth, windows=windows)
    for position, found in zip(positions, values, strict=True):
        expected = [
            slow_move(position, column, depth, windows=windows) if len(position[column]) < HEIGHT else -1000.0
            for column in range(WIDTH)
        ]
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("depth", "windows"), [(2, False), (3, False), (4, False), (8, False), (3, True), (8, True)])
def test_values_near_the_end_are_those_of_a_slow_minimax(depth, windows):
    """With two to eight empty cells there are forced wins, forced losses and full boards within the horizon."""
    positions = random_positions(60, seed=9, plies=(34, 40))
    own, other = bitboard.decode(observed(positions))
    found = move_values(own, other, depth=depth, windows=windows)
    expected = [
        [slow_move(p, c, depth, windows=windows) if len(p[c]) < HEIGHT else -1000.0 for c in range(WIDTH)]
        for p in positions
    ]
    assert found == pytest.approx(np.array(expected), abs=1e-6)


def test_large_and_small_batches_give_equal_values():
    """A batch that is searched in chunks has the values of its parts."""
    own, other = bitboard.decode(observed(random_positions(20, seed=3)))
    many = move_values(np.tile(own, 400), np.tile(other, 400), depth=4)
    assert (many.reshape(400, 20, 7) == move_values(own, other, depth=4)).all()


def test_minimax_takes_a_win_and_blocks():
    """With three in column 2, both sides play there."""
    three = ((), (), (0, 0, 0), (1, 1), (1,), (), ())
    turned = tuple(tuple(1 - stone for stone in stones) for stones in three)
    environment = make_connect4(None, num_matches=1)
    agent = agent_for(environment, MinimaxAgent, MinimaxConfig(depth=2))
    assert act(agent, observed([three, turned])).tolist() == [[2], [2]]


def test_minimax_breaks_ties_at_random():
    """On the empty board depth 3 finds no difference, so every column is chosen."""
    environment = make_connect4(None, num_matches=1)
    agent = agent_for(environment, MinimaxAgent, MinimaxConfig())
    counts = np.bincount(act(agent, np.zeros((7000, 6, 7, 2), np.int8))[:, 0], minlength=7)
    assert (abs(counts - 1000) < 150).all()


def test_deeper_minimax_is_stronger():
    """Depth 4 wins most matches against depth 1, which wins most against random."""
    environment = make_connect4(None, num_matches=64)
    deep, shallow = (agent_for(environment, MinimaxAgent, MinimaxConfig(depth=depth)) for depth in (4, 1))
    random = agent_for(environment, RandomAgent)
    assert results(environment, (deep, shallow), 200)[0] > 170
    assert results(environment, (shallow, random), 200)[0] > 140


def test_windows_beat_a_blind_horizon():
    """At equal depth the agent that counts open rows wins almost always."""
    environment = make_connect4(None, num_matches=32)
    agents = [agent_for(environment, MinimaxAgent, MinimaxConfig(depth=2, evaluate=way)) for way in ("windows", "zero")]
    assert results(environment, tuple(agents), 64)[0] > 55


def test_minimax_evaluates_wins_losses_and_the_unknown():
    """The value is 1 with a win at hand, -1 against two threats, 0 on the empty board."""
    win = ((), (), (0, 0, 0), (1, 1), (1,), (), ())
    lost = ((), (), (1,), (1,), (1,), (), ())
    agent = agent_for(make_connect4(None, num_matches=1), MinimaxAgent, MinimaxConfig(depth=2))
    values = agent.evaluate({"obs": observed([win, lost, ((),) * 7])}, None)
    assert values.dtype == np.float32
    assert values.tolist() == [1.0, -1.0, 0.0]


@pytest.mark.parametrize(
    ("make", "kind", "config"),
    [(make_tictactoe, PerfectAgent, None), (make_connect4, MinimaxAgent, MinimaxConfig(depth=3, evaluate="windows"))],
    ids=["perfect", "minimax"],
)
def test_evaluating_changes_no_decision(make, kind, config):
    """`act_and_evaluate` equals `act` and `evaluate` throughout a match against the random agent."""
    environment = make(None, num_matches=32)
    agent, random = agent_for(environment, kind, config), agent_for(environment, RandomAgent)
    assert isinstance(agent, EvaluatingAgent)
    player = environment.reset(np.arange(32, dtype=np.uint64)).roles["player"]
    seen, seat_ids = set(), np.arange(32)
    for ply in range(7):
        rows = player.acting[:, ply % 2].copy()
        at, obs = seat_ids[rows], {"obs": player.observation["obs"][rows, ply % 2]}
        mask = player.action_mask[rows, ply % 2]
        actions, values = agent.act_and_evaluate(obs, action_mask=mask, seat_ids=at, rng=np.random.default_rng(ply))
        again = agent.act(obs, action_mask=mask, seat_ids=at, rng=np.random.default_rng(ply))
        assert np.array_equal(actions, again)
        assert values.dtype == np.float32
        assert np.array_equal(values, agent.evaluate(obs, mask))
        seen |= set(np.sign(values))
        mover = agent if ply % 2 == 0 else random
        chosen = mover.act(obs, action_mask=mask, seat_ids=at, rng=np.random.default_rng(ply))
        everyone = np.zeros((32, 2, 1), np.int64)
        everyone[rows, ply % 2] = chosen
        player = environment.step({"player": everyone}).roles["player"]
    assert len(seen) > 1


@pytest.mark.parametrize("seat", [0, 1])
def test_the_perfect_player_never_loses_to_random(seat):
    """2,000 matches in each seat, many of them won."""
    environment = make_tictactoe(None, num_matches=256)
    agents = [agent_for(environment, RandomAgent), agent_for(environment, RandomAgent)]
    agents[seat] = agent_for(environment, PerfectAgent)
    wins, _, losses = results(environment, tuple(agents), 2000)[:: 1 - 2 * seat]
    assert losses == 0
    assert wins > 1400


def test_perfect_players_draw():
    """Tic-Tac-Toe is a draw under perfect play."""
    environment = make_tictactoe(None, num_matches=256)
    perfect = agent_for(environment, PerfectAgent)
    assert results(environment, (perfect, perfect), 500).tolist()[::2] == [0, 0]


def test_the_value_of_tictactoe_is_zero_and_every_opening_keeps_it():
    """From the empty board all nine moves are best."""
    agent = agent_for(make_tictactoe(None, num_matches=1), PerfectAgent)
    empty = np.zeros((9000, 3, 3, 2), np.int8)
    assert (agent.evaluate({"obs": empty}, None) == 0).all()
    assert (abs(np.bincount(act(agent, empty)[:, 0], minlength=9) - 1000) < 150).all()


@functools.cache
def slow_tictactoe(own: frozenset, other: frozenset) -> int:
    """Return the game value to the side to move."""
    if any(line <= other for line in LINES):
        return -1
    free = [cell for cell in range(9) if cell not in own | other]
    return max((-slow_tictactoe(other, own | {cell}) for cell in free), default=0)


def test_the_table_is_that_of_a_slow_minimax():
    """Every position that can arise has the game value of plain recursion."""
    positions, seen = [], {(frozenset(), frozenset())}
    while seen:
        positions += seen
        seen = {
            (other, own | {cell})
            for own, other in seen
            for cell in set(range(9)) - own - other
            if not slow_over(other, own | {cell})
        }
    boards = np.array([[[cell in own, cell in other] for cell in range(9)] for own, other in positions], np.int8)
    agent = agent_for(make_tictactoe(None, num_matches=1), PerfectAgent)
    values = agent.evaluate({"obs": boards.reshape(-1, 3, 3, 2)}, None)
    assert len(positions) == 4520
    assert values.tolist() == [slow_tictactoe(own, other) for own, other in positions]


def slow_over(own: frozenset, other: frozenset) -> bool:
    """Return whether the match has ended, with `other` having moved last."""
    return len(own | other) == 9 or any(line <= other for line in LINES)


def test_agents_name_the_environments_they_fit():
    """Random fits everything, the others their game."""
    fits = {component.name: component.environments for component in ludus_register_agents()}
    assert fits == {"random": (), "tictactoe-perfect": ("tictactoe",), "connect4-minimax": ("connect4",)}


@pytest.mark.parametrize("component", ludus_register_agents(), ids=lambda c: c.name)
def test_agents_load_and_forget(component):
    """Factories and configurations import, and resets of seats are harmless."""
    environment = (
        make_tictactoe(None, num_matches=1) if "perfect" in component.name else make_connect4(None, num_matches=1)
    )
    config = component.load_config()
    agent = component.load_factory()(config and config(), spec=environment.spec, role="player")
    assert agent.reset(np.arange(3)) is None


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"depth": 9}, {"depth": 2.0}, {"depth": True}, {"evaluate": "magic"}])
def test_minimax_options_are_checked(wrong):
    """Depth is a whole number from 1 to 8; evaluate is one of two words."""
    with pytest.raises(ValueError, match="expected"):
        MinimaxConfig(**wrong)
