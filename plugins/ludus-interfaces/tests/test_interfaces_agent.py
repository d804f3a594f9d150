"""Wrapped agents play the raw environment through an interface."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.agent import EvaluatingAgent
from ludus.interface import Identity, SeatView, Spaces, wrap_agent

CARDS = 3
RAW = Spaces(
    spaces.Dict({"card": spaces.Discrete(CARDS), "tick": spaces.Box(0, 4, (2,))}), spaces.MultiDiscrete([CARDS, 2])
)


class CardOnly(Identity):
    """Observes the card as one number, and chooses the guess only."""

    def bind(self, raw):
        assert raw == RAW
        return Spaces(spaces.Discrete(CARDS), spaces.Discrete(CARDS))

    def observe(self, view, seat_ids):
        mask = None if view.action_mask is None else view.action_mask[:, :CARDS]
        return SeatView(observation={"obs": view.observation["card"]}, action_mask=mask, reward=view.reward)

    def act(self, action, seat_ids):
        return np.concatenate([action, np.zeros_like(action)], axis=1)


class Count(Identity):
    """Observes how often the seat was observed before."""

    def __init__(self):
        self.seen = {}

    def reset(self, seat_ids):
        self.seen |= dict.fromkeys(seat_ids.tolist(), 0)

    def observe(self, view, seat_ids):
        count = np.array([self.seen.get(seat_id, 0) for seat_id in seat_ids.tolist()])
        self.seen |= dict(zip(seat_ids.tolist(), (count + 1).tolist(), strict=True))
        return SeatView(observation={"count": count}, action_mask=None, reward=view.reward)


class Rule:
    """An agent that computes its action from its observation by a function."""

    def __init__(self, rule):
        self.rule, self.resets = rule, []

    def reset(self, seat_ids):
        self.resets += seat_ids.tolist()

    def act(self, observation, *, action_mask, seat_ids, rng):
        return self.rule(observation, action_mask)


class EvaluatingRule(Rule):
    """An evaluating agent whose value is ten times its observation."""

    def act_and_evaluate(self, observation, *, action_mask, seat_ids, rng):
        return self.rule(observation, action_mask), 10 * observation["obs"]


def test_wrap_agent_transforms_observations_and_actions():
    """The mask is transformed too."""
    shown = []
    rule = Rule(lambda obs, mask: shown.append((obs, mask.tolist())) or obs["obs"][:, None])
    interface = CardOnly()
    agent = wrap_agent(rule, interface, raw=RAW)
    mask = np.array([[True, False, True, True, False]])
    raw = {"card": np.array([2]), "tick": np.zeros((1, 2))}
    action = agent.act(raw, action_mask=mask, seat_ids=np.zeros(1, np.int64), rng=np.random.default_rng(0))
    assert action.tolist() == [[2, 0]]
    assert shown == [({"obs": 2}, [[True, False, True]])]


def test_wrap_agent_resets_interface_and_agent():
    """At the start of a match."""
    count, agent = Count(), Rule(lambda obs, mask: obs["count"][:, None])
    through = wrap_agent(agent, count)
    rng, seat_ids = np.random.default_rng(0), np.array([3])
    decide = lambda: through.act({}, action_mask=None, seat_ids=seat_ids, rng=rng).item()  # noqa: E731
    assert [decide(), decide()] == [0, 1]
    through.reset(seat_ids)
    assert decide() == 0
    assert agent.resets == [3]


def test_wrap_agent_keeps_values():
    """They are NaN if the agent does not evaluate."""
    observation, seat_ids = {"obs": np.array([3, 4], np.float32)}, np.arange(2)
    more = {"action_mask": None, "seat_ids": seat_ids, "rng": np.random.default_rng(0)}
    through = wrap_agent(EvaluatingRule(lambda obs, mask: obs["obs"][:, None]), Identity())
    assert isinstance(through, EvaluatingAgent)
    actions, values = through.act_and_evaluate(observation, **more)
    assert (actions.tolist(), values.tolist()) == ([[3], [4]], [30, 40])
    silent = wrap_agent(Rule(lambda obs, mask: obs["obs"][:, None]), Identity())
    actions, values = silent.act_and_evaluate(observation, **more)
    assert (actions.tolist(), np.isnan(values).all()) == ([[3], [4]], True)
