"""PettingZoo environments as ludus environments."""

from __future__ import annotations

import itertools
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pettingzoo
import pytest
from attrs import fields
from ludus.errors import ConfigError, ContractError
from ludus.testing import check_environment
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment, remove_checks
from ludus_pettingzoo.games import make_game
from ludus_pettingzoo.plugin import ludus_register_environments
from pettingzoo.utils import BaseParallelWrapper, wrappers

CHASE = "toy_chase:Chase"
ELIMINATION = "toy_elimination:Elimination"


@pytest.fixture
def make():
    """Make an environment, and close it at the end."""
    made = []

    def make_one(id, num_matches=1, **options):
        made.append(make_environment(PettingZooConfig(id=id, **options), num_matches=num_matches))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def seeds(*values):
    """Return match seeds."""
    return np.array(values, np.uint64)


def play_row(*cells):
    """Return the actions of Connect Four or Tic-Tac-Toe in one match, one after another."""
    return [{"player": np.full((1, 2, 1), cell)} for cell in cells]


def chase(hunter, *prey):
    """Return the actions of one chase."""
    return {"hunter": np.array([[[hunter]]]), "prey": np.array([[[cell, 0] for cell in prey]])}


@pytest.mark.parametrize(
    "options",
    [
        {"id": "classic/connect_four_v3"},
        {"id": "classic/tictactoe_v3"},
        {"id": "classic/rps_v2"},
        {"id": "classic/rps_v2", "api": "aec"},
        {"id": "classic/leduc_holdem_v4"},
    ],
    ids=str,
)
def test_contract(options) -> None:
    """PettingZoo's classic games keep the contract, here and in another process."""
    if "holdem" in options["id"]:
        pytest.importorskip("rlcard")  # not in every set-up: it builds from source
    (component,) = ludus_register_environments()
    check_environment(component, options=options, steps=80)


@pytest.mark.parametrize("id", [CHASE, ELIMINATION])
@pytest.mark.parametrize("api", ["auto", "aec"])
def test_contract_with_vanishing_agents(make, id, api) -> None:
    """Agents may leave before the match ends."""
    check_environment(lambda num_matches: make(id, num_matches, api=api), steps=40)


def test_workers_play_the_same_match(make) -> None:
    """A worker process makes the same environment from the configuration and plays the same match."""
    for workers in (0, 1):
        env = make(CHASE, workers=workers, options={"prey": 1}, teams={"all": ["*"]}, win_return=0.0)
        tick = env.reset(seeds(5))
        assert tick.roles["hunter"].observation["obs"].tolist() == [[[1, 60]]]
        tick = env.step(chase(1, 1))
        assert (tick.terminated.item(), tick.outcome.tolist()) == (True, [[1]])


def test_roles_by_spaces(make) -> None:
    """Agents of equal spaces share a role named after them; actions count from 0."""
    hunter, prey = make(CHASE, options={"prey": 3}).spec.roles
    assert (hunter.name, hunter.num_seats, prey.name, prey.num_seats) == ("hunter", 1, "prey", 3)
    assert hunter.action_space.start == 0
    assert hunter.teams + prey.teams == (0, 1, 2, 3)


@pytest.mark.parametrize("names", [("猫", "鼠"), ("Red", "red"), ("a b", "a-b")])
def test_roles_whose_names_would_be_equal_are_numbered(make, names) -> None:
    """Names of roles have lower-case letters, digits, dots, dashes and underscores only."""
    spec = make("toy_mixed:Mixed", options={"names": names}).spec
    assert [role.name for role in spec.roles] == ["role_0", "role_1"]


def test_classic_roles(make) -> None:
    """A symmetric game has the role player, and the mask is not part of the observation."""
    spec = make("classic/connect_four_v3").spec
    (role,) = spec.roles
    assert (role.name, role.num_seats, role.observation_space.shape) == ("player", 2, (6, 7, 2))
    assert (spec.turn, spec.constant_sum) == ("turn-based", True)


def test_observation_dict_without_mask_is_kept(make) -> None:
    """Dict and Tuple observations become leaves."""
    tick = make(ELIMINATION).reset(seeds(0))
    assert list(tick.roles["player"].observation) == ["left", "previous.0"]


def test_same_match_as_bare(make) -> None:
    """Observations, masks, rewards and turns are those of PettingZoo's own loop."""
    random = np.random.default_rng(3)
    env, bare = make("classic/connect_four_v3"), pettingzoo.make("aec", "classic/connect_four_v3")
    for match in range(5):
        tick = env.reset(seeds(match)).roles["player"]
        bare.reset(seed=match)
        for agent in bare.agent_iter():
            observation, reward, terminated, _, _ = bare.last()
            seat = bare.possible_agents.index(agent)
            assert np.array_equal(tick.observation["obs"][0, seat], observation["observation"])
            if terminated:
                assert tick.reward[0, seat] == reward
                bare.step(None)
                continue
            assert tick.acting[0].tolist() == [seat == 0, seat == 1]
            assert tick.action_mask[0, seat].tolist() == observation["action_mask"].tolist()
            column = random.choice(np.flatnonzero(observation["action_mask"]))
            bare.step(int(column))
            tick = env.step({"player": np.full((1, 2, 1), column)}).roles["player"]


def plain(tick):
    """Return the values of a tick for acting seats, and for all seats at the end of a match."""
    ended = tick.terminated | tick.truncated
    values = {"ended": ended.tolist(), "outcome": tick.outcome[ended].tolist()}
    for name, role in tick.roles.items():
        shown = role.acting | ended[:, None]
        values[name] = [role.acting.tolist(), role.reward.tolist()]
        values[name] += [leaf[shown].tolist() for leaf in role.observation.values()]
        values[name] += [] if role.action_mask is None else [role.action_mask[role.acting].tolist()]
    return values


@pytest.mark.parametrize(
    ("id", "api"),
    [
        ("classic/connect_four_v3", "auto"),
        ("classic/tictactoe_v3", "auto"),
        ("classic/rps_v2", "parallel"),
        ("classic/rps_v2", "aec"),
        (ELIMINATION, "auto"),
        (CHASE, "aec"),
    ],
)
def test_matches_without_checks_are_the_same(make, id, api) -> None:
    """Unwrapped environments play the same matches, bit by bit, through ends and resets."""
    random = np.random.default_rng(5)
    both = [make(id, 3, api=api, unwrap=unwrap) for unwrap in (True, False)]
    ticks = [env.reset(seeds(1, 2, 3)) for env in both]
    ends = 0
    for step in range(80):
        assert plain(ticks[0]) == plain(ticks[1])
        actions = {role.name: legal(role, ticks[1].roles[role.name], random) for role in both[0].spec.roles}
        ticks = [env.step(actions) for env in both]
        rows = np.flatnonzero(ticks[0].terminated | ticks[0].truncated)
        if rows.size:
            assert plain(ticks[0]) == plain(ticks[1])
            ends += rows.size
            ticks = [env.reset(rows.astype(np.uint64) + np.uint64(step), indices=rows) for env in both]
    assert ends


def legal(role, tick, random):
    """Return random legal actions of a role."""
    sizes = [int(role.action_space.n)] if hasattr(role.action_space, "n") else role.action_space.nvec.tolist()
    mask = np.ones((*tick.acting.shape, sum(sizes)), bool) if tick.action_mask is None else tick.action_mask
    drawn = random.random(mask.shape) * mask
    starts = np.cumsum([0, *sizes])
    return np.stack([drawn[..., a:b].argmax(-1) for a, b in itertools.pairwise(starts)], axis=-1)


def test_only_known_checks_are_removed() -> None:
    """Subclasses and other wrappers are kept, and so are wrappers below them."""

    class Louder(wrappers.OrderEnforcingWrapper):
        """Subclass that another package might define."""

    raw = pettingzoo.make("aec", "classic/connect_four_v3").unwrapped
    assert (
        remove_checks(wrappers.OrderEnforcingWrapper(wrappers.TerminateIllegalWrapper(raw, illegal_reward=-1))) is raw
    )
    louder = Louder(wrappers.TerminateIllegalWrapper(raw, illegal_reward=-1))
    assert remove_checks(wrappers.OrderEnforcingWrapper(louder)) is louder
    assert isinstance(louder.env, wrappers.TerminateIllegalWrapper)
    base = wrappers.BaseWrapper(raw)
    assert remove_checks(base) is base
    parallel = remove_checks(pettingzoo.make("parallel", "classic/rps_v2"))
    assert parallel.aec_env is parallel.unwrapped


@pytest.mark.parametrize("unwrap", [True, False])
def test_checks_are_removed_by_option(unwrap) -> None:
    """They are removed unless `unwrap` is False."""
    given = {"id": "classic/connect_four_v3", "options": {}, "api": "aec", "max_ticks": 0, "teams": {}}
    game = make_game(**given, outcome="total", dead_agents="end", unwrap=unwrap)
    assert (game._env is game._env.unwrapped) == unwrap


def test_a_waiting_seat_keeps_its_last_observation(make) -> None:
    """Zeros before its first turn, then the observation of its last turn, and the final one at the end."""
    env = make("classic/connect_four_v3")
    env.reset(seeds(0))
    shown = [
        env.step(actions).roles["player"].observation["obs"][0].sum((1, 2, 3)).tolist() for actions in play_row(0, 1)
    ]
    assert shown == [[0, 1], [2, 1]]
    for actions in play_row(0, 1, 0, 1, 0):
        tick = env.step(actions)
    assert tick.roles["player"].observation["obs"][0].sum((1, 2, 3)).tolist() == [7, 7]


def test_win(make) -> None:
    """The match ends once with a reward for both seats and a win."""
    env = make("classic/connect_four_v3")
    env.reset(seeds(0))
    for actions in play_row(0, 1, 0, 1, 0, 1, 0):
        tick = env.step(actions)
    assert tick.terminated.tolist() == [True]
    assert tick.truncated.tolist() == [False]
    assert tick.roles["player"].reward.tolist() == [[1, -1]]
    assert tick.outcome.tolist() == [[1, 0]]


def test_draw(make) -> None:
    """Equal totals are a draw."""
    env = make("classic/tictactoe_v3")
    env.reset(seeds(0))
    for actions in play_row(0, 4, 8, 1, 7, 6, 2, 5, 3):
        tick = env.step(actions)
    assert tick.terminated.tolist() == [True]
    assert tick.outcome.tolist() == [[0.5, 0.5]]


def test_limit_of_the_environment_truncates(make) -> None:
    """If the environment truncates, so does the match, with the final observation."""
    env = make("classic/rps_v2", options={"max_cycles": 2})
    env.reset(seeds(0))
    for action in (1, 2):
        tick = env.step({"player": np.array([[[action], [0]]])})
    assert tick.truncated.tolist() == [True]
    assert tick.terminated.tolist() == [False]
    assert tick.roles["player"].observation["obs"].tolist() == [[0, 2]]


@pytest.mark.parametrize(("id", "api"), [("classic/tictactoe_v3", "aec"), ("classic/rps_v2", "parallel")])
def test_max_ticks(make, id, api) -> None:
    """max_ticks truncates matches of both interfaces, and the spec holds it."""
    env = make(id, api=api, max_ticks=2)
    env.reset(seeds(0))
    ends = [env.step(actions).truncated.item() for actions in play_row(0, 1)]
    assert ends == [False, True]
    assert env.spec.max_ticks == 2


@pytest.mark.parametrize("linger", [False, True])
def test_vanished_agents_do_not_act(make, linger) -> None:
    """A caught prey gets its reward, stops acting, and the match goes on, even if it stays in the list of agents."""
    env = make(CHASE, options={"linger": linger})
    env.reset(seeds(0))
    tick = env.step(chase(1, 1, 2))
    assert tick.roles["prey"].reward.tolist() == [[-1, 0]]
    assert tick.roles["prey"].acting.tolist() == [[False, True]]
    assert not tick.terminated.any()
    tick = env.step(chase(2, 0, 2))
    assert tick.terminated.tolist() == [True]
    assert tick.outcome.tolist() == [[1, 0, 0]]


def test_parallel_time_limit(make) -> None:
    """A time limit for all agents truncates the match; ties for the best share half points."""
    env = make(CHASE, options={"limit": 1})
    env.reset(seeds(0))
    tick = env.step(chase(0, 1, 2))
    assert (tick.terminated.item(), tick.truncated.item()) == (False, True)
    assert tick.outcome.tolist() == [[0.5, 0.5, 0.5]]


def test_dead_agents_in_turns(make) -> None:
    """A dead agent is skipped, and gets its reward on the tick on which it is earned."""
    env = make(ELIMINATION)
    tick = env.reset(seeds(1)).roles["player"]
    assert tick.acting[0].tolist() == [False, True, False]
    tick = env.step({"player": np.zeros((1, 3, 1), np.int64)}).roles["player"]
    assert tick.reward.tolist() == [[0, -1, 0]]
    assert tick.acting[0].tolist() == [False, False, True]
    tick = env.step({"player": np.full((1, 3, 1), 2)}).roles["player"]
    assert tick.action_mask[0, 0].tolist() == [True, True, False]
    tick = env.step({"player": np.zeros((1, 3, 1), np.int64)})
    assert tick.roles["player"].reward.tolist() == [[-1, 0, 2]]
    assert tick.terminated.item()
    assert tick.outcome.tolist() == [[0, 0, 1]]


def test_real_actions_have_no_masks(make) -> None:
    """An agent with a Box action has no mask, also beside an agent with masks in its infos."""
    env = make("toy_mixed:Mixed")
    masks = {name: role.action_mask for name, role in env.reset(seeds(0)).roles.items()}
    assert masks["gear"].tolist() == [[[True, True, False]]]
    assert masks["wheel"] is None
    check_environment(ludus_register_environments()[0], options={"id": "toy_mixed:Mixed"}, steps=20)


def test_a_mask_of_real_actions_raises(make) -> None:
    """A mask has no meaning for a Box."""
    with pytest.raises(ContractError, match="got an action mask for a Box action, which has none"):
        make("toy_mixed:Mixed", options={"masks_wheel": True}).reset(seeds(0))


def test_an_acting_agent_needs_an_observation(make) -> None:
    """Else it would act on an old observation, or on zeros."""
    message = "agent 'wheel' must act but got no observation"
    with pytest.raises(ContractError, match=message):
        make("toy_mixed:Mixed", options={"unseen_at": 1}).reset(seeds(0))
    env = make("toy_mixed:Mixed", options={"unseen_at": 2})
    env.reset(seeds(0))
    with pytest.raises(ContractError, match=message):
        env.step({"gear": np.zeros((1, 1, 1), np.int64), "wheel": np.zeros((1, 1, 1), np.float32)})


def test_teams(make) -> None:
    """Agents of one team share the outcome, in the order of the table."""
    env = make(CHASE, teams={"prey": ["prey_*"], "hunters": ["hunter_0"]})
    assert [role.teams for role in env.spec.roles] == [(1,), (0, 0)]
    env.reset(seeds(0))
    tick = env.step(chase(1, 1, 1))
    assert tick.outcome.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("outcome", "expected"), [("total", [1, 0, 0]), ("last", [0.5, 0.5, 0.5]), ("positive", [1, 0, 0.5])]
)
def test_outcome_rules(make, outcome, expected) -> None:
    """The hunter catches one prey, then time is up: best total, no winner on the last tick, or above and below 0."""
    env = make(CHASE, options={"limit": 2}, outcome=outcome)
    env.reset(seeds(0))
    env.step(chase(1, 1, 0))
    assert env.step(chase(1, 0, 0)).outcome.tolist() == [expected]


@pytest.mark.parametrize("id", ["toy_numbered:Bids", "toy_numbered:in_turns"])
@pytest.mark.parametrize("teams", [{}, {"one": ["7"], "two": ["*bidder*"]}])
def test_agents_need_not_be_strings(make, id, teams) -> None:
    """Agents may be numbers and tuples; patterns of teams match their string form."""
    env = make(id, teams=teams)
    tick = env.reset(seeds(0))
    while not tick.terminated[0]:
        tick = env.step({"player": np.array([[[1], [2]]])})
    assert tick.outcome[0].tolist() == [0, 1]


def test_seed_reaches_the_environment(make) -> None:
    """Matches differ by seed and repeat with it."""
    env = make(CHASE, 3)
    start = env.reset(seeds(1, 2, 1)).roles["hunter"].observation["obs"][:, 0, 1]
    assert start[0] == start[2] != start[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "classic/checkers_v9"}, "id: PettingZoo has no environment 'classic/checkers_v9'"),
        ({"id": "no_such_module"}, "id: cannot import 'no_such_module': .*; install .* PYTHONPATH$"),
        ({"id": "toy_chase"}, "id: module 'toy_chase' has no parallel_env or env"),
        (
            {"id": "subprocess:getoutput", "options": {"cmd": "false"}},
            "id: 'subprocess:getoutput' makes no PettingZoo environment; expected a class derived from AECEnv",
        ),
        ({"id": "subprocess:Popen", "options": {"args": "false"}}, "id: 'subprocess:Popen' makes no PettingZoo"),
        ({"id": "toy_chase:np"}, "id: 'toy_chase:np' makes no PettingZoo environment"),
        ({"id": CHASE, "outcome": "os:system"}, "outcome: 'os:system' is no function of a game"),
        ({"id": CHASE, "outcome": "shutil:rmtree"}, "outcome: 'shutil:rmtree' is no function of a game"),
        ({"id": CHASE, "wrappers": ["subprocess:run"]}, "wrappers: 'subprocess:run' is no wrapper; expected a class"),
        ({"id": CHASE, "wrappers": ["pettingzoo.utils.wrappers:RecordVideoParallel"]}, "writes files .*'video_folder'"),
        (
            {"id": CHASE, "wrappers": [{"path": "pettingzoo.utils.save_observation:save_observation"}]},
            "writes files to the place in 'save_dir'",
        ),
        (
            {"id": CHASE, "wrappers": ["toy_chase:Chase"]},
            "wrappers: cannot wrap 'toy_chase:Chase' in 'toy_chase:Chase'",
        ),
        ({"id": CHASE, "options": {"wolves": 1}}, "options: 'toy_chase:Chase' cannot be made"),
        ({"id": "classic/tictactoe_v3", "api": "parallel"}, "api: 'classic/tictactoe_v3' is turn-based"),
        ({"id": CHASE, "teams": {"a": ["prey_*"]}}, "teams: expected agent 'hunter_0' in one team, found it in 0"),
        ({"id": CHASE, "teams": {"a": ["*"], "b": ["dog_*"]}}, "teams: no agent is in team 'b'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_configuration(make, options, message) -> None:
    """The message names the option and the value."""
    with pytest.raises(ConfigError, match=message):
        make(**options)


def test_agents_must_be_known(make) -> None:
    """An environment without `possible_agents` has no seats."""
    with pytest.raises(ContractError, match="has no possible_agents"):
        make("toy_chase:nameless")


@pytest.mark.parametrize("id", ["", "a b", "a/b/c", "a:b:c"])
def test_malformed_id(id) -> None:
    """The message gives examples of ids."""
    with pytest.raises(ValueError, match="expected an id such as"):
        PettingZooConfig(id=id)


def test_options_are_explained() -> None:
    """Every option has a line of help."""
    assert all(field.metadata["help"] for field in fields(PettingZooConfig))


def test_plugin_is_light() -> None:
    """Listing plugins and reading configuration imports no PettingZoo."""
    code = "import sys, ludus_pettingzoo.plugin, ludus_pettingzoo.config; assert 'pettingzoo' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


class Scaled(BaseParallelWrapper):
    """Multiplies rewards."""

    def __init__(self, env, factor=1.0, offsets=()):
        super().__init__(env)
        assert isinstance(offsets, tuple)
        self.factor = factor

    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        return observations, {agent: self.factor * reward for agent, reward in rewards.items()}, *rest


def test_wrappers_take_arguments(make, monkeypatch):
    """They apply from the inside out."""
    monkeypatch.setitem(sys.modules, "pz_wrappers", SimpleNamespace(Scaled=Scaled))
    wrapper = {"path": "pz_wrappers:Scaled", "options": {"factor": 3.0, "offsets": [1, 2]}}
    env = make("classic/rps_v2", wrappers=["pz_wrappers:Scaled", wrapper])
    env.reset(seeds(0))
    tick = env.step({"player": np.array([[[0], [1]]])})
    assert np.abs(tick.roles["player"].reward).tolist() == [[3.0, 3.0]]
    with pytest.raises(ConfigError, match=r"wrappers: cannot wrap 'classic/rps_v2' in 'pz_wrappers:Other'"):
        make("classic/rps_v2", wrappers=["pz_wrappers:Other"])
