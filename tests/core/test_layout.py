"""Check the layout of the repository, its requirements and its pins."""

import importlib.metadata
import re
import tomllib
from configparser import ConfigParser
from contextlib import suppress
from pathlib import Path

import ludus
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

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


OLDEST_PYTHON = read(ROOT)["options"]["python_requires"].removeprefix(">=")


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
def test_every_distribution_is_installed_for_developers(folder):
    """requirements-dev.txt lists every distribution."""
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    wanted = f"-e {folder.relative_to(ROOT)}"
    assert [line for line in lines if line == wanted or line.startswith(f"{wanted}[")], wanted


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
def test_every_distribution_has_the_same_files(folder):
    """Every distribution has a licence, a README, a package with type marker, and tests."""
    metadata = read(folder)
    package = metadata["metadata"]["name"].replace("-", "_")
    assert (metadata["metadata"]["license"], metadata["metadata"]["license_files"]) == ("Apache-2.0", "LICENSE")
    assert (folder / "MANIFEST.in").read_text() == "prune tests\n"  # many tests need the repository
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    for name in ("README.md", "pyproject.toml", f"src/{package}/__init__.py", f"src/{package}/py.typed", "tests"):
        assert (folder / name).exists(), name
    if metadata.has_option("options.entry_points", "ludus"):
        assert (folder / f"src/{package}/plugin.py").exists()


def requirements(folder):
    """Return the version specifiers of a distribution's requirements by name."""
    lines = [Requirement(line) for line in read(folder)["options"]["install_requires"].splitlines() if line]
    return {line.name: line.specifier for line in lines}


@pytest.mark.parametrize("folder", [ROOT, *DISTRIBUTIONS], ids=lambda path: path.name)
def test_requirements_are_lower_bounds(folder):
    """Exact versions belong to constraints.txt, so that users may install newer ones."""
    found = {name: [bound.operator for bound in bounds] for name, bounds in requirements(folder).items()}
    found.pop("ludus", None)
    assert {name: operators for name, operators in found.items() if operators != [">="]} == {}


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
def test_distributions_require_this_minor_version_of_the_core(folder):
    """Before 1.0, a minor version may change contracts."""
    major, minor = map(int, ludus.__version__.split(".")[:2])
    assert requirements(folder)["ludus"] == SpecifierSet(f">={major}.{minor},<{major}.{minor + 1}")


@pytest.mark.parametrize("path", sorted(ROOT.glob("*/*/src/*/plugin.py")), ids=lambda path: path.parent.name)
def test_plugins_declare_their_api_level(path):
    """The level lets an older ludus refuse the plugin with one error line."""
    (level,) = re.findall(r"^LUDUS_API = (\d+)\b", path.read_text(), re.MULTILINE)
    assert int(level) <= ludus.API_LEVEL


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
def test_every_distribution_requires_the_python_of_the_core(folder):
    """All distributions support the same versions of Python."""
    assert read(folder)["options"]["python_requires"] == f">={OLDEST_PYTHON}"


def test_tools_and_pages_name_the_oldest_python():
    """Linter, type checker, pages and templates use the version of setup.cfg."""
    assert tomllib.loads((ROOT / "ruff.toml").read_text())["target-version"] == f"py{OLDEST_PYTHON.replace('.', '')}"
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["python_version"] == OLDEST_PYTHON
    for page in ("README.md", "CONTRIBUTING.md", "plugins/ludus-terminal/src/ludus_terminal/doctor.py"):
        named = re.findall(r"Python (3\.\d+) (?:or newer|is the oldest)", (ROOT / page).read_text())
        assert named == [OLDEST_PYTHON], page
    template = ROOT / "plugins/ludus-scaffold/src/ludus_scaffold/templates/common-setup.cfg.tmpl"
    assert f"python_requires = >={OLDEST_PYTHON}\n" in template.read_text()


def pins():
    """Return the requirements in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_every_pin_is_exact():
    """Every requirement in constraints.txt has an exact version."""
    assert all("==" in line for line in pins())


def test_every_pin_runs_on_the_oldest_python():
    """Check the metadata of the pins that are installed in this environment."""
    versions = {}
    for pin in pins():
        name, _, version = pin.partition("==")
        with suppress(importlib.metadata.PackageNotFoundError):
            metadata = importlib.metadata.metadata(name)
            if metadata["Version"] == version:
                versions[pin] = metadata.get("Requires-Python") or ""
    assert versions, "install with constraints.txt"
    assert [pin for pin, found in versions.items() if not SpecifierSet(found).contains(f"{OLDEST_PYTHON}.0")] == []


def test_the_top_level_holds_nothing_else():
    """The top-level folders are fixed."""
    allowed = {"core", "plugins", "contrib_envs", "contrib_algos", "examples", "tests", "docs", "benchmarks"}
    generated = {"runs", "build", "dist"}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert folders - allowed - generated == set()
