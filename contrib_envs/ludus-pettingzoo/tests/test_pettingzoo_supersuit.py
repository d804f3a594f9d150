"""The pipeline of SuperSuit for Boxing from images, and the same from options and interfaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ludus.installed import open_game
from ludus_pettingzoo.environment import make_pettingzoo

BOXING = {"id": "atari/boxing_v2", "options": {"max_cycles": 400}, "frame_skip": 4, "max_frames": 2}
INTERFACES = [
    {"name": "grey", "weights": (0.0, 0.0, 1.0)},
    {"name": "resize", "height": 42, "width": 42, "method": "nearest"},
    {"name": "frame-stack", "leaves": ("obs",), "padding": "zeros"},
    "label-channels",
]


def test_boxing_is_preprocessed_as_by_supersuit():
    """Observations, rewards and the end are equal on every decision of a match."""
    supersuit: Any = pytest.importorskip("supersuit")
    pytest.importorskip("multi_agent_ale_py")
    theirs = make_pettingzoo(BOXING["id"], BOXING["options"], api="parallel")
    theirs = supersuit.frame_skip_v0(supersuit.max_observation_v0(theirs, 2), 4)
    theirs = supersuit.resize_v1(supersuit.color_reduction_v0(theirs, "B"), 42, 42, linear_interp=False)
    theirs = supersuit.agent_indicator_v0(supersuit.frame_stack_v1(theirs, 4))
    numbered = {"game": "pettingzoo", "options": BOXING}
    options = {"game": "agent-indicator", "options": numbered, "interfaces": {"player": INTERFACES}}
    ours = open_game("with-interfaces", options={"with-interfaces": options}).make_environment(1)
    seen, _ = theirs.reset(seed=1)
    tick = ours.reset(np.array([1], np.uint64))
    rng, decisions = np.random.default_rng(0), 0
    while theirs.agents:
        for seat, agent in enumerate(theirs.possible_agents):
            assert (tick.roles["player"].observation["obs"][0, seat] == seen[agent]).all()
        actions = rng.integers(18, size=(1, 2, 1))
        tick = ours.step({"player": actions})
        seen, rewards, *_ = theirs.step(dict(zip(theirs.possible_agents, actions.ravel().tolist(), strict=True)))
        assert tick.roles["player"].reward[0].tolist() == list(rewards.values())
        decisions += 1
    assert decisions == 100
    assert tick.truncated.all()
