"""Rewards shared within a team [AET §3.2.4; DIS table 3], and set against those of the opponents.

An interface is shown the rewards of its own seats only, and only when these act. What teammates and opponents received
meanwhile is known to the environment alone, so this is a wrapper around it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs
import numpy as np
from attrs import define, field
from ludus.environment import Environment, EnvironmentSpec, Playable, RoleTick, Tick
from ludus.errors import ContractError

from ludus_interfaces.rewards import WHOLE_REWARD
from ludus_interfaces.wrapping import Wrapper

__all__ = ["share_rewards"]

_FROM = ("", "team/", "opponents/")  # what the names of parts say about who earned them


def share_rewards(
    environment: Environment,
    *,
    spirit: float = 0.0,
    granted: Collection[str] = (),
    zero_sum: bool = False,
    roles: Collection[str] = (),
) -> Environment:
    """Return the game with the rewards of teams shared.

    Instead of the reward r that it earned itself, a seat receives::

        s = (1 - spirit) · r + spirit · mean of r over its team
        s - mean of s over its opponents                            if zero_sum

    * All seats count on every tick, whether they act or not, and a team reaches over roles.
    * Of a part ``P`` of the reward, ``P`` is what remains of what the seat earned itself, ``"team/P"`` and
      ``"opponents/P"`` are what others add. A role without parts has ``P = "reward"``.
    * What is seen, done and won stays as it is. The result is `Playable` where the game is.

    Args:
        environment: The game; the result is its only user from now on.
        spirit: 0: everybody for themselves; 1: all of a team receive the same.
        granted: Parts that everybody in the team receives in full when one of them earns them, whatever the `spirit`.
        zero_sum: What the opponents receive on average is taken away.
        roles: Whose rewards change; empty: those of all. What everybody earns is shared with them all the same.

    Raises:
        ContractError: (when first used) there is no such role or part.
    """
    kind = _PlayableSharing if isinstance(environment, Playable) else _Sharing
    return kind(environment, spirit, frozenset(granted), zero_sum, frozenset(roles))


@define
class _Sharing(Wrapper):
    spirit: float
    granted: frozenset[str]
    zero_sum: bool
    roles: frozenset[str]
    _weights: dict[str, np.ndarray] = field(init=False, factory=dict)  # see `_weigh`

    def _bind(self, raw: EnvironmentSpec) -> EnvironmentSpec:
        names = [role.name for role in raw.roles]
        if unknown := sorted(self.roles - set(names)):
            raise ContractError(f"{raw.name} has no role {unknown[0]!r} to share rewards; it has {', '.join(names)}")
        weights, start = self._weigh(raw), 0
        for role in raw.roles:
            columns = slice(start, start := start + role.num_seats)
            if not self.roles or role.name in self.roles:
                self._weights[role.name] = weights[..., columns]
        return attrs.evolve(raw, zero_sum=self._sums_to_zero(raw), reward_range=self._range(raw))

    def _weigh(self, raw: EnvironmentSpec) -> np.ndarray:
        """Return the weight of what a seat earned in what another receives, ``[3, 2, seats, seats] float32``.

        Axes: the names of `_FROM`; parts shared by the spirit and parts granted; who earned; who receives.
        """
        teams = np.array([seat.team for seat in raw.seats])
        itself, same = np.eye(teams.size), teams[:, None] == teams
        own = np.stack([(1 - self.spirit) * itself, itself])
        team = np.stack([self.spirit * same / same.sum(axis=0), same & (itself == 0)])
        opponents = np.zeros_like(own)
        if self.zero_sum:
            opponents = -(own + team) @ (~same / np.maximum((~same).sum(axis=0), 1))
        return np.stack([own, team, opponents]).astype(np.float32)

    def _sums_to_zero(self, raw: EnvironmentSpec) -> bool:
        sizes = np.bincount([seat.team for seat in raw.seats])
        balanced = self.zero_sum and sizes.size == 2 and sizes[0] == sizes[1]
        kept = raw.zero_sum and not self.zero_sum and not self.granted
        return len(self._weights) == len(raw.roles) and bool(balanced or kept)

    def _range(self, raw: EnvironmentSpec) -> tuple[float, float] | None:
        if raw.reward_range is None or self.granted:  # nothing is known of single parts
            return None
        low, high = raw.reward_range
        return (min(low, low - high), max(high, high - low)) if self.zero_sum else (low, high)

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        return self._show(self.environment.step(actions))

    def _show(self, tick: Tick) -> Tick:
        earned = self._earned(tick)
        roles = {n: self._receive(n, role, earned) if n in self._weights else role for n, role in tick.roles.items()}
        return attrs.evolve(tick, roles=roles)

    def _earned(self, tick: Tick) -> dict[str, np.ndarray]:
        """Return what all seats earned by part of the reward, ``[B, seats] float32`` each."""
        of_roles = [tick.roles[role.name] for role in self.environment.spec.roles]
        named = [role.reward_parts or {WHOLE_REWARD: role.reward} for role in of_roles]
        names = dict.fromkeys(name for parts in named for name in parts)
        if unknown := sorted(self.granted - set(names)):
            game, known = self.environment.spec.name, ", ".join(names)
            raise ContractError(f"{game} gives no reward part {unknown[0]!r} to grant; it gives {known}")
        nothing = [np.zeros_like(role.reward) for role in of_roles]
        return {
            name: np.concatenate([parts.get(name, zero) for parts, zero in zip(named, nothing, strict=True)], axis=1)
            for name in names
        }

    def _receive(self, role: str, tick: RoleTick, earned: Mapping[str, np.ndarray]) -> RoleTick:
        weights = self._weights[role][:, [int(part in self.granted) for part in earned]]  # [3, parts, seats, S]
        values = np.stack(list(earned.values()))  # [parts, B, seats]
        received = np.zeros((*weights.shape[:2], *tick.reward.shape), np.float32)  # [3, parts, B, S]
        # one by one rather than by a matrix product, whose rounding depends on how many matches there are
        for seat in range(values.shape[-1]):
            received += values[..., seat, None] * weights[:, :, None, seat]
        made = {
            f"{of}{part}": received[k, p]
            for p, part in enumerate(earned)
            for k, of in enumerate(_FROM)
            if k == 0 or weights[k, p].any()
        }
        reward = np.zeros_like(tick.reward)
        for part in made.values():
            reward += part
        return attrs.evolve(tick, reward=reward, reward_parts=made)


class _PlayableSharing(_Sharing):
    def render(self, match: int) -> str:
        return self._game.render(match)

    def action_name(self, role: str, action: np.ndarray) -> str:
        return self._game.action_name(role, action)

    def parse_action(self, role: str, text: str) -> np.ndarray:
        return self._game.parse_action(role, text)
