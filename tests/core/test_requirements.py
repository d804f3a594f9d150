"""Check that the requirements of every distribution equal its imports."""

from __future__ import annotations

import ast
import re
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from ludus_scaffold.command import KINDS, write_plugin
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = sorted(path.parent for path in ROOT.glob("*/*/setup.cfg"))
#: Distribution by name of its module, where they differ.
DISTRIBUTION_OF = {
    "PIL": "pillow",
    "ludus_copies_options": "ludus-copies",
    "pyspiel": "open-spiel",
    "s2clientprotocol": "pys2clientprotocol",
    "zmq": "pyzmq",
}
#: Requirements for components that a distribution refers to by name and never imports.
REQUIRED_BY_NAME = {"ludus-bench": {"ludus-ratings"}, "ludus-onnx": {"onnxscript"}, "ludus-probes": {"ludus-board"}}
#: Imports within functions, for components that a user must configure first.
IMPORTED_ON_DEMAND = {"ludus-bench": {"ludus-pettingzoo"}}


def read(folder):
    """Return the name of a distribution, its requirements, and the requirements of each extra."""
    parser = ConfigParser()
    parser.read(folder / "setup.cfg")
    extras = parser["options.extras_require"] if parser.has_section("options.extras_require") else {}
    needed = parse_names(parser["options"]["install_requires"])
    return parser["metadata"]["name"], needed, {extra: parse_names(lines) for extra, lines in extras.items()}


def parse_names(lines):
    """Return the names of the distributions in requirement lines."""
    return {canonicalize_name(Requirement(line).name) for line in lines.splitlines() if line}


def distributions(modules):
    """Return the distributions of modules outside the standard library."""
    tops = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    return {DISTRIBUTION_OF.get(top, canonicalize_name(top)) for top in tops}


def trees(folder):
    """Return the syntax trees of the Python files below a folder."""
    return [ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in sorted(folder.rglob("*.py"))]


def imported(tree):
    """Yield the modules that a syntax tree imports anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def imported_at_top_level(tree):
    """Yield the modules that a syntax tree imports at top level."""
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from imported(node)


def factory_modules(tree):
    """Yield the modules in strings of the form ``module:attribute``, which name factories."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"^([a-z]\w*)(?:\.\w+)*:\w+$", node.value)


def optional_modules(tree):
    """Yield the arguments of `pytest.importorskip`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
            yield from (argument.value for argument in node.args if isinstance(argument, ast.Constant))


def found(search, folder):
    """Return the distributions of all modules that a search function finds below a folder."""
    return distributions(module for tree in trees(folder) for module in search(tree))


def missing_requirements(folder, sources):
    """Return the distributions that sources import without a requirement.

    For imports within functions or for types alone, a requirement of an extra is enough.
    """
    name, needed, extras = read(folder)
    optional = set().union(IMPORTED_ON_DEMAND.get(name, ()), *(extra for key, extra in extras.items() if key != "test"))
    at_top_level = found(imported_at_top_level, sources) - needed
    return (at_top_level | (found(imported, sources) - needed - optional)) - {name}


def unused_requirements(folder, sources):
    """Return the requirements that no source imports."""
    name, needed, _ = read(folder)
    return needed - found(imported, sources) - found(factory_modules, sources) - REQUIRED_BY_NAME.get(name, set())


def missing_test_requirements(folder):
    """Return the distributions that tests import and neither the requirements nor the extra ``test`` contain."""
    name, needed, extras = read(folder)
    available = needed | extras.get("test", set()) | {name}
    files = trees(folder / "tests")
    required = (distributions(imported(tree)) - distributions(optional_modules(tree)) for tree in files)
    return set().union(*required) - available


def test_the_core_requires_what_it_imports():
    """No requirement is missing or unused_requirements."""
    sources = ROOT / "core"
    assert (missing_requirements(ROOT, sources), unused_requirements(ROOT, sources)) == (set(), set())


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
def test_distributions_require_what_they_import(folder):
    """Indirect requirements are not relied upon."""
    assert missing_requirements(folder, folder / "src") == set()


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
def test_distributions_have_no_unused_requirement(folder):
    """Every requirement is imported or named."""
    assert unused_requirements(folder, folder / "src") == set()


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
def test_tests_run_with_the_extra_of_their_distribution(folder):
    """``pip install -e '.[test]'`` installs what the tests of a distribution import."""
    assert missing_test_requirements(folder) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_new_packages_require_what_they_import(tmp_path, kind):
    """The templates of `ludus new-plugin` have correct requirements."""
    folder = write_plugin(kind, "new", into=tmp_path)
    assert missing_requirements(folder, folder / "src") == set()
    assert unused_requirements(folder, folder / "src") == set()
    assert missing_test_requirements(folder) == set()


@pytest.fixture
def distribution(tmp_path):
    """Return a function that writes a distribution with one module and one test."""

    def write(code, *, test=""):
        for name, text in (("src/ludus_x/x.py", code), ("tests/test_x.py", test)):
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / "setup.cfg").write_text(
            "[metadata]\nname = ludus-x\n[options]\ninstall_requires =\n    attrs>=23.2\n    ludus>=0.1,<0.2\n"
            "[options.extras_require]\npacked =\n    lz4>=4.0\ntest =\n    pytest>=8\n",
            encoding="utf-8",
        )
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("import os, attrs, ludus.option, ludus_x.y", set()),
        ("from zmq import Context", {"pyzmq"}),
        ("def f():\n    import numpy.random", {"numpy"}),
        ("if TYPE_CHECKING:\n    import torch", {"torch"}),
        ("def f():\n    import lz4.frame", set()),
        ("import lz4.frame", {"lz4"}),
        ("import pytest", {"pytest"}),
        ("def f():\n    import pytest", {"pytest"}),
    ],
)
def test_missing_requirements_are_found(distribution, code, missing):
    """An extra is enough for an import within a function."""
    folder = distribution(code)
    assert missing_requirements(folder, folder / "src") == missing


@pytest.mark.parametrize(
    ("code", "more"),
    [("import attrs", {"ludus"}), ("import attrs, ludus", set()), ("factory = 'ludus.x:X'", {"attrs"})],
)
def test_unused_requirements_are_found(distribution, code, more):
    """The import path of a factory counts as an import."""
    folder = distribution(code)
    assert unused_requirements(folder, folder / "src") == more


@pytest.mark.parametrize(
    ("test", "missing"),
    [
        ("import pytest, ludus_x", set()),
        ("import hypothesis", {"hypothesis"}),
        ("def test():\n    import numpy", {"numpy"}),
        ("def test():\n    pytest.importorskip('numpy.random')\n    import numpy", set()),
    ],
)
def test_missing_requirements_of_tests_are_found(distribution, test, missing):
    """Modules with `importorskip` need no requirement."""
    assert missing_test_requirements(distribution("", test=test)) == missing
