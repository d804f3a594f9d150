"""Which kinds of workers may send which messages to which, and how large those may be.

`PERMISSIONS` is the only list. Launchers call `check_kind` with the sender that the connection identifies, before they
decode a message; the receiver calls `check_owner` with the decoded message. Both take constant time. A message that is
not allowed is dropped and counted (`ludus._messaging.refusals`).
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from ludus._messaging.messages import (
    Activity,
    BatchShard,
    Checkpoint,
    CheckpointAck,
    Credit,
    DamagedModel,
    Failure,
    FixtureRequest,
    Fixtures,
    FormGroup,
    FreezeRequest,
    Heartbeat,
    Hello,
    HelperHeartbeat,
    MetricsReport,
    ModelAck,
    ModelFrozen,
    PeerRefused,
    Results,
    ResultsAck,
    SamplerLeft,
    Segments,
    Stop,
    TrainingProgress,
    Welcome,
)
from ludus.errors import WireError
from ludus.launcher import learner_name, worker_kind

WORKERS = frozenset({"sampler", "evaluator", "learner", "helper", "service"})
_PLAYERS_OF_MATCHES = frozenset({"sampler", "evaluator"})

_SMALL = 2 * 1024  # bytes of a message of a few numbers and names
_TEXT = 64 * 1024  # of a message with an error, a reason or a list
_NAMES = 512 * 1024  # of a message with names of metrics or arrays, or with fixtures
_RESULTS = 64 * 1024**2  # of a report: a row takes about 30 bytes, and 4 more per statistic and seat
_ARRAYS = 1024**3  # of segments and weights


@frozen(kw_only=True)
class Permission:
    """Permission to send one kind of message to one kind of worker.

    Attributes:
        senders: Kinds of workers that may send it.
        max_bytes: Maximum size of the message, header and arrays together.
        remote: Whether samplers of other hosts may send it; the relay handles the others on its host.
    """

    senders: frozenset[str]
    max_bytes: int
    remote: bool = False


#: Permissions by kind of receiver and class name of the message.
PERMISSIONS: dict[tuple[str, str], Permission] = {}


def permit(
    kind: type, *, senders: Iterable[str], receivers: Iterable[str], max_bytes: int, remote: bool = False
) -> None:
    """Add a permission, for example for a message class of a launcher.

    Args:
        kind: Message class.
        senders: Kinds of workers that may send it.
        receivers: Kinds of workers that accept it.
        max_bytes: Maximum size of a message, header and arrays together.
        remote: Whether samplers of other hosts may send it.
    """
    permission = Permission(senders=frozenset(senders), max_bytes=max_bytes, remote=remote)
    PERMISSIONS.update({(receiver, kind.__name__): permission for receiver in receivers})


permit(Hello, senders=WORKERS, receivers=["coordinator"], max_bytes=_SMALL, remote=True)
permit(Heartbeat, senders=WORKERS, receivers=["coordinator"], max_bytes=_SMALL, remote=True)
permit(MetricsReport, senders=WORKERS - {"helper"}, receivers=["coordinator"], max_bytes=_NAMES, remote=True)
permit(Failure, senders=WORKERS, receivers=["coordinator"], max_bytes=_TEXT)
permit(Activity, senders=WORKERS, receivers=["coordinator"], max_bytes=_TEXT)
permit(FixtureRequest, senders=_PLAYERS_OF_MATCHES, receivers=["coordinator"], max_bytes=_SMALL, remote=True)
permit(
    DamagedModel, senders=_PLAYERS_OF_MATCHES | {"learner"}, receivers=["coordinator"], max_bytes=_SMALL, remote=True
)
permit(Results, senders=_PLAYERS_OF_MATCHES, receivers=["coordinator"], max_bytes=_RESULTS, remote=True)
permit(ModelFrozen, senders=["learner"], receivers=["coordinator"], max_bytes=_TEXT)
permit(Checkpoint, senders=["learner"], receivers=["coordinator"], max_bytes=_TEXT)
permit(PeerRefused, senders=["learner"], receivers=["coordinator"], max_bytes=_SMALL)

permit(Welcome, senders=["coordinator"], receivers=WORKERS, max_bytes=_TEXT)
permit(Stop, senders=["coordinator"], receivers=WORKERS, max_bytes=_TEXT)
permit(Fixtures, senders=["coordinator"], receivers=_PLAYERS_OF_MATCHES, max_bytes=_NAMES)
permit(ResultsAck, senders=["coordinator"], receivers=_PLAYERS_OF_MATCHES, max_bytes=_SMALL)
permit(TrainingProgress, senders=["coordinator"], receivers=["learner"], max_bytes=_SMALL)
permit(FreezeRequest, senders=["coordinator"], receivers=["learner"], max_bytes=_TEXT)
permit(ModelAck, senders=["coordinator"], receivers=["learner"], max_bytes=_SMALL)
permit(CheckpointAck, senders=["coordinator"], receivers=["learner"], max_bytes=_TEXT)

permit(Segments, senders=["sampler"], receivers=["learner"], max_bytes=_ARRAYS, remote=True)
permit(SamplerLeft, senders=["sampler"], receivers=["learner"], max_bytes=_SMALL)
permit(HelperHeartbeat, senders=["helper"], receivers=["learner"], max_bytes=_SMALL)
permit(Credit, senders=["learner"], receivers=["sampler"], max_bytes=_ARRAYS)
permit(FormGroup, senders=["learner"], receivers=["helper"], max_bytes=_SMALL)
permit(BatchShard, senders=["learner"], receivers=["helper"], max_bytes=_ARRAYS)

# A learner registers with the coordinator, a sampler also with every learner.
permit(Hello, senders=["sampler"], receivers=["learner"], max_bytes=_SMALL, remote=True)

_FIXTURE_KINDS = {"sampler": "train", "evaluator": "eval"}


def check_kind(sender: str, receiver: str, kind: str, *, size: int, remote: bool = False) -> None:
    """Check that a worker may send a message, from its class name and size alone.

    Args:
        sender: Worker name of the sender, as the connection identifies it.
        receiver: Worker name of the receiver.
        kind: Class name of the message.
        size: Bytes of header and arrays.
        remote: Whether the sender is a sampler of another host.

    Raises:
        WireError: It may not.
    """
    permission = PERMISSIONS.get((worker_kind(receiver), kind))
    if permission is None or worker_kind(sender) not in permission.senders or (remote and not permission.remote):
        raise WireError(f"{sender[:80]} must not send {kind[:64]!r} to {receiver[:80]}")
    if size > permission.max_bytes:
        raise WireError(f"{kind} of {size} bytes, at most {permission.max_bytes} are allowed")


def check_owner(sender: str, receiver: str, message: object) -> None:
    """Check that a message concerns the sender: its own fixtures, or the player of the learner at one end.

    A sampler may request training fixtures only, an evaluator rating fixtures only.

    Raises:
        WireError: It does not.
    """
    if type(message) is FixtureRequest:
        if message.kind != _FIXTURE_KINDS.get(worker_kind(sender)):
            raise WireError(f"{sender} must not request {message.kind[:64]!r} fixtures")
        return
    player = getattr(message, "player", None)
    if player is not None and learner_name(player) not in (sender, receiver):
        raise WireError(f"{type(message).__name__} of player {player[:64]!r}, which is not that of its learner")
