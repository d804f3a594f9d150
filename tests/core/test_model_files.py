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
)
from ludus.errors import ModelError

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


def test_arrays_come_back_as_they_were_saved(folder):
    """Names, dtypes, shapes and values survive."""
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
def test_any_dtype_and_shape_survives(tmp_path_factory, dtype, shape, seed):
    """Scalars, empty arrays and all ordinary dtypes come back."""
    array = np.random.default_rng(seed).integers(0, 2, shape).astype(dtype)
    folder = tmp_path_factory.mktemp("models")
    loaded = load_arrays(folder, save_arrays(folder, {"x": array}, {}))["x"]
    assert (loaded.dtype, loaded.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(loaded, array)


def test_a_transposed_array_keeps_its_values(folder):
    """Memory layout does not matter."""
    array = np.arange(6.0).reshape(2, 3).T
    np.testing.assert_array_equal(load_arrays(folder, save_arrays(folder, {"x": array}, {}))["x"], array)


def test_the_name_is_the_hash_of_the_bytes(folder):
    """The name of a model file is what sha256sum prints."""
    digest = save_arrays(folder, ARRAYS, {})
    assert hashlib.sha256((folder / f"{digest}.safetensors").read_bytes()).hexdigest() == digest


def test_saving_twice_writes_once(folder):
    """The same arrays in any order are the same file, which is left alone together with its manifest."""
    first = save_arrays(folder, ARRAYS, {"player": "a"})
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = save_arrays(folder, dict(reversed(ARRAYS.items())), {"player": "b"})
    assert again == first
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_the_manifest_comes_back_with_the_hash(folder):
    """A manifest holds the hash of its file."""
    digest = save_arrays(folder, ARRAYS, {"player": "main", "parent": None})
    assert load_manifest(folder, digest) == {"player": "main", "parent": None, "hash": digest}


@pytest.mark.parametrize("text", ["not json", "[1]", "[" * 100_000], ids=["text", "list", "depth"])
def test_a_damaged_manifest_is_refused(folder, text):
    """A manifest must be a JSON object."""
    digest = save_arrays(folder, ARRAYS, {})
    (folder / f"{digest}.json").write_text(text)
    with pytest.raises(ModelError, match="JSON"):
        load_manifest(folder, digest)


def written(folder: Path, header: dict[str, object], data: bytes = b"", *, name: str = "") -> str:
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
def test_arrays_that_numpy_does_not_know_are_refused(folder, dtype, shape, size):
    """The file is sound; such are models that other programs have written."""
    digest = written(folder, {"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}, bytes(size))
    with pytest.raises(ModelError, match=r"holds arrays that NumPy cannot represent \(.*\); convert them to float32$"):
        load_arrays(folder, digest)


@pytest.mark.parametrize("load", [load_arrays, check_model])
def test_a_flipped_bit_is_noticed(folder, load):
    """Safetensors would load it; the hash does not match."""
    digest = save_arrays(folder, ARRAYS, {})
    flip_bit(folder / f"{digest}.safetensors")
    with pytest.raises(ModelError, match="damaged"):
        load(folder, digest)


def test_saving_repairs_a_damaged_file(folder):
    """Whoever has the arrays can restore the file."""
    digest = save_arrays(folder, ARRAYS, {})
    flip_bit(folder / f"{digest}.safetensors")
    save_arrays(folder, ARRAYS, {})
    check_model(folder, digest)


def test_a_missing_model_is_one_clear_error(folder):
    """The message names the file and what to do."""
    with pytest.raises(ModelError, match=r"0000\.safetensors: cannot be read .* restore it"):
        load_arrays(folder, "0" * 64)


def test_other_bytes_under_the_right_hash_are_refused(folder):
    """A file whose hash matches may still not be a model."""
    folder.mkdir()
    digest = hashlib.sha256(b"hello, world").hexdigest()
    (folder / f"{digest}.safetensors").write_bytes(b"hello, world")
    with pytest.raises(ModelError, match="not a safetensors file"):
        load_arrays(folder, digest)


@pytest.mark.parametrize("name", ["", "../" + "0" * 61, "0" * 63, "A" * 64, "0" * 64 + "\n", "/etc/passwd", "0" * 65])
@pytest.mark.parametrize("load", [load_arrays, load_manifest, check_model])
def test_only_hashes_are_looked_up(folder, load, name):
    """A name from outside never becomes a path."""
    with pytest.raises(ModelError, match="64 hexadecimal digits"):
        load(folder, name)


def test_a_file_is_on_the_disk_before_it_gets_its_name(folder, monkeypatch):
    """The order is file, fsync, rename, for both files, and then the folder."""
    events = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("fsync"), sync(handle)))
    monkeypatch.setattr(Path, "replace", lambda self, to: (events.append(to.suffix), replace(self, to)))
    save_arrays(folder, ARRAYS, {})
    assert events[-5:] == ["fsync", ".safetensors", "fsync", ".json", "fsync"]


def test_a_failed_write_leaves_nothing(folder, monkeypatch):
    """A full disk does not leave half a model."""

    def fail(handle):
        raise OSError(28, "No space left on device")

    folder.mkdir()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        save_arrays(folder, ARRAYS, {})
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("save", "place"), [(save_arrays, "models"), (save_checkpoint, "learners/main")])
def test_a_run_folder_that_is_gone_is_not_made_again(tmp_path, save, place):
    """It was moved or removed, and what was written by its name would be missing where it lies now."""
    with pytest.raises(FileNotFoundError):
        save(tmp_path / "run" / place, ARRAYS, {})
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_comes_back_with_its_values(tmp_path):
    """Arrays and small values are in one file under one hash."""
    meta = {"updates": 7, "generator": {"state": 2**100}}
    saved = save_checkpoint(tmp_path / "learners" / "main", ARRAYS, meta)
    arrays, loaded = load_checkpoint(tmp_path, saved.path, saved.hash)
    assert loaded == meta
    np.testing.assert_array_equal(arrays["weight"], ARRAYS["weight"])


def test_checkpoints_are_counted(tmp_path):
    """Every checkpoint gets the next number, also after older ones are gone."""
    folder = tmp_path / "learners" / "main"
    paths = [save_checkpoint(folder, ARRAYS, {}).path for _ in range(2)]
    prune_checkpoints(folder, 1)
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
def test_a_checkpoint_path_stays_in_the_run(tmp_path, path):
    """Only the one form of path is followed."""
    with pytest.raises(ModelError, match="expected learners/"):
        load_checkpoint(tmp_path, path, "0" * 64)


def test_a_link_out_of_the_run_is_not_followed(tmp_path):
    """A linked folder does not lead outside."""
    saved = save_checkpoint(tmp_path / "elsewhere" / "main", ARRAYS, {})
    run = tmp_path / "run"
    (run / "learners").mkdir(parents=True)
    (run / "learners" / "main").symlink_to(tmp_path / "elsewhere" / "main")
    with pytest.raises(ModelError, match="in the run folder"):
        load_checkpoint(run, "learners/main/00000001.safetensors", saved.hash)


def test_a_link_to_itself_is_a_checkpoint_that_cannot_be_read(tmp_path):
    """Following it has no end."""
    path = tmp_path / "learners" / "main" / "00000001.safetensors"
    path.parent.mkdir(parents=True)
    path.symlink_to(path)
    with pytest.raises(ModelError, match="cannot be read"):
        load_checkpoint(tmp_path, "learners/main/00000001.safetensors", "0" * 64)


def test_a_flipped_bit_in_a_checkpoint_is_noticed(tmp_path):
    """A checkpoint is verified as models are."""
    saved = save_checkpoint(tmp_path / "learners" / "main", ARRAYS, {})
    flip_bit(tmp_path / saved.path)
    with pytest.raises(ModelError, match="damaged"):
        load_checkpoint(tmp_path, saved.path, saved.hash)


def test_a_model_is_not_a_checkpoint(tmp_path):
    """A file without a learner's values is refused with a clear error."""
    digest = save_arrays(tmp_path / "models", ARRAYS, {})
    target = tmp_path / "learners" / "main" / "00000001.safetensors"
    target.parent.mkdir(parents=True)
    target.write_bytes((tmp_path / "models" / f"{digest}.safetensors").read_bytes())
    with pytest.raises(ModelError, match="not a checkpoint"):
        load_checkpoint(tmp_path, "learners/main/00000001.safetensors", digest)


@pytest.mark.parametrize("metadata", [None, {}, {"ludus": "{"}, {"ludus": "[]"}, {"ludus": "[" * 100_000}])
def test_a_checkpoint_holds_the_values_of_a_learner(tmp_path, metadata):
    """What is no JSON object is as good as nothing."""
    digest = written(tmp_path / "learners" / "main", {"__metadata__": metadata}, name="00000001")
    with pytest.raises(ModelError, match="not a checkpoint of a learner"):
        load_checkpoint(tmp_path, "learners/main/00000001.safetensors", digest)


@pytest.mark.parametrize(("keep", "left"), [(2, [2, 3]), (0, [3]), (9, [1, 2, 3])])
def test_pruning_keeps_the_newest(tmp_path, keep, left):
    """At least one stays, whatever is asked."""
    folder = tmp_path / "learners" / "main"
    for _ in range(3):
        save_checkpoint(folder, ARRAYS, {})
    prune_checkpoints(folder, keep)
    assert sorted(int(path.stem) for path in folder.iterdir()) == left


def test_pruning_sweeps_up_after_a_killed_writer(tmp_path):
    """Half-written files do not pile up, and other files stay."""
    folder = tmp_path / "learners" / "main"
    save_checkpoint(folder, ARRAYS, {})
    (folder / ".00000002.safetensors.77.partial").write_bytes(b"half")
    (folder / "notes.txt").write_text(json.dumps("mine"))
    prune_checkpoints(folder, 2)
    assert sorted(path.name for path in folder.iterdir()) == ["00000001.safetensors", "notes.txt"]
