"""Reading, changing and writing TOML."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from ludus._config.toml import apply_overrides, read_toml
from ludus.errors import ConfigError
from tomli_w import dumps as write_toml


def problems(error: pytest.ExceptionInfo[ConfigError]) -> list[str]:
    """Return the lines of an error."""
    return list(error.value.problems)


def test_reads_a_file(tmp_path):
    """A valid file becomes plain tables."""
    path = tmp_path / "run.toml"
    path.write_text('[run]\nseed = 3\nname = "ä"\n', encoding="utf-8")
    assert read_toml(path) == {"run": {"seed": 3, "name": "ä"}}


def test_reads_a_file_with_a_byte_order_mark(tmp_path):
    """The mark is skipped."""
    path = tmp_path / "run.toml"
    path.write_text("[run]\nseed = 3\n", encoding="utf-8-sig")
    assert read_toml(path) == {"run": {"seed": 3}}


def test_missing_file(tmp_path):
    """The error is one line with the path."""
    with pytest.raises(ConfigError) as error:
        read_toml(tmp_path / "nothing.toml")
    assert problems(error) == [f"{tmp_path / 'nothing.toml'}: no such file"]


def test_folder_instead_of_file(tmp_path):
    """The error is one line with the reason."""
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_toml(tmp_path)


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_named_pipes_are_errors(tmp_path, monkeypatch, kind):
    """Reading one might block forever."""
    path = tmp_path / "run.toml"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "")  # it would wait
    os.mkfifo(path) if kind == "fifo" else path.symlink_to("/dev/zero")
    with pytest.raises(ConfigError) as error:
        read_toml(path)
    assert problems(error) == [f"{path}: is not a regular file; expected a TOML file"]


def test_reads_pipes_of_the_shell():
    """``<(…)`` and ``/dev/stdin`` work."""
    read, write = os.pipe()
    with os.fdopen(read, "rb"):
        with os.fdopen(write, "wb") as file:
            file.write(b"[run]\nseed = 3\n")
        assert read_toml(f"/dev/fd/{read}") == {"run": {"seed": 3}}


def test_not_utf8(tmp_path):
    """A binary file is one line."""
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a text file in UTF-8"):
        read_toml(path)


def test_syntax_error_names_the_line(tmp_path):
    """The format is that of compilers."""
    path = tmp_path / "run.toml"
    path.write_text("[run]\nseed = 3\nworkers 4\n")
    with pytest.raises(ConfigError) as error:
        read_toml(path)
    assert problems(error)[0].startswith(f"{path}:3: not valid TOML: ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = " + "[" * 5000 + "]" * 5000, "tables and lists are nested more than 32 levels deep"),
        (".".join("a" * 3000) + " = 1", "tables and lists are nested more than 32 levels deep"),
        (".".join("a" * 33) + " = 1", "tables and lists are nested more than 32 levels deep"),
        ("x = " + "9" * 5000, "a number has too many digits"),
        ("x = 0x" + "f" * 5000, "a number has too many digits"),
    ],
    ids=["lists", "tables", "a few tables", "decimal", "hexadecimal"],
)
def test_unsupported_toml_is_one_line(tmp_path, text, reason):
    """Deep nesting and long numbers are errors in files and in overrides."""
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_toml(path)
    assert problems(error) == [f"{path}: {reason}"]
    with pytest.raises(ConfigError, match=r"^--set ") as error:
        apply_overrides({}, [text])
    assert len(problems(error)) == 1


def test_nested_tables_are_read(tmp_path):
    """The limit exceeds the depth of any configuration."""
    path = tmp_path / "run.toml"
    path.write_text(".".join("a" * 30) + " = 1")
    assert apply_overrides(read_toml(path), [".".join("a" * 30) + "=2"]) != read_toml(path)


def test_syntax_error_at_the_end_names_the_last_line(tmp_path):
    """The parser reports no line for it."""
    path = tmp_path / "run.toml"
    path.write_text('[run]\nname = "open')
    with pytest.raises(ConfigError) as error:
        read_toml(path)
    assert problems(error)[0].startswith(f"{path}:2: not valid TOML: ")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("run.x=1e-4", 1e-4),
        ("run.x=7", 7),
        ("run.x = 7 ", 7),
        ("run.x=true", True),
        ("run.x=[1, 2]", [1, 2]),
        ("run.x={a = 1}", {"a": 1}),
        ('run.x="7"', "7"),
        ("run.x=pfsp", "pfsp"),
        ("run.x=main_agent@latest", "main_agent@latest"),
        ("run.x=a=b", "a=b"),
        ("run.x=", ""),
        ("run.x=1\ny = 2", "1\ny = 2"),
    ],
)
def test_override_values(text, value):
    """The right side is TOML, or else a string."""
    assert apply_overrides({"run": {"x": 0}}, [text]) == {"run": {"x": value}}


def test_override_creates_tables():
    """Missing parent tables are created."""
    assert apply_overrides({}, ["players.main.ppo.gamma=0.9"]) == {"players": {"main": {"ppo": {"gamma": 0.9}}}}


def test_override_with_a_quoted_key():
    """A key may be quoted as in TOML."""
    assert apply_overrides({}, ['players."a.b".share=2']) == {"players": {"a.b": {"share": 2}}}


def test_last_override_wins():
    """Overrides apply in order."""
    assert apply_overrides({}, ["a=1", "a=2"]) == {"a": 2}


def test_overrides_do_not_change_the_original():
    """The tables are copied deeply."""
    data = {"run": {"list": [1]}}
    apply_overrides(data, ["run.seed=1"])["run"]["list"].append(2)
    assert data == {"run": {"list": [1]}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("run.seed", "--set run.seed: expected key.path=value"),
        ("run..seed=1", "--set run..seed=1: 'run..seed' is not a dotted key such as run.seed"),
        ("=1", "--set =1: '' is not a dotted key such as run.seed"),
        ("# x=1", "--set # x=1: '# x' is not a dotted key such as run.seed"),
        ("run.seed.x=1", "--set run.seed.x=1: run.seed is a value, not a table"),
    ],
)
def test_malformed_overrides(text, problem):
    """The line repeats the override."""
    with pytest.raises(ConfigError) as error:
        apply_overrides({"run": {"seed": 1}}, [text])
    assert problems(error) == [problem]


def test_all_wrong_overrides_are_reported():
    """Two malformed overrides are two lines."""
    with pytest.raises(ConfigError) as error:
        apply_overrides({}, ["a", "b=1", "c"])
    assert len(problems(error)) == 2


scalars = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=20))
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.text(max_size=8), values, max_size=5))
def test_written_toml_loads_equal(data):
    """Any table of plain values survives writing and reading, with its types."""
    loaded = tomllib.loads(write_toml(data))
    assert loaded == data
    assert repr(sorted(map(str, loaded))) == repr(sorted(map(str, data)))


@pytest.mark.parametrize("value", [True, 1, 1.0, -0.0, float("inf"), "1", [1, 1.0, True]])
def test_types_survive(value):
    """1, 1.0 and true stay different, although they are equal in Python."""
    assert repr(tomllib.loads(write_toml({"x": value}))["x"]) == repr(value)


def test_order_of_tables_is_kept():
    """Players keep the order of the file."""
    data = {"players": {"z": {"a": 1}, "b": {"a": 1}, "m": {}}}
    assert list(tomllib.loads(write_toml(data))["players"]) == ["z", "b", "m"]


def test_other_types_are_errors():
    """Values without a TOML form raise an error."""
    with pytest.raises(TypeError, match="object"):
        write_toml({"x": object()})


def test_long_files_are_not_parsed(tmp_path):
    """Parsing takes seconds for every few megabytes."""
    (tmp_path / "run.toml").write_text("a = 1\n" * 200_000)
    with pytest.raises(ConfigError, match=r"run.toml: expected a file of at most 1,000,000 characters"):
        read_toml(tmp_path / "run.toml")
