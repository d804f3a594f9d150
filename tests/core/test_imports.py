"""Check which modules are imported, which are forbidden, and that the core names no plugin."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ludus._plugins.manager import load_plugins

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core" / "ludus"
DISTRIBUTIONS = sorted(
    path.parents[2] for path in ROOT.glob("*/*/src/*/plugin.py") if path.parts[len(ROOT.parts)] != "examples"
)
HEAVY = ("torch", "numpy", "zmq", "gymnasium")
FORBIDDEN_MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "shelve"}
FORBIDDEN_BUILTINS = {"eval", "exec"}
FORBIDDEN_CALLS = {"torch.load", "yaml.load", "yaml.unsafe_load", "builtins.eval", "builtins.exec"}


def sources(*folders):
    """Return all Python files below the folders."""
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def python(code, *arguments):
    """Run code in a new process and return its last line of output, parsed as JSON."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("arguments", [["--help"], ["plugins"], ["plugins", "--json"], ["plugins", "-v"]], ids=" ".join)
def test_help_and_lists_import_few_libraries(arguments):
    """Only attrs, click and pluggy are imported besides ludus and its plugins."""
    code = f"""
import json, sys
before = {{name.partition(".")[0] for name in sys.modules}}
from ludus.__main__ import main
assert main({arguments!r}) == 0
after = {{name.partition(".")[0] for name in sys.modules}}
print(json.dumps(sorted(after - before - sys.stdlib_module_names)))
"""
    assert {name for name in python(code) if not name.startswith("ludus")} == {"attr", "attrs", "click", "pluggy"}


def test_importing_the_package_is_cheap():
    """Plugin modules import ludus, so it must not import large packages."""
    assert python(f"import json, sys, ludus; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))") == []


@pytest.mark.parametrize("module", ["ludus.testing", "ludus.runs", "ludus._run.runner"])
def test_torch_is_not_imported_without_a_network(module):
    """Importing torch takes seconds; environment checks, readers of runs and configuration errors do not need it."""
    assert python(f"import json, sys, {module}; print(json.dumps('torch' in sys.modules))") is False


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda folder: folder.name)
def test_plugin_and_config_modules_are_cheap_to_import(folder):
    """They import the standard library and ludus only."""
    (package,) = (path.parent.name for path in folder.glob("src/*/plugin.py"))
    code = f"""
import importlib, json, sys
import ludus.option
before = {{name.partition(".")[0] for name in sys.modules}}
sys.path.insert(0, sys.argv[1])
importlib.import_module({package!r} + ".plugin")
try:
    importlib.import_module({package!r} + ".config")
except ModuleNotFoundError as error:
    assert error.name == {package!r} + ".config", error
after = {{name.partition(".")[0] for name in sys.modules}}
print(json.dumps(sorted(after - before - sys.stdlib_module_names)))
"""
    assert [name for name in python(code, folder / "src") if not name.startswith("ludus_")] == []


def test_distributions_are_found():
    """The search for distributions is not empty."""
    assert "ludus-dummy" in {folder.name for folder in DISTRIBUTIONS}


def forbidden(path):
    """Yield the places in a file that execute or unpickle data."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.partition(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] if (node.module or "").partition(".")[0] in FORBIDDEN_MODULES else []
            names += [alias.name for alias in node.names if f"{node.module}.{alias.name}" in FORBIDDEN_CALLS]
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_BUILTINS:
            names = [node.id]
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in FORBIDDEN_CALLS:
            names = [ast.unparse(node)]
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            names = [] if isinstance(node.value, ast.Constant) and node.value.value is False else ["allow_pickle"]
        yield from (f"{path.name}:{node.lineno}: {name}" for name in names)


def test_nothing_executes_or_unpickles_data():
    """Check the core and all plugins."""
    folders = [CORE, *(folder / "src" for folder in DISTRIBUTIONS)]
    assert [found for path in sources(*folders) for found in forbidden(path)] == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "import os, marshal as m",
        "from shelve import open",
        "from torch import load",
        "eval('1')",
        "run = exec",
        "import torch\ntorch.load('x')",
        "import yaml\nyaml.load('x')",
        "np.load('x', allow_pickle=True)",
    ],
)
def test_forbidden_code_is_found(tmp_path, code):
    """The search finds every form of import and call."""
    path = tmp_path / "a.py"
    path.write_text(code)
    assert len(list(forbidden(path))) == 1


@pytest.mark.parametrize("code", ["model.eval()", "re.compile('exec')", "np.load('x', allow_pickle=False)"])
def test_allowed_code_is_not_reported(tmp_path, code):
    """Methods and strings with a forbidden name are allowed."""
    path = tmp_path / "a.py"
    path.write_text(code)
    assert list(forbidden(path)) == []


def test_only_two_modules_import_pluggy():
    """Other modules use `ludus._plugins.manager`."""
    pattern = re.compile(r"^\s*(import|from) pluggy", re.MULTILINE)
    importing = {path.relative_to(CORE).as_posix() for path in sources(CORE) if pattern.search(path.read_text())}
    assert importing == {"_plugins/loading.py", "hookspecs.py"}


def test_plugins_import_nothing_private():
    """Only the benchmarks of the core import its private modules."""
    pattern = re.compile(r"^\s*(from ludus import _|(import|from) ludus\._)", re.MULTILINE)
    private = [path for path in sources(*(f / "src" for f in DISTRIBUTIONS)) if pattern.search(path.read_text())]
    assert {(path.parent.name, path.name) for path in private} <= {
        ("ludus_bench", name) for name in ("_setup.py", "_sampling.py")
    }


def strings(path):
    """Return the string constants of a file without its docstrings, with their lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs)
    return [(node.lineno, node.value) for node in constants if isinstance(node.value, str)]


@pytest.mark.parametrize("kind", ["environment", "algorithm", "matchmaker"])
def test_the_core_names_no(kind):
    """No string in the core is the name of an installed environment, algorithm or matchmaker."""
    names = set(load_plugins().components(kind))
    assert names, f"install a plugin with a component of kind {kind}"
    named = [
        f"{path.relative_to(CORE)}:{line}: {word}"
        for path in sources(CORE)
        for line, text in strings(path)
        for word in re.findall(r"[a-z0-9][a-z0-9._-]*", text.lower())
        if word in names
    ]
    assert named == []
