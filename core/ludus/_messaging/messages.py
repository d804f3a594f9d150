"""Messages between the processes of a run: one frozen attrs class per message.

Fields are str, int, float, bool, tuples of those, nested attrs classes, `Mapping[str, float]`, or `Arrays`; arrays are
sent as raw buffers outside the header. The launcher defines the encoding. It also identifies the sender from the
connection, so no message contains its sender, which could be forged.

::

    sampler     → coordinator   Hello, FixtureRequest, Results, DamagedModel, MetricsReport, Heartbeat, Failure
    coordinator → sampler       Welcome, Fixtures, ResultsAck, Stop
    sampler     → learner       Hello, Segments
    learner     → sampler       Credit
    learner     → coordinator   Hello, ModelFrozen, Checkpoint, DamagedModel, MetricsReport, Heartbeat, Failure
    learner     → coordinator   PeerRefused
    coordinator → learner       Welcome, TrainingProgress, FreezeRequest, ModelAck, CheckpointAck, Stop
    helper      → coordinator   Hello, Heartbeat, Failure
    coordinator → helper        Welcome, Stop
    helper      → learner       HelperHeartbeat
    learner     → helper        FormGroup, BatchShard
    service     → coordinator   Hello, MetricsReport, Heartbeat, Failure
    coordinator → service       Welcome, Stop
    launcher    → learner       SamplerLeft (on behalf of the sampler)
    launcher    → coordinator   MetricsReport (likewise, without values)
    any worker  → launcher      Activity (to the one that supervises it)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from attrs import field, frozen

from ludus.records import Fixture
from ludus.recovery import ResumePoint

if TYPE_CHECKING:
    import numpy as np

#: Named arrays; the codec sends each as one raw buffer with declared dtype and shape.
Arrays: TypeAlias = "Mapping[str, np.ndarray]"


@frozen(kw_only=True)
class Hello:
    """Registers a worker; sent again until it is answered.

    Attributes:
        pid: Process id of the worker.
        block: To a learner: the last block sent to it. A restarted learner counts on from there.
    """

    pid: int = 0
    block: int = 0


@frozen(kw_only=True)
class Welcome:
    """Answers `Hello` of any worker.

    Attributes:
        elapsed_s: Seconds the run has trained, over all resumes.
        other_decisions: For a learner: decisions that the other players have learned from.
        resume: For a learner: the committed state of its player.
    """

    elapsed_s: float = 0.0
    other_decisions: int = 0
    resume: ResumePoint = field(factory=ResumePoint)


@frozen(kw_only=True)
class Failure:
    """Reports the error that ends a worker; `fatal` if a restart would not help."""

    error: str
    fatal: bool = False


@frozen(kw_only=True)
class PeerRefused:
    """Reports a sampler of which a learner has refused too many messages.

    Attributes:
        peer: Worker name of the sampler.
        problem: Why its last message was refused.
    """

    peer: str
    problem: str


@frozen(kw_only=True)
class Stop:
    """Stops a worker, which sends its last results first."""

    reason: str = ""


@frozen(kw_only=True)
class Heartbeat:
    """Reports how much useful work a worker has done; a worker that hangs sends the same count."""

    count: int


@frozen(kw_only=True)
class Activity:
    """Reports what a worker is busy with until its next message, see `ludus.activity`; launchers receive it."""

    text: str
    done: int
    total: int


@frozen(kw_only=True)
class TrainingProgress:
    """Answers a learner's heartbeat.

    Attributes:
        other_decisions: Decisions that the other players have learned from.
    """

    other_decisions: int


@frozen(kw_only=True)
class FixtureRequest:
    """Requests fixtures for a sampler or evaluator."""

    kind: str
    count: int = 1


@frozen(kw_only=True)
class Fixtures:
    """Answers `FixtureRequest`; empty if there is no work at the moment."""

    fixtures: tuple[Fixture, ...]


@frozen(kw_only=True)
class Results:
    """Results of finished matches. Sent again until acknowledged; the coordinator drops those already committed.

    Attributes:
        report: Number of this report, unique per worker process.
        arrays: ``fixture [n] int64``, ``number [n] int64`` (index of the match in its fixture), ``ticks [n] int32``,
            ``outcome [n, teams] float32``; of evaluation matches also ``"statistic/ROLE/NAME" [n, S] float32``; where
            outcomes follow from returns also ``returns [n, seats] float32``.
    """

    report: int
    arrays: Arrays


@frozen(kw_only=True)
class ResultsAck:
    """Acknowledges a report: its results are committed."""

    report: int


@frozen(kw_only=True)
class Segments:
    """A block: segments of one player. Uses one credit.

    Attributes:
        player: Player that learns from the block.
        block: Number of the block, counted per worker process and player.
        pid: Process id of the worker.
        arrays: Those of `SegmentBatch.arrays()`; not written to until a `Credit` releases the block.
    """

    player: str
    block: int
    pid: int = 0
    arrays: Arrays = field(factory=dict)


@frozen(kw_only=True)
class SamplerLeft:
    """A sampler has left the run. Its next block registers it again.

    Attributes:
        excluded: Whether it was excluded; its queued segments are dropped then.
    """

    excluded: bool = False


@frozen(kw_only=True)
class Credit:
    """Acknowledges blocks, grants further ones, and brings newer weights.

    Attributes:
        player: Player that the learner learns.
        acked: Highest acknowledged block.
        credits: Blocks that may be sent and not yet acknowledged.
        version: Current weights version.
        pid: Process id of the sampler that sent the blocks; other processes of its name ignore the counts.
        released: Highest block of which nothing is read any more.
        progress: Share of the training budget used, in [0, 1].
        weights: The weights; empty if the sampler has this version or reads shared memory.
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
    """Reports that a helper is running; sent at regular intervals.

    Attributes:
        pid: Process id of the helper.
        group_id: Last process group it was invited to; 0 before the first.
        connected: Whether it is a member of that group.
    """

    pid: int
    group_id: int = 0
    connected: bool = False


@frozen(kw_only=True)
class FormGroup:
    """Invites a helper to a process group (`ludus.group.Group`).

    Attributes:
        group_id: Id of the group.
        rank: Rank of the helper.
        size: Number of processes.
    """

    group_id: int
    rank: int
    size: int


@frozen(kw_only=True)
class BatchShard:
    """Segments of a helper's shard of the batch of the next update.

    Attributes:
        group_id: Process group that computes the update.
        progress: Share of the training budget used, in [0, 1].
        more: Whether further messages with segments of this shard follow.
        arrays: Those of `SegmentBatch.arrays()`.
    """

    group_id: int
    progress: float
    more: bool
    arrays: Arrays


@frozen(kw_only=True)
class FreezeRequest:
    """Requests a model of a player's weights, and a player reset if `generation` is the next one.

    Attributes:
        player: Player to freeze.
        model: Number of the model; ignored if there is one of this number.
        generation: Generation after the request.
        init: Hash of the model that the generation starts from; empty for the start weights of the run.
        reason: Why the rule requests it.
    """

    player: str
    model: int
    generation: int
    init: str = ""
    reason: str = ""


@frozen(kw_only=True)
class ModelFrozen:
    """A learner has written a model file; the coordinator adds it to the league.

    Attributes:
        player: Player that owns the model.
        number: Number of the model.
        hash: SHA-256 of the file.
        decisions: Decisions behind the weights.
        version: Version of the weights.
        generation: Generation of the player from now on; the next one before a reset.
        init: Hash of the model that this generation starts from, as requested.
        reason: Reason of the request; empty without a request.
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
    """Acknowledges a model: it is committed.

    Attributes:
        number: Number of the model.
        models: Models that the player has now.
    """

    number: int
    models: int


@frozen(kw_only=True)
class Checkpoint:
    """A learner has written a checkpoint; the coordinator makes it the one to resume from.

    Attributes:
        player: Player that owns the checkpoint.
        path: Path of the file, relative to the run folder.
        hash: SHA-256 of the file.
        version: Version of the weights.
        decisions: Decisions behind the weights.
    """

    player: str
    path: str
    hash: str
    version: int
    decisions: int


@frozen(kw_only=True)
class CheckpointAck:
    """Acknowledges a checkpoint: it is committed.

    Attributes:
        path: Path of the checkpoint, relative to the run folder.
        kept: File names of the checkpoints that the league refers to; the others may be deleted.
    """

    path: str
    kept: tuple[str, ...] = ()


@frozen(kw_only=True)
class DamagedModel:
    """A worker cannot load a model, because its file is missing or damaged.

    Attributes:
        hash: Hash of the model.
    """

    hash: str


@frozen(kw_only=True)
class MetricsReport:
    """Metrics of a worker since its last report; no values if the worker has left."""

    values: Mapping[str, float]
