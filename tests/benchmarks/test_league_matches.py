"""Matches between final models: who meets whom, what is remembered, and ratings."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from ludus.runs import open_game, score

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def matches(monkeypatch):
    """Return the module."""
    pytest.importorskip("ludus_ratings")
    monkeypatch.syspath_prepend(BENCHMARKS)
    import league_matches

    return league_matches


class Game:
    """Stands for a run: its environment and its scripted agents."""

    def __init__(self, environment, *agents, overrides=()):
        self.game = open_game(environment, agents, overrides=overrides)
        self.config = SimpleNamespace(data={"environment": {"name": environment}, "anchors": {}})
        self.made = 0

    def make_environment(self, num_matches):
        """Return a batch, and count them."""
        self.made += 1
        return self.game.make_environment(num_matches)

    def agent(self, name, role, *, environment):
        """Return one of the agents."""
        return self.game.agent(name, role, environment=environment)


@pytest.fixture
def tictactoe(matches, tmp_path):
    """Return an arena, and two entrants of which the first is far stronger."""
    pytest.importorskip("ludus_board")
    arena = matches.Arena(run=Game("tictactoe", "tictactoe-perfect", "random"), log=tmp_path / "log.jsonl")
    role = arena.spec.roles[0].name
    return arena, *(matches.Entrant(name=name, role=role, key=name) for name in ("tictactoe-perfect", "random"))


def test_both_say_the_same_of_a_match(tictactoe):
    """What one has won the other one has lost, and the better one wins."""
    arena, perfect, random = tictactoe
    found = arena.meet(perfect, random, matches=40)
    assert found.matches == 40
    assert found.score > 0.8
    assert found.losses == 0


def test_what_was_played_is_not_played_again(matches, tictactoe):
    """Neither in this process nor in the next."""
    arena, perfect, random = tictactoe
    first = arena.meet(perfect, random, matches=20)
    made = arena.run.made
    assert arena.meet(perfect, random, matches=20) == first
    again = matches.Arena(run=arena.run, log=arena.log)
    assert again.meet(perfect, random, matches=20) == first
    assert arena.run.made == made + 1  # the environment that tells the specification
    again.meet(perfect, random, matches=22)
    assert arena.run.made == made + 2


def test_a_line_that_was_broken_off_is_played_again(matches, tictactoe):
    """The process may have been killed while it wrote."""
    arena, perfect, random = tictactoe
    first = arena.meet(perfect, random, matches=20)
    arena.log.write_text(arena.log.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    again = matches.Arena(run=arena.run, log=arena.log)
    assert again.meet(perfect, random, matches=20) == first
    assert again.meet(random, perfect, matches=20).matches == 20
    third = matches.Arena(run=arena.run, log=arena.log)
    made = arena.run.made
    assert third.meet(perfect, random, matches=20) == first
    assert arena.run.made == made


def test_another_game_is_another_match(matches, tictactoe):
    """An option of the environment makes what is remembered worthless."""
    arena, perfect, random = tictactoe
    arena.meet(perfect, random, matches=20)
    arena.run.config.data["environment"]["tictactoe"] = {"option": 1}
    again = matches.Arena(run=arena.run, log=arena.log)
    again.meet(perfect, random, matches=20)
    assert len(arena.log.read_text(encoding="utf-8").splitlines()) == 2


def test_everybody_meets_everybody_where_all_can(matches, tictactoe):
    """Scripted ones do not meet each other."""
    arena, bot, other = tictactoe
    entrants = [matches.Entrant(name=name, role=bot.role, key=name, variant=name[0]) for name in ("a1", "a2", "b1")]
    met = list(matches.pairs(arena, [*entrants, bot, other]))
    assert met == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4), (2, 3), (2, 4)]


@pytest.fixture
def chase(matches, tmp_path):
    """Return an arena of an asymmetric game, and its two scripted sides."""
    pytest.importorskip("ludus_chase")
    short = ["preparation_s=0", "push_s=10", "escape_s=5", "tick_ms=400"]
    game = Game("chase", "chase-random", overrides=[f"chase.{setting}" for setting in short])
    arena = matches.Arena(run=game, log=tmp_path / "log.jsonl")
    return arena, *(matches.Entrant(name=role, role=role, key="chase-random") for role in ("cat", "mouse"))


def test_only_other_sides_are_met_in_an_asymmetric_game(matches, chase):
    """A model of the cat meets mice, scripted ones and models."""
    arena, cat, mouse = chase
    models = [matches.Entrant(name=role, role=role, key=role, variant="v") for role in ("cat", "mouse")]
    assert list(matches.pairs(arena, [*models, cat, mouse])) == [(0, 1), (0, 3), (1, 2)]


def test_sides_are_seated_whoever_is_named_first(chase):
    """The cat is the first team; random mice never win."""
    arena, cat, mouse = chase
    assert arena.meet(cat, mouse, matches=4).losses == 0
    assert arena.meet(mouse, cat, matches=4).wins == 0
    assert len(arena.log.read_text(encoding="utf-8").splitlines()) == 1


def test_who_wins_is_rated_higher(matches):
    """By both ratings, whoever is named first, in intervals that hold the mean."""
    pytest.importorskip("openskill")
    found = matches.rate(3, {(0, 1): score(15, 2, 3), (2, 1): score(1, 1, 18), (0, 2): score(20, 0, 0)})
    assert [one["elo"] for one in found] == sorted((one["elo"] for one in found), reverse=True)
    assert [one["mu"] for one in found] == sorted((one["mu"] for one in found), reverse=True)
    assert all(one["low"] < one["elo"] < one["high"] for one in found)


def test_ratings_do_not_depend_on_the_order_of_results(matches):
    """The same matches, listed as they come, give the same ratings to a tenth."""
    pytest.importorskip("openskill")
    results = {(0, 1): score(300, 0, 100), (0, 2): score(350, 0, 50), (1, 2): score(250, 0, 150)}
    there, back = matches.rate(3, results), matches.rate(3, dict(reversed(results.items())))
    for one, other in zip(there, back, strict=True):
        assert one["elo"] == pytest.approx(other["elo"])
        assert one["mu"] == pytest.approx(other["mu"], abs=3.0)


def test_matches_are_remembered_as_lines_of_json(tictactoe):
    """Whoever wants to look can."""
    arena, perfect, random = tictactoe
    found = arena.meet(perfect, random, matches=20)
    [line] = arena.log.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["found"] == [found.wins, found.draws, found.losses]
