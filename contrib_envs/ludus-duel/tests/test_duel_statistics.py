"""The statistics of a duel."""

from __future__ import annotations

import numpy as np
from ludus_duel.config import DuelConfig
from ludus_duel.environment import Duel


def test_statistics_describe_the_match():
    """Hits as the rewards count them; health and room as seen on the last tick."""
    game = Duel(DuelConfig(hit_given=1.0, hit_taken=0.0, time_limit_s=20.0), num_matches=8)
    fighter = game.reset(np.arange(8, dtype=np.uint64)).roles["fighter"]
    rng, hits, ended = np.random.default_rng(0), np.zeros((8, 2)), np.zeros(8, bool)
    while not ended.all():
        keys = np.where(fighter.action_mask, rng.random(fighter.action_mask.shape), -1.0)
        tick = game.step({"fighter": keys.argmax(axis=2)[..., None]})
        hits += fighter.reward_parts["hit_given"]
        ended |= tick.terminated
    statistics = fighter.statistics
    assert hits.sum() > 0
    assert np.array_equal(statistics["hits"], hits)
    health = game._fight.health.reshape(8, 2)
    np.testing.assert_allclose(statistics["health"], np.maximum(health, 0) / game._config.health, rtol=1e-6)
    assert ((statistics["room"] >= 0) & (statistics["room"] <= 1)).all()
    game.reset(np.array([9], np.uint64), indices=np.array([3]))
    assert statistics["hits"][3].tolist() == [0, 0]
    assert np.array_equal(np.delete(statistics["hits"], 3, axis=0), np.delete(hits, 3, axis=0))
