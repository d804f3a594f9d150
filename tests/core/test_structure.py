"""The code stays easy to carry on: no import cycles, and bounded modules, classes and functions."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "plugins", "contrib_envs", "contrib_algos", "examples", "benchmarks", "docs")
PACKAGES = [ROOT / "core" / "ludus", *sorted(path.parent for path in ROOT.glob("*/*/src/*/__init__.py"))]
MAX_COMPLEX_FUNCTIONS = 25


def load_code_size():
    """Return ``benchmarks/code_size.py`` as a module."""
    spec = importlib.util.spec_from_file_location("code_size", ROOT / "benchmarks" / "code_size.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


code_size = load_code_size()
SOURCES = [path for folder in FOLDERS for path in code_size.source_files(ROOT, folder)]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_modules_import_each_other(package):
    """Neither directly nor in a circle, imports for type checking included."""
    assert code_size.import_cycles(code_size.import_graph(package)) == []


def test_an_import_cycle_is_found(tmp_path):
    """Imports within functions count, and a package may import its own modules."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from package import a\n")
    (package / "a.py").write_text("def f():\n    import package.b\n")
    (package / "b.py").write_text("from package.c import x\n")
    (package / "c.py").write_text("from package import a\n")
    assert code_size.import_cycles(code_size.import_graph(package)) == [["package.a", "package.b", "package.c"]]


def test_modules_are_short():
    """A module holds one idea."""
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {name: count for name, count in lines.items() if count > code_size.MAX_MODULE_LINES} == {}


def test_classes_are_small():
    """A class has one task."""
    sizes = [(str(path.relative_to(ROOT)), size) for path in SOURCES for size in code_size.class_sizes(path)]
    assert [
        (path, size)
        for path, size in sizes
        if size.lines > code_size.MAX_CLASS_LINES or size.methods > code_size.MAX_METHODS
    ] == []


def test_few_functions_are_complex():
    """Most functions can be read at once."""
    found = [
        f"{path.relative_to(ROOT)}: {name}, {count}"
        for path in SOURCES
        for name, count in code_size.complex_functions(path)
    ]
    assert len(found) <= MAX_COMPLEX_FUNCTIONS, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("def f(): return 1", 1),
        ("def f(x):\n    if x and x > 1 or x < -1:\n        return 1\n    return 2", 4),
        ("def f(x):\n    return [y for y in x if y]", 3),
        ("def f(x):\n    for y in x:\n        try:\n            g(y)\n        except ValueError:\n            pass", 3),
    ],
)
def test_complexity_counts_decisions(code, count):
    """Branches, loops, handlers, comprehensions with their conditions, and further operands of `and` and `or`."""
    assert code_size.complexity(code_size.ast.parse(code).body[0]) == count


def test_code_lines_are_counted(tmp_path):
    """Neither blank lines nor comments nor docstrings count."""
    path = tmp_path / "a.py"
    path.write_text('"""Doc.\n\nMore.\n"""\n\n# comment\nx = (\n    1\n)\n\n\ndef f():\n    """Doc."""\n    return x\n')
    assert code_size.code_lines(path) == 5
