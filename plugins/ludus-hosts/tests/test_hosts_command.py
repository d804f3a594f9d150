"""`ludus keys` prints the next commands; `ludus join` reports errors at once."""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack

import pytest
from click.testing import CliRunner
from ludus._store.store import Store
from ludus.errors import ConfigError, LinkError
from ludus_hosts import command
from ludus_hosts.command import join, keys
from ludus_hosts.config import HostsConfig
from ludus_hosts.keys import RUN_KEY, JoinKey, RunKey
from ludus_hosts.relay import Relay


def run(what, *arguments):
    """Return the result of a command; its error is an answer."""
    return CliRunner().invoke(what, [str(argument) for argument in arguments])


def commands(output):
    """Return the command lines that a text shows."""
    return [shlex.split(line.partition(":")[2]) for line in output.splitlines() if line.startswith("  ")]


def test_keys_prints_the_next_commands(tmp_path, monkeypatch):
    """With default files the commands are short."""
    monkeypatch.chdir(tmp_path)
    result = run(keys)
    assert result.exit_code == 0
    assert f"wrote keys/{RUN_KEY}: stays on the machine of the run" in result.output
    assert "wrote keys/join.key: copy it to machines that join, and keep it secret" in result.output
    here, there = commands(result.output)
    assert here == ["ludus", "train", "RUN.TOML", "--set", "run.launcher=hosts"]
    assert there == ["ludus", "join", "tcp://HERE:7077", "--key", "join.key"]
    assert str(tmp_path / "keys" / RUN_KEY) == str(tmp_path / HostsConfig().key)
    RunKey.read(tmp_path / HostsConfig().key)


def test_keys_in_another_folder_are_named(tmp_path):
    """The printed commands contain the folder and the name of the key."""
    result = run(keys, tmp_path / "secret", "--name", "lab")
    here, there = commands(result.output)
    assert here[-2:] == ["--set", f"run.hosts.key={tmp_path / 'secret' / RUN_KEY}"]
    assert there[-1] == "lab.key"
    assert JoinKey.read(tmp_path / "secret" / "lab.key").run == RunKey.read(tmp_path / "secret" / RUN_KEY).public


def test_the_printed_commands_exist(tmp_path):
    """With their options."""
    _, there = commands(run(keys, tmp_path / "keys").output)
    context = join.make_context("join", there[2:])
    assert (context.params["address"], str(context.params["key"])) == ("tcp://HERE:7077", "join.key")


def test_a_second_key_needs_a_name(tmp_path):
    """The error names the option."""
    assert run(keys, tmp_path).exit_code == 0
    assert isinstance(run(keys, tmp_path).exception, ConfigError)
    assert run(keys, tmp_path, "--name", "other").exit_code == 0
    assert sorted(RunKey.read(tmp_path / RUN_KEY).allowed) == ["join", "other"]


@pytest.mark.parametrize("what", [join, keys], ids=["join", "keys"])
def test_every_option_has_a_help_text(what):
    """Next to its name."""
    options = [parameter for parameter in what.params if parameter.param_type_name == "option"]
    shown = " ".join(run(what, "--help").output.split())
    for option in options:
        assert option.opts[0] in shown
        assert option.help in shown


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["10.0.0.1:7077"], r"^address '10\.0\.0\.1:7077': expected tcp://HOST:PORT"),
        (["tcp://10.0.0.1:7077", "--name", "Big Box"], r"^--name 'Big Box': expected a name of"),
        (["tcp://10.0.0.1:7077", "--key", "missing.key"], r"^key file missing\.key: No such file"),
    ],
)
def test_join_reports_errors(keys, monkeypatch, arguments, error):
    """Before anything is started or made."""
    monkeypatch.chdir(keys)
    before = sorted(keys.iterdir())
    result = run(join, *arguments)
    assert isinstance(result.exception, ConfigError)
    assert re.search(error, str(result.exception))
    assert sorted(keys.iterdir()) == before


def test_a_folder_with_other_files_is_rejected(tmp_path):
    """A run folder, for example; the folder of an earlier join is used again."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    command._prepare(mine)
    (mine / "logs").mkdir()
    command._prepare(mine)
    other.mkdir()
    (other / "run.toml").touch()
    with pytest.raises(ConfigError, match=r"^--folder .*other: expected an empty folder, or one made"):
        command._prepare(other)


def test_a_given_folder_is_not_removed(tmp_path, monkeypatch):
    """Not even among temporary folders with a similar name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = tmp_path / "ludus-join-mine"
    for folder in (mine, None):
        with command._prepared(folder):
            assert mine.exists()


@pytest.mark.parametrize(
    ("error", "logs", "left"),
    [
        (LinkError("it is full"), False, []),
        (LinkError("it is full"), True, ["logs", "logs/sampler-box-0.log"]),
        (KeyboardInterrupt(), True, []),
    ],
)
def test_only_logs_are_kept_after_a_failure(keys, tmp_path, monkeypatch, error, logs, left):
    """Frozen models would fill the disk. A second Ctrl-C keeps nothing."""

    def end(relay):
        folder = relay._options.folder
        (folder / "run.toml").touch()
        (folder / "models").mkdir()
        (folder / "models" / "x.safetensors").touch()
        if logs:
            (folder / "logs").mkdir()
            (folder / "logs" / "sampler-box-0.log").touch()
        raise error

    monkeypatch.setattr(Relay, "_run_once", end)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(join, "tcp://127.0.0.1:7077", "--key", keys / "join.key").exit_code == 1
    place = next(tmp_path.glob("ludus-join-*"), tmp_path / "none")
    assert sorted(str(path.relative_to(place)) for path in place.glob("**/*")) == left
    assert place.exists() == bool(left)


@pytest.fixture
def joining(keys, tmp_path, eventually):
    """Return a starter of processes that wait for a run that there is not, with their temporary folder."""
    with ExitStack() as stack:

        def start(stdout=subprocess.DEVNULL):
            known = set(tmp_path.glob("ludus-join-*"))
            process = subprocess.Popen(
                [sys.executable, "-m", "ludus", "join", "tcp://127.0.0.1:1", "--key", str(keys / "join.key")],
                stdout=stdout,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "TMPDIR": str(tmp_path)},
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509 - nohup is inherited
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            (mark,) = eventually(lambda: [p for p in tmp_path.glob("*/.temporary") if p.parent not in known])
            return process, mark.parent

        yield start


def test_folders_of_killed_processes_are_removed_by_the_next(joining):
    """Those of running processes and other files stay."""
    killed, left = joining()
    killed.kill()
    killed.wait()
    _, first = joining()
    assert not left.exists()
    _, second = joining()
    assert first.exists()
    assert second.exists()


def test_a_closed_terminal_does_not_stop_a_join(joining):
    """Its folder is removed at the end."""
    master, terminal = pty.openpty()
    process, folder = joining(terminal)
    os.close(terminal)
    os.close(master)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(7)  # after 5 seconds the command reports that the run does not answer
    process.send_signal(signal.SIGHUP)
    assert process.wait(20) == 141
    assert not folder.exists()


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("", "host"),
        ("..", "host"),
        ("Big_Box.local", "big_box.local"),
        ("x" * 70, "x" * 64),
        ("Ünsere Kiste", "nsere-kiste"),
    ],
)
def test_the_default_name_is_the_host_name(monkeypatch, host, name):
    """With invalid characters replaced."""
    monkeypatch.setattr(command.socket, "gethostname", lambda: host)
    assert command._host_name() == name


def test_a_quarantined_machine_is_shown_and_released(tmp_path):
    """The request waits in the run folder."""
    folder = tmp_path / "run"
    with Store.create(folder, {}) as store:
        store.set_meta("quarantined_hosts", {"box": "box is quarantined"})
        store.commit()
    runner = CliRunner()
    assert runner.invoke(command.release, [str(folder)]).output == "box is quarantined\n"
    assert "box may join again" in runner.invoke(command.release, [str(folder), "box"]).output
    assert (folder / "requests" / "release-box").exists()
    failed = runner.invoke(command.release, [str(folder), "lab"])
    assert "machine 'lab' is not quarantined; quarantined are: box" in str(failed.exception)
