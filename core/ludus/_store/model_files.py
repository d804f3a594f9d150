"""Model and checkpoint files: content-addressed, verified before use, and never half written.

``RUN/models/<sha256>.safetensors``            the arrays; the name is the SHA-256 of the bytes
``RUN/models/<sha256>.json``                   the manifest: origin of the model
``RUN/learners/<player>/<count>.safetensors``  a learner's state, with its small values in the file's header

``RUN/damaged/…``                              damaged files, set aside under their paths in the run folder

Writing order is file → fsync → rename → fsync folder; only then may the store refer to it. A file is read whole and
its hash compared before it is parsed, because safetensors loads files with flipped bits without complaint.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from ludus._store.durable import make_folder, moved_folder_error, sync_folder, write_durably
from ludus._store.foreign_files import open_regular
from ludus.errors import DamagedFileError, LudusError, ModelError, RunError

_HASH = re.compile(r"[0-9a-f]{64}")
_CHECKPOINT = re.compile(r"learners/[a-z0-9][a-z0-9._-]{0,63}/[0-9]{8}\.safetensors")
DAMAGED = "damaged"  # folder of files that were set aside
_META = "ludus"  # the one key in a checkpoint's safetensors header; one key keeps the bytes reproducible


class SavedCheckpoint(NamedTuple):
    """Path of a checkpoint, relative to the run folder, and the SHA-256 of its bytes."""

    path: str
    hash: str


@contextmanager
def wrap_file_errors(run_dir: Path) -> Iterator[None]:
    """Convert errors of the file system to `RunError` with advice.

    Raises:
        RunError: A file of the run folder cannot be read or written; a restart would not help.
    """
    try:
        yield
    except (LudusError, BrokenPipeError):  # both may be an OSError too
        raise
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not run_dir.exists():
            raise moved_folder_error(run_dir) from error
        raise RunError(
            f"{run_dir} cannot be used: {error}; free disk space or fix its permissions and continue with "
            f"`ludus resume {shlex.quote(str(run_dir))}`, or choose another folder"
        ) from error


def save_arrays(folder: Path, arrays: Mapping[str, np.ndarray], manifest: Mapping[str, Any]) -> str:
    """Write a model and its manifest, and return the model's hash.

    Saving the same arrays again changes nothing, except that a damaged file is replaced.

    Args:
        folder: ``RUN/models``; made if missing, unless ``RUN`` is.
        arrays: The weights by name, any shapes and dtypes that safetensors knows.
        manifest: JSON values; stored with the hash added.
    """
    data = encode_arrays(arrays)
    digest = hashlib.sha256(data).hexdigest()
    make_folder(folder)
    try:
        check_model(folder, digest)
    except DamagedFileError:
        write_durably(_model_path(folder, digest, ".safetensors"), data)
    if not _model_path(folder, digest, ".json").exists():
        save_manifest(folder, digest, manifest)
    return digest


def encode_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the content of the file of a model."""
    return safetensors.numpy.save(_contiguous(arrays))


def save_manifest(folder: Path, hash: str, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a model, with the model's hash added."""
    data = json.dumps({**manifest, "hash": hash}, indent=2, sort_keys=True).encode()
    write_durably(_model_path(folder, hash, ".json"), data)


def is_hash(name: str) -> bool:
    """Return whether a text has the form of a model's hash."""
    return _HASH.fullmatch(name) is not None


def load_arrays(folder: Path, hash: str) -> dict[str, np.ndarray]:
    """Return the arrays of a model after comparing its bytes with its hash.

    Raises:
        DamagedFileError: The file is missing, damaged or unreadable.
        ModelError: `hash` is not 64 hexadecimal digits.
    """
    path = _model_path(folder, hash, ".safetensors")
    return _parsed(path, _verified(path, hash))


def check_model(folder: Path, hash: str) -> None:
    """Compare a model's bytes with its hash, without reading them into memory at once.

    Raises:
        DamagedFileError: The file is missing, damaged or unreadable.
        ModelError: `hash` is not 64 hexadecimal digits.
    """
    _check_file(_model_path(folder, hash, ".safetensors"), hash)


def load_manifest(folder: Path, hash: str) -> dict[str, Any]:
    """Return the manifest of a model.

    Raises:
        DamagedFileError: The manifest is missing, unreadable or not a JSON object.
        ModelError: `hash` is not 64 hexadecimal digits.
    """
    path = _model_path(folder, hash, ".json")
    try:
        manifest = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{path}: not a JSON manifest ({error}); restore it from a copy of the run") from error
    if not isinstance(manifest, dict):
        text = f"{path}: expected a JSON object, got {type(manifest).__name__}; restore it from a copy"
        raise DamagedFileError(text)
    return manifest


def save_checkpoint(folder: Path, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> SavedCheckpoint:
    """Write a learner's state as the newest checkpoint of its folder.

    Args:
        folder: ``RUN/learners/<player>``; made if missing, unless ``RUN`` is.
        arrays: The arrays by name.
        meta: JSON values stored in the same file, covered by the same hash.
    """
    for made in (folder.parent, folder):
        make_folder(made)
    data = safetensors.numpy.save(_contiguous(arrays), metadata={_META: json.dumps(meta, sort_keys=True)})
    existing = _checkpoints(folder)
    name = f"{1 + int(existing[-1].stem) if existing else 1:08d}.safetensors"
    write_durably(folder / name, data)
    return SavedCheckpoint(f"{folder.parent.name}/{folder.name}/{name}", hashlib.sha256(data).hexdigest())


def load_checkpoint(run_dir: Path, path: str, hash: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the small values of a checkpoint after comparing its bytes with its hash.

    Args:
        run_dir: The run folder.
        path: As returned by `save_checkpoint`: ``learners/<player>/<count>.safetensors``.
        hash: The SHA-256 of the file.

    Raises:
        DamagedFileError: The file is missing, damaged or unreadable.
        ModelError: The path has another form, or leaves the run folder through a link.
    """
    target = _checkpoint_path(run_dir, path)
    data = _verified(target, hash)
    arrays = _parsed(target, data)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    try:
        meta = json.loads((header.get("__metadata__") or {}).get(_META, "null"))
    except (ValueError, RecursionError):
        meta = None
    if not isinstance(meta, dict):
        raise ModelError(f"{target}: not a checkpoint of a learner; restore it from a copy of the run")
    return arrays, meta


def checkpoint_arrays(checkpoint: Mapping[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    """Return the arrays of a group of a checkpoint, ``"weights"`` or ``"state"``, without the group in their names."""
    prefix = f"{group}/"
    return {name.removeprefix(prefix): array for name, array in checkpoint.items() if name.startswith(prefix)}


def read_checkpoint_weights(path: Path) -> dict[str, np.ndarray]:
    """Return the weights in the file of a checkpoint, which is not compared with a hash.

    Raises:
        ModelError: The file cannot be read or parsed.
    """
    return checkpoint_arrays(_parsed(path, _read(path)), "weights")


def check_checkpoint(run_dir: Path, path: str, hash: str) -> None:
    """Compare a checkpoint's bytes with its hash; arguments and errors as for `load_checkpoint`."""
    _check_file(_checkpoint_path(run_dir, path), hash)


def _checkpoint_path(run_dir: Path, path: str) -> Path:
    target = run_dir / path
    # `realpath` follows links and, unlike `resolve`, does not raise for loops of links
    if not _CHECKPOINT.fullmatch(path) or not Path(os.path.realpath(target)).is_relative_to(os.path.realpath(run_dir)):
        raise ModelError(
            f"checkpoint path {path!r}: expected learners/<player>/<8 digits>.safetensors in the run folder"
        )
    return target


def prune_checkpoints(folder: Path, keep: Collection[str]) -> None:
    """Delete all checkpoints but those of the given file names, and partial files of killed writers."""
    superseded = [path for path in _checkpoints(folder) if path.name not in keep]
    for path in [*superseded, *folder.glob(".*.partial")]:
        path.unlink(missing_ok=True)


def set_aside(run_dir: Path, path: Path) -> None:
    """Move a damaged file, or what is in its place, into the folder of damaged files; a missing one is ignored."""
    target = run_dir / DAMAGED / path.relative_to(run_dir)
    for folder in reversed([parent for parent in target.parents if parent.is_relative_to(run_dir / DAMAGED)]):
        make_folder(folder)
    while target.exists():
        target = target.with_name(f"{target.name}~")
    with suppress(FileNotFoundError):
        path.rename(target)
        sync_folder(target.parent)
        sync_folder(path.parent)


def remove_partial(run_dir: Path) -> None:
    """Delete partial files of killed writers; no process may be writing the run."""
    for pattern in (".*.partial", "models/.*.partial", "learners/*/.*.partial"):
        for path in run_dir.glob(pattern):
            path.unlink(missing_ok=True)


def _contiguous(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays in C order; safetensors writes the memory of any other array as if it were in that order."""
    return {name: np.asarray(array, order="C") for name, array in arrays.items()}


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.safetensors") if re.fullmatch("[0-9]{8}", path.stem))


def _model_path(folder: Path, hash: str, suffix: str) -> Path:
    if not is_hash(hash):
        raise ModelError(f"model hash {hash!r}: expected 64 hexadecimal digits")
    return folder / f"{hash}{suffix}"


def _verified(path: Path, hash: str) -> bytes:
    data = _read(path)
    _compare(path, hashlib.sha256(data).hexdigest(), hash)
    return data


def _check_file(path: Path, hash: str) -> None:
    with _wrap_read_errors(path), open_regular(path) as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    _compare(path, found, hash)


def _compare(path: Path, found: str, hash: str) -> None:
    if found != hash:
        raise DamagedFileError(
            f"{path}: damaged: its SHA-256 is {found[:12]}…, expected {hash[:12]}…; restore it from a copy"
        )


def _parsed(path: Path, data: bytes) -> dict[str, np.ndarray]:
    try:
        return safetensors.numpy.load(data)
    except safetensors.SafetensorError as error:
        raise ModelError(f"{path}: not a safetensors file ({error}); restore it from a copy of the run") from error
    except (KeyError, ValueError) as error:  # a dtype that NumPy lacks, such as BF16, or an invalid shape
        raise ModelError(
            f"{path}: holds arrays that NumPy cannot represent ({error}); convert them to float32"
        ) from error


def _read(path: Path) -> bytes:
    with _wrap_read_errors(path), open_regular(path) as file:
        return file.read()


@contextmanager
def _wrap_read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = f"{path}: cannot be read ({error.strerror}); restore it from a copy of the run"
        raise DamagedFileError(text) from error
