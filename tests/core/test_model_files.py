"""Model and checkpoint files."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus._store.model_files import (
    check_model,
    load_arrays,
    load_checkpoint,
    load_manifest,
    prune_checkpoints,
    save_arrays,
    save_checkpoint,
    wrap_file_errors,
)
from ludus.errors import ModelError, RunError

ARRAYS = {"weight": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.array([1.5, -2.0])}


@pytest.fixture
def folder(tmp_path):
    """Return a folder for models that does not exist yet."""
    return tmp_path / "models"


def flip_bit(path: Path) -> None:
    """Change the last bit of a file."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_saved_arrays_are_loaded_unchanged(folder):
    """With their names, dtypes, shapes and values."""
    loaded = load_arrays(folder, save_arrays(folder, ARRAYS, {}))
    assert loaded.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)


@settings(deadline=None, max_examples=20)
@given(
    dtype=st.sampled_from(["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"]),
    shape=st.lists(st.integers(0, 4), max_size=3),
    seed=st.integers(0, 99),
)
def test_every_dtype_and_shape_can_be_saved(tmp_path_factory, dtype, shape, seed):
    """Scalars, empty arrays and all common dtypes are loaded unchanged."""
    array = np.random.default_rng(seed).integers(0, 2, shape).astype(dtype)
    folder = tmp_path_factory.mktemp("models")
    loaded = load_arrays(folder, save_arrays(folder, {"x": array}, {}))["x"]
    assert (loaded.dtype, loaded.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(loaded, array)


def test_a_transposed_array_keeps_its_values(folder):
    """The memory layout of an array has no effect."""
    array = np.arange(6.0).reshape(2, 3).T
    np.testing.assert_array_equal(load_arrays(folder, save_arrays(folder, {"x": array}, {}))["x"], array)


def test_a_file_is_named_by_its_hash(folder):
    """The name of a model file is its SHA-256."""
    digest = save_arrays(folder, ARRAYS, {})
    assert hashlib.sha256((folder / f"{digest}.safetensors").read_bytes()).hexdigest() == digest


def test_saving_twice_writes_once(folder):
    """The order of the arrays has no effect; neither file nor manifest is written again."""
    first = save_arrays(folder, ARRAYS, {"player": "a"})
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = save_arrays(folder, dict(reversed(ARRAYS.items())), {"player": "b"})
    assert again == first
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_loaded_manifest_holds_the_hash(folder):
    """The hash is that of its model file."""
    digest = save_arrays(folder, ARRAYS, {"player": "main", "parent": None})
    assert load_manifest(folder, digest) == {"player": "main", "parent": None, "hash": digest}


@pytest.mark.parametrize("text", ["not json", "[1]", "[" * 100_000], ids=["text", "list", "depth"])
def test_a_damaged_manifest_is_rejected(folder, text):
    """A manifest must be a JSON object."""
    digest = save_arrays(folder, ARRAYS, {})
    (folder / f"{digest}.json").write_text(text)
    with pytest.raises(ModelError, match="JSON"):
        load_manifest(folder, digest)


def write_safetensors(folder: Path, header: dict[str, object], data: bytes = b"", *, name: str = "") -> str:
    """Write a safetensors file as another program might, under its hash or another name, and return its hash."""
    head = json.dumps(header).encode()
    content = struct.pack("<Q", len(head)) + head + data
    digest = hashlib.sha256(content).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name or digest}.safetensors").write_bytes(content)
    return digest


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [("BF16", [2], 4), ("F8_E4M3", [4], 4), ("F32", [1] * 65, 4), ("F32", [0, 2**63], 0), ("F32", [0, 2**62, 4], 0)],
)
def test_arrays_that_numpy_cannot_represent_are_rejected(folder, dtype, shape, size):
    """Other programs write such files; the error recommends a conversion."""
    digest = write_safetensors(folder, {"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}, bytes(size))
    with pytest.raises(ModelError, match=r"holds arrays that NumPy cannot represent \(.*\); convert them to float32$"):
        load_arrays(folder, digest)


@pytest.mark.parametrize("load", [load_arrays, check_model])
def test_a_flipped_bit_is_detected(folder, load):
    """Safetensors loads such a file, but its hash does not match."""
    digest = save_arrays(folder, ARRAYS, {})
    flip_bit(folder / f"{digest}.safetensors")
    with pytest.raises(ModelError, match="damaged"):
        load(folder, digest)


def test_saving_repairs_a_damaged_file(folder):
    """Saving the same arrays again replaces the file."""
    digest = save_arrays(folder, ARRAYS, {})
    flip_bit(folder / f"{digest}.safetensors")
    save_arrays(folder, ARRAYS, {})
    check_model(folder, digest)


def test_a_missing_model_is_an_error(folder):
    """The message names the file and the fix."""
    with pytest.raises(ModelError, match=r"0000\.safetensors: cannot be read .* restore it"):
        load_arrays(folder, "0" * 64)


def test_a_file_that_is_no_model_is_rejected(folder):
    """Although its hash matches its name."""
    folder.mkdir()
    digest = hashlib.sha256(b"hello, world").hexdigest()
    (folder / f"{digest}.safetensors").write_bytes(b"hello, world")
    with pytest.raises(ModelError, match="not a safetensors file"):
        load_arrays(folder, digest)


@pytest.mark.parametrize("name", ["", "../" + "0" * 61, "0" * 63, "A" * 64, "0" * 64 + "\n", "/etc/passwd", "0" * 65])
@pytest.mark.parametrize("load", [load_arrays, load_manifest, check_model])
def test_names_that_are_no_hash_are_rejected(folder, load, name):
    """Such a name is not used as a path."""
    with pytest.raises(ModelError, match="64 hexadecimal digits"):
        load(folder, name)


def test_files_are_synced_before_they_are_renamed(folder, monkeypatch):
    """The parent of the new folder; then the model file, the manifest, and their names."""
    events = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("fsync"), sync(handle)))
    monkeypatch.setattr(Path, "replace", lambda self, to: (events.append(to.suffix), replace(self, to)))
    save_arrays(folder, ARRAYS, {})
    assert events == ["fsync", "fsync", ".safetensors", "fsync", "fsync", ".json", "fsync"]


def test_a_failed_write_leaves_nothing(folder, monkeypatch):
    """No partial file is left if the disk is full."""

    def fail(handle):
        raise OSError(28, "No space left on device")

    folder.mkdir()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        save_arrays(folder, ARRAYS, {})
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("save", "place"), [(save_arrays, "models"), (save_checkpoint, "learners/main")])
def test_a_missing_run_folder_is_not_created(tmp_path, save, place):
    """The run was moved or removed; files in a new folder of its name would be lost."""
    run = tmp_path / "run"
    with pytest.raises(RunError, match=f"^{run} was moved or removed while"), wrap_file_errors(run):
        save(run / place, ARRAYS, {})
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_is_loaded_unchanged(tmp_path):
    """One file with one hash holds arrays and metadata."""
    meta = {"updates": 7, "generator": {"state": 2**100}}
    saved = save_checkpoint(tmp_path / "learners" / "main", ARRAYS, meta)
    arrays, loaded = load_checkpoint(tmp_path, saved.path, saved.hash)
    assert loaded == meta
    np.testing.assert_array_equal(arrays["weight"], ARRAYS["weight"])


def test_checkpoints_are_numbered(tmp_path):
    """Every checkpoint gets the next number, also after older ones were removed."""
    folder = tmp_path / "learners" / "main"
    paths = [save_checkpoint(folder, ARRAYS, {}).path for _ in range(2)]
    prune_checkpoints(folder, {"00000002.safetensors"})
    paths.append(save_checkpoint(folder, ARRAYS, {}).path)
    assert paths == [f"learners/main/{i:08d}.safetensors" for i in (1, 2, 3)]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../learners/main/00000001.safetensors",
        "learners/../main/00000001.safetensors",
        "learners/main/../../x.safetensors",
        "models/main/00000001.safetensors",
        "learners/main/00000001.safetensors\n",
        "learners/main/\x00",
    ],
)
def test_other_paths_are_no_checkpoints(tmp_path, path):
    """Only paths of the form ``learners/PLAYER/NUMBER.safetensors`` are read."""
    with pytest.raises(ModelError, match="expected learners/"):
        load_checkpoint(tmp_path, path, "0" * 64)


def test_a_link_out_of_the_run_is_not_followed(tmp_path):
    """The folder of a learner must be a folder of the run."""
    saved = save_checkpoint(tmp_path / "elsewhere" / "main", ARRAYS, {})
    run = tmp_path / "run"
    (run / "learners").mkdir(parents=True)
    (run / "learners" / "main").symlink_to(tmp_path / "elsewhere" / "main")
    with pytest.raises(ModelError, match="in the run folder"):
        load_checkpoint(run, "learners/main/00000001.safetensors", saved.hash)


def test_a_link_to_itself_cannot_be_read(tmp_path):
    """The error is that of any file that cannot be read."""
    path = tmp_path / "learners" / "main" / "00000001.safetensors"
    path.parent.mkdir(parents=True)
    path.symlink_to(path)
    with pytest.raises(ModelError, match="cannot be read"):
        load_checkpoint(tmp_path, "learners/main/00000001.safetensors", "0" * 64)


def test_a_flipped_bit_in_a_checkpoint_is_detected(tmp_path):
    """The hash of a checkpoint is checked as that of a model."""
    saved = save_checkpoint(tmp_path / "learners" / "main", ARRAYS, {})
    flip_bit(tmp_path / saved.path)
    with pytest.raises(ModelError, match="damaged"):
        load_checkpoint(tmp_path, saved.path, saved.hash)


def test_a_model_is_not_a_checkpoint(tmp_path):
    """It has no metadata of a learner."""
    digest = save_arrays(tmp_path / "models", ARRAYS, {})
    target = tmp_path / "learners" / "main" / "00000001.safetensors"
    target.parent.mkdir(parents=True)
    target.write_bytes((tmp_path / "models" / f"{digest}.safetensors").read_bytes())
    with pytest.raises(ModelError, match="not a checkpoint"):
        load_checkpoint(tmp_path, "learners/main/00000001.safetensors", digest)


@pytest.mark.parametrize("metadata", [None, {}, {"ludus": "{"}, {"ludus": "[]"}, {"ludus": "[" * 100_000}])
def test_a_checkpoint_needs_the_metadata_of_a_learner(tmp_path, metadata):
    """The metadata must be a JSON object."""
    digest = write_safetensors(tmp_path / "learners" / "main", {"__metadata__": metadata}, name="00000001")
    with pytest.raises(ModelError, match="not a checkpoint of a learner"):
        load_checkpoint(tmp_path, "learners/main/00000001.safetensors", digest)


def test_pruning_keeps_what_the_league_refers_to(tmp_path):
    """Whatever the numbers of the others are."""
    folder = tmp_path / "learners" / "main"
    for _ in range(4):
        save_checkpoint(folder, ARRAYS, {})
    prune_checkpoints(folder, {"00000001.safetensors", "00000003.safetensors"})
    assert sorted(int(path.stem) for path in folder.iterdir()) == [1, 3]


def test_pruning_removes_partial_files(tmp_path):
    """Killed processes leave them; other files are kept."""
    folder = tmp_path / "learners" / "main"
    save_checkpoint(folder, ARRAYS, {})
    (folder / ".00000002.safetensors.77.partial").write_bytes(b"half")
    (folder / "notes.txt").write_text(json.dumps("mine"))
    prune_checkpoints(folder, {"00000001.safetensors"})
    assert sorted(path.name for path in folder.iterdir()) == ["00000001.safetensors", "notes.txt"]
