"""OpenSpiel's bots as agents."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ludus.environment import EnvironmentSpec
from ludus.errors import ConfigError, ContractError
from ludus_openspiel import cfr, mcts
from ludus_openspiel.config import CFRConfig, MCTSConfig, OpenSpielConfig
from ludus_openspiel.environment import make_environment
from ludus_openspiel.games import make_spec
from ludus_openspiel.tree import information_states


class Anybody:
    """Draws legal actions."""

    def act(self, observation, *, action_mask, seat_ids, rng):
        return (rng.random(action_mask.shape) * action_mask).argmax(axis=1)[:, None]

    def reset(self, seat_ids):
        pass


class Wanderer(Anybody):
    """Moves the cursor of Cursor Go for many moves before it places a stone."""

    def act(self, observation, *, action_mask, seat_ids, rng):
        moves = action_mask & [True, True, True, True, rng.random() < 0.1, False]
        moves |= action_mask & ~moves.any(axis=1, keepdims=True)  # the rules let it go so far only
        return super().act(observation, action_mask=moves, seat_ids=seat_ids, rng=rng)


def returns(game, agents, matches, seed=0, **options):
    """Return the mean returns per seat of a batch of matches between one agent per seat."""
    env = make_environment(OpenSpielConfig(game=game, **options), num_matches=matches)
    rng, seats = np.random.default_rng(seed), len(agents)
    tick, total = env.reset(np.arange(matches, dtype=np.uint64) + seed * 1000), np.zeros((matches, seats))
    seat_ids = np.arange(matches)[:, None] * seats + np.arange(seats)
    for agent in agents:
        agent.reset(seat_ids.ravel())
    while tick.roles["player"].acting.any():
        role, actions = tick.roles["player"], np.zeros((matches, seats, 1), np.int64)
        for seat, agent in enumerate(agents):
            rows = np.flatnonzero(role.acting[:, seat])
            if rows.size:
                seen, mask = {"obs": role.observation["obs"][rows, seat].copy()}, role.action_mask[rows, seat]
                actions[rows, seat] = agent.act(seen, action_mask=mask, seat_ids=seat_ids[rows, seat], rng=rng)
        tick = env.step({"player": actions})
        total += tick.roles["player"].reward
    return total.mean(axis=0)


def spec_of(game, observation="auto"):
    """Return a game's spec."""
    return make_spec(game, observation=observation, max_ticks=0)


def searcher(game, **options):
    """Return a tree search."""
    return mcts.make_agent(MCTSConfig(**options), spec=spec_of(game), role="player")


@pytest.mark.parametrize("seat", [0, 1])
def test_mcts_beats_random_play(seat):
    """In Tic-Tac-Toe, from either seat."""
    agents = [Anybody(), Anybody()]
    agents[seat] = searcher("tic_tac_toe", simulations=100)
    assert returns("tic_tac_toe", agents, 60)[seat] > 0.7


def test_mcts_draws_against_itself():
    """Both sides see every threat with enough simulations."""
    agents = [searcher("tic_tac_toe", simulations=1000) for _ in range(2)]
    assert abs(returns("tic_tac_toe", agents, 6)).max() == 0


def test_more_simulations_are_stronger():
    """A larger tree wins in Connect Four."""
    agents = [searcher("connect_four", simulations=10), searcher("connect_four", simulations=300)]
    assert returns("connect_four", agents, 12)[1] > 0.4


def test_mcts_follows_consecutive_moves_of_a_player():
    """A player that completes a box moves again, so that the other one waits for several moves."""
    agents = [Anybody(), searcher("dots_and_boxes", simulations=30)]
    assert returns("dots_and_boxes", agents, 10)[1] > 0.2


@pytest.mark.parametrize("seat", [0, 1])
def test_mcts_follows_many_moves_before_its_turn(seat):
    """Ten and more moves of the opponent, between two decisions or before the first one."""
    agents = [Wanderer(), Wanderer()]
    agents[seat] = searcher("cursor_go", simulations=2)
    assert returns("cursor_go", agents, 2, max_ticks=250).tolist() == [0, 0]  # the match is not decided


def test_mcts_forgets_the_last_match():
    """A reset seat starts its search at the initial state."""
    agent = searcher("tic_tac_toe", simulations=20)
    for seed in (0, 1):
        assert returns("tic_tac_toe", [agent, Anybody()], 5, seed)[0] > 0


def test_mcts_repeats_itself():
    """Its actions depend only on the given random generator."""
    one, two = (returns("connect_four", [searcher("connect_four", simulations=5)] * 2, 5).tolist() for _ in range(2))
    assert one == two


def test_mcts_raises_for_unreachable_positions():
    """It does not guess a move."""
    agent = searcher("tic_tac_toe")
    with pytest.raises(ContractError, match="cannot find the observed position"):
        agent.act(
            {"obs": np.full((1, 3, 3, 3), 5, np.float32)},
            action_mask=np.ones((1, 9), bool),
            seat_ids=np.zeros(1, np.int64),
            rng=np.random.default_rng(0),
        )


@pytest.mark.parametrize("game", ["kuhn_poker", "markov_soccer", "2048", "pig"])
def test_mcts_rejects_hidden_simultaneous_and_chance_games(game):
    """Hidden information, simultaneous moves, intermediate rewards and chance are not supported."""
    with pytest.raises(ConfigError, match="expected a turn-based game of perfect information without chance"):
        searcher(game)


@pytest.mark.parametrize("game", ["quoridor(board_size=5)", "hive"])
def test_mcts_rejects_games_with_incomplete_tensors(game):
    """Walls of Quoridor and the numbers of pieces in Hive are in no tensor, so legal moves would be unknown."""
    with pytest.raises(ConfigError, match=r"different moves of .* give equal observation tensors"):
        searcher(game)


def test_mcts_rejects_games_written_in_python():
    """OpenSpiel's search would terminate the process."""
    with pytest.raises(ConfigError, match="expected a game that OpenSpiel has in"):
        searcher("python_tic_tac_toe")


def test_cfr_plays_for_the_value_of_the_game():
    """In Kuhn poker the second seat wins 1/18 of a chip between perfect players."""
    agent = cfr.make_agent(CFRConfig(iterations=200), spec=spec_of("kuhn_poker"), role="player")
    assert returns("kuhn_poker", [agent, agent], 8000)[0] == pytest.approx(-1 / 18, abs=0.05)


def test_cfr_beats_random_play():
    """From both seats of Leduc poker, well ahead of what chance explains."""
    agent = cfr.make_agent(CFRConfig(iterations=5), spec=spec_of("leduc_poker"), role="player")
    assert returns("leduc_poker", [agent, Anybody()], 2000)[0] > 0.3
    assert returns("leduc_poker", [Anybody(), agent], 2000)[1] > 0.3


def test_cfr_returns_its_probabilities():
    """Exploitability is computed from them, not estimated."""
    spec = spec_of("kuhn_poker")
    states = information_states(spec)
    agent = cfr.make_agent(CFRConfig(), spec=spec, role="player")
    found = agent.probabilities({"obs": states.observation[::-1]}, action_mask=None, state={})
    expected = cfr.solve("kuhn_poker", states, iterations=100, variant="cfr+")
    assert (found == expected[::-1]).all()


@pytest.mark.parametrize(
    ("game", "observation", "problem"),
    [
        ("leduc_poker", "observation", 'have equal observation tensors; use observation = "information_state"'),
        ("dark_hex(board_size=2)", "information_state", "have equal information_state tensors; expected another game"),
        ("nim(pile_sizes=2;2)", "auto", "have equal observation tensors; expected another game"),
    ],
)
def test_cfr_needs_distinct_tensors(game, observation, problem, monkeypatch):
    """A tensor that is equal in different information states raises before solving, with an alternative."""
    monkeypatch.setattr(cfr, "solve", lambda *args, **options: pytest.fail("solved"))
    with pytest.raises(ConfigError, match=re.escape(problem)):
        cfr.make_agent(CFRConfig(), spec=spec_of(game, observation), role="player")


def test_cfr_needs_information_states():
    """OpenSpiel does not provide them for every game."""
    with pytest.raises(ConfigError, match="pig: OpenSpiel does not provide information states"):
        cfr.make_agent(CFRConfig(), spec=spec_of("pig"), role="player")


@pytest.mark.parametrize(
    "make", [lambda **k: cfr.make_agent(CFRConfig(), **k), lambda **k: mcts.make_agent(MCTSConfig(), **k)]
)
def test_agents_play_openspiel_only(make):
    """Another environment has no OpenSpiel game."""
    spec = spec_of("kuhn_poker")
    other = EnvironmentSpec(name="openspiel", roles=spec.roles, turn="turn-based")
    with pytest.raises(ConfigError, match="expected a game of the environment 'openspiel'"):
        make(spec=other, role="player")
