"""`ludus new-plugin`: what it writes installs, passes its own tests, and is in good style."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ludus import API_LEVEL, ConfigError, __main__
from ludus.component import Component
from ludus_scaffold import writing
from ludus_scaffold.writing import KINDS, write_plugin

ROOT = Path(__file__).parents[3]


def run(*arguments, cwd, path=""):
    """Run a Python module in a new process and return what it printed; it must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(path), "OMP_NUM_THREADS": "1"}
    argv = [sys.executable, "-m", *map(str, arguments)]
    result = subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write one plugin of every kind and return the folder they are in."""
    folder = tmp_path_factory.mktemp("written")
    for kind in KINDS:
        write_plugin(kind, f"test.new-{kind}", into=folder)
    return folder


@pytest.fixture(scope="module")
def installed(written, tmp_path_factory):
    """Install them all with pip and return where to."""
    target = tmp_path_factory.mktemp("site")
    sources = [folder for folder in written.iterdir() if folder.is_dir()]
    run("pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", target, *sources, cwd=written)
    return target


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_new_package_passes_its_own_tests(written, installed, kind):
    """Installed as it is, with warnings as errors."""
    folder = written / f"ludus-test.new-{kind}"
    out = run("pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--rootdir", folder, cwd=folder, path=installed)
    assert " passed" in out
    assert "skipped" not in out


@pytest.mark.parametrize("kind", KINDS)
def test_ludus_finds_the_new_package(installed, tmp_path, kind):
    """`ludus plugins show` prints its options."""
    out = run("ludus", "plugins", "show", f"{kind}:test.new-{kind}", cwd=tmp_path, path=installed)
    assert f"from ludus-test.new-{kind} 0.1.0" in out


@pytest.mark.parametrize("kind", KINDS)
def test_the_new_package_is_in_the_house_style(written, kind):
    """Formatter and linter of this repository have nothing to say."""
    if shutil.which("ruff", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("ruff is not installed")
    folder = written / f"ludus-test.new-{kind}"
    shutil.copy(ROOT / "ruff.toml", folder)
    run("ruff", "check", "--no-cache", folder, cwd=folder)
    run("ruff", "format", "--no-cache", "--check", folder, cwd=folder)


def test_the_new_package_is_complete(tmp_path):
    """Every file of a distribution, and no place for a value left empty."""
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


def test_the_entry_point_has_the_name(tmp_path):
    """What ludus looks for is the name that was given; a leading ludus- is not doubled."""
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
def test_the_new_package_is_made_for_this_ludus(tmp_path, monkeypatch, version, requirement):
    """Up to the next version that may change contracts; it says its level of hooks, too."""
    monkeypatch.setattr(writing.ludus, "__version__", version)
    folder = write_plugin("environment", "nim", into=tmp_path)
    settings = configparser.ConfigParser()
    settings.read(folder / "setup.cfg")
    assert requirement in settings["options"]["install_requires"].splitlines()
    assert f"\nLUDUS_API = {API_LEVEL} " in (folder / "src/ludus_nim/plugin.py").read_text()


@pytest.mark.parametrize("name", ["", "Nim", "-nim", "nim-", "nim.", "../nim", "a b", "a/b", "x" * 65, "é", "ludus-"])
def test_bad_names_are_refused(tmp_path, name):
    """The error says which characters there may be, and nothing is written."""
    with pytest.raises(ConfigError, match="a-z 0-9"):
        write_plugin("environment", name, into=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "name", "taken"),
    [
        ("algorithm", "scaffold", r"ludus-scaffold \d\S*"),
        ("algorithm", "ludus-scaffold", r"ludus-scaffold \d\S*"),
        ("matchmaker", "dummy-uniform", r"matchmaker 'dummy-uniform' of dummy \(ludus-dummy \S+\)"),
    ],
)
def test_names_of_what_is_installed_are_refused(tmp_path, kind, name, taken):
    """Its own `pip install -e .` would replace a distribution, and two components of a name hide each other."""
    with pytest.raises(ConfigError, match=rf"^{taken} is installed already; choose another name, or uninstall"):
        write_plugin(kind, name, into=tmp_path)
    assert not list(tmp_path.iterdir())


def test_another_kind_may_have_the_name(tmp_path):
    """Components are told apart by kind and name."""
    assert write_plugin("environment", "dummy-uniform", into=tmp_path).is_dir()


def test_an_existing_folder_is_left_alone(tmp_path):
    """The error names it and what to do."""
    (tmp_path / "ludus-nim").mkdir()
    with pytest.raises(ConfigError, match=r"ludus-nim exists already; choose another name, or .* --into"):
        write_plugin("environment", "nim", into=tmp_path)
    assert not list((tmp_path / "ludus-nim").iterdir())


def test_the_command_says_what_to_do_next(tmp_path, capsys):
    """Each line can be pasted into a shell, spaces in the path included."""
    into = tmp_path / "two words"
    assert __main__.main(["new-plugin", "interface", "shiny", "--into", str(into)]) == 0
    out = capsys.readouterr().out
    assert f"cd '{into}/ludus-shiny'" in out
    assert "pip install -e '.[test]'" in out
    assert "ludus plugins show interface:shiny" in out


def test_the_command_reports_mistakes_in_a_line(tmp_path, capsys):
    """No traceback."""
    assert __main__.main(["new-plugin", "interface", "Shiny", "--into", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("error: plugin name 'Shiny': expected a name")


def test_the_new_game_can_be_played(installed, monkeypatch):
    """It has what `ludus play` needs."""
    from ludus import Playable

    monkeypatch.syspath_prepend(installed)
    package = "ludus_test_new_environment"
    game = Component(name="game", factory=f"{package}.environment:Game", config=f"{package}.config:Config")
    assert isinstance(game.load_factory()(game.load_config()(), num_matches=1), Playable)
