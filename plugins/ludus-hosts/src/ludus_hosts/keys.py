"""Key files: who may join a run, and how those who do know that it is the right one.

Both sides prove that they have a secret (CurveZMQ); what they say is encrypted. `make_keys` writes them in pairs: the
file of the run lists the public keys of who may join, the other holds the public key of the run.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import attrs
import zmq
from attrs import frozen
from ludus.errors import ConfigError
from ludus.option import name

__all__ = ["RUN_KEY", "JoinKey", "RunKey", "make_keys"]

RUN_KEY = "run.key"


@frozen(kw_only=True)
class RunKey:
    """What the machine of a run knows.

    Attributes:
        public: Its own public key; keys are 40 characters in Z85.
        secret: And the secret to it.
        allowed: Public keys of who may join, by name.
    """

    public: str
    secret: str
    allowed: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> RunKey:
        """Read a file.

        Raises:
            ConfigError: It cannot be used.
        """
        return cls(**_read(path, cls))


@frozen(kw_only=True)
class JoinKey:
    """What a machine that joins knows.

    Attributes:
        run: Public key of the run.
        public: Its own.
        secret: And the secret to it.
    """

    run: str
    public: str
    secret: str

    @classmethod
    def read(cls, path: Path) -> JoinKey:
        """Read a file.

        Raises:
            ConfigError: It cannot be used.
        """
        return cls(**_read(path, cls))


def make_keys(folder: Path, who: str) -> Path:
    """Make a key for somebody who joins, and that of the run if the folder has none.

    Args:
        folder: Of the key files; made if missing.
        who: Name of the key.

    Returns:
        The new file, for the machines that join. `RUN_KEY`, beside it, stays with the run.

    Raises:
        ConfigError: There is such a key already, or the files cannot be used.
    """
    ours, theirs = folder / RUN_KEY, folder / f"{who}.key"
    if not name().accepts(who) or theirs == ours:
        raise ConfigError(f"key {who!r}: expected {name().expected}, other than {ours.stem}")
    folder.mkdir(parents=True, exist_ok=True)
    if ours.exists():
        run = RunKey.read(ours)
    else:
        public, secret = _pair()
        run = RunKey(public=public, secret=secret, allowed={})
    if who in run.allowed or theirs.exists():
        raise ConfigError(f"{theirs}: there is a key of this name; choose another with --name")
    public, secret = _pair()
    _write(theirs, JoinKey(run=run.public, public=public, secret=secret))
    _write(ours, attrs.evolve(run, allowed={**run.allowed, who: public}))
    return theirs


def _pair() -> tuple[str, str]:
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def _write(path: Path, key: RunKey | JoinKey) -> None:
    """Write a file that only this user can read, whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(attrs.asdict(key), file, indent=2)
        file.write("\n")
    partial.replace(path)


def _read(path: Path, kind: type[RunKey | JoinKey]) -> dict[str, Any]:
    what = "the run" if kind is RunKey else "one that joins"
    try:
        status = path.stat()
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text"
        raise ConfigError(f"key file {path}: {why}; expected the key of {what}, made by `ludus keys FOLDER`") from None
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise ConfigError(f"key file {path}: others can read the secret in it; `chmod 600 {path}`")
    try:
        found = json.loads(text)
        public = [found["public"], *(found["allowed"].values() if kind is RunKey else [found["run"]])]
        right = found.keys() == attrs.fields_dict(kind).keys() and zmq.curve_public(found["secret"].encode())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, zmq.ZMQError):
        right = False
    if not right or right.decode() != public[0] or not all(isinstance(key, str) and len(key) == 40 for key in public):
        raise ConfigError(f"key file {path}: not the key of {what}; make one with `ludus keys FOLDER`")
    return dict(found)
