"""A league trains on a game in a process of its own."""

from __future__ import annotations

import ludus


def make_config(chosen, *, decisions, final_matches):
    """Return the configuration of a run in one process."""
    learner = {"batch_decisions": 32, "num_minibatches": 1, "epochs": 1}
    player = {"algorithm": "ppo", "network": "mlp", "matchmaker": "latest-self-play", "ppo": learner}
    return {
        "run": {"decisions": decisions, "workers": 0},
        "environment": {"name": "remote", "remote": {**chosen, "command": list(chosen["command"])}},
        "sampling": {"matches": 4},
        "evaluation": {"final_matches": final_matches, "matches": 4},
        "players": {"main_agent": player},
        "anchors": {"random": {"agent": "random"}},
    }


def test_a_league_trains_through_the_gateway(options, tmp_path):
    """Decisions are learned, every match has a result, and the newest model plays the random agent."""
    config = make_config(options(matches=4), decisions=400, final_matches=8)
    with ludus.train(config, run_dir=tmp_path / "run") as run:
        assert run.models["main_agent@1"].decisions >= 400
        assert run.num_matches(kind="train") >= 400 // 10 - 4
        assert {match.ticks for match in run.matches(kind="train")} == {5}
        assert run.num_matches(kind="eval") >= 8


def test_a_league_trains_in_real_time(options, tmp_path):
    """Also if half of the actions come too late; those are not learned from."""
    chosen = options(behaviour="late", games=4, mode="real-time", period=5, delay=0, max_age=2)
    config = make_config(chosen, decisions=100, final_matches=0)
    with ludus.train(config, run_dir=tmp_path / "run") as run:
        assert run.models["main_agent@1"].decisions >= 100
        assert run.num_matches(kind="train") > 0
