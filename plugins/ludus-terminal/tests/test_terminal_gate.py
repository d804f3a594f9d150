"""``ludus gate`` plays pairs of matches until the sequential test is decided."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time

import ludus
import numpy as np
import pytest
from click.testing import CliRunner
from ludus.errors import ConfigError, RunError
from ludus.runs import open_run
from ludus_ratings import SequentialTest
from ludus_terminal.evaluate import play_pair
from ludus_terminal.gate import gate
from ludus_terminal.seed_pairs import PairPlan, PairRounds

RUN = """
run = { seed = 3, workers = 0, decisions = 1200 }
environment.name = "dummy-count"
sampling = { matches = 8, fixture_matches = 8, rows_per_fixture = 4 }
anchors.random.agent = "dummy-random"
anchors.perfect.agent = "dummy-perfect"
evaluation = { matches = 8, fixture_matches = 5, final_matches = 0 }
[players.main]
algorithm = "dummy-gradient"
dummy-gradient = { segment_decisions = 4, batch_decisions = 64 }
matchmaker = "dummy-uniform"
freeze_every_decisions = 500
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folder of a short run."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "run.toml").write_text(RUN)
    with ludus.train(folder / "run.toml", run_dir=folder / "run", print_line=lambda line: None):
        pass
    return folder / "run"


@pytest.fixture
def folder(trained, tmp_path):
    """Return the folder of a run without a test."""
    return shutil.copytree(trained, tmp_path / "run")


def invoke(*arguments, code=0):
    """Run the command and return its output."""
    result = CliRunner().invoke(gate, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def decide(*arguments, code=0):
    """Run the command and return its JSON."""
    return json.loads(invoke(*arguments, "--json", code=code))


def test_the_stronger_one_passes(folder):
    """The status is 0, and the numbers are those of the test."""
    data = decide(folder, "perfect", "random")
    assert (data["verdict"], data["participants"]) == ("passed", ["perfect", "random"])
    assert sum(data["pairs"]) * 2 == data["matches"]
    assert data["llr"] == pytest.approx(SequentialTest().log_likelihood_ratio(data["pairs"]))
    assert data["llr"] > data["bounds"][1] == pytest.approx(2.944, abs=1e-3)
    assert data["score"] == pytest.approx(np.arange(5) @ data["pairs"] / 4 / sum(data["pairs"]))
    assert data["interval"][0] < data["normalized_elo"] < data["interval"][1]


def test_the_weaker_one_is_refused(folder):
    """The status is 1, and three lines give the reason."""
    first, second, third = invoke(folder, "random", "perfect", code=1).splitlines()
    assert re.fullmatch(
        r"random against perfect: \d+ matches, score 0\.\d{3}, normalized Elo -\d+ \[-\d+, [-+]\d+\], LLR -\d\.\d\d in "
        r"\(-2\.94, 2\.94\)",
        first,
    )
    assert second.startswith("pairs by points of random: ")
    assert third == "random is refused: not stronger than perfect (normalized Elo 0 accepted, 50 rejected)"


def test_too_few_matches_are_undecided(folder):
    """The status is 2, and the line names the option that goes on."""
    text = invoke(folder, "random", "dummy-random", "--elo1", 5, "--max-matches", 40, code=2)
    assert "48 matches" in text  # whole rounds
    assert "undecided whether random is stronger than dummy-random (normalized Elo 0 or 5); a larger" in text


def test_pairs_are_on_one_seed_with_exchanged_seats(folder):
    """A round has the results of the same seatings by `play_pair`."""
    with open_run(folder) as run, PairRounds(PairPlan(str(folder), "perfect", "random", seed=7)) as rounds:
        counts = rounds.play(0)
        environment = run.make_environment(16)
        agents = [{"player": run.agent(name, "player", environment=environment)} for name in ("perfect", "random")]
        seed = int(run_seed(7, 0))
        record = play_pair(environment, agents, matches=16, seed=seed)
        environment.close()
    assert sum(counts) == 8
    assert np.arange(5) @ counts / 2 == record.wins + record.draws / 2


def run_seed(seed, number):
    """Return the seed of a round."""
    from ludus.runs import match_seeds

    return match_seeds(seed, np.array([number]))[0] >> np.uint64(1)


def test_an_interrupted_test_goes_on(folder, monkeypatch):
    """Rounds that were played are read, and the result is that of a test without interruption."""
    options = (folder, "main@latest", "main@1", "--elo1", 5)
    whole = decide(*options, "--max-matches", 96, code=2)
    shutil.rmtree(folder / "gates")
    decide(*options, "--max-matches", 48, code=2)
    played, play = [], PairRounds.play
    monkeypatch.setattr(PairRounds, "play", lambda rounds, number: (played.append(number), play(rounds, number))[1])
    assert decide(*options, "--max-matches", 96, code=2) == whole
    assert played == [3, 4, 5]
    assert decide(*options, "--max-matches", 96, code=2) == whole
    assert played == [3, 4, 5]


def test_a_killed_test_goes_on(folder):
    """What was played before is in the file after every round."""
    command = [sys.executable, "-m", "ludus", "gate", str(folder), "main@2", "main@1", "--elo1", "0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list((folder / "gates").glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    (path,) = (folder / "gates").glob("*.json")
    kept = json.loads(path.read_text())["rounds"]
    decide(folder, "main@2", "main@1", "--elo1", "0.1", "--max-matches", 16 * len(kept) + 16, code=2)
    assert json.loads(path.read_text())["rounds"][:-1] == kept


def test_other_seeds_and_options_of_the_game_are_other_tests(folder):
    """Each has a file of its own; other bounds use the same pairs."""
    decide(folder, "perfect", "random")
    decide(folder, "perfect", "random", "--elo1", 100)
    assert len(list((folder / "gates").iterdir())) == 1
    decide(folder, "perfect", "random", "--seed", 1)
    toml = folder / "run.toml"
    toml.write_text(toml.read_text() + "\n")
    decide(folder, "perfect", "random")
    assert len(list((folder / "gates").iterdir())) == 3


@pytest.mark.parametrize(
    "text", ["", "[]", '{"rounds": 7}', '{"rounds": [[1, 2, 3]]}', '{"rounds": [[1, 2, 3, 4, -5]]}']
)
def test_a_malformed_file_is_one_line(folder, text):
    """The line names the file and the remedy."""
    decide(folder, "perfect", "random")
    (path,) = (folder / "gates").iterdir()
    path.write_text(text)
    with pytest.raises(RunError, match=f"{path}: expected rounds of five numbers .* delete this file"):
        invoke(folder, "perfect", "random")


def test_a_link_out_of_the_run_folder_is_refused(folder, tmp_path):
    """Nothing is written there."""
    (tmp_path / "elsewhere").mkdir()
    (folder / "gates").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="outside of the run folder"):
        invoke(folder, "perfect", "random")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_processes_do_not_change_the_result(folder):
    """Rounds of two processes count in the order of their numbers."""
    alone = decide(folder, "main@2", "main@1", "--max-matches", 64, code=2)
    shutil.rmtree(folder / "gates")
    assert decide(folder, "main@2", "main@1", "--max-matches", 64, "--processes", 2, code=2) == alone


def test_a_model_that_passes_enters_the_pool(folder):
    """The same command may be given again; a model that is refused enters no pool."""
    easy = ("--elo0", -200, "--elo1", -100, "--pool", "good")
    assert decide(folder, "main@latest", "random", *easy)["pool"] == "good"
    assert decide(folder, "main@latest", "random", *easy)["pool"] is None
    decide(folder, "main@1", "perfect", "--pool", "good", code=1)
    with open_run(folder) as run:
        assert list(run.pools["good"]) == ["main@3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("main@1", "main@1"), "main@1 cannot be stronger than itself"),
        (("main@latest", "main"), "main@3 cannot be stronger than itself"),
        (("main@live", "random"), "main@3+ is no frozen model"),
        (("main@2", "0=random"), "do not exchange their seats: name two participants of one role, without SEAT="),
        (("main@2", "random", "--pool", "own"), "pool 'own': expected a name"),
        (("perfect", "random", "--pool", "good"), "perfect is no frozen model"),
    ],
)
def test_what_cannot_be_tested_is_one_line(folder, arguments, message):
    """Nothing is played."""
    with pytest.raises(ConfigError, match=re.escape(message)):
        invoke(folder, *arguments)
    assert not (folder / "gates").exists()


def test_bounds_in_the_wrong_order_are_wrong_usage(folder):
    """The message has both."""
    assert "expected elo0 < elo1, got elo0 = 60 and elo1 = 50" in invoke(
        folder, "main@2", "random", "--elo0", 60, code=2
    )


def test_compare_may_play(folder, show):
    """`ludus league compare RUN A B --play` tests whether B is stronger."""
    assert "perfect passes: stronger than random" in show("compare", folder, "random", "perfect", "--play")
    assert json.loads(show("compare", folder, "perfect", "random", "--play", "--json", code=1))["verdict"] == "refused"
