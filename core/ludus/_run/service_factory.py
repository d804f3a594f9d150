"""Make the inference service of a run."""

from __future__ import annotations

from functools import partial

from ludus._run.context import RunContext
from ludus._run.factories import make_networks, make_service
from ludus.launcher import Worker, WorkerContext
from ludus.service import Network, ServiceContext


def make_service_worker(run: RunContext, name: str, worker: WorkerContext) -> Worker:
    """Make the service of the selected inference component."""
    inference = run.config.inference
    assert inference is not None
    assert run.sockets is not None
    context = ServiceContext(
        name=name,
        sockets=run.sockets,
        networks={player: partial(make_player_networks, run, player) for player in run.config.players},
        link=worker.link,
        clock=worker.clock,
    )
    return make_service(inference, context)


def make_player_networks(run: RunContext, player: str) -> list[Network]:
    """Make the networks that a policy of a player runs.

    Raises:
        ConfigError: The player lacks a network that its algorithm needs, or the network's options are wrong.
        PluginError: A factory raised something else.
    """
    return make_networks(run.player(player), run.player_role(player))
