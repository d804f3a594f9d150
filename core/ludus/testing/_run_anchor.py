"""Check the anchors of a run: every agent decides once for each role that it can play."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ludus._run.factories import make_agent
from ludus._seeding import generator
from ludus.errors import ContractError, LudusError
from ludus.spaces import action_width, is_continuous, legal_actions
from ludus.testing._run_rollout import MAX_TICKS, start_rollout

if TYPE_CHECKING:
    from ludus._config.sections import AnchorConfig
    from ludus.agent import Agent
    from ludus.environment import Environment, Role, RoleTick

__all__ = ["check_agent", "check_anchor"]


def check_anchor(anchor: AnchorConfig, environment: Environment, seed: int) -> Iterator[str]:
    """Check the agent of an anchor for every role that it can play, and yield a line about it.

    Raises:
        LudusError: The agent plays no role, or breaks its contract.
    """
    refusals = []
    roles = []
    for role in environment.spec.roles:
        try:
            agent = make_agent(anchor.agent, environment.spec, role.name)
        except LudusError as error:
            refusals.append(error)
            continue
        check_agent(agent, role, environment, seed)
        roles.append(role.name)
    if not roles:
        raise refusals[0]
    yield f"agent {anchor.agent.name} plays {', '.join(roles)}"


def check_agent(agent: Agent, role: Role, environment: Environment, seed: int) -> None:
    """Check the actions of an agent on the first tick on which its role acts.

    Raises:
        ContractError: The role never acts, or the actions are invalid.
    """
    tick = _first_acting_tick(role, environment, seed)
    matches, seats = np.nonzero(tick.acting)
    mask = None if tick.action_mask is None else tick.action_mask[matches, seats].copy()
    seat_ids = matches * role.num_seats + seats
    agent.reset(seat_ids)
    action = agent.act(
        {name: leaf[matches, seats] for name, leaf in tick.observation.items()},
        action_mask=mask,
        seat_ids=seat_ids,
        rng=generator(seed, "check", "agent"),
    )
    if not isinstance(action, np.ndarray):
        raise ContractError(f"as {role.name} it returned {action!r:.200}, expected an array of actions")
    shape = (matches.size, action_width(role.action_space))
    if action.shape != shape or is_continuous(role.action_space) != (action.dtype.kind == "f"):
        raise ContractError(f"as {role.name} it returned {action.dtype} {action.shape}, expected actions {shape}")
    if not legal_actions(role.action_space, action, mask).all():
        raise ContractError(f"as {role.name} it chose an illegal action")


def _first_acting_tick(role: Role, environment: Environment, seed: int) -> RoleTick:
    rollout = start_rollout(environment, seed)
    for _ in range(MAX_TICKS):
        if rollout.tick.roles[role.name].acting.any():
            return rollout.tick.roles[role.name]
        rollout.step()
    raise ContractError(f"role {role.name} does not act in {MAX_TICKS} ticks")
