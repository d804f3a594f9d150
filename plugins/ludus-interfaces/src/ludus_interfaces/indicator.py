"""Environments whose seats observe their number."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import attrs
import numpy as np
from attrs import define, field
from gymnasium import Space, spaces
from ludus.environment import Environment, EnvironmentSpec, Playable, Role, RoleTick, Tick
from ludus.errors import ContractError
from ludus.spaces import leaf_spaces

from ludus_interfaces.environment import PlayablePart, Wrapper


def indicate_agents(
    environment: Environment, *, leaf: str = "agent", by: str = "seat", roles: Collection[str] = ()
) -> Environment:
    """Return an environment whose observations have a Discrete leaf with the number of the seat in its role.

    Games that return the same observation to both players, such as the memory of an Atari console, need it. The result
    is `Playable` if the environment is.

    Args:
        environment: Environment; the result owns it.
        leaf: Name of the new leaf.
        by: ``"seat"``, or ``"team"`` for the number of the team.
        roles: Roles that get the leaf; empty: all roles of several seats.

    Raises:
        ContractError: On first use: there is no such role, or it has a leaf of this name.
    """
    kind = _PlayableIndicator if isinstance(environment, Playable) else _Indicator
    return kind(environment, leaf, by, frozenset(roles))


@define
class _Indicator(Wrapper):
    leaf: str
    by: str
    roles: frozenset[str]
    _numbers: dict[str, np.ndarray] = field(init=False, factory=dict)  # [B, S] by role

    def _bind(self, raw: EnvironmentSpec) -> EnvironmentSpec:
        names = [role.name for role in raw.roles]
        if unknown := sorted(self.roles - set(names)):
            raise ContractError(f"agent-indicator: {raw.name} has no role {unknown[0]!r}; it has {', '.join(names)}")
        chosen = [role for role in raw.roles if (role.name in self.roles if self.roles else role.num_seats > 1)]
        if not chosen:
            raise ContractError(f"agent-indicator: no role of {raw.name} has several seats; remove it, or set roles")
        changed = {role.name: self._with_leaf(role, raw) for role in chosen}
        return attrs.evolve(raw, roles=tuple(changed.get(role.name, role) for role in raw.roles))

    def _with_leaf(self, role: Role, raw: EnvironmentSpec) -> Role:
        leaves: dict[str, Space[Any]] = leaf_spaces(role.observation_space)
        if self.leaf in leaves:
            raise ContractError(f"agent-indicator: role {role.name!r} already observes {self.leaf!r}; set leaf")
        by_team = self.by == "team"
        row = np.asarray(role.teams if by_team else range(role.num_seats), np.int64)
        self._numbers[role.name] = np.tile(row, (self.num_matches, 1))
        added = spaces.Discrete(raw.num_teams if by_team else role.num_seats)
        return attrs.evolve(role, observation_space=spaces.Dict({**leaves, self.leaf: added}))

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        return self._transform(self.environment.step(actions))

    def _transform(self, tick: Tick) -> Tick:
        return attrs.evolve(tick, roles={name: self._add_leaf(name, role) for name, role in tick.roles.items()})

    def _add_leaf(self, name: str, tick: RoleTick) -> RoleTick:
        if name not in self._numbers:
            return tick
        return attrs.evolve(tick, observation={**tick.observation, self.leaf: self._numbers[name]})


class _PlayableIndicator(PlayablePart, _Indicator):
    pass
