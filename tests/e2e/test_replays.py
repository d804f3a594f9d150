"""A run records its evaluation matches; commands show and verify them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ludus.__main__ import main
from ludus.replays import find_matches, find_replay, play_replay, verify_replays
from ludus.runs import open_run
from ludus_terminal.replay_player import ReplayControls
from PIL import Image
from tomli_w import dumps

PLAYER = {
    "algorithm": "ppo",
    "ppo": {"batch_decisions": 512, "segment_decisions": 8},
    "network": "modular",
    "modular": {"core": "lstm", "core_size": 8, "torso": [16]},
    "matchmaker": "mixture",
    "freeze_every_decisions": 1000,
}
TABLES = {
    "run": {"seed": 1, "workers": 0, "decisions": 2000},
    "environment": {"name": "tictactoe"},
    "sampling": {"matches": 16},
    "players": {"main": PLAYER},
    "anchors": {"random": {"agent": "random"}},
    "evaluation": {"final_matches": 20},
    "replays": {"training_share": 0.05},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Train a player with a recurrent network for two models."""
    root = tmp_path_factory.mktemp("replays")
    (root / "run.toml").write_text(dumps(TABLES), encoding="utf-8")
    assert main(["train", str(root / "run.toml"), "--run", str(root / "run")]) == 0
    return root / "run"


@pytest.fixture
def ludus(capsys):
    """Run a command and return its status and everything it printed."""

    def run(*arguments):
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


def test_every_evaluation_match_is_recorded(folder):
    """Those of the evaluator and those at the end of the run."""
    with open_run(folder) as run:
        matches = list(run.matches(kind="eval"))
        assert {match.fixture.reason == "final evaluation" for match in matches} == {True, False}
        for match in matches:
            replay = find_replay(run, match)
            assert (replay.ticks, replay.outcome) == (match.ticks, match.outcome)


def test_all_replays_equal_their_records(folder, ludus):
    """Some of the training matches included; --verify N plays the newest ones."""
    with open_run(folder) as run:
        found = verify_replays(run)
        assert found.problems == ()
        assert run.num_matches(kind="eval") < found.played < run.num_matches()
        assert verify_replays(run, last=3).played == 3
    status, text = ludus("replay", folder, "--verify", "5", "--json")
    assert status == 0
    assert json.loads(text)["played"] == 5


def test_models_evaluate_as_in_the_match(folder):
    """A recurrent model gets its observations in order; the recorded choice had a probability above 0."""
    with open_run(folder) as run:
        match = next(m for m in run.matches(kind="eval") if m.fixture.participants[0] == "main@2" and m.ticks > 5)
        environment = run.make_environment(1)
        agent = run.agent("main@2", "player", environment=environment)
        agent.reset(np.array([0]))
        decided = 0
        for step in play_replay(run, find_replay(run, match), environment):
            for decision in step.decisions:
                assert (decision.participant == "random") == (decision.value is None)
                if decision.participant == "random":
                    continue
                assert decision.probabilities.sum() == pytest.approx(1.0, abs=1e-5)
                assert decision.probabilities[decision.action[0]] > 0
                if decision.seat == 0:
                    tick = step.tick.roles["player"]
                    observation = {name: leaf[:1, 0] for name, leaf in tick.observation.items()}
                    rng = np.random.default_rng(5)
                    _, values = agent.act_and_evaluate(
                        observation, action_mask=tick.action_mask[:1, 0], seat_ids=np.array([0]), rng=rng
                    )
                    assert decision.value == pytest.approx(float(values[0]), abs=1e-6)
                    decided += 1
        assert decided > 2
        environment.close()


def test_the_seed_of_a_logged_match_shows_that_match(folder, ludus):
    """By ``ludus watch --seed`` and by ``ludus replay``; matches with exchanged teams share their seeds."""
    with open_run(folder) as run:
        match = list(run.matches(kind="eval"))[-1]
        same = find_matches(run, str(match.seed))
        assert match in same
        replay = find_replay(run, same[0])
    status, text = ludus("watch", folder, "--seed", match.seed, "--delay", "0")
    assert status == 0
    assert f"match {replay.name}: {replay.fixture.participants[0]} against" in text
    assert f"tick {replay.ticks} of {replay.ticks}" in text
    assert "value" in text
    status, text = ludus("replay", folder, replay.name, "--json")
    values = json.loads(text)
    assert values["seed"] == match.seed
    assert [decision["action"] for tick in values["ticks"] for decision in tick["decisions"]] == (
        replay.actions["player"].tolist()
    )


def test_a_replay_is_recorded_as_a_picture(folder, ludus, tmp_path):
    """All ticks of the match, with the decisions."""
    with open_run(folder) as run:
        match = list(run.matches(kind="eval"))[-1]
    status, text = ludus("replay", folder, f"{match.fixture.id}.{match.number}", "--record", tmp_path / "match.gif")
    assert status == 0, text
    with Image.open(tmp_path / "match.gif") as image:
        assert image.n_frames == match.ticks + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["999.0"], "match 999.0: not in the log"),
        (["12345"], "match 12345: not in the log"),
        (["one"], "match 'one': expected FIXTURE.NUMBER or a seed"),
        ([], "give either a match, FIXTURE.NUMBER or a seed, or --verify"),
        (["1.0", "--verify"], "give either a match, FIXTURE.NUMBER or a seed, or --verify"),
    ],
)
def test_wrong_matches_are_one_line(arguments, message, folder, ludus):
    """The message states what is expected."""
    status, text = ludus("replay", folder, *arguments)
    assert status != 0
    assert message in text
    assert "Traceback" not in text


def test_a_training_match_without_a_replay_names_the_option(folder, ludus):
    """Only a share of them is recorded."""
    with open_run(folder) as run:
        names = []
        for match in run.matches(kind="train"):
            try:
                find_replay(run, match)
            except Exception as error:  # noqa: BLE001 - the message is checked
                names.append((f"{match.fixture.id}.{match.number}", str(error)))
                break
    assert names
    assert "has no replay" in names[0][1]


def test_a_changed_byte_is_found_and_named(folder, ludus):
    """The file and the block; the other replays are played."""
    path = min((folder / "replays").glob("final-*.replays"))
    data = path.read_bytes()
    try:
        path.write_bytes(data[:-5] + bytes([data[-5] ^ 4]) + data[-4:])
        status, text = ludus("replay", folder, "--verify")
    finally:
        path.write_bytes(data)
    assert status != 0
    assert f"{path}, block at byte 0: the payload was changed: it does not match its hash" in text


def test_keys_control_the_position():
    """Step, jump, pause, and the ends of the match."""
    controls = ReplayControls(last=25, position=3)
    positions = []
    for key in ("n", "right", "p", "N", "P", "P", "$", "n", "0", "left", "x"):
        controls.press(key)
        positions.append(controls.position)
    assert positions == [4, 5, 4, 14, 4, 0, 25, 25, 0, 0, 0]
    assert controls.paused
    controls.press(" ")
    controls.wait()
    assert (controls.position, controls.paused, controls.ended) == (1, False, False)
    controls.press("q")
    assert controls.ended


def test_a_match_without_keys_ends_by_itself():
    """After its last tick; once a key was pressed, the display stays open there."""
    untouched, touched = ReplayControls(last=1), ReplayControls(last=1)
    touched.press("x")
    for controls in (untouched, touched):
        controls.wait()
        controls.wait()
    assert untouched.ended
    assert touched.paused
    assert not touched.ended
