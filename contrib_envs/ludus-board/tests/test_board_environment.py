"""The two games against a slow referee, and the rest of what their environment promises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ludus import ContractError, Playable, Scenario
from ludus.rendering import Circle, Label
from ludus.testing import check_environment
from ludus_board.environment import BoardEnvironment, make_connect4, make_tictactoe
from ludus_board.plugin import ludus_register_environments

GAMES = {"tictactoe": (make_tictactoe, (3, 3), 3), "connect4": (make_connect4, (6, 7), 4)}


class Referee:
    """A simple reference of one match on a grid: None for empty cells, else the seat of the stone."""

    def __init__(self, game: str) -> None:
        _, (self.height, self.width), self.line = GAMES[game]
        self.columns = game == "connect4"
        self.grid = [[None] * self.width for _ in range(self.height)]

    def cell(self, action: int) -> tuple[int, int]:
        """Return where a stone of this action comes to rest; raise LookupError if it cannot."""
        if not self.columns:
            row, column = divmod(action, self.width)
            if self.grid[row][column] is not None:
                raise LookupError
            return row, column
        return max(row for row in range(self.height) if self.grid[row][action] is None), action

    def legal(self, action: int) -> bool:
        try:
            self.cell(action)
        except (LookupError, ValueError):
            return False
        return True

    def play(self, seat: int, action: int) -> bool:
        """Place a stone and return whether it completes a row."""
        row, column = self.cell(action)
        self.grid[row][column] = seat
        return any(self.length(seat, row, column, *step) >= self.line for step in ((0, 1), (1, 0), (1, 1), (1, -1)))

    def length(self, seat: int, row: int, column: int, down: int, right: int) -> int:
        total = 1
        for sign in (1, -1):
            r, c = row + sign * down, column + sign * right
            while 0 <= r < self.height and 0 <= c < self.width and self.grid[r][c] == seat:
                total, r, c = total + 1, r + sign * down, c + sign * right
        return total

    def observation(self, seat: int) -> list:
        return [[[cell == seat, cell == 1 - seat] for cell in line] for line in self.grid]


def reset(environment: BoardEnvironment, **more) -> object:
    """Reset all matches with the seeds 0, 1, …."""
    return environment.reset(np.arange(environment.num_matches, dtype=np.uint64), **more)


def both(*actions: int) -> dict:
    """Return the argument of `step`: the given action of each match, for both seats."""
    return {"player": np.repeat(np.array(actions)[:, None, None], 2, axis=1)}


def play_line(game: str, actions: list[int]) -> object:
    """Play one match and return its last tick."""
    environment = GAMES[game][0](None, num_matches=1)
    tick = reset(environment)
    for action in actions:
        tick = environment.step(both(action))
    return tick


@pytest.mark.parametrize("component", ludus_register_environments(), ids=lambda c: c.name)
def test_the_games_keep_the_contract(component):
    """Both games pass the kit, in this process and another."""
    check_environment(component)


@pytest.mark.parametrize("game", GAMES)
def test_random_games_agree_with_a_slow_referee(game):
    """Masks, observations, turns, ends, rewards and outcomes are the referee's in 100 random games at once."""
    make, shape, _ = GAMES[game]
    environment, rng = make(None, num_matches=100), np.random.default_rng(0)
    referees = [Referee(game) for _ in range(100)]
    player = reset(environment).roles["player"]
    over = np.zeros(100, bool)
    for ply in range(shape[0] * shape[1]):
        seat = ply % 2
        moves = np.zeros(100, np.int64)
        for row in np.flatnonzero(~over):
            assert player.acting[row].tolist() == [seat == 0, seat == 1]
            legal = [referees[row].legal(action) for action in range(player.action_mask.shape[2])]
            assert player.action_mask[row, seat].tolist() == legal
            moves[row] = rng.choice(np.flatnonzero(legal))
        tick = environment.step(both(*moves))
        for row in np.flatnonzero(~over):
            won = referees[row].play(seat, moves[row])
            points = [1.0, 0.0] if seat == 0 else [0.0, 1.0]
            over[row] = won or ply + 1 == shape[0] * shape[1]
            assert tick.terminated[row] == over[row]
            assert player.reward[row].tolist() == ([2 * p - 1 for p in points] if won else [0.0, 0.0])
            if over[row]:
                assert tick.outcome[row].tolist() == (points if won else [0.5, 0.5])
            for side in (0, 1):
                assert player.observation["obs"][row, side].tolist() == referees[row].observation(side)
    assert over.all()


CONNECT4_WINS = {
    "vertical": [0, 1, 0, 1, 0, 1, 0],
    "horizontal": [3, 3, 4, 4, 5, 5, 6],
    "rising": [0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3],
    "falling": [6, 5, 5, 4, 4, 3, 4, 3, 3, 0, 3],
}


@pytest.mark.parametrize("direction", CONNECT4_WINS)
def test_connect_four_is_won_in_every_direction(direction):
    """The first player wins with the last move of each line, and not before."""
    line = CONNECT4_WINS[direction]
    assert not play_line("connect4", line[:-1]).terminated[0]
    assert play_line("connect4", line).outcome[0].tolist() == [1.0, 0.0]


def test_connect_four_rows_do_not_run_over_the_edge():
    """Three stones on top of a column and one at the bottom of the next are no row of four."""
    tick = play_line("connect4", [0, 0, 1, 0, 0, 2, 0, 2, 0])  # column 0 is full, its top two stones are seat 0's
    assert not tick.terminated[0]
    assert not tick.roles["player"].action_mask[0, 1, 0]


TICTACTOE_LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


@pytest.mark.parametrize("cells", TICTACTOE_LINES)
def test_tictactoe_is_won_on_every_line(cells):
    """Seat 1 wins with three in a row while seat 0 scatters its stones."""
    others = [cell for cell in range(9) if cell not in cells]
    scattered = next(three for three in itertools.combinations(others, 3) if three not in TICTACTOE_LINES)
    moves = [move for pair in zip(scattered, cells, strict=True) for move in pair]
    assert not play_line("tictactoe", moves[:-1]).terminated[0]
    assert play_line("tictactoe", moves).outcome[0].tolist() == [0.0, 1.0]


# Three bands of two columns, filled so that no four equal stones meet.
CONNECT4_DRAW = [column for a, b in ((0, 1), (2, 3), (4, 5)) for column in (a, b, a, b, b, a, b, a, a, b, a, b)] + [
    6
] * 6


@pytest.mark.parametrize(("game", "actions"), [("tictactoe", [0, 1, 2, 4, 3, 5, 7, 6, 8]), ("connect4", CONNECT4_DRAW)])
def test_a_full_board_without_a_row_is_a_draw(game, actions):
    """The last stone ends the match with half a point each and no reward."""
    tick = play_line(game, actions)
    assert tick.terminated[0]
    assert tick.outcome[0].tolist() == [0.5, 0.5]
    assert tick.roles["player"].reward[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("action", [3, -1, 7])
def test_an_illegal_move_names_seat_match_and_column_and_changes_nothing(action):
    """Row 1 of three plays into a full column or off the board."""
    environment = make_connect4(None, num_matches=3)
    reset(environment)
    for _ in range(6):
        environment.step(both(0, 3, 0))
    with pytest.raises(ContractError, match=rf"seat 0 .* match 1 .* action {action} \(.*column|there are 7"):
        environment.step(both(1, action, 1))
    assert environment.step(both(1, 1, 1)).roles["player"].observation["obs"].sum() == 3 * 2 * 7


def test_the_error_counts_columns_as_people_do():
    """Action 3 is the fourth column."""
    environment = make_connect4(None, num_matches=1)
    reset(environment)
    for _ in range(6):
        environment.step(both(3))
    with pytest.raises(ContractError, match=r"connect4: seat 0 .* match 0 .* action 3 \(column 4\) on ply 6"):
        environment.step(both(3))


def test_actions_may_have_any_integer_type():
    """A caller may send int32."""
    environment = make_connect4(None, num_matches=1)
    reset(environment)
    environment.step({"player": np.zeros((1, 2, 1), np.int32)})


@pytest.mark.parametrize("game", GAMES)
def test_random_openings_are_running_matches_with_the_plies_asked_for(game):
    """400 openings of 1 to 5 plies: none has ended, the stones are counted, the right seat moves."""
    environment = GAMES[game][0](None, num_matches=400)
    plies = np.arange(400) % 5 + 1
    openings = [Scenario(name="random-opening", parameters={"plies": int(n)}) for n in plies]
    tick = reset(environment, scenarios=openings)
    player = tick.roles["player"]
    assert not tick.terminated.any()
    assert (player.observation["obs"][:, 0].sum(axis=(1, 2, 3)) == plies).all()
    assert (np.argmax(player.acting, axis=1) == plies % 2).all()
    assert player.action_mask[np.arange(400), plies % 2].any(axis=1).all()


def test_random_openings_differ_by_seed_and_are_even():
    """One ply: all nine cells come up about equally often in 9,000 matches."""
    environment = make_tictactoe(None, num_matches=9000)
    tick = reset(environment, scenarios=[Scenario(name="random-opening", parameters={"plies": 1})] * 9000)
    counts = tick.roles["player"].observation["obs"][:, 1, :, :, 1].sum(axis=0)
    assert (abs(counts - 1000) < 150).all()


def test_the_plies_of_an_opening_are_independent():
    """Two plies of Connect Four: all 49 pairs of columns come up about equally often in 9,800 matches."""
    environment = make_connect4(None, num_matches=9800)
    tick = reset(environment, scenarios=[Scenario(name="random-opening", parameters={"plies": 2})] * 9800)
    columns = tick.roles["player"].observation["obs"][:, 0].any(axis=1).argmax(axis=1)
    counts = np.bincount(columns[:, 0] * 7 + columns[:, 1], minlength=49)
    assert (abs(counts - 200) < 60).all()


def test_a_long_opening_stops_before_every_move_would_end_the_match():
    """Openings of 8 plies of Tic-Tac-Toe leave matches that still go on."""
    environment = make_tictactoe(None, num_matches=300)
    tick = reset(environment, scenarios=[Scenario(name="random-opening", parameters={"plies": 8})] * 300)
    player = tick.roles["player"]
    stones = player.observation["obs"][:, 0].sum(axis=(1, 2, 3))
    assert stones.max() == 8
    assert stones.min() < 8
    first = np.array([player.action_mask[row, player.acting[row].argmax()].argmax() for row in range(300)])
    environment.step(both(*first))


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(name="endgame"),
        Scenario(parameters={"plies": 1}),
        Scenario(name="random-opening", parameters={"ply": 1}),
        Scenario(name="random-opening", parameters={"plies": 2.5}),
        Scenario(name="random-opening", parameters={"plies": 42}),
        Scenario(name="random-opening", parameters={"plies": -1}),
    ],
)
def test_invalid_scenarios_raise(scenario):
    """An unknown name, an unknown parameter and impossible numbers are errors."""
    with pytest.raises(ContractError, match="scenario"):
        reset(make_connect4(None, num_matches=1), scenarios=[scenario])


def test_one_scenario_per_match_is_required():
    """One scenario for two matches raises."""
    with pytest.raises(ContractError, match="one scenario for each of 2 matches, got 1"):
        reset(make_connect4(None, num_matches=2), scenarios=[Scenario()])


@pytest.mark.parametrize(("text", "action"), [("1", 0), (" 7 ", 6)])
def test_columns_are_typed_from_one(text, action):
    """Connect Four reads columns 1 to 7."""
    environment = make_connect4(None, num_matches=1)
    assert isinstance(environment, Playable)
    assert environment.parse_action("player", text).tolist() == [action]
    assert environment.action_name("player", np.array([action])) == text.strip()


@pytest.mark.parametrize(("text", "action"), [("1", 0), ("9", 8), ("b2", 4), ("C1", 6)])
def test_cells_are_typed_as_number_or_name(text, action):
    """Tic-Tac-Toe reads 1 to 9 and a1 to c3."""
    environment = make_tictactoe(None, num_matches=1)
    assert environment.parse_action("player", text).tolist() == [action]
    assert environment.parse_action("player", environment.action_name("player", np.array([action]))) == action


@pytest.mark.parametrize(("make", "wanted"), [(make_connect4, "column from 1 to 7"), (make_tictactoe, "a1 to c3")])
def test_a_mistyped_action_lists_the_choices(make, wanted):
    """The message lists the choices and repeats the text."""
    with pytest.raises(ValueError, match=f"{wanted}, got 'help'"):
        make(None, num_matches=1).parse_action("player", "help")


def test_the_board_is_drawn_with_coordinates():
    """Seat 0 is a red X, seat 1 a yellow O, columns are numbered below."""
    environment = make_connect4(None, num_matches=2)
    reset(environment)
    environment.step(both(0, 3))
    environment.step(both(0, 4))
    lines = environment.render(1).splitlines()
    assert lines[-1].split() == list("1234567")
    assert lines[-2].split() == [".", ".", ".", "\x1b[31mX\x1b[0m", "\x1b[33mO\x1b[0m", ".", "."]
    assert len(lines) == 7


def test_the_board_is_drawn_as_a_scene():
    """Stones lie in their cells in the colours of their seats; columns and rows have their names."""
    environment = make_connect4(None, num_matches=1)
    environment.reset(np.zeros(1, np.uint64))
    environment.step({"player": np.full((1, 2, 1), 3)})
    environment.step({"player": np.full((1, 2, 1), 3)})
    scene = environment.render_frame(0)
    stones = {(s.x, s.y): s.color for s in scene.shapes if isinstance(s, Circle) and s.color != "#f4f6fa"}
    assert stones == {(4.0, 5.5): "#d55e00", (4.0, 4.5): "#f0c000"}
    assert [s.text for s in scene.shapes if isinstance(s, Label)] == list("1234567")
    cells = make_tictactoe(None, num_matches=1)
    cells.reset(np.zeros(1, np.uint64))
    assert [s.text for s in cells.render_frame(0).shapes if isinstance(s, Label)] == list("123abc")


def test_statistics_of_a_match():
    """Stones of each seat, and their share in the middle column, when the match ends."""
    game = make_connect4(None, num_matches=2)
    player = game.reset(np.zeros(2, np.uint64)).roles["player"]
    for column, other in zip([3, 0, 3, 0, 3, 1, 3], [0, 6, 1, 6, 2, 6, 3], strict=True):
        tick = game.step({"player": np.array([[[column]] * 2, [[other]] * 2])})
    assert tick.terminated.all()
    assert player.statistics["stones"].tolist() == [[4, 3], [4, 3]]
    assert player.statistics["centre"].tolist() == [[1, 0], [0.25, 0]]
