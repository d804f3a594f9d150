"""Parts of the fuzzers, a short campaign on every kind of message, and handlers that are broken on purpose."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fuzz import __main__ as command, worker
from fuzz.campaign import Campaign
from fuzz.engines import run_hypothesis
from fuzz.examples import examples, kinds
from fuzz.inputs import Input, pack, unpack
from fuzz.league import train
from fuzz.mutation import Mutator
from fuzz.replay import replay
from fuzz.routes import routes
from fuzz.stage import Stage
from fuzz.table import table
from fuzz.target import Target
from fuzz.values import Values
from hypothesis import given, settings, strategies as st
from ludus._league.membership import Membership
from ludus.errors import WireError
from ludus.wire import MESSAGES, Heartbeat
from ludus_local import codec

_INPUTS = 128  # per kind; the first 64 are equal, since hypothesis begins with the simplest example


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a trained league."""
    return train(tmp_path_factory.mktemp("fuzz") / "trained")


@pytest.fixture(scope="module")
def receivers():
    """Return the receivers that all targets share, and close them in the end."""
    made = {}
    yield made
    for receiver in made.values():
        receiver.close()


@pytest.fixture
def target(trained, receivers, tmp_path_factory):
    """Return a factory of targets."""
    folder = tmp_path_factory.mktemp("receivers")
    return lambda kind: Target(kind, trained, folder / kind, lambda _finding, _data: None, receivers)


def fuzz(target, trained, count=_INPUTS):
    """Deliver inputs of hypothesis, and return what they did, one line each."""
    messages = examples(target.kind, trained)
    run_hypothesis(target, messages, Values.of(trained), count=count, seed=5)
    return [f"{finding.route}: {finding.what}" for finding in target.findings]


def frames_of(message):
    """Return the frames of a message as bytes."""
    return tuple(bytes(frame) for frame in codec.encode(message))


def compute(seconds):
    """Use so much CPU time."""
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def test_every_kind_of_message_has_a_target():
    """Also one that is added: its permissions are its routes."""
    assert {kind.__name__ for kind in MESSAGES} <= set(kinds())
    assert [kind for kind in kinds() if not any(route.is_allowed for route in routes(kind))] == []


@pytest.mark.parametrize("kind", kinds())
def test_hostile_messages_do_no_harm(target, trained, kind):
    """They are refused or handled within their limits."""
    made = target(kind)
    assert fuzz(made, trained) == []
    assert made.count == _INPUTS


@pytest.mark.parametrize("kind", kinds())
def test_valid_messages_reach_the_handler(target, trained, kind):
    """Otherwise fuzzers would only try what refuses messages."""
    made = target(kind)
    for message in examples(kind, trained):
        for route in range(len(made.routes)):
            made.run(Input(8 * route, live=False, frames=frames_of(message)))
    assert made.findings == {}
    assert made.stages[Stage.HANDLED] > 0


def test_valid_messages_are_handled_where_they_are_allowed(target, trained):
    """On every route that is allowed, of which each input chooses one."""
    made = target("Heartbeat")
    for number in range(8 * len(made.routes)):
        made.run(Input(number, live=False, frames=frames_of(Heartbeat(count=3))))
    assert made.stages[Stage.HANDLED] == 7 * len(made.routes)
    assert made.stages[Stage.UNREAD] == len(made.routes)


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (lambda self, worker, message: {}[worker], "raised KeyError"),
        (lambda self, worker, message: compute(1.1), "s of CPU time"),
        (lambda self, worker, message: bytearray(100 * 2**20), "MiB of memory"),
        (lambda self, worker, message: self.league.set_decisions("main", 10**6), "belongs to another worker"),
    ],
    ids=["exception", "time", "memory", "owner"],
)
def test_a_broken_handler_is_found(target, trained, monkeypatch, broken, found):
    """If it raises, takes too long or too much memory, or lets a sampler change what belongs to a learner."""
    made = target("Heartbeat")
    monkeypatch.setattr(Membership, "heartbeat", broken)
    number = next(i for i, route in enumerate(made.routes) if route.sender == "sampler-0")
    made.run(Input(8 * number, live=False, frames=frames_of(Heartbeat(count=3))))
    made.receivers["coordinator"].verify()
    assert found in "".join(finding.what for finding in made.findings)


@given(st.binary(max_size=64))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_an_input(data):
    """Its encoding stands for the same input."""
    one = unpack(data)
    assert unpack(pack(one)) == Input(one.route, one.live, one.frames)


def test_many_mutations_are_still_messages(trained):
    """Otherwise none would reach a handler."""
    valid = [pack(Input(0, live=False, frames=frames_of(message))) for message in examples("Results", trained)]
    mutator = Mutator(Values.of(trained), valid, lambda data, size: data[:size])
    decoded, different = 0, set()
    for seed in range(500):
        data = mutator(random.Random(seed).choice(valid), 64 * 1024, seed)
        different.add(data)
        try:
            codec.decode(unpack(data).frames)
        except WireError:
            continue
        decoded += 1
    assert decoded > 150
    assert len(different) > 200


@pytest.mark.slow
def test_atheris_fuzzes_in_a_process_of_its_own(tmp_path):
    """Its report has as many inputs as were requested."""
    pytest.importorskip("atheris", reason="there is no atheris for this version of Python")
    lines = []
    campaign = Campaign(out=tmp_path, count=300, seed=1, jobs=1, print_line=lines.append)
    campaign.run(["TrainingProgress"], ["atheris"])
    assert lines == []
    assert campaign.is_clean
    assert sum(campaign.reports[0]["stages"].values()) == 300
    assert campaign.reports[0]["stages"]["HANDLED"] > 30


def test_a_process_that_dies_is_a_finding(tmp_path, monkeypatch):
    """A crash of the interpreter must not pass for a clean run."""
    lines = []
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    campaign = Campaign(out=tmp_path, count=1, seed=1, jobs=1, print_line=lines.append)
    campaign.run(["Heartbeat"], ["hypothesis"])
    assert lines == [
        f"Heartbeat, hypothesis: the process ended without a report; 1 inputs, see {tmp_path / 'hypothesis.log'}"
    ]
    assert not campaign.is_clean


def test_a_child_that_dies_is_a_finding(trained, tmp_path, monkeypatch):
    """Its report names the signal and the last line that it wrote; the next kind is fuzzed all the same."""

    def die(self, count, trained, folder):
        os.write(2, b"first\nlast\n")
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(worker.Campaign, "run", die)
    campaign = worker.Campaign(engine="hypothesis", kind="Stop", seed=1, out=tmp_path)
    worker.run_child(campaign, 1, trained, tmp_path / "receivers")
    report = json.loads((tmp_path / "Stop-hypothesis.json").read_text(encoding="utf-8"))
    assert [finding["what"] for finding in report["findings"]] == ["the process ended with status -9: last"]


def test_finished_kinds_are_not_fuzzed_again(tmp_path, monkeypatch):
    """So that a campaign of hours can be continued."""
    report = {"kind": "Stop", "engine": "hypothesis", "stages": {"HANDLED": 5}, "seconds": 1.0, "findings": []}
    (tmp_path / "Stop-hypothesis.json").write_text(json.dumps(report), encoding="utf-8")
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    campaign = Campaign(out=tmp_path, count=5, seed=1, jobs=1, print_line=print)
    campaign.run(["Stop"], ["hypothesis"])
    assert campaign.reports == [report]


def test_a_missing_atheris_is_one_line(monkeypatch, capsys):
    """Hypothesis is used alone then."""
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert command._engines("both") == ["hypothesis"]
    assert capsys.readouterr().out.startswith("atheris is not installed (Python 3.")


def test_an_input_is_delivered_again(tmp_path, capsys):
    """From the file of a finding."""
    path = tmp_path / "x.hex"
    path.write_text(pack(Input(0, live=False, frames=(b"no message",))).hex(), encoding="ascii")
    assert replay("Stop", path) == 0
    assert capsys.readouterr().out == "refused by the decoder\n"


def test_the_table_sums_by_fuzzer():
    """One row per kind, then all kinds together."""
    stages = {"UNREAD": 1000, "UNDECODED": 500, "REFUSED": 300, "HANDLED": 200}
    report = {"kind": "Hello", "engine": "atheris", "stages": stages, "seconds": 2.0, "findings": []}
    lines = table([report, {**report, "kind": "Stop"}]).splitlines()
    assert lines[2] == "| Hello | atheris | 2,000 | 500 | 200 | 0 | 1,000 |"
    assert lines[4] == "| all | atheris | 4,000 | 1,000 | 400 | 0 | 1,000 |"


def test_unknown_kinds_are_a_usage_error():
    """The message names those that there are."""
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "1", "--kinds", "Nothing"],
        cwd=Path(__file__).parents[2] / "benchmarks",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "unknown kinds Nothing; there are Hello," in done.stderr
