"""A league trains on a game in a process of its own."""

from __future__ import annotations

import ludus


def test_a_league_trains_through_the_gateway(options, tmp_path):
    """Decisions are learned, every match has a result, and the newest model plays the random agent."""
    chosen = options(matches=4)
    config = {
        "run": {"decisions": 600, "workers": 0},
        "environment": {"name": "remote", "remote": {**chosen, "command": list(chosen["command"])}},
        "sampling": {"matches": 4},
        "evaluation": {"final_matches": 8, "matches": 4},
        "players": {
            "main_agent": {
                "algorithm": "ppo",
                "network": "mlp",
                "matchmaker": "latest-self-play",
                "ppo": {"batch_decisions": 128, "num_minibatches": 1, "epochs": 1},
            }
        },
        "anchors": {"random": {"agent": "random"}},
    }
    with ludus.train(config, run_dir=tmp_path / "run") as run:
        assert run.models["main_agent@1"].decisions >= 600
        assert run.num_matches(kind="train") >= 600 // 10 - 4
        assert {match.ticks for match in run.matches(kind="train")} == {5}
        assert run.num_matches(kind="eval") >= 8
