"""The state of matchmaking that the store keeps for a resumed run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from attrs import field, frozen

from ludus._config.structuring import structure
from ludus._store.database import reading
from ludus._store.store import Store

_KEY = "matchmaking"


@frozen(kw_only=True)
class MatchmakingState:
    """What a resumed coordinator continues from.

    Attributes:
        rng: State of the bit generator; None in a new run.
        assigned: `ShareScheduler.assigned`.
        match_ticks: `ShareScheduler.match_ticks`.
        seat_turns: `TrainingFixtures.seat_turns`.
        rules_applied_at: Training matches when the rules were applied last.
        shares: Share by player, as rules have left it.
        configured_shares: Share by player in the configuration of that time.
        rules: Rules in the configuration of that time.
    """

    rng: Mapping[str, Any] | None = None
    assigned: Mapping[str, float] = field(factory=dict)
    match_ticks: Mapping[str, float] = field(factory=dict)
    seat_turns: Mapping[str, int] = field(factory=dict)
    rules_applied_at: int = 0
    shares: Mapping[str, float] = field(factory=dict)
    configured_shares: Mapping[str, float] = field(factory=dict)
    rules: tuple[str, ...] = ()

    @classmethod
    def load(cls, store: Store) -> MatchmakingState:
        """Read the state of the last commit; a new run has the defaults.

        Raises:
            sqlite3.DatabaseError: The stored values are malformed.
        """
        with reading(f"meta value {_KEY!r}"):
            return structure(store.meta(_KEY, {}), cls)

    def save(self, store: Store) -> None:
        """Write the state; durable after the store's next commit."""
        store.set_meta(_KEY, attrs.asdict(self, recurse=False))

    def restore_rng(self, rng: np.random.Generator) -> None:
        """Set a generator to the stored state; leave it as it is in a new run.

        Raises:
            sqlite3.DatabaseError: The stored state is malformed.
        """
        if self.rng is not None:
            with reading(f"meta value {_KEY!r}"):
                rng.bit_generator.state = self.rng
