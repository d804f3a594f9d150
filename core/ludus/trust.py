"""Which Python modules a configuration may name.

A run file is data, and importing a module executes it. An option whose values name modules declares that by `Imports`,
and a configuration is refused unless every module that it names is one of these:

* a module of a library that the option declares, such as PettingZoo, or of an installed plugin of ludus;
* a module that the user trusts by name: ``--trust-module``, the variable ``LUDUS_TRUST_MODULES``, or the file
  `user_file`;
* a module in a folder of ``PYTHONPATH``, which only the user sets. Installed distributions in such a folder do not
  count, and neither does a package that contains the folder of the configuration file;
* a module that the running program has imported already from a folder of its own.

Modules of Python's standard library are always refused.

A table that the constructor of a game gets may name files, which the game reads or writes. Such a path must not lead
out of the current folder, unless the user trusts the module of the game, in one of the ways above.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

__all__ = [
    "MODULES_VARIABLE",
    "NO_FILE",
    "PATH_VARIABLE",
    "ConfigSource",
    "Imports",
    "child_variables",
    "describe_refusal",
    "is_module_name",
    "leads_out",
    "modules_of",
    "trust_module",
    "user_file",
]

#: Comma-separated names of modules that the user trusts, with their submodules. Worker processes inherit it.
MODULES_VARIABLE = "LUDUS_TRUST_MODULES"
#: Folders that count instead of those of ``PYTHONPATH``, which ludus extends for worker processes.
PATH_VARIABLE = "LUDUS_TRUST_PATH"

_PLUGIN_GROUP = "ludus"
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


@frozen(kw_only=True)
class Imports:
    """How the values of an option name modules.

    Args:
        modules: Returns the modules that a value of the option names.
        libraries: Packages of which any configuration may name modules.
    """

    modules: Callable[[Any], Iterable[str]]
    libraries: tuple[str, ...] = ()


def is_module_name(name: str) -> bool:
    """Return whether a text is the dotted name of a module."""
    return _MODULE.fullmatch(name) is not None


def modules_of(paths: str | Iterable[str | Mapping[str, Any]]) -> Iterator[str]:
    """Yield the modules of import paths ``"module:name"``; a text without a colon names none.

    Args:
        paths: One path, or paths as `ludus.option.import_paths` accepts them.
    """
    for path in [paths] if isinstance(paths, str) else paths:
        module, colon, _ = (path if isinstance(path, str) else str(path["path"])).partition(":")
        if colon:
            yield module


def trust_module(name: str) -> None:
    """Trust a module and its submodules in this process and its worker processes.

    Raises:
        ValueError: The text is not the name of a module.
    """
    if not is_module_name(name):
        raise ValueError(f"{name!r}: expected the name of a module, such as my_games or my_games.arena")
    names = [*_read_variable(), name]
    os.environ[MODULES_VARIABLE] = ",".join(dict.fromkeys(names))


def user_file() -> Path:
    """Return the path of the user's file of trusted modules: a name per line, ``#`` starts a comment."""
    configured = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    folder = configured if configured.is_absolute() else Path("~/.config").expanduser()
    return folder / "ludus" / "trusted_modules.txt"


def _search_path() -> str:
    return os.environ.get(PATH_VARIABLE, os.environ.get("PYTHONPATH", ""))


def child_variables() -> dict[str, str]:
    """Return the variables by which a Python process finds and trusts the same modules as this process.

    It must be started with ``-P``, so that its current folder is not searched.
    """
    inherited = os.environ["PYTHONPATH"].split(os.pathsep) if os.environ.get("PYTHONPATH") else []
    entries = [*sys.path[:1], *inherited]  # the first is the folder of the script; empty ones are the current folder
    return {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(str(Path(entry).absolute()) for entry in entries)),
        PATH_VARIABLE: _search_path(),
    }


def describe_refusal(module: str, *, libraries: Iterable[str] = (), folder: Path | None = None) -> str:
    """Return why a configuration may not name a module, and what to do; empty if it may.

    A module that cannot be found is not refused. It cannot execute code either, and the component reports it.

    Args:
        module: Name of the module.
        libraries: Packages of which any configuration may name modules.
        folder: Folder of the configuration file, if there is one.
    """
    package = module.partition(".")[0]
    if not is_module_name(module):
        return f"{module!r} is not the name of a module; expected one such as my_games or my_games.arena"
    if package in sys.stdlib_module_names or package == "__main__":
        return f"{module!r} is a module of Python itself, which contains no games; name the module of a game"
    if package in libraries or _is_trusted(module) or package in _plugin_packages():
        return ""
    location = _find_location(package)
    if location is None or _is_of_user(package, location, folder):
        return ""
    return (
        f"the module {module!r} is not trusted on this machine, and to import it is to execute it; if you trust it, "
        f"add --trust-module {package}, or set {MODULES_VARIABLE}={package}"
    )


def leads_out(text: str) -> bool:
    """Return whether a text, read as a path, leads out of the current folder: by itself or by a link."""
    if "\0" in text:  # no path
        return False
    expanded = os.path.expanduser(text)  # noqa: PTH111 - `Path.expanduser` raises for an unknown user
    return not Path(os.path.realpath(expanded)).is_relative_to(os.path.realpath(Path.cwd()))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _is_of_user(package: str, location: Path, folder: Path | None) -> bool:
    """Return whether a package lies in a folder of the user: of ``PYTHONPATH``, or of the running program."""
    named = {Path(entry).absolute() for entry in _search_path().split(os.pathsep) if entry}
    if location not in named and package not in sys.modules:
        return False
    if folder is not None and folder.resolve().is_relative_to((location / package).resolve()):
        return False  # a folder from elsewhere, unpacked in a folder of the user
    return package not in _installed_packages(location)


def _is_trusted(module: str) -> bool:
    names = {*_read_variable(), *_read_user_file()}
    parts = module.split(".")
    return any(".".join(parts[:count]) in names for count in range(1, len(parts) + 1))


def _read_variable() -> list[str]:
    return [name.strip() for name in os.environ.get(MODULES_VARIABLE, "").split(",") if name.strip()]


def _read_user_file() -> list[str]:
    try:
        lines = user_file().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [name for line in lines if (name := line.partition("#")[0].strip())]


def _plugin_packages() -> set[str]:
    """Return the packages that contain the entry points of installed plugins."""
    points = importlib.metadata.entry_points(group=_PLUGIN_GROUP)
    return {point.module.partition(".")[0] for point in points}


def _find_location(package: str) -> Path | None:
    """Return the folder in which a package or module would be found, without importing it; None if nowhere."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # ValueError: it is in `sys.modules` without a spec
        return None
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ()) or [spec.origin or ""]
    return Path(places[0]).absolute().parent


def _installed_packages(folder: Path) -> set[str]:
    """Return the packages and modules in a folder that an installer has put there."""
    records = (one.read_text("RECORD") for one in importlib.metadata.distributions(path=[str(folder)]))
    lines = (line for record in records if record for line in record.splitlines())
    return {line.partition(",")[0].partition("/")[0].partition(".")[0] for line in lines}


@frozen(kw_only=True)
class ConfigSource:
    """Where a configuration was read.

    Args:
        folder: Folder of its file; None without one.
        is_program: Whether the running program wrote it, which may name its own modules.
    """

    folder: Path | None = None
    is_program: bool = False

    def refusals(self, config: Any) -> Iterator[tuple[str, str]]:
        """Yield option and reason for every module and path that the options of a component must not name.

        Args:
            config: Instance of a configuration class; None for a component without options.
        """
        options = attrs.fields(type(config)) if attrs.has(type(config)) else ()
        users: list[str] = []  # modules that use the paths
        for option in options:
            imports: Imports = option.metadata.get("imports") or Imports(modules=lambda _: ())
            modules = list(dict.fromkeys(imports.modules(getattr(config, option.name))))
            users += modules or imports.libraries[:1]
            refused = ((option.alias, self._refusal(module, imports.libraries)) for module in modules)
            yield from filter(itemgetter(1), refused)
        for option in options:
            is_table = option.metadata.get("path") == "table"
            if is_table and (text := self._path_refusal(getattr(config, option.name), users)):
                yield option.alias, text

    def _path_refusal(self, value: Any, users: Iterable[str]) -> str:
        """Return why a table may not name a path; empty if all of its texts may be used by these modules."""
        found = next(filter(leads_out, _texts(value)), None)
        if found is None:
            return ""
        refused = [module for module in users if self._refusal(module, ())]
        names = ", ".join(f"--trust-module {module.partition('.')[0]}" for module in dict.fromkeys(refused))
        if not refused:
            return ""
        return (
            f"{found!r} leads out of the current folder, {Path.cwd()}; expected the path of a file below it, or the "
            f"game to be trusted with files of yours: {names}"
        )

    def _refusal(self, module: str, libraries: tuple[str, ...]) -> str:
        text = describe_refusal(module, libraries=libraries, folder=self.folder)
        if text and self.is_program and is_module_name(module):
            trust_module(module)  # worker processes read the configuration from a file
            text = describe_refusal(module, libraries=libraries, folder=self.folder)
        return text


#: Tables that were not read from a file.
NO_FILE = ConfigSource()
