"""The plugins of a process and their components.

Plugins are loaded explicitly by the process that needs them, never by an import of ludus.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from attrs import evolve

from ludus._plugins.loading import (
    ALLOW_VARIABLE,
    BLOCK_VARIABLE,
    EVENTS,
    LoadedPlugin,
    PluginReport,
    find_entry_points,
    format_exception,
    load_plugin,
    normalize,
)
from ludus.component import Component
from ludus.errors import PluginError, UnknownComponent
from ludus.printing import did_you_mean

#: Commands of the core by name. Plugins cannot replace them.
BUILT_IN_COMMANDS = {
    "train": Component(
        name="train", factory="ludus._cli.train:train", summary="Train the players of a TOML file in a new run."
    ),
    "resume": Component(name="resume", factory="ludus._cli.train:resume", summary="Go on with an interrupted run."),
}
_VARIABLES = f"{ALLOW_VARIABLE}, {BLOCK_VARIABLE}"
#: Distributions of the components that a run uses by default.
_DEFAULT_DISTRIBUTIONS = {("launcher", "local"): "ludus-local", ("rating", "elo"): "ludus-ratings"}

_Provider: TypeAlias = tuple[PluginReport, Component]
_Providers: TypeAlias = Mapping[tuple[str, str], Sequence[_Provider]]

_log = logging.getLogger("ludus.plugins")


class Plugins:
    """The plugins of this process: a report on each, and the components of all.

    Args:
        plugins: The loaded plugins, and those that could not be loaded.
        unmatched: Allowed or blocked names that no installed plugin has.
    """

    def __init__(self, plugins: Sequence[LoadedPlugin], *, unmatched: Sequence[str] = ()) -> None:
        self._plugins = sorted(plugins, key=lambda one: (normalize(one.report.distribution), one.report.name))
        reports = [plugin.report for plugin in self._plugins]
        self._providers = _group_by_component(reports)
        self._failed_events: set[str] = set()  # labels of plugins that failed in an event hook
        self.reports = tuple(
            evolve(report, problems=(*report.problems, *_component_problems(report, self._providers)))
            for report in reports
        )
        self.unmatched = tuple(unmatched)

    def components(self, kind: str) -> dict[str, Component]:
        """Return the components of a kind by name, sorted; of several with one name the first plugin's."""
        names = sorted(name for other, name in self._providers if other == kind)
        return {name: self._providers[kind, name][0][1] for name in names}

    def get(self, kind: str, name: str) -> Component:
        """Return the component called `name`.

        Raises:
            UnknownComponent: No loaded plugin provides it.
            PluginError: Several plugins provide it.
        """
        providers = self._find(kind, name)
        if len(providers) > 1:
            raise PluginError(_describe_clash(kind, name, providers))
        return providers[0][1]

    def provider(self, kind: str, name: str) -> PluginReport:
        """Return the report of the plugin that provides `name`; of several plugins the first.

        Raises:
            UnknownComponent: No loaded plugin provides it.
        """
        return self._find(kind, name)[0][0]

    def _find(self, kind: str, name: str) -> Sequence[_Provider]:
        if (kind, name) not in self._providers:
            raise UnknownComponent(self._describe_unknown(kind, name))
        return self._providers[kind, name]

    def problems(self) -> Iterator[str]:
        """Yield one line for every problem of a plugin, and for every allowed or blocked name without a plugin."""
        for report in self.reports:
            yield from _report_lines(report)
        yield from self.unmatched_names()

    def load_failures(self) -> Iterator[str]:
        """Yield one line for every reason why a plugin could not be loaded."""
        for report in self.reports:
            if report.status in ("broken", "refused"):
                yield from _report_lines(report)

    def unmatched_names(self) -> Iterator[str]:
        """Yield one line for every allowed or blocked name that no installed plugin has."""
        names = [name for report in self.reports for name in (report.name, report.distribution)]
        for name in self.unmatched:
            text = f"{name!r} is to be allowed or blocked, but no installed plugin has that name"
            yield f"{text}{did_you_mean(name, names)} (see {_VARIABLES})"

    def describe_blocked(self) -> str:
        """Return one line about the plugins that the user blocked; empty if there are none."""
        blocked = [report.name for report in self.reports if report.status == "blocked"]
        parts = [f"not loaded: {', '.join(blocked)}"] if blocked else []
        parts += [f"no installed plugin is called {name!r}" for name in self.unmatched]
        return f"{'; '.join(parts)} (see {_VARIABLES})" if parts else ""

    def emit(self, event: str, **arguments: object) -> None:
        """Call an event hook of every plugin; an exception is logged once per plugin and otherwise ignored.

        Args:
            event: One of `EVENTS`.
            **arguments: All arguments of the hook.
        """
        if event not in EVENTS:
            raise ValueError(f"{event!r} is not an event; events are {', '.join(EVENTS)}")
        for plugin in self._plugins:
            try:
                plugin.call(event, **arguments)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything, even exit
                self._log_failure(plugin.report, event, error)

    def _log_failure(self, report: PluginReport, event: str, error: BaseException) -> None:
        if report.label not in self._failed_events:
            self._failed_events.add(report.label)
            text = "plugin %s failed in %s: %s; further failures of this plugin are not shown"
            _log.error(text, report.label, event, format_exception(error), exc_info=bool(os.environ.get("LUDUS_DEBUG")))

    def _describe_unknown(self, kind: str, name: str) -> str:
        installed = self.components(kind)
        parts = [f"no installed plugin provides the {kind} {name!r}{did_you_mean(name, installed)}"]
        listing = f"installed: {', '.join(installed)}" if installed else f"no {kind} is installed"
        distribution = _DEFAULT_DISTRIBUTIONS.get((kind, name), "ludus-…")
        parts.append(f"{listing}; plugins are added with: pip install {distribution}")
        missing = [report.name for report in self.reports if report.status != "ok"]
        if missing:
            parts.append(f"not loaded: {', '.join(missing)} (see ludus plugins)")
        return " — ".join(parts)


def load_plugins(*, allow: Sequence[str] = (), block: Sequence[str] = ()) -> Plugins:
    """Load every installed plugin.

    Args:
        allow: Names of entry points or distributions; if any are given, here or in ``LUDUS_ALLOW_PLUGINS``, no other
            plugins are loaded.
        block: Names not to load, in addition to ``LUDUS_BLOCK_PLUGINS``.
    """
    allowed = (*allow, *_read_variable(ALLOW_VARIABLE))
    blocked = (*block, *_read_variable(BLOCK_VARIABLE))
    found = list(find_entry_points())
    unmatched = [name for name in (*allowed, *blocked) if not any(report.is_named_in([name]) for report, _ in found)]
    return Plugins([load_plugin(report, point, allowed, blocked) for report, point in found], unmatched=unmatched)


def _read_variable(variable: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in os.environ.get(variable, "").split(",") if name.strip())


def _report_lines(report: PluginReport) -> Iterator[str]:
    for problem in report.problems:
        yield f"{report.label} {report.status}: {problem}"


def _group_by_component(reports: Sequence[PluginReport]) -> _Providers:
    """Return the providers of every component by kind and name."""
    providers: dict[tuple[str, str], list[_Provider]] = {}
    for report in reports:
        for kind, components in report.offers.items():
            for component in components:
                providers.setdefault((kind, component.name), []).append((report, component))
    return providers


def _component_problems(report: PluginReport, providers: _Providers) -> Iterator[str]:
    """Yield the clashes of a plugin's components with those of other plugins, then hidden commands."""
    own = {key: group for key, group in providers.items() if any(other is report for other, _ in group)}
    for (kind, name), group in own.items():
        if len(group) > 1:
            yield _describe_clash(kind, name, group)
    for kind, name in own:
        if kind == "command" and name in BUILT_IN_COMMANDS:
            yield f"its command {name!r} is hidden by that of ludus itself"


def _describe_clash(kind: str, name: str, providers: Sequence[_Provider]) -> str:
    (kept, _), (other, _) = providers[:2]
    plugins = " and ".join(f"{report.distribution} (plugin {report.name})" for report, _ in providers)
    # Only their distributions distinguish plugins of one entry-point name.
    blocked = other.distribution if kept.is_named_in([other.name]) else other.name
    return (
        f"{kind} {name!r} is provided by {plugins} — block one of them: "
        f"{BLOCK_VARIABLE}={blocked} keeps that of {kept.distribution}"
    )
