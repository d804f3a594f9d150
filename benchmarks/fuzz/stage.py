"""How far an input gets, and what a receiver does with it."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

#: Name of the relay of a joined host, which has no worker name.
RELAY = "relay"


class Stage(Enum):
    """How far an input got."""

    UNREAD = "refused unread"  # by its sender, kind or size, before it is decoded
    UNDECODED = "refused by the decoder"
    REFUSED = "refused by the handler"
    HANDLED = "handled"


class Receiver(Protocol):
    """A worker that receives messages of the fuzzer through its real endpoint.

    Attributes:
        forgives: Exceptions that end this worker in a documented way, if the sender is part of the run.
    """

    forgives: tuple[type[Exception], ...]

    def deliver(self, sender: str, receiver: str, frames: list[bytes]) -> Stage:
        """Receive one message, handle it, and do the work that follows.

        Args:
            sender: Worker name of the sender, or `RELAY` for the relay of another host.
            receiver: Worker name of the receiver; that of another worker if this one forwards the message.
            frames: Frames of the message.
        """

    def owned(self, sender: str) -> object:
        """Return the state that a message of this sender must not change; compared before and after."""

    def settle(self) -> None:
        """Do what the worker does between two calls of its endpoint, such as a commit."""

    def restart(self) -> None:
        """Replace the worker after an exception."""

    def verify(self) -> list[str]:
        """Return contradictions in what the worker has stored, and start it again."""

    def open_fixtures(self) -> list[int]:
        """Return ids of fixtures that samplers may report results of; empty for other receivers."""

    def close(self) -> None:
        """Close the worker."""
