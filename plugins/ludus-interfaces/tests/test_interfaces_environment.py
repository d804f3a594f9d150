"""Wrapped environments satisfy the contract, with the examples of Arena §2.4.2 and §2.4.4."""

from __future__ import annotations

import attrs
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Playable, Role, RoleTick, Scenario, Tick
from ludus.errors import ContractError
from ludus.interface import Identity, SeatView, Spaces, stack, wrap_agent
from ludus.rendering import draw_match
from ludus.spaces import leaf_spaces
from ludus.testing import check_environment
from ludus_interfaces.environment import wrap_environment

TICKS = 4
CARDS = 3


class Cards:
    """Two seats guess the card on the table and may bid on it; a right guess earns 1 + bid from the other seat.

    The card is a number of the seed and the tick. Bids are illegal on even ticks. In the turn-based variant the seats
    take turns and a guess is paid one tick late, so that rewards arrive while a seat waits.
    """

    def __init__(self, num_matches=1, *, turns=False, late_spec=False):
        self.num_matches, self.turns, self.late_spec = num_matches, turns, late_spec
        self.tick = np.zeros(num_matches, np.int64)
        self.first = np.zeros(num_matches, np.int64)
        self.running = np.zeros(num_matches, bool)
        self.owed = np.zeros((num_matches, 2), np.float32)
        self.reward = np.zeros((num_matches, 2), np.float32)
        self.ended = np.zeros(num_matches, bool)
        self.seen_actions = []

    @property
    def spec(self):
        if self.late_spec:
            raise ContractError("the spaces are known after the first reset")
        observation = spaces.Dict({"card": spaces.Discrete(CARDS), "tick": spaces.Box(0, TICKS, (2,))})
        role = Role(
            name="player",
            observation_space=observation,
            action_space=spaces.MultiDiscrete([CARDS, 2]),
            teams=(0, 1),
            privileged_space=spaces.Dict({"secret": spaces.Box(0, 1, (1,))}),
        )
        turn = "turn-based" if self.turns else "simultaneous"
        return EnvironmentSpec(name="cards", roles=(role,), turn=turn, zero_sum=True, reward_range=(-4, 4))

    def reset(self, seeds, *, indices=None, scenarios=None):
        if any(scenario != Scenario() for scenario in scenarios or ()):
            raise ContractError("cards has no scenarios")
        self.late_spec = False
        indices = np.arange(self.num_matches) if indices is None else indices
        self.tick[indices], self.first[indices], self.running[indices] = 0, seeds % CARDS, True
        self.owed[indices], self.reward[indices], self.ended[indices] = 0, 0, False
        return self.show()

    def step(self, actions):
        chosen = actions["player"]
        self.seen_actions.append(chosen.copy())
        acting = self.acting()
        if (acting & self.running[:, None] & (chosen[..., 1] == 1) & (self.tick % 2 == 0)[:, None]).any():
            raise ContractError("no bids on even ticks")
        won = acting * (chosen[..., 0] == self.card()[:, None]) * (1 + chosen[..., 1])
        payment = ((won - won[:, ::-1]) * self.running[:, None]).astype(np.float32)
        self.reward = self.owed.copy() if self.turns else payment
        self.owed = payment
        self.tick += self.running
        self.ended = self.running & (self.tick == TICKS)
        self.running &= ~self.ended
        if self.turns:
            self.reward[self.ended] += self.owed[self.ended]
            self.owed[self.ended] = 0
        return self.show()

    def card(self):
        return (self.first + self.tick) % CARDS

    def acting(self):
        seats = np.ones((self.num_matches, 2), bool)
        return seats & (self.tick[:, None] % 2 == np.arange(2)) if self.turns else seats

    def show(self):
        both = np.ones((self.num_matches, 2), np.int64)
        mask = np.ones((self.num_matches, 2, CARDS + 2), bool)
        mask[:, :, -1] = (self.tick % 2 == 1)[:, None]
        player = RoleTick(
            observation={
                "card": both * self.card()[:, None],
                "tick": np.stack([both * self.tick[:, None], both * np.arange(2)], axis=-1).astype(np.float32),
            },
            acting=self.acting() & self.running[:, None],
            action_mask=mask,
            reward=self.reward,
            privileged={"secret": np.full((self.num_matches, 2, 1), 0.25, np.float32)},
        )
        outcome = np.full((self.num_matches, 2), 0.5, np.float32)
        truncated = np.zeros_like(self.ended)
        return Tick(roles={"player": player}, terminated=self.ended, truncated=truncated, outcome=outcome)

    def close(self):
        pass


class PlayableCards(Cards):
    def render(self, match):
        return f"card {self.card()[match]}"

    def action_name(self, role, action):
        return f"{action[0]}{'!' * int(action[1])}"

    def parse_action(self, role, text):
        if text.rstrip("!") not in {"0", "1", "2"}:
            raise ValueError("type 0, 1 or 2, with ! to bid")
        return np.array([int(text[0]), text.count("!")])


class CardOnly(Identity):
    """Observes the card as one number, and chooses the guess only."""

    def bind(self, raw):
        return Spaces(spaces.Discrete(CARDS), spaces.Discrete(CARDS))

    def observe(self, view, seat_ids):
        mask = None if view.action_mask is None else view.action_mask[:, :CARDS]
        return SeatView(observation={"obs": view.observation["card"]}, action_mask=mask, reward=view.reward)

    def act(self, action, seat_ids):
        return np.concatenate([action, np.zeros_like(action)], axis=1)


class OneLabel(Identity):
    """Observes a one-hot card, and merges guess and bid into one choice of six."""

    def bind(self, raw):
        return Spaces(spaces.Box(0, 1, (CARDS,)), spaces.Discrete(2 * CARDS))

    def observe(self, view, seat_ids):
        guess, bid = np.split(view.action_mask, [CARDS], axis=1)
        return SeatView(
            observation={"obs": np.eye(CARDS, dtype=np.float32)[view.observation["card"]]},
            action_mask=(guess[:, :, None] & bid[:, None, :]).reshape(len(seat_ids), -1),
            reward=2 * view.reward,
        )

    def act(self, action, seat_ids):
        return np.concatenate(divmod(action, 2), axis=1)


class Count(Identity):
    """Adds a leaf with the number of earlier observations of the seat."""

    def __init__(self):
        self.observed = {}

    def bind(self, raw):
        return Spaces(spaces.Dict({**leaf_spaces(raw.observation), "count": spaces.Discrete(1000)}), raw.action)

    def reset(self, seat_ids):
        for seat_id in seat_ids.tolist():
            self.observed[seat_id] = 0

    def observe(self, view, seat_ids):
        count = np.array([self.observed.get(seat_id, 0) for seat_id in seat_ids.tolist()])
        self.observed.update(zip(seat_ids.tolist(), (count + 1).tolist(), strict=True))
        return attrs.evolve(view, observation={**view.observation, "count": count})


class Rule:
    """An agent that computes its action from its observation by a function."""

    def __init__(self, rule):
        self.rule, self.forgotten = rule, []

    def act(self, observation, *, action_mask, seat_ids, rng):
        return np.asarray(self.rule(observation, action_mask), np.int64)

    def reset(self, seat_ids):
        self.forgotten.extend(seat_ids.tolist())


def play(environment, agents, seeds):
    """Play all matches to the end, agent k in seat k; return the summed rewards ``[B, S]``."""
    rng = np.random.default_rng(0)
    tick = environment.reset(np.asarray(seeds, np.uint64))
    width = action_labels(environment)
    total = np.zeros(tick.roles["player"].acting.shape)
    for agent in agents:
        agent.reset(np.arange(total.size))
    while tick.roles["player"].acting.any():
        role = tick.roles["player"]
        actions = np.zeros((*total.shape, width), np.int64)
        for seat, agent in enumerate(agents):
            rows = np.flatnonzero(role.acting[:, seat])
            observation = {name: leaf[rows, seat] for name, leaf in role.observation.items()}
            seat_ids = rows * total.shape[1] + seat
            actions[rows, seat] = agent.act(
                observation, action_mask=role.action_mask[rows, seat], seat_ids=seat_ids, rng=rng
            )
        tick = environment.step({"player": actions})
        total += tick.roles["player"].reward
    return total


def action_labels(environment):
    """Return the number of action labels of the player."""
    space = environment.spec.role("player").action_space
    return 1 if isinstance(space, spaces.Discrete) else len(space.nvec)


# -- on environment and agent [Arena §2.4.2] -----------------------------------------------------------------------


def test_agents_with_different_spaces_play_in_one_environment():
    """One agent observes a number and has 3 choices, the other a one-hot vector and 6 choices."""
    game = Cards(2)
    role = game.spec.role("player")
    raw = Spaces(role.observation_space, role.action_space)
    guesser = wrap_agent(Rule(lambda obs, mask: obs["obs"][:, None]), CardOnly(), raw=raw)
    bidder = wrap_agent(Rule(lambda obs, mask: 2 * obs["obs"].argmax(1)[:, None] + mask[:, [1]]), OneLabel(), raw=raw)
    total = play(game, [guesser, bidder], [0, 1])
    assert total.tolist() == [[-2, 2], [-2, 2]]  # both always right; the bidder earns one more on the two odd ticks


@pytest.mark.parametrize("interface", [CardOnly, OneLabel])
def test_wrap_environment_and_wrap_agent_agree(interface):
    """The same decisions give the same raw match."""
    wrapped, raw = Cards(3), Cards(3)
    rule = Rule(lambda obs, mask: (mask * (1 + (np.arange(mask.shape[1]) + obs["obs"].size) % 4)).argmax(1)[:, None])
    observed = wrap_environment(wrapped, {"player": interface()})
    role = raw.spec.role("player")
    agents = [wrap_agent(rule, interface(), raw=Spaces(role.observation_space, role.action_space)) for _ in range(2)]
    play(observed, [rule, rule], [0, 1, 2])
    play(raw, agents, [0, 1, 2])
    assert [a.tolist() for a in wrapped.seen_actions] == [a.tolist() for a in raw.seen_actions]


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("interface", [CardOnly, OneLabel, Count, stack])
def test_wrapped_environments_satisfy_the_contract(turns, interface):
    """With any interface, with and without turns."""
    check_environment(lambda n: wrap_environment(Cards(n, turns=turns), {"player": interface()}), steps=25)


def test_wrapped_environments_transform_spaces_masks_and_rewards():
    """Privileged leaves do not change."""
    game = wrap_environment(Cards(1), {"player": OneLabel()})
    game.reset(np.array([0], np.uint64))
    game.step({"player": np.zeros((1, 2, 1), np.int64)})
    tick = game.step({"player": np.array([[[3], [0]]])})  # card 1 is right, with a bid on the odd tick
    role = tick.roles["player"]
    assert role.reward.tolist() == [[4, -4]]
    assert role.observation["obs"][0, 0].tolist() == [0, 0, 1]
    assert role.action_mask[0, 0].tolist() == [True, False] * 3
    assert role.privileged["secret"].tolist() == [[[0.25], [0.25]]]


def test_wrapped_specs_claim_no_zero_sum_and_no_reward_range():
    """An interface may change rewards."""
    assert wrap_environment(Cards(), {}).spec.zero_sum
    spec = wrap_environment(Cards(), {"player": CardOnly()}).spec
    assert (spec.zero_sum, spec.reward_range, spec.perfect_information) == (False, None, False)


def test_rewards_of_a_waiting_seat_are_summed_until_it_acts():
    """The interface gets their sum."""
    raw, wrapped = Cards(1, turns=True), wrap_environment(Cards(1, turns=True), {"player": Identity()})
    right = Rule(lambda obs, mask: np.stack([obs["card"], 0 * obs["card"]], axis=1))
    wrong = Rule(lambda obs, mask: np.stack([(obs["card"] + 1) % CARDS, 0 * obs["card"]], axis=1))
    assert play(raw, [right, wrong], [0]).tolist() == play(wrapped, [right, wrong], [0]).tolist() == [[2, -2]]


def test_a_reset_drops_pending_rewards():
    """Also for the interface."""
    shown = []

    class LoggingInterface(Identity):
        def observe(self, view, seat_ids):
            shown.append(view.reward.tolist())
            return view

    game = wrap_environment(Cards(1, turns=True), {"player": LoggingInterface()})
    game.reset(np.zeros(1, np.uint64))
    first_card = {"player": np.zeros((1, 2, 2), np.int64)}
    game.step(first_card)
    game.step(first_card)  # pays seat 0, which acts next; seat 1 waits and its loss is pending
    game.reset(np.ones(1, np.uint64))
    assert shown == [[0, 0], [0], [1], [0, 0]]
    assert game.step(first_card).roles["player"].reward.tolist() == [[0, 0]]


def test_the_first_tick_has_no_reward():
    """Even if the interface adds rewards."""

    class Bonus(Identity):
        def observe(self, view, seat_ids):
            return attrs.evolve(view, reward=view.reward + np.float32(1))

    game = wrap_environment(Cards(1), {"player": Bonus()})
    assert game.reset(np.zeros(1, np.uint64)).roles["player"].reward.tolist() == [[0, 0]]
    assert game.step({"player": np.ones((1, 2, 2), np.int64) * [2, 0]}).roles["player"].reward.tolist() == [[1, 1]]


def test_stateful_interfaces_count_decisions_not_ticks():
    """On an environment as on an agent."""
    game = wrap_environment(Cards(1, turns=True), {"player": Count()})
    tick = game.reset(np.array([0], np.uint64))
    counts = []
    while tick.roles["player"].acting.any():
        seat = int(tick.roles["player"].acting[0].argmax())
        counts.append((seat, int(tick.roles["player"].observation["count"][0, seat])))
        tick = game.step({"player": np.zeros((1, 2, 2), np.int64)})
    assert counts == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert tick.roles["player"].observation["count"].tolist() == [[2, 2]]  # all seats observe the end


def test_resetting_one_match_keeps_the_state_of_the_others():
    """States of matches are separate."""
    game = wrap_environment(Cards(2), {"player": Count()})
    game.reset(np.zeros(2, np.uint64))
    game.step({"player": np.zeros((2, 2, 2), np.int64)})
    tick = game.reset(np.zeros(1, np.uint64), indices=np.array([1]))
    assert tick.roles["player"].observation["count"].tolist() == [[1, 1], [0, 0]]


def test_interface_for_an_unknown_role_is_an_error():
    """The message lists the roles."""
    with pytest.raises(ContractError, match=r"no role 'cat'.*it has player"):
        _ = wrap_environment(Cards(), {"cat": Identity()}).spec


def test_spaces_may_be_known_only_after_the_first_reset():
    """The spec can be read after the reset."""
    game = wrap_environment(wrap_environment(Cards(1, late_spec=True), {"player": Count()}), {"player": CardOnly()})
    game.reset(np.zeros(1, np.uint64))
    assert game.spec.role("player").observation_space == spaces.Discrete(CARDS)


def test_close_closes_the_wrapped_environment():
    """Once."""
    closed = []
    game = Cards()
    game.close = lambda: closed.append(1)
    wrap_environment(game, {}).close()
    assert closed == [1]


# -- playing through an interface ----------------------------------------------------------------------------------


def test_wrapped_environments_are_playable_if_the_environment_is():
    """Rendering is delegated."""
    assert not isinstance(wrap_environment(Cards(), {}), Playable)
    game = wrap_environment(PlayableCards(), {"player": OneLabel()})
    game.reset(np.array([2], np.uint64))
    assert game.render(0) == "card 2"


def test_frames_are_those_of_the_wrapped_environment():
    """A frame passes through two wrappers; text stands for it in a playable environment."""

    class DrawnCards(Cards):
        def render_frame(self, match):
            return np.full((2, 2, 3), self.card()[match], np.uint8)

    game = wrap_environment(wrap_environment(DrawnCards(), {"player": OneLabel()}), {})
    game.reset(np.array([2], np.uint64))
    assert draw_match(game, 0).tolist() == np.full((2, 2, 3), 2).tolist()
    game = wrap_environment(PlayableCards(), {"player": OneLabel()})
    game.reset(np.array([2], np.uint64))
    assert draw_match(game, 0) == "card 2"
    assert draw_match(wrap_environment(Cards(), {}), 0) is None


def test_typed_actions_are_found_among_transformed_actions():
    """Names are those of raw actions."""
    game = wrap_environment(PlayableCards(), {"player": OneLabel()})
    assert game.action_name("player", np.array([5])) == "2!"
    assert game.parse_action("player", "2!").tolist() == [5]
    plain = wrap_environment(PlayableCards(), {})
    assert plain.parse_action("player", plain.action_name("player", np.array([1, 1]))).tolist() == [1, 1]


def test_unchanged_actions_can_be_typed_without_a_search(monkeypatch):
    """For any number of actions."""
    monkeypatch.setattr("ludus_interfaces.environment._MAX_SEARCHED_ACTIONS", 0)
    game = wrap_environment(PlayableCards(), {"player": Identity()})
    assert game.parse_action("player", game.action_name("player", np.array([1, 1]))).tolist() == [1, 1]
    with pytest.raises(ValueError, match="play the environment without it"):
        wrap_environment(PlayableCards(), {"player": OneLabel()}).parse_action("player", "2!")


def test_typing_an_impossible_action_is_an_error():
    """The interface never bids."""
    game = wrap_environment(PlayableCards(), {"player": CardOnly()})
    with pytest.raises(ValueError, match="is not possible through this interface"):
        game.parse_action("player", "1!")


def test_continuous_actions_cannot_be_typed():
    """The message suggests to play without the interface."""

    class Real(Identity):
        def bind(self, raw):
            return Spaces(raw.observation, spaces.Box(0, 1, (1,)))

    game = wrap_environment(PlayableCards(), {"player": Real()})
    with pytest.raises(ValueError, match="play the environment without it"):
        game.parse_action("player", "1")


# -- Gymnasium wrappers below [Arena §2.4.4] -----------------------------------------------------------------------


class Single(gymnasium.Env):
    """A Gymnasium environment: the observation is a 2 by 2 image of the tick."""

    observation_space = spaces.Box(0, 10, (2, 2), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.tick = int(seed)
        return np.full((2, 2), self.tick, np.float32), {}

    def step(self, action):
        self.tick += int(action)
        return np.full((2, 2), self.tick, np.float32), 1.0, self.tick >= 3, False, {}


class FromGymnasium:
    """A minimal adapter: one match of one Gymnasium environment."""

    num_matches = 1

    def __init__(self, env):
        self.env = env
        role = Role(name="player", observation_space=env.observation_space, action_space=env.action_space, teams=(0,))
        self.spec = EnvironmentSpec(name="gym", roles=(role,), turn="simultaneous")

    def reset(self, seeds, *, indices=None, scenarios=None):
        return self.show(self.env.reset(seed=int(seeds[0]))[0], 0.0, terminated=False)

    def step(self, actions):
        obs, reward, terminated, _, _ = self.env.step(actions["player"][0, 0, 0])
        return self.show(obs, reward, terminated=terminated)

    def show(self, obs, reward, *, terminated):
        player = RoleTick(
            observation={"obs": obs[None, None]},
            acting=np.array([[not terminated]]),
            action_mask=None,
            reward=np.array([[reward]], np.float32),
        )
        ended = np.array([terminated])
        return Tick(
            roles={"player": player}, terminated=ended, truncated=np.zeros(1, bool), outcome=np.ones((1, 1), np.float32)
        )

    def close(self):
        self.env.close()


def test_interfaces_combine_with_gymnasium_wrappers():
    """Both transforms apply, the wrapper first."""
    env1 = gymnasium.wrappers.FlattenObservation(Single())

    class Last(Identity):
        def bind(self, raw):
            return Spaces(spaces.Box(raw.observation.low[-1:], raw.observation.high[-1:]), raw.action)

        def observe(self, view, seat_ids):
            return attrs.evolve(view, observation={"obs": view.observation["obs"][:, -1:]})

    env2 = wrap_environment(FromGymnasium(env1), {"player": Last()})
    assert env2.spec.role("player").observation_space.shape == (1,)
    env2.reset(np.array([1], np.uint64))
    tick = env2.step({"player": np.array([[[1]]])})
    assert tick.roles["player"].observation["obs"].tolist() == [[[2.0]]]
