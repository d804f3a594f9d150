"""The façade over pluggy: finds, loads and checks plugins so that none of them can take ludus down.

Plugins are loaded explicitly, by the process that needs them, never by an import of ludus. Every plugin gets a pluggy
manager of its own: that keeps its unknown hooks, its exceptions and its half-made registrations apart from
everybody else's, and no name of an entry point can shadow another.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from traceback import walk_tb
from typing import Any, Literal, TypeAlias

import pluggy
from attrs import evolve, field, frozen

from ludus import hookspecs
from ludus._plugins.commands import BUILT_IN_COMMANDS
from ludus.component import Component
from ludus.errors import PluginError, UnknownComponent
from ludus.hookspecs import KIND_OF_HOOK

#: The entry-point group of plugins.
GROUP = "ludus"
#: Comma-separated plugins to load; nothing else is. Inherited by worker processes.
ALLOW_VARIABLE = "LUDUS_ALLOW_PLUGINS"
#: Comma-separated plugins not to load; stronger than the above. Inherited by worker processes.
BLOCK_VARIABLE = "LUDUS_BLOCK_PLUGINS"

_VARIABLES = f"{ALLOW_VARIABLE}, {BLOCK_VARIABLE}"
#: Where the components that a run uses by default come from.
_HOMES = {("launcher", "local"): "ludus-local", ("rating", "elo"): "ludus-ratings"}
_HOOKS = tuple(name for name in hookspecs.__all__ if name.startswith("ludus_"))
#: The hooks that tell of something that happened; all others register components.
EVENTS = tuple(name for name in _HOOKS if name not in KIND_OF_HOOK)

_log = logging.getLogger("ludus.plugins")


@frozen(kw_only=True)
class PluginReport:
    """What became of one entry point.

    Args:
        name: Name of the entry point.
        distribution: Name of the pip distribution it comes from.
        version: Version of that distribution.
        status: ``"ok"``; ``"broken"`` (an exception, an unknown hook, junk returned), ``"blocked"`` (by the user) or
            ``"refused"`` (made for a newer plugin API). Only plugins that are ok offer anything.
        problems: One line each, with what to do about it; an ok plugin has some where components of it
            clash or are hidden, or where it implements no hook.
        offers: Components by kind, in the order registered.
        listens: The event hooks it implements.
    """

    name: str
    distribution: str
    version: str
    status: Literal["ok", "broken", "blocked", "refused"] = "ok"
    problems: tuple[str, ...] = ()
    offers: Mapping[str, tuple[Component, ...]] = field(factory=dict)
    listens: tuple[str, ...] = ()

    @property
    def who(self) -> str:
        """Return its names and version as lines about it begin."""
        return f"{self.name} ({self.distribution} {self.version})"

    def is_named_in(self, names: Iterable[str]) -> bool:
        """Return whether its entry point or its distribution is among the names, spelled as pip would accept them."""
        return bool({_normal(self.name), _normal(self.distribution)} & {_normal(name) for name in names})


_Provider: TypeAlias = tuple[PluginReport, Component]


class Plugins:
    """The plugins of this process: what each became and what they offer together.

    Args:
        loaded: Reports with, for plugins that are ok, the manager that calls their hooks.
        unmatched: Names to allow or block that no installed plugin has.
    """

    def __init__(
        self, loaded: Sequence[tuple[PluginReport, pluggy.PluginManager | None]], *, unmatched: Sequence[str] = ()
    ) -> None:
        loaded = sorted(loaded, key=lambda item: (_normal(item[0].distribution), item[0].name))
        self._providers = _providers([report for report, _ in loaded])
        self._managers = [(report, manager) for report, manager in loaded if manager is not None]
        self._complained: set[str] = set()
        clashes = [
            ([report for report, _ in providers], _clash(*key, providers))
            for key, providers in self._providers.items()
            if len(providers) > 1
        ]
        clashes += [
            ([report for report, _ in providers], f"its command {name!r} is hidden by that of ludus itself")
            for (kind, name), providers in self._providers.items()
            if kind == "command" and name in BUILT_IN_COMMANDS
        ]
        self.reports = tuple(
            evolve(report, problems=(*report.problems, *(line for who, line in clashes if report in who)))
            for report, _ in loaded
        )
        self.unmatched = tuple(unmatched)

    def components(self, kind: str) -> dict[str, Component]:
        """Return the components of a kind by name, sorted; of a clash the first provider's."""
        names = sorted(name for key_kind, name in self._providers if key_kind == kind)
        return {name: self._providers[kind, name][0][1] for name in names}

    def get(self, kind: str, name: str) -> Component:
        """Return the component called `name`.

        Raises:
            UnknownComponent: No loaded plugin provides it.
            PluginError: Several plugins provide it.
        """
        providers = self._find(kind, name)
        if len(providers) > 1:
            raise PluginError(_clash(kind, name, providers))
        return providers[0][1]

    def provider(self, kind: str, name: str) -> PluginReport:
        """Return the report of the plugin that provides `name`; of a clash the first one.

        Raises:
            UnknownComponent: No loaded plugin provides it.
        """
        return self._find(kind, name)[0][0]

    def _find(self, kind: str, name: str) -> Sequence[_Provider]:
        if (kind, name) not in self._providers:
            raise UnknownComponent(self._unknown(kind, name))
        return self._providers[kind, name]

    def problems(self, *, broken: bool = False) -> Iterator[str]:
        """Yield one line for every problem of every plugin; where `broken`, only why some could not be loaded."""
        for report in self.reports:
            if not broken or report.status in ("broken", "refused"):
                yield from (f"{report.who} {report.status}: {problem}" for problem in report.problems)
        if not broken:
            yield from self.unmatched_names()

    def unmatched_names(self) -> Iterator[str]:
        """Yield one line for every name to allow or block that no installed plugin has."""
        names = [name for report in self.reports for name in (report.name, report.distribution)]
        for name in self.unmatched:
            close = get_close_matches(name, names, n=1)
            hint = f" — did you mean {close[0]!r}?" if close else ""
            text = f"{name!r} is to be allowed or blocked, but no installed plugin has that name"
            yield f"{text}{hint} (see {_VARIABLES})"

    def withheld(self) -> str:
        """Return one line about the plugins that somebody does not want to be loaded; empty where there are none."""
        blocked = [report.name for report in self.reports if report.status == "blocked"]
        parts = [f"not loaded: {', '.join(blocked)}"] if blocked else []
        parts += [f"no installed plugin is called {name!r}" for name in self.unmatched]
        return f"{'; '.join(parts)} (see {_VARIABLES})" if parts else ""

    def emit(self, event: str, **arguments: object) -> None:
        """Call an event hook of every plugin; an exception in one is logged once and stops nothing.

        Args:
            event: One of `EVENTS`.
            **arguments: All arguments of the hook.
        """
        if event not in EVENTS:
            raise ValueError(f"{event!r} is not an event; events are {', '.join(EVENTS)}")
        for report, manager in self._managers:
            try:
                getattr(manager.hook, event)(**arguments)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a listener may raise anything, even exit
                self._complain(report, event, error)

    def _complain(self, report: PluginReport, event: str, error: BaseException) -> None:
        if report.who not in self._complained:
            self._complained.add(report.who)
            text = "plugin %s failed in %s: %s; further failures of this plugin are not shown"
            _log.error(text, report.who, event, _one_line(error), exc_info=bool(os.environ.get("LUDUS_DEBUG")))

    def _unknown(self, kind: str, name: str) -> str:
        installed = self.components(kind)
        close = get_close_matches(name, installed, n=1)
        parts = [f"no installed plugin provides the {kind} {name!r}"]
        if close:
            parts.append(f"did you mean {close[0]!r}?")
        listing = f"installed: {', '.join(installed)}" if installed else f"no {kind} is installed"
        parts.append(f"{listing}; plugins are added with: pip install {_HOMES.get((kind, name), 'ludus-…')}")
        missing = [report.name for report in self.reports if report.status != "ok"]
        if missing:
            parts.append(f"not loaded: {', '.join(missing)} (see ludus plugins)")
        return " — ".join(parts)


def load_plugins(*, allow: Sequence[str] = (), block: Sequence[str] = ()) -> Plugins:
    """Load every installed plugin, each on its own.

    Args:
        allow: Entry-point or distribution names; where any are given (here or in ``LUDUS_ALLOW_PLUGINS``), nothing
            else is loaded.
        block: Names not to load, in addition to ``LUDUS_BLOCK_PLUGINS``.
    """
    allowed = (*allow, *_from_environment(ALLOW_VARIABLE))
    blocked = (*block, *_from_environment(BLOCK_VARIABLE))
    found = list(_installed())
    unmatched = [name for name in (*allowed, *blocked) if not any(report.is_named_in([name]) for report, _ in found)]
    return Plugins([_load(report, point, allowed, blocked) for report, point in found], unmatched=unmatched)


def _from_environment(variable: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in os.environ.get(variable, "").split(",") if name.strip())


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}" if text else type(error).__name__


def _place(error: BaseException, module: str) -> str:
    """Return the innermost line that raised, of all in the package of `module`; empty where none of them ran."""
    package = module.partition(".")[0]
    frames = ((frame.f_globals.get("__name__", ""), line) for frame, line in walk_tb(error.__traceback__))
    places = [f" ({name}, line {line})" for name, line in frames if name.partition(".")[0] == package]
    return places[-1] if places else ""


def _installed() -> Iterator[tuple[PluginReport, importlib.metadata.EntryPoint]]:
    """Yield the entry points of all distributions, not imported; one with unreadable metadata is left out."""
    seen = set()
    for distribution in importlib.metadata.distributions():
        try:
            points = distribution.entry_points.select(group=GROUP)
            name, version = (distribution.metadata["Name"], distribution.version) if points else ("", "")
        except Exception as error:  # noqa: BLE001 - metadata on disk may be damaged in any way
            _log.warning("cannot read the metadata of an installed distribution: %s", _one_line(error))
            continue
        for point in points:
            key = (_normal(name), point.name, point.value)
            if key not in seen:  # sys.path may show one distribution twice
                seen.add(key)
                yield PluginReport(name=point.name, distribution=name, version=version), point


def _load(
    report: PluginReport, point: importlib.metadata.EntryPoint, allowed: Sequence[str], blocked: Sequence[str]
) -> tuple[PluginReport, pluggy.PluginManager | None]:
    if report.is_named_in(blocked):
        return evolve(report, status="blocked", problems=(f"blocked by {BLOCK_VARIABLE} or --block-plugin",)), None
    if allowed and not report.is_named_in(allowed):
        return evolve(report, status="blocked", problems=(f"not among {ALLOW_VARIABLE} or --allow-plugin",)), None
    try:
        plugin = point.load()
        level = getattr(plugin, "LUDUS_API", hookspecs.API_LEVEL)
        if not isinstance(level, int):
            raise PluginError(f"LUDUS_API is {level!r}, expected a whole number: {hookspecs.API_LEVEL} for this ludus")
        if level > hookspecs.API_LEVEL:
            problem = (
                f"needs plugin API level {level}, this ludus has {hookspecs.API_LEVEL} — "
                f"pip install --upgrade ludus, or install an older {report.distribution}"
            )
            return evolve(report, status="refused", problems=(problem,)), None
        manager = _manage(plugin)
        listens = tuple(event for event in EVENTS if getattr(manager.hook, event).get_hookimpls())
        offers = _offers(manager)
        silent = f"{point.value} implements no hook — let the entry point name the module that does"
        return evolve(report, offers=offers, listens=listens, problems=() if offers or listens else (silent,)), manager
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything: exit, or what a panic in Rust becomes
        if os.environ.get("LUDUS_DEBUG"):
            _log.error("plugin %s failed to load", report.who, exc_info=True)
        why = str(error) if isinstance(error, PluginError) else _one_line(error)
        place = _place(error.__cause__ or error, point.module)
        problem = f"{why}{place} — fix it, or disable it with {BLOCK_VARIABLE}={report.name}"
        return evolve(report, status="broken", problems=(problem,)), None


def _manage(plugin: object) -> pluggy.PluginManager:
    """Return a manager of this one plugin.

    Raises:
        PluginError: It has a hook that ludus does not know, or one that is not marked.
        PluginValidationError: A hook takes arguments that ludus does not pass.
    """
    manager = pluggy.PluginManager("ludus")
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, "plugin")
    try:
        manager.check_pending()
    except pluggy.PluginValidationError:
        raise PluginError(_unknown_hooks(manager, plugin)) from None
    for name in _HOOKS:
        if callable(getattr(plugin, name, None)) and manager.parse_hookimpl_opts(plugin, name) is None:
            raise PluginError(f"{name} lacks the decorator @ludus.hookimpl")
    return manager


def _unknown_hooks(manager: pluggy.PluginManager, plugin: object) -> str:
    callers = manager.get_hookcallers(plugin) or []
    lines = []
    for name in sorted(caller.name for caller in callers if not caller.has_spec()):
        close = get_close_matches(name, _HOOKS, n=1)
        lines.append(f"implements unknown hook {name}" + (f" — did you mean {close[0]}?" if close else ""))
    return "; ".join(lines)


def _offers(manager: pluggy.PluginManager) -> dict[str, tuple[Component, ...]]:
    """Return the components by kind.

    Raises:
        PluginError: A register hook raised, or returned something else.
    """
    offers = {}
    for hook, kind in KIND_OF_HOOK.items():
        caller = getattr(manager.hook, hook)
        if caller.get_hookimpls():
            try:
                offers[kind] = _checked(hook, caller())
            except PluginError:
                raise
            except (Exception, SystemExit) as error:
                raise PluginError(f"{hook} raised {_one_line(error)}") from error
    return offers


def _checked(hook: str, answers: list[Any]) -> tuple[Component, ...]:
    """Return what a register hook answered.

    Raises:
        PluginError: It is not an iterable of components with different names.
    """
    if not answers:  # pluggy drops None
        raise PluginError(f"{hook} returned None, expected components")
    components: list[Component] = []
    for answer in answers:
        if isinstance(answer, str | Component) or not isinstance(answer, Iterable):
            raise PluginError(f"{hook} returned {answer!r}, expected a list of ludus.Component")
        components.extend(answer)
    for component in components:
        if not isinstance(component, Component):
            raise PluginError(f"{hook} returned a list with {component!r}, expected only ludus.Component")
    names = [component.name for component in components]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PluginError(f"{hook} returned two components named {', '.join(map(repr, twice))}")
    return tuple(components)


def _providers(reports: Sequence[PluginReport]) -> dict[tuple[str, str], list[_Provider]]:
    """Return who provides each kind and name."""
    providers: dict[tuple[str, str], list[_Provider]] = {}
    for report in reports:
        for kind, components in report.offers.items():
            for component in components:
                providers.setdefault((kind, component.name), []).append((report, component))
    return providers


def _clash(kind: str, name: str, providers: Sequence[_Provider]) -> str:
    (kept, _), (other, _) = providers[:2]
    who = " and ".join(f"{report.distribution} (plugin {report.name})" for report, _ in providers)
    # The name of its entry point would block both where they share it.
    blocked = other.distribution if kept.is_named_in([other.name]) else other.name
    return (
        f"{kind} {name!r} is provided by {who} — block one of them: "
        f"{BLOCK_VARIABLE}={blocked} keeps that of {kept.distribution}"
    )
