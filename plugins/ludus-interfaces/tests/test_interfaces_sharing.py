"""Shared rewards equal numbers computed by hand."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus.__main__ import main
from ludus.environment import EnvironmentSpec, Playable, Role, RoleTick, Scenario, Tick
from ludus.errors import ConfigError, ContractError
from ludus.testing import check_environment
from ludus_interfaces.config import TeamRewardConfig
from ludus_interfaces.plugin import ludus_register_environments
from ludus_interfaces.sharing import share_rewards

CATS = {"cat": (0,), "mouse": (1, 1, 1)}
PAIRS = {"unit": (0, 1, 0, 1)}


class Purse:
    """Five ticks in which seats earn a tenth of their action; roles in `divided` earn halves as "push" and "rescue"."""

    def __init__(self, num_matches=1, *, teams=CATS, divided=("mouse",), **spec):
        self.num_matches, self.divided = num_matches, divided
        made = tuple(
            Role(name=name, observation_space=spaces.Box(0, 9, (1,)), action_space=spaces.Discrete(10), teams=members)
            for name, members in teams.items()
        )
        self.spec = EnvironmentSpec(name="purse", roles=made, turn="simultaneous", **spec)
        self.ticks = np.zeros(num_matches, np.int64)
        self.running, self.ended = np.zeros((2, num_matches), bool)
        self.earned = {role.name: np.zeros((num_matches, role.num_seats), np.float32) for role in made}
        self.closed = False

    def reset(self, seeds, *, indices=None, scenarios=None):
        if any(scenario != Scenario() for scenario in scenarios or ()):
            raise ContractError("purse has no scenarios")
        indices = np.arange(self.num_matches) if indices is None else indices
        self.ticks[indices], self.running[indices], self.ended[indices] = 0, True, False
        for earned in self.earned.values():
            earned[indices] = 0
        return self.show()

    def step(self, actions):
        if any(((amounts < 0) | (amounts > 9)).any() for amounts in actions.values()):
            raise ContractError("expected at most 9")
        self.ticks += self.running
        for name, earned in self.earned.items():
            earned[:] = actions[name][..., 0] / 10 * self.running[:, None]
        self.ended = self.running & (self.ticks == 5)
        self.running = self.running & ~self.ended
        return self.show()

    def show(self):
        return Tick(
            roles={name: self.show_role(name, earned) for name, earned in self.earned.items()},
            terminated=self.ended,
            truncated=np.zeros(self.num_matches, bool),
            outcome=np.zeros((self.num_matches, self.spec.num_teams), np.float32),
        )

    def show_role(self, name, earned):
        observed = np.broadcast_to(self.ticks[:, None, None], (*earned.shape, 1))
        return RoleTick(
            observation={"obs": observed.astype(np.float32)},
            acting=np.repeat(self.running[:, None], earned.shape[1], axis=1),
            action_mask=None,
            reward=earned.copy(),
            reward_parts={"push": earned / 2, "rescue": earned / 2} if name in self.divided else {},
        )

    def close(self):
        self.closed = True


class PlayablePurse(Purse):
    """The playable variant."""

    def render(self, match):
        return f"match {match}"

    def action_name(self, role, action):
        return f"{role} {action[0]}"

    def parse_action(self, role, text):
        return np.array([int(text)])


def earn(environment, **tenths):
    """Play one tick in which the seats earn these tenths; return the ticks by role."""
    environment.reset(np.zeros(1, np.uint64))
    actions = {name: np.array(values)[None, :, None] for name, values in tenths.items()}
    return environment.step(actions).roles


def rewards(environment, **tenths):
    """Return the rewards of the seats by role."""
    return {name: role.reward[0].tolist() for name, role in earn(environment, **tenths).items()}


def parts(tick):
    """Return the reward parts of a role in the only match."""
    return {name: values[0].tolist() for name, values in tick.reward_parts.items()}


def close_to(expected):
    """Compare nested lists up to rounding."""
    return {name: pytest.approx(values, abs=1e-6) for name, values in expected.items()}


@pytest.mark.parametrize(
    ("options", "cat", "mice"),
    [
        ({}, [0.5], [0.0, 0.3, 0.6]),
        ({"spirit": 1.0}, [0.5], [0.3, 0.3, 0.3]),
        ({"spirit": 0.5}, [0.5], [0.15, 0.3, 0.45]),
        ({"zero_sum": True}, [0.2], [-0.5, -0.2, 0.1]),
        ({"spirit": 0.5, "zero_sum": True}, [0.2], [-0.35, -0.2, -0.05]),
        ({"spirit": 0.5, "roles": ["mouse"]}, [0.5], [0.15, 0.3, 0.45]),
        ({"zero_sum": True, "roles": ["cat"]}, [0.2], [0.0, 0.3, 0.6]),
    ],
    ids=str,
)
def test_rewards_equal_hand_computed_numbers(options, cat, mice):
    """One cat earns 0.5, three mice earn 0, 0.3 and 0.6."""
    observed = rewards(share_rewards(Purse(), **options), cat=[5], mouse=[0, 3, 6])
    assert observed == close_to({"cat": cat, "mouse": mice})


def test_seats_of_a_team_need_not_be_adjacent():
    """Teams 0, 1, 0, 1 earn 0.1, 0.2, 0.3, 0.6: their means are 0.2 and 0.4."""
    shared = share_rewards(Purse(teams=PAIRS), spirit=1.0, zero_sum=True)
    assert rewards(shared, unit=[1, 2, 3, 6]) == close_to({"unit": [-0.2, 0.2, -0.2, 0.2]})


def test_a_team_can_have_seats_of_several_roles():
    """A driver and a gunner share their rewards."""
    crew = Purse(teams={"driver": (0,), "gunner": (0,)}, divided=())
    assert rewards(share_rewards(crew, spirit=0.5), driver=[2], gunner=[6]) == close_to(
        {"driver": [0.3], "gunner": [0.5]}
    )


def test_parts_are_split_by_source():
    """The seat itself, its team and its opponents."""
    cat, mouse = earn(share_rewards(Purse(), spirit=0.5, zero_sum=True), cat=[5], mouse=[0, 4, 8]).values()
    assert parts(mouse) == close_to(
        {
            "reward": [0, 0, 0],
            "team/reward": [0, 0, 0],
            "opponents/reward": [-0.5, -0.5, -0.5],
            "push": [0, 0.1, 0.2],
            "team/push": [0.1, 0.1, 0.1],
            "opponents/push": [0, 0, 0],
            "rescue": [0, 0.1, 0.2],
            "team/rescue": [0.1, 0.1, 0.1],
            "opponents/rescue": [0, 0, 0],
        }
    )
    assert parts(cat)["opponents/push"] == pytest.approx([-0.2])


def test_the_own_part_is_present_even_if_its_weight_is_0():
    """With a spirit of 1."""
    mouse = earn(share_rewards(Purse(), spirit=1.0), cat=[0], mouse=[0, 4, 8])["mouse"]
    assert parts(mouse)["push"] == [0, 0, 0]
    assert parts(mouse)["team/push"] == pytest.approx([0.2, 0.2, 0.2])


def test_all_seats_of_a_team_receive_granted_parts_in_full():
    """Other parts are not shared."""
    mouse = earn(share_rewards(Purse(), granted=["rescue"]), cat=[0], mouse=[0, 4, 8])["mouse"]
    assert parts(mouse) == close_to(
        {"reward": [0, 0, 0], "push": [0, 0.2, 0.4], "rescue": [0, 0.2, 0.4], "team/rescue": [0.6, 0.4, 0.2]}
    )
    assert mouse.reward[0].tolist() == pytest.approx([0.6, 0.8, 1.0])


def test_granted_parts_are_subtracted_from_opponents():
    """Each mouse receives 0.6 for the rescue and 0.2 for pushing on average; the cat loses as much."""
    shared = share_rewards(Purse(), granted=["rescue"], zero_sum=True)
    assert rewards(shared, cat=[0], mouse=[0, 4, 8])["cat"] == pytest.approx([-0.8])


@given(
    tenths=st.lists(st.integers(0, 9), min_size=4, max_size=4),
    spirit=st.floats(0, 1, width=32),
    zero_sum=st.booleans(),
    granted=st.sampled_from([(), ("push",)]),
)
@settings(deadline=None, max_examples=25)
def test_parts_sum_to_the_reward_and_two_equal_teams_to_0(tenths, spirit, zero_sum, granted):
    """For any sharing."""
    game = Purse(teams=PAIRS, divided=("unit",))
    tick = earn(share_rewards(game, spirit=spirit, granted=granted, zero_sum=zero_sum), unit=tenths)["unit"]
    np.testing.assert_allclose(sum(tick.reward_parts.values()), tick.reward, atol=1e-6)
    total = 0.0 if zero_sum else sum(tenths) / 10 * (1.5 if granted else 1)
    assert tick.reward.sum() == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize(
    ("teams", "options", "claimed"),
    [
        (PAIRS, {"zero_sum": True}, True),
        (PAIRS, {"zero_sum": True, "roles": ["unit"]}, True),
        (PAIRS, {"spirit": 0.5}, False),
        (CATS, {"zero_sum": True}, False),
        (CATS, {"zero_sum": True, "roles": ["cat"]}, False),
        ({"unit": (0, 1, 2, 3)}, {"zero_sum": True}, False),
    ],
    ids=str,
)
def test_the_spec_claims_zero_sum_for_two_teams_of_one_size(teams, options, claimed):
    """If the rewards of all roles change."""
    assert share_rewards(Purse(teams=teams), **options).spec.zero_sum is claimed


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"spirit": 0.5}, True),
        ({"spirit": 0.5, "roles": ["mouse"]}, False),
        ({"zero_sum": True}, False),
        ({"granted": ["push"]}, False),
    ],
    ids=str,
)
def test_sharing_keeps_a_zero_sum(options, kept):
    """Spirit moves rewards within a team; granted parts do not keep sums."""
    assert share_rewards(Purse(zero_sum=True), **options).spec.zero_sum is kept


@pytest.mark.parametrize(
    ("options", "bounds"),
    [({"spirit": 0.5}, (0.0, 0.9)), ({"zero_sum": True}, (-0.9, 0.9)), ({"granted": ["push"]}, None)],
    ids=str,
)
def test_the_reward_range_covers_shared_rewards(options, bounds):
    """Means stay in the range, differences span both ends of it, granted parts have no known range."""
    assert share_rewards(Purse(reward_range=(0.0, 0.9)), **options).spec.reward_range == bounds


@pytest.mark.parametrize("options", [{}, {"spirit": 0.3}, {"zero_sum": True, "granted": ["push"]}], ids=str)
@pytest.mark.parametrize("teams", [CATS, PAIRS], ids=str)
def test_shared_rewards_satisfy_the_contract(teams, options):
    """The environment checks find nothing."""

    def make(num_matches):
        game = Purse(num_matches, teams=teams, divided=tuple(teams), reward_range=(0.0, 0.9))
        return share_rewards(game, **options)

    check_environment(make, steps=40)


def test_observations_and_outcomes_do_not_change():
    """Closing is delegated."""
    game = Purse()
    shared = share_rewards(game, spirit=1.0)
    tick = shared.reset(np.zeros(1, np.uint64))
    assert tick.roles["mouse"].observation["obs"].shape == (1, 3, 1)
    assert (shared.num_matches, shared.spec.turn, shared.spec.roles) == (1, "simultaneous", game.spec.roles)
    shared.close()
    assert game.closed


def test_playable_methods_are_delegated():
    """Text is passed to the environment and back."""
    shared = share_rewards(PlayablePurse(), spirit=1.0)
    assert isinstance(shared, Playable)
    assert (shared.render(3), shared.action_name("cat", np.array([2]))) == ("match 3", "cat 2")
    assert shared.parse_action("cat", "7").tolist() == [7]
    assert not isinstance(share_rewards(Purse()), Playable)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"roles": ["dog"]}, "purse has no role 'dog' to share rewards; it has cat, mouse"),
        ({"granted": ["chese"]}, "purse gives no reward part 'chese' to grant; it gives reward, push, rescue"),
    ],
)
def test_unknown_names_are_rejected(options, message):
    """The message lists the known names."""
    with pytest.raises(ContractError, match=message):
        share_rewards(Purse(), **options).reset(np.zeros(1, np.uint64))


# -- chosen by name ----------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch):
    """Open every game as a purse; return the requested options."""
    opened_games = []

    def open_game(name, *, options):
        opened_games.append((name, options))
        return SimpleNamespace(make_environment=Purse)

    monkeypatch.setattr("ludus_interfaces.factories.open_game", open_game)
    return opened_games


def make_component(num_matches=1, *, game="purse", **options):
    """Make the environment as a run does."""
    component = next(part for part in ludus_register_environments() if part.name == "team-reward")
    return component.load_factory()(component.load_config()(game=game, **options), num_matches=num_matches)


def test_options_are_passed_to_wrapper_and_environment(opened):
    """The environment is made with its options."""
    options = tomllib.loads(
        """
        mice = 4
        name = "a 🐭"
        speeds = [1.5, inf]
        holes = [{ wide = 1 }]
        since = 2024-02-29
        empty = {}
        "a.b" = { cracks = 2 }
        """
    )
    shared = make_component(2, options=options, spirit=0.5, zero_sum=True, roles=("mouse",))
    assert opened == [("purse", {"purse": options})]
    assert shared.num_matches == 2
    observed = make_component(spirit=0.5, zero_sum=True, roles=("mouse",))
    assert rewards(observed, cat=[5], mouse=[0, 3, 6]) == close_to({"cat": [0.5], "mouse": [-0.35, -0.2, -0.05]})
    granted = make_component(granted=("rescue",))
    assert rewards(granted, cat=[0], mouse=[0, 4, 8])["mouse"] == pytest.approx([0.6, 0.8, 1.0])


def test_an_installed_environment_is_found_by_name():
    """Among all installed environments."""
    with pytest.raises(ConfigError, match="no installed plugin provides the environment 'nope'"):
        make_component(game="nope")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"game": "nope", "options": {"x": 1}}, "game: no installed plugin provides the environment 'nope'"),
        ({"game": "team-reward"}, "options.game: missing; expected a string"),
        ({"game": "team-reward", "options": {"game": "x", "spirit": 2}}, "options.spirit: expected a number in [0, 1]"),
        ({"game": "team-reward", "options": {"game": "x", "spitir": {"a": 2}}}, "options.spitir: unknown key"),
    ],
)
def test_errors_contain_the_path_of_the_option(options, problem):
    """The wrapped environment has no table of its own in the file."""
    with pytest.raises(ConfigError) as error:
        make_component(**options)
    (line,) = error.value.problems
    assert line.startswith(f"environment.team-reward.{problem}")


RUN = """
[run]
seed = 1
workers = 0
decisions = 64
[environment]
name = "team-reward"
[environment.team-reward]
game = "dummy-count"
[sampling]
matches = 4
rows_per_fixture = 2
[players.main]
algorithm = "dummy-gradient"
matchmaker = "dummy-uniform"
[players.main.dummy-gradient]
segment_decisions = 4
batch_decisions = 16
[evaluation]
enabled = false
final_matches = 0
"""


def test_a_resumed_run_cannot_change_the_environment(tmp_path, capsys):
    """How rewards are shared may change."""
    (tmp_path / "run.toml").write_text(RUN)
    assert main(["train", str(tmp_path / "run.toml"), "--run", str(tmp_path / "run")]) == 0
    more = ["resume", str(tmp_path / "run"), "--set", "run.decisions=128", "--set"]
    assert main([*more, "environment.team-reward.game='dummy-guess'"]) == 1
    assert "environment.team-reward.game: was 'dummy-count', got 'dummy-guess'" in capsys.readouterr().err
    assert main([*more, "environment.team-reward.spirit=0.5"]) == 0


def test_spirit_beyond_1_is_rejected():
    """A spirit beyond 1 is refused."""
    with pytest.raises(ValueError, match=r"expected a number in \[0, 1\]"):
        TeamRewardConfig(game="purse", spirit=1.5)
