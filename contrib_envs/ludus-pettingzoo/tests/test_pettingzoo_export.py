"""ludus environments as PettingZoo environments."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest
from ludus.errors import ContractError
from ludus.rendering import enable_rendering
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment
from ludus_pettingzoo.export import to_aec, to_parallel

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it imports PettingZoo's own games in the old way
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

#: Remarks about spaces, which are the game's own.
REMARKS = "Observation|Action|Agent"


def make(id, **options):
    """Make one match of a PettingZoo environment in ludus."""
    return make_environment(PettingZooConfig(id=id, **options), num_matches=1)


def make_board(name):
    """Make one match of a game of ludus itself."""
    return getattr(pytest.importorskip("ludus_board.environment"), f"make_{name}")(None, num_matches=1)


def make_targets():
    """Make one match of a game with a mask for each of two labels."""
    config = pytest.importorskip("ludus_probes.config").TargetsConfig()
    return importlib.import_module("ludus_probes.targets").make_targets(config, num_matches=1)


MAKERS = {
    "connect4": lambda: make_board("connect4"),
    "tictactoe": lambda: make_board("tictactoe"),
    "targets": make_targets,
    "rps": lambda: make("classic/rps_v2"),
    "chase": lambda: make("toy_chase:Chase"),
    "elimination": lambda: make("toy_elimination:Elimination"),
}


@pytest.fixture(autouse=True)
def remarks():
    """Ignore warnings of PettingZoo's tests about spaces; all other warnings are errors."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", REMARKS)
        yield


@pytest.mark.parametrize("game", MAKERS)
def test_aec_api(game) -> None:
    """PettingZoo's own test of AEC environments passes, also for simultaneous games."""
    api_test(to_aec(MAKERS[game]()), num_cycles=60)


@pytest.mark.parametrize("game", MAKERS)
def test_aec_seeds(game) -> None:
    """PettingZoo's own test of seeds passes."""
    seed_test(lambda: to_aec(MAKERS[game]()), num_cycles=60)


@pytest.mark.parametrize("game", ["rps", "chase", "targets"])
def test_parallel_api(game) -> None:
    """PettingZoo's own tests of Parallel environments pass."""
    parallel_api_test(to_parallel(MAKERS[game]()), num_cycles=60)
    parallel_seed_test(lambda: to_parallel(MAKERS[game]()), num_cycles=60)


def test_export_and_import_play_the_same_match() -> None:
    """A game that is exported and adapted again plays the same match."""
    env = to_aec(make("classic/tictactoe_v3"))
    env.reset(seed=0)
    for cell in (0, 3, 1, 4, 2):
        assert env.last()[0]["action_mask"][cell] == 1
        env.step(cell)
    assert env.rewards == {"player_0": 1, "player_1": -1}
    assert env.terminations == {"player_0": True, "player_1": True}


def test_seats_of_one_tick_step_in_turn() -> None:
    """In a simultaneous game the rewards come when the last seat has acted."""
    env = to_aec(make("classic/rps_v2"))
    env.reset(seed=0)
    env.step(1)
    assert (env.agent_selection, env.rewards) == ("player_1", {"player_0": 0, "player_1": 0})
    env.step(0)
    assert (env.agent_selection, env.rewards) == ("player_0", {"player_0": 1, "player_1": -1})
    env.step(2)
    assert (env.agent_selection, env.rewards) == ("player_1", {"player_0": 0, "player_1": 0})


def test_the_mask_of_a_waiting_agent_is_empty() -> None:
    """As in PettingZoo's classic games, only the agent to act has legal actions."""
    env = to_aec(make("classic/connect_four_v3"))
    env.reset(seed=0)
    assert env.observe("player_0")["action_mask"].sum() == 7
    assert env.observe("player_1")["action_mask"].sum() == 0


def test_masks_have_the_form_that_sample_takes() -> None:
    """A game of several labels has a mask for each of them."""
    env = to_aec(make_targets())
    env.reset(seed=0)
    observation, space = env.last()[0], env.action_space(env.agent_selection)
    assert [len(mask) for mask in observation["action_mask"]] == space.nvec.tolist()
    assert env.observation_space(env.agent_selection).contains(observation)
    assert space.contains(space.sample(observation["action_mask"]))


def test_truncation_is_exported() -> None:
    """A match that is cut off is truncated, not terminated."""
    env = to_parallel(make("classic/rps_v2", max_ticks=1))
    env.reset(seed=0)
    _, _, terminations, truncations, _ = env.step({"player_0": 0, "player_1": 0})
    assert terminations == {"player_0": False, "player_1": False}
    assert truncations == {"player_0": True, "player_1": True}
    assert env.agents == []


def test_observations_are_copies() -> None:
    """An observation does not change when the game continues."""
    env = to_aec(make("classic/connect_four_v3"))
    env.reset(seed=0)
    before = env.observe("player_0")["observation"]
    env.step(3)
    env.step(3)
    assert not before.any()
    assert env.observe("player_0")["observation"].any()


def test_resets_without_seed_differ() -> None:
    """Matches without a seed differ, and the sequence repeats after a seed."""
    env = to_parallel(make("toy_chase:Chase"))

    def starts():
        return [env.reset(seed=seed)[0]["hunter_0"][1] for seed in (4, None, None)]

    first = starts()
    assert len(set(first)) == 3
    assert first == starts()


def test_turn_based_is_not_parallel() -> None:
    """The message names `to_aec`."""
    with pytest.raises(ContractError, match="turn-based; use to_aec"):
        to_parallel(make("classic/tictactoe_v3"))


def test_one_match_only() -> None:
    """A batch of matches cannot be exported."""
    env = make_environment(PettingZooConfig(id="classic/rps_v2"), num_matches=2)
    with pytest.raises(ContractError, match="num_matches=1, not 2"):
        to_aec(env)


def test_text_rendering() -> None:
    """A game that people can play renders as text."""
    env = to_aec(make_board("tictactoe"))
    env.reset(seed=0)
    assert (env.metadata["render_modes"], env.render_mode) == (["ansi", "rgb_array"], "ansi")
    assert isinstance(env.render(), str)


@pytest.mark.parametrize("convert", [to_aec, to_parallel])
def test_image_rendering(convert) -> None:
    """Scenes are drawn, and images of other libraries are passed on."""
    options = importlib.import_module("ludus_pong2p.config").Pong2pConfig()
    pong = importlib.import_module("ludus_pong2p.environment").Pong2p(options, num_matches=1)
    with enable_rendering():
        rps = make("classic/rps_v2")
    assert convert(rps).render_mode == "rgb_array"  # it has no text
    for env in (convert(game, render_mode="rgb_array") for game in (pong, rps)):
        env.reset(seed=0)
        image = env.render()
        assert (image.dtype, image.ndim, image.shape[2]) == (np.uint8, 3, 3)
        assert np.unique(image).size > 1


def test_the_render_mode_can_be_chosen() -> None:
    """Also for games that have text; others than those that the environment offers are refused."""
    env = to_aec(make_board("tictactoe"), render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().ndim == 3
    with pytest.raises(ContractError, match="no render mode 'human'; it has ansi and rgb_array"):
        to_aec(make_board("tictactoe"), render_mode="human")


def test_nothing_to_render() -> None:
    """A game without text renders nothing."""
    env = to_aec(make("classic/rps_v2"))
    env.reset(seed=0)
    assert env.metadata["render_modes"] == []
    assert env.render() is None


def test_vector_actions() -> None:
    """Actions of several labels are exported."""
    env = to_parallel(make("toy_chase:Chase"))
    env.reset(seed=0)
    _, rewards, *_ = env.step({"hunter_0": 1, "prey_0": np.array([1, 0]), "prey_1": np.array([2, 1])})
    assert rewards == {"hunter_0": 1, "prey_0": -1, "prey_1": 0}
