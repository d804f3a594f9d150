"""Samplers of another machine take part in a run; here it is the same machine by another way."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from contextlib import suppress

import pytest
from attrs import define, field
from chaos.processes import is_alive, processes, wait
from ludus_hosts.keys import make_keys


@define
class Joined:
    """A `ludus join` process; its output goes to a file."""

    address: str
    key: str
    folder: object
    options: tuple = ()
    environment: dict = field(factory=dict)
    process: subprocess.Popen = None

    def start(self):
        with self.path.open("ab") as output:
            arguments = ["join", self.address, "--key", str(self.key), "--name", "elsewhere", "--samplers", "1"]
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ludus", *arguments, "--folder", str(self.folder), *self.options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", **self.environment},
            )
        return self

    @property
    def path(self):
        return self.folder.with_name("joined.out")

    @property
    def output(self):
        return self.path.read_text(encoding="utf-8")

    @property
    def pids(self):
        return processes(self.process.pid)

    def waits_for(self, text):
        wait(lambda: text in self.output or self.process.poll() is not None, timeout_s=60)
        assert text in self.output

    def ends(self):
        return self.process.wait(60)

    def close(self):
        for pid in [*self.pids.values(), self.process.pid] if self.process.poll() is None else ():
            with suppress(ProcessLookupError):  # the process ended with another one
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def address():
    """Return a free address, with a port that the system does not assign by itself."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return f"tcp://127.0.0.1:{port}"


@pytest.fixture
def run(light_league, address, tmp_path):
    """Return a run that other hosts may join."""
    make_keys(tmp_path / "keys", "join")
    hosts = (f"run.hosts.listen={address}", f"run.hosts.key={tmp_path / 'keys' / 'run.key'}")
    return light_league("run.launcher=hosts", *hosts)


@pytest.fixture
def joined(address, tmp_path, run):
    """Return a maker of hosts that join."""
    made = []

    def make(*options, key=tmp_path / "keys" / "join.key", **environment):
        made.append(Joined(address, key, tmp_path / "elsewhere", options, environment).start())
        return made[-1]

    yield make
    for one in made:
        one.close()


def wait_for_progress(run):
    """Wait until further matches were played and learned from."""
    before = run.state
    run.wait_for(
        lambda now: now.trained > before.trained and now.learned["decisions/main_agent"] > sum(before.learned.values())
    )


@pytest.mark.slow
def test_a_remote_sampler_plays(run, joined):
    """The only running sampler is remote; it plays against frozen models whatever is killed, and leaves."""
    run.train()
    there = joined()
    there.waits_for("elsewhere takes part with 1 sampler")
    wait(lambda: "elsewhere takes part with 1 sampler" in run.output)
    run.wait_for(lambda now: len(now.models) >= 2)
    os.kill(run.pids["sampler-0"], signal.SIGSTOP)  # for less than stall_s
    wait_for_progress(run)
    wait(lambda: any((there.folder / "models").iterdir()))
    os.kill(there.pids["sampler-elsewhere-0"], signal.SIGKILL)
    there.waits_for("sampler-elsewhere-0: was killed by signal 9 — restarted")
    wait_for_progress(run)
    for name in ("service-gateway", "learner-main_agent"):
        os.kill(run.pids[name], signal.SIGKILL)
        wait(lambda line=f"{name}: was killed by signal 9 — restarted": line in run.output)
        wait_for_progress(run)
    os.kill(run.pids["sampler-0"], signal.SIGCONT)
    there.process.send_signal(signal.SIGINT)
    assert there.ends() == 130
    assert there.output.endswith("SIGINT: leaving the run (again: at once)\nleft the run: interrupted\n")
    wait(lambda: "elsewhere does not take part any more" in run.output)
    wait_for_progress(run)
    assert run.problems() == []


@pytest.mark.slow
def test_a_host_waits_for_its_run(run, joined):
    """It may start first, goes on with a resumed run, and ends when the run is stopped."""
    there = joined()
    there.waits_for("waiting for the run at")
    run.train()
    there.waits_for("takes part")
    wait(lambda: "elsewhere takes part" in run.output)
    wait_for_progress(run)
    before = set(run.pids.values())
    run.process.kill()
    run.process.wait()
    wait(lambda: not any(map(is_alive, before)))
    run.resume()
    there.waits_for("the run was started again")
    wait(lambda: run.output.count("elsewhere takes part") >= 2)
    wait_for_progress(run)
    pids = list(there.pids.values())
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(60) == 130
    assert there.ends() == 0
    assert "left the run: " in there.output
    assert "did not finish in time" not in run.output
    assert not any(map(is_alive, pids))
    assert run.problems() == []


def test_a_rejected_key_is_reported(run, joined, tmp_path):
    """By one line and status 1; the run goes on."""
    run.train()
    make_keys(tmp_path / "others", "join")
    key = tmp_path / "keys" / "join.key"
    listed = tmp_path / "keys" / "run.key"
    allowed = listed.read_text()
    listed.write_text(allowed.replace(allowed.split('"join": "')[1][:40], "x" * 40))
    there = joined(key=key)
    assert there.ends() == 1
    assert there.output.splitlines()[-1].startswith("error: the run rejects this key")
    listed.write_text(allowed)
    wait_for_progress(run)


def test_a_host_without_a_plugin_cannot_join(run, joined):
    """It reports what is missing; the run goes on."""
    run.train()
    there = joined(LUDUS_BLOCK_PLUGINS="dummy")
    assert there.ends() == 1
    assert "error: " in there.output
    assert "dummy-count" in there.output
    wait_for_progress(run)
