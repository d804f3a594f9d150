"""Check the ends of seats before the end of their match."""

from __future__ import annotations

import numpy as np
from attrs import define, field

from ludus.environment import EnvironmentSpec, RoleTick, Tick
from ludus.testing._errors import fail_environment


@define(kw_only=True)
class SeatEndings:
    """The seats that have ended in each running match.

    Args:
        spec: Specification of the environment.
        num_matches: Number of matches B.
    """

    spec: EnvironmentSpec
    num_matches: int
    _ended: dict[str, np.ndarray] = field(init=False, factory=dict)  # [B, S] bool by role

    def __attrs_post_init__(self) -> None:
        self._ended = {
            role.name: np.zeros((self.num_matches, role.num_seats), bool)
            for role in self.spec.roles
            if role.seat_endings
        }

    def check(self, tick: Tick, indices: np.ndarray | None, *, running: np.ndarray, number: int) -> None:
        """Check the flags and the acting seats of a tick.

        Args:
            tick: Tick after a reset of the matches at `indices`, or after a step (None).
            indices: ``[n]`` match indices, or None.
            running: ``[B] bool``: matches that were running before the reset or step.
            number: Number of the tick, for messages.

        Raises:
            ContractError: Seats end in a role that does not declare it, outside of a running match, twice or in two
                ways at once, or act after their end.
        """
        for role in self.spec.roles:
            role_tick = tick.roles[role.name]
            if role.seat_endings:
                for problem, wrong in self._problems(role.name, role_tick, indices, running).items():
                    for match, seat in np.argwhere(wrong)[:1]:
                        location = {"seat": int(seat), "match": int(match), "tick": number}
                        fail_environment(self.spec, problem, role=role.name, **location)
            elif role_tick.terminated is not None or role_tick.truncated is not None:
                problem = "terminated and truncated of seats: expected None without seat_endings in the role"
                fail_environment(self.spec, problem, role=role.name, tick=number)

    def _problems(
        self, role: str, role_tick: RoleTick, indices: np.ndarray | None, running: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Return the seats ``[B, S] bool`` that have each possible problem."""
        assert role_tick.terminated is not None
        assert role_tick.truncated is not None
        ended, flagged = self._ended[role], role_tick.terminated | role_tick.truncated
        problems = {"a seat is terminated and truncated on one tick": role_tick.terminated & role_tick.truncated}
        if indices is None:
            problems["a seat ended in a match that is not running"] = flagged & ~running[:, None]
            problems["a seat ended twice in one match; expected True on one tick only"] = flagged & ended
            ended |= flagged
        else:
            fresh = np.isin(np.arange(self.num_matches), indices)
            problems["terminated or truncated of a seat is set right after a reset"] = flagged & fresh[:, None]
            ended[indices] = False
        problems["a seat acts after its end"] = role_tick.acting & ended
        return problems
