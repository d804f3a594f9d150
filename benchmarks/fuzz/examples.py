"""Valid messages of every kind, from which fuzzers start."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np
from attrs import evolve
from ludus._messaging import messages as new
from ludus.environment import Scenario
from ludus.launcher import COORDINATOR, worker_kind
from ludus.records import Fixture
from ludus.recovery import ResumePoint
from ludus.wire import Message
from ludus_hosts import wire
from ludus_local.block_transfer import LZ4, BlockReference, encode_block
from ludus_local.codec import registered_kinds
from ludus_local.link import CapabilitiesRequest, LinkCapabilities, WeightStoreUnavailable
from ludus_local.memory import ArraySpec

from fuzz.league import Trained, shard_arrays

_SHA = "0" * 64


def welcome_of(worker: str) -> Iterator[tuple[str, Message]]:
    """Yield the messages, as (sender, message), after which a worker takes part in the league."""
    yield COORDINATOR, new.Welcome()
    if worker_kind(worker) == "learner":
        for sampler in ("sampler-0", "sampler-box-0"):
            yield sampler, new.Hello(pid=os.getpid())


def examples(kind: str, trained: Trained) -> list[Message]:
    """Return valid messages of a kind: those that the workers of the league have sent, and made ones.

    Args:
        kind: Class name of the message.
        trained: The league.
    """
    recorded = [message for _, _, message in trained.sent if type(message).__name__ == kind]
    makers = (_of_workers, _of_learners, _of_links, _of_hosts, *((_of_helpers,) if kind == "BatchShard" else ()))
    made = [message for make in makers for message in make(trained) if type(message).__name__ == kind]
    return [*recorded, *made]


def kinds() -> list[str]:
    """Return the class names of all messages that workers, links, gateways and relays exchange."""
    return [kind.__name__ for kind in registered_kinds()]


def _of_workers(trained: Trained) -> Iterator[Message]:
    yield new.Failure(error="the environment has ended")
    yield new.PeerRefused(peer="sampler-9", problem="a block of another layout")
    yield new.Stop(reason="enough")
    yield new.Hello(pid=os.getpid(), block=3)
    yield new.Activity(text="starting matches", done=3, total=10)
    yield from (new.DamagedModel(hash=digest) for digest in trained.hashes)
    live = Fixture(
        id=10**6, kind="train", player="main", participants=("main@2+", "other@2"), seed=7, matches=4, reason="fuzz"
    )
    frozen = dict(zip(trained.participants, trained.hashes, strict=True))
    models = {name: digest for name, digest in frozen.items() if name in live.participants}
    yield new.Fixtures(fixtures=(evolve(live, models=models), evolve(live, participants=("random", "main@2+"))))
    yield new.Fixtures(fixtures=(evolve(live, scenario=Scenario(name="default", parameters={"x": 0.5})),))


def _of_learners(trained: Trained) -> Iterator[Message]:
    first = trained.hashes[0]
    yield new.SamplerLeft(excluded=True)
    yield new.SamplerLeft()
    yield new.FreezeRequest(player="main", model=99, generation=0, reason="rule")
    yield new.FreezeRequest(player="main", model=99, generation=1, init=first, reason="reset")
    yield new.HelperHeartbeat(pid=os.getpid(), group_id=1, connected=True)
    yield new.FormGroup(group_id=1, rank=1, size=2)
    yield new.Welcome(elapsed_s=1.0, resume=ResumePoint(models=2, model=first, model_version=5, model_decisions=300))


def _of_helpers(_trained: Trained) -> Iterator[Message]:
    for more in (True, False):
        yield new.BatchShard(group_id=1, progress=0.5, more=more, arrays=shard_arrays())


def _blocks(trained: Trained) -> Sequence[new.Segments]:
    return [message for _, _, message in trained.sent if isinstance(message, new.Segments)]


def _of_links(trained: Trained) -> Iterator[Message]:
    spec = {"w": ArraySpec(dtype="<f4", shape=(3,))}
    yield LinkCapabilities(methods=("shared-memory", LZ4), weight_store="learner-main.1.0", layout=spec)
    yield WeightStoreUnavailable()
    yield CapabilitiesRequest()
    for block in _blocks(trained):
        packed = encode_block(block, None, (LZ4,))
        if isinstance(packed, BlockReference):
            yield packed
            yield evolve(packed, arrays={}, compression="", buffer=f"sampler-0.{os.getpid()}.0", segments=1)


def _of_hosts(trained: Trained) -> Iterator[Message]:
    yield wire.JoinRequest(host="box", token="a", samplers=2, run="ludus-run")
    yield wire.JoinRequest(host="box", token="a", samplers=2, run="ludus-run", bulk=True)
    yield wire.JoinAccepted(run="ludus-run", config="")
    yield wire.JoinAccepted(run="ludus-run-2", config="[run]\nseed = 1\n", methods=(LZ4,), versions={"ludus": "0"})
    yield wire.JoinRejected(reason="the run is stopping", final=False)
    yield wire.HostLeft(host="box", reason="a game is missing")
    weights = {"policy": np.zeros((4, 2), np.float32), "value": np.zeros(4, np.float32)}
    yield wire.WeightsUpdate(learner="learner-main", weight_store="learner-main.1.0", version=3, weights=weights)
    yield wire.WeightsAck(learner="learner-main", version=3)
    yield from (wire.ModelRequest(hash=digest) for digest in (*trained.hashes, _SHA))
    yield wire.ModelFile(hash=_SHA, parts={"000000000000": np.zeros(16, np.uint8)})
    yield wire.HostList(hosts={"box": 2}, refusals={"den": "no game"})
    yield wire.Exclude(host="box", reason="refused messages")
    yield wire.Quarantine(hosts={"box": "differs"})
