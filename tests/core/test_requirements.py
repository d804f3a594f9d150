"""What a distribution imports is what it asks for, no less and no more."""

from __future__ import annotations

import ast
import re
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from ludus_scaffold.writing import KINDS, write_plugin
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = sorted(path.parent for path in ROOT.glob("*/*/setup.cfg"))
#: Distributions whose module has another name.
DISTRIBUTION_OF = {"pyspiel": "open-spiel", "zmq": "pyzmq"}
#: Components that a distribution asks for by their names, and so never imports.
NAMED = {"ludus-bench": {"ludus-ratings"}, "ludus-probes": {"ludus-board"}}
#: What a function imports only where the user has chosen a component of it.
CHOSEN = {"ludus-bench": {"ludus-pettingzoo"}}


def read(folder):
    """Return the name of a distribution, what it needs, and what each of its extras needs."""
    parser = ConfigParser()
    parser.read(folder / "setup.cfg")
    extras = parser["options.extras_require"] if parser.has_section("options.extras_require") else {}
    needed = asked(parser["options"]["install_requires"])
    return parser["metadata"]["name"], needed, {extra: asked(lines) for extra, lines in extras.items()}


def asked(lines):
    """Return the names of the distributions in lines of requirements."""
    return {canonicalize_name(Requirement(line).name) for line in lines.splitlines() if line}


def distributions(modules):
    """Return the distributions of modules that do not come with Python."""
    tops = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    return {DISTRIBUTION_OF.get(top, canonicalize_name(top)) for top in tops}


def trees(folder):
    """Return the syntax trees of the Python files below a folder."""
    return [ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in sorted(folder.rglob("*.py"))]


def imported(tree):
    """Yield the modules that any line of a tree imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def imported_at_once(tree):
    """Yield the modules that are imported along with the tree itself."""
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from imported(node)


def loaded(tree):
    """Yield the modules that are named as ``module:attribute``, as factories are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"^([a-z]\w*)(?:\.\w+)*:\w+$", node.value)


def skipped(tree):
    """Yield the modules without which tests are skipped."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
            yield from (argument.value for argument in node.args if isinstance(argument, ast.Constant))


def found(search, folder):
    """Return the distributions that a search finds below a folder."""
    return distributions(module for tree in trees(folder) for module in search(tree))


def unasked(folder, sources):
    """Return what sources import although it may not be there.

    What is imported within a function, or for types alone, may come with an extra.
    """
    name, needed, extras = read(folder)
    optional = set().union(CHOSEN.get(name, ()), *(extra for key, extra in extras.items() if key != "test"))
    at_once = found(imported_at_once, sources) - needed
    return (at_once | (found(imported, sources) - needed - optional)) - {name}


def unused(folder, sources):
    """Return what is asked for although nothing imports it."""
    name, needed, _ = read(folder)
    return needed - found(imported, sources) - found(loaded, sources) - NAMED.get(name, set())


def untested(folder):
    """Return what tests import although neither the distribution nor its extra ``test`` brings it."""
    name, needed, extras = read(folder)
    there = needed | extras.get("test", set()) | {name}
    files = trees(folder / "tests")
    return set().union(*(distributions(imported(tree)) - distributions(skipped(tree)) for tree in files)) - there


def test_the_core_asks_for_what_it_imports():
    """Nothing else comes with it."""
    sources = ROOT / "core"
    assert (unasked(ROOT, sources), unused(ROOT, sources)) == (set(), set())


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
def test_distributions_ask_for_what_they_import(folder):
    """What another one happens to bring may be gone with its next version."""
    assert unasked(folder, folder / "src") == set()


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
def test_distributions_ask_for_nothing_else(folder):
    """Nobody installs what is never used."""
    assert unused(folder, folder / "src") == set()


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
def test_tests_run_with_the_extra_of_their_distribution(folder):
    """``pip install -e '.[test]'`` brings what the tests import; the core's run over everything there is."""
    assert untested(folder) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_new_packages_ask_for_what_they_import(tmp_path, kind):
    """As `ludus new-plugin` writes them."""
    folder = write_plugin(kind, "new", into=tmp_path)
    assert (unasked(folder, folder / "src"), unused(folder, folder / "src"), untested(folder)) == (set(), set(), set())


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
def test_what_is_not_asked_for_is_seen(distribution, code, missing):
    """An extra is enough for what only a function imports."""
    folder = distribution(code)
    assert unasked(folder, folder / "src") == missing


@pytest.mark.parametrize(
    ("code", "more"),
    [("import attrs", {"ludus"}), ("import attrs, ludus", set()), ("factory = 'ludus.x:X'", {"attrs"})],
)
def test_what_is_not_used_is_seen(distribution, code, more):
    """A factory's name is a use."""
    folder = distribution(code)
    assert unused(folder, folder / "src") == more


@pytest.mark.parametrize(
    ("test", "missing"),
    [
        ("import pytest, ludus_x", set()),
        ("import hypothesis", {"hypothesis"}),
        ("def test():\n    import numpy", {"numpy"}),
        ("def test():\n    pytest.importorskip('numpy.random')\n    import numpy", set()),
    ],
)
def test_what_tests_lack_is_seen(distribution, test, missing):
    """But for what they are skipped without."""
    assert untested(distribution("", test=test)) == missing
