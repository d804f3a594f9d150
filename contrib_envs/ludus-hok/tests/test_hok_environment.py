"""Honor of Kings: contract, observations, actions, rewards and ends, against a fake of hok_env's interface."""

from __future__ import annotations

import ast
import json
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import ludus_hok
import numpy as np
import pytest
from attrs import evolve
from ludus.__main__ import main
from ludus.environment import Scenario
from ludus.errors import ConfigError, ContractError, PluginError, WorkerError
from ludus.installed import open_game
from ludus.testing import check_environment
from ludus_hok.config import HokConfig
from ludus_hok.game import ROLE, make_environment
from ludus_hok.hok_api import BUTTONS, HEROES, LABELS_USED, NUM_LEGAL, OBSERVATION
from ludus_hok.settings import PortPair, ServerSettings

FAKE = Path(__file__).with_name("fake")
ATTACK, MOVE, SKILL1 = BUTTONS.index("attack"), BUTTONS.index("move"), BUTTONS.index("skill1")
IDLE = [0, 1, 0, 0, 0, 3]  # the first choices of move_x and target are illegal in the fake
HIT = [ATTACK, 1, 0, 0, 0, 3]
SEED = np.array([1], np.uint64)


@pytest.fixture(autouse=True)
def calls(tmp_path, monkeypatch):
    """Use an interpreter that has the fake, and return a function that reads the calls of the fake."""
    python = tmp_path / "python_with_hok"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{FAKE}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    log = tmp_path / "calls.jsonl"
    for name in ("GAMECORE_SERVER_ADDR", "AI_SERVER_ADDR", "ACTOR_RUNTIME_ID_PREFIX", "INTERFACE_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LUDUS_HOK_PYTHON", str(python))
    monkeypatch.setenv("ACTOR_PORT_BEGIN", "42300")
    monkeypatch.setenv("FAKE_HOK_CALLS", str(log))

    def read(name):
        lines = map(json.loads, log.read_text().splitlines())
        return [line for line in lines if line["call"] == name]

    return read


@pytest.fixture
def make_repeatable(make):
    """Make an environment whose matches are compared: unlike the game, the fake repeats them."""

    def make_one(num_matches, **options):
        env = make(num_matches, **options)
        env.spec = evolve(env.spec, repeatable=True)
        return env

    return make_one


@pytest.fixture
def make():
    """Make an environment, and close it at the end."""
    made = []

    def make_one(num_matches=1, **options):
        made.append(make_environment(HokConfig(**{"heroes": ("luban",), **options}), num_matches=num_matches))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def step(env, own=IDLE, enemy=IDLE):
    """Advance one match by a tick."""
    return env.step({ROLE: np.array([[own, enemy]])})


def test_contract(make_repeatable):
    """Matches keep the contract, with and without bots."""
    options = {"heroes": ("luban", "miyue"), "max_frames": 60}
    check_environment(lambda num_matches: make_repeatable(num_matches, **options), steps=30)


@pytest.mark.slow
def test_contract_with_workers(make_repeatable):
    """Matches of worker processes keep it too."""
    check_environment(lambda num_matches: make_repeatable(num_matches, workers=2, max_frames=60), steps=8)


def test_leaves_are_the_parts_of_the_vector(make):
    """Feature i of the fake is i; both heroes have 235 numbers, and the global part starts at 700."""
    player = make().reset(SEED).roles[ROLE]
    leaves = {name: leaf[0, 1] for name, leaf in player.observation.items()}
    assert leaves["hero_own"][0, [0, -1]].tolist() == [0, 234]
    assert leaves["hero_enemy"][0, [0, -1]].tolist() == [235, 469]
    assert leaves["hero_main"][[0, -1]].tolist() == [470, 483]
    assert leaves["soldiers_own"][:, 0].tolist() == [484, 502, 520, 538]
    assert leaves["soldiers_enemy"][:, 0].tolist() == [556, 574, 592, 610]
    assert leaves["buildings_own"][0, [0, -1]].tolist() == [628, 663]
    assert leaves["buildings_enemy"][0, [0, -1]].tolist() == [664, 699]
    assert leaves["global"][[0, 1, -1]].tolist() == [10, 701, 724]
    assert np.flatnonzero(leaves["hero"]).tolist() == [list(HEROES).index("luban")]
    assert sum(int(np.prod(shape)) for shape in OBSERVATION.values()) == 725


def test_mask_has_the_choices_of_all_legal_buttons(make):
    """Camp 0 may move and attack, camp 1 also use its skill, which alone uses skill_x and skill_z."""
    mask = make().reset(SEED).roles[ROLE].action_mask[0]
    buttons, move_x, move_z, skill_x, skill_z, targets = np.split(mask, [12, 28, 44, 60, 76], axis=1)
    assert [np.flatnonzero(row).tolist() for row in buttons] == [[0, 2, 3], [0, 2, 3, 4]]
    assert move_x[:, 0].tolist() == [False, False]
    assert move_x[:, 1:].all()
    assert move_z.all()
    assert skill_x.sum(axis=1).tolist() == skill_z.sum(axis=1).tolist() == [1, 16]
    assert [np.flatnonzero(row).tolist() for row in targets] == [[3, 4, 5, 7], [1, 3, 4, 5, 7]]


def test_a_target_that_its_button_does_not_allow_is_replaced(make, calls):
    """The skill of camp 1 allows target 1 only, an attack those from 3 on, no button the target 0."""
    env = make()
    env.reset(SEED)
    step(env, [ATTACK, 1, 0, 0, 0, 7], [SKILL1, 1, 0, 5, 6, 3])
    env.reset(SEED)
    step(env, [MOVE, 2, 3, 0, 0, 3], [ATTACK, 1, 0, 0, 0, 1])
    assert [call["actions"] for call in calls("step")] == [
        [[ATTACK, 1, 0, 0, 0, 7], [SKILL1, 1, 0, 5, 6, 1]],
        [[MOVE, 2, 3, 0, 0, 0], [ATTACK, 1, 0, 0, 0, 3]],
    ]


def test_illegal_actions_are_refused(make):
    """A masked choice never reaches the game."""
    env = make()
    env.reset(SEED)
    with pytest.raises(ContractError, match=r"illegal action \[4, 1, 0, 0, 0, 3\] of role 'player', match 0, seat 0"):
        step(env, [SKILL1, 1, 0, 0, 0, 3])


def test_rewards_are_the_sum_of_the_game_and_its_parts(make, calls):
    """A kill at factor 2 and a coin at 0.5: the fake's parts lack their factors, so 2.5 is 1 + 1 + a rest of 0.5."""
    env = make(kill=2.0, money=0.5)
    env.reset(SEED)
    player = step(env, HIT).roles[ROLE]
    assert player.reward[0].tolist() == [2.5, 0.5]
    assert {name: part[0, 0] for name, part in player.reward_parts.items() if part.any()} == {
        "kill": 1,
        "money": 1,
        "rest": 0.5,
    }
    (made,) = calls("HoK1v1")
    factors = made["factors"]
    assert (factors["reward_kill"], factors["reward_money"], factors["reward_dead"]) == ("2.0", "0.5", "-1.0")


@pytest.mark.parametrize("winner", [0, 1])
def test_the_camp_that_destroys_the_crystal_wins(make, calls, winner):
    """Ten hits destroy a crystal; the statistics are those of the heroes, and the game is closed."""
    env = make()
    env.reset(SEED)
    actions = [IDLE, IDLE]
    actions[winner] = HIT
    for _ in range(9):
        tick = step(env, *actions)
        assert not tick.terminated[0]
    tick = step(env, *actions)
    assert tick.terminated[0]
    assert not tick.truncated[0]
    assert tick.outcome[0, winner] == 1
    assert tick.outcome.sum() == 1
    seen = {name: row[0].tolist() for name, row in tick.roles[ROLE].statistics.items()}
    assert seen["kills"][winner] == seen["deaths"][1 - winner] == 10
    assert seen["money"] == seen["frames"] == [30, 30]
    assert seen["hero_damage"] == [0, 100]
    env.close()
    assert len(calls("close_game")) == 1


def test_a_match_without_a_destroyed_crystal_is_a_draw(make):
    """60 frames are 6 decisions of 10 frames."""
    env = make(max_frames=60, frame_interval=10)
    env.reset(SEED)
    ends = [step(env).truncated[0] for _ in range(6)]
    assert ends == [False] * 5 + [True]
    assert env.spec.max_ticks == 7


@pytest.mark.parametrize("seat", [0, 1])
def test_the_bot_of_the_game_plays_a_camp(make, calls, seat):
    """hok_env gets no address for its camp; its seat never acts, and its hero counts."""
    env = make()
    bots = tuple("common_ai" if one == seat else "" for one in range(2))
    env.reset(SEED, scenarios=[Scenario(builtin=bots)])
    tick = [step(env) for _ in range(2)][-1]
    player = tick.roles[ROLE]
    assert player.acting[0].tolist() == [seat == 1, seat == 0]
    assert player.statistics["kills"][0, seat] == 1
    assert player.statistics["deaths"][0, 1 - seat] == 1
    assert [server is None for server in calls("start_game")[0]["servers"]] == [seat == 0, seat == 1]


def test_scenarios_are_pairs_of_heroes(make, calls):
    """The name sets the heroes of both camps; the default draws a pair by the seed."""
    env = make(heroes=("luban", "miyue"))
    assert env.spec.scenarios == ("luban-luban", "luban-miyue", "miyue-luban", "miyue-miyue")
    env.reset(SEED, scenarios=[Scenario(name="miyue-luban")])
    for seed in range(12):
        env.reset(np.array([seed], np.uint64))
    first, *others = (call["camps"] for call in calls("start_game"))
    assert first == {"mode": "1v1", "heroes": [[{"hero_id": 121}], [{"hero_id": 112}]]}
    assert len({str(one) for one in others}) == 4


def test_settings_reach_hok_env(make, calls, monkeypatch):
    """Variables are those of hok_env; every match has two ports and a name of its own."""
    variables = {
        "GAMECORE_SERVER_ADDR": "games.example:23432",
        "AI_SERVER_ADDR": "10.0.0.5",
        "ACTOR_RUNTIME_ID_PREFIX": "my_run",
        "INTERFACE_CONFIG_PATH": "/features.dat",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    make(2, frame_interval=4, max_frames=900, action_timeout_s=12.5).reset(np.arange(2, dtype=np.uint64))
    client, made = calls("GamecoreClient")[0], calls("HoK1v1")
    assert client == {
        "call": "GamecoreClient",
        "server": "games.example:23432",
        "timeout": 12500,
        "frames": 900,
        "type": "remote",
    }
    assert {(one["frequency"], one["ip"]) for one in made} == {(4, "10.0.0.5")}
    ports = [int(address.split(":")[-1]) for one in made for address in one["addrs"]]
    assert len(set(ports)) == 4
    assert all(port >= 42300 for port in ports)
    assert calls("Init")[0]["path"] == "/features.dat"
    assert {call["runtime_id"] for call in calls("start_game")} == {f"my-run-{ports[0]}", f"my-run-{ports[2]}"}


def test_ports_of_closed_matches_are_free_again():
    """A pair in use is skipped."""
    one = PortPair.reserve(43300)
    other = PortPair.reserve(43300)
    assert other.first == one.first + 2
    one.release()
    again = PortPair.reserve(43300)
    assert again.first == one.first
    other.release()
    again.release()


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("raise", WorkerError, r"hok: hok_env failed, .*127\.0\.0\.1:23432: .* AssertionError: step failed: -1$"),
        ("crash", WorkerError, r"hok: the process of hok_env ended with status 3; see its messages above$"),
        ("hang", WorkerError, r"hok: no reply for 1 s; the game server at 127.* 127\.0\.0\.1, ports \d+ and \d+$"),
    ],
)
def test_faults_of_a_step_are_one_line(make, monkeypatch, fault, error, message):
    """An environment after them can be closed."""
    monkeypatch.setenv("FAKE_HOK_FAULT", fault)
    monkeypatch.setattr("ludus_hok.bridge._CLOSE_S", 0.5)
    env = make(step_timeout_s=1.0)
    env.reset(SEED)
    with pytest.raises(error, match=message) as caught:
        step(env)
    assert "\n" not in str(caught.value)


def test_other_features_are_refused(make, monkeypatch):
    """Such as those of another version of hok_env."""
    monkeypatch.setenv("FAKE_HOK_FAULT", "features")
    with pytest.raises(PluginError, match=r"expected 725 features, got 453; this is another version of hok_env"):
        make().reset(SEED)


def test_labels_that_the_table_lacks_are_reported(make, monkeypatch, caplog):
    """Learners read one table for all heroes."""
    monkeypatch.setenv("FAKE_HOK_FAULT", "labels")
    make().reset(SEED)
    assert "the button attack uses the label move_x, which is not learned from" in caplog.text
    assert not LABELS_USED[ATTACK][1]


def test_a_missing_server_is_one_line(make, monkeypatch):
    """The message has the address."""
    monkeypatch.setenv("GAMECORE_SERVER_ADDR", "127.0.0.1:1")
    env = make()
    with pytest.raises(WorkerError, match=r"server at 127\.0\.0\.1:1: .*ConnectionError: no server at 127\.0\.0\.1:1$"):
        env.reset(SEED)


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("LUDUS_HOK_PYTHON", "", PluginError, r"hok needs the licensed hok_env.*Python 3\.8 or 3\.9: set LUDUS_HOK_PY"),
        ("LUDUS_HOK_PYTHON", "/no/python", PluginError, r"LUDUS_HOK_PYTHON: expected .*'/no/python' is no program"),
        (
            "LUDUS_HOK_PYTHON",
            sys.executable,
            PluginError,
            r"cannot be imported by \S+: No module named 'hok'; install it",
        ),
        (
            "GAMECORE_SERVER_ADDR",
            "localhost",
            ConfigError,
            r'GAMECORE_SERVER_ADDR: expected "HOST:PORT".*\'localhost\'',
        ),
        ("AI_SERVER_ADDR", "10.0.0.5:80", ConfigError, r"AI_SERVER_ADDR: expected a host name or IP without a port"),
        ("ACTOR_PORT_BEGIN", "80", ConfigError, r"ACTOR_PORT_BEGIN: expected a port from 1024 to 60000, got '80'"),
    ],
)
def test_wrong_settings_are_one_line(make, monkeypatch, name, value, error, message):
    """They are found when the environment is made."""
    monkeypatch.setenv(name, value)
    with pytest.raises(error, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_an_interpreter_that_ends_is_one_line(make, monkeypatch):
    """It is no Python, or cannot run the file."""
    monkeypatch.setenv("LUDUS_HOK_PYTHON", "false")
    with pytest.raises(
        PluginError, match=r"^LUDUS_HOK_PYTHON: expected .*/false ended with status 1 before hok_env was"
    ):
        make()


def test_wrong_heroes_are_refused():
    """The message lists all."""
    with pytest.raises(ValueError, match=r"heroes: .*luban, miyue, .*got \('lubann',\)"):
        HokConfig(heroes=("lubann",))


def test_unknown_scenarios_are_refused(make):
    """The message lists the pairs."""
    with pytest.raises(ContractError, match="unknown scenario 'luban-kai'; there are default, luban-luban"):
        make().reset(SEED, scenarios=[Scenario(name="luban-kai")])


def test_defaults_of_settings():
    """As in hok_env, with the name of this machine in the names of games."""
    settings = ServerSettings.read({"LUDUS_HOK_PYTHON": sys.executable})
    assert (settings.server, settings.client, settings.first_port) == ("127.0.0.1:23432", "127.0.0.1", 35300)
    assert settings.runtime_prefix.startswith("ludus-")


def test_the_process_of_hok_env_needs_no_later_python():
    """Its file is valid in Python 3.8 and imports the standard library only."""
    path = Path(ludus_hok.__file__).with_name("bridge_process.py")
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    froms = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported | froms <= sys.stdlib_module_names
    assert NUM_LEGAL == 172


def test_processes_end_with_the_environment(make):
    """Closing twice is harmless."""
    env = make(2)
    env.reset(np.arange(2, dtype=np.uint64))
    pids = [game._bridge._process.pid for game in env._games._games]
    env.close()
    env.close()
    assert not any(Path("/proc", str(pid)).exists() for pid in pids)


ORPHAN = """
import os, signal
import numpy as np
from ludus_hok.config import HokConfig
from ludus_hok.game import make_environment
env = make_environment(HokConfig(heroes=("luban",)), num_matches=1)
env.reset(np.array([1], np.uint64))
bridge = env._games._games[0]._bridge
bridge.send({"do": "step", "actions": [[0] * 6] * 2})
print(bridge._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_process_of_hok_env_ends_with_a_killed_parent(monkeypatch):
    """Though it waits for the game, and does not read its socket."""
    monkeypatch.setenv("FAKE_HOK_FAULT", "hang")
    done = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    status = Path("/proc", done.stdout.strip(), "status")
    deadline_s = time.monotonic() + 10
    while status.exists() and "State:\tZ" not in status.read_text():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


RUN = """
run.decisions = 600
[environment]
name = "hok"
[environment.hok]
heroes = ["luban", "miyue"]
max_frames = 60
[sampling]
matches = 2
rows_per_fixture = 2
[evaluation]
final_matches = 4
[players.main_agent]
algorithm = "ppo"
network = "hok"
matchmaker = "latest-self-play"
ppo = { preset = "hok", batch_decisions = 256, num_minibatches = 2 }
hok = { preset = "hok", plain = 1, targets = ["hero_enemy", "hero_own", "soldiers_enemy", "buildings_enemy"], units = [16], torso = [32], core_size = 32 }
[anchors.bot]
agent = "builtin"
"""  # noqa: E501 - a table of TOML


def test_a_run_learns_with_the_network_of_the_paper(tmp_path, capsys):
    """Eight targets: none, the heroes, four soldiers and the buildings."""
    for package in ("ludus_ppo", "ludus_networks", "ludus_matchmakers", "ludus_agents", "ludus_terminal"):
        pytest.importorskip(package)
    (tmp_path / "run.toml").write_text(RUN, encoding="utf-8")
    run = str(tmp_path / "run")
    assert main(["train", str(tmp_path / "run.toml"), "--run", run, "--workers", "0", "--json"]) == 0
    capsys.readouterr()
    assert main(["eval", run, "main_agent@latest", "bot", "--matches", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_the_game_is_registered():
    """By the name `hok`."""
    game = open_game("hok", options={"hok": {"heroes": ["luban"]}})
    with closing(game.make_environment(1)) as env:
        assert env.spec.scenarios == ("luban-luban",)
