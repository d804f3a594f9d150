"""Random rollouts with which `check_run` tests an environment and its agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ludus.spaces import action_width, label_sizes, leaf_spaces
from ludus.testing._rollout import Rollout, SeededActions, TickCheck

if TYPE_CHECKING:
    from ludus.environment import Environment, Role

__all__ = ["MAX_TICKS", "NUM_MATCHES", "describe_spaces", "start_rollout"]

NUM_MATCHES = 8
MAX_TICKS = 1000


def start_rollout(environment: Environment, seed: int, check: TickCheck | None = None) -> Rollout:
    """Start a rollout with random legal actions."""
    choose = SeededActions(spec=environment.spec)
    return Rollout(environment=environment, seed=seed, sequences=range(NUM_MATCHES), choose=choose, check=check)


def describe_spaces(role: Role) -> str:
    """Return observation leaves and actions of a role as text."""
    leaves = ", ".join(
        f"{name} {list(leaf.shape or ())} {leaf.dtype}" for name, leaf in leaf_spaces(role.observation_space).items()
    )
    labels = label_sizes(role.action_space)
    actions = " by ".join(map(str, labels)) if labels else f"{action_width(role.action_space)} real numbers"
    return f"observes {leaves}; actions: {actions}"
