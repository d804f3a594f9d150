"""Copies of a scalar game, in series and in worker processes."""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus.environment import Scenario
from ludus.errors import ContractError, WorkerError
from ludus.spaces import leaf_spaces
from ludus.testing import check_environment
from ludus_copies import (
    Copies,
    fold_seed,
    is_reached,
    missing_modules,
    observation_writer,
    plain_observation_space,
    reward_value,
    sign_points,
    winner_points,
)

TOY = '''
"""A toy: two seats bid 0 to 3, one bid is barred on each tick, the difference is the reward."""

import os, signal, time

import numpy as np
from gymnasium import spaces

from ludus.environment import EnvironmentSpec, Role


class Bids:
    masked_roles = frozenset({"bidder"})
    reward_parts = {"bidder": ("mine", "theirs")}

    def __init__(self, ticks=4, trouble="", home=0):
        away = os.getpid() != home
        size = 3 if trouble == "other spaces" and away else 2
        if trouble == "no start" and away:
            raise OSError("no licence")
        observed = spaces.Dict(
            {
                "clock": spaces.Box(0, 99, (size,), np.float32),
                "theirs": spaces.Discrete(4),
                "unseen": spaces.Discrete(2),
            }
        )
        role = Role(
            name="bidder",
            observation_space=observed,
            action_space=spaces.Discrete(4),
            teams=(0, 1),
            privileged_space=spaces.Dict({"lead": spaces.Box(-99, 99, (1,), np.float32)}),
        )
        self.spec = EnvironmentSpec(
            name="bids", roles=(role,), turn="simultaneous", zero_sum=True, constant_sum=True, scenarios=("brief",)
        )
        self.ticks, self.trouble = ticks, trouble

    def bind(self, row):
        self.row, self.observed = row, row.tick.roles["bidder"]

    def reset(self, seed, scenario):
        self.limit = int(scenario.parameters.get("ticks", 2)) if scenario.name == "brief" else 99
        self.length, self.now, self.bid, self.total = self.ticks + seed % 3, 0, np.zeros(2, np.int64), 0
        self.show()

    def step(self):
        if self.trouble and self.now == 1:
            self.make_trouble()
        self.now += 1
        self.bid = self.row.actions["bidder"][:, 0].copy()
        gain = float(self.bid[0] - self.bid[1])
        self.total += gain
        self.observed.reward[:] = gain, -gain
        self.observed.reward_parts["mine"][:] = self.bid
        self.observed.reward_parts["theirs"][:] = -self.bid[::-1]
        self.row.tick.terminated[...] = self.now == self.length
        self.row.tick.truncated[...] = self.now == self.limit != self.length
        won = (1 + np.sign(self.total)) / 2
        self.row.tick.outcome[:] = won, 1 - won
        self.show()

    def show(self):
        self.observed.observation["clock"][:] = self.now, self.length
        self.observed.observation["theirs"][:] = self.bid[::-1]
        self.observed.privileged["lead"][:, 0] = self.total, -self.total
        self.observed.action_mask[:] = np.arange(4) != self.now % 4
        self.observed.acting[:] = True

    def make_trouble(self):
        if self.trouble == "raise":
            raise RuntimeError("the engine is gone")
        if self.trouble == "raise in turn":
            time.sleep(self.length - self.ticks)
            raise RuntimeError("the engine is gone")
        if self.trouble == "hang up":
            raise ConnectionResetError("the engine hung up")
        if self.trouble == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.trouble == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)

    def close(self):
        pass
'''
FACTORY = "toy_bids:Bids"


@pytest.fixture(autouse=True)
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make the toy importable, here and in workers."""
    (tmp_path / "toy_bids.py").write_text(TOY)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def make():
    """Make copies of the toy, and close them at the end."""
    made = []

    def make_copies(num_matches=3, workers=0, timeout_s=30.0, **options):
        copies = Copies(FACTORY, options, num_matches=num_matches, workers=workers, timeout_s=timeout_s)
        made.append(copies)
        return copies

    yield make_copies
    for copies in made:
        copies.close()


def bids(copies, value=3):
    """Return the same bid for all seats, or the next one where it is barred."""
    mask = copies.reset(np.array([], np.uint64), indices=np.array([], np.int64)).roles["bidder"].action_mask
    wanted = np.full((copies.num_matches, 2, 1), value)
    barred = ~np.take_along_axis(mask, wanted, axis=2)
    return {"bidder": np.where(barred, (wanted + 1) % 4, wanted)}


def seeds(*values):
    """Return match seeds."""
    return np.array(values, np.uint64)


def play(copies, steps):
    """Play random legal bids and return all ticks."""
    random = np.random.default_rng(5)
    tick = copies.reset(seeds(*range(copies.num_matches)))
    observed = []
    for step in range(steps):
        mask = tick.roles["bidder"].action_mask
        tick = copies.step({"bidder": (random.random(mask.shape) * mask).argmax(axis=2)[..., None]})
        role = tick.roles["bidder"]
        arrays = [*role.observation.values(), *role.privileged.values(), *role.reward_parts.values()]
        arrays += [role.acting, role.action_mask, role.reward]
        observed.append([array.copy() for array in (*arrays, tick.terminated, tick.truncated, tick.outcome)])
        ended = np.flatnonzero(tick.terminated | tick.truncated)
        if len(ended) > 1:  # a single ended match idles until another ends
            tick = copies.reset(seeds(*(100 * step + ended)), indices=ended)
    return observed


def processes():
    """Return state, parent and command by process id."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,stat=,ppid=,args="], check=True, capture_output=True, text=True)
    rows = [line.split(None, 3) for line in listing.stdout.splitlines()]
    return {int(pid): (stat, int(parent), command) for pid, stat, parent, command in rows}


def is_alive(pid):
    """Return whether a process exists and is not a zombie."""
    state, *_ = processes().get(pid, "Z")
    return not state.startswith("Z")


def children():
    """Return the process ids of this process's workers."""
    mine = (os.getpid(), "-m ludus_copies ")
    return [pid for pid, (_, parent, command) in processes().items() if parent == mine[0] and mine[1] in command]


@pytest.mark.parametrize("workers", [0, 2])
def test_contract(make, workers) -> None:
    """Copies keep the environment contract in series and in workers."""
    check_environment(lambda num_matches: make(num_matches, workers), steps=12)


def test_workers_play_the_same_matches(make) -> None:
    """Any number of workers, also more than matches, gives the same ticks as one process."""
    expected = play(make(5), 30)
    for workers in (2, 9):
        got = play(make(5, workers), 30)
        for mine, theirs in zip(expected, got, strict=True):
            assert all(map(np.array_equal, mine, theirs))


def test_reset_in_place(make) -> None:
    """A reset clears the given matches and leaves the others as they are."""
    copies = make(2)
    copies.reset(seeds(0, 0))
    copies.step({"bidder": np.array([[[3], [1]], [[2], [3]]])})
    tick = copies.reset(seeds(1), indices=np.array([1]))
    assert tick.roles["bidder"].reward.tolist() == [[2, -2], [0, 0]]
    assert tick.roles["bidder"].observation["theirs"].tolist() == [[1, 3], [0, 0]]


def test_reset_clears_the_match(make) -> None:
    """All arrays of a match are cleared before the next one starts, even those that the game does not overwrite."""
    copies = make(1, ticks=1)
    copies.reset(seeds(0))
    tick = copies.step(bids(copies))
    tick.roles["bidder"].observation["unseen"][:] = 1
    assert tick.outcome.any()
    tick = copies.reset(seeds(0))
    assert not tick.outcome.any()
    assert not tick.roles["bidder"].observation["unseen"].any()


def test_ended_matches_idle(make) -> None:
    """A match ends once; after that no seat acts and rewards are 0."""
    copies = make(2, ticks=1)
    copies.reset(seeds(0, 2))
    tick = copies.step({"bidder": np.array([[[3], [1]], [[3], [1]]])})
    assert tick.terminated.tolist() == [True, False]
    assert tick.outcome[0].tolist() == [1, 0]
    assert tick.roles["bidder"].acting.tolist() == [[False, False], [True, True]]
    tick = copies.step({"bidder": np.array([[[3], [2]], [[3], [2]]])})
    assert tick.terminated.tolist() == [False, False]
    assert tick.roles["bidder"].reward.tolist() == [[0, 0], [1, -1]]
    assert not tick.roles["bidder"].acting[0].any()


@pytest.mark.parametrize("workers", [0, 1])
def test_scenarios_reach_the_game(make, workers) -> None:
    """The game receives a scenario with its parameters, also in workers."""
    copies = make(2, workers)
    copies.reset(seeds(0, 0), scenarios=[Scenario(), Scenario(name="brief", parameters={"ticks": 1.0})])
    assert copies.step(bids(copies)).truncated.tolist() == [False, True]


def test_seeds_above_63_bits(make) -> None:
    """Workers receive seeds of the whole range unchanged."""
    large = 2**64 - 1
    tick = make(1, 1).reset(seeds(large))
    assert tick.roles["bidder"].observation["clock"][0, 0, 1] == 4 + large % 3


@pytest.mark.parametrize(
    ("scenario", "problem"),
    [
        (Scenario(name="boss"), "unknown scenario 'boss'; there are default, brief"),
        (Scenario(parameters={"ticks": 1.0}), "scenario default takes no parameters; got 'ticks'"),
    ],
)
def test_unknown_scenario(make, scenario, problem) -> None:
    """An unknown scenario raises, and so do parameters of the default one."""
    with pytest.raises(ContractError, match=problem):
        make(1).reset(seeds(0), scenarios=[scenario])


def test_reset_of_different_lengths(make) -> None:
    """The numbers of seeds and scenarios must equal that of the matches."""
    with pytest.raises(ContractError, match="one seed for each of 2 matches, got 1"):
        make(2).reset(seeds(0))
    with pytest.raises(ContractError, match="one scenario for each of 2 matches, got 1"):
        make(2).reset(seeds(0, 0), scenarios=[Scenario()])


@pytest.mark.parametrize("actions", [{}, {"bidder": np.zeros((1, 2, 1), np.int64)}])
def test_wrong_shape(make, actions) -> None:
    """Every role needs actions with one entry per match, seat and label."""
    copies = make(2)
    copies.reset(seeds(0, 0))
    with pytest.raises(ContractError, match=r"expected actions \(2, 2, 1\) of role 'bidder'"):
        copies.step(actions)


@pytest.mark.parametrize("action", [0, 4, -1])
def test_illegal_action(make, action) -> None:
    """A masked or unknown action of an acting seat raises before any match advances."""
    copies = make(2)
    copies.reset(seeds(0, 0))
    actions = bids(copies)
    actions["bidder"][1, 0] = action
    with pytest.raises(ContractError, match=rf"illegal action \[{action}\] of role 'bidder', match 1, seat 0"):
        copies.step(actions)
    assert copies.step(bids(copies)).roles["bidder"].observation["clock"][:, 0, 0].tolist() == [1, 1]


def test_actions_of_idle_matches_are_ignored(make) -> None:
    """No seat acts in an ended match, so its actions are not checked."""
    copies = make(2, ticks=1)
    copies.reset(seeds(0, 2))
    copies.step(bids(copies))
    actions = bids(copies)
    actions["bidder"][0] = -7
    copies.step(actions)


@pytest.mark.parametrize(("num_matches", "workers"), [(0, 0), (1, -1)])
def test_invalid_sizes(make, num_matches, workers) -> None:
    """At least one match and a nonnegative number of workers are required."""
    with pytest.raises(ContractError, match="num_matches ≥ 1 and workers ≥ 0"):
        make(num_matches, workers)


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("raise", "matches 1 to 2 failed: toy_bids, line [0-9]+, raised RuntimeError: the engine is gone"),
        ("hang up", "matches 1 to 2 failed: toy_bids, line [0-9]+, raised ConnectionResetError"),
        ("die", "matches 1 to 2 died .signal SIGKILL"),
        ("hang", "matches 1 to 2 did not reply for 2 s"),
    ],
)
def test_failing_worker(make, monkeypatch, trouble, message) -> None:
    """A game that raises, crashes or hangs in a worker gives one error, and no process is left."""
    if trouble == "hang":  # the others end by themselves
        monkeypatch.setattr("ludus_copies.workers._CLOSE_TIMEOUT_S", 0.2)
    copies = make(3, 2, timeout_s=2.0, trouble=trouble)
    copies.reset(seeds(0), indices=np.array([2]))
    copies.step(bids(copies))
    with pytest.raises(WorkerError, match=message):
        copies.step(bids(copies))
    assert not children()
    with pytest.raises(WorkerError, match="were closed"):
        copies.reset(seeds(0), indices=np.array([2]))


def test_debugging_prints_the_traceback_of_a_worker(make, monkeypatch, capfd) -> None:
    """The error itself is one line, with the place only."""
    monkeypatch.setenv("LUDUS_DEBUG", "1")
    copies = make(3, 1, trouble="raise")
    copies.reset(seeds(0), indices=np.array([2]))
    copies.step(bids(copies))
    with pytest.raises(WorkerError):
        copies.step(bids(copies))
    assert "in step\n" in (printed := capfd.readouterr().err)
    assert "RuntimeError: the engine is gone" in printed


def test_workers_that_fail_after_another_print_nothing(make, capfd) -> None:
    """Only the first error is reported."""
    copies = make(2, 2, trouble="raise in turn")
    copies.reset(seeds(0, 1))
    copies.step(bids(copies))
    with pytest.raises(WorkerError, match="matches 0 to 0 failed"):
        copies.step(bids(copies))
    assert not children()
    assert capfd.readouterr().err == ""


def test_hanging_workers_are_stopped_together(make, monkeypatch) -> None:
    """Stopping them one after another would take minutes, so that the caller could time out too."""
    monkeypatch.setattr("ludus_copies.workers._CLOSE_TIMEOUT_S", 1.0)
    copies = make(4, 4, timeout_s=0.5, trouble="deaf")
    copies.reset(seeds(*range(4)))
    copies.step(bids(copies))
    start_s = time.monotonic()
    with pytest.raises(WorkerError, match="matches 0 to 0 did not reply"):
        copies.step(bids(copies))
    assert time.monotonic() - start_s < 5
    assert not children()


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("no start", "toy_bids, line [0-9]+, raised OSError: no licence"),
        ("other spaces", r"other spaces .*float32\[2, 2, 3\].* instead of .*float32\[2, 2, 2\]"),
    ],
)
def test_worker_that_cannot_start(make, trouble, message) -> None:
    """Errors while a worker makes its games are reported, and no process is left."""
    with pytest.raises(WorkerError, match=message):
        make(2, 1, trouble=trouble, home=os.getpid())
    assert not children()


SETTINGS = '''
"""A game that changes settings of the process on construction, in `reset` or in `step`, and needs them afterwards."""

import numpy as np
import torch
from toy_bids import Bids


class Changing(Bids):
    def __init__(self, when, **options):
        super().__init__(**options)
        self.when, self.changed = when, False
        self.change("construction")

    def change(self, now):
        assert not self.changed or torch.zeros(1).dtype == torch.float64
        if now == self.when:
            torch.set_default_dtype(torch.float64)
            torch.set_num_threads(3)
            torch.set_grad_enabled(False)
            np.seterr(all="raise")
            torch.manual_seed(1)
            np.random.seed(1)
            self.changed = True

    def reset(self, seed, scenario):
        self.change("reset")
        super().reset(seed, scenario)

    def step(self):
        self.change("step")
        super().step()
'''


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("when", ["construction", "reset", "step"])
def test_settings_of_the_process_are_kept(tmp_path, when, workers) -> None:
    """Games that change defaults of torch and NumPy find them again, and other code does not."""
    torch = pytest.importorskip("torch")
    (tmp_path / "toy_settings.py").write_text(SETTINGS)

    def read():
        return torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled(), np.geterr()

    before = read()
    with closing(Copies("toy_settings:Changing", {"when": when}, num_matches=2, workers=workers)) as copies:
        assert read() == before
        for match in range(3):
            copies.reset(seeds(match, match))
            assert read() == before
            with torch.no_grad():
                copies.step(bids(copies))
            assert read() == before


def test_options_that_are_not_json(make) -> None:
    """Options of workers must be JSON values; others raise before any process starts."""
    with pytest.raises(TypeError, match="JSON"):
        make(2, 1, ticks=np.int64(3))
    assert not children()


def test_close_twice(make) -> None:
    """Closing stops all workers, and closing again is harmless."""
    copies = make(2, 2)
    assert len(children()) == 2
    actions = bids(copies)
    copies.close()
    copies.close()
    assert not children()
    with pytest.raises(WorkerError, match="were closed"):
        copies.step(actions)


def test_workers_exit_with_their_parent(tmp_path) -> None:
    """Workers of a killed process exit."""
    script = textwrap.dedent("""
        import subprocess, sys, time
        from ludus_copies import Copies
        copies = Copies("toy_bids:Bids", {}, num_matches=2, workers=2)
        print(*(worker._process.pid for worker in copies._games._workers), flush=True)
        time.sleep(60)
    """)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert [is_alive(pid) for pid in pids] == [True, True]
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_alive, pids))


@given(st.integers(0, 2**64 - 1))
@settings(deadline=None, max_examples=50)
def test_fold_seed(seed: int) -> None:
    """Every seed becomes one of 31 bits, and small seeds are unchanged."""
    assert 0 <= fold_seed(seed) < 2**31
    assert fold_seed(seed % 2**31) == seed % 2**31


def test_fold_seed_uses_all_bits() -> None:
    """Seeds that differ in one bit differ after folding."""
    assert len({fold_seed(1 << bit ^ 0b101) for bit in range(31, 62)}) == 31


NESTED = spaces.Dict(
    {"board": spaces.Box(0, 9, (2,), np.int8), "hand": spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)])}
)


def test_tuples_become_leaves() -> None:
    """Tuple parts are leaves named by their position."""
    assert list(leaf_spaces(plain_observation_space(NESTED))) == ["board", "hand.0", "hand.1"]


def test_plain_observation_space_is_kept() -> None:
    """A space without parts is unchanged."""
    space = spaces.Box(0, 1, (3,))
    assert plain_observation_space(space) is space


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=20)
def test_observation_writer(seed: int) -> None:
    """Every part of an observation is written to the leaf of its name."""
    NESTED.seed(seed)
    observation = NESTED.sample()
    leaves = leaf_spaces(plain_observation_space(NESTED))
    views = {name: np.zeros(leaf.shape, leaf.dtype) for name, leaf in leaves.items()}
    observation_writer(NESTED, views)(observation)
    assert views["board"].tolist() == observation["board"].tolist()
    assert views["hand.0"] == observation["hand"][0]
    assert views["hand.1"].tolist() == observation["hand"][1].tolist()


def test_observation_writer_of_a_scalar() -> None:
    """A Discrete observation is written to an array without dimensions."""
    view = np.zeros((), np.int64)
    observation_writer(spaces.Discrete(5), {"obs": view})(np.array(4))
    assert view == 4


@pytest.mark.parametrize("found", [np.array([0, 255]), [0, 255], np.array([0, 255], np.int16)])
def test_observations_of_another_dtype_are_converted(found) -> None:
    """Libraries often return int64 where they declare smaller dtypes; values that fit are accepted."""
    view = np.zeros(2, np.uint8)
    observation_writer(spaces.Box(0, 255, (2,), np.uint8), {"obs": view})(found)
    assert view.tolist() == [0, 255]


def test_python_integers_are_written_directly(monkeypatch) -> None:
    """Converting a Python integer to an array first would take ten times as long."""
    view = np.zeros((), np.uint8)
    write = observation_writer(spaces.Box(0, 255, (), np.uint8), {"obs": view})
    for too_much in (-1, 256):
        with pytest.raises(ContractError, match=f"observation leaf 'obs': expected uint8, got {too_much} to"):
            write(too_much)
    monkeypatch.setattr("ludus_copies.spaces._write_checked", lambda *_: pytest.fail("an array was made"))
    for number in (255, np.uint8(7), 0):
        write(number)
        assert view == number


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (np.array([0.2, 0.9]), "expected uint8 (2,), got float64 (2,)"),
        (np.array([7], np.uint8), "expected uint8 (2,), got uint8 (1,)"),
        (np.array([[7, 8]]), "expected uint8 (2,), got int64 (1, 2)"),
        (None, "expected uint8 (2,), got NoneType"),
        ([[1], [2, 3]], "expected uint8 (2,), got list"),
        ("ab", "expected uint8 (2,), got str"),
        (np.array([3, 300]), "expected uint8, got 3 to 300"),
        (np.array([-1, 3]), "expected uint8, got -1 to 3"),
    ],
)
def test_observations_that_numpy_would_change_raise(found, problem) -> None:
    """NumPy would cast, wrap and broadcast silently."""
    space = spaces.Dict({"head": spaces.Discrete(2), "body": spaces.Dict({"eyes": spaces.Box(0, 255, (2,), np.uint8)})})
    views = {"head": np.zeros((), np.int64), "body.eyes": np.zeros(2, np.uint8)}
    with pytest.raises(ContractError, match=re.escape(f"observation leaf 'body.eyes': {problem}")):
        observation_writer(space, views)({"head": 1, "body": {"eyes": found}})


@pytest.mark.parametrize(
    ("reward", "value"),
    [
        (2, 2.0),
        (np.float32(0.5), 0.5),
        (np.array([1.5]), 1.5),
        (np.array([[3]], np.int8), 3.0),
        ([1.0], 1.0),
        (True, 1.0),
    ],
)
def test_reward_values(reward, value) -> None:
    """A reward is one number of any type and shape."""
    assert reward_value(reward) == value
    assert type(reward_value(reward)) is float


@pytest.mark.parametrize(
    ("reward", "problem"),
    [
        (None, "expected one number, got None"),
        ("1", "expected one number, got '1'"),
        (np.ones(2), r"expected one number, got float64 \(2,\)"),
        ([], r"expected one number, got float64 \(0,\)"),
        (float("nan"), "expected a finite number in the range of float32, got nan"),
        (np.float64(1e300), "expected a finite number in the range of float32, got 1e"),
        (np.array([-np.inf]), "expected a finite number in the range of float32, got -inf"),
    ],
)
def test_other_rewards_raise(reward, problem) -> None:
    """Rewards are stored as float32, and no algorithm learns from other values."""
    with pytest.raises(ContractError, match=f"^reward: {problem}"):
        reward_value(reward)


def test_numbered_keys_and_empty_leaves() -> None:
    """Keys become text, and leaves of size 0 are left out."""
    box = spaces.Box(0, 1, (2,), np.float32)
    space = spaces.Dict(
        {0: box, 1: spaces.Tuple([spaces.Box(0, 1, (0, 3)), box]), 2: spaces.Dict({"none": spaces.Box(0, 1, (0,))})}
    )
    plain = plain_observation_space(space)
    views = {name: np.zeros(leaf.shape, leaf.dtype) for name, leaf in leaf_spaces(plain).items()}
    assert list(views) == ["0", "1.1"]
    observation_writer(space, views)({0: np.ones(2), 1: (np.zeros((0, 3)), [0.5, 0.25]), 2: {}})
    assert {name: view.tolist() for name, view in views.items()} == {"0": [1, 1], "1.1": [0.5, 0.25]}


@pytest.mark.parametrize(
    ("space", "problem"),
    [
        (spaces.Box(0, 1, (0,)), "holds no numbers; expected at least one"),
        (spaces.Dict({"a": spaces.Tuple([])}), "holds no numbers; expected at least one"),
        (
            spaces.Tuple([spaces.Dict([(1, spaces.Discrete(2)), ("1", spaces.Discrete(2))])]),
            "two keys .* are '1' as text",
        ),
    ],
)
def test_spaces_without_names_or_numbers_raise(space, problem) -> None:
    """There is nothing to observe, or two leaves have one name."""
    with pytest.raises(ContractError, match=problem):
        plain_observation_space(space)


@pytest.mark.parametrize("found", [3, -1, np.int64(3), np.array(7), np.int8(4)])
def test_values_outside_of_a_discrete_space_raise(found) -> None:
    """Networks have one input for each value."""
    with pytest.raises(ContractError, match=f"observation leaf 'obs': expected 1 to 2, got {found}$"):
        observation_writer(spaces.Discrete(2, start=1), {"obs": np.zeros((), np.int64)})(found)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([3, 3]), spaces.MultiBinary(2)])
@pytest.mark.parametrize("found", [[0, 3], np.array([-1, 0]), np.array([0, 5], np.int8)])
def test_values_outside_of_spaces_of_labels_raise(space, found) -> None:
    """So do labels."""
    write = observation_writer(space, {"obs": np.zeros(2, space.dtype)})
    write([0, 1])
    with pytest.raises(ContractError, match=r"observation leaf 'obs': expected values of Multi.*, got \["):
        write(found)


def test_values_outside_of_a_box_are_written() -> None:
    """Many games declare bounds that they do not keep."""
    view = np.zeros(2, np.float32)
    observation_writer(spaces.Box(0, 1, (2,)), {"obs": view})([-1.0, 5.0])
    assert view.tolist() == [-1, 5]


@pytest.mark.parametrize("found", [{}, {"body": {}}, {"head": 1, "body": 3}, None, [1]])
def test_missing_leaves_raise(found) -> None:
    """The message names the leaf."""
    space = spaces.Dict({"head": spaces.Discrete(2), "body": spaces.Dict({"eyes": spaces.Discrete(2)})})
    views = {"head": np.zeros((), np.int64), "body.eyes": np.zeros((), np.int64)}
    with pytest.raises(ContractError, match=r"observation leaf '(head|body\.eyes)' is missing"):
        observation_writer(space, views)(found)


@pytest.mark.parametrize(
    ("scores", "points"),
    [
        ([0.1 + 0.2, 0.3], [0.5, 0.5]),
        ([1e9 + 0.1 + 0.2, 1e9 + 0.3], [0.5, 0.5]),
        ([sum([0.1] * 10), 1], [0.5, 0.5]),
        ([np.float32(0.1) + np.float32(0.2), 0.3], [0.5, 0.5]),
        ([0.1 + 0.2 - 0.3, 0.0, -1.0], [0.5, 0.5, 0]),
        ([0.3001, 0.3], [1, 0]),
        ([1_000_000, 1_000_001], [0, 1]),
        ([2, 2, 2], [0.5, 0.5, 0.5]),
        ([1.0, -float("inf")], [1, 0]),
    ],
)
def test_winner_points(scores, points) -> None:
    """Scores that differ by rounding are equal; whole numbers have no rounding."""
    assert winner_points(scores) == points


def test_thresholds_and_signs_ignore_rounding() -> None:
    """A sum of floats may be just below or beside the number that it stands for."""
    assert 0.8 + 0.1 < 0.9 + 1e-9
    assert is_reached(0.1 + 0.7, 0.8)
    assert not is_reached(0.7999, 0.8)
    assert [sign_points(score) for score in (0.1 + 0.2 - 0.3, 0.01, -0.01)] == [0.5, 1, 0]


def test_missing_modules_are_found_below_other_errors() -> None:
    """Libraries report a missing dependency by an error that may name another package."""

    def load() -> None:
        try:
            importlib.import_module("no_such_codec.reader")
        except ImportError as error:
            raise RuntimeError("pip install something-else") from error

    with pytest.raises(RuntimeError) as caught:
        load()
    assert missing_modules(caught.value) == ["no_such_codec"]


PREPARED = """
from toy_bids import Bids

calls = []


class Prepared(Bids):
    def prepare(self, seed, scenario):
        calls.append(("prepare", seed, scenario.name))

    def reset(self, seed, scenario):
        calls.append(("reset", seed, scenario.name))
        super().reset(seed, scenario)
"""


def test_matches_that_start_together_are_prepared_together(tmp_path) -> None:
    """Before the first of them is reset, with their seeds and scenarios."""
    (tmp_path / "toy_prepared.py").write_text(PREPARED)
    with closing(Copies("toy_prepared:Prepared", {}, num_matches=3)) as copies:
        copies.reset(seeds(4, 5), indices=np.array([0, 2]), scenarios=[Scenario(name="brief"), Scenario()])
    assert importlib.import_module("toy_prepared").calls == [
        ("prepare", 4, "brief"),
        ("prepare", 5, "default"),
        ("reset", 4, "brief"),
        ("reset", 5, "default"),
    ]
