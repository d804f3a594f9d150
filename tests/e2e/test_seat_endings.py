"""Every algorithm learns the value of seats that end before, with or after the others of their match."""

from __future__ import annotations

from contextlib import closing

import ludus
import numpy as np
import pytest

pytest.importorskip("pettingzoo")

GAME = '''
"""Every agent earns 1 on every tick, whatever it does. It sees its number and whether a tick has passed."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

ENDS = {"dies": (1, "terminated"), "cut": (1, "truncated"), "ends": (2, "terminated"), "outlives": (2, "truncated")}


class Ended(ParallelEnv):
    metadata = {"name": "ended_v0"}
    render_mode = None

    def __init__(self):
        self.possible_agents = list(ENDS)

    def observation_space(self, agent):
        return spaces.Box(0, 1, (8,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def observations(self, agents):
        # a final observation is that of the last decision
        seen = {agent: 2 * i + min(self.now, ENDS[agent][0] - 1) for i, agent in enumerate(ENDS)}
        return {agent: np.eye(8, dtype=np.float32)[seen[agent]] for agent in agents}

    def reset(self, seed=None, options=None):
        self.agents, self.now = self.possible_agents[:], 0
        return self.observations(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.now += 1
        played = self.agents
        dead, cut = ({a: ENDS[a] == (self.now, how) for a in played} for how in ("terminated", "truncated"))
        self.agents = [a for a in played if not (dead[a] or cut[a])]
        return self.observations(played), dict.fromkeys(played, 1.0), dead, cut, {a: {} for a in played}
'''

GAMMA = 0.5
#: Row of the observation → value. A truncated seat sees its last observation again: V = 1 + 0.5 V = 2.
VALUES = {
    "dies early": (0, 1.0),
    "truncated alone": (2, 2.0),
    "terminated as the match is truncated, one tick before": (4, 1.0 + GAMMA * 1.0),
    "terminated as the match is truncated": (5, 1.0),
    "outlives all and is truncated with the match, one tick before": (6, 1.0 + GAMMA * 2.0),
    "outlives all and is truncated with the match": (7, 2.0),
}
PPO = {"learning_rate": 0.01, "batch_decisions": 64, "num_minibatches": 1, "segment_decisions": 2, "epochs": 4}
REPLAY = {"minibatch_size": 64, "updates_per_batch": 8}
SAC = {"critic_learning_rate": 5e-3, "tau": 0.1, "alpha": 1e-4, "learn_alpha": False, "decision_values": True}
OPTIONS = {
    "ppo": PPO,
    "rnd-ppo": PPO,
    "mappo": PPO | {"critic": "local"},
    "dqn": REPLAY | {"learning_rate": 3e-3, "target_update_steps": 20},
    "sac": REPLAY | SAC,
}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("algorithm", OPTIONS)
def test_values_of_ended_seats(tmp_path, monkeypatch, algorithm, workers):
    """In one process and in several, the game's included; the values are computed by hand."""
    (tmp_path / "ended_game.py").write_text(GAME, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    config = {
        "run": {"workers": workers, "decisions": 6000, "seed": 1, "learner_threads": 1},
        "environment": {"name": "pettingzoo", "pettingzoo": {"id": "ended_game:Ended", "workers": workers}},
        "sampling": {"matches": 16},
        "players": {
            "main": {
                "algorithm": algorithm,
                "network": "mlp",
                "matchmaker": "latest-self-play",
                algorithm: OPTIONS[algorithm] | {"gamma": GAMMA},
                "mlp": {"hidden": [32]},
            }
        },
        "evaluation": {"enabled": False},
    }
    with ludus.train(config, run_dir=tmp_path / "run") as run, closing(run.make_environment(1)) as environment:
        agent, seat_ids = run.agent("main@latest", "player", environment=environment), np.arange(8)
        agent.reset(seat_ids)
        observation = {"obs": np.eye(8, dtype=np.float32)}
        more = {"action_mask": None, "seat_ids": seat_ids, "rng": np.random.default_rng(0)}
        _, learned = agent.act_and_evaluate(observation, **more)
    for case, (row, value) in VALUES.items():
        assert learned[row] == pytest.approx(value, abs=0.2), case
