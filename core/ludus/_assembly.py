"""Putting workers together from a configuration: the same objects for one process and for many."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from ludus._actors import AgentActor, LiveActor, PolicyAgent
from ludus._build import (
    learned_role,
    make_agent,
    make_algorithm,
    make_environment,
    make_evaluation_matchmaker,
    make_matchmaker,
    make_networks,
    make_service,
    player_role,
)
from ludus._carriage import ways
from ludus._coordinator import Coordinator
from ludus._league import League
from ludus._learner import Learner, LearnerOptions
from ludus._models import load_arrays
from ludus._opponents import ActorCache, StackActor
from ludus._recorder import Recorder, SegmentLayout
from ludus._sampler import Link, Sampler
from ludus._seeding import generator, seed_for
from ludus._service import ServiceWorker, service_name
from ludus._shared import SharedFolder
from ludus._slots import Slots
from ludus._transport import ipc_address
from ludus.agent import Agent
from ludus.environment import EnvironmentSpec
from ludus.errors import ConfigError, ModelError
from ludus.interface import on_agent
from ludus.service import ServiceContext, Site

if TYPE_CHECKING:
    from ludus._config import PlayerConfig, RunConfig
    from ludus._plugins import Plugins
    from ludus._store import Store
    from ludus.algorithm import Policy
    from ludus.interface import Interface
    from ludus.service import Network

__all__ = ["Assembly", "load_participant", "open_league"]


@frozen(kw_only=True)
class Assembly:
    """Makes the workers of one run.

    Args:
        config: The run's configuration.
        plugins: What is installed.
        run_dir: The run folder.
        session: How often the run has been started or a worker restarted; keeps random streams apart.
        sockets: The private folder in which workers in processes of their own meet; None for one process.
    """

    config: RunConfig
    plugins: Plugins
    run_dir: Path
    session: int = 0
    sockets: Path | None = None

    def sampler(
        self, name: str, *, link: Link, clock: Callable[[], float], shared: SharedFolder | None = None
    ) -> Sampler:
        """Make a sampler that trains every player of the league; with shared memory if its learners have it."""
        sampling = self.config.sampling
        environment = make_environment(self.config.environment, sampling.matches)
        spec = environment.spec
        live = {
            player: self.live(name, player, spec, sampling.matches, shared=shared) for player in self.config.players
        }
        return Sampler(
            name=name,
            kind="train",
            environment=environment,
            live=live,
            frozen=self.opponents(name, spec, sampling.matches),
            link=link,
            clock=clock,
            rows_per_fixture=sampling.rows_per_fixture,
            shared=shared,
        )

    def evaluator(self, name: str, *, link: Link, clock: Callable[[], float]) -> Sampler:
        """Make an evaluator: a sampler of frozen models only."""
        rows = self.config.evaluation.matches
        environment = make_environment(self.config.environment, rows)
        return Sampler(
            name=name,
            kind="eval",
            environment=environment,
            live={},
            frozen=self.opponents(name, environment.spec, rows),
            link=link,
            clock=clock,
            rows_per_fixture=min(rows, self.config.evaluation.fixture_matches),
        )

    def learner(
        self,
        player: str,
        *,
        link: Link,
        clock: Callable[[], float],
        shared: SharedFolder | None = None,
        address: str = "",
    ) -> Learner:
        """Make the learner of a player; with shared memory if its samplers, which reach it at an address, have it."""
        run, chosen = self.config.run, self.config.players[player]
        environment = make_environment(self.config.environment, 1)
        role, _ = player_role(chosen, learned_role(chosen, environment.spec))
        environment.close()
        algorithm = make_algorithm(chosen, role)
        trainer = algorithm.make_trainer(seed=seed_for(run.seed, "learner", player), device=run.device)
        if chosen.init:
            path = Path(chosen.init)
            trainer.load_weights(load_arrays(path.parent, path.stem))
        return Learner(
            player=player,
            trainer=trainer,
            run_dir=self.run_dir,
            options=LearnerOptions(
                credits=self.config.sampling.credits,
                max_staleness=self.config.sampling.max_staleness,
                freeze_every_decisions=chosen.freeze_every_decisions,
                checkpoint_s=run.checkpoint_s,
                budget_decisions=run.decisions / len(self.config.players),
                budget_s=run.minutes * 60,
                manifest=self._manifest(player),
            ),
            link=link,
            clock=clock,
            shared=shared,
            ways=ways(address, shared=shared is not None),
        )

    def coordinator(self, store: Store, *, link: Link, clock: Callable[[], float]) -> Coordinator:
        """Make the coordinator on an open store."""
        environment = make_environment(self.config.environment, 1)
        spec = environment.spec
        environment.close()
        return Coordinator(
            config=self.config,
            spec=spec,
            league=open_league(store, self.config, spec),
            matchmakers={name: make_matchmaker(self.plugins, player) for name, player in self.config.players.items()},
            evaluation=make_evaluation_matchmaker(self.plugins, self.config)
            if self.config.evaluation.enabled
            else None,
            emitter=self.plugins,
            link=link,
            clock=clock,
        )

    def service(self, name: str, *, link: Link, clock: Callable[[], float]) -> ServiceWorker:
        """Make the worker around the service of the chosen inference component."""
        chosen, sockets = self.config.inference, self.sockets
        assert chosen is not None
        assert sockets is not None
        environment = make_environment(self.config.environment, 1)
        spec = environment.spec
        environment.close()

        def networks(player: PlayerConfig) -> list[Network]:
            return make_networks(player, player_role(player, learned_role(player, spec))[0])

        context = ServiceContext(
            name=name,
            sockets=sockets,
            address=ipc_address(sockets, f"{name}.ask"),
            networks={player: partial(networks, config) for player, config in self.config.players.items()},
        )
        return ServiceWorker(name=name, service=make_service(chosen, context), link=link, clock=clock)

    def check(self) -> None:
        """Make what a mistake in the configuration would break, before anything is written.

        Raises:
            LudusError: The run would not start.
        """
        environment = make_environment(self.config.environment, 1)
        environment.close()
        for chosen in self.config.players.values():
            role, _ = player_role(chosen, learned_role(chosen, environment.spec))
            make_algorithm(chosen, role)
            make_matchmaker(self.plugins, chosen)
        for anchor in self.config.anchors.values():
            for role_ in environment.spec.roles:
                make_agent(anchor.agent, environment.spec, role_.name)

    def learner_threads(self) -> int:
        """Return the torch threads of each learner: the cores that samplers leave, shared among learners."""
        run = self.config.run
        if run.learner_threads:
            return run.learner_threads
        free = (os.cpu_count() or 1) - run.workers * run.sampler_threads
        return max(1, free // len(self.config.players))

    def opponents(self, worker: str, spec: EnvironmentSpec, rows: int) -> ActorCache:
        """Return the frozen models and anchors as a worker meets them, loaded on demand.

        Args:
            worker: Names the random stream.
            spec: The environment's.
            rows: Matches played at once.
        """
        config, streams = self.config, rows * len(spec.seats)
        rng = generator(config.run.seed, worker, "opponents", self.session)

        def anchor(participant: str, role: str) -> AgentActor:
            return AgentActor(_make_anchor(config, spec, participant, role), rng)

        def stack(player: str) -> StackActor:
            policy, interface = _frozen_parts(config, spec, player, site=_site(config, self.sockets, worker, player))
            return StackActor(policy=policy, interface=interface, rng=rng, streams=streams)

        return ActorCache(
            anchor=anchor,
            stack=stack,
            kin=_kin(config),
            read=lambda digest: load_arrays(self.run_dir / "models", digest),
            budget_bytes=config.sampling.opponent_cache_mb * 2**20,
        )

    def live(
        self, worker: str, player: str, spec: EnvironmentSpec, rows: int, *, shared: SharedFolder | None = None
    ) -> LiveActor:
        """Return a player's learning policy as a worker seats it, with a recorder of its own and without weights.

        Args:
            worker: Names the random stream.
            player: Whose.
            spec: The environment's.
            rows: Matches played at once.
            shared: Where its blocks are recorded; on the heap without.
        """
        chosen = self.config.players[player]
        raw = learned_role(chosen, spec)
        role, interface = player_role(chosen, raw)
        algorithm = make_algorithm(
            chosen, role, runtime=self.config.inference, site=_site(self.config, self.sockets, worker, player)
        )
        policy = algorithm.make_policy()
        layout = SegmentLayout.of(
            role, fields=algorithm.fields, decisions=algorithm.segment_decisions, state=policy.initial_state(1)
        )
        streams = rows * raw.seats
        recorder = Recorder(layout, streams) if shared is None else Recorder(layout, streams, Slots(shared).take)
        return LiveActor(
            player=player,
            policy=policy,
            interface=interface,
            recorder=recorder,
            rng=generator(self.config.run.seed, worker, player, self.session),
            streams=rows * len(spec.seats),
        )

    def _manifest(self, player: str) -> dict[str, Any]:
        chosen = self.config.players[player]
        distributions = sorted({report.distribution for report in self.plugins.reports if report.status == "ok"})
        return {
            "environment": self.config.environment.name,
            "algorithm": chosen.algorithm.name,
            "network": chosen.network.name if chosen.network else None,
            "config": self.config.data.get("players", {}).get(player, {}),
            "versions": {name: _version(name) for name in ("ludus", *distributions)},
        }


def load_participant(
    config: RunConfig,
    spec: EnvironmentSpec,
    *,
    run_dir: Path | None,
    participant: str,
    digest: str,
    role: str,
    rows: int,
    deterministic: bool = False,
) -> Agent:
    """Make the agent that plays a frozen model or an anchor.

    Args:
        config: The configuration of the run they belong to.
        spec: The environment's.
        run_dir: Where the model lies; unused for anchors.
        participant: Its name.
        digest: The model's hash; empty for an anchor.
        role: The role it sits in.
        rows: Matches played at once.
        deterministic: Take a model's most likely actions instead of sampling.

    Raises:
        ModelError: The model cannot be loaded, or belongs to no player of the configuration.
        ConfigError: There is no such anchor.
    """
    if not digest:
        return _make_anchor(config, spec, participant, role)
    player = participant.partition("@")[0]
    if player not in config.players or run_dir is None:
        raise ModelError(
            f"model {participant!r} belongs to no player of this run; there are {', '.join(config.players)}"
        )
    policy, interface = _frozen_parts(config, spec, player)
    policy.load(load_arrays(run_dir / "models", digest))
    agent = PolicyAgent(policy, rows * len(spec.seats), deterministic)
    return agent if interface is None else on_agent(agent, interface)


def _make_anchor(config: RunConfig, spec: EnvironmentSpec, participant: str, role: str) -> Agent:
    if participant not in config.anchors:
        raise ConfigError(f"participant {participant!r}: no such anchor; there are {', '.join(config.anchors)}")
    return make_agent(config.anchors[participant].agent, spec, role)


def _frozen_parts(
    config: RunConfig, spec: EnvironmentSpec, player: str, *, site: Site | None = None
) -> tuple[Policy, Interface | None]:
    """Return a policy for models of a player, without weights, and the interface before it."""
    chosen = config.players[player]
    role, interface = player_role(chosen, learned_role(chosen, spec))
    return make_algorithm(chosen, role, runtime=config.inference, site=site).make_policy(), interface


def _site(config: RunConfig, sockets: Path | None, worker: str, player: str) -> Site | None:
    """Return where a worker's runtimes for a player run; None where they have no service."""
    if sockets is None or config.inference is None or config.inference.component.service is None:
        return None
    address = ipc_address(sockets, f"{service_name(config.inference.name)}.ask")
    return Site(worker=worker, player=_kin(config)[player], sockets=sockets, address=address)


def _kin(config: RunConfig) -> dict[str, str]:
    """Return for every player the first one whose models have the same architecture."""
    kin: dict[str, str] = {}
    for name, player in config.players.items():
        parts = (player.algorithm, player.network, player.interfaces, player.role)
        others = ((other, config.players[other]) for other in kin)
        same = (o for o, p in others if (p.algorithm, p.network, p.interfaces, p.role) == parts)
        kin[name] = next(same, name)
    return kin


def open_league(store: Store, config: RunConfig, spec: EnvironmentSpec) -> League:
    """Return the league of a store with the players of a configuration."""
    players: dict[str, tuple[str, int | None]] = {}
    for name, player in config.players.items():
        role = learned_role(player, spec)
        teams = set(role.teams)
        players[name] = (role.name, teams.pop() if len(teams) == 1 else None)
    return League(store, players=players, anchors=tuple(config.anchors), seats=spec.seats)


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"
