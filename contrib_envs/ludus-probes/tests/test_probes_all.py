"""What all probes have in common."""

from __future__ import annotations

import time

import numpy as np
import pytest
from ludus import ConfigError, ContractError, Playable, Scenario
from ludus.agent import EvaluatingAgent, RandomAgent
from ludus.spaces import action_dtype, action_width, label_sizes
from ludus.testing import check_environment
from ludus_probes.environment import ROLE
from ludus_probes.plugin import ludus_register_agents, ludus_register_environments

NAMES = [component.name for component in ludus_register_environments()]
OPTIONS = [
    ("matrix-game", {}),
    ("matrix-game", {"preset": "matching-pennies", "rounds": 7}),
    ("matrix-game", {"preset": "prisoners-dilemma", "rounds": 3}),
    ("matrix-game", {"payoff": ((0.1, 0.2, 0.3),) * 3, "payoff_second": ((1.0, 2.0, 3.0),) * 3, "rounds": 10}),
    ("memory-game", {}),
    ("memory-game", {"choices": 2, "delay": 1, "distractor": False}),
    ("corridor", {}),
    ("corridor", {"length": 3, "distraction": 0.0, "max_ticks": 5}),
    ("exits", {}),
    ("exits", {"seats": 3, "ticks": 4, "leaving": "truncated"}),
    ("exits", {"seats": 1, "ticks": 2}),
    ("key-ring", {}),
    ("key-ring", {"keys": 7, "locks": 2, "fit": 7, "masked": False}),
    ("labels", {}),
    ("labels", {"choices": 2, "coupled": True}),
    ("labels", {"labels": 5, "choices": 3}),
    ("labels", {"labels": 16, "coupled": True, "shared": True}),
    ("labels", {"labels": 3, "choices": 5, "coupled": True, "keyed": True}),
    ("luck", {}),
    ("luck", {"ticks": 1, "told": False}),
    ("team-game", {}),
    ("team-game", {"teams": 2, "members": 2, "choices": 3}),
    ("team-game", {"teams": 2, "members": 1, "offset": 0.0}),
    ("targets", {}),
    ("targets", {"kinds": 2, "buttons": 1}),
    ("steer", {}),
    ("steer", {"steps": 4, "tolerance": 0.5}),
    ("aim", {}),
    ("aim", {"targets": 2, "tolerance": 0.5}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_the_contract_is_kept(name, options):
    """With default and with other options, in this process and another."""
    component = next(one for one in ludus_register_environments() if one.name == name)
    check_environment(component, options=options, steps=60)


@pytest.mark.parametrize("name", NAMES)
def test_the_registered_name_is_that_of_the_spec(make, name):
    """Errors then name the environment."""
    assert make(name).spec.name == name


@pytest.mark.parametrize("name", NAMES)
def test_every_probe_can_be_watched(make, start, name):
    """Every match renders as text without trailing blanks, at the start and at the end."""
    environment = make(name, 3)
    assert isinstance(environment, Playable)
    player = start(environment)
    agent = RandomAgent(None, spec=environment.spec, role=ROLE)
    rng = np.random.default_rng(0)
    while True:
        texts = [environment.render(row) for row in range(3)]
        assert all(text and text == text.rstrip() for text in texts)
        if not player.acting.any():
            break
        seats = player.acting.size
        mask = None if player.action_mask is None else player.action_mask.reshape(seats, -1)
        drawn = agent.act({}, action_mask=mask, seat_ids=np.arange(seats), rng=rng)
        environment.step({ROLE: drawn.reshape(3, seats // 3, -1)})


@pytest.mark.parametrize("name", NAMES)
def test_a_mistyped_action_lists_the_choices(make, name):
    """The message repeats the text."""
    with pytest.raises(ValueError, match=r"expected .*; got 'help'"):
        make(name).parse_action(ROLE, " help ")


@pytest.mark.parametrize("name", NAMES)
def test_there_is_no_scenario_but_the_default(make, name):
    """Also the default one takes no parameters."""
    environment = make(name)
    for scenario, problem in (
        (Scenario(name="late"), "unknown scenario 'late'"),
        (Scenario(parameters={"plies": 1}), "scenario default takes no parameters; got 'plies'"),
    ):
        with pytest.raises(ContractError, match=problem):
            environment.reset(np.zeros(1, np.uint64), scenarios=[scenario])


@pytest.mark.parametrize("name", NAMES)
def test_an_illegal_action_names_match_and_seat(make, start, name):
    """And no match has advanced."""
    environment = make(name, 3)
    player = start(environment)
    before = {leaf: array.copy() for leaf, array in player.observation.items()}
    role = environment.spec.role(ROLE)
    actions = np.zeros((3, role.num_seats, action_width(role.action_space)), action_dtype(role.action_space))
    if player.action_mask is not None:
        last = label_sizes(role.action_space)[-1]
        actions[:, 0, -1] = player.action_mask[:, 0, -last:].argmax(axis=1)
    actions[1, -1, 0] = 1000
    with pytest.raises(ContractError, match=f"{name}: seat {role.num_seats - 1} of role 'player' in match 1"):
        environment.step({ROLE: actions})
    assert player.acting.all()
    assert not player.reward.any()
    assert all(np.array_equal(before[leaf], array) for leaf, array in player.observation.items())


@pytest.mark.parametrize("name", [component.name for component in ludus_register_agents() if component.config is None])
def test_perfect_agents_evaluate(make, make_agent, start, name):
    """They decide as `act` does, and return the expected return."""
    environment = make(name.removesuffix("-perfect"), 5)
    agent = make_agent(name, environment)
    assert isinstance(agent, EvaluatingAgent)
    player = start(environment)
    observed = {leaf: array[:, 0] for leaf, array in player.observation.items()}
    mask = None if player.action_mask is None else player.action_mask[:, 0]
    more = {"action_mask": mask, "seat_ids": np.arange(5), "rng": np.random.default_rng(0)}
    agent.reset(np.arange(5))
    actions, values = agent.act_and_evaluate(observed, **more)
    assert np.array_equal(actions, agent.act(observed, **more))
    assert actions.dtype == action_dtype(environment.spec.role(ROLE).action_space)
    assert values.dtype == np.float32
    assert values.tolist() == [0.0 if name == "steer-perfect" else 1.0] * 5


def test_agents_name_the_environments_they_fit():
    """Each its own, all of which exist."""
    assert {component.environments for component in ludus_register_agents()} == {(name,) for name in NAMES}


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("matrix-game", {"preset": "chess"}),
        ("matrix-game", {"payoff": ((1.0, 2.0),)}),
        ("matrix-game", {"payoff": ((1.0,),)}),
        ("matrix-game", {"payoff": ((0.0, float("inf")), (0.0, 0.0))}),
        ("matrix-game", {"rounds": 0}),
        ("memory-game", {"choices": 1}),
        ("memory-game", {"delay": 0}),
        ("corridor", {"length": 61}),
        ("corridor", {"distraction": 1.0}),
        ("corridor", {"max_ticks": -1}),
        ("exits", {"prize": 1.0}),
        ("exits", {"leaving": "dead"}),
        ("key-ring", {"keys": 1}),
        ("labels", {"choices": 2.0}),
        ("labels", {"labels": 17}),
        ("luck", {"spread": -1.0}),
        ("team-game", {"teams": 3}),
        ("team-game", {"members": True}),
        ("team-game", {"offset": -1.0}),
        ("targets", {"kinds": 1}),
        ("steer", {"tolerance": 0.0}),
        ("aim", {"targets": 1}),
    ],
    ids=str,
)
def test_options_are_checked(make, name, wrong):
    """Invalid values raise."""
    with pytest.raises(ValueError, match="expected"):
        make(name, **wrong)


def test_matrices_of_different_size_raise(make):
    """Each has an allowed shape, but they do not fit together."""
    with pytest.raises(ConfigError, match="payoff_second: expected 3 rows as in payoff, got 2"):
        make("matrix-game", payoff_second=((1.0, 0.0), (0.0, 1.0)))


def rates_of_random_play(environment):
    """Return ticks of matches per second of CPU time, three times."""
    agent, matches = RandomAgent(None, spec=environment.spec, role=ROLE), environment.num_matches
    seats, rng = environment.spec.role(ROLE).num_seats, np.random.default_rng(0)
    player = environment.reset(np.arange(matches, dtype=np.uint64)).roles[ROLE]
    for _ in range(3):
        begin = time.process_time()
        for _ in range(200):
            mask = None if player.action_mask is None else player.action_mask.reshape(matches * seats, -1)
            drawn = agent.act({}, action_mask=mask, seat_ids=np.arange(matches * seats), rng=rng)
            tick = environment.step({ROLE: drawn.reshape(matches, seats, -1)})
            ended = np.flatnonzero(tick.terminated | tick.truncated)
            if len(ended):
                environment.reset(ended.astype(np.uint64), indices=ended)
        yield 200 * matches / (time.process_time() - begin)


@pytest.mark.parametrize("name", NAMES)
def test_matches_are_stepped_together(make, name):
    """The time per match is at most a tenth with 256 matches at once, including the choice of actions."""
    alone, together = (max(rates_of_random_play(make(name, matches))) for matches in (1, 256))
    assert together > 10 * alone
