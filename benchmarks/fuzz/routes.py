"""Routes of every kind of message: pairs of sender and receiver that are allowed, and some that are not."""

from __future__ import annotations

from attrs import frozen
from ludus._messaging.permissions import PERMISSIONS
from ludus.launcher import COORDINATOR
from ludus_hosts import wire

from fuzz.stage import RELAY

_WORKERS = {
    "coordinator": [COORDINATOR],
    "sampler": ["sampler-0"],
    "evaluator": ["evaluator-0"],
    "learner": ["learner-main"],
    "helper": ["helper-1-main"],
    "service": [wire.GATEWAY],
}
_FROM_RELAY = (wire.JoinRequest, wire.ModelRequest, wire.WeightsAck, wire.HostLeft)
_TO_RELAY = (wire.JoinAccepted, wire.JoinRejected, wire.ModelFile, wire.WeightsUpdate)
_OF_THE_RUN = ("Fixtures", "ResultsAck", "Stop", "Credit", "Welcome")  # that a relay delivers to its samplers
_FORBIDDEN = ("sampler-box-0", "stranger-1")


@frozen
class Route:
    """The way of a message.

    Attributes:
        sender: Worker name of the sender, or `RELAY`.
        receiver: Worker name of the receiver, or of the one to which `through` forwards it.
        through: Receiver that gets it: the receiver itself, the gateway, or `RELAY`.
        is_allowed: Whether the sender may send it.
    """

    sender: str
    receiver: str
    through: str
    is_allowed: bool = True


def routes(kind: str) -> list[Route]:
    """Return the routes of a kind of message: allowed ones first, then at most as many forbidden ones.

    Args:
        kind: Class name of the message.
    """
    allowed = [*_permitted(kind), *_between_hosts(kind)]
    forbidden = []
    receivers = dict.fromkeys(route.receiver for route in allowed if route.through == route.receiver != RELAY)
    for receiver in receivers:
        forbidden += [Route(sender, receiver, receiver, is_allowed=False) for sender in _FORBIDDEN]
        if receiver in {COORDINATOR, "learner-main"}:
            forbidden.append(Route("sampler-box-0", receiver, wire.GATEWAY, is_allowed=False))
    known = {(route.sender, route.receiver, route.through) for route in allowed}
    new = [route for route in forbidden if (route.sender, route.receiver, route.through) not in known]
    return [*allowed, *new[: len(allowed)]]


def _permitted(kind: str) -> list[Route]:
    found = []
    for (receiver_kind, name), permission in PERMISSIONS.items():
        if name != kind:
            continue
        for receiver in _WORKERS[receiver_kind]:
            senders = [sender for sender_kind in sorted(permission.senders) for sender in _WORKERS[sender_kind]]
            if "sampler" in permission.senders:
                senders.append("sampler-box-0")
            found += [Route(sender, receiver, receiver) for sender in senders]
            if permission.remote:
                found.append(Route("sampler-box-0", receiver, wire.GATEWAY))
    return found


def _between_hosts(kind: str) -> list[Route]:
    found = [Route(RELAY, wire.GATEWAY, wire.GATEWAY) for message in _FROM_RELAY if message.__name__ == kind]
    found += [Route(wire.GATEWAY, RELAY, RELAY) for message in _TO_RELAY if message.__name__ == kind]
    if kind in _OF_THE_RUN:
        sender = "learner-main" if kind == "Credit" else COORDINATOR
        found.append(Route(sender, "sampler-box-0", RELAY))
    if kind == "LinkCapabilities":
        found.append(Route("learner-main", wire.GATEWAY, wire.GATEWAY))
    return found
