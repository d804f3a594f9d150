"""What sits in the seats: live policies that are recorded, frozen ones that are not, and their recurrent state."""

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


class Counting:
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


class Double(Identity):
    """Doubles rewards, reverses actions, and remembers which streams it forgot."""

    def __init__(self):
        self.forgotten = []

    def reset(self, seat_ids):
        self.forgotten += seat_ids.tolist()

    def observe(self, view, seat_ids):
        return SeatView(observation=view.observation, action_mask=view.action_mask, reward=2 * view.reward)

    def act(self, action, seat_ids):
        return 3 - action


def live(*, rows=2, decisions=4, interface=None):
    """Return a live actor with a counting policy."""
    policy = Counting()
    layout = SegmentLayout.for_role(ROLE, fields=(Field("value"),), decisions=decisions, state=policy.initial_state(1))
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
    """Return all segments of an actor, those under way included."""
    return [*actor.blocks, actor.recorder.flush()]


def test_both_seats_of_a_learner_are_recorded(scripted, fixture_of):
    """Self-play gives two perspectives; each has its own state, rewards and version."""
    actor = live(rows=1)
    game = scripted({"player": (0, 1)}, 1, reward=lambda now, role, seat: 1.0 if seat else -1.0)
    play(game, fixture_of("aa", matches=1), {"a": actor})
    (batch,) = segments(actor)
    assert batch.length.tolist() == [3, 3]
    assert batch.action[:3, :, 0].T.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert sorted(batch.reward[:3].sum(axis=0).tolist()) == [-3.0, 3.0]
    assert batch.version.tolist() == [3, 3]
    assert (batch.extras["value"][:3] == 0.25).all()


def test_a_quiet_opponent_plays_by_the_live_weights_and_leaves_nothing(scripted, fixture_of):
    """Its states are its own, and its actions pass the interface."""
    acted = []

    class Overheard(PolicyActor):
        def act(self, seats, rewards):
            acted.append(super().act(seats, rewards))
            return acted[-1]

    actor = live(rows=1, interface=Double())
    quiet = Overheard(**attrs.asdict(actor.without_recording(), recurse=False, filter=lambda field, _: field.init))
    play(scripted({"player": (0, 1)}, 1), fixture_of("ab", matches=1), {"a": actor, "b": quiet})
    (batch,) = segments(actor)
    assert batch.length.tolist() == [3]
    assert batch.action[:3, 0, 0].tolist() == [0, 1, 2]
    assert np.concatenate(acted)[:, 0].tolist() == [3, 2, 1]


@pytest.mark.parametrize("who", ["live", "frozen", "policy"])
def test_wrong_actions_are_laid_to_whose_they_are(scripted, fixture_of, who):
    """An interface gives the last word, in live and frozen seats; without one it is the policy's."""

    class Flat(Identity):
        def act(self, action, seat_ids):
            return action[:, 0]

    class FlatCounting(Counting):
        def act(self, inputs, **options):
            decision = super().act(inputs, **options)
            return attrs.evolve(decision, action=decision.action[:, 0])

    policy, interface = (FlatCounting(), None) if who == "policy" else (Counting(), Flat())
    frozen = AgentActor(PolicyAgent(policy, 4, interface=interface), np.random.default_rng(0))
    actor = live(rows=2, interface=interface) if who == "live" else frozen
    name = "FlatCounting" if who == "policy" else "Flat"
    with pytest.raises(ContractError, match=rf"\.{name} returned an array int64\[4\] as actions of role 'player'"):
        play(scripted({"player": (0, 1)}, 2), fixture_of("aa"), {"a": actor})


def test_frozen_opponents_are_not_recorded(scripted, fixture_of):
    """Only the live seat leaves a segment."""
    actor = live(rows=2)
    frozen = AgentActor(PolicyAgent(Counting(), 4), np.random.default_rng(0))
    play(scripted({"player": (0, 1)}, 2), fixture_of("ab", matches=4), {"a": actor, "b": frozen})
    assert sum(batch.num_decisions for batch in segments(actor)) == 4 * 3


def test_recurrent_state_starts_anew_with_every_match(scripted, fixture_of):
    """And is carried from decision to decision, in live and frozen seats."""
    actor, frozen = live(rows=1, decisions=2), AgentActor(PolicyAgent(Counting(), 2), np.random.default_rng(0))
    game = scripted({"player": (0, 1)}, 1)
    play(game, fixture_of("ab", matches=2), {"a": actor, "b": frozen})
    assert [actions["player"][0, :, 0].tolist() for actions in game.received] == [[0, 0], [1, 1], [2, 2]] * 2
    states = [batch.initial_state["count"][:, 0].tolist() for batch in segments(actor)]
    assert states == [[0.0], [2.0], [1.0]]


def test_truncated_matches_record_their_final_observation(scripted, fixture_of):
    """With everything legal where the game leaves no choice."""
    actor = live(rows=1, decisions=8)
    game = scripted({"player": (0, 1)}, 1, truncated=True, masked=3)
    play(game, fixture_of("ab", matches=1), {"a": actor, "b": live(rows=1)})
    (batch,) = segments(actor)
    assert batch.observation["obs"][:4, 0, 1].tolist() == [0, 1, 2, 3]
    assert batch.decided[:4, 0].tolist() == [True, True, True, False]
    assert batch.truncated[2, 0]
    assert actor.policy.masks[-1].all()


def test_without_masks_everything_is_legal_in_a_final_observation(scripted, fixture_of):
    """In the middle of a segment as at its end: for who learns from the best of what would be done next."""
    actor = live(rows=1, decisions=8)
    play(scripted({"player": (0, 1)}, 1, truncated=True), fixture_of("aa", matches=3), {"a": actor})
    batches = segments(actor)
    assert sum(int(batch.truncated.sum()) for batch in batches) == 3 * 2
    for batch in batches:
        assert batch.action_mask[np.arange(9)[:, None] <= batch.length].all()


@pytest.mark.parametrize("interface", [None, Double()])
def test_the_mask_of_a_final_observation_is_the_games(scripted, fixture_of, interface):
    """What would be legal if the match went on, as the player sees it; for whom the game does not say: everything."""
    shown = np.array([[[True, True, False, False], [False] * 4]])
    seen = shown[..., ::-1] if interface else shown

    class Reversed(Double):
        def observe(self, view, seat_ids):
            return attrs.evolve(super().observe(view, seat_ids), action_mask=view.action_mask[:, ::-1])

    class Masked(scripted):
        def _tick(self, ended, *, stepped):
            tick = super()._tick(ended, stepped=stepped)
            tick.roles["player"].action_mask = shown if ended.any() else np.ones((1, 2, 4), bool)
            return tick

    actor = live(rows=1, decisions=8, interface=interface and Reversed())
    play(Masked({"player": (0, 1)}, 1, truncated=True), fixture_of("aa", matches=1), {"a": actor})
    (batch,) = segments(actor)
    assert batch.decided[:4, 0].tolist() == [True, True, True, False]
    assert batch.action_mask[3].tolist() == [seen[0, 0].tolist(), [True] * 4]
    assert batch.action_mask[:3].all()


def test_every_label_needs_a_choice_in_a_mask():
    """Else nobody knows what would be legal, and everything is."""
    mask = np.array([[1, 0, 0, 0, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1]], bool)
    known = np.array([[1, 0, 0, 0, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
    assert (any_action_if_unknown(mask, (2, 3)) == known).all()


def test_interfaces_stand_between_the_game_and_a_policy(scripted, fixture_of):
    """Live: rewards and actions pass it, the segment holds what the policy chose. Frozen: actions pass it."""
    actor, passed = live(rows=1, interface=Double()), Double()
    frozen = AgentActor(PolicyAgent(Counting(), 2, interface=passed), np.random.default_rng(0))
    game = scripted({"player": (0, 1)}, 1, reward=lambda now, role, seat: 1.0)
    play(game, fixture_of("ab", matches=1), {"a": actor, "b": frozen})
    assert [actions["player"][0, :, 0].tolist() for actions in game.received] == [[3, 3], [2, 2], [1, 1]]
    (batch,) = segments(actor)
    assert batch.action[:3, 0, 0].tolist() == [0, 1, 2]
    assert batch.reward[:3, 0].tolist() == [2, 2, 2]
    assert (actor.interface.forgotten, passed.forgotten) == ([0], [1])


@pytest.mark.parametrize("kind", ["policy", "interface"])
def test_what_is_not_finite_is_not_recorded(scripted, fixture_of, kind):
    """The line names the player, the array, and who it came from."""

    class Spoiled(Double):
        def observe(self, view, seat_ids):
            return attrs.evolve(view, observation={"obs": view.observation["obs"] + np.inf})

    actor = live(rows=1, interface=Spoiled() if kind == "interface" else None)
    game = scripted({"player": (0, 1)}, 1)
    if kind == "policy":
        actor.load({"value": np.array(np.nan)}, 4)
    array, source = {
        "policy": ("extras/value", "the policy"),
        "interface": ("observation/obs", "the environment or an interface"),
    }[kind]
    with pytest.raises(ContractError, match=f"player 'main': {array} holds a value that is not finite, from {source}"):
        play(game, fixture_of("ab", matches=1), {"a": actor, "b": live(rows=1)})


@pytest.mark.parametrize("good", [1, 2])
def test_a_reward_that_an_interface_spoils_is_not_recorded(scripted, fixture_of, good):
    """In the middle of a match and at its end; the learner would look for the mistake in its own options."""

    class Spoiled(Double):
        def observe(self, view, seat_ids):
            self.seen = getattr(self, "seen", 0) + 1
            return attrs.evolve(view, reward=view.reward * (np.nan if self.seen > good else 1))

    actor = live(rows=1, interface=Spoiled())
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 2)
    with pytest.raises(ContractError, match=r"player 'main': reward holds .* is not finite, from an interface"):
        play(game, fixture_of("ab", matches=1), {"a": actor, "b": live(rows=1)})


def test_a_policy_agent_may_be_deterministic():
    """For play and evaluation."""
    agent = PolicyAgent(Counting(), 2, deterministic=True)
    agent.act({"obs": np.zeros((1, 2), np.float32)}, action_mask=None, seat_ids=np.array([1]), rng=None)
    assert agent.policy.deterministic
