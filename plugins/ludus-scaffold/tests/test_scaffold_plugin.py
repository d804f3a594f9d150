"""`ludus new-plugin`: the packages that it writes install, pass their own tests, and follow the code style."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import ludus
import pytest
from ludus import API_LEVEL, ConfigError, __main__
from ludus.component import Component
from ludus_scaffold.command import KINDS, write_plugin

ROOT = Path(__file__).parents[3]


def run(*arguments, cwd, path=""):
    """Run a Python module in a new process and return its output; it must succeed."""
    search_path = os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": search_path, "OMP_NUM_THREADS": "1"}
    argv = [sys.executable, "-m", *map(str, arguments)]
    result = subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write one plugin of every kind and return their parent folder."""
    folder = tmp_path_factory.mktemp("written")
    for kind in KINDS:
        write_plugin(kind, f"test.new-{kind}", into=folder)
    return folder


@pytest.fixture(scope="module")
def installed(written, tmp_path_factory):
    """Install all of them with pip and return the target folder."""
    target = tmp_path_factory.mktemp("site")
    sources = [folder for folder in written.iterdir() if folder.is_dir()]
    run("pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", target, *sources, cwd=written)
    return target


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_new_package_passes_its_own_tests(written, installed, kind):
    """The tests run without changes, with warnings as errors."""
    folder = written / f"ludus-test.new-{kind}"
    out = run("pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--rootdir", folder, cwd=folder, path=installed)
    assert " passed" in out
    assert "skipped" not in out


@pytest.mark.parametrize("kind", KINDS)
def test_new_package_is_found(installed, tmp_path, kind):
    """`ludus plugins show` prints its options."""
    out = run("ludus", "plugins", "show", f"{kind}:test.new-{kind}", cwd=tmp_path, path=installed)
    assert f"from ludus-test.new-{kind} 0.1.0" in out


@pytest.mark.parametrize("kind", KINDS)
def test_new_package_follows_the_code_style(written, kind):
    """Formatter and linter of this repository report nothing."""
    if shutil.which("ruff", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("ruff is not installed")
    folder = written / f"ludus-test.new-{kind}"
    shutil.copy(ROOT / "ruff.toml", folder)
    run("ruff", "check", "--no-cache", folder, cwd=folder)
    run("ruff", "format", "--no-cache", "--check", folder, cwd=folder)


def test_new_package_is_complete(tmp_path):
    """All files of a distribution exist, and no placeholder is left."""
    folder = write_plugin("environment", "nim", into=tmp_path)
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {
        ".gitignore",
        "README.md",
        "pyproject.toml",
        "setup.cfg",
        "src/ludus_nim/__init__.py",
        "src/ludus_nim/config.py",
        "src/ludus_nim/environment.py",
        "src/ludus_nim/plugin.py",
        "src/ludus_nim/py.typed",
        "tests/test_ludus_nim_environment.py",
        "tests/test_ludus_nim_plugin.py",
    }
    assert not [name for name in files if "$" in name or "$" in (folder / name).read_text()]


def test_entry_point_has_the_name(tmp_path):
    """A leading ludus- is not doubled."""
    folder = write_plugin("matchmaker", "ludus-my.game-2", into=tmp_path)
    settings = configparser.ConfigParser()
    settings.read(folder / "setup.cfg")
    assert folder.name == "ludus-my.game-2"
    assert settings["metadata"]["name"] == "ludus-my.game-2"
    assert settings["options.entry_points"]["ludus"].strip() == "my.game-2 = ludus_my_game_2.plugin"


@pytest.mark.parametrize(
    ("version", "requirement"),
    [("0.1.0", "ludus>=0.1,<0.2"), ("0.19.2rc1", "ludus>=0.19,<0.20"), ("2.3.1", "ludus>=2.3,<3")],
)
def test_new_package_requires_a_compatible_ludus(tmp_path, monkeypatch, version, requirement):
    """The range ends at the next version that may change contracts; the plugin declares its API level."""
    monkeypatch.setattr(ludus, "__version__", version)
    folder = write_plugin("environment", "nim", into=tmp_path)
    settings = configparser.ConfigParser()
    settings.read(folder / "setup.cfg")
    assert requirement in settings["options"]["install_requires"].splitlines()
    assert f"\nLUDUS_API = {API_LEVEL} " in (folder / "src/ludus_nim/plugin.py").read_text()


@pytest.mark.parametrize("name", ["", "Nim", "-nim", "nim-", "nim.", "../nim", "a b", "a/b", "x" * 65, "é", "ludus-"])
def test_invalid_names_are_errors(tmp_path, name):
    """The message lists the allowed characters, and nothing is written."""
    with pytest.raises(ConfigError, match="a-z 0-9"):
        write_plugin("environment", name, into=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "name", "installed"),
    [
        ("algorithm", "scaffold", r"ludus-scaffold \d\S*"),
        ("algorithm", "ludus-scaffold", r"ludus-scaffold \d\S*"),
        ("matchmaker", "dummy-uniform", r"matchmaker 'dummy-uniform' of dummy \(ludus-dummy \S+\)"),
    ],
)
def test_installed_names_are_errors(tmp_path, kind, name, installed):
    """`pip install -e .` would replace a distribution, and two components of one name hide each other."""
    with pytest.raises(ConfigError, match=rf"^{installed} is installed already; choose another name, or uninstall"):
        write_plugin(kind, name, into=tmp_path)
    assert not list(tmp_path.iterdir())


def test_another_kind_may_have_the_name(tmp_path):
    """Components are identified by kind and name."""
    assert write_plugin("environment", "dummy-uniform", into=tmp_path).is_dir()


def test_existing_folder_is_an_error(tmp_path):
    """The message names the folder and a fix, and the folder is unchanged."""
    (tmp_path / "ludus-nim").mkdir()
    with pytest.raises(ConfigError, match=r"ludus-nim exists already; choose another name, or .* --into"):
        write_plugin("environment", "nim", into=tmp_path)
    assert not list((tmp_path / "ludus-nim").iterdir())


def test_command_prints_the_next_steps(tmp_path, capsys):
    """Each line can be pasted into a shell, even with spaces in the path."""
    into = tmp_path / "two words"
    assert __main__.main(["new-plugin", "interface", "shiny", "--into", str(into)]) == 0
    out = capsys.readouterr().out
    assert f"cd '{into}/ludus-shiny'" in out
    assert "pip install -e '.[test]'" in out
    assert "ludus plugins show interface:shiny" in out


def test_command_prints_errors_as_one_line(tmp_path, capsys):
    """There is no traceback."""
    assert __main__.main(["new-plugin", "interface", "Shiny", "--into", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("error: plugin name 'Shiny': expected a name")


def test_new_environment_is_playable(installed, monkeypatch):
    """It has the methods that `ludus play` needs."""
    from ludus import Playable

    monkeypatch.syspath_prepend(installed)
    package = "ludus_test_new_environment"
    game = Component(name="game", factory=f"{package}.environment:Game", config=f"{package}.config:Config")
    assert isinstance(game.load_factory()(game.load_config()(), num_matches=1), Playable)
