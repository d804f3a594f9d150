"""Key files, by which a run and the hosts that join it authenticate each other (CurveZMQ).

`make_keys` writes them in pairs: the file of the run lists the public keys that may join, the file of a host contains
the public key of the run.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import attrs
import zmq
from attrs import frozen
from ludus.errors import ConfigError
from ludus.option import name as valid_name

RUN_KEY = "run.key"
_MAX_BYTES = 2**20  # some ten thousand keys


@frozen(kw_only=True)
class RunKey:
    """The key file of a run.

    Attributes:
        public: Public key; keys are 40 characters in Z85.
        secret: Secret key.
        allowed: Public keys that may join, by name.
    """

    public: str
    secret: str
    allowed: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> RunKey:
        """Read a key file.

        Raises:
            ConfigError: The file cannot be used.
        """
        return cls(**_read(path, cls))


@frozen(kw_only=True)
class JoinKey:
    """The key file of a host that joins.

    Attributes:
        run: Public key of the run.
        public: Public key.
        secret: Secret key.
    """

    run: str
    public: str
    secret: str

    @classmethod
    def read(cls, path: Path) -> JoinKey:
        """Read a key file.

        Raises:
            ConfigError: The file cannot be used.
        """
        return cls(**_read(path, cls))


def make_keys(folder: Path, name: str) -> Path:
    """Make a key for hosts that join, and the key of the run if the folder has none.

    Args:
        folder: Folder of the key files; made if missing.
        name: Name of the key.

    Returns:
        The new file, for hosts that join. `RUN_KEY`, beside it, stays on the host of the run.

    Raises:
        ConfigError: There is a key of this name already, or the files cannot be used.
    """
    run_file, join_file = folder / RUN_KEY, folder / f"{name}.key"
    if not valid_name().accepts(name) or join_file == run_file:
        raise ConfigError(f"key {name!r}: expected {valid_name().expected}, other than {run_file.stem}")
    folder.mkdir(parents=True, exist_ok=True)
    if run_file.exists():
        run = RunKey.read(run_file)
    else:
        public, secret = _pair()
        run = RunKey(public=public, secret=secret, allowed={})
    if name in run.allowed or join_file.exists():
        raise ConfigError(f"{join_file}: there is a key of this name; choose another with --name")
    public, secret = _pair()
    _write(join_file, JoinKey(run=run.public, public=public, secret=secret))
    _write(run_file, attrs.evolve(run, allowed={**run.allowed, name: public}))
    return join_file


def _pair() -> tuple[str, str]:
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def _write(path: Path, key: RunKey | JoinKey) -> None:
    """Write a file that only this user can read, atomically, and sync its content and its name."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(attrs.asdict(key), file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path, kind: type[RunKey | JoinKey]) -> dict[str, Any]:
    """Return the fields of a key file.

    Raises:
        ConfigError: The file cannot be read, other users can read it, or it is not a valid key of this kind.
    """
    owner = "the run" if kind is RunKey else "a host that joins"
    try:
        mode, text = _read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "not a text file"
        expected = f"expected the key of {owner}, made by `ludus keys FOLDER`"
        raise ConfigError(f"key file {path}: {problem}; {expected}") from None
    try:
        fields = json.loads(text)
        valid = _is_valid(fields, kind)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, zmq.ZMQError):
        valid = False
    if not valid:
        raise ConfigError(f"key file {path}: not the key of {owner}; make one with `ludus keys FOLDER`")
    if stat.S_IMODE(mode) & 0o077:  # the advice is given for key files only: a run file may name any file
        raise ConfigError(f"key file {path}: other users can read the secret in it; `chmod 600 {path}`")
    return dict(fields)


def _read_text(path: Path) -> tuple[int, str]:
    """Return the mode and the text of a file; a longer file than a key has is cut.

    Raises:
        OSError: It cannot be read, or is not a regular file: reading a named pipe or a device may never end.
        UnicodeDecodeError: It is not a text.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return mode, file.read(_MAX_BYTES).decode("utf-8")


def _is_valid(fields: Any, kind: type[RunKey | JoinKey]) -> bool:
    """Return whether fields are those of a key whose secret belongs to its public key; raises for other contents."""
    others = fields["allowed"].values() if kind is RunKey else [fields["run"]]
    public_keys = [fields["public"], *others]
    return (
        fields.keys() == attrs.fields_dict(kind).keys()
        and zmq.curve_public(fields["secret"].encode()).decode() == fields["public"]
        and all(isinstance(key, str) and len(key) == 40 for key in public_keys)
    )
