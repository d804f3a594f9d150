"""Rewards shared within teams [AET §3.2.4; DIS table 3] and balanced against those of opponents.

Interfaces get the rewards of their own seats only, so sharing wraps the environment, which returns the rewards of all
seats.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs
import numpy as np
from attrs import define, field
from ludus.environment import Environment, EnvironmentSpec, Playable, RoleTick, Tick
from ludus.errors import ContractError

from ludus_interfaces.environment import PlayablePart, Wrapper
from ludus_interfaces.rewards import WHOLE_REWARD

_PREFIXES = ("", "team/", "opponents/")  # of parts earned by the seat, its team and its opponents


def share_rewards(
    environment: Environment,
    *,
    spirit: float = 0.0,
    granted: Collection[str] = (),
    zero_sum: bool = False,
    roles: Collection[str] = (),
) -> Environment:
    """Return an environment whose rewards are shared within teams.

    A seat that earns the reward r receives::

        s = (1 - spirit) · r + spirit · mean of r over its team
        s - mean of s over its opponents                            if zero_sum

    * Rewards of all seats count on every tick, also of seats that do not act. A team may have seats of several roles.
    * Each reward part ``P`` becomes ``P``, the share of the seat itself, ``"team/P"`` and ``"opponents/P"``, the shares
      of others. A role without parts has the part ``"reward"``.
    * Observations, actions and outcomes do not change. The result is `Playable` if the environment is.

    Args:
        environment: Environment; the result owns it.
        spirit: Weight of the team's mean reward in [0, 1]; the rest is the seat's own reward.
        granted: Parts that all seats of a team receive in full if one of them earns them, for any `spirit`.
        zero_sum: Whether to subtract the mean reward of the opponents.
        roles: Roles whose rewards change; empty: all roles. Rewards of other roles are shared with them too.

    Raises:
        ContractError: On first use: there is no such role or part.
    """
    kind = _PlayableSharedRewards if isinstance(environment, Playable) else _SharedRewards
    return kind(environment, spirit, frozenset(granted), zero_sum, frozenset(roles))


@define
class _SharedRewards(Wrapper):
    spirit: float
    granted: frozenset[str]
    zero_sum: bool
    roles: frozenset[str]
    _weights: dict[str, np.ndarray] = field(init=False, factory=dict)  # by role, see `_reward_weights`

    def _bind(self, raw: EnvironmentSpec) -> EnvironmentSpec:
        names = [role.name for role in raw.roles]
        if unknown := sorted(self.roles - set(names)):
            raise ContractError(f"{raw.name} has no role {unknown[0]!r} to share rewards; it has {', '.join(names)}")
        weights, start = self._reward_weights(raw), 0
        for role in raw.roles:
            columns = slice(start, start := start + role.num_seats)
            if not self.roles or role.name in self.roles:
                self._weights[role.name] = weights[..., columns]
        return attrs.evolve(raw, zero_sum=self._is_zero_sum(raw), reward_range=self._reward_range(raw))

    def _reward_weights(self, raw: EnvironmentSpec) -> np.ndarray:
        """Return the weight of an earned reward in a received reward, ``[3, 2, seats, seats] float32``.

        Axes: `_PREFIXES`; 0 for shared and 1 for granted parts; seat that earns; seat that receives.
        """
        teams = np.array([seat.team for seat in raw.seats])
        same_seat, same_team = np.eye(teams.size), teams[:, None] == teams
        own = np.stack([(1 - self.spirit) * same_seat, same_seat])
        team = np.stack([self.spirit * same_team / same_team.sum(axis=0), same_team & (same_seat == 0)])
        opponents = np.zeros_like(own)
        if self.zero_sum:
            opponents = -(own + team) @ (~same_team / np.maximum((~same_team).sum(axis=0), 1))
        return np.stack([own, team, opponents]).astype(np.float32)

    def _is_zero_sum(self, raw: EnvironmentSpec) -> bool:
        sizes = np.bincount([seat.team for seat in raw.seats])
        balanced = self.zero_sum and sizes.size == 2 and sizes[0] == sizes[1]
        kept = raw.zero_sum and not self.zero_sum and not self.granted
        return len(self._weights) == len(raw.roles) and bool(balanced or kept)

    def _reward_range(self, raw: EnvironmentSpec) -> tuple[float, float] | None:
        if raw.reward_range is None or self.granted:  # the range of single parts is unknown
            return None
        low, high = raw.reward_range
        return (min(low, low - high), max(high, high - low)) if self.zero_sum else (low, high)

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        return self._transform(self.environment.step(actions))

    def _transform(self, tick: Tick) -> Tick:
        earned = self._earned_parts(tick)
        roles = {
            name: self._share(role, self._weights[name], earned) if name in self._weights else role
            for name, role in tick.roles.items()
        }
        return attrs.evolve(tick, roles=roles)

    def _earned_parts(self, tick: Tick) -> dict[str, np.ndarray]:
        """Return the reward parts that all seats earned, ``[B, seats] float32`` by name."""
        roles = [tick.roles[role.name] for role in self.environment.spec.roles]
        by_role = [role.reward_parts or {WHOLE_REWARD: role.reward} for role in roles]
        names = dict.fromkeys(name for parts in by_role for name in parts)
        if unknown := sorted(self.granted - set(names)):
            game, known = self.environment.spec.name, ", ".join(names)
            raise ContractError(f"{game} gives no reward part {unknown[0]!r} to grant; it gives {known}")
        zeros = [np.zeros_like(role.reward) for role in roles]
        return {
            name: np.concatenate([parts.get(name, zero) for parts, zero in zip(by_role, zeros, strict=True)], axis=1)
            for name in names
        }

    def _share(self, tick: RoleTick, weights: np.ndarray, earned: Mapping[str, np.ndarray]) -> RoleTick:
        weights = weights[:, [int(part in self.granted) for part in earned]]  # [3, parts, seats, S]
        values = np.stack(list(earned.values()))  # [parts, B, seats]
        received = np.zeros((*weights.shape[:2], *tick.reward.shape), np.float32)  # [3, parts, B, S]
        # not a matrix product: its rounding depends on the number of matches
        for seat in range(values.shape[-1]):
            received += values[..., seat, None] * weights[:, :, None, seat]
        parts = {
            f"{prefix}{part}": received[k, p]
            for p, part in enumerate(earned)
            for k, prefix in enumerate(_PREFIXES)
            if k == 0 or weights[k, p].any()
        }
        reward = np.zeros_like(tick.reward)
        for values in parts.values():
            reward += values
        return attrs.evolve(tick, reward=reward, reward_parts=parts)


class _PlayableSharedRewards(PlayablePart, _SharedRewards):
    pass
