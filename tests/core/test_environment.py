"""The records and helpers of the environment contract."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus import EnvironmentSpec, Playable, Role, RoleTick, Scenario, Tick
from ludus.environment import Seat, allocate_tick, checked_scenarios
from ludus.errors import ContractError

SPACE = spaces.Discrete(3)


def make_role(name: str, teams: tuple[int, ...]) -> Role:
    """Return a role with trivial spaces."""
    return Role(name=name, observation_space=SPACE, action_space=SPACE, teams=teams)


HUNT = EnvironmentSpec(name="hunt", roles=(make_role("cat", (0,)), make_role("mouse", (1, 1))), turn="simultaneous")


def test_a_role_has_a_seat_for_each_team_entry():
    """Two mice."""
    assert HUNT.role("mouse").num_seats == 2


def test_seats_are_numbered_role_by_role():
    """Seats have the order of the roles; the index counts within the role."""
    assert HUNT.seats == (Seat("cat", 0, 0), Seat("mouse", 0, 1), Seat("mouse", 1, 1))


def test_teams_are_counted_over_all_roles():
    """The cat and the mice."""
    assert HUNT.num_teams == 2


def test_an_unknown_role_is_an_error_that_lists_the_known_ones():
    """The message helps to find the typing error."""
    with pytest.raises(KeyError, match="hunt has no role 'dog'; it has cat, mouse"):
        HUNT.role("dog")


FOG = {"fog": ("far", "near"), "night": ()}


@pytest.mark.parametrize(
    ("scenarios", "problem"),
    [
        ([Scenario()], "expected one scenario for each of 2 matches, got 1"),
        ([Scenario(), Scenario(name="rain")], "unknown scenario 'rain'; there are default, fog, night"),
        ([Scenario(), Scenario(parameters={"far": 1})], "scenario default takes no parameters; got 'far'"),
        ([Scenario(), Scenario(name="night", parameters={"far": 1})], "scenario night takes no parameters; got 'far'"),
        (
            [Scenario(), Scenario(name="fog", parameters={"far": 1, "fat": 1})],
            "scenario fog takes the parameters far, near; got 'fat'",
        ),
    ],
)
def test_unknown_scenarios_are_rejected(scenarios, problem):
    """The message lists the known ones."""
    with pytest.raises(ContractError) as raised:
        checked_scenarios(scenarios, 2, known=FOG)
    assert str(raised.value) == problem


def test_known_scenarios_are_returned():
    """With any subset of their parameters; no scenarios means the default one."""
    scenarios = [Scenario(name="fog", parameters={"near": 2}), Scenario()]
    assert checked_scenarios(scenarios, 2, known=FOG) == scenarios
    assert checked_scenarios(None, 2, known=FOG) == ()


def test_parameters_of_open_scenarios_are_not_checked():
    """A scenario with None for its parameters accepts any; the default one accepts none."""
    scenarios = [Scenario(name="fog", parameters={"far": 1})]
    assert checked_scenarios(scenarios, 1, known={"fog": None}) == scenarios
    with pytest.raises(ContractError, match="scenario default takes no parameters"):
        checked_scenarios([Scenario(parameters={"far": 1})], 1, known={"fog": None})


@pytest.mark.parametrize("name", ["", "Cat", "a cat", "../cat", "c" * 65])
def test_names_are_checked(name):
    """Names of environments, roles and scenarios are plain words."""
    with pytest.raises(ValueError, match="expected a name"):
        make_role(name, (0,))
    with pytest.raises(ValueError, match="expected a name"):
        Scenario(name=name)
    with pytest.raises(ValueError, match="expected a name"):
        EnvironmentSpec(name=name, roles=HUNT.roles, turn="simultaneous")


def make_two_label_role(**more) -> Role:
    """Return a role with labels of two and three choices."""
    return Role(name="hero", observation_space=SPACE, action_space=spaces.MultiDiscrete([2, 3]), teams=(0,), **more)


def test_labels_used_has_an_entry_for_every_choice():
    """Of the first label, which is always used itself."""
    assert make_two_label_role().labels_used is None
    assert make_two_label_role(labels_used=((True, False), (True, True))).labels_used[0] == (True, False)


@pytest.mark.parametrize(
    ("labels_used", "problem"),
    [
        (((True, True),), "one entry per choice of the first label .2., got 1"),
        (
            ((True,), (True,)),
            "one entry per choice of the first label .2., each with 2 flags .*first is True",
        ),
        (
            ((True, True), (False, True)),
            "one entry per choice of the first label .2., each with 2 flags .*first is True",
        ),
    ],
)
def test_labels_used_is_checked(labels_used, problem):
    """The message names the role and the expected value."""
    with pytest.raises(ContractError, match=f"role 'hero': labels_used: expected {problem}"):
        make_two_label_role(labels_used=labels_used)


def test_continuous_actions_have_no_labels():
    """No label is unused."""
    box = spaces.Box(-1, 1, (2,), np.float32)
    with pytest.raises(ContractError, match="got 1"):
        Role(name="hero", observation_space=box, action_space=box, teams=(0,), labels_used=((True, True),))


def test_scenarios_are_the_default_one_without_parameters():
    """Two default scenarios are equal."""
    assert Scenario() == Scenario(name="default", parameters={})


def test_properties_of_environments_are_off_by_default():
    """An environment promises nothing."""
    flags = (HUNT.zero_sum, HUNT.constant_sum, HUNT.symmetric, HUNT.perfect_information)
    assert flags == (False,) * 4
    assert (HUNT.max_ticks, HUNT.tick_s, HUNT.reward_range, HUNT.scenarios) == (None, None, None, ())


def test_parts_of_a_tick_are_not_shared_between_ticks():
    """Optional attributes are new empty dicts."""
    ticks = [RoleTick(observation={}, acting=np.ones(1), action_mask=None, reward=np.zeros(1)) for _ in range(2)]
    ticks[0].reward_parts["goal"] = np.zeros(1)
    ticks[0].privileged["map"] = np.zeros(1)
    assert (ticks[1].reward_parts, ticks[1].privileged) == ({}, {})


def test_a_tick_holds_its_roles_by_name():
    """Attributes can be replaced in place, as environments do."""
    flags = np.zeros(1, bool)
    tick = Tick(roles={}, terminated=flags, truncated=flags, outcome=np.zeros((1, 2), np.float32))
    tick.terminated = ~flags
    assert tick.terminated[0]
    assert not tick.truncated[0]


def test_playable_is_recognized_by_its_methods():
    """Rendering alone does not make an environment playable."""

    class Drawn:
        def render(self, match):
            return ""

    class Played(Drawn):
        def action_name(self, role, action):
            return ""

        def parse_action(self, role, text):
            return np.zeros(1, np.int64)

    assert isinstance(Played(), Playable)
    assert not isinstance(Drawn(), Playable)


def make_arena():
    """Return a spec of two roles: one of labels with a privileged leaf, one with real actions and two seats."""
    hero = Role(
        name="hero",
        observation_space=spaces.Dict({"map": spaces.Box(0, 1, (3, 4), np.int8), "age": spaces.Discrete(5)}),
        action_space=spaces.MultiDiscrete([2, 3]),
        teams=(0,),
        privileged_space=spaces.Dict({"plan": spaces.MultiBinary(2)}),
    )
    box = spaces.Box(-1, 1, (2,), np.float32)
    crowd = Role(name="crowd", observation_space=box, action_space=box, teams=(1, 1))
    return EnvironmentSpec(name="arena", roles=(hero, crowd), turn="simultaneous")


def test_allocated_ticks_have_the_shapes_of_the_spec():
    """Masks and reward parts exist for the named roles only, and everything is 0."""
    tick = allocate_tick(make_arena(), 7, masked_roles=("hero",), reward_parts={"crowd": ("win", "hit")})
    hero, crowd = tick.roles["hero"], tick.roles["crowd"]
    arrays = {
        "map": (hero.observation["map"], (7, 1, 3, 4), np.int8),
        "age": (hero.observation["age"], (7, 1), np.int64),
        "plan": (hero.privileged["plan"], (7, 1, 2), np.int8),
        "mask": (hero.action_mask, (7, 1, 5), bool),
        "obs": (crowd.observation["obs"], (7, 2, 2), np.float32),
        "acting": (crowd.acting, (7, 2), bool),
        "reward": (crowd.reward, (7, 2), np.float32),
        "hit": (crowd.reward_parts["hit"], (7, 2), np.float32),
        "terminated": (tick.terminated, (7,), bool),
        "truncated": (tick.truncated, (7,), bool),
        "outcome": (tick.outcome, (7, 2), np.float32),
    }
    for name, (array, shape, dtype) in arrays.items():
        assert (name, array.shape, array.dtype, array.any()) == (name, shape, dtype, False)
    assert list(tick.roles) == ["hero", "crowd"]
    assert list(crowd.reward_parts) == ["win", "hit"]
    assert (crowd.action_mask, crowd.privileged, hero.reward_parts) == (None, {}, {})


def test_ticks_are_allocated_by_the_given_function():
    """An environment can place the arrays in its own memory."""
    made = []

    def allocate(shape, dtype):
        made.append(np.zeros(shape, dtype))
        return made[-1]

    tick = allocate_tick(make_arena(), 2, allocate=allocate)
    assert any(array is tick.outcome for array in made)
    assert any(array is tick.roles["hero"].observation["map"] for array in made)


def test_clearing_a_tick_does_not_change_other_matches():
    """Rewards, reward parts and endings become 0 at these match indices; observations and outcomes stay."""
    tick = allocate_tick(make_arena(), 3, reward_parts={"hero": ("win",)})
    hero = tick.roles["hero"]
    cleared = (hero.reward, hero.reward_parts["win"], tick.roles["crowd"].reward, tick.terminated, tick.truncated)
    kept = (hero.observation["map"], hero.acting, tick.outcome)
    for array in (*cleared, *kept):
        array[:] = 1
    tick.clear(np.array([0, 2]))
    assert [array.reshape(3, -1).all(axis=1).tolist() for array in cleared] == [[False, True, False]] * 5
    assert not any(array[[0, 2]].any() for array in cleared)
    assert all(array.all() for array in kept)
