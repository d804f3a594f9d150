"""A loss of power at any moment loses nothing that was committed.

The system calls of a run are recorded and replayed on a model of a disk that keeps only what was synced: the content of
a file once the file was, and the names in a folder once the folder was.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import define, field, frozen
from ludus._store.model_files import check_checkpoint, check_model, load_manifest
from ludus._store.store import Store
from ludus.errors import LudusError
from ludus.runs import find_damage, open_run
from tomli_w import dumps as write_toml

SCRIPT = Path(__file__).with_name("power_loss_run.py")
WRITES = "write,pwrite64,ftruncate"
NAMES = "open,openat,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir"
OTHERS = "writev,pwritev,pwritev2,truncate,fallocate,link,linkat,symlink,symlinkat,copy_file_range,sync_file_range"
CALL = re.compile(r"\d+ +(\w+)\((.*)\) += (-?\d+)(?:<[^>]*>)?(?: .*)?")
TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"|<((?:\\x[0-9a-f]{2})*)>')


@frozen
class Call:
    """A system call: its name, the paths and other texts among its arguments, and its last arguments as numbers."""

    name: str
    texts: tuple[bytes, ...]
    numbers: tuple[int, ...]
    flags: str

    @property
    def path(self):
        """Return the first path."""
        return os.fsdecode(self.texts[0])


def parse(line):
    """Return the call of a line of strace; None for one that failed or changes no file."""
    match = CALL.fullmatch(line.strip())
    if match is None or int(match[3]) < 0:
        return None
    texts = tuple(bytes.fromhex((one or two).replace("\\x", "")) for one, two in TEXT.findall(match[2]))
    rest = TEXT.sub("", match[2])
    numbers = tuple(int(number) for number in re.findall(r"(?<=, )\d+", rest))
    return Call(match[1], texts, (*numbers, int(match[3])), rest)


def joined(lines):
    """Yield the lines of strace with calls that another thread interrupted in one line."""
    started = {}
    for line in lines:
        thread, _, rest = line.partition(" ")
        if rest.rstrip().endswith("<unfinished ...>"):
            started[thread] = line.rstrip().removesuffix("<unfinished ...>")
        elif resumed := re.match(r" *<\.\.\. \w+ resumed>(.*)", rest):
            yield started.pop(thread) + resumed[1]
        else:
            yield line


def _path(texts):
    """Return the path of texts: a folder that a path is relative to, if there is one, and the path."""
    return str(Path(*map(os.fsdecode, texts)))


@define(eq=False)
class File:
    """Content of a file: what is on the disk, and the writes since it was synced."""

    synced: bytes = b""
    pending: list = field(factory=list)  # (offset, data); data None: truncate to the offset

    def content(self, keep):
        """Return the content after those of the pending writes for which `keep()` is true."""
        data = bytearray(self.synced)
        for offset, written in self.pending:
            if not keep():
                continue
            if written is None:
                del data[offset:]
                data.extend(bytes(offset - len(data)))
            else:
                data.extend(bytes(max(offset - len(data), 0)))
                data[offset : offset + len(written)] = written
        return bytes(data)

    @property
    def size(self):
        """Return the size that programs see."""
        return len(self.content(lambda: True))

    def sync(self):
        """Write everything to the disk."""
        self.synced, self.pending = self.content(lambda: True), []


class Disk:
    """A disk that keeps what was synced.

    Args:
        root: Folder that exists before.
    """

    def __init__(self, root):
        self.root = str(root)
        self.names = {self.root: {}}  # folder → name → File, or None for a folder
        self.synced_names = {self.root: {}}

    def apply(self, call):
        """Apply a call to files below the root."""
        name = call.name
        if name in {"open", "openat", "creat"}:
            self._open(call)
        elif name in {"mkdir", "mkdirat"}:
            if path := self._inside(_path(call.texts)):
                self._entry(path, None)
                self.names[path] = {}
        elif name.startswith("rename"):
            source, target = (self._inside(os.fsdecode(text)) for text in self._two_paths(call))
            if source and target:
                folder, _, base = source.rpartition("/")
                self._entry(target, self.names[folder].pop(base))
        elif name.startswith("unlink"):
            if path := self._inside(_path(call.texts)):
                folder, _, base = path.rpartition("/")
                self.names[folder].pop(base)
        elif path := self._inside(call.path):
            self._write(call, path)

    @staticmethod
    def _two_paths(call):
        return call.texts if len(call.texts) == 2 else call.texts[1::2]

    def _inside(self, path):
        return path if f"{path}/".startswith(f"{self.root}/") else ""

    def _entry(self, path, file):
        folder, _, base = path.rpartition("/")
        self.names[folder][base] = file

    def _file(self, path):
        folder, _, base = path.rpartition("/")
        return self.names.get(folder, {}).get(base)

    def _open(self, call):
        path = self._inside(_path(call.texts[: 1 if call.name == "open" else 2]))
        if path and "O_CREAT" in call.flags and self._file(path) is None:
            self._entry(path, File())
        if path and "O_TRUNC" in call.flags:
            self._file(path).pending.append((0, None))

    def _write(self, call, path):
        if call.name in {"fsync", "fdatasync"}:
            if path in self.names:
                self.synced_names[path] = dict(self.names[path])
            elif file := self._file(path):
                file.sync()
        elif call.name == "ftruncate":
            self._file(path).pending.append((call.numbers[0], None))
        elif call.name == "pwrite64":
            self._file(path).pending.append((call.numbers[1], call.texts[1][: call.numbers[-1]]))
        elif call.name == "write":  # all that the run writes in this way is appended
            file = self._file(path)
            file.pending.append((file.size, call.texts[1][: call.numbers[-1]]))
        else:
            raise NotImplementedError(call.name)

    def restore(self, folder, keep):
        """Write what is left after a loss of power.

        Args:
            folder: Folder that takes the place of the root.
            keep: Returns whether a change that was not synced is on the disk.
        """
        folder.mkdir(parents=True)
        self._restore(self.root, folder, keep)

    def _restore(self, path, target, keep):
        now, synced = self.names.get(path, {}), self.synced_names.get(path, {})
        for name in now.keys() | synced.keys():
            names = now if keep() else synced
            if name not in names or name.endswith("-shm"):  # an index in memory, which SQLite makes again
                continue
            if names[name] is None:
                (target / name).mkdir()
                self._restore(f"{path}/{name}", target / name, keep)
            else:
                (target / name).write_bytes(names[name].content(keep))


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Return the root of the disk, the path of the marks and the calls of a small run."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    folder = tmp_path_factory.mktemp("power")
    player = {
        "algorithm": "dummy-gradient",
        "dummy-gradient": {"segment_decisions": 4, "batch_decisions": 64},
        "matchmaker": "dummy-uniform",
        "freeze_every_decisions": 250,
    }
    tables = {
        "run": {"seed": 3, "workers": 0, "decisions": 1000},
        "environment": {"name": "dummy-count"},
        "sampling": {"matches": 8, "fixture_matches": 8, "rows_per_fixture": 4},
        "players": {"main": player, "other": player},
        "anchors": {"random": {"agent": "dummy-random"}},
        "evaluation": {"matches": 8, "fixture_matches": 5, "final_matches": 4},
    }
    (folder / "run.toml").write_text(write_toml(tables), encoding="utf-8")
    root, marks, trace = folder / "disk", folder / "marks", folder / "trace"
    root.mkdir()
    options = ["-f", "-y", "-xx", "-s", "100000000", "-o", str(trace)]
    calls = ["-e", f"trace={WRITES},{NAMES},{OTHERS},fsync,fdatasync"]
    script = [sys.executable, str(SCRIPT), str(folder / "run.toml"), str(root / "run"), str(marks)]
    done = subprocess.run([strace, *options, *calls, *script], capture_output=True, text=True, check=False)
    if "PTRACE" in done.stderr or "ptrace" in done.stderr:
        pytest.skip(f"strace cannot be used here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    with trace.open(encoding="ascii") as lines:
        return root, str(marks), [call for line in joined(lines) if (call := parse(line))]


def problems(run_dir, state):
    """Return how a run lacks what was committed."""
    try:
        with open_run(run_dir) as run:
            found = find_damage(run)
        with Store.read(run_dir) as store:
            models = {model.participant: model.hash for model in store.models.records()}
            if store.matches.count() < state["matches"]:
                found.append(f"{state['matches'] - store.matches.count()} matches are lost")
            if not state["models"].items() <= models.items():
                found.append("models are lost")
            if len(list(store.pools.records())) < state["pool_changes"]:
                found.append("changes of pools are lost")
            for player, version in state["checkpoints"].items():
                saved = store.checkpoints.latest()[player]
                check_checkpoint(run_dir, saved.path, saved.hash)
                if saved.version < version:
                    found.append(f"the checkpoint of {player} is old")
        for digest in models.values():
            check_model(run_dir / "models", digest)
            load_manifest(run_dir / "models", digest)
    except (LudusError, KeyError) as error:
        found = [f"{type(error).__name__}: {error}"]
    return found


def lose_power(recording, folder, *, kept=0.0, every=1, without=lambda call: False):
    """Yield the problems after a loss of power at every n-th commit and between them.

    Args:
        recording: See `recording`.
        folder: Scratch folder.
        kept: Share of the changes that are on the disk without having been synced.
        every: n.
        without: Selects calls that are left out.
    """
    root, marks, calls = recording
    disk, state, rng, number = Disk(root), None, random.Random(0), 0
    for call in calls:
        is_mark = call.name == "write" and call.path == marks
        if is_mark:
            state = json.loads(call.texts[1])
        elif not without(call):
            disk.apply(call)
        if state is None or not (is_mark or call.name in {"fdatasync", "fsync"} or call.name.startswith("unlink")):
            continue
        number += 1
        if number % every == 0:
            disk.restore(folder / str(number), lambda: rng.random() < kept)
            yield problems(folder / str(number) / "run", state)
            shutil.rmtree(folder / str(number))


def test_the_recording_is_complete(recording):
    """With everything on the disk, the replayed folder is the one of the run, and every call is known."""
    root, _, calls = recording
    disk = Disk(root)
    for call in calls:
        disk.apply(call)
    for path in (path for path in root.rglob("*") if path.is_file() and not path.name.endswith("-shm")):
        assert disk._file(str(path)).content(lambda: True) == path.read_bytes(), path
    names = {str(path) for path in root.rglob("*")}
    assert {f"{folder}/{name}" for folder, inside in disk.names.items() for name in inside} - names == set()


def test_nothing_committed_is_lost(recording, tmp_path):
    """On a disk that drops everything that was not synced."""
    found = list(lose_power(recording, tmp_path, every=2))
    assert len(found) > 100
    assert [problem for problem in found if problem] == []


@pytest.mark.parametrize("kept", [0.5, 0.9, 1.0])
def test_nothing_committed_is_lost_whatever_else_is_kept(recording, tmp_path, kept):
    """A disk may write in any order what was not synced."""
    found = list(lose_power(recording, tmp_path, kept=kept, every=7))
    assert [problem for problem in found if problem] == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"/disk",
        r"/run",
        r"/run/models",
        r"/run/models/\.[0-9a-f]*\.safetensors\..*\.partial",
        r"/run/models/\.[0-9a-f]*\.json\..*\.partial",
        r"/run/learners",
        r"/run/learners/main",
        r"/run/learners/main/.*\.partial",
        r"/run/league\.sqlite-wal",
    ],
)
def test_every_sync_is_needed(recording, tmp_path, pattern):
    """Without it, this test finds a loss."""

    def without(call):
        return call.name in {"fsync", "fdatasync"} and re.search(rf"{pattern}$", call.path)

    assert any(lose_power(recording, tmp_path, every=5, without=without))
