"""The side of every participant, and the anchor of every side that has the rating 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["Sides"]


class Sides:
    """Sides of a game, see `ludus.matchmaker.team_sides`.

    Args:
        anchors: The rated anchors, such as ``cat=random``, or ``random`` in a game of one side.
        sides: Side by player.

    Attributes:
        references: By side: its anchor ``random``, else its first anchor.
    """

    def __init__(self, anchors: Sequence[str], sides: Mapping[str, str]) -> None:
        self._sides = sides
        self.references: dict[str, str] = {}
        for anchor in sorted(anchors, key=lambda name: name.rpartition("=")[2] != "random"):
            self.references.setdefault(self.side(anchor), anchor)

    def side(self, participant: str) -> str:
        """Return the side of a model, live weights or a rated anchor; empty in a game of one side."""
        player, at, _ = participant.partition("@")
        return self._sides.get(player, "") if at else participant.rpartition("=")[0]

    def reference(self, participant: str) -> str | None:
        """Return the anchor whose rating is 0 on the side of a participant; None if there are no anchors."""
        return self.references.get(self.side(participant))
