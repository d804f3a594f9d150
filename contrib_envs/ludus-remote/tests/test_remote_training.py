"""A league trains on a game in a process of its own."""

from __future__ import annotations

import json

import ludus
from ludus.__main__ import main
from ludus_remote.programs import COMMANDS_VARIABLE


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


def test_matches_in_real_time_are_recorded_as_streams(options, tmp_path, capsys, monkeypatch):
    """Their frames are shown and written as a picture without the game; --verify counts them."""
    chosen = options(games=4, mode="real-time", period=5, delay=2, max_age=5)
    config = make_config(chosen, decisions=50, final_matches=4)
    with ludus.train(config, run_dir=tmp_path / "run") as run:
        match = list(run.matches(kind="eval"))[-1]
    monkeypatch.delenv(COMMANDS_VARIABLE)  # a game could not be started
    name = f"{match.fixture.id}.{match.number}"

    def replay(*arguments):
        capsys.readouterr()
        assert main(["replay", str(tmp_path / "run"), *arguments]) == 0
        return capsys.readouterr().out

    shown = json.loads(replay(name, "--json"))
    frames = [tick["frame"] for tick in shown["ticks"]]
    assert shown["ticks"][-1]["tick"] == match.ticks
    assert frames[0]["caption"].startswith("round")
    assert frames[-1]["caption"] == "round 5"
    assert any(tick["decisions"] for tick in shown["ticks"])
    text = replay(name, "--record", str(tmp_path / "match.gif"))
    assert "a recorded stream: the game does not repeat matches" in text
    assert (tmp_path / "match.gif").read_bytes().startswith(b"GIF")
    text = replay("--verify")
    assert "0 were played again" in text
    assert "are streams of games that do not repeat matches" in text
