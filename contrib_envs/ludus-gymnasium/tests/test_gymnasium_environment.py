"""Gymnasium environments as ludus environments."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from attrs import fields
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus.environment import Scenario
from ludus.errors import ConfigError, ContractError
from ludus.testing import check_environment
from ludus_gymnasium.config import GymnasiumConfig
from ludus_gymnasium.environment import NativeEnvironment, make_environment
from ludus_gymnasium.plugin import ludus_register_environments

EITHER_WAY = pytest.mark.parametrize("vectorized", ["series", "native"])


class Ledger(gymnasium.Env):
    """Two accounts and a note in a nested observation, two labels to act on, and a goal without a threshold."""

    observation_space = spaces.Dict(
        {"accounts": spaces.Box(-9, 9, (2,), np.float32), "note": spaces.Dict({"n": spaces.Discrete(9)})}
    )
    action_space = spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.accounts = self.np_random.integers(0, 3, 2).astype(np.float32)
        self.count = 0
        return self.show(), {}

    def show(self):
        return {"accounts": self.accounts.copy(), "note": {"n": self.count}}

    def step(self, action):
        self.count += 1
        self.accounts += np.float32(action - 1)
        self.accounts = self.accounts.clip(-9, 9)
        return self.show(), float(action[0]), self.count == 8, self.count == 8, {"count": np.array([self.count])}


class Barred(Ledger):
    """Has an action mask on the first tick only, or on all ticks but the first."""

    def __init__(self, late=False):
        self.late = late

    def mask(self):
        first = np.array([0, 1], np.int8), np.array([1, 0, 1], np.int8)
        return {"action_mask": first} if (self.count > 0) is self.late else {}

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed)
        return observation, self.mask()

    def step(self, action):
        *results, _ = super().step(action)
        return (*results, self.mask())


gymnasium.register("LudusLedger-v0", Ledger)
gymnasium.register("LudusBarred-v0", Barred)
gymnasium.register("LudusDrifting-v0", Ledger, nondeterministic=True)


@pytest.fixture
def make():
    """Make an environment, and close it at the end."""
    made = []

    def make_one(id="CartPole-v1", num_matches=1, **options):
        made.append(make_environment(GymnasiumConfig(id=id, **options), num_matches=num_matches))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def seeds(*values):
    """Return match seeds."""
    return np.array(values, np.uint64)


def push(env, direction):
    """Return the same push for all matches."""
    return {"player": np.full((env.num_matches, 1, 1), direction)}


@pytest.mark.parametrize(
    "options",
    [
        {"id": "CartPole-v1", "vectorized": "native"},
        {"id": "CartPole-v1", "vectorized": "series"},
        {"id": "Pendulum-v1", "max_ticks": 50},
        {"id": "Taxi-v4", "max_ticks": 50},
        {"id": "Blackjack-v1"},
    ],
    ids=str,
)
def test_contract(options) -> None:
    """Environments of all kinds of spaces keep the contract, here and in another process."""
    (component,) = ludus_register_environments()
    check_environment(component, options=options, steps=110)


def test_contract_of_nested_spaces(make) -> None:
    """Nested observations and several labels keep the contract."""
    check_environment(lambda num_matches: make("LudusLedger-v0", num_matches), steps=40)


@pytest.mark.parametrize("workers", [0, 1])
def test_statistics_are_read_from_infos(make, workers) -> None:
    """The last value counts, until the next match starts."""
    # a worker process does not know environments that this module registers
    env = make("CartPole-v1" if workers else "LudusLedger-v0", workers=workers, statistics={"entries": "count"})
    assert env.spec.roles[0].statistics == ("entries",)
    tick = env.reset(seeds(1))
    while not (tick.terminated | tick.truncated).any():
        tick = env.step({"player": np.zeros((1, 1, 1 if workers else 2), np.int64)})
    assert tick.roles["player"].statistics["entries"].tolist() == [[0 if workers else 8]]
    assert env.reset(seeds(1)).roles["player"].statistics["entries"].tolist() == [[0]]


@pytest.mark.parametrize("id", ["CartPole-v0", "CartPole-v1"])
@given(seed=st.integers(0, 2**64 - 1))
@settings(deadline=None, max_examples=10)
@pytest.mark.filterwarnings("ignore:.*The environment CartPole-v0 is out of date")
def test_native_plays_the_scalar_matches(id, seed) -> None:
    """Native matches are bit-identical to those of copies, whenever they were reset."""
    config = GymnasiumConfig(id=id, max_ticks=30)
    native = make_environment(config, num_matches=5)
    series = make_environment(GymnasiumConfig(id=id, max_ticks=30, vectorized="series"), num_matches=5)
    assert isinstance(native, NativeEnvironment)
    random = np.random.default_rng(seed)
    matches = np.uint64(seed) ^ np.arange(5, dtype=np.uint64)
    native.reset(matches)
    series.reset(matches)
    for _ in range(80):
        actions = {"player": random.integers(0, 2, (5, 1, 1))}
        mine, theirs = native.step(actions), series.step(actions)
        assert_equal(mine, theirs)
        rows = np.flatnonzero(random.random(5) < 0.05)
        matches = random.integers(0, 2**64, len(rows), np.uint64)
        assert_equal(native.reset(matches, indices=rows), series.reset(matches, indices=rows))


def assert_equal(mine, theirs):
    """Compare two ticks, except for outcomes of matches that have not ended."""
    for name in ("terminated", "truncated"):
        assert np.array_equal(getattr(mine, name), getattr(theirs, name))
    ended = mine.terminated | mine.truncated
    assert np.array_equal(mine.outcome[ended], theirs.outcome[ended])
    for name in ("acting", "reward"):
        assert np.array_equal(getattr(mine.roles["player"], name), getattr(theirs.roles["player"], name))
    assert np.array_equal(mine.roles["player"].observation["obs"], theirs.roles["player"].observation["obs"])


def test_same_match_as_bare(make) -> None:
    """Observations, rewards and endings are those of Gymnasium's own loop."""
    env, bare = make(vectorized="series"), gymnasium.make("CartPole-v1")
    for seed in range(3):
        tick = env.reset(seeds(seed))
        observation, _ = bare.reset(seed=seed)
        terminated = False
        while not terminated:
            assert np.array_equal(tick.roles["player"].observation["obs"][0, 0], observation)
            action = int(observation[2] > -0.05)
            observation, reward, terminated, _, _ = bare.step(action)
            tick = env.step(push(env, action))
            assert tick.roles["player"].reward.item() == reward
            assert tick.terminated.item() == terminated


def test_spec(make) -> None:
    """One player, one seat, one team, and the time limit of the registry, which also lists games that do not repeat."""
    spec = make().spec
    (role,) = spec.roles
    assert (role.name, role.teams, spec.max_ticks, spec.repeatable) == ("player", (0,), 500, True)
    assert not make("LudusDrifting-v0").spec.repeatable


@EITHER_WAY
def test_time_limit_truncates(make, vectorized) -> None:
    """The time limit truncates instead of terminating, with the final observation."""
    env = make(vectorized=vectorized, max_ticks=3)
    start = env.reset(seeds(0)).roles["player"].observation["obs"].copy()
    for direction in (0, 1, 0):
        tick = env.step(push(env, direction))
    assert (tick.terminated.item(), tick.truncated.item()) == (False, True)
    assert not np.array_equal(tick.roles["player"].observation["obs"], start)
    assert env.spec.max_ticks == 3


@EITHER_WAY
@pytest.mark.parametrize(("id", "limit"), [("CartPole-v0", 200), ("CartPole-v1", 500)])
@pytest.mark.filterwarnings("ignore:.*The environment CartPole-v0 is out of date")
def test_the_registrys_limit_truncates(make, vectorized, id, limit) -> None:
    """A good policy is truncated on the registry's last tick, also in the next match of the same index."""
    env = make(id, 2, vectorized=vectorized)
    for matches in ((0, 1), (2, 3)):
        tick, ended = env.reset(seeds(*matches)), []
        while len(ended) < limit:
            leans = tick.roles["player"].observation["obs"] @ np.array([0.1, 0.3, 1.0, 0.5], np.float32)
            tick = env.step({"player": (leans > 0).astype(np.int64)[..., None]})
            ended.append(tick.truncated.all())
            assert not tick.terminated.any()
        assert ended == [False] * (limit - 1) + [True]


def test_terminated_wins_over_truncated(make) -> None:
    """A match that ends by its rules on its last tick is terminated only."""
    env = make("LudusLedger-v0")
    env.reset(seeds(0))
    for _ in range(8):
        tick = env.step({"player": np.array([[[1, 1]]])})
    assert (tick.terminated.item(), tick.truncated.item()) == (True, False)


@EITHER_WAY
@pytest.mark.parametrize(("win_return", "outcome"), [(3.0, 1.0), (3.5, 0.0), (None, 0.0)])
def test_win_return(make, vectorized, win_return, outcome) -> None:
    """A match is won by its return; without the option by the registry's threshold."""
    env = make(vectorized=vectorized, max_ticks=3, win_return=win_return)
    env.reset(seeds(0))
    for direction in (0, 1, 0):
        tick = env.step(push(env, direction))
    assert tick.outcome.item() == outcome


def test_outcome_without_threshold(make) -> None:
    """Without a threshold every match is a draw."""
    env = make("LudusLedger-v0")
    env.reset(seeds(0))
    for _ in range(8):
        tick = env.step({"player": np.array([[[1, 1]]])})
    assert tick.outcome.item() == 0.5


def test_return_restarts_with_every_match(make) -> None:
    """The return of one match does not count for the next."""
    env = make(max_ticks=2, win_return=3.0)
    for _ in range(2):
        env.reset(seeds(0))
        for direction in (0, 1):
            tick = env.step(push(env, direction))
        assert tick.outcome.item() == 0


def test_masks_from_infos(make) -> None:
    """A mask in the infos becomes the action mask."""
    env, bare = make("Taxi-v4"), gymnasium.make("Taxi-v4")
    mask = env.reset(seeds(7)).roles["player"].action_mask
    assert mask[0, 0].tolist() == bare.reset(seed=7)[1]["action_mask"].astype(bool).tolist()


def test_masks_of_several_labels_may_be_missing(make) -> None:
    """A tuple holds the mask of every label; without a mask all actions are legal."""
    env = make("LudusBarred-v0")
    assert env.reset(seeds(0)).roles["player"].action_mask.tolist() == [[[False, True, True, False, True]]]
    tick = env.step({"player": np.array([[[1, 0]]])})
    assert tick.roles["player"].action_mask.all()


def test_a_mask_after_a_reset_without_one_raises(make) -> None:
    """Otherwise illegal actions would be played."""
    env = make("LudusBarred-v0", options={"late": True})
    env.reset(seeds(0))
    with pytest.raises(ContractError, match="an action mask came after a first reset without one"):
        env.step({"player": np.array([[[0, 0]]])})


class Camera(gymnasium.Env):
    """Shows an image, channels first, beside a number."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict({"eye": spaces.Box(0, 255, (2, 5, 5), np.uint8), "fuel": spaces.Discrete(3)})
    image = np.arange(50, dtype=np.uint8).reshape(2, 5, 5)

    def reset(self, *, seed=None, options=None):
        return {"eye": self.image, "fuel": 1}, {}

    def step(self, action):
        return {"eye": self.image, "fuel": 2}, 0.0, True, False, {}


def test_images_are_channel_last(make) -> None:
    """Also those among the leaves of a Dict."""
    gymnasium.register("LudusCamera-v0", Camera)
    env = make("LudusCamera-v0")
    assert env.spec.notes == ("image eye [2, 5, 5]: channels, height, width; observed as [5, 5, 2]",)
    observation = env.reset(seeds(0)).roles["player"].observation
    np.testing.assert_array_equal(observation["eye"][0, 0], Camera.image.transpose(1, 2, 0))
    assert make("LudusCamera-v0", channels="last").spec.roles[0].observation_space["eye"].shape == (2, 5, 5)


def test_wrappers(make) -> None:
    """Wrappers apply from the inside out."""
    wrappers = ["gymnasium.wrappers:FlattenObservation", "ludus_gymnasium_wrappers:Twice"]
    with pytest.raises(ConfigError, match="wrappers: cannot wrap 'LudusLedger-v0' in 'ludus_gymnasium_wrappers:Twice'"):
        make("LudusLedger-v0", wrappers=wrappers)
    (role,) = make("LudusLedger-v0", wrappers=wrappers[:1]).spec.roles
    assert role.observation_space.shape == (2 + 9,)


@pytest.mark.parametrize("workers", [0, 1])
def test_wrappers_take_arguments(make, workers) -> None:
    """A table holds the path and the options; arrays become tuples, which shapes have to be."""
    wrappers = [
        {"path": "gymnasium.wrappers:FrameStackObservation", "options": {"stack_size": 3}},
        {"path": "gymnasium.wrappers:ReshapeObservation", "options": {"shape": [2, 6]}},
        "gymnasium.wrappers:FlattenObservation",
        {"path": "gymnasium.wrappers:ReshapeObservation", "options": {"shape": [3, 4]}},
    ]
    env = make("CartPole-v1", wrappers=wrappers, workers=workers)
    (role,) = env.spec.roles
    assert role.observation_space.shape == (3, 4)
    tick = env.reset(seeds(0))
    assert tick.roles["player"].observation["obs"].shape == (1, 1, 3, 4)


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        ({"path": "gymnasium.wrappers:ReshapeObservation", "options": {"size": 3}}, "with {'size': 3}: .*'size'"),
        ({"path": "no_such_module:Wrapper"}, "no module named no_such_module; install it"),
        ("gymnasium.wrappers:ReshapeObservation", "missing 1 required positional argument: 'shape'"),
    ],
)
def test_wrappers_that_refuse_are_named(make, wrapper, message) -> None:
    """With their arguments."""
    with pytest.raises(ConfigError, match=rf"wrappers: cannot wrap 'CartPole-v1' in .*{message}"):
        make("CartPole-v1", wrappers=[wrapper])


@pytest.mark.parametrize("path", ["subprocess:run", "builtins:print", "gymnasium:make", "gymnasium.spaces:Box"])
def test_what_is_no_wrapper_is_not_called(make, path) -> None:
    """A wrapper is a class derived from Env, or a function whose first parameter is called env."""
    with pytest.raises(ConfigError, match=f"wrappers: {path!r} is no wrapper; expected a class derived from Env"):
        make("CartPole-v1", wrappers=[path])


def test_wrappers_that_write_files_are_refused(make, tmp_path) -> None:
    """A run writes in its own folder only."""
    folder = tmp_path / "videos"
    wrapper = {"path": "gymnasium.wrappers:RecordVideo", "options": {"video_folder": str(folder)}}
    with pytest.raises(
        ConfigError, match=r"wrappers: 'gymnasium\.wrappers:RecordVideo. writes files to the place in .video_folder."
    ):
        make("CartPole-v1", options={"render_mode": "rgb_array"}, wrappers=[wrapper])
    assert not folder.exists()


def test_what_a_wrapper_returns_is_an_environment(make, monkeypatch) -> None:
    """Functions are checked by the name of their parameter before, and by what they return after."""
    monkeypatch.setattr(gymnasium.wrappers, "Lost", lambda env: None, raising=False)
    with pytest.raises(ConfigError, match=r"wrappers: expected 'gymnasium\.wrappers:Lost' to return an environment"):
        make("CartPole-v1", wrappers=["gymnasium.wrappers:Lost"])


@pytest.mark.parametrize(
    "wrapper", [3, "no path", {"options": {}}, {"path": "a:b", "shape": 3}, {"path": "a:b", "options": 3}]
)
def test_other_wrappers_are_refused(wrapper) -> None:
    """The message shows both forms."""
    with pytest.raises(ValueError, match=r"wrappers: expected a list of import paths .* options = "):
        GymnasiumConfig(wrappers=[wrapper])


@pytest.mark.parametrize(
    ("name", "instead"), [("NormalizeObservation", "modular"), ("NormalizeReward", "scale-reward")]
)
def test_wrappers_with_running_statistics_raise(make, name, instead) -> None:
    """A match is a function of its seed and actions; the message names an alternative, at any wrapper depth."""
    wrappers = [f"gymnasium.wrappers:{name}", "gymnasium.wrappers:FlattenObservation"]
    with pytest.raises(ConfigError, match=f"wrappers: {name} updates its statistics across matches, .* {instead}"):
        make(wrappers=wrappers)


def test_wrappers_with_fixed_statistics_are_accepted(monkeypatch) -> None:
    """Fixed statistics are part of the game."""

    def fixed(env):
        env = gymnasium.wrappers.NormalizeObservation(env)
        env.update_running_mean = False
        return env

    monkeypatch.setattr(gymnasium.wrappers, "Fixed", fixed, raising=False)
    config = GymnasiumConfig(wrappers=["gymnasium.wrappers:Fixed"])
    check_environment(lambda n: make_environment(config, num_matches=n), steps=30)


def test_options_reach_the_constructor(make) -> None:
    """Options are the constructor's keyword arguments."""
    env = make(options={"sutton_barto_reward": True})
    env.reset(seeds(0))
    assert env.step(push(env, 0)).roles["player"].reward.item() == 0


def test_workers_play_the_same_matches(make) -> None:
    """Worker processes give the same matches as one process."""
    envs = [make("Pendulum-v1", 4, workers=workers) for workers in (0, 2)]
    for env in envs:
        env.reset(seeds(0, 1, 2, 3))
    for torque in np.linspace(-2, 2, 20, dtype=np.float32):
        ticks = [env.step({"player": np.full((4, 1, 1), torque)}).roles["player"] for env in envs]
        assert np.array_equal(ticks[0].observation["obs"], ticks[1].observation["obs"])
        assert np.array_equal(ticks[0].reward, ticks[1].reward)


@pytest.mark.parametrize(
    "options",
    [{"id": "Pendulum-v1"}, {"workers": 1}, {"wrappers": ["gymnasium.wrappers:FlattenObservation"]}, {"id": "Nope-v0"}],
    ids=str,
)
def test_not_native(make, options) -> None:
    """Native raises where it would not play the same matches."""
    with pytest.raises(ConfigError, match=r'vectorized: .* cannot be "native" here'):
        make(vectorized="native", **options)


@pytest.mark.parametrize(
    ("scenario", "problem"),
    [
        (Scenario(name="windy"), "unknown scenario 'windy'"),
        (Scenario(parameters={"wind": 1.0}), "scenario default takes no parameters; got 'wind'"),
    ],
)
def test_unknown_scenario(make, scenario, problem) -> None:
    """Native environments have no scenarios either, and the default one has no parameters."""
    with pytest.raises(ContractError, match=problem):
        make().reset(seeds(0), scenarios=[scenario])


def test_an_ended_native_match_is_idle(make) -> None:
    """Matches that the vectorized environment starts by itself are hidden, with their time limits."""
    env = make(num_matches=2, max_ticks=2)
    env.reset(seeds(0, 1))
    env.step(push(env, 0))
    final = env.step(push(env, 1)).roles["player"].observation["obs"].copy()
    for _ in range(6):
        tick = env.step(push(env, 0))
        assert not (tick.terminated | tick.truncated).any()
        assert not tick.roles["player"].reward.any()
        assert np.array_equal(tick.roles["player"].observation["obs"], final)


@pytest.mark.parametrize("action", [2, -1])
def test_native_raises_for_illegal_actions(make, action) -> None:
    """An unknown action raises, and is ignored in an ended match."""
    env = make(max_ticks=1)
    env.reset(seeds(0))
    with pytest.raises(ContractError, match=rf"illegal action \[{action}\]"):
        env.step(push(env, action))
    env.step(push(env, 0))
    env.step(push(env, action))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"id": "Nope-v0"}, "id: cannot make .* 'Nope-v0'"), ({"options": {"gravity": 1}}, "cannot make .*gravity")],
)
def test_invalid_configuration(make, options, message) -> None:
    """The message names the option and the value."""
    with pytest.raises(ConfigError, match=message):
        make(**options)


@pytest.mark.parametrize("wrappers", ["gymnasium.wrappers:FlattenObservation", ["FlattenObservation"], [1]])
def test_malformed_wrappers(wrappers) -> None:
    """Wrappers are a list of import paths."""
    with pytest.raises(ValueError, match="expected a list of import paths"):
        GymnasiumConfig(wrappers=wrappers)


def test_options_are_explained() -> None:
    """Every option has a line of help."""
    assert all(field.metadata["help"] for field in fields(GymnasiumConfig))


def test_plugin_is_light() -> None:
    """Listing plugins and reading configuration imports no numpy."""
    code = "import sys, ludus_gymnasium.plugin, ludus_gymnasium.config; assert 'gymnasium.envs' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


class Coins(gymnasium.Env):
    """Earns 0.1 and 0.2 in two steps; `change` names what is unusual about the game."""

    action_space = spaces.Discrete(2)

    def __init__(self, change=""):
        self.change = change
        box = spaces.Box(0, 1, (1,), np.float32)
        self.observation_space = spaces.Dict({"coin": box, "legal": spaces.MultiBinary(2)}) if change == "mask" else box

    def look(self):
        numbers = np.zeros(1, np.float32)
        return {"coin": numbers, "legal": np.array([0.0, 2.0])} if self.change == "mask" else numbers

    def reset(self, *, seed=None, options=None):
        self.now = 0
        return self.look() if self.change == "reset" else (self.look(), {})

    def step(self, action):
        self.now += 1
        reward = {"array": np.array([[0.1 * self.now]]), "none": None, "nan": np.nan}.get(self.change, 0.1 * self.now)
        ended = self.now == 2
        return (self.look(), reward, ended, {}) if self.change == "step" else (self.look(), reward, False, ended, {})


class Seedless(Coins):
    """Follows an API without seeds in `reset`."""

    def reset(self):
        return super().reset()


class Wordy(Coins):
    """Observes a text."""

    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Dict({"word": spaces.Text(5)})


class Infoless(Coins):
    """Returns None instead of an empty info."""

    def step(self, action):
        return (*super().step(action)[:4], None)


gymnasium.register("LudusSeedless-v0", Seedless)
gymnasium.register("LudusWordy-v0", Wordy)
gymnasium.register("LudusInfoless-v0", Infoless)
gymnasium.register("LudusCoins-v0", Coins)
gymnasium.register("LudusTimedCoins-v0", Coins, max_episode_steps=9)


def play_coins(env):
    """Play one match and return its last tick."""
    env.reset(np.array([1], np.uint64))
    action = {"player": np.ones((1, 1, 1), np.int64)}
    env.step(action)
    return env.step(action)


@pytest.mark.parametrize("change", ["", "array"])
@pytest.mark.parametrize(("win_return", "points"), [(0.3, 1), (0.1 + 0.2, 1), (0.3001, 0)])
def test_returns_are_compared_up_to_rounding(make, change, win_return, points) -> None:
    """0.1 + 0.2 reaches 0.3, and 0.3 reaches 0.30000000000000004."""
    env = make("LudusCoins-v0", options={"change": change}, win_return=win_return)
    assert play_coins(env).outcome.tolist() == [[points]]


def test_rounding_in_vectorized_matches(make) -> None:
    """Native matches use the same rule."""
    env = make("CartPole-v1", vectorized="native", max_ticks=1, win_return=1 + 1e-9)
    env.reset(np.array([1], np.uint64))
    assert env.step({"player": np.zeros((1, 1, 1), np.int64)}).outcome.tolist() == [[1]]


def test_mask_in_the_observation(make) -> None:
    """The leaf that the option names is the mask, not an observation."""
    env = make("LudusCoins-v0", options={"change": "mask"}, mask_key="legal")
    role = env.reset(np.array([1], np.uint64)).roles["player"]
    assert list(role.observation) == ["coin"]
    assert role.action_mask.tolist() == [[[False, True]]]


@EITHER_WAY
@pytest.mark.parametrize("time_limit", ["truncates", "terminates"])
def test_time_limits_may_be_rules(make, vectorized, time_limit) -> None:
    """Then they terminate the match."""
    env = make("CartPole-v1", vectorized=vectorized, max_ticks=1, time_limit=time_limit)
    env.reset(np.array([1], np.uint64))
    tick = env.step({"player": np.zeros((1, 1, 1), np.int64)})
    assert (tick.terminated.item(), tick.truncated.item()) == (time_limit == "terminates", time_limit == "truncates")


@pytest.mark.parametrize("id", ["LudusCoins-v0", "LudusTimedCoins-v0"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("reset", "reset returned a ndarray; expected .*observation, info.*: the game follows an API before Gymnasium"),
        ("step", "step returned too few or many values; expected .*observation, reward, terminated, truncated, info"),
        ("none", "reward: expected one number, got None"),
        ("nan", "reward: expected a finite number .* got nan"),
    ],
)
def test_unusual_games_are_refused(make, id, change, message) -> None:
    """The line names the game."""
    with pytest.raises(ContractError, match=f"^game '{id}': {message}"):
        play_coins(make(id, options={"change": change}))


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("LudusSeedless-v0", "reset takes no seed: the game follows an API before Gymnasium 0.26"),
        ("LudusWordy-v0", "observation leaf 'word' is a Text space without a fixed array form"),
    ],
)
def test_games_without_seeds_or_arrays_are_refused(make, id, message) -> None:
    """The line names the game."""
    with pytest.raises(ContractError, match=f"^game '{id}': {message}"):
        play_coins(make(id))


def test_no_info_is_an_empty_one(make) -> None:
    """As in other games."""
    assert play_coins(make("LudusInfoless-v0", win_return=0.3)).outcome.tolist() == [[1]]


@pytest.mark.parametrize(
    ("options", "rule"), [({}, "no win_return, so"), ({"win_return": 2.0}, "a return of at least 2 wins")]
)
def test_the_spec_describes_the_rule(make, options, rule) -> None:
    """`ludus check` prints it."""
    assert make("LudusCoins-v0", **options).spec.outcome_rule.startswith(rule)


def test_only_the_first_copy_is_reset_before_the_first_match(monkeypatch, make) -> None:
    """A reset, which shows whether there are masks, may take seconds."""
    resets, reset = [], Ledger.reset
    monkeypatch.setattr(Ledger, "reset", lambda self, **options: (resets.append(self), reset(self, **options))[1])
    env = make("LudusLedger-v0", num_matches=3)
    assert len(resets) == 1
    env.reset(seeds(0, 1, 2))
    assert len(resets) == 4
