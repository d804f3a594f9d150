"""Joint seats: combined interfaces, team agents and joined seats [Arena §2.4.1, §2.4.3]."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus.environment import EnvironmentSpec, Playable, Role, RoleTick, Scenario, Tick
from ludus.errors import ContractError
from ludus.interface import Identity, SeatView, Spaces, stack
from ludus.spaces import leaf_spaces
from ludus.testing import check_environment, check_interface
from ludus_interfaces.environment import wrap_environment
from ludus_interfaces.frames import FrameStack
from ludus_interfaces.joint_seats import combine, join_spaces, split_spaces
from ludus_interfaces.rewards import RewardParts
from ludus_interfaces.sharing import share_rewards
from ludus_interfaces.teams import as_team, team_agent

PART = Spaces(spaces.Dict({"x": spaces.Box(-1, 9, (2,)), "n": spaces.Discrete(5)}), spaces.MultiDiscrete([3, 2]))
PLAIN = Spaces(spaces.Box(-1, 9, (1,)), spaces.Discrete(4))
ONE = np.zeros(1, np.int64)


class Pairs:
    """Two teams of two seats; on tick t only seats 0, 1 and, on odd ticks, 2 and 3 act.

    Seats 0 and 2 are team 0. Each seat observes its number and the tick; a seat that chooses its own number modulo 3
    as label 0 earns 1, and all seats of its team earn ¼.
    """

    def __init__(self, num_matches=1, *, teams=(0, 1, 0, 1), masked=True, labels_used=None):
        self.num_matches, self.masked = num_matches, masked
        self.tick = np.zeros(num_matches, np.int64)
        self.running = np.zeros(num_matches, bool)
        self.reward = np.zeros((num_matches, 4), np.float32)
        self.ended = np.zeros(num_matches, bool)
        role = Role(
            name="unit",
            observation_space=spaces.Dict({"seat": spaces.Discrete(4), "tick": spaces.Box(0, 9, (1,))}),
            action_space=spaces.MultiDiscrete([3, 2]),
            teams=teams,
            privileged_space=spaces.Dict({"twice": spaces.Box(0, 9, (1,))}),
            labels_used=labels_used,
        )
        self.spec = EnvironmentSpec(name="pairs", roles=(role,), turn="asynchronous", reward_range=(0.0, 1.5))
        self.actions = None

    def reset(self, seeds, *, indices=None, scenarios=None):
        if any(scenario != Scenario() for scenario in scenarios or ()):
            raise ContractError("pairs has no scenarios")
        indices = np.arange(self.num_matches) if indices is None else indices
        self.tick[indices], self.running[indices], self.reward[indices], self.ended[indices] = 0, True, 0, False
        return self.show()

    def step(self, actions):
        self.actions = actions["unit"].copy()
        right = self.acting() & (self.actions[..., 0] == np.arange(4) % 3)
        shared = right + 0.25 * (right + right[:, [2, 3, 0, 1]])
        self.reward = shared.astype(np.float32)
        self.tick += self.running
        self.ended = self.running & (self.tick == 3)
        self.running &= ~self.ended
        return self.show()

    def acting(self):
        return ((np.arange(4) < 2) | (self.tick % 2 == 1)[:, None]) & self.running[:, None]

    def show(self):
        seats = np.tile(np.arange(4), (self.num_matches, 1))
        ticks = np.repeat(self.tick[:, None, None], 4, axis=1).astype(np.float32)
        mask = np.ones((self.num_matches, 4, 5), bool)
        mask[:, 1, 2] = False
        unit = RoleTick(
            observation={"seat": seats, "tick": ticks},
            acting=self.acting(),
            action_mask=mask if self.masked else None,
            reward=self.reward,
            reward_parts={"all": self.reward},
            privileged={"twice": 2 * ticks},
        )
        outcome = np.full((self.num_matches, 2), 0.5, np.float32)
        return Tick(roles={"unit": unit}, terminated=self.ended, truncated=np.zeros_like(self.ended), outcome=outcome)

    def close(self):
        pass


class PlayablePairs(Pairs):
    def render(self, match):
        return f"tick {self.tick[match]}"

    def action_name(self, role, action):
        return f"{action[0]}-{action[1]}"

    def parse_action(self, role, text):
        return np.array([int(part) for part in text.split("-")])


class Plus(Identity):
    """Adds to every Box leaf, scales the reward, and shifts actions back."""

    def __init__(self, number):
        self.number = number

    def observe(self, view, seat_ids):
        leaves = {
            name: leaf + np.float32(self.number) if leaf.dtype == np.float32 else leaf
            for name, leaf in view.observation.items()
        }
        return attrs.evolve(view, observation=leaves, reward=view.reward * np.float32(self.number))

    def act(self, action, seat_ids):
        return action + self.number


class Share(Identity):
    """Concatenates the Box leaves of both parts, so that each part observes them."""

    def bind(self, raw):
        both = spaces.Box(-np.inf, np.inf, (2,))
        return Spaces(spaces.Dict({"0.obs": both, "1.obs": both}), raw.action)

    def observe(self, view, seat_ids):
        both = np.concatenate([view.observation["0.obs"], view.observation["1.obs"]], axis=1)
        return attrs.evolve(view, observation={"0.obs": both, "1.obs": both})


class Rule:
    """An agent that computes its action from its observation by a function."""

    def __init__(self, rule):
        self.rule, self.forgotten = rule, []

    def act(self, observation, *, action_mask, seat_ids, rng):
        return np.asarray(self.rule(observation, action_mask), np.int64)

    def reset(self, seat_ids):
        self.forgotten.extend(seat_ids.tolist())


def joint_view(first, second, mask=None):
    """Return one row of two plain parts."""
    leaves = {"0.obs": np.array([[first]], np.float32), "1.obs": np.array([[second]], np.float32)}
    return SeatView(observation=leaves, action_mask=mask, reward=np.ones(1, np.float32))


# -- joint spaces --------------------------------------------------------------------------------------------------


def test_joint_spaces_prefix_leaves_and_concatenate_labels():
    """Part k has the prefix "k.", and its labels follow those of earlier parts."""
    joint = join_spaces([PART, PLAIN])
    assert set(leaf_spaces(joint.observation)) == {"0.x", "0.n", "1.obs"}
    assert joint.action == spaces.MultiDiscrete([3, 2, 4])


def test_joint_boxes_concatenate_dimensions():
    """Continuous parts give one longer Box."""
    part = Spaces(PLAIN.observation, spaces.Box(np.float32([-1, 0]), np.float32([1, 2])))
    joint = join_spaces([part, part])
    assert joint.action == spaces.Box(np.float32([-1, 0, -1, 0]), np.float32([1, 2, 1, 2]))
    assert split_spaces(joint, 2) == (part, part)


def test_parts_of_different_kinds_cannot_be_joined():
    """Labels and Box actions."""
    with pytest.raises(ContractError, match="cannot join Box actions with labels"):
        join_spaces([PLAIN, Spaces(PLAIN.observation, spaces.Box(0, 1, (1,)))])


@given(st.lists(st.sampled_from([PART, PLAIN]), min_size=1, max_size=4))
@settings(deadline=None, max_examples=20)
def test_splitting_is_the_inverse_of_joining(parts):
    """For any numbers of labels."""
    widths = [2 if part is PART else 1 for part in parts]
    assert split_spaces(join_spaces(parts), len(parts), widths=widths) == tuple(parts)


def test_leaves_that_do_not_divide_are_an_error():
    """All parts need leaves, and there may be no others."""
    with pytest.raises(ContractError, match="observation of 3 parts"):
        split_spaces(join_spaces([PLAIN, PLAIN]), 3)


def test_labels_that_do_not_divide_are_an_error():
    """Unequal parts need widths."""
    with pytest.raises(ContractError, match="pass valid `widths`"):
        split_spaces(join_spaces([PART, PLAIN]), 2)


# -- combining [Arena §2.4.1] --------------------------------------------------------------------------------------


def test_combined_interfaces_transform_each_its_own_part():
    """Observations and actions of part 0 pass the first interface, those of part 1 the second."""
    both = combine(Plus(10), Plus(20))
    both.bind(join_spaces([PLAIN, PLAIN]))
    observed = both.observe(joint_view(1, 2), ONE)
    assert {name: leaf.item() for name, leaf in observed.observation.items()} == {"0.obs": 11, "1.obs": 22}
    assert both.act(np.array([[1, 2]]), ONE).tolist() == [[11, 22]]


def test_an_interface_on_a_joint_seat_gets_both_parts():
    """Combine(itf3, [itf1, itf2]): the parts are transformed first."""
    whole = stack(combine(Plus(10), Plus(20)), Share())
    spaces_seen = whole.bind(join_spaces([PLAIN, PLAIN]))
    observed = whole.observe(joint_view(1, 2), ONE)
    assert observed.observation["0.obs"].tolist() == observed.observation["1.obs"].tolist() == [[11, 22]]
    assert spaces_seen.observation["0.obs"].shape == (2,)


def test_combined_reward_is_the_mean_of_the_parts():
    """Each part gets the joint reward."""
    both = combine(Plus(1), Plus(4))
    both.bind(join_spaces([PLAIN, PLAIN]))
    assert both.observe(joint_view(0, 0), ONE).reward.tolist() == [2.5]


class Named(Identity):
    """Returns these reward parts, and their sum as the reward."""

    def __init__(self, **parts):
        self.parts = {name: np.float32([value]) for name, value in parts.items()}

    def observe(self, view, seat_ids):
        return attrs.evolve(view, reward=sum(self.parts.values()), reward_parts=self.parts)


class Hidden(Identity):
    """Returns no parts, and twice the reward."""

    def observe(self, view, seat_ids):
        return attrs.evolve(view, reward=2 * view.reward, reward_parts={})


def observe_joint(*interfaces, **parts):
    """Return the view of combined interfaces, and of one on top, for a joint reward made of parts."""
    *sides, top = interfaces if len(interfaces) > 2 else (*interfaces, Identity())
    whole = stack(combine(*sides), top)
    whole.bind(join_spaces([PLAIN, PLAIN]))
    view = joint_view(0, 0)
    if parts:
        view.reward_parts = {name: np.float32([value]) for name, value in parts.items()}
        view.reward = np.float32([sum(parts.values())])
    return whole.observe(view, ONE)


def parts_of(view):
    """Return the reward parts of the only row."""
    return {name: values.item() for name, values in view.reward_parts.items()}


def test_combined_reward_parts_are_means():
    """Weights 1 and 3 of a hit of 4 make 8; with the win of 1 the reward is 9."""
    observed = observe_joint(RewardParts({"hit": 1.0}), RewardParts({"hit": 3.0}), win=1, hit=4)
    assert (parts_of(observed), observed.reward.tolist()) == ({"win": 1, "hit": 8}, [9])


def test_reward_parts_work_on_top_of_a_joint_seat():
    """Half of the hit of 4 and all of the win of 1: 3."""
    observed = observe_joint(Identity(), Identity(), RewardParts({"hit": 0.5}), win=1, hit=4)
    assert (parts_of(observed), observed.reward.tolist()) == ({"win": 1, "hit": 2}, [3])


def test_a_missing_reward_part_counts_as_0():
    """(6 + 2) / 2, (4 + 0) / 2 and (0 + 8) / 2 sum to the mean of 10 and 10."""
    observed = observe_joint(Named(win=6, hit=4), Named(win=2, push=8))
    assert (parts_of(observed), observed.reward.tolist()) == ({"win": 4, "hit": 2, "push": 4}, [10])


def test_a_reward_without_parts_is_one_part():
    """One interface returns the win of 3, the other the doubled reward of 6 as a whole."""
    observed = observe_joint(Identity(), Hidden(), win=3)
    assert (parts_of(observed), observed.reward.tolist()) == ({"win": 1.5, "reward": 3}, [4.5])


def test_without_parts_the_joint_seat_has_none():
    """Nothing is made up."""
    assert observe_joint(Identity(), Identity()).reward_parts == {}


@pytest.mark.parametrize(
    ("parts", "message"), [({"win": 1, "hit": 4}, "it gives win, hit"), ({}, "it gives none")], ids=["others", "none"]
)
def test_unknown_parts_of_a_joint_seat_are_rejected(parts, message):
    """The message lists the known parts."""
    with pytest.raises(ContractError, match=f"gives no reward part 'psh'; {message}"):
        observe_joint(Identity(), Identity(), RewardParts({"psh": 1.0}), **parts)


def test_combined_interfaces_get_the_progress():
    """At half of the budget a guidance of 4 is 4 for one interface and, faded, 2 for the other."""
    both = combine(Identity(), RewardParts({}, fade={"hint": 1.0}))
    both.bind(join_spaces([PLAIN, PLAIN]))
    stack(both).set_progress(0.5)
    view = joint_view(0, 0)
    view.reward_parts = {"hint": np.float32([4])}
    assert parts_of(both.observe(view, ONE)) == {"hint": 3}


def test_combined_masks_stay_with_their_parts():
    """Every part gets and returns its own columns."""

    class Reverse(Identity):
        def observe(self, view, seat_ids):
            return attrs.evolve(view, action_mask=view.action_mask[:, ::-1])

    both = combine(Identity(), Reverse())
    both.bind(join_spaces([PLAIN, PLAIN]))
    mask = np.array([[True, False, False, False, True, False, False, False]])
    observed = both.observe(joint_view(0, 0, mask), ONE).action_mask
    assert np.flatnonzero(observed).tolist() == [0, 7]


def test_without_a_mask_all_actions_of_a_part_are_legal():
    """If another part has a mask."""

    class Unmask(Identity):
        def observe(self, view, seat_ids):
            return attrs.evolve(view, action_mask=None)

    both = combine(Unmask(), Identity())
    both.bind(join_spaces([PLAIN, PLAIN]))
    observed = both.observe(joint_view(0, 0, np.eye(8, dtype=bool)[[5]]), ONE).action_mask
    assert np.flatnonzero(observed).tolist() == [0, 1, 2, 3, 5]


def test_combining_nothing_or_one_object_twice_is_an_error():
    """States of parts are separate."""
    with pytest.raises(ContractError, match="at least one"):
        combine()
    interface = Identity()
    with pytest.raises(ContractError, match="used twice"):
        combine(interface, interface)


def test_combined_interfaces_are_all_reset():
    """At the start of a match."""
    reset_seats = []

    class LoggingInterface(Identity):
        def reset(self, seat_ids):
            reset_seats.extend(seat_ids.tolist())

    combine(LoggingInterface(), LoggingInterface()).reset(np.array([4]))
    assert reset_seats == [4, 4]


def test_combined_interfaces_pass_the_check():
    """One of them is stateful."""
    check_interface(lambda: combine(Identity(), FrameStack(2)), join_spaces([PART, PART]))


# -- teams of agents [Arena §2.4.3] --------------------------------------------------------------------------------


def test_a_team_of_agents_acts_as_one_agent():
    """AgtItfWrapper([A1(), A2()], itf) of the paper: each agent decides for its part behind the interface."""
    members = [
        Rule(lambda obs, mask: obs["obs"].sum(1, keepdims=True)),
        Rule(lambda obs, mask: mask.argmax(1)[:, None]),
    ]
    agent = team_agent(members, stack(combine(Plus(0), Plus(1)), Share()), raw=join_spaces([PLAIN, PLAIN]))
    view = joint_view(1, 1, np.eye(8, dtype=bool)[[6]])
    rng = np.random.default_rng(0)
    action = agent.act(view.observation, action_mask=view.action_mask, seat_ids=ONE, rng=rng)
    assert action.tolist() == [[1 + 2, 2 + 1]]  # the sum of what both see; the legal choice 2, through Plus(1)


def test_a_team_agent_resets_its_members():
    """All of them."""
    members = [Rule(None), Rule(None)]
    team_agent(members, raw=join_spaces([PLAIN, PLAIN])).reset(np.array([2]))
    assert [member.forgotten for member in members] == [[2], [2]]


def test_a_team_with_too_many_members_is_an_error():
    """There must be one part per agent."""
    with pytest.raises(ContractError, match="observation of 3 parts"):
        team_agent([Rule(None)] * 3, raw=join_spaces([PLAIN, PLAIN]))


# -- teams of seats ------------------------------------------------------------------------------------------------


def test_team_seats_become_one_seat_with_joint_spaces():
    """Two seats per team: prefixed leaves and twice the labels."""
    role = as_team(Pairs(), "unit").spec.role("unit")
    assert role.teams == (0, 1)
    assert set(leaf_spaces(role.observation_space)) == {"0.seat", "0.tick", "1.seat", "1.tick"}
    assert set(leaf_spaces(role.privileged_space)) == {"0.twice", "1.twice"}
    assert role.action_space == spaces.MultiDiscrete([3, 2, 3, 2])


def test_seats_whose_actions_do_not_use_all_labels_are_joined():
    """`labels_used` would describe one seat only."""
    used = ((True, True), (True, False), (True, False))
    game = as_team(Pairs(labels_used=used), "unit")
    assert game.spec.role("unit").labels_used is None
    check_environment(lambda n: as_team(Pairs(n, labels_used=used), "unit"), steps=5)


def test_joint_observations_and_actions_belong_to_the_right_seats():
    """Seats 0 and 2 are team 0, seats 1 and 3 team 1."""
    game = Pairs()
    joint = as_team(game, "unit")
    tick = joint.reset(np.zeros(1, np.uint64))
    assert [tick.roles["unit"].observation[f"{k}.seat"].tolist() for k in (0, 1)] == [[[0, 1]], [[2, 3]]]
    joint.step({"unit": np.array([[[0, 0, 1, 1], [2, 0, 2, 1]]])})
    assert game.actions.tolist() == [[[0, 0], [2, 0], [1, 1], [2, 1]]]


def test_a_joint_seat_acts_when_any_of_its_seats_does_and_idle_seats_have_one_choice():
    """On even ticks seats 2 and 3 wait: only choice 0 of their labels is legal."""
    tick = as_team(Pairs(), "unit").reset(np.zeros(1, np.uint64))
    assert tick.roles["unit"].acting.tolist() == [[True, True]]
    first, second = tick.roles["unit"].action_mask[0].astype(int).tolist()
    assert first == [1, 1, 1, 1, 1, 1, 0, 0, 1, 0]
    assert second == [1, 1, 0, 1, 1, 1, 0, 0, 1, 0]


def test_rewards_of_a_team_are_summed_or_shared():
    """Named parts are joined like the reward."""
    for reward, expected in (("sum", [[1.5, 0.0]]), ("shared", [[0.75, 0.0]])):
        joint = as_team(Pairs(), "unit", reward=reward)
        joint.reset(np.zeros(1, np.uint64))
        tick = joint.step({"unit": np.zeros((1, 2, 4), np.int64)})  # seat 0 is right
        assert tick.roles["unit"].reward.tolist() == tick.roles["unit"].reward_parts["all"].tolist() == expected


def test_reward_parts_weight_joint_rewards():
    """Half of 1.5 is 0.75; the other team earns nothing."""
    through = stack(combine(Identity(), Identity()), RewardParts({"all": 0.5}))
    game = wrap_environment(as_team(Pairs(), "unit"), {"unit": through})
    game.reset(np.zeros(1, np.uint64))
    tick = game.step({"unit": np.zeros((1, 2, 4), np.int64)})  # seat 0 is right
    assert tick.roles["unit"].reward.tolist() == [[0.75, 0.0]]


@pytest.mark.parametrize("spirit", [0.0, 0.5, 1.0])
def test_joint_rewards_do_not_depend_on_the_spirit(spirit):
    """The seats of team 0 earn 1.25 and 0.25: with spirit ½ that is 1 and ½, and 1.5 in any case."""
    game = as_team(share_rewards(Pairs(), spirit=spirit), "unit")
    game.reset(np.zeros(1, np.uint64))
    assert game.step({"unit": np.zeros((1, 2, 4), np.int64)}).roles["unit"].reward.tolist() == [[1.5, 0.0]]


def test_reward_bounds_grow_with_summed_seats_only():
    """Two seats may earn twice as much together."""
    assert as_team(Pairs(), "unit").spec.reward_range == (0.0, 3.0)
    assert as_team(Pairs(), "unit", reward="shared").spec.reward_range == (0.0, 1.5)


def test_teams_of_different_sizes_cannot_be_joined():
    """One role has one space."""
    with pytest.raises(ContractError, match="the teams have 3, 1 seats"):
        _ = as_team(Pairs(teams=(0, 0, 0, 1)), "unit").spec


@pytest.mark.parametrize("masked", [True, False])
def test_joined_environments_satisfy_the_contract(masked):
    """Also with an interface per seat on top."""
    check_environment(lambda n: as_team(Pairs(n, masked=masked), "unit"), steps=20)
    check_environment(
        lambda n: wrap_environment(as_team(Pairs(n, masked=masked), "unit"), {"unit": combine(Identity(), Identity())}),
        steps=20,
    )


def test_joined_environments_are_playable_if_the_environment_is():
    """Actions of the seats are separated by commas."""
    game = as_team(PlayablePairs(), "unit")
    assert isinstance(game, Playable)
    assert not isinstance(as_team(Pairs(), "unit"), Playable)
    game.reset(np.zeros(1, np.uint64))
    assert game.render(0) == "tick 0"
    assert game.action_name("unit", np.array([1, 0, 2, 1])) == "1-0, 2-1"
    assert game.parse_action("unit", "1-0, 2-1").tolist() == [1, 0, 2, 1]
    with pytest.raises(ValueError, match="expected 2 actions"):
        game.parse_action("unit", "1-0")


def test_actions_that_contain_commas_can_be_joined():
    """For a team that is joined twice."""
    game = as_team(as_team(PlayablePairs(), "unit"), "unit")
    assert game.parse_action("unit", game.action_name("unit", np.array([1, 0, 2, 1]))).tolist() == [1, 0, 2, 1]
