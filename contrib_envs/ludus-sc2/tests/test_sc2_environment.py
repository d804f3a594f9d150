"""StarCraft II: contract, matches, rewards, ends and faults, against a fake that speaks the protocol."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ludus.__main__ import main
from ludus.environment import Scenario
from ludus.errors import ConfigError, ContractError, PluginError, WorkerError
from ludus.testing import check_environment
from ludus_sc2 import installation
from ludus_sc2.game import ROLE
from ludus_sc2.layout import NONE

RULES = [0, 0, 0]
IDLE = [NONE, NONE, NONE]
SEED = np.array([1], np.uint64)


def step(env, own=RULES, enemy=RULES):
    """Advance one match by a tick."""
    return env.step({ROLE: np.array([[own, enemy]])})


def play(env, own=RULES, enemy=RULES):
    """Play a match to its end, and return the last tick and the sum of the rewards."""
    total = np.zeros(2)
    while True:
        tick = step(env, own, enemy)
        total += tick.roles[ROLE].reward[0]
        if tick.terminated[0] or tick.truncated[0]:
            return tick, total


def pids(env):
    """Return the ids of the processes of all matches."""
    return [process.pid for game in env._games._games for process in game.session.processes]


def is_running(pid):
    """Return whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_contract(make, monkeypatch):
    """Matches keep the contract, with and without bots, of which two of ten are enough."""
    monkeypatch.setattr("ludus_sc2.game.BOTS", ("easy", "cheat-insane"))
    check_environment(lambda num_matches: make(num_matches, max_loops=320, step_loops=160, max_units=60), steps=4)


def test_rules_beat_the_easiest_bot(make):
    """A game of more than 1,000 loops: an economy grows, an army destroys all buildings."""
    env = make(step_loops=96)
    env.reset(SEED, scenarios=[Scenario(builtin=("", "very-easy"))])
    tick, total = play(env)
    assert tick.terminated[0]
    assert tick.outcome[0].tolist() == [1, 0]
    assert total.tolist() == [1, -1]
    seen = {name: values[0, 0] for name, values in tick.roles[ROLE].statistics.items()}
    assert seen["collected"] > 3000
    assert seen["killed_value"] > 300
    assert seen["workers"] > 20
    assert tick.roles[ROLE].observation["time"][0, 0] * 24_000 > 1000


def test_two_seats_play_each_other(make):
    """The seat that does nothing loses against rules; both processes are in one match."""
    env = make(step_loops=192)
    env.reset(SEED)
    tick, total = play(env, own=IDLE)
    assert tick.terminated[0]
    assert tick.outcome[0].tolist() == [0, 1]
    assert total.tolist() == [-1, 1]
    assert len(set(pids(env))) == 2


@pytest.mark.parametrize("seat", [0, 1])
def test_bots_play_seats(make, seat):
    """Their seats never act and observe nothing; one process is enough."""
    env = make(step_loops=64)
    bots = tuple("easy" if one == seat else "" for one in range(2))
    tick = env.reset(SEED, scenarios=[Scenario(builtin=bots)])
    for _ in range(3):
        assert tick.roles[ROLE].acting[0].tolist() == [seat != 0, seat != 1]
        tick = step(env)
    assert tick.roles[ROLE].observation["own_present"][0].any(axis=1).tolist() == [seat != 0, seat != 1]
    assert len(pids(env)) == 1


def test_a_match_of_two_bots_is_observed(make):
    """The stronger one wins, and no seat acts."""
    env = make(step_loops=500)
    tick = env.reset(SEED, scenarios=[Scenario(builtin=("very-easy", "cheat-insane"))])
    assert not tick.roles[ROLE].acting.any()
    tick, total = play(env)
    assert tick.outcome[0].tolist() == [0, 1]
    assert total.tolist() == [-1, 1]


def test_a_match_without_a_result_is_a_draw(make):
    """330 loops are two decisions, of which the last one is shorter."""
    env = make(step_loops=200, max_loops=330)
    env.reset(SEED)
    assert not step(env, IDLE, IDLE).truncated[0]
    tick = step(env, IDLE, IDLE)
    assert tick.truncated[0]
    assert not tick.terminated[0]
    assert tick.outcome[0].tolist() == [0.5, 0.5]
    assert not tick.roles[ROLE].reward.any()
    assert env.spec.max_ticks == 2
    assert tick.roles[ROLE].observation["time"].tolist() == [[[1.0], [1.0]]]


def test_destroyed_units_are_rewarded(make):
    """The reward of a decision is that of what was destroyed since the last one."""
    env = make(step_loops=96, killed=2.0, win=0.0)
    env.reset(SEED, scenarios=[Scenario(builtin=("", "very-easy"))])
    tick, total = play(env)
    value = tick.roles[ROLE].statistics["killed_value"][0, 0]
    assert value > 0
    assert total[0] == pytest.approx(2 * value / 1000)
    assert env.spec.roles[0].guidance == ("killed",)
    assert not env.spec.sparse_rewards


def test_illegal_actions_are_refused(make):
    """Nothing but the larva's units is affordable at the start: a hive is masked."""
    env = make()
    tick = env.reset(SEED)
    legal = np.flatnonzero(tick.roles[ROLE].action_mask[0, 0, :64]).tolist()
    assert legal[:2] == [0, 1]
    with pytest.raises(ContractError, match=r"illegal action \[17, 1, 1\] of role 'player', match 0, seat 1"):
        step(env, IDLE, [17, 1, 1])


def test_matches_use_the_same_processes(make):
    """A match may begin while another one runs; bots need one process of the two."""
    env = make(step_loops=64)
    env.reset(SEED)
    first = pids(env)
    step(env)
    env.reset(SEED + np.uint64(1))
    step(env)
    env.reset(SEED, scenarios=[Scenario(builtin=("", "easy"))])
    step(env)
    assert pids(env) == first
    env.close()
    env.close()
    assert not any(map(is_running, first))


def test_the_game_ends_with_the_process_that_started_it(game_folder):
    """Also where that process is killed."""
    code = (
        "import numpy as np, time\n"
        "from ludus_sc2.config import Sc2Config\n"
        "from ludus_sc2.environment import make_environment\n"
        "env = make_environment(Sc2Config(), num_matches=1)\n"
        "env.reset(np.array([1], np.uint64))\n"
        "print(*[p.pid for p in env._games._games[0].session.processes], flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        started = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(started) == 2
        assert all(map(is_running, started))
        parent.send_signal(signal.SIGKILL)
    deadline_s = time.monotonic() + 10
    while any(map(is_running, started)) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not any(map(is_running, started))


def play_a_step(env):
    """Start a match against a bot, and advance it."""
    env.reset(SEED, scenarios=[Scenario(builtin=("", "easy"))])
    step(env)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("start", r"sc2: \S+/Base10023/SC2_x64 ended with status 5; its last output: fake: cannot open the display$"),
        ("silent", r"sc2: \S+/SC2_x64 accepted no connection within 1 s; raise start_timeout_s$"),
        ("crash", r"sc2: \S+/SC2_x64 ended with status 3; its last output: fake: out of memory$"),
        ("hang", r"sc2: no reply to the request step for 1 s$"),
    ],
)
def test_faults_of_the_game_are_one_line(make, monkeypatch, fault, message):
    """An environment after them can be closed."""
    monkeypatch.setenv("FAKE_SC2_FAULT", fault)
    monkeypatch.setattr("ludus_sc2.game_process._QUIT_S", 0.5)
    env = make(start_timeout_s=1.0 if fault == "silent" else 60.0, step_timeout_s=1.0)
    with pytest.raises(WorkerError, match=message):
        play_a_step(env)


def test_what_the_game_refuses_is_one_line(make):
    """Such as a map of which the folder has the file, and the game not."""
    env = make(map="Flat32")
    with pytest.raises(WorkerError, match="sc2: the game refused the request create_game: InvalidMapPath"):
        env.reset(SEED)


def test_a_missing_game_is_one_line(make, monkeypatch, tmp_path):
    """The line names the variable."""
    monkeypatch.delenv("SC2PATH")
    with pytest.raises(PluginError, match=r"^sc2 needs StarCraft II: install the game and set SC2PATH to its folder"):
        make()
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    with pytest.raises(PluginError, match=r"^SC2PATH: expected a folder with Versions/Base<number>/SC2_x64, found non"):
        make()


def test_a_missing_map_is_one_line(make):
    """The line lists maps that are there."""
    with pytest.raises(ConfigError, match=r"^sc2\.map: expected a map in .*, got 'Simple65'; there are Flat32, Simple"):
        make(map="Simple65")


def test_a_missing_package_is_one_line(make, monkeypatch):
    """The line names the extra."""
    installation.load_protocol.cache_clear()
    monkeypatch.setitem(sys.modules, "websockets", None)
    with pytest.raises(PluginError, match=r'websockets.*; pip install "ludus-sc2\[game\]" installs it$'):
        make()


def test_check_names_what_to_set(tmp_path, capsys, monkeypatch):
    """Without the game, `ludus check` prints one line."""
    monkeypatch.delenv("SC2PATH", raising=False)
    assert main(["check", str(write_run(tmp_path))]) != 0
    output = capsys.readouterr()
    assert "set SC2PATH to its folder" in output.out + output.err
    assert "Traceback" not in output.out + output.err


def write_run(folder):
    """Write a run file: a player with interfaces of Arena against rules and a bot."""
    path = folder / "run.toml"
    path.write_text(
        """
        run.decisions = 60
        [environment]
        name = "sc2"
        sc2 = { step_loops = 128, max_loops = 1408, max_units = 100 }
        [sampling]
        matches = 1
        [evaluation]
        matches = 1
        final_matches = 2
        [players.main_agent]
        algorithm = "ppo"
        network = "mlp"
        matchmaker = "mixture"
        ppo = { batch_decisions = 32, segment_decisions = 8 }
        interfaces = ["zerg-sc2-learner-obs", "zerg-tech-obs", "zerg-flat-act", "select-leaves"]
        zerg-sc2-learner-obs.cells = 8
        select-leaves.keep = ["learner_image", "learner_vector", "tech"]
        [anchors.rules]
        agent = "sc2-rules"
        [anchors.easy]
        agent = "builtin"
        builtin.name = "very-easy"
        """,
        encoding="utf-8",
    )
    return path


def test_a_run_plays_whole_matches(game_folder, tmp_path, capsys):
    """`ludus train` plays matches of 1,408 loops against rules and a built-in bot, and learns from them."""
    run = tmp_path / "run"
    assert main(["train", str(write_run(tmp_path)), "--run", str(run), "--workers", "0", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["matches"] >= 2  # of 11 decisions each, 1,408 loops
    assert result["decisions"] >= 60
    anchors = result["players"]["main_agent"]["anchors"]
    assert {name: sum(anchor[key] for key in ("wins", "draws", "losses")) for name, anchor in anchors.items()} == {
        "rules": 2,
        "easy": 2,
    }
