"""Every hook of ludus, typed and grouped by phase.

A plugin is a module (by habit ``plugin.py`` of its distribution) named by an entry point of the group ``ludus``. It
implements any of these hooks under ``@ludus.hookimpl`` and imports nothing heavy at top level: components are
registered by import path and loaded when a run asks for them.

Hooks are wiring. None is called per environment step or per gradient step.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from ludus.component import Component
    from ludus.metrics import Metric

__all__ = [
    "API_LEVEL",
    "KINDS",
    "KIND_OF_HOOK",
    "hookimpl",
    "hookspec",
    "ludus_match_ended",
    "ludus_metrics_reported",
    "ludus_model_frozen",
    "ludus_register_agents",
    "ludus_register_algorithms",
    "ludus_register_commands",
    "ludus_register_environments",
    "ludus_register_inference",
    "ludus_register_interfaces",
    "ludus_register_launchers",
    "ludus_register_matchmakers",
    "ludus_register_metric_sinks",
    "ludus_register_networks",
    "ludus_register_ratings",
    "ludus_register_rules",
]

#: The plugin API level. A plugin module may set ``LUDUS_API = n``; a level above this one is refused.
API_LEVEL = 1

hookspec = pluggy.HookspecMarker("ludus")
hookimpl = pluggy.HookimplMarker("ludus")


# ---------------------------------------------------------------------------------------------------------------
# Registration: called once when plugins are loaded, in every process. Each returns components; none has arguments. The
# hooks are the kinds of components (`KINDS`), by their names and in this order.
# ---------------------------------------------------------------------------------------------------------------


@hookspec
def ludus_register_environments() -> Iterable[Component]:
    """Offer environments.

    Returns:
        Components whose factory is called as ``factory(config, num_matches=B)`` in samplers, evaluators and on the
        command line, and returns an `ludus.environment.Environment`.

    Since 0.1.
    """


@hookspec
def ludus_register_interfaces() -> Iterable[Component]:
    """Offer interfaces.

    Returns:
        Components whose factory is called as ``factory(config)`` in every process that learns or plays, anew for each
        policy and trainer and wherever only the spaces behind it are asked for, and returns an
        `ludus.interface.Interface`.

    Since 0.1.
    """


@hookspec
def ludus_register_agents() -> Iterable[Component]:
    """Offer scripted agents.

    Returns:
        Components whose factory is called as ``factory(config, spec=spec, role=name)`` in samplers, evaluators and on
        the command line, and returns an `ludus.agent.Agent`.

    Since 0.1.
    """


@hookspec
def ludus_register_networks() -> Iterable[Component]:
    """Offer networks.

    Returns:
        Components whose factory is called as ``factory(config, request=NetworkRequest)`` in learners and samplers, and
        returns a ``torch.nn.Module`` with the forward signature of `ludus.network`.

    Since 0.1.
    """


@hookspec
def ludus_register_inference() -> Iterable[Component]:
    """Offer inference runtimes.

    Returns:
        Components whose factory is called as ``factory(config, module=module, request=NetworkRequest)`` in samplers and
        evaluators, once per policy, and returns an `ludus.inference.Inference`. It raises
        `ludus.errors.UnsupportedNetwork` where it cannot run the module; torch runs it then. The factory of a component
        with a ``service`` is called with ``site=`` too, the `ludus.service.ServiceEndpoint` of its service, None in
        runs of one process; the service itself is made by ``service(config, context=ServiceContext)`` in a worker
        process of its own and is a `ludus.launcher.Worker`.

    Since 0.1.
    """


@hookspec
def ludus_register_algorithms() -> Iterable[Component]:
    """Offer algorithms.

    Returns:
        Components whose factory is called as ``factory(config, context=AlgorithmContext)`` in learners and samplers,
        and returns an `ludus.algorithm.Algorithm`.

    Since 0.1.
    """


@hookspec
def ludus_register_matchmakers() -> Iterable[Component]:
    """Offer matchmakers.

    Returns:
        Components whose factory is called as ``factory(config, build=build)`` in the coordinator, and returns an
        `ludus.matchmaker.Matchmaker`. ``build(name)`` makes another matchmaker of the same player, for mixtures; it is
        called before the factory returns, since options of matchmakers that nobody has made by then are a mistake.

    Since 0.1.
    """


@hookspec
def ludus_register_ratings() -> Iterable[Component]:
    """Offer methods of rating.

    Returns:
        Components whose factory is called as ``factory(config, anchors=names, seats=seats)`` in the coordinator and
        by whoever reads a run, and returns an `ludus.matchmaker.RatingTable`. `seats` are those of a match, as in
        `ludus.environment.EnvironmentSpec.seats`.

    Since 0.1.
    """


@hookspec
def ludus_register_rules() -> Iterable[Component]:
    """Offer rules of leagues.

    Returns:
        Components whose factory is called as ``factory(config)`` in the coordinator, and returns an
        `ludus.rule.Rule`.

    Since 0.1.
    """


@hookspec
def ludus_register_launchers() -> Iterable[Component]:
    """Offer launchers.

    Returns:
        Components whose factory is called as ``factory(config)`` in the coordinator, and returns an
        `ludus.launcher.Launcher`.

    Since 0.1.
    """


@hookspec
def ludus_register_metric_sinks() -> Iterable[Component]:
    """Offer metric sinks.

    Returns:
        Components whose factory is called as ``factory(config, run_dir=path)`` in the coordinator, and returns an
        `ludus.metrics.MetricSink`. One called ``terminal`` shows every run of ``ludus train``, but with ``--json``.

    Since 0.1.
    """


@hookspec
def ludus_register_commands() -> Iterable[Component]:
    """Offer subcommands of ``ludus``.

    Returns:
        Components whose factory *is* a ``click.Command``; it is imported only when the command is used. One called
        ``report`` is run at the end of ``ludus train``, with the run folder.

    Since 0.1.
    """


# ---------------------------------------------------------------------------------------------------------------
# Events: called in the coordinator after the event is committed to the store. An exception in an implementation is
# reported once per plugin and does not stop the run.
# ---------------------------------------------------------------------------------------------------------------


@hookspec
def ludus_match_ended(fixture: str, participants: Sequence[str], outcome: Sequence[float], matches: int) -> None:
    """Hear about finished matches of one fixture.

    Args:
        fixture: The fixture's id.
        participants: One per seat, in seat order.
        outcome: Points per team summed over the matches reported (1 win, ½ draw, 0 loss each).
        matches: How many matches this report covers.

    Since 0.1.
    """


@hookspec
def ludus_model_frozen(player: str, model: str, manifest: Mapping[str, object]) -> None:
    """Hear about a new frozen model.

    Args:
        player: The player it belongs to.
        model: Its participant name, ``player@number``.
        manifest: Hash, parent, decisions, configuration and plugin versions.

    Since 0.1.
    """


@hookspec
def ludus_metrics_reported(metrics: Sequence[Metric]) -> None:
    """Hear about metrics, every `metrics.interval_s` or less often.

    Args:
        metrics: What the metric sinks receive too.

    Since 0.1.
    """


# ---------------------------------------------------------------------------------------------------------------
# The kinds of components, read off the registration hooks above.
# ---------------------------------------------------------------------------------------------------------------

_REGISTER = "ludus_register_"

#: Every kind of component by the hook that registers it, in the order in which `ludus plugins` lists them.
KIND_OF_HOOK = {
    hook: hook.removeprefix(_REGISTER).removesuffix("s").replace("_", "-")
    for hook in tuple(vars())
    if hook.startswith(_REGISTER)
}
KINDS = tuple(KIND_OF_HOOK.values())
