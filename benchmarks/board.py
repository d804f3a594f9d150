"""How fast the board games and their agents are, on one core: ``python benchmarks/board.py``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from ludus.agent import Agent
from ludus_board.config import MinimaxConfig
from ludus_board.environment import BoardEnvironment, make_connect4, make_tictactoe
from ludus_board.minimax import MinimaxAgent
from ludus_board.perfect import PerfectAgent
from ludus_board.random_agent import RandomAgent

BATCHES = (64, 256, 1024)
SECONDS = 1.0


def play(environment: BoardEnvironment, agent: Agent) -> tuple[int, float]:
    """Play seat 0 by the agent and seat 1 at random; return the agent's decisions and its CPU seconds."""
    rng = np.random.default_rng(0)
    rows = np.arange(environment.num_matches)
    other = RandomAgent(None, spec=environment.spec, role="player")
    tick = environment.reset(rows.astype(np.uint64))
    player = tick.roles["player"]
    actions = np.zeros((environment.num_matches, 2, 1), np.int64)
    decisions, spent, end = 0, 0.0, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for seat, who in enumerate((agent, other)):
            acting = np.flatnonzero(player.acting[:, seat])
            seen = {"obs": player.observation["obs"][acting, seat]}
            mask = None if player.action_mask is None else player.action_mask[acting, seat]
            start = time.process_time()
            actions[acting, seat] = who.act(seen, action_mask=mask, seat_ids=acting, rng=rng)
            if who is agent:
                decisions, spent = decisions + len(acting), spent + time.process_time() - start
        step(environment, actions)
    return decisions, spent


def step(environment: BoardEnvironment, actions: np.ndarray) -> None:
    """Step once and reset what has ended."""
    tick = environment.step({"player": actions})
    if tick.terminated.any():
        ended = np.flatnonzero(tick.terminated)
        environment.reset(ended.astype(np.uint64), indices=ended)


def plies_per_second(environment: BoardEnvironment) -> float:
    """Return random plies per CPU second, choosing the moves included."""
    rng = np.random.default_rng(0)
    agent = RandomAgent(None, spec=environment.spec, role="player")
    rows = np.arange(environment.num_matches)
    player = environment.reset(rows.astype(np.uint64)).roles["player"]
    plies, start = 0, time.process_time()
    while time.process_time() < start + SECONDS:
        mask = None if player.action_mask is None else player.action_mask[:, 0]
        move = agent.act({}, action_mask=mask, seat_ids=rows, rng=rng)
        step(environment, np.repeat(move[:, None], 2, axis=1))
        plies += environment.num_matches
    return plies / (time.process_time() - start)


def report_agent(name: str, make: Callable[..., BoardEnvironment], kind: type, config: object) -> None:
    """Print one agent's decisions per CPU second in each batch size."""
    rates = []
    for batch in BATCHES:
        environment = make(None, num_matches=2 * batch)  # about half of the rows are the agent's to move
        decisions, spent = play(environment, kind(config, spec=environment.spec, role="player"))
        rates.append(decisions / spent)
    print(f"{name:32}" + "".join(f"{rate:>14,.0f}" for rate in rates) + "  decisions/s")


def main() -> None:
    """Print a table with one column per batch size."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(f"{'matches':32}" + "".join(f"{batch:>14}" for batch in BATCHES))
    for make in (make_tictactoe, make_connect4):
        rates = [plies_per_second(make(None, num_matches=batch)) for batch in BATCHES]
        name = make(None, num_matches=1).spec.name
        print(f"{name + ', random play':32}" + "".join(f"{rate:>14,.0f}" for rate in rates) + "  plies/s")
    report_agent("tictactoe-perfect", make_tictactoe, PerfectAgent, None)
    for depth in (1, 2, 3, 4, 5):
        report_agent(f"connect4-minimax, depth {depth}", make_connect4, MinimaxAgent, MinimaxConfig(depth=depth))
    for depth in (1, 2, 3):
        config = MinimaxConfig(depth=depth, evaluate="windows")
        report_agent(f"connect4-minimax, windows {depth}", make_connect4, MinimaxAgent, config)


if __name__ == "__main__":
    main()
