"""Check that `__all__` of every public module is sorted, complete and correct."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import ludus
import pytest

CORE = Path(ludus.__file__).parent
MODULES = sorted(
    ["ludus", "ludus.testing"] + [f"ludus.{path.stem}" for path in CORE.glob("*.py") if not path.stem.startswith("_")]
)


def order(name):
    """Return the sort key of a name: constants, classes, the rest, as in the linter."""
    return (0 if name.isupper() and not name.startswith("_") else 1 if name[0].isupper() else 2, name)


def defined(module):
    """Return the public names that a module defines at top level."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("name", MODULES)
def test_all_is_sorted(name):
    """Every name occurs once, in the order of the linter."""
    exported = importlib.import_module(name).__all__
    assert list(exported) == sorted(set(exported), key=order)


@pytest.mark.parametrize("name", MODULES)
def test_all_is_complete(name):
    """Every public name that a module defines is exported."""
    module = importlib.import_module(name)
    assert defined(module) <= set(module.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_exported_names_exist(name):
    """Every exported name exists and is public."""
    module = importlib.import_module(name)
    assert [member for member in module.__all__ if not hasattr(module, member)] == []
    assert [member for member in module.__all__ if member.startswith("_") and member != "__version__"] == []


def test_every_error_is_exported_by_the_package():
    """All errors can be imported from `ludus`."""
    assert set(ludus.errors.__all__) <= set(ludus.__all__)
