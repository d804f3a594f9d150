"""The hooks of ludus.

A plugin is a module, usually ``plugin.py`` of its distribution, named by an entry point of the group ``ludus``. It
implements any of these hooks under ``@ludus.hookimpl`` and imports no large packages: components are registered by
import path and loaded on first use.

No hook is called per environment step or per gradient step.
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

#: The plugin API level. A plugin module may set ``LUDUS_API = n``; plugins of a higher level are not loaded.
API_LEVEL = 1

hookspec = pluggy.HookspecMarker("ludus")
hookimpl = pluggy.HookimplMarker("ludus")


# ---------------------------------------------------------------------------------------------------------------
# Registration: called once in every process, when plugins are loaded. The names of these hooks, in this order, define
# the kinds of components (`KINDS`).
# ---------------------------------------------------------------------------------------------------------------


@hookspec
def ludus_register_environments() -> Iterable[Component]:
    """Register environments.

    Returns:
        Components whose factory is called as ``factory(config, num_matches=B)`` in samplers, evaluators and on the
        command line, and returns an `ludus.environment.Environment`.

    Since 0.1.
    """


@hookspec
def ludus_register_interfaces() -> Iterable[Component]:
    """Register interfaces.

    Returns:
        Components whose factory is called as ``factory(config)`` in every process that learns or plays, once for each
        policy and trainer and whenever the transformed spaces are needed, and returns an `ludus.interface.Interface`.

    Since 0.1.
    """


@hookspec
def ludus_register_agents() -> Iterable[Component]:
    """Register scripted agents.

    Returns:
        Components whose factory is called as ``factory(config, spec=spec, role=name)`` in samplers, evaluators and on
        the command line, and returns an `ludus.agent.Agent`.

    Since 0.1.
    """


@hookspec
def ludus_register_networks() -> Iterable[Component]:
    """Register networks.

    Returns:
        Components whose factory is called as ``factory(config, request=NetworkRequest)`` in learners and samplers, and
        returns a ``torch.nn.Module`` with the forward signature of `ludus.network`.

    Since 0.1.
    """


@hookspec
def ludus_register_inference() -> Iterable[Component]:
    """Register inference runtimes.

    Returns:
        Components whose factory is called as ``factory(config, module=module, request=NetworkRequest)`` in samplers and
        evaluators, once per policy, and returns an `ludus.inference.Inference`. It raises
        `ludus.errors.UnsupportedNetwork` if it cannot run the module; torch runs it then. The factory of a component
        with a ``service`` also gets ``site=``, the `ludus.service.ServiceEndpoint` of its service, None in a
        single-process run. The service itself is made by ``service(config, context=ServiceContext)`` in its own worker
        process and is a `ludus.launcher.Worker`.

    Since 0.1.
    """


@hookspec
def ludus_register_algorithms() -> Iterable[Component]:
    """Register algorithms.

    Returns:
        Components whose factory is called as ``factory(config, context=AlgorithmContext)`` in learners and samplers,
        and returns an `ludus.algorithm.Algorithm`.

    Since 0.1.
    """


@hookspec
def ludus_register_matchmakers() -> Iterable[Component]:
    """Register matchmakers.

    Returns:
        Components whose factory is called as ``factory(config, build=build)`` in the coordinator, and returns an
        `ludus.matchmaker.Matchmaker`. ``build(name)`` makes another matchmaker of the same player, for mixtures. It
        must be called before the factory returns: options of matchmakers that were not made by then are errors.

    Since 0.1.
    """


@hookspec
def ludus_register_ratings() -> Iterable[Component]:
    """Register rating methods.

    Returns:
        Components whose factory is called as ``factory(config, anchors=names, seats=seats, sides=sides)`` in the
        coordinator and in programs that read a run, and returns an `ludus.matchmaker.RatingTable`. `anchors` are
        `ludus.matchmaker.rated_anchors`, `seats` are the seats of a match, as in
        `ludus.environment.EnvironmentSpec.seats`, and `sides` is the side of every player, see
        `ludus.matchmaker.team_sides`.

    Since 0.1.
    """


@hookspec
def ludus_register_rules() -> Iterable[Component]:
    """Register rules of leagues.

    Returns:
        Components whose factory is called as ``factory(config)`` in the coordinator, and returns an
        `ludus.rule.Rule`.

    Since 0.1.
    """


@hookspec
def ludus_register_launchers() -> Iterable[Component]:
    """Register launchers.

    Returns:
        Components whose factory is called as ``factory(config)`` in the coordinator, and returns an
        `ludus.launcher.Launcher`.

    Since 0.1.
    """


@hookspec
def ludus_register_metric_sinks() -> Iterable[Component]:
    """Register metric sinks.

    Returns:
        Components whose factory is called as ``factory(config, run_dir=path)`` in the coordinator, and returns an
        `ludus.metrics.MetricSink`. The sink called ``terminal`` displays every run of ``ludus train``, unless
        ``--json`` is given.

    Since 0.1.
    """


@hookspec
def ludus_register_commands() -> Iterable[Component]:
    """Register subcommands of ``ludus``.

    Returns:
        Components whose factory *is* a ``click.Command``; it is imported when the command is used. The command
        called ``report`` is run at the end of ``ludus train``, with the run folder.

    Since 0.1.
    """


# ---------------------------------------------------------------------------------------------------------------
# Events: called in the coordinator after the event is committed to the store. An exception in an implementation is
# reported once per plugin and does not stop the run.
# ---------------------------------------------------------------------------------------------------------------


@hookspec
def ludus_match_ended(fixture: str, participants: Sequence[str], outcome: Sequence[float], matches: int) -> None:
    """Receive finished matches of one fixture.

    Args:
        fixture: Id of the fixture.
        participants: Participant of every seat, in seat order.
        outcome: Points of every team, summed over the matches (1 for a win, ½ for a draw, 0 for a loss).
        matches: Number of matches.

    Since 0.1.
    """


@hookspec
def ludus_model_frozen(player: str, model: str, manifest: Mapping[str, object]) -> None:
    """Receive a new frozen model.

    Args:
        player: Player that owns the model.
        model: Participant name of the model, ``player@number``.
        manifest: Hash, parent, decisions, configuration and plugin versions.

    Since 0.1.
    """


@hookspec
def ludus_metrics_reported(metrics: Sequence[Metric]) -> None:
    """Receive metrics, every `metrics.interval_s` or less often.

    Args:
        metrics: The metrics, as metric sinks receive them.

    Since 0.1.
    """


# ---------------------------------------------------------------------------------------------------------------
# The kinds of components, derived from the names of the registration hooks.
# ---------------------------------------------------------------------------------------------------------------

_REGISTER = "ludus_register_"

#: Every kind of component by the hook that registers it, in the order in which `ludus plugins` lists them.
KIND_OF_HOOK = {
    hook: hook.removeprefix(_REGISTER).removesuffix("s").replace("_", "-")
    for hook in tuple(vars())
    if hook.startswith(_REGISTER)
}
KINDS = tuple(KIND_OF_HOOK.values())
