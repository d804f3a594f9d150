"""Live actors record decisions, other actors do not, and all keep recurrent states by seat."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from ludus._sampling.actors import AgentActor, LiveActor, PolicyActor, PolicyAgent, any_action_if_unknown
from ludus._sampling.match_engine import MatchEngine
from ludus._sampling.recorder import Recorder
from ludus._sampling.segment_layout import SegmentLayout
from ludus.algorithm import Decision
from ludus.environment import Role
from ludus.errors import ContractError
from ludus.interface import Identity, SeatView
from ludus.segment import Field

ROLE = Role(
    name="player",
    observation_space=spaces.Box(0, 1e9, (2,), np.float32),
    action_space=spaces.Discrete(4),
    teams=(0, 1),
)


class CountingPolicy:
    """A policy whose recurrent state counts its decisions of a match, and whose action is that count."""

    def __init__(self):
        self.value = 0.5
        self.masks = []

    def initial_state(self, rows):
        return {"count": np.zeros((rows, 1), np.float32)}

    def act(self, inputs, *, rng, deterministic=False):
        count = inputs.state["count"]
        self.masks.append(inputs.action_mask)
        self.deterministic = deterministic
        value = np.full(len(count), self.value, np.float32)
        action = count.astype(np.int64) % 4
        return Decision(action=action, extras={"value": value}, state={"count": count + 1})

    def load(self, weights):
        self.value = float(weights["value"])


class DoublingInterface(Identity):
    """Doubles rewards, reverses actions, and logs resets."""

    def __init__(self):
        self.resets = []

    def reset(self, seat_ids):
        self.resets += seat_ids.tolist()

    def observe(self, view, seat_ids):
        return SeatView(observation=view.observation, action_mask=view.action_mask, reward=2 * view.reward)

    def act(self, action, seat_ids):
        return 3 - action


def make_live(*, rows=2, decisions=4, interface=None, fields=()):
    """Return a live actor with a counting policy."""
    policy, fields = CountingPolicy(), (Field("value"), *fields)
    layout = SegmentLayout.for_role(ROLE, fields=fields, decisions=decisions, state=policy.initial_state(1))
    actor = LiveActor(
        player="main",
        policy=policy,
        interface=interface,
        recorder=Recorder(layout, rows * 2),
        rng=np.random.default_rng(0),
        num_seats=rows * 2,
    )
    actor.load({"value": np.array(0.25)}, 3)
    return actor


def play(game, fixture, actors):
    """Play a fixture to its end."""
    made = MatchEngine(
        environment=game,
        resolve=lambda fixture, seat: (actors[fixture.participants[seat]], 0),
        on_results=lambda arrays: None,
    )
    made.add_fixture(fixture)
    while made.step():
        pass


def segments(actor):
    """Return all segments of an actor, unfinished ones included."""
    return [*actor.blocks, actor.recorder.flush()]


def test_self_play_records_both_seats(scripted, fixture_of):
    """Each seat has its own states, rewards and version."""
    actor = make_live(rows=1)
    game = scripted({"player": (0, 1)}, 1, reward=lambda now, role, seat: 1.0 if seat else -1.0)
    play(game, fixture_of("aa", matches=1), {"a": actor})
    (batch,) = segments(actor)
    assert batch.length.tolist() == [3, 3]
    assert batch.action[:3, :, 0].T.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert sorted(batch.reward[:3].sum(axis=0).tolist()) == [-3.0, 3.0]
    assert batch.version.tolist() == [3, 3]
    assert (batch.extras["value"][:3] == 0.25).all()


@pytest.mark.parametrize("seats", ["brrrr", "rbrrr", "rrrrb"])
def test_numbers_of_seats_are_recorded(scripted, fixture_of, seats):
    """Within the role, for every decision; the live actor has one of them."""
    live = make_live(rows=3, fields=(Field("seat", dtype="int32", source="seat"),))
    frozen = make_live(rows=3).without_recording()
    play(scripted({"cat": (0,), "player": (1, 1, 1, 1)}, 1), fixture_of(seats, matches=1), {"b": live, "r": frozen})
    (batch,) = segments(live)
    expected = max(0, seats.index("b") - 1)  # the cat's only seat is 0 too
    assert batch.length.tolist() == [3]
    assert batch.extras["seat"][:3, 0].tolist() == [expected] * 3
    assert batch.extras["seat"].dtype == np.int32


def test_an_unrecorded_live_opponent_has_its_own_states(scripted, fixture_of):
    """Its actions pass the interface, and nothing is recorded."""
    acted = []

    class LoggingPolicyActor(PolicyActor):
        def act(self, seats, rewards):
            acted.append(super().act(seats, rewards))
            return acted[-1]

    actor = make_live(rows=1, interface=DoublingInterface())
    opponent = LoggingPolicyActor(
        **attrs.asdict(actor.without_recording(), recurse=False, filter=lambda field, _: field.init)
    )
    play(scripted({"player": (0, 1)}, 1), fixture_of("ab", matches=1), {"a": actor, "b": opponent})
    (batch,) = segments(actor)
    assert batch.length.tolist() == [3]
    assert batch.action[:3, 0, 0].tolist() == [0, 1, 2]
    assert np.concatenate(acted)[:, 0].tolist() == [3, 2, 1]


@pytest.mark.parametrize("decider", ["live", "frozen", "policy"])
def test_invalid_actions_name_the_object_that_returned_them(scripted, fixture_of, decider):
    """The interface, or the policy if there is none."""

    class Flat(Identity):
        def act(self, action, seat_ids):
            return action[:, 0]

    class FlatCounting(CountingPolicy):
        def act(self, inputs, **options):
            decision = super().act(inputs, **options)
            return attrs.evolve(decision, action=decision.action[:, 0])

    policy, interface = (FlatCounting(), None) if decider == "policy" else (CountingPolicy(), Flat())
    frozen = AgentActor(PolicyAgent(policy, 4, interface=interface), np.random.default_rng(0))
    actor = make_live(rows=2, interface=interface) if decider == "live" else frozen
    name = "FlatCounting" if decider == "policy" else "Flat"
    with pytest.raises(ContractError, match=rf"\.{name} returned an array int64\[4\] as actions of role 'player'"):
        play(scripted({"player": (0, 1)}, 2), fixture_of("aa"), {"a": actor})


def test_frozen_opponents_are_not_recorded(scripted, fixture_of):
    """Only the live seat has a segment."""
    actor = make_live(rows=2)
    frozen = AgentActor(PolicyAgent(CountingPolicy(), 4), np.random.default_rng(0))
    play(scripted({"player": (0, 1)}, 2), fixture_of("ab", matches=4), {"a": actor, "b": frozen})
    assert sum(batch.num_decisions for batch in segments(actor)) == 4 * 3


def test_recurrent_states_are_reset_at_the_start_of_a_match(scripted, fixture_of):
    """Within a match they are carried from decision to decision, in live and frozen seats."""
    actor, frozen = (
        make_live(rows=1, decisions=2),
        AgentActor(PolicyAgent(CountingPolicy(), 2), np.random.default_rng(0)),
    )
    game = scripted({"player": (0, 1)}, 1)
    play(game, fixture_of("ab", matches=2), {"a": actor, "b": frozen})
    assert [actions["player"][0, :, 0].tolist() for actions in game.received] == [[0, 0], [1, 1], [2, 2]] * 2
    states = [batch.initial_state["count"][:, 0].tolist() for batch in segments(actor)]
    assert states == [[0.0], [2.0], [1.0]]


def test_truncated_matches_record_their_final_observation(scripted, fixture_of):
    """All actions are legal if the environment leaves no choice."""
    actor = make_live(rows=1, decisions=8)
    game = scripted({"player": (0, 1)}, 1, truncated=True, masked=3)
    play(game, fixture_of("ab", matches=1), {"a": actor, "b": make_live(rows=1)})
    (batch,) = segments(actor)
    assert batch.observation["obs"][:4, 0, 1].tolist() == [0, 1, 2, 3]
    assert batch.decided[:4, 0].tolist() == [True, True, True, False]
    assert batch.truncated[2, 0]
    assert actor.policy.masks[-1].all()


def test_without_masks_all_actions_of_a_final_observation_are_legal(scripted, fixture_of):
    """In the middle of a segment and at its end."""
    actor = make_live(rows=1, decisions=8)
    play(scripted({"player": (0, 1)}, 1, truncated=True), fixture_of("aa", matches=3), {"a": actor})
    batches = segments(actor)
    assert sum(int(batch.truncated.sum()) for batch in batches) == 3 * 2
    for batch in batches:
        assert batch.action_mask[np.arange(9)[:, None] <= batch.length].all()


@pytest.mark.parametrize("interface", [None, DoublingInterface()])
def test_final_observations_keep_the_mask_of_the_environment(scripted, fixture_of, interface):
    """Behind the interface; all actions are legal if the environment does not know."""
    shown = np.array([[[True, True, False, False], [False] * 4]])
    observed = shown[..., ::-1] if interface else shown

    class Reversed(DoublingInterface):
        def observe(self, view, seat_ids):
            return attrs.evolve(super().observe(view, seat_ids), action_mask=view.action_mask[:, ::-1])

    class Masked(scripted):
        def _tick(self, ended, *, stepped):
            tick = super()._tick(ended, stepped=stepped)
            tick.roles["player"].action_mask = shown if ended.any() else np.ones((1, 2, 4), bool)
            return tick

    actor = make_live(rows=1, decisions=8, interface=interface and Reversed())
    play(Masked({"player": (0, 1)}, 1, truncated=True), fixture_of("aa", matches=1), {"a": actor})
    (batch,) = segments(actor)
    assert batch.decided[:4, 0].tolist() == [True, True, True, False]
    assert batch.action_mask[3].tolist() == [observed[0, 0].tolist(), [True] * 4]
    assert batch.action_mask[:3].all()


def test_all_actions_are_legal_if_a_label_has_no_choice():
    """The legal ones are unknown then."""
    mask = np.array([[1, 0, 0, 0, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1]], bool)
    known = np.array([[1, 0, 0, 0, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
    assert (any_action_if_unknown(mask, (2, 3)) == known).all()


def test_actors_apply_the_interface(scripted, fixture_of):
    """Rewards and actions of live seats, actions of frozen ones; segments record the chosen actions."""
    actor, frozen_interface = make_live(rows=1, interface=DoublingInterface()), DoublingInterface()
    frozen = AgentActor(PolicyAgent(CountingPolicy(), 2, interface=frozen_interface), np.random.default_rng(0))
    game = scripted({"player": (0, 1)}, 1, reward=lambda now, role, seat: 1.0)
    play(game, fixture_of("ab", matches=1), {"a": actor, "b": frozen})
    assert [actions["player"][0, :, 0].tolist() for actions in game.received] == [[3, 3], [2, 2], [1, 1]]
    (batch,) = segments(actor)
    assert batch.action[:3, 0, 0].tolist() == [0, 1, 2]
    assert batch.reward[:3, 0].tolist() == [2, 2, 2]
    assert (actor.interface.resets, frozen_interface.resets) == ([0], [1])


@pytest.mark.parametrize("kind", ["policy", "interface"])
def test_values_that_are_not_finite_are_rejected(scripted, fixture_of, kind):
    """The error names the player, the array and its source."""

    class Spoiled(DoublingInterface):
        def observe(self, view, seat_ids):
            return attrs.evolve(view, observation={"obs": view.observation["obs"] + np.inf})

    actor = make_live(rows=1, interface=Spoiled() if kind == "interface" else None)
    game = scripted({"player": (0, 1)}, 1)
    if kind == "policy":
        actor.load({"value": np.array(np.nan)}, 4)
    array, source = {
        "policy": ("extras/value", "the policy"),
        "interface": ("observation/obs", "the environment or an interface"),
    }[kind]
    with pytest.raises(ContractError, match=f"player 'main': {array} holds a value that is not finite, from {source}"):
        play(game, fixture_of("ab", matches=1), {"a": actor, "b": make_live(rows=1)})


@pytest.mark.parametrize("good", [1, 2])
def test_invalid_rewards_of_an_interface_are_rejected(scripted, fixture_of, good):
    """In the middle of a match and at its end."""

    class Spoiled(DoublingInterface):
        def observe(self, view, seat_ids):
            self.observed = getattr(self, "observed", 0) + 1
            return attrs.evolve(view, reward=view.reward * (np.nan if self.observed > good else 1))

    actor = make_live(rows=1, interface=Spoiled())
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 2)
    with pytest.raises(ContractError, match=r"player 'main': reward holds .* is not finite, from an interface"):
        play(game, fixture_of("ab", matches=1), {"a": actor, "b": make_live(rows=1)})


def test_policy_agents_can_be_deterministic():
    """For play and evaluation."""
    agent = PolicyAgent(CountingPolicy(), 2, deterministic=True)
    agent.act({"obs": np.zeros((1, 2), np.float32)}, action_mask=None, seat_ids=np.array([1]), rng=None)
    assert agent.policy.deterministic
