"""Counting the refused messages of every peer; a peer with too many is cut off."""

from __future__ import annotations

import logging
from collections.abc import Callable

from attrs import define, field, frozen

#: A peer is cut off at this many refused messages, none of them more than `FORGET_S` after the one before.
MAX_REFUSALS = 16
FORGET_S = 600.0

_MAX_PEERS = 16_384  # that are counted at a time
_log = logging.getLogger(__name__)


@frozen
class RefusedMessage:
    """Stands for a message that the launcher has refused, in its place among the received ones.

    Attributes:
        problem: Why it was refused, for the log.
    """

    problem: str


@define
class Refusals:
    """Counts the messages of peers that were refused.

    Peers that keep the protocol are never refused, also when they restart, reconnect or repeat messages.

    Args:
        clock: Seconds.

    Attributes:
        total: Refused messages so far.
    """

    clock: Callable[[], float]
    total: int = field(init=False, default=0)
    _counts: dict[str, int] = field(init=False, factory=dict)
    _last_s: dict[str, float] = field(init=False, factory=dict)
    _cut_off: dict[str, str] = field(init=False, factory=dict)

    def add(self, peer: str, problem: str) -> None:
        """Count a refused message.

        Args:
            peer: Who sent it: a worker name or a key.
            problem: Why it was refused, for the log.
        """
        now_s = self.clock()
        self.total += 1
        if self.total.bit_count() == 1:  # 1, 2, 4, 8 …
            _log.warning("refused message %d, of %s: %s", self.total, peer[:80], problem)
        count = self._counts.pop(peer, 0) + 1 if now_s - self._last_s.pop(peer, now_s) <= FORGET_S else 1
        if count < MAX_REFUSALS:
            self._counts[peer], self._last_s[peer] = count, now_s
            if len(self._counts) > _MAX_PEERS:  # the oldest is the first, since a peer is moved to the end
                oldest = next(iter(self._counts))
                del self._counts[oldest], self._last_s[oldest]
        else:
            self.cut_off(peer, problem)

    def cut_off(self, peer: str, problem: str) -> None:
        """Cut off a peer, for example because another process has refused too many of its messages."""
        if peer not in self._cut_off:
            self._cut_off[peer] = problem
            _log.warning("cut off %s; the last message refused: %s", peer[:80], problem)

    def take_cut_off(self) -> dict[str, str]:
        """Return the peers to cut off since the last call, with the reason of their last refusal."""
        if not self._cut_off:
            return {}
        taken, self._cut_off = self._cut_off, {}
        return taken
