"""A league of both sides: different observations, different algorithms, and shares that follow ADA [AET eq. 5-6]."""

from __future__ import annotations

import pytest
from ludus.testing import league_runner

pytest.importorskip("ludus_mappo")
pytest.importorskip("ludus_matchmakers")

GAME = {"tick_ms": 1000, "columns": 2, "rows": 2, "preparation_s": 0.0, "push_s": 4.0}
MATCHES = 1200


def player(role, algorithm, batch):
    """Return the table of a player that learns from small batches."""
    options = {"batch_decisions": batch, "num_minibatches": 1, "epochs": 1, "segment_decisions": 2}
    return {
        "role": role,
        "algorithm": algorithm,
        algorithm: options,
        "network": "mlp",
        "mlp": {"hidden": [8]},
        "matchmaker": "latest-self-play",
        "share": 0.5,
    }


def tables(*, opponents_learn):
    """Return the tables of a league of a cat by PPO and mice by MAPPO, with matches of four ticks."""
    sampling = {"matches": 16, "fixture_matches": 4, "rows_per_fixture": 4, "opponents_learn": opponents_learn}
    ada = {"players": ["mouse", "cat"], "hard": ["mouse"], "enough_matches": 20}
    return {
        "run": {"seed": 1, "workers": 0},
        "environment": {"name": "chase", "chase": GAME},
        "sampling": sampling,
        "players": {"cat": player("cat", "ppo", 64), "mouse": player("mouse", "mappo", 512)},
        "league": {"rules": ["ada"], "every_matches": 20, "ada": ada},
        "evaluation": {"enabled": False},
    }


def late_shares(runner):
    """Return the share of the mice: the one ADA sets, of matches played, and of decisions learned from per seat.

    All in the second half of the matches; the mice have four seats, the cat has one.
    """
    moments = []
    for matches in range(0, MATCHES + 1, 20):
        runner.until(lambda matches=matches: runner.coordinator.counts.training >= matches)
        cat, mouse = (runner.coordinator.league.players[name] for name in ("cat", "mouse"))
        played = (runner.coordinator.counts.by_player.get("mouse", 0), runner.coordinator.counts.training)
        moments.append((mouse.share / (mouse.share + cat.share), *played, mouse.decisions / 4, cat.decisions))
    late = moments[len(moments) // 2 :]
    mouse, matches, learned, other = (last - first for first, last in list(zip(late[0], late[-1], strict=True))[1:])
    return sum(wanted for wanted, *_ in late) / len(late), mouse / matches, learned / (learned + other)


def test_matches_and_training_follow_ada(tmp_path):
    """The mice always lose and get 80 % of matches and training, within 5 %."""
    with league_runner(tables(opponents_learn=False), tmp_path / "run") as runner:
        wanted, played, learned = late_shares(runner)
        cat, mouse = (role.observation_space for role in runner.sampler().environment.spec.roles)
    assert cat != mouse
    assert wanted == pytest.approx(0.8)
    assert played == pytest.approx(wanted, abs=0.05)
    assert learned == pytest.approx(wanted, abs=0.05)


def test_where_live_opponents_learn_too_only_matches_follow(tmp_path):
    """Both sides then learn from every match."""
    with league_runner(tables(opponents_learn=True), tmp_path / "run") as runner:
        wanted, played, learned = late_shares(runner)
    assert played == pytest.approx(wanted, abs=0.05)
    assert learned == pytest.approx(0.5, abs=0.05)
