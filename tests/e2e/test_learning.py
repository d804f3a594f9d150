"""Runs that learn, from the command line to the last evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ludus._store.store import Store

EXAMPLES = Path(__file__).parents[2] / "examples"

CARDS = '''
"""A game of one decision: the critic reads the card, the policy its colour and a constant."""

import numpy as np
from gymnasium import spaces
from ludus import Component, EnvironmentSpec, Role, RoleTick, Tick, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments():
    return [Component(name="cards", factory="cards:Cards", summary="name the colour")]


class Cards:
    def __init__(self, config, *, num_matches):
        self.num_matches = num_matches
        leaves = {"colour": spaces.Box(0, 1, (2,), np.float32), "noise": spaces.Box(0, 1, (3,), np.float32)}
        role = Role(
            name="player",
            observation_space=spaces.Dict(leaves),
            action_space=spaces.Discrete(2),
            teams=(0, 1),
            privileged_space=spaces.Dict({"card": spaces.Box(0, 1, (1,), np.float32)}),
        )
        self.spec = EnvironmentSpec(name="cards", roles=(role,), turn="simultaneous", constant_sum=True)
        self._colour = np.zeros((num_matches, 2), np.int64)
        self._running = np.zeros(num_matches, bool)

    def reset(self, seeds, *, indices=None, scenarios=None):
        indices = np.arange(self.num_matches) if indices is None else indices
        self._colour[indices, 0], self._colour[indices, 1] = seeds >> np.uint64(40) & np.uint64(1), seeds & np.uint64(1)
        self._running[indices] = True
        return self._tick(np.zeros((self.num_matches, 2), np.float32), np.zeros(self.num_matches, bool))

    def step(self, actions):
        right = (actions["player"][:, :, 0] == self._colour) & self._running[:, None]
        ended = self._running.copy()
        self._running[:] = False
        return self._tick(right.astype(np.float32), ended)

    def _tick(self, right, ended):
        seats = (self.num_matches, 2)
        outcome = np.clip(0.5 + (right - right[:, ::-1]) / 2, 0, 1).astype(np.float32)
        player = RoleTick(
            observation={
                "colour": np.eye(2, dtype=np.float32)[self._colour],
                "noise": np.full((*seats, 3), 0.5, np.float32),
            },
            acting=np.repeat(self._running[:, None], 2, axis=1),
            action_mask=None,
            reward=right,
            reward_parts={"right": right},
            privileged={"card": self._colour[..., None].astype(np.float32)},
        )
        return Tick(roles={"player": player}, terminated=ended, truncated=np.zeros_like(ended), outcome=outcome)

    def close(self):
        pass
'''


def train(ludus, path, *settings, workers=0):
    """Train to the end and return the JSON output."""
    options = [part for setting in settings for part in ("--set", setting)]
    result = ludus("train", path, "--run", "run", "--workers", workers, "--json", *options, timeout_s=300)
    assert result.status == 0, result.output
    return json.loads(result.output)


@pytest.mark.slow
def test_tictactoe_is_learned_by_self_play(ludus):
    """The example scores at least 0.8 against the random anchor after training in one process."""
    summary = train(ludus, EXAMPLES / "tictactoe.toml", "run.minutes=0", "run.decisions=900000")
    record = summary["players"]["main_agent"]["anchors"]["random"]
    assert record["wins"] + record["draws"] + record["losses"] >= 200
    assert record["score"] >= 0.8
    assert summary["reason"] == "900,000 decisions are learned"


@pytest.mark.parametrize("workers", [0, 1])
def test_the_dummy_algorithm_learns_in_a_league(ludus, toml, tmp_path, workers):
    """A run in NumPy alone trains in one process and in several."""
    summary = train(ludus, toml(run={"decisions": 6000}, evaluation={"final_matches": 100}), workers=workers)
    assert summary["players"]["main"]["anchors"]["random"]["interval"][0] > 0.55
    with Store.read(tmp_path / "run") as store:
        assert len(store.models.records()) >= 8
        assert {match.fixture.kind for match in store.matches.records()} == {"train", "eval"}


@pytest.mark.parametrize("workers", [0, 1])
def test_dict_observations_and_privileged_critics_train(ludus, install, toml, tmp_path, workers):
    """PPO learns from the informative leaf of the observation, and reward parts become metrics."""
    install("cards", CARDS)
    path = toml(
        run={"decisions": 60_000},
        environment={"name": "cards"},
        sampling={"fixture_matches": 128},  # matches of one tick: shorter fixtures would leave the sampler idle
        evaluation={"final_matches": 400},
        players={
            "main": {
                "algorithm": "ppo",
                "network": "mlp",
                "matchmaker": "dummy-uniform",
                "freeze_every_decisions": 5000,
                "ppo": {"batch_decisions": 256, "segment_decisions": 4, "learning_rate": 3e-3},
                "mlp": {"hidden": [16]},
            }
        },
    )
    summary = train(ludus, path, workers=workers)
    record = summary["players"]["main"]["anchors"]["random"]
    # a trained player wins or draws; a random player loses a quarter of the matches
    assert record["wins"] + record["draws"] + record["losses"] >= 400
    assert record["losses"] <= 20
    lines = [json.loads(line)["m"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert max(line.get("sampling/return/player/right", 0.0) for line in lines) > 0.9
