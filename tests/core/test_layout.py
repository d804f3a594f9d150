"""The repository is laid out as its documentation says."""

from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = sorted(
    path.parent
    for folder in ("plugins", "contrib_envs", "contrib_algos", "examples")
    for path in (ROOT / folder).glob("*/setup.cfg")
)


def read(path):
    """Return a setup.cfg."""
    parser = ConfigParser()
    parser.read(path / "setup.cfg")
    return parser


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
def test_every_distribution_is_installed_for_developers(folder):
    """One command installs them all."""
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    wanted = f"-e {folder.relative_to(ROOT)}"
    assert [line for line in lines if line == wanted or line.startswith(f"{wanted}[")], wanted


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
def test_every_distribution_has_the_same_files(folder):
    """A reader finds the room by the name."""
    metadata = read(folder)
    package = metadata["metadata"]["name"].replace("-", "_")
    assert metadata["metadata"]["license"] == "Apache-2.0"
    for name in ("README.md", "pyproject.toml", f"src/{package}/__init__.py", f"src/{package}/py.typed", "tests"):
        assert (folder / name).exists(), name
    if metadata.has_option("options.entry_points", "ludus"):
        assert (folder / f"src/{package}/plugin.py").exists()


@pytest.mark.parametrize("folder", [ROOT, *DISTRIBUTIONS], ids=lambda path: path.name)
def test_requirements_are_lower_bounds(folder):
    """Pins belong to constraints.txt: users elsewhere may have newer versions."""
    lines = read(folder)["options"]["install_requires"].split("\n")
    loose = [line for line in lines if line and ("==" in line or ">=" not in line or "<" in line.partition(";")[0])]
    assert not loose


def test_every_pin_is_exact():
    """An install today and next year give the same."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all("==" in line for line in lines if line and not line.startswith("#"))


def test_the_top_level_holds_nothing_else():
    """Code folders are fixed; whatever else is code belongs into one of them."""
    allowed = {"core", "plugins", "contrib_envs", "contrib_algos", "examples", "tests", "docs", "benchmarks"}
    made = {"runs", "build", "dist"}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert folders - allowed - made == set()
