"""Find installed plugins and load each on its own, so that a broken one cannot affect ludus or other plugins.

Besides `ludus.hookspecs`, this is the only module that imports pluggy. Every plugin has its own pluggy manager, which
keeps its unknown hooks, its exceptions and its partial registrations apart from other plugins; and no entry point can
shadow another one of the same name.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from traceback import walk_tb
from typing import Any, Literal

import pluggy
from attrs import evolve, field, frozen

from ludus import hookspecs
from ludus.component import Component
from ludus.errors import PluginError
from ludus.hookspecs import KIND_OF_HOOK
from ludus.printing import did_you_mean

#: The entry-point group of plugins.
GROUP = "ludus"
#: Comma-separated names of the only plugins to load. Worker processes inherit it.
ALLOW_VARIABLE = "LUDUS_ALLOW_PLUGINS"
#: Comma-separated names of plugins not to load; takes precedence over the above. Worker processes inherit it.
BLOCK_VARIABLE = "LUDUS_BLOCK_PLUGINS"

_HOOKS = tuple(name for name in hookspecs.__all__ if name.startswith("ludus_"))
#: The hooks that receive events; all others register components.
EVENTS = tuple(name for name in _HOOKS if name not in KIND_OF_HOOK)

_log = logging.getLogger("ludus.plugins")


@frozen(kw_only=True)
class PluginReport:
    """The result of loading one entry point.

    Args:
        name: Name of the entry point.
        distribution: Name of its pip distribution.
        version: Version of that distribution.
        status: ``"ok"``; ``"broken"`` (an exception, an unknown hook, or invalid components), ``"blocked"`` (by the
            user) or ``"refused"`` (made for a newer plugin API). Only plugins that are ok offer components.
        problems: One line each, with a suggested fix; an ok plugin has problems if its components clash or are hidden,
            or if it implements no hook.
        offers: Components by kind, in the order of registration.
        listens: Event hooks that the plugin implements.
    """

    name: str
    distribution: str
    version: str
    status: Literal["ok", "broken", "blocked", "refused"] = "ok"
    problems: tuple[str, ...] = ()
    offers: Mapping[str, tuple[Component, ...]] = field(factory=dict)
    listens: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Return the name, distribution and version for messages."""
        return f"{self.name} ({self.distribution} {self.version})"

    def is_named_in(self, names: Iterable[str]) -> bool:
        """Return whether the entry point or its distribution is among the names, normalized as pip does."""
        return bool({normalize(self.name), normalize(self.distribution)} & {normalize(name) for name in names})


@frozen(kw_only=True)
class LoadedPlugin:
    """A plugin after loading.

    Args:
        report: The result of loading.
        manager: Manager that calls the hooks of the plugin; None if it is not ok.
    """

    report: PluginReport
    manager: pluggy.PluginManager | None = None

    def call(self, event: str, **arguments: object) -> None:
        """Call an event hook of the plugin; do nothing if it is not ok.

        Raises:
            BaseException: Any exception of the plugin.
        """
        if self.manager is not None:
            getattr(self.manager.hook, event)(**arguments)


def normalize(name: str) -> str:
    """Return the normalized name of a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


def format_exception(error: BaseException) -> str:
    """Return an exception as one line of at most about 400 characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}" if text else type(error).__name__


def find_entry_points() -> Iterator[tuple[PluginReport, importlib.metadata.EntryPoint]]:
    """Yield the entry points of all distributions without importing them; unreadable metadata is skipped."""
    seen = set()
    for distribution in importlib.metadata.distributions():
        try:
            points = distribution.entry_points.select(group=GROUP)
            name, version = (distribution.metadata["Name"], distribution.version) if points else ("", "")
        except Exception as error:  # noqa: BLE001 - metadata on disk may be damaged in any way
            _log.warning("cannot read the metadata of an installed distribution: %s", format_exception(error))
            continue
        for point in points:
            key = (normalize(name), point.name, point.value)
            if key not in seen:  # sys.path may list one distribution twice
                seen.add(key)
                yield PluginReport(name=point.name, distribution=name, version=version), point


def load_plugin(
    report: PluginReport, point: importlib.metadata.EntryPoint, allowed: Sequence[str], blocked: Sequence[str]
) -> LoadedPlugin:
    """Load one plugin; any exception of it becomes a problem of its report.

    Args:
        report: Report with the names and version of the plugin.
        point: Its entry point.
        allowed: Names of the only plugins to load; empty for all.
        blocked: Names of plugins not to load.
    """
    if report.is_named_in(blocked):
        problem = f"blocked by {BLOCK_VARIABLE} or --block-plugin"
        return LoadedPlugin(report=evolve(report, status="blocked", problems=(problem,)))
    if allowed and not report.is_named_in(allowed):
        problem = f"not among {ALLOW_VARIABLE} or --allow-plugin"
        return LoadedPlugin(report=evolve(report, status="blocked", problems=(problem,)))
    try:
        plugin = point.load()
        if problem := _api_problem(plugin, report):
            return LoadedPlugin(report=evolve(report, status="refused", problems=(problem,)))
        return _register(plugin, report, point)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything: exit, or a panic of Rust code
        if os.environ.get("LUDUS_DEBUG"):
            _log.error("plugin %s failed to load", report.label, exc_info=True)
        text = str(error) if isinstance(error, PluginError) else format_exception(error)
        location = _location(error.__cause__ or error, point.module)
        problem = f"{text}{location} — fix it, or disable it with {BLOCK_VARIABLE}={report.name}"
        return LoadedPlugin(report=evolve(report, status="broken", problems=(problem,)))


def _api_problem(plugin: object, report: PluginReport) -> str:
    """Return why this version of ludus cannot load a plugin; empty if it can.

    Raises:
        PluginError: The plugin's API level is not a whole number.
    """
    level = getattr(plugin, "LUDUS_API", hookspecs.API_LEVEL)
    if not isinstance(level, int):
        raise PluginError(f"LUDUS_API is {level!r}, expected a whole number: {hookspecs.API_LEVEL} for this ludus")
    if level <= hookspecs.API_LEVEL:
        return ""
    return (
        f"needs plugin API level {level}, this ludus has {hookspecs.API_LEVEL} — "
        f"pip install --upgrade ludus, or install an older {report.distribution}"
    )


def _register(plugin: object, report: PluginReport, point: importlib.metadata.EntryPoint) -> LoadedPlugin:
    """Register the hooks of an imported plugin, and collect its components.

    Raises:
        PluginError: A hook is unknown, unmarked or failed, or returned invalid components.
        PluginValidationError: A hook takes arguments that ludus does not pass.
    """
    manager = _make_manager(plugin)
    listens = tuple(event for event in EVENTS if getattr(manager.hook, event).get_hookimpls())
    offers = _collect_components(manager)
    no_hooks = f"{point.value} implements no hook — let the entry point name the module that does"
    problems = () if offers or listens else (no_hooks,)
    return LoadedPlugin(report=evolve(report, offers=offers, listens=listens, problems=problems), manager=manager)


def _location(error: BaseException, module: str) -> str:
    """Return the innermost line of the plugin's package in the traceback of an error; empty if there is none."""
    package = module.partition(".")[0]
    frames = ((frame.f_globals.get("__name__", ""), line) for frame, line in walk_tb(error.__traceback__))
    locations = [f" ({name}, line {line})" for name, line in frames if name.partition(".")[0] == package]
    return locations[-1] if locations else ""


def _make_manager(plugin: object) -> pluggy.PluginManager:
    """Return a manager of one plugin.

    Raises:
        PluginError: The plugin has an unknown hook, or one without the decorator.
        PluginValidationError: A hook takes arguments that ludus does not pass.
    """
    manager = pluggy.PluginManager("ludus")
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, "plugin")
    try:
        manager.check_pending()
    except pluggy.PluginValidationError:
        raise PluginError(_describe_unknown_hooks(manager, plugin)) from None
    for name in _HOOKS:
        if callable(getattr(plugin, name, None)) and manager.parse_hookimpl_opts(plugin, name) is None:
            raise PluginError(f"{name} lacks the decorator @ludus.hookimpl")
    return manager


def _describe_unknown_hooks(manager: pluggy.PluginManager, plugin: object) -> str:
    callers = manager.get_hookcallers(plugin) or []
    unknown = sorted(caller.name for caller in callers if not caller.has_spec())
    return "; ".join(f"implements unknown hook {name}{did_you_mean(name, _HOOKS)}" for name in unknown)


def _collect_components(manager: pluggy.PluginManager) -> dict[str, tuple[Component, ...]]:
    """Return the components of a plugin by kind.

    Raises:
        PluginError: A register hook raised, or returned something other than components.
    """
    components = {}
    for hook, kind in KIND_OF_HOOK.items():
        caller = getattr(manager.hook, hook)
        if caller.get_hookimpls():
            try:
                components[kind] = _check_components(hook, caller())
            except PluginError:
                raise
            except (Exception, SystemExit) as error:
                raise PluginError(f"{hook} raised {format_exception(error)}") from error
    return components


def _check_components(hook: str, results: list[Any]) -> tuple[Component, ...]:
    """Return the components that a register hook returned.

    Raises:
        PluginError: A result is not an iterable of components, or two components have one name.
    """
    if not results:  # pluggy drops None
        raise PluginError(f"{hook} returned None, expected components")
    components = tuple(component for result in results for component in _iterate_result(hook, result))
    names = [component.name for component in components]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise PluginError(f"{hook} returned two components named {', '.join(map(repr, duplicates))}")
    return components


def _iterate_result(hook: str, result: Any) -> Iterator[Component]:
    if isinstance(result, str | Component) or not isinstance(result, Iterable):
        raise PluginError(f"{hook} returned {result!r}, expected a list of ludus.Component")
    for component in result:
        if not isinstance(component, Component):
            raise PluginError(f"{hook} returned a list with {component!r}, expected only ludus.Component")
        yield component
