"""Playing time: whose turn it is to train, by the shares of the players."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field

_LENGTH_MATCHES = 256  # so many matches before, and as many new ones, count alike for the length of a player's matches


@define
class PlayingTime:
    """What players have had of the playing time, each by its share.

    Shares are of time and not of matches: who plays long ones would fill all rows.

    Attributes:
        dealt: By player: ticks handed out, divided by its share then.
        length: By player: ticks of a training match, of late; the mean of the others' stands for what is not known.
    """

    dealt: dict[str, float]
    length: dict[str, float] = field(factory=dict)

    def deal(self, shares: Mapping[str, float], *, matches: int) -> str:
        """Hand the time of some matches out, and return the player that gets it: the one furthest behind.

        Args:
            shares: By player, at least one, all above 0.
            matches: How many it is to play.
        """
        known = [self.length[name] for name in shares if name in self.length] or [1.0]
        cost = {name: self.length.get(name, sum(known) / len(known)) / share for name, share in shares.items()}
        player = min(shares, key=lambda name: self.dealt[name] + cost[name])
        self.dealt[player] += matches * cost[player]
        return player

    def measure(self, player: str, *, matches: int, ticks: int) -> None:
        """Take in how long matches of a player were, all together."""
        mean = ticks / matches
        before = self.length.setdefault(player, mean)
        self.length[player] = before + (mean - before) * matches / (matches + _LENGTH_MATCHES)

    def rejoin(self, player: str, others: Iterable[str]) -> None:
        """Let a player in that had no share; it is not owed what it missed.

        Args:
            player: The player.
            others: Those who have a share.
        """
        behind = self.dealt[player]
        self.dealt[player] = max(behind, min((self.dealt[name] for name in others), default=behind))
