"""What is imported when, and what is never imported or named at all."""

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
    """Run code in a new process and return what it printed last, read as JSON."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("arguments", [["--help"], ["plugins"], ["plugins", "--json"], ["plugins", "-v"]], ids=" ".join)
def test_looking_around_is_light(arguments):
    """Help and lists import three small libraries beside ludus and its plugins, whatever plugins are installed."""
    code = f"""
import json, sys
before = {{name.partition(".")[0] for name in sys.modules}}
from ludus.__main__ import main
assert main({arguments!r}) == 0
after = {{name.partition(".")[0] for name in sys.modules}}
print(json.dumps(sorted(after - before - sys.stdlib_module_names)))
"""
    assert {name for name in python(code) if not name.startswith("ludus")} == {"attr", "attrs", "click", "pluggy"}


def test_importing_the_package_is_light():
    """Plugin modules import ludus."""
    assert python(f"import json, sys, ludus; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))") == []


@pytest.mark.parametrize("module", ["ludus.testing", "ludus.runs", "ludus._run.runner"])
def test_torch_waits_for_a_network(module):
    """It takes seconds to import: who checks a game, reads a run or is wrong about an option does without."""
    assert python(f"import json, sys, {module}; print(json.dumps('torch' in sys.modules))") is False


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda folder: folder.name)
def test_plugin_and_config_modules_are_light(folder):
    """Beside ludus and what that imports, only the standard library and light modules of packages of ludus."""
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
    """The test above looks at something."""
    assert "ludus-dummy" in {folder.name for folder in DISTRIBUTIONS}


def forbidden(path):
    """Yield what a file must not do: run or unpickle what it was given."""
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


def test_nothing_runs_or_unpickles_data():
    """Neither the core nor any plugin."""
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
def test_what_is_forbidden_is_seen(tmp_path, code):
    """The search finds every form of it."""
    path = tmp_path / "a.py"
    path.write_text(code)
    assert len(list(forbidden(path))) == 1


@pytest.mark.parametrize("code", ["model.eval()", "re.compile('exec')", "np.load('x', allow_pickle=False)"])
def test_what_is_allowed_is_not(tmp_path, code):
    """Methods and words of the same name are fine."""
    path = tmp_path / "a.py"
    path.write_text(code)
    assert list(forbidden(path)) == []


def test_only_the_facade_imports_pluggy():
    """Other modules use `ludus._plugins.manager`."""
    pattern = re.compile(r"^\s*(import|from) pluggy", re.MULTILINE)
    importing = {path.relative_to(CORE).as_posix() for path in sources(CORE) if pattern.search(path.read_text())}
    assert importing == {"_plugins/loading.py", "hookspecs.py"}


def test_plugins_import_nothing_private():
    """Modules of the core that start with an underscore are no business of plugins, but of what measures the core."""
    pattern = re.compile(r"^\s*(from ludus import _|(import|from) ludus\._)", re.MULTILINE)
    private = [path for path in sources(*(f / "src" for f in DISTRIBUTIONS)) if pattern.search(path.read_text())]
    assert {(path.parent.name, path.name) for path in private} <= {
        ("ludus_bench", name) for name in ("_setup.py", "_sampling.py")
    }


def strings(path):
    """Return the string constants of a file that are no documentation."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs)
    return [(node.lineno, node.value) for node in constants if isinstance(node.value, str)]


@pytest.mark.parametrize("kind", ["environment", "algorithm", "matchmaker"])
def test_the_core_names_no(kind):
    """No string in the code of the core is the name of an installed game, algorithm or matchmaker."""
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
