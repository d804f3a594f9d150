"""Make the coordinator of a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ludus._league.coordinator import Coordinator
from ludus._league.league import League
from ludus._league.opening import open_coordinator
from ludus._run.context import RunContext
from ludus._run.factories import learned_role, make, make_evaluation_matchmaker, make_matchmaker
from ludus._store.store import Store
from ludus.launcher import Link


def make_coordinator(run: RunContext, store: Store, *, link: Link, clock: Callable[[], float]) -> Coordinator:
    """Make the coordinator of a run whose store is open."""
    config = run.config
    return open_coordinator(
        config,
        spec=run.spec,
        league=League(store, **league_members(run), ratings=partial(make, config.league.rating), budget=run.budget),
        matchmakers={name: make_matchmaker(run.plugins, player) for name, player in config.players.items()},
        evaluation=make_evaluation_matchmaker(run.plugins, config),
        rules={rule.name: make(rule) for rule in config.league.rules},
        plugins=run.plugins,
        link=link,
        clock=clock,
    )


def league_members(run: RunContext) -> dict[str, Any]:
    """Return the players, anchors and seats of the league, as keyword arguments of `League`."""
    roles = {name: learned_role(player, run.spec) for name, player in run.config.players.items()}
    players = {name: (r.name, r.teams[0] if len(set(r.teams)) == 1 else None) for name, r in roles.items()}
    return {"players": players, "anchors": tuple(run.config.anchors), "seats": run.spec.seats}
