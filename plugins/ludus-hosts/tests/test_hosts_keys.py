"""Key files belong together, are private, and errors name the problem."""

from __future__ import annotations

import json
import os
import shlex
import stat

import pytest
import zmq
from ludus.errors import ConfigError
from ludus_hosts.keys import RUN_KEY, JoinKey, RunKey, make_keys

ODD = ["", "../up", ".hidden", "Loud", "a b", "a/b", "run", "x" * 65]


def rewrite(path, **changes):
    """Change fields of a key file; None takes one out."""
    fields = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}), encoding="utf-8")


def problem(kind, path):
    """Return why a key file cannot be used, which is one line that names it."""
    with pytest.raises(ConfigError) as caught:
        kind.read(path)
    text = str(caught.value)
    assert text.startswith(f"key file {path}: ")
    assert "\n" not in text
    return text.removeprefix(f"key file {path}: ")


def test_the_files_of_a_pair_belong_together(keys):
    """Each has the public key of the other, and the secret of its own."""
    run, join = RunKey.read(keys / RUN_KEY), JoinKey.read(keys / "join.key")
    assert run.allowed == {"join": join.public}
    assert join.run == run.public != join.public
    for key in (run, join):
        assert zmq.curve_public(key.secret.encode()) == key.public.encode()


def test_key_files_are_private(tmp_path):
    """Whatever the umask; no other files are left."""
    before = os.umask(0)
    try:
        make_keys(tmp_path / "new" / "keys", "join")
    finally:
        os.umask(before)
    made = sorted((tmp_path / "new" / "keys").iterdir())
    assert [path.name for path in made] == ["join.key", RUN_KEY]
    assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [0o600, 0o600]


def test_a_key_is_added(keys, key):
    """The key of the run and earlier keys stay."""
    before = RunKey.read(keys / RUN_KEY)
    assert make_keys(keys, "lab-2") == keys / "lab-2.key"
    run, added = RunKey.read(keys / RUN_KEY), JoinKey.read(keys / "lab-2.key")
    assert (run.public, run.secret) == (before.public, before.secret)
    assert run.allowed == {"join": key.public, "lab-2": added.public}
    assert added.run == before.public
    assert added.secret != key.secret
    assert stat.S_IMODE((keys / RUN_KEY).stat().st_mode) == 0o600


@pytest.mark.parametrize("left", ["join.key", RUN_KEY])
def test_no_key_is_replaced(keys, left):
    """Neither if its file was moved, nor if it was revoked."""
    if left == RUN_KEY:
        (keys / "join.key").unlink()
    else:
        rewrite(keys / RUN_KEY, allowed={})
    before = (keys / left).read_bytes()
    with pytest.raises(ConfigError, match=r"join\.key: there is a key of this name; choose another with --name"):
        make_keys(keys, "join")
    assert (keys / left).read_bytes() == before


@pytest.mark.parametrize("name", ODD)
def test_invalid_names_are_rejected(tmp_path, name):
    """They become file names; nothing is written."""
    with pytest.raises(ConfigError, match=r"^key .*: expected a name of .*, other than run$"):
        make_keys(tmp_path / "keys", name)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_key_of_the_run_is_not_replaced(keys):
    """All hosts would be locked out."""
    (keys / RUN_KEY).write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="not the key of the run"):
        make_keys(keys, "other")
    assert (keys / RUN_KEY).read_text(encoding="utf-8") == "{}"
    assert not (keys / "other.key").exists()


@pytest.mark.parametrize(("kind", "what"), [(JoinKey, "a host that joins"), (RunKey, "the run")])
def test_unreadable_files_are_reported_with_the_remedy(tmp_path, kind, what):
    """A missing file, a folder, and a file that is not text."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    expected = f"; expected the key of {what}, made by `ludus keys FOLDER`"
    assert problem(kind, tmp_path / "missing") == f"No such file or directory{expected}"
    assert problem(kind, tmp_path / "folder") == f"Is a directory{expected}"
    assert problem(kind, tmp_path / "bytes") == f"not a text file{expected}"


@pytest.mark.parametrize("text", ["", "7", "[]", '"key"', "[" * 100_000, "null", "nonsense", "{}", '{"public": 1}'])
@pytest.mark.parametrize("kind", [JoinKey, RunKey])
def test_invalid_contents_are_rejected(tmp_path, kind, text):
    """Whatever JSON makes of them."""
    path = tmp_path / "a.key"
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    assert problem(kind, path).startswith("not the key of ")


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": 1},
        {"public": "x" * 40},
        {"public": 7},
        {"public": None},
        {"run": "short"},
        {"run": 7},
        {"run": None},
        {"secret": ""},
        {"secret": "short"},
        {"secret": "x" * 40},
        {"secret": "~" * 40},
        {"secret": "ä" * 40},
        {"secret": "x" * 41},
        {"secret": 7},
        {"secret": None},
    ],
    ids=str,
)
def test_changed_fields_are_rejected(keys, changes):
    """Every field is checked."""
    rewrite(keys / "join.key", **changes)
    assert problem(JoinKey, keys / "join.key") == "not the key of a host that joins; make one with `ludus keys FOLDER`"


@pytest.mark.parametrize("allowed", [7, ["x" * 40], None, {"join": 7}, {"join": "short"}], ids=str)
def test_an_invalid_list_of_allowed_keys_is_rejected(keys, allowed):
    """Names and public keys are expected."""
    rewrite(keys / RUN_KEY, allowed=allowed)
    assert problem(RunKey, keys / RUN_KEY) == "not the key of the run; make one with `ludus keys FOLDER`"


def test_the_wrong_file_of_a_pair_is_rejected(keys):
    """The error names the expected one."""
    assert problem(RunKey, keys / "join.key").startswith("not the key of the run")
    assert problem(JoinKey, keys / RUN_KEY).startswith("not the key of a host that joins")


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o640, 0o644])
@pytest.mark.parametrize(("kind", "file"), [(JoinKey, "join.key"), (RunKey, RUN_KEY)])
def test_a_key_that_other_users_can_read_is_rejected(keys, kind, file, mode):
    """A copy made with the usual umask is; the error contains the command that repairs it."""
    path = keys / file
    path.chmod(mode)
    error = problem(kind, path)
    assert error == f"other users can read the secret in it; `chmod 600 {path}`"
    path.chmod(int(shlex.split(error.split("`")[1])[1], 8))
    kind.read(path)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_a_key_file_is_a_regular_file(tmp_path, make):
    """A run file may name anything, and reading a pipe or a device may never end."""
    make(tmp_path / "file.key")
    assert problem(RunKey, tmp_path / "file.key").startswith("not a regular file; expected the key of the run")


def test_rights_of_other_files_are_not_to_be_changed(tmp_path):
    """A run file may name a file of the system, such as /etc/passwd."""
    (tmp_path / "passwd").write_text("root:x:0:0", encoding="utf-8")
    (tmp_path / "passwd").chmod(0o644)
    assert problem(RunKey, tmp_path / "passwd").startswith("not the key of the run")
