"""Implement every hook of ludus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ludus import Component, hookimpl

from ludus_dummy.events import received_events

if TYPE_CHECKING:
    from ludus.metrics import Metric

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register two small games: one turn-based with masks, one simultaneous with two roles."""
    return [
        Component(
            name="dummy-count",
            factory="ludus_dummy.count:Count",
            config="ludus_dummy.config:CountConfig",
            summary="Two seats take turns to add to a count; the seat that reaches the target wins.",
        ),
        Component(
            name="dummy-guess",
            factory="ludus_dummy.guess:Guess",
            config="ludus_dummy.config:GuessConfig",
            summary="A hider and a seeker choose places at once, for a few rounds.",
        ),
    ]


@hookimpl
def ludus_register_interfaces() -> list[Component]:
    """Register one interface that transforms observations and one that transforms actions."""
    return [
        Component(
            name="dummy-scale",
            factory="ludus_dummy.interfaces:Scale",
            config="ludus_dummy.config:ScaleConfig",
            summary="Multiplies real-valued observations and rewards.",
        ),
        Component(
            name="dummy-reverse",
            factory="ludus_dummy.interfaces:Reverse",
            summary="Reverses the choices of every action label.",
        ),
    ]


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register a random agent for any game and a perfect one for ``dummy-count``."""
    return [
        Component(
            name="dummy-random", factory="ludus.agent:RandomAgent", summary="Chooses uniformly among legal actions."
        ),
        Component(
            name="dummy-perfect",
            factory="ludus_dummy.agents:Perfect",
            config="ludus_dummy.config:PerfectConfig",
            summary="Plays dummy-count perfectly, or with a share of random decisions.",
            environments=("dummy-count",),
        ),
    ]


@hookimpl
def ludus_register_networks() -> list[Component]:
    """Register a network without hidden layers."""
    return [
        Component(
            name="dummy-linear",
            factory="ludus_dummy.networks:linear",
            config="ludus_dummy.config:LinearConfig",
            summary="One linear layer per head.",
        )
    ]


@hookimpl
def ludus_register_inference() -> list[Component]:
    """Register a runtime that runs networks by torch."""
    return [Component(name="dummy-torch", factory="ludus_dummy.networks:plain", summary="Runs any network by torch.")]


@hookimpl
def ludus_register_algorithms() -> list[Component]:
    """Register an algorithm in plain NumPy."""
    return [
        Component(
            name="dummy-gradient",
            factory="ludus_dummy.algorithm:Gradient",
            config="ludus_dummy.config:GradientConfig",
            summary="REINFORCE with a baseline on a linear softmax policy, in NumPy; needs no network.",
        )
    ]


@hookimpl
def ludus_register_matchmakers() -> list[Component]:
    """Register a matchmaker that chooses uniformly."""
    return [
        Component(
            name="dummy-uniform",
            factory="ludus_dummy.league:Uniform",
            config="ludus_dummy.config:UniformConfig",
            summary="Uniform over live players, or over frozen models.",
        )
    ]


@hookimpl
def ludus_register_ratings() -> list[Component]:
    """Register a rating by points."""
    return [
        Component(
            name="dummy-share",
            factory="ludus_dummy.league:ShareTable",
            config="ludus_dummy.config:ShareConfig",
            summary="Share of points of a participant, in percent.",
        )
    ]


@hookimpl
def ludus_register_rules() -> list[Component]:
    """Register a rule that resets players."""
    return [
        Component(
            name="dummy-reset",
            factory="ludus_dummy.league:ResetRule",
            config="ludus_dummy.config:ResetConfig",
            summary="Resets every player after a number of models.",
        )
    ]


@hookimpl
def ludus_register_launchers() -> list[Component]:
    """Register a launcher of threads."""
    return [
        Component(
            name="dummy-threads",
            factory="ludus_dummy.launcher:Threads",
            summary="Workers are threads of the coordinator.",
        )
    ]


@hookimpl
def ludus_register_metric_sinks() -> list[Component]:
    """Register a sink that keeps metrics in memory."""
    return [Component(name="dummy-memory", factory="ludus_dummy.events:MemorySink", summary="Keeps metrics in memory.")]


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Register one command."""
    return [Component(name="dummy-hello", factory="ludus_dummy.command:hello", summary="Greets you by name.")]


@hookimpl
def ludus_match_ended(fixture: str, participants: Sequence[str], outcome: Sequence[float], matches: int) -> None:
    """Store finished matches."""
    received_events.append(("match_ended", (fixture, tuple(participants), tuple(outcome), matches)))


@hookimpl
def ludus_model_frozen(player: str, model: str, manifest: Mapping[str, object]) -> None:
    """Store frozen models."""
    received_events.append(("model_frozen", (player, model, dict(manifest))))


@hookimpl
def ludus_metrics_reported(metrics: Sequence[Metric]) -> None:
    """Store metrics."""
    received_events.append(("metrics_reported", (tuple(metrics),)))
