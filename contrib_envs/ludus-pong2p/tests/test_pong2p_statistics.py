"""The statistics of a match of pong2p."""

from __future__ import annotations

import numpy as np
from ludus_pong2p.config import Pong2pConfig
from ludus_pong2p.environment import Pong2p


def test_statistics_describe_the_match():
    """Hits and points as the rewards count them, and the share of ticks on which the paddle moved."""
    game = Pong2p(Pong2pConfig(hit=1.0, points=2, max_ticks=400, paddle_length=20.0), num_matches=6)
    player = game.reset(np.arange(6, dtype=np.uint64)).roles["player"]
    rng, hits, moved, ticks = np.random.default_rng(0), np.zeros((6, 2)), np.zeros((6, 2)), np.zeros(6)
    points, ended = np.zeros((6, 2)), np.zeros(6, bool)
    while not ended.all():
        actions = rng.integers(0, 3, (6, 2))
        moved += (actions > 0) & ~ended[:, None]
        ticks += ~ended
        tick = game.step({"player": actions[..., None]})
        hits += player.reward_parts["hit"]
        points += np.maximum(player.reward_parts["point"], 0)
        ended |= tick.terminated | tick.truncated
    assert hits.sum() > 0
    assert points.sum() > 0
    assert np.array_equal(player.statistics["hits"], hits)
    assert np.array_equal(player.statistics["points"], points)
    np.testing.assert_allclose(player.statistics["moving"], moved / ticks[:, None], rtol=1e-5)
    game.reset(np.array([1], np.uint64), indices=np.array([2]))
    assert all(values[2].tolist() == [0, 0] for values in player.statistics.values())
