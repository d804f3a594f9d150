"""Check the specification of an environment, without playing a match."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from ludus.environment import EnvironmentSpec, Role
from ludus.errors import ContractError
from ludus.option import name
from ludus.spaces import action_parts, is_continuous, label_sizes, leaf_spaces
from ludus.testing._errors import fail_environment as fail


def check_spec(spec: EnvironmentSpec) -> None:
    """Check names, teams, spaces and limits of a specification.

    Raises:
        ContractError: The specification is invalid.
    """
    if not spec.roles:
        fail(spec, "expected at least one role")
    for role_name, count in Counter(role.name for role in spec.roles).items():
        if count > 1:
            fail(spec, "two roles have the same name", role=role_name)
    teams = {team for role in spec.roles for team in role.teams}
    if teams != set(range(len(teams))):
        fail(spec, f"expected team numbers 0, 1, … without gaps, got {sorted(teams)}")
    for role in spec.roles:
        _check_role(spec, role)
    _check_limits(spec)
    _check_score(spec)
    _check_scenarios(spec)
    _check_builtin_bots(spec)
    if spec.symmetric:
        _check_symmetric(spec)


def _check_role(spec: EnvironmentSpec, role: Role) -> None:
    if not role.teams:
        fail(spec, "expected at least one seat", role=role.name)
    try:
        sizes, observed = label_sizes(role.action_space), leaf_spaces(role.observation_space)
        hidden = leaf_spaces(role.privileged_space)
    except ContractError as error:
        fail(spec, str(error), role=role.name)
    _check_leaves(spec, role, observed, hidden)
    _check_actions(spec, role, sizes)


def _check_actions(spec: EnvironmentSpec, role: Role, sizes: tuple[int, ...]) -> None:
    parts = action_parts(role.action_space)
    for box in parts:
        if isinstance(box, spaces.Box) and (len(box.shape) != 1 or box.dtype != np.float32):
            fail(spec, f"a Box action space is one-dimensional float32, got {box.dtype} {box.shape}", role=role.name)
    if not is_continuous(role.action_space) and (not sizes or min(sizes) < 1):
        fail(spec, f"expected at least one action label with at least one choice, got {sizes}", role=role.name)
    if any(np.any(getattr(part, "start", 0)) for part in parts):
        fail(spec, "choices of an action label are counted from 0, without a start", role=role.name)


def _check_leaves(
    spec: EnvironmentSpec, role: Role, observed: dict[str, Space[Any]], hidden: dict[str, Space[Any]]
) -> None:
    if not observed:
        fail(spec, "the observation space has no leaves", role=role.name)
    if role.privileged_space is not None and not isinstance(role.privileged_space, spaces.Dict):
        fail(spec, "the privileged space must be a Dict space", role=role.name)
    shared = sorted(observed.keys() & hidden.keys())
    if shared:
        fail(spec, f"privileged leaves {shared} are observation leaves too; policies would read them", role=role.name)
    for leaf_name, leaf in (observed | hidden).items():
        if 0 in (leaf.shape or ()):
            fail(
                spec,
                f"leaf {leaf_name!r} holds no number; leave it out or use a constant 0",
                role=role.name,
            )


def _check_limits(spec: EnvironmentSpec) -> None:
    if spec.turn not in ("turn-based", "simultaneous", "asynchronous"):
        fail(spec, f"turn: expected turn-based, simultaneous or asynchronous, got {spec.turn!r}")
    if spec.max_ticks is not None and spec.max_ticks < 1:
        fail(spec, f"max_ticks: expected at least 1 or None, got {spec.max_ticks}")
    if spec.tick_s is not None and not spec.tick_s > 0:
        fail(spec, f"tick_s: expected a positive number of seconds or None, got {spec.tick_s}")
    if spec.reward_range is not None and not spec.reward_range[0] <= spec.reward_range[1]:
        fail(spec, f"reward_range: expected (low, high) with low ≤ high, got {spec.reward_range}")


def _check_score(spec: EnvironmentSpec) -> None:
    if spec.score not in ("outcome", "return"):
        fail(spec, f"score: expected outcome or return, got {spec.score!r}")
    if spec.logs_returns and any("return" in role.statistics for role in spec.roles):
        fail(spec, "statistics: 'return' is the name of the returns that ludus logs itself; expected another name")


def _check_builtin_bots(spec: EnvironmentSpec) -> None:
    for role in spec.roles:
        if len(set(role.builtin)) < len(role.builtin):
            fail(spec, f"the built-in bots {', '.join(role.builtin)} are not all different", role=role.name)


def _check_scenarios(spec: EnvironmentSpec) -> None:
    valid = name()
    for scenario, count in Counter(spec.scenarios).items():
        if not valid.accepts(scenario):
            fail(spec, f"scenario {scenario!r}: expected {valid.expected}")
        if count > 1 or scenario == "default":
            fail(spec, f"scenario {scenario!r} is listed twice (default is always offered)")


def _check_symmetric(spec: EnvironmentSpec) -> None:
    """Check that every team has the same number of seats of every role."""
    for role in spec.roles:
        seats = [role.teams.count(team) for team in range(spec.num_teams)]
        if len(set(seats)) > 1:
            fail(spec, f"symmetric is declared, but the teams have {seats} seats of this role", role=role.name)
