"""What processes say to each other: one frozen attrs class per message.

Fields are str, int, float, bool, tuples of those, nested attrs classes, `Mapping[str, float]`, or `Arrays` (the only
thing that leaves the header and travels as raw buffers). What bytes they become is up to the launcher, which also
knows from whom they come: no message names its speaker, who could claim any name.

::

    sampler     → coordinator   Hello, FixtureRequest, Results, MetricsReport, Heartbeat, Failure
    coordinator → sampler       Welcome, Fixtures, ResultsAck, Stop
    sampler     → learner       Hello, Segments
    learner     → sampler       Credit
    learner     → coordinator   Hello, ModelFrozen, Checkpoint, MetricsReport, Heartbeat, Failure
    coordinator → learner       Welcome, Heartbeat, FreezeRequest, ModelAck, CheckpointAck, Stop
    helper      → coordinator   Hello, Heartbeat, Failure
    coordinator → helper        Welcome, Stop
    helper      → learner       HelperHeartbeat
    learner     → helper        FormGroup, BatchShard
    service     → coordinator   Hello, MetricsReport, Heartbeat, Failure
    coordinator → service       Welcome, Stop
    launcher    → learner       SamplerLeft (in the name of a sampler that has gone)
    launcher    → coordinator   MetricsReport (likewise, without values)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from attrs import field, frozen

from ludus.records import Fixture

if TYPE_CHECKING:
    import numpy as np

#: Named arrays; the codec sends each as one raw buffer with declared dtype and shape.
Arrays: TypeAlias = "Mapping[str, np.ndarray]"


@frozen(kw_only=True)
class Hello:
    """A worker introduces itself; sent again whenever it has waited long for an answer.

    Attributes:
        pid: Its process.
        block: For a learner: the last block sent to it, so that a restarted learner counts on from there.
    """

    pid: int = 0
    block: int = 0


@frozen(kw_only=True)
class Welcome:
    """The coordinator knows the worker; a learner is told where to go on.

    Attributes:
        models: How many models the player has frozen.
        checkpoint: Its last committed checkpoint, relative to the run folder; empty if none.
        checkpoint_hash: SHA-256 of that file.
        elapsed_s: Seconds the run has trained, over all resumes.
        others: Decisions that the other players have learned from.
        generation: Of the player's weights; with a checkpoint of an earlier one it starts anew.
        init: Hash of the model from which that generation starts; empty: as at the beginning of the run.
        version: Of the weights before that generation.
    """

    models: int = 0
    checkpoint: str = ""
    checkpoint_hash: str = ""
    elapsed_s: float = 0.0
    others: int = 0
    generation: int = 0
    init: str = ""
    version: int = 0


@frozen(kw_only=True)
class Failure:
    """A worker ends with an error; `fatal` where restarting it would not cure it."""

    error: str
    fatal: bool = False


@frozen(kw_only=True)
class Stop:
    """Finish: say what must be said and leave."""

    reason: str = ""


@frozen(kw_only=True)
class Heartbeat:
    """A sign of life that a busy loop cannot fake: the count of useful things done so far.

    The coordinator answers a learner with one of its own: the decisions that the other players have learned from.
    """

    count: int


@frozen(kw_only=True)
class FixtureRequest:
    """A sampler or evaluator asks for work."""

    kind: str
    count: int = 1


@frozen(kw_only=True)
class Fixtures:
    """Work; empty when there is none at the moment."""

    fixtures: tuple[Fixture, ...]


@frozen(kw_only=True)
class Results:
    """Matches that ended. Repeated until acknowledged; the coordinator drops what it has already committed.

    Attributes:
        report: Number of this report, unique per worker process.
        arrays: ``fixture [n] int64``, ``number [n] int64`` (which match of the fixture), ``ticks [n] int32``,
            ``outcome [n, teams] float32``.
    """

    report: int
    arrays: Arrays


@frozen(kw_only=True)
class ResultsAck:
    """What counts of the results is committed to disk; nobody needs them again."""

    report: int


@frozen(kw_only=True)
class Segments:
    """Segments of one player. Costs one credit.

    Attributes:
        player: Whose.
        block: Counts up per worker process and player.
        pid: The process of the worker.
        arrays: Those of `SegmentBatch.arrays()`; nothing is written to them until a `Credit` has released the block.
    """

    player: str
    block: int
    pid: int = 0
    arrays: Arrays = field(factory=dict)


@frozen(kw_only=True)
class SamplerLeft:
    """A sampler does not take part any more; who notices says so in its name. With its next block it is back."""


@frozen(kw_only=True)
class Credit:
    """The learner allows so many blocks in flight in total and brings newer weights.

    Attributes:
        player: Whose.
        acked: The highest block number taken.
        credits: Blocks that may be sent and not yet taken.
        version: Current weights version.
        pid: Process of the sampler whose blocks are counted; to another of its name the counts mean nothing.
        released: No block up to this number is read any more.
        progress: Share of the training budget used, in [0, 1].
        weights: The weights, empty when the sampler already has this version or finds them in shared memory.
    """

    player: str
    acked: int
    credits: int
    version: int
    pid: int = 0
    released: int = 0
    progress: float = 0.0
    weights: Arrays = field(factory=dict)


@frozen(kw_only=True)
class HelperHeartbeat:
    """A helper is there; said again and again.

    Attributes:
        pid: Its process.
        meeting: The last one that it was called to; 0 before.
        alone: Whether that one has come to nothing, or is over.
    """

    pid: int
    meeting: int = 0
    alone: bool = True


@frozen(kw_only=True)
class FormGroup:
    """A learner calls a helper to a meeting, from which they go on as a group (`ludus.group.Group`)."""

    meeting: int
    rank: int
    size: int


@frozen(kw_only=True)
class BatchShard:
    """Segments of a helper's part of the batch of an update that its group now computes.

    Attributes:
        meeting: That the group comes from.
        progress: Share of the training budget used, in [0, 1].
        more: Of its part follow in other messages.
        arrays: Those of `SegmentBatch.arrays()`.
    """

    meeting: int
    progress: float
    more: bool
    arrays: Arrays


@frozen(kw_only=True)
class FreezeRequest:
    """The coordinator wants a player's weights as a model, and perhaps the player to start anew after that.

    Attributes:
        player: Whose.
        model: Number of the model; one that is there already is enough.
        generation: Of the weights afterwards; the next one means a new start.
        init: Hash of the model to start from; empty: as at the beginning of the run.
        reason: Why.
    """

    player: str
    model: int
    generation: int
    init: str = ""
    reason: str = ""


@frozen(kw_only=True)
class ModelFrozen:
    """A learner has written a model file and asks the coordinator to make it part of the league.

    Attributes:
        generation: Of the player's weights from now on; the next one where it starts anew, as it was ordered to.
        init: Hash of the model from which that generation starts, as ordered.
        reason: Of the order; empty where it was time.
    """

    player: str
    number: int
    hash: str
    decisions: int
    version: int
    generation: int = 0
    init: str = ""
    reason: str = ""


@frozen(kw_only=True)
class ModelAck:
    """The model is committed.

    Attributes:
        models: How many the player has now.
    """

    number: int
    models: int


@frozen(kw_only=True)
class Checkpoint:
    """A learner has written its checkpoint files and asks the coordinator to make them the ones to resume from."""

    player: str
    path: str  # relative to the run folder
    hash: str
    version: int
    decisions: int


@frozen(kw_only=True)
class CheckpointAck:
    """The checkpoint is committed; older ones may be deleted."""

    path: str


@frozen(kw_only=True)
class MetricsReport:
    """Numbers of one worker since its last report; none: it has gone."""

    values: Mapping[str, float]
