"""The scenarios of one player, with real engines."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ludus.environment import Tick
from ludus.errors import ConfigError, PluginError, WorkerError
from ludus.rendering import enable_rendering
from ludus.testing import check_environment
from ludus_vizdoom.config import EngineConfig, ScenarioConfig
from ludus_vizdoom.engine import load_library
from ludus_vizdoom.observations import CLASSES, class_image, halve
from ludus_vizdoom.plugin import ludus_register_environments
from ludus_vizdoom.scenario_game import PARTS, ROLE, make_environment, make_game

NOTHING, LEFT, RIGHT, ATTACK = range(4)  # of the scenario basic


@pytest.fixture
def make():
    """Make environments, and close them after the test."""
    made = []

    def make_one(num_matches=1, **options):
        made.append(make_environment(ScenarioConfig(**options), num_matches=num_matches))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def start(env, *seeds) -> Tick:
    """Start all matches."""
    return env.reset(np.array(seeds, np.uint64))


def step(env, *choices) -> Tick:
    """Advance all matches by one choice each."""
    return env.step({ROLE: np.array(choices, np.int64).reshape(env.num_matches, 1, -1)})


def test_keeps_the_contract():
    """The kit finds no violation, also in another process."""
    environment = ludus_register_environments()[0]
    check_environment(environment, options={"scenario": "defend_the_center", "height": 30, "width": 40}, steps=50)


def test_rewards_are_those_of_the_scenario(make):
    """A shot costs 5 and a tic 1, in the part of the scenario."""
    env = make()
    start(env, 3)
    rewards = [float(step(env, choice).roles[ROLE].reward[0, 0]) for choice in (NOTHING, LEFT, RIGHT)]
    assert rewards == [-4.0, -4.0, -4.0]
    shots = [step(env, ATTACK).roles[ROLE].reward[0, 0] for _ in range(2)]
    assert sum(shots) == -13.0
    parts = step(env, NOTHING).roles[ROLE].reward_parts
    assert {name: float(values[0, 0]) for name, values in parts.items()} == dict.fromkeys(PARTS, 0.0) | {"reward": -4.0}


def test_a_time_limit_truncates_with_a_real_observation(make):
    """A match of 300 tics takes 75 decisions, and its last screen is drawn after the last one."""
    env = make()
    start(env, 3)
    for number in range(75):
        tick = step(env, LEFT if number < 74 else RIGHT)
        if number == 73:
            before = tick.roles[ROLE].observation["screen"].copy()
    assert tick.truncated.tolist() == [True]
    assert not tick.terminated.any()
    assert (tick.roles[ROLE].observation["screen"] != before).any()
    assert tick.roles[ROLE].statistics["tics"][0, 0] == 300


def test_a_scenario_ends_itself(make):
    """The monster is hit from where the match starts, if it is in front; the rewards count."""
    env = make(16)
    start(env, *range(16))
    for _ in range(4):
        tick = step(env, *[ATTACK] * 16)
        if tick.terminated.any():
            break
    won = tick.terminated.nonzero()[0]
    assert won.size
    assert (tick.roles[ROLE].reward[won, 0] > 90).all()
    assert (tick.roles[ROLE].statistics["kills"][won, 0] == 1).all()


def test_equal_seeds_give_equal_matches_whatever_was_played_before(make):
    """Also the sway of the weapon, which the engine keeps from match to match."""
    env = make(2)
    start(env, 1, 2)
    for _ in range(9):
        step(env, RIGHT, NOTHING)
    start(env, 7, 7)
    for choice in (LEFT, ATTACK, NOTHING, LEFT):
        screen = step(env, choice, choice).roles[ROLE].observation["screen"]
        assert (screen[0] == screen[1]).all()
    screen = start(env, 8, 10).roles[ROLE].observation["screen"]
    assert (screen[0] != screen[1]).any()


def test_images_have_the_chosen_size_and_kind(make):
    """Colours, depth and classes of objects, of equal size."""
    env = make(scenario="health_gathering", color=True, depth=True, labels="observation", height=24, width=32)
    tick = start(env, 1)
    leaves = tick.roles[ROLE].observation
    assert {name: leaf.shape[2:] for name, leaf in leaves.items()} == {
        "screen": (24, 32, 3),
        "depth": (24, 32, 1),
        "labels": (24, 32, 1),
        "variables": (1,),
    }
    assert leaves["variables"][0, 0, 0] == np.float32(0.92)  # points of health, in hundreds; the floor hurts
    assert leaves["screen"].std() > 5


def test_frames_are_drawn_in_colours_and_observed_in_grey():
    """Rendering changes no observation but by rounding."""
    with enable_rendering():
        drawn = make_environment(ScenarioConfig(), num_matches=1)
    plain = make_environment(ScenarioConfig(), num_matches=1)
    try:
        grey = [start(env, 5).roles[ROLE].observation["screen"][0].astype(int) for env in (drawn, plain)]
        frame = drawn.render_frame(0)
    finally:
        drawn.close()
        plain.close()
    assert frame.shape == (120, 160, 3)
    assert abs(grey[0] - grey[1]).max() <= 2


def test_pick_ups_and_damage_are_reward_parts(make):
    """Damage taken is counted for a player that stands still among monsters."""
    env = make(scenario="defend_the_center", damage_taken=-0.5, death=-3.0, health=1.0, frame_skip=10)
    start(env, 1)
    total = dict.fromkeys(PARTS, 0.0)
    for _ in range(200):
        tick = step(env, NOTHING)
        for part, values in tick.roles[ROLE].reward_parts.items():
            total[part] += float(values[0, 0])
        if tick.terminated.any():
            break
    assert tick.terminated.all()
    assert total["damage_taken"] <= -40
    assert total["death"] == -3.0
    assert total["health"] == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scenario": "basics"}, "scenario: ViZDoom has no scenario 'basics'; it has basic, .*my_way_home"),
        ({"scenario": "ludus_vizdoom:none.cfg"}, "scenario: the package 'ludus_vizdoom' has no file 'none.cfg'"),
        ({"buttons": ("FLY",)}, "buttons: ViZDoom has no Button 'FLY'; it has ATTACK"),
        ({"buttons": ("TURN_LEFT_RIGHT_DELTA",)}, "buttons: expected one that can be pressed"),
        ({"variables": ("LUCK",)}, "variables: ViZDoom has no GameVariable 'LUCK'"),
        ({"resolution": "11x12"}, "resolution: ViZDoom cannot draw in 11x12"),
    ],
)
def test_wrong_names_are_one_line(options, message):
    """They name the option, the value, and what there is."""
    with pytest.raises(ConfigError, match=message):
        make_game(**options)


def test_a_scenario_of_a_package_is_found(tmp_path, monkeypatch, make):
    """A configuration file in a folder of the path, and its program path is not used."""
    folder = tmp_path / "my_maps"
    folder.mkdir()
    lines = ("doom_scenario_path = own.wad", "vizdoom_path = /bin/false", "available_buttons = { ATTACK }")
    (folder / "arena.cfg").write_text("\n".join((*lines, "episode_timeout = 8")))
    (folder / "own.wad").write_bytes(find_wad("basic").read_bytes())
    monkeypatch.syspath_prepend(str(tmp_path))
    env = make(scenario="my_maps:arena.cfg", variables=("HEALTH",))
    start(env, 1)
    step(env, 0)
    assert step(env, 1).truncated.all()


def find_wad(name):
    """Return the path of a map of ViZDoom."""
    return Path(load_library().scenarios_path, f"{name}.wad")


def test_a_file_in_the_current_folder_cannot_change_the_engine(tmp_path, monkeypatch, make):
    """ViZDoom would read it, and it may name any program."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "_vizdoom.cfg").write_text("vizdoom_path = /bin/false\n")
    env = make()
    with pytest.raises(PluginError, match=r"settings from _vizdoom\.cfg in the current folder"):
        start(env, 1)


def test_a_missing_library_is_named(monkeypatch):
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "vizdoom", None)
    with pytest.raises(PluginError, match=r"ViZDoom cannot be imported.*pip install \"ludus-vizdoom\[game\]\""):
        make_game()


def test_an_engine_that_is_killed_is_one_line(make):
    """The next step names it."""
    env = make()
    start(env, 1)
    env._games._games[0]._engine.kill()
    with pytest.raises(WorkerError, match=r"the ViZDoom engine failed: .*(crash|exited)"):
        step(env, LEFT)


def test_images_of_half_the_size_hold_averages():
    """Of blocks of two by two pixels, rounded to the nearest."""
    image = np.random.default_rng(0).integers(256, size=(6, 8), dtype=np.uint8)
    expected = np.floor(image.reshape(3, 2, 4, 2).mean(axis=(1, 3)) + 0.5)
    assert (halve(image) == expected).all()


def test_classes_of_objects_follow_their_categories():
    """The player itself and decoration are no objects."""
    buffer = np.array([[0, 7, 7], [9, 200, 255]], np.uint8)
    labels = [
        SimpleNamespace(value=7, object_category="Monster"),
        SimpleNamespace(value=9, object_category="Hazard"),
        SimpleNamespace(value=200, object_category="Gore"),
        SimpleNamespace(value=255, object_category="Self"),
    ]
    monster, hazard = CLASSES.index("monster"), CLASSES.index("hazard")
    assert class_image(buffer, labels).tolist() == [[0, monster, monster], [hazard, 0, 0]]


def test_options_have_checks():
    """A resolution without two sides is refused."""
    with pytest.raises(ValueError, match="resolution: expected a resolution"):
        EngineConfig(resolution="large")
