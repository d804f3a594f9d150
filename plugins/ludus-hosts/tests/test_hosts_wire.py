"""Messages between gateway and relay."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.errors import LinkError
from ludus_hosts import wire as _wire
from ludus_hosts.wire import (
    GATEWAY,
    MAX_HOSTS,
    MAX_SAMPLERS,
    Exclude,
    HostLeft,
    HostList,
    JoinAccepted,
    JoinRejected,
    JoinRequest,
    ModelFile,
    ModelRequest,
    Quarantine,
    WeightsAck,
    WeightsUpdate,
    sampler_names,
)
from ludus_local import codec
from ludus_local.supervisor import is_service
from ludus_local.transport import ZmqEndpoint

WORDS = [
    HostList(hosts={"box": 2, "lab": 0}),
    JoinAccepted(run="ludus-run-1-a", config="# ä\n", methods=("lz4",), versions={"ludus": "1.0"}),
    JoinRequest(host="box", token="0f", samplers=3, run="ludus-run-1-a", bulk=True),
    HostLeft(host="box"),
    ModelRequest(hash="a" * 64),
    JoinRejected(reason="no", final=False),
    Exclude(host="box", reason="too many refused messages"),
    Quarantine(hosts={"box": "its results differ"}),
    WeightsAck(learner="learner-main", version=3),
]
CARRIED = [
    ModelFile(hash="a" * 64, parts={"0": np.arange(4, dtype=np.uint8), "4": np.zeros(0, np.uint8)}),
    WeightsUpdate(
        weight_store="learner-main.1.0",
        learner="learner-main",
        version=3,
        weights={"w": np.ones((2, 3), np.float32), "b": np.array(1.5, np.float32)},
    ),
]


@pytest.mark.parametrize("word", WORDS, ids=lambda word: type(word).__name__)
def test_every_message_can_be_sent(word):
    """Every field has a type that is checked, encoded and decoded."""
    assert codec.decode(codec.encode(word)) == word


def test_a_list_of_all_hosts_fits_into_one_message():
    """With the longest names."""
    hosts = {f"{number:064d}": MAX_SAMPLERS for number in range(MAX_HOSTS)}
    assert codec.decode(codec.encode(HostList(hosts=hosts))) == HostList(hosts=hosts)


@pytest.mark.parametrize(("word", "field"), [(CARRIED[0], "parts"), (CARRIED[1], "weights")])
def test_arrays_are_sent(word, field):
    """Unchanged."""
    came = codec.decode(codec.encode(word))
    sent, arrived = getattr(word, field), getattr(came, field)
    assert arrived.keys() == sent.keys()
    for name, array in sent.items():
        np.testing.assert_array_equal(arrived[name], array, strict=True)


def test_all_messages_are_tested():
    """Those that are added too."""
    kinds = {value for value in vars(_wire).values() if getattr(value, "__module__", "") == _wire.__name__}
    assert {type(word) for word in [*WORDS, *CARRIED]} == {kind for kind in kinds if isinstance(kind, type)}


def test_names_of_remote_samplers_are_unique():
    """Whatever the names of hosts; none is equal to a local worker's."""
    names = [name for host in ("0", "a", "a-1", "a-1-0", "1") for name in sampler_names(host, 12)]
    assert len(set(names)) == len(names)
    assert not set(names) & {f"sampler-{number}" for number in range(100)}


def test_the_gateway_is_a_service():
    """By its name; services end last."""
    assert is_service(GATEWAY)
    ZmqEndpoint(GATEWAY).close()
    with pytest.raises(LinkError):
        ZmqEndpoint(GATEWAY.upper())
