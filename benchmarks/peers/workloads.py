"""What every peer trains and how it is timed; needs no more than NumPy, Gymnasium and PettingZoo.

Connect Four is PettingZoo's `connect_four_v3`, seen by whoever is to move, so that both seats learn from one policy and
every ply is one decision. The next state belongs to the other player, whose value counts against the mover: that is
the ordinary advantage estimator with gamma -1 in place of 1.
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
        inputs: Numbers that the network sees.
        actions: Numbers to choose from.
        masked: Whether a mask of `actions` numbers follows the inputs in an observation.
        gamma: Discount per decision.
        gae_lambda: Decay of generalised advantages.
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


class Mover(gymnasium.Env[np.ndarray, np.int64]):
    """Connect Four as the player to move sees it: board and legal moves, `[91] int8`."""

    observation_space = gymnasium.spaces.Box(0, 1, (BOARD + 7,), np.int8)
    action_space = gymnasium.spaces.Discrete(7)

    def __init__(self) -> None:
        from pettingzoo.classic import connect_four_v3  # noqa: PLC0415  CartPole needs no PettingZoo

        self._env = connect_four_v3.env()
        self._raw = self._env.unwrapped  # what is read through the wrappers costs a seventh of a ply
        self._seen = np.zeros(BOARD + 7, np.int8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a match."""
        self._env.reset(seed=seed, options=options)
        return self._observe(), {}

    def step(self, action: np.int64 | int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play one ply; the reward is the mover's."""
        raw = self._raw
        mover = raw.agent_selection
        self._env.step(int(action))
        ended = raw.terminations[mover]
        return self._seen.copy() if ended else self._observe(), float(raw.rewards[mover]), ended, False, {}

    def action_masks(self) -> np.ndarray:
        """Return the legal moves, `[7] bool`."""
        return self._seen[BOARD:].astype(bool)

    def _observe(self) -> np.ndarray:
        seen = self._env.observe(self._raw.agent_selection)
        self._seen[:BOARD] = seen["observation"].reshape(-1)
        self._seen[BOARD:] = seen["action_mask"]
        return self._seen.copy()


WORKLOADS = {
    "connect4": Workload(Mover, BOARD, 7, masked=True, gamma=-1.0, gae_lambda=0.8, ent_coef=0.01),
    "cartpole": Workload(
        lambda: gymnasium.make("CartPole-v1"), 4, 2, masked=False, gamma=0.99, gae_lambda=0.95, ent_coef=0.0
    ),
}


class Stopwatch:
    """Times what lies between the first update after the warm-up and the first one after the window.

    Args:
        warmup_s: Seconds from the first update to the start of the window.
        window_s: Its length in seconds, at least.
    """

    def __init__(self, warmup_s: float, window_s: float) -> None:
        self._warmup_s, self._window_s = warmup_s, window_s
        self._first_s = 0.0
        self._start: tuple[float, int] | None = None
        self.rate = 0.0

    def lap(self, steps: int) -> bool:
        """Take the number of environment steps trained on so far; return whether the window is over."""
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
    """Read the command line of a peer that has these settings, all of them whole numbers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", choices=tuple(WORKLOADS), required=True)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warmup", type=float, default=5.0)
    parser.add_argument("--score", action="store_true", help="say how well the policy plays after training")
    parser.add_argument("--json", type=Path, required=True)
    for name in settings:
        parser.add_argument(f"--{name}", type=int, required=True, help="see settings.py")
    return parser.parse_args()


def report(args: argparse.Namespace, watch: Stopwatch, act: Act) -> None:
    """Write the result of one run."""
    result = {"rate": watch.rate}
    if args.score:
        result["score"] = SCORES[args.workload](act)
    args.json.write_text(json.dumps(result), encoding="utf-8")


def score_against_random(act: Act, matches: int = 400) -> float:
    """Return the share of points against random legal moves, from both seats alike; 0.5 is no better."""
    rng = np.random.default_rng(0)
    games = [Mover() for _ in range(matches)]
    seen = [game.reset()[0] for game in games]
    points, playing, ply = 0.0, list(range(matches)), 0
    while playing:
        mine = [i for i in playing if (i + ply) % 2 == 0]
        actions = dict(zip(mine, act(np.stack([seen[i] for i in mine])), strict=True)) if mine else {}
        for i in tuple(playing):
            action = actions[i] if i in actions else rng.choice(np.flatnonzero(seen[i][BOARD:]))
            seen[i], reward, ended, _, _ = games[i].step(action)
            if ended:
                playing.remove(i)
                points += (1 + reward if i in actions else 1 - reward) / 2
        ply += 1
    return points / matches


def mean_return(act: Act, matches: int = 40) -> float:
    """Return the mean return of CartPole; 500 is the most, a random policy has about 22."""
    envs = [WORKLOADS["cartpole"].make() for _ in range(matches)]
    seen = {i: env.reset(seed=i)[0] for i, env in enumerate(envs)}
    total = 0
    while seen:
        for i, action in zip(tuple(seen), act(np.stack(list(seen.values()))), strict=True):
            seen[i], _, terminated, truncated, _ = envs[i].step(int(action))
            total += 1
            if terminated or truncated:
                del seen[i]
    return total / matches


SCORES: dict[str, Callable[[Act], float]] = {"connect4": score_against_random, "cartpole": mean_return}
