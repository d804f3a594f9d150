"""The final matches of a game whose teams have different roles: every model and, in every role, the baseline."""

from __future__ import annotations

import ludus


def tables(**anchors):
    """Return the tables of a run of a few seconds: a guesser against one that hides a number."""
    players = {
        name: {
            "role": name,
            "algorithm": "dummy-gradient",
            "dummy-gradient": {"segment_decisions": 4, "batch_decisions": 64},
            "matchmaker": "mixture",
            "freeze_every_decisions": 200,
        }
        for name in ("hider", "seeker")
    }
    return {
        "run": {"workers": 0, "decisions": 800},
        "environment": {"name": "dummy-guess"},
        "sampling": {"matches": 8, "fixture_matches": 8, "rows_per_fixture": 4},
        "players": players,
        "anchors": {name: {"agent": agent} for name, agent in anchors.items()},
        "evaluation": {"enabled": False, "final_matches": 10},
    }


def final_participants(run):
    """Return the participants by team of the final matches of a run."""
    return {match.fixture.participants for match in run.matches(kind="eval")}


def test_random_plays_itself_in_every_role(tmp_path):
    """The models of both roles meet it and each other, and it meets itself; ratings of both sides have it at 0."""
    with ludus.train(tables(random="dummy-random"), run_dir=tmp_path / "run") as run:
        league = run.league
        hider, seeker = (league.players[name].models[-1] for name in ("hider", "seeker"))
        assert final_participants(run) == {(hider, seeker), (hider, "random"), ("random", seeker), ("random", "random")}
        assert league.payoff("hider=random", ["seeker=random"]).sum() == 10
        assert league.payoff(hider, ["random"]).tolist() == league.payoff(hider, ["seeker=random"]).tolist()
        assert [league.rating(name).mean for name in ("hider=random", "seeker=random")] == [0.0, 0.0]
        assert league.rating(hider).matches == league.rating(seeker).matches == 20


def test_resuming_plays_no_baseline_again(tmp_path):
    """A new anchor meets the models, and `random` in the other role."""
    with ludus.train(tables(random="dummy-random"), run_dir=tmp_path / "run") as run:
        before = run.num_matches(kind="eval")
    with ludus.resume(tmp_path / "run") as run:
        assert run.num_matches(kind="eval") == before
    with ludus.resume(tmp_path / "run", overrides=["anchors.other.agent=dummy-random"]) as run:
        new = {pair for pair in final_participants(run) if "other" in pair}
        hider, seeker = (run.league.players[name].models[-1] for name in ("hider", "seeker"))
        assert new == {(hider, "other"), ("other", seeker), ("random", "other"), ("other", "random")}
        assert run.num_matches(kind="eval") == before + 40


def test_without_anchors_the_newest_models_meet(tmp_path):
    """Once, although each is an opponent of the other."""
    with ludus.train(tables(), run_dir=tmp_path / "run") as run:
        pair = tuple(run.league.players[name].models[-1] for name in ("hider", "seeker"))
        assert final_participants(run) == {pair}
        assert run.num_matches(kind="eval") == 10
