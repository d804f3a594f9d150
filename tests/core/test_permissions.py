"""Which worker may send which message to which."""

from __future__ import annotations

import pytest
from ludus import wire
from ludus._messaging import messages as _messages
from ludus._messaging.messages import Checkpoint, FixtureRequest, FreezeRequest, ModelFrozen, Segments, Stop
from ludus._messaging.permissions import PERMISSIONS, WORKERS, check_kind, check_owner
from ludus._messaging.refusals import FORGET_S, MAX_REFUSALS, Refusals
from ludus.errors import WireError
from ludus.launcher import sampler_host, worker_kind

FROZEN = {"number": 1, "hash": "0" * 64, "decisions": 1, "version": 1}
SAVED = {"path": "learners/main/1.safetensors", "hash": "0" * 64, "version": 1, "decisions": 1}
NAMES = {"coordinator": "coordinator", **{kind: f"{kind}-main" for kind in WORKERS}}


def described():
    """Return the triples of sender, receiver and message that the overview of the messages lists."""
    lines = _messages.__doc__.split("::", 1)[1].splitlines()
    for line in filter(None, map(str.strip, lines)):
        sender, _, receiver = (part.strip() for part in line.partition(" (")[0].partition("→"))
        receiver, _, names = receiver.partition(" ")
        yield sender, receiver, [name.strip() for name in names.split(",")]


def allowed(sender, receiver, kind, size=1, **how):
    """Return whether a message is accepted."""
    try:
        check_kind(sender, receiver, kind, size=size, **how)
    except WireError:
        return False
    return True


def test_the_overview_of_the_messages_is_the_table_of_permissions():
    """Except for messages of the launcher, which are sent on behalf of workers."""
    listed = {
        (sender, receiver, name)
        for sender, receiver, names in described()
        if {sender, receiver} <= NAMES.keys()
        for name in names
    }
    own = {kind.__name__ for kind in wire.MESSAGES} - {"Activity", "SamplerLeft"}
    table = {
        (sender, receiver, name)
        for (receiver, name), permission in PERMISSIONS.items()
        if name in own
        for sender in permission.senders
    }
    as_samplers = {(s, r, n) for s, r, n in table if "evaluator" not in (s, r)}
    assert as_samplers == listed
    assert {(s, r, n) for s, r, n in table if "evaluator" in (s, r)} == {
        (*("evaluator" if part == "sampler" else part for part in (s, r)), n)
        for s, r, n in listed
        if "sampler" in (s, r) and "learner" not in (s, r)
    }


@pytest.mark.parametrize("sender", sorted(WORKERS | {"coordinator", "stranger"}))
@pytest.mark.parametrize("kind", [kind.__name__ for kind in wire.MESSAGES])
def test_only_learners_freeze_and_save_and_only_the_coordinator_orders(sender, kind):
    """Whatever the receiver."""
    owners = {"ModelFrozen": "learner", "Checkpoint": "learner", "FreezeRequest": "coordinator", "Stop": "coordinator"}
    receivers = [name for name in NAMES.values() if allowed(f"{sender}-0", name, kind)]
    if kind in owners and sender != owners[kind]:
        assert receivers == []
    if sender == "stranger":
        assert receivers == []


def test_samplers_of_other_hosts_may_send_less():
    """Failures, activities and the notice that a sampler has left come from this host only."""
    for kind, receiver in (("Failure", "coordinator"), ("Activity", "coordinator"), ("SamplerLeft", "learner-main")):
        assert allowed("sampler-box-0", receiver, kind)
        assert not allowed("sampler-box-0", receiver, kind, remote=True)
    for kind in ("Hello", "Heartbeat", "Results", "FixtureRequest", "MetricsReport"):
        assert allowed("sampler-box-0", "coordinator", kind, remote=True)


@pytest.mark.parametrize("kind", ["Hello", "Heartbeat", "FixtureRequest", "SamplerLeft"])
def test_small_messages_must_be_small(kind):
    """Their size is checked before they are decoded."""
    receiver = "learner-main" if kind == "SamplerLeft" else "coordinator"
    assert allowed("sampler-0", receiver, kind, size=2048)
    assert not allowed("sampler-0", receiver, kind, size=2049)


@pytest.mark.parametrize(
    ("sender", "receiver", "message", "is_own"),
    [
        ("learner-main", "coordinator", ModelFrozen(player="main", **FROZEN), True),
        ("learner-main", "coordinator", ModelFrozen(player="other", **FROZEN), False),
        ("learner-main", "coordinator", Checkpoint(player="main", **SAVED), True),
        ("learner-main", "coordinator", Checkpoint(player="other", **SAVED), False),
        ("sampler-0", "learner-main", Segments(player="main", block=1), True),
        ("sampler-0", "learner-main", Segments(player="other", block=1), False),
        ("coordinator", "learner-main", FreezeRequest(player="other", model=1, generation=0), False),
        ("coordinator", "learner-main", Stop(), True),
        ("sampler-0", "coordinator", FixtureRequest(kind="train"), True),
        ("sampler-0", "coordinator", FixtureRequest(kind="eval"), False),
        ("sampler-box-0", "coordinator", FixtureRequest(kind="eval"), False),
        ("sampler-0", "coordinator", FixtureRequest(kind="other"), False),
        ("evaluator-0", "coordinator", FixtureRequest(kind="eval"), True),
        ("evaluator-0", "coordinator", FixtureRequest(kind="train"), False),
    ],
)
def test_messages_concern_their_sender(sender, receiver, message, is_own):
    """A learner its own player, a sampler training, an evaluator rating."""
    if is_own:
        check_owner(sender, receiver, message)
    else:
        with pytest.raises(WireError):
            check_owner(sender, receiver, message)


def test_the_host_of_a_sampler_is_part_of_its_name():
    """Host names may contain hyphens."""
    names = ["sampler-0", "sampler-box-0", "sampler-a-b-12", "evaluator-0", "learner-a-0", "coordinator"]
    assert [sampler_host(name) for name in names] == ["", "box", "a-b", "", "", ""]
    assert [worker_kind(name) for name in names[::2]] == ["sampler", "sampler", "learner"]


def test_a_peer_is_cut_off_at_the_limit_of_refusals():
    """Others are counted apart."""
    refusals = Refusals(lambda: 0.0)
    for _ in range(MAX_REFUSALS - 1):
        refusals.add("a", "wrong")
        refusals.add("b", "wrong")
    assert refusals.take_cut_off() == {}
    refusals.add("a", "the last")
    assert refusals.take_cut_off() == {"a": "the last"}
    assert refusals.take_cut_off() == {}
    assert refusals.total == 2 * MAX_REFUSALS - 1


def test_refusals_are_forgotten():
    """One every ten minutes cuts no peer off."""
    now = 0.0
    refusals = Refusals(lambda: now)
    for _ in range(3 * MAX_REFUSALS):
        refusals.add("a", "wrong")
        now += FORGET_S + 1
    assert refusals.take_cut_off() == {}


def test_the_memory_of_refusals_is_bounded():
    """Names that a peer makes up fill it."""
    refusals = Refusals(lambda: 0.0)
    for number in range(20_000):
        refusals.add(f"sampler-{number}", "wrong")
    assert len(refusals._counts) == len(refusals._last_s) == 16_384
