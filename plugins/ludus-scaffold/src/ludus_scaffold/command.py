"""The command ``ludus new-plugin``: write new plugin packages from templates."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import shlex
from pathlib import Path
from string import Template

import click
import ludus
from ludus.errors import ConfigError
from ludus.option import name as component_name

#: Kinds of components that have templates.
KINDS = ("environment", "algorithm", "matchmaker", "interface", "agent")

#: Path of every template's file; ``$package`` is the import package. Templates ``common-…`` are used for all kinds.
_PATHS = {
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

#: Requirements of each kind; ``{ludus}`` is the range of compatible versions.
_REQUIRES = {
    "environment": ("attrs>=23.2", "gymnasium>=1.0", "ludus{ludus}", "numpy>=1.26"),
    "algorithm": ("attrs>=23.2", "ludus{ludus}", "ludus-torch{ludus}", "numpy>=1.26", "torch>=2.4"),
    "matchmaker": ("attrs>=23.2", "ludus{ludus}", "numpy>=1.26"),
    "interface": ("attrs>=23.2", "gymnasium>=1.0", "ludus{ludus}", "numpy>=1.26"),
    "agent": ("attrs>=23.2", "ludus{ludus}", "numpy>=1.26"),
}

#: Further requirements of its tests.
_TEST_REQUIRES = {"agent": ("gymnasium>=1.0",), "algorithm": ("gymnasium>=1.0",)}

_SUMMARIES = {
    "environment": "Nim: the seats take objects from heaps in turn, and the last object wins",
    "algorithm": "REINFORCE with a learned baseline on any stateless network",
    "matchmaker": "uniform over a pool of frozen models",
    "interface": "maps bounded observations to [-1, 1] and scales rewards",
    "agent": "repeats its last action where that is legal",
}


def write_plugin(kind: str, name: str, *, into: Path) -> Path:
    """Write the distribution ``ludus-<name>`` with one component and return its folder.

    Args:
        kind: One of `KINDS`.
        name: Name of the component; a leading ``ludus-`` is removed.
        into: Parent folder of the new folder.

    Raises:
        ConfigError: The name is invalid or already installed, or the folder exists.
    """
    name = name.removeprefix("ludus-")
    _check_name(kind, name)
    folder = into / f"ludus-{name}"
    if folder.exists():
        raise ConfigError(f"{folder} exists already; choose another name, or another place with --into")
    for path, text in _render(kind, name).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return folder


def _check_name(kind: str, name: str) -> None:
    """Check that a name is valid, and that no installed distribution or component has it.

    Raises:
        ConfigError: It is not, or one has.
    """
    if not (component_name().accepts(name) and name[-1].isalnum()):  # names of distributions end so
        raise ConfigError(f"plugin name {name!r}: expected {component_name().expected}, and ends with one")
    if installed := _find_installed(kind, name):
        raise ConfigError(f"{installed} is installed already; choose another name, or uninstall that first")


def _find_installed(kind: str, name: str) -> str:
    """Return the installed distribution or component of a name, which the new one would replace or hide; else empty."""
    try:
        return f"ludus-{name} {importlib.metadata.version(f'ludus-{name}')}"
    except importlib.metadata.PackageNotFoundError:
        plugins = ludus.load_plugins()
        return f"{kind} {name!r} of {plugins.provider(kind, name).label}" if name in plugins.components(kind) else ""


def _render(kind: str, name: str) -> dict[str, str]:
    """Return the text of every file by its path in the new folder."""
    package = "ludus_" + "".join(letter if letter.isalnum() else "_" for letter in name)
    ludus_range = _version_range(ludus.__version__)
    values = {
        "kind": kind,
        "name": name,
        "package": package,
        "summary": _SUMMARIES[kind],
        "api_level": str(ludus.API_LEVEL),
        "requires": _lines(*(requirement.format(ludus=ludus_range) for requirement in _REQUIRES[kind])),
        "test_requires": _lines(*_TEST_REQUIRES.get(kind, ()), "pytest>=8"),
    }
    return {
        Template(path).substitute(values): _read_template(Template(template).substitute(values)).substitute(values)
        for template, path in _PATHS.items()
    }


def _version_range(version: str) -> str:
    """Return the compatible versions: from this one up to the next that may change contracts."""
    major, minor = map(int, version.split(".")[:2])
    return f">={major}.{minor}," + (f"<{major + 1}" if major else f"<0.{minor + 1}")


def _lines(*requirements: str) -> str:
    return "\n    ".join(sorted(requirements))


def _read_template(name: str) -> Template:
    path = importlib.resources.files(__package__).joinpath("templates", f"{name}.tmpl")
    return Template(path.read_text(encoding="utf-8"))


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Parent folder of the new folder; default: the current folder.",
)
def new_plugin(kind: str, name: str, *, into: Path) -> None:
    """Write the distribution ludus-NAME with a small working component and passing tests."""
    folder = write_plugin(kind, name, into=into)
    click.echo(f"wrote {folder}; next:")
    click.echo(f"  cd {shlex.quote(str(folder))}")
    click.echo("  pip install -e '.[test]'")
    click.echo("  pytest")
    click.echo(f"  ludus plugins show {kind}:{folder.name.removeprefix('ludus-')}")
