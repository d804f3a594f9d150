"""The statistics of participants in evaluation matches, in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import define, field

from ludus._store.behaviour import Sums, add_sums
from ludus.matchmaker import Statistic


@define
class Behaviour:
    """The sums of statistics, by participant."""

    _sums: dict[str, Sums] = field(init=False, factory=dict)

    def add(self, sums: Sums) -> None:
        """Add the sums of matches."""
        for (participant, name), values in sums.items():
            add_sums(self._sums.setdefault(participant, {}), {(participant, name): values})

    def statistics(self, participant: str) -> Mapping[str, Statistic]:
        """Return the statistics of a participant; see `ludus.matchmaker.LeagueView.statistics`."""
        found = {}
        for (_, name), (matches, total, squares) in self._sums.get(participant, {}).items():
            mean = total / matches
            deviation = math.sqrt(max(squares / matches - mean**2, 0.0))
            found[name] = Statistic(mean=float(mean), deviation=deviation, matches=int(matches))
        return found
