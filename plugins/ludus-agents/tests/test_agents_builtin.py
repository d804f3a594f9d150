"""The bots of an environment as anchors: they play as the same policy outside of the environment does."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from ludus.__main__ import main
from ludus.agent import BuiltinAgent
from ludus.errors import ConfigError, ContractError
from ludus.runs import open_run, play_matches
from ludus_agents.builtin import make_builtin
from ludus_agents.config import BuiltinConfig
from ludus_dummy.agents import Perfect
from ludus_dummy.config import CountConfig, GuessConfig, PerfectConfig
from ludus_dummy.count import Count
from ludus_dummy.guess import Guess

RUN = """
[run]
seed = 3
workers = {workers}
decisions = 600
[environment]
name = "dummy-count"
[sampling]
matches = 8
fixture_matches = 8
rows_per_fixture = 8
[players.main]
algorithm = "dummy-gradient"
network = "dummy-linear"
matchmaker = "against-anchors"
freeze_every_decisions = 100_000
[anchors.inside]
agent = "builtin"
builtin.name = "{name}"
[anchors.outside]
agent = "dummy-perfect"
[evaluation]
matches = 8
final_matches = 16
"""


class AddOne:
    """Adds 1, whatever it sees."""

    def act(self, observation, *, action_mask, seat_ids, rng):
        return np.zeros((len(seat_ids), 1), np.int64)

    def reset(self, seat_ids):
        """Do nothing."""


def config_file(folder, *, workers=0, name="perfect"):
    """Write the configuration of a run and return its path."""
    path = folder / "run.toml"
    path.write_text(RUN.format(workers=workers, name=name), encoding="utf-8")
    return str(path)


def train(folder, **options):
    """Train for a moment and return the run's folder."""
    assert main(["train", config_file(folder, **options), "--run", str(folder / "run"), "--json"]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """Return the folder of a run in one process."""
    return train(tmp_path_factory.mktemp("builtin"))


def test_a_builtin_bot_plays_as_the_same_policy_outside():
    """From either seat, matches against the built-in bot are those against the agent with the same policy."""
    with closing(Count(CountConfig(), num_matches=16)) as environment:
        one, inside = AddOne(), BuiltinAgent("perfect")
        outside = Perfect(PerfectConfig(), spec=environment.spec, role="player")
        seatings = [[inside, one], [one, inside], [outside, one], [one, outside], [inside, inside], [outside, outside]]
        played = play_matches(environment, seatings, matches=64, seed=5)
    for pair in (0, 1, 4):
        expected = played[pair + (2 if pair < 4 else 1)]
        for name in ("number", "outcome", "returns", "ticks"):
            order, expected_order = played[pair]["number"].argsort(), expected["number"].argsort()
            np.testing.assert_array_equal(played[pair][name][order], expected[name][expected_order])
    assert played[0]["outcome"][:, 0].mean() > 0.7


def test_a_run_trains_and_rates_against_builtin_bots(run_dir):
    """The anchor is trained against, rated, and plays the final matches; the record names it."""
    with open_run(run_dir) as run:
        trained = run.league.payoff("main@1", ["inside", "outside"])
        rated = run.league.payoff("inside", ["main@1", "outside"], evaluated=True)
        final = run.league.payoff("main@1", ["inside", "outside"], evaluated=True)
    assert (trained.sum(axis=1) > 0).all()
    assert (rated.sum(axis=1) > 0).all()
    assert (final.sum(axis=1) >= 16).all()


def test_commands_seat_builtin_bots(run_dir, capsys):
    """`eval` counts its matches, `watch` shows them, also without a run."""
    assert main(["eval", str(run_dir), "inside", "outside", "--matches", "16", "--json"]) == 0
    assert '"score": 0.5' in capsys.readouterr().out
    assert main(["watch", str(run_dir), "inside", "main@1", "--seed", "1", "--delay", "0"]) == 0
    assert "match 1: inside" in capsys.readouterr().out
    assert main(["watch", "--env", "dummy-count", "builtin", "dummy-perfect", "--seed", "1", "--delay", "0"]) == 0
    assert "match 1: builtin" in capsys.readouterr().out


def test_check_plays_a_match_of_every_bot(tmp_path, capsys):
    """`ludus check` lists the bots, and reports a wrong name in one line."""
    assert main(["check", config_file(tmp_path)]) == 0
    assert "role player has the built-in bots perfect" in capsys.readouterr().out
    assert main(["check", config_file(tmp_path, name="perfct")]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("fail")]
    expected = "agent builtin: name: got 'perfct'; the role player of dummy-count has the built-in bots perfect"
    assert [line.partition("anchor inside: ")[2] for line in lines] == [expected]


@pytest.mark.slow
def test_workers_play_builtin_bots(tmp_path):
    """Samplers and the evaluator are processes of their own."""
    with open_run(train(tmp_path, workers=1)) as run:
        assert run.league.payoff("main@1", ["inside"]).sum() > 0
        assert run.league.payoff("main@1", ["inside"], evaluated=True).sum() >= 16


def spec():
    """Return the spec of the dummy game."""
    return Count(CountConfig(), num_matches=1).spec


def test_the_only_bot_needs_no_name():
    """An empty name chooses the only bot of a role."""
    assert make_builtin(BuiltinConfig(), spec=spec(), role="player").name == "perfect"


def test_an_environment_without_bots_is_refused():
    """The message names the role and the environment."""
    guess = Guess(GuessConfig(), num_matches=1)
    with pytest.raises(ConfigError, match="agent builtin: the role hider of dummy-guess has no built-in bots"):
        make_builtin(BuiltinConfig(), spec=guess.spec, role="hider")


def test_interfaces_of_a_builtin_bot_are_refused(tmp_path, capsys):
    """A bot reads the state of the game, so that interfaces would have no effect."""
    override = 'anchors.inside.interfaces=["dummy-reverse"]'
    assert main(["train", config_file(tmp_path), "--run", str(tmp_path / "run"), "--set", override]) != 0
    expected = "anchors.inside.interfaces: expected none, as the environment plays its built-in bots"
    assert expected in capsys.readouterr().err


def test_a_builtin_bot_never_decides():
    """The agent itself refuses to act: only the environment knows the bot."""
    with pytest.raises(ContractError, match="'perfect' plays inside the environment"):
        BuiltinAgent("perfect").act({}, action_mask=None, seat_ids=np.zeros(1, np.int64), rng=np.random.default_rng(0))
    with pytest.raises(ConfigError, match="got 'best'"):
        make_builtin(BuiltinConfig(name="best"), spec=spec(), role="player")
