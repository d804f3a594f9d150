"""Whole runs from the command line: with the ability that a probe asks for it is solved, without it not as soon."""

from __future__ import annotations

import json

import pytest
import torch
from ludus.__main__ import main

RUN = """
[run]
seed = 1

[sampling]
matches = 256
fixture_matches = 256
rows_per_fixture = 256

[evaluation]
enabled = false
final_matches = 0

[players.main]
algorithm = "ppo"
network = "modular"
matchmaker = "latest-self-play"
freeze_every_decisions = 1_000_000

[players.main.ppo]
learning_rate = 2e-3
epochs = 4
segment_decisions = 4
batch_decisions = 1024

[players.main.modular]
torso = [64]
separate_critic = true

"""
MASKS = """
[environment]
name = "key-ring"

[environment.key-ring]
keys = 1024
locks = 32
"""
TARGETS = """
[players.main.modular.entities.all]
leaf = "entities"
present = "present"
hidden = [32]
pool = "concat"
key = 16

[[players.main.modular.attention]]
label = 1
entities = ["all"]

[environment]
name = "targets"

[environment.targets]
kinds = 12
"""
LUCK = """
[environment]
name = "luck"
"""
EXITS = """
[environment]
name = "exits"
"""


@pytest.fixture
def ludus(capsys):
    """Return a function that runs one command here, where torch is imported once, and returns the JSON it prints."""

    def run(*arguments):
        threads = torch.get_num_threads()
        status = main([*map(str, arguments), "--json"])
        torch.set_num_threads(threads)
        printed = capsys.readouterr()
        assert status == 0, printed.err
        return json.loads(printed.out)

    return run


def trained(ludus, folder, text, *, decisions, without=()):
    """Train, and return a function that lets the final model play and returns its share of won matches."""
    folder.mkdir()
    (folder / "run.toml").write_text(RUN + text)
    settings = [part for setting in (f"run.decisions={decisions}", *without) for part in ("--set", setting)]
    run = folder / "run"
    trained = ludus("train", folder / "run.toml", "--run", run, "--workers", 0, *settings)
    return lambda *how: ludus("eval", run, trained["players"]["main"]["newest"], "--matches", 400, *how)["score"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "decisions", "without", "how", "most"),
    [
        pytest.param(MASKS, 12_000, "environment.key-ring.masked=false", ["--deterministic"], 0.6, id="masks"),
        pytest.param(TARGETS, 20_000, "players.main.modular.attention=[]", ["--deterministic"], 0.7, id="attention"),
        pytest.param(
            EXITS, 60_000, "environment.exits.leaving='truncated'", ["--deterministic"], 0.6, id="ends of seats"
        ),
        # actions are sampled: greedy play would hide how unsure the policy is
        pytest.param(LUCK, 60_000, "environment.luck.told=false", [], 0.4, id="privileged critic"),
    ],
)
def test_only_the_ability_solves_the_game(ludus, tmp_path, text, decisions, without, how, most):
    """Everything else being equal: nearly all matches are won with it, far fewer without."""
    assert trained(ludus, tmp_path / "with", text, decisions=decisions)(*how) > 0.8
    assert trained(ludus, tmp_path / "without", text, decisions=decisions, without=[without])(*how) < most
