"""Environments, settings and timing that all peers share; needs only NumPy, Gymnasium and PettingZoo.

Connect Four is PettingZoo's `connect_four_v3` from the view of the player to move, so that one policy learns from both
seats and every ply is one decision. The value of the next state is that of the opponent, so gamma is -1.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

BATCH = 8192
MINIBATCH = 2048
HIDDEN = 256
BOARD = 84  # 6 rows x 7 columns x 2 players; the 7 legal moves follow in the same vector

Act = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Workload:
    """An environment and the settings of PPO that all peers share.

    Args:
        make: Makes one environment.
        inputs: Number of inputs of the network.
        actions: Number of actions.
        masked: Whether a mask of `actions` numbers follows the inputs in an observation.
        gamma: Discount per decision.
        gae_lambda: Decay of generalized advantages.
        ent_coef: Weight of the entropy bonus.
    """

    make: Callable[[], gymnasium.Env]
    inputs: int
    actions: int
    masked: bool
    gamma: float
    gae_lambda: float
    ent_coef: float
    learning_rate: float = 1e-3
    clip_epsilon: float = 0.2
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5


class ConnectFour(gymnasium.Env[np.ndarray, np.int64]):
    """Connect Four from the view of the player to move: board and legal moves, `[91] int8`."""

    observation_space = gymnasium.spaces.Box(0, 1, (BOARD + 7,), np.int8)
    action_space = gymnasium.spaces.Discrete(7)

    def __init__(self) -> None:
        from pettingzoo.classic import connect_four_v3  # noqa: PLC0415 - CartPole needs no PettingZoo

        self._env = connect_four_v3.env()
        self._raw = self._env.unwrapped  # reading through the wrappers takes a seventh of a ply
        self._observation = np.zeros(BOARD + 7, np.int8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a match."""
        self._env.reset(seed=seed, options=options)
        return self._observe(), {}

    def step(self, action: np.int64 | int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play one ply; the reward is that of the player who moved."""
        raw = self._raw
        player = raw.agent_selection
        self._env.step(int(action))
        ended = raw.terminations[player]
        return self._observation.copy() if ended else self._observe(), float(raw.rewards[player]), ended, False, {}

    def action_masks(self) -> np.ndarray:
        """Return the legal moves, `[7] bool`."""
        return self._observation[BOARD:].astype(bool)

    def _observe(self) -> np.ndarray:
        board = self._env.observe(self._raw.agent_selection)
        self._observation[:BOARD] = board["observation"].reshape(-1)
        self._observation[BOARD:] = board["action_mask"]
        return self._observation.copy()


WORKLOADS = {
    "connect4": Workload(ConnectFour, BOARD, 7, masked=True, gamma=-1.0, gae_lambda=0.8, ent_coef=0.01),
    "cartpole": Workload(
        lambda: gymnasium.make("CartPole-v1"), 4, 2, masked=False, gamma=0.99, gae_lambda=0.95, ent_coef=0.0
    ),
}


class Stopwatch:
    """Measures the rate between the first update after the warm-up and the first update after the window.

    Args:
        warmup_s: Seconds from the first update to the start of the window.
        window_s: Minimum length of the window in seconds.
    """

    def __init__(self, warmup_s: float, window_s: float) -> None:
        self._warmup_s, self._window_s = warmup_s, window_s
        self._first_s = 0.0
        self._start: tuple[float, int] | None = None
        self.rate = 0.0

    def lap(self, steps: int) -> bool:
        """Record the number of trained environment steps and return whether the window has ended."""
        now = time.perf_counter()
        self._first_s = self._first_s or now
        if self._start is None:
            if now - self._first_s >= self._warmup_s:
                self._start = (now, steps)
            return False
        start_s, before = self._start
        self.rate = (steps - before) / (now - start_s)
        return now - start_s >= self._window_s


def parse(*settings: str) -> argparse.Namespace:
    """Parse the command line of a peer with these integer settings."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", choices=tuple(WORKLOADS), required=True)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warmup", type=float, default=5.0)
    parser.add_argument("--score", action="store_true", help="play matches with the trained policy")
    parser.add_argument("--json", type=Path, required=True)
    for name in settings:
        parser.add_argument(f"--{name}", type=int, required=True, help="see settings.py")
    return parser.parse_args()


def report(args: argparse.Namespace, watch: Stopwatch, act: Act) -> None:
    """Write the result of a run as JSON."""
    result = {"rate": watch.rate}
    if args.score:
        result["score"] = SCORES[args.workload](act)
    args.json.write_text(json.dumps(result), encoding="utf-8")


def score_against_random(act: Act, matches: int = 400) -> float:
    """Return the share of points against random legal moves; the policy plays half of the matches as first player."""
    rng = np.random.default_rng(0)
    games = {i: ConnectFour() for i in range(matches)}
    observations = {i: game.reset()[0] for i, game in games.items()}
    rewards: list[float] = []
    ply = 0
    while games:
        own, others = ([i for i in games if (i + ply) % 2 == turn] for turn in (0, 1))
        actions = _actions(act, observations, own) | _random_actions(rng, observations, others)
        for i, action in actions.items():
            observations[i], reward, ended, _, _ = games[i].step(action)
            if ended:
                del games[i]
                rewards.append(reward if i in own else -reward)
        ply += 1
    return (1 + sum(rewards) / matches) / 2


def _actions(act: Act, observations: dict[int, np.ndarray], games: list[int]) -> dict[int, int]:
    return dict(zip(games, act(np.stack([observations[i] for i in games])), strict=True)) if games else {}


def _random_actions(
    rng: np.random.Generator, observations: dict[int, np.ndarray], games: list[int]
) -> dict[int, np.int64]:
    return {i: rng.choice(np.flatnonzero(observations[i][BOARD:])) for i in games}


def mean_return(act: Act, matches: int = 40) -> float:
    """Return the mean return in CartPole; the maximum is 500, a random policy has about 22."""
    envs = {i: WORKLOADS["cartpole"].make() for i in range(matches)}
    observations = {i: env.reset(seed=i)[0] for i, env in envs.items()}
    total = 0
    while observations:
        for i, action in zip(tuple(observations), act(np.stack(list(observations.values()))), strict=True):
            observations[i], _, terminated, truncated, _ = envs[i].step(int(action))
            total += 1
            if terminated or truncated:
                del observations[i]
    return total / matches


SCORES: dict[str, Callable[[Act], float]] = {"connect4": score_against_random, "cartpole": mean_return}
