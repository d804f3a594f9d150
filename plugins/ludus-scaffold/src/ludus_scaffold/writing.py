"""Writes new plugin packages from templates: a small real component with tests that pass at once."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import keyword
from pathlib import Path
from string import Template

import ludus
from ludus.errors import ConfigError
from ludus.option import name as a_name

__all__ = ["KINDS", "write_plugin"]

#: The kinds of component for which there is a template.
KINDS = ("environment", "algorithm", "matchmaker", "interface")

#: Where each template goes; ``$package`` is the import package. ``common-`` templates serve every kind.
_COMMON = {
    "common-pyproject.toml": "pyproject.toml",
    "common-setup.cfg": "setup.cfg",
    "common-gitignore": ".gitignore",
    "common-py.typed": "src/$package/py.typed",
    "common-init.py": "src/$package/__init__.py",
    "common-test_plugin.py": "tests/test_${package}_plugin.py",
    "$kind-README.md": "README.md",
    "$kind-plugin.py": "src/$package/plugin.py",
    "$kind-config.py": "src/$package/config.py",
    "$kind-code.py": "src/$package/$kind.py",
    "$kind-test.py": "tests/test_${package}_$kind.py",
}

#: What the code of each kind imports beside ludus.
_REQUIRES = {
    "environment": ("attrs>=23.2", "gymnasium>=1.0", "numpy>=1.26"),
    "algorithm": ("attrs>=23.2", "numpy>=1.26", "torch>=2.4"),
    "matchmaker": ("attrs>=23.2", "numpy>=1.26"),
    "interface": ("attrs>=23.2", "gymnasium>=1.0", "numpy>=1.26"),
}

#: What its tests import beyond that.
_TEST_REQUIRES = {"algorithm": ("gymnasium>=1.0",)}

_SUMMARIES = {
    "environment": "Nim: take objects from heaps in turn; whoever takes the last one wins",
    "algorithm": "REINFORCE with a learned baseline on any stateless network",
    "matchmaker": "uniform over a pool of frozen models",
    "interface": "maps bounded observations to [-1, 1] and scales rewards",
}


def write_plugin(kind: str, name: str, *, into: Path) -> Path:
    """Write the distribution ``ludus-<name>`` with one component and return its folder.

    Args:
        kind: One of `KINDS`.
        name: Name of the component; a leading ``ludus-`` is dropped.
        into: Folder in which the new one is made.

    Raises:
        ConfigError: The name is not a component's name or has been taken, or the folder exists already.
    """
    name = name.removeprefix("ludus-")
    if not (a_name().accepts(name) and name[-1].isalnum()):  # pip takes no other end of a distribution's name
        raise ConfigError(f"plugin name {name!r}: expected {a_name().expected}, and ends with one")
    package = "ludus_" + "".join(letter if letter.isalnum() else "_" for letter in name)
    assert package.isidentifier()
    assert not keyword.iskeyword(package)
    if taken := _taken(kind, name):
        raise ConfigError(f"{taken} is installed already; choose another name, or uninstall that first")
    folder = into / f"ludus-{name}"
    if folder.exists():
        raise ConfigError(f"{folder} exists already; choose another name, or another place with --into")
    values = {
        "kind": kind,
        "name": name,
        "package": package,
        "summary": _SUMMARIES[kind],
        "api_level": str(ludus.API_LEVEL),
        "requires": _lines(*_REQUIRES[kind], _ludus(ludus.__version__)),
        "test_requires": _lines(*_TEST_REQUIRES.get(kind, ()), "pytest>=8"),
    }
    files = {
        Template(path).substitute(values): _template(Template(template).substitute(values)).substitute(values)
        for template, path in _COMMON.items()
    }
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return folder


def _taken(kind: str, name: str) -> str:
    """Return what is installed under the name; empty if nothing is. Installing the new one would remove or hide it."""
    try:
        return f"ludus-{name} {importlib.metadata.version(f'ludus-{name}')}"
    except importlib.metadata.PackageNotFoundError:
        plugins = ludus.load_plugins()
        return f"{kind} {name!r} of {plugins.provider(kind, name).label}" if name in plugins.components(kind) else ""


def _ludus(version: str) -> str:
    """Return the requirement of a plugin made for a version of ludus: up to the next that may change contracts."""
    major, minor = map(int, version.split(".")[:2])
    return f"ludus>={major}.{minor}," + (f"<{major + 1}" if major else f"<0.{minor + 1}")


def _lines(*requirements: str) -> str:
    return "\n    ".join(sorted(requirements))


def _template(name: str) -> Template:
    path = importlib.resources.files(__package__).joinpath("templates", f"{name}.tmpl")
    return Template(path.read_text(encoding="utf-8"))
