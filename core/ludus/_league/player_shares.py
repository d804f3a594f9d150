"""Distributing training between players by their shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field

_AVERAGED_MATCHES = 256  # this many new matches weigh as much as all before in the mean length of a player's matches


@define
class ShareScheduler:
    """Chooses the player that trains next, so that players train for ticks in proportion to their shares.

    Shares are of ticks and not of matches: else players with long matches would fill all rows of the batches.

    Attributes:
        assigned: By player: ticks of its fixtures, each divided by its share at that time.
        match_ticks: By player: running mean of the ticks of a training match; a player without one gets the mean of the
            other players.
    """

    assigned: dict[str, float]
    match_ticks: dict[str, float] = field(factory=dict)

    def next_player(self, shares: Mapping[str, float], *, matches: int) -> str:
        """Return the player that is furthest behind its share, and add the ticks of its next matches.

        Args:
            shares: By player, at least one, all above 0.
            matches: Number of matches that it will play.
        """
        known = [self.match_ticks[name] for name in shares if name in self.match_ticks] or [1.0]
        mean = sum(known) / len(known)
        cost = {name: self.match_ticks.get(name, mean) / share for name, share in shares.items()}
        player = min(shares, key=lambda name: self.assigned[name] + cost[name])
        self.assigned[player] += matches * cost[player]
        return player

    def record_matches(self, player: str, *, matches: int, ticks: int) -> None:
        """Update the mean length of a player's matches.

        Args:
            player: The player.
            matches: Number of finished matches.
            ticks: Their ticks in total.
        """
        mean = ticks / matches
        before = self.match_ticks.setdefault(player, mean)
        self.match_ticks[player] = before + (mean - before) * matches / (matches + _AVERAGED_MATCHES)

    def rejoin(self, player: str, others: Iterable[str]) -> None:
        """Add a player that had no share, without catching up on the ticks that it missed.

        Args:
            player: The player.
            others: Players that have a share.
        """
        behind = self.assigned[player]
        self.assigned[player] = max(behind, min((self.assigned[name] for name in others), default=behind))
