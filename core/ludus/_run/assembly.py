"""Putting workers together from a configuration: the same objects for one process and for many."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from attrs import frozen

from ludus._config.run_config import RunConfig, load_config
from ludus._league.coordinator import Coordinator
from ludus._league.league import League
from ludus._learning.data_parallel import Helper, Meeting
from ludus._learning.learner import Learner, LearnerOptions
from ludus._plugins.error_wrapping import close_environment
from ludus._plugins.manager import Plugins, load_plugins
from ludus._run.factories import (
    learned_role,
    make,
    make_agent,
    make_algorithm,
    make_environment,
    make_evaluation_matchmaker,
    make_matchmaker,
    make_networks,
    make_service,
    player_role,
)
from ludus._sampling.actors import AgentActor, LiveActor, PolicyAgent
from ludus._sampling.opponents import ActorCache, StackActor
from ludus._sampling.recorder import Recorder, SegmentLayout
from ludus._sampling.sampler import Sampler
from ludus._seeding import generator, seed_for
from ludus._store.model_files import load_arrays
from ludus._store.store import Store
from ludus._version import __version__
from ludus.agent import Agent
from ludus.algorithm import Algorithm, GroupTrainer, Policy, Trainer, Weights
from ludus.environment import EnvironmentSpec, Role
from ludus.errors import ConfigError
from ludus.interface import Interface
from ludus.launcher import (
    Link,
    RemoteSamplerSpec,
    Rendezvous,
    SharedMemory,
    Worker,
    WorkerContext,
    WorkerEnv,
    WorkerSpec,
    helper_name,
    learner_name,
)
from ludus.service import Network, ServiceContext, ServiceEndpoint


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

    @classmethod
    def at(cls, place: WorkerEnv) -> Assembly:
        """Return that of the run of a place, as its ``run.toml`` says."""
        plugins = load_plugins()
        config = load_config(place.run_dir / "run.toml", plugins=plugins)
        return cls(config=config, plugins=plugins, run_dir=place.run_dir, session=place.session, sockets=place.sockets)

    @cached_property
    def spec(self) -> EnvironmentSpec:
        """Return what is known of the environment."""
        environment = make_environment(self.config.environment, 1)
        close_environment(environment)
        return environment.spec

    def workers(self, cores: float) -> list[WorkerSpec]:
        """Return the workers of the run, in the order in which they are started.

        Args:
            cores: How many processor cores they may use together.
        """
        run, service = self.config.run, self.config.inference
        samplers = self.samplers(cores)
        free = int(cores) - (samplers + self._serves) * run.sampler_threads  # shared among learners
        threads = run.learner_threads or max(1, free // self.config.learner_processes)
        workers = [WorkerSpec(learner_name(player), threads) for player in self.config.players]
        workers += [
            WorkerSpec(helper_name(name, rank), threads)
            for name, player in self.config.players.items()
            for rank in range(1, player.learner_processes if run.workers != 0 else 1)
        ]
        if service is not None and self._serves:
            workers.append(WorkerSpec(service_name(service.name), run.sampler_threads))
        workers += [WorkerSpec(f"sampler-{i}", run.sampler_threads) for i in range(max(samplers, 1))]
        if self.config.evaluation.enabled:
            workers.append(WorkerSpec("evaluator-0", 1))
        return workers

    @property
    def remote_sampler_spec(self) -> RemoteSamplerSpec:
        """Return what samplers need on a computer of their own."""
        run, inference = self.config.run, self.config.inference
        return RemoteSamplerSpec(
            threads=run.sampler_threads,
            service=service_name(inference.name) if inference is not None and self._serves else "",
            learners=tuple(map(learner_name, self.config.players)),
            stall_s=run.stall_s,
            restarts=run.restarts,
        )

    def worker(self, name: str, context: WorkerContext) -> Worker:
        """Make one of the workers that `workers` lists; its name begins with its kind."""
        kind, _, which = name.partition("-")
        if kind == "learner":
            return self.learner(which, context)
        if kind == "helper":
            rank, _, player = which.partition("-")
            return self.helper(name, context, player=player, rank=int(rank))
        if kind == "service":
            return self.service(name, context)
        return self.sampler(name, context, rates=kind == "evaluator")

    def sampler(self, name: str, context: WorkerContext, *, rates: bool = False) -> Sampler:
        """Make a sampler that trains every player of the league, or an evaluator, which only rates frozen models."""
        sampling, rating = self.config.sampling, self.config.evaluation
        rows = rating.matches if rates else sampling.matches
        environment = make_environment(self.config.environment, rows)
        spec = environment.spec
        players = () if rates else self.config.players
        try:
            return Sampler(
                name=name,
                kind="eval" if rates else "train",
                environment=environment,
                live={player: self.live(name, player, spec, rows, memory=context.memory) for player in players},
                frozen=self.opponents(name, spec, rows),
                link=context.link,
                clock=context.clock,
                rows_per_fixture=min(rows, rating.fixture_matches) if rates else sampling.rows_per_fixture,
                memory=context.memory,
                opponents_learn=sampling.opponents_learn,
            )
        except BaseException:  # it may have processes of its own
            close_environment(environment)
            raise

    def learner(self, player: str, context: WorkerContext) -> Learner:
        """Make the learner of a player."""
        run, chosen = self.config.run, self.config.players[player]
        return Learner(
            player=player,
            layout=self._layout(player),
            make_trainer=partial(self.trainer, player),
            run_dir=self.run_dir,
            options=LearnerOptions(
                credits=self.config.sampling.credits,
                max_staleness=self.config.sampling.max_staleness,
                freeze_every_decisions=chosen.freeze_every_decisions,
                checkpoint_s=run.checkpoint_s,
                budget_decisions=run.decisions,
                budget_s=run.minutes * 60,
                manifest=self._manifest(player),
            ),
            link=context.link,
            clock=context.clock,
            memory=context.memory,
            meeting=self._meeting(player, context.rendezvous),
        )

    def helper(self, name: str, context: WorkerContext, *, player: str, rank: int) -> Helper:
        """Make the worker that is number `rank`, from 1, of those that help a player's learner."""
        trainer = self.trainer(player, 0, "", rank=rank)
        assert isinstance(trainer, GroupTrainer)
        meeting = self._meeting(player, context.rendezvous)
        return Helper(name=name, meeting=meeting, trainer=trainer, link=context.link, clock=context.clock)

    def _meeting(self, player: str, rendezvous: Rendezvous | None) -> Meeting | None:
        if rendezvous is None or self.config.players[player].learner_processes == 1:
            return None
        # a learner that waits for a helper is silent, and may have to compute the update again
        return Meeting(player, rendezvous, timeout_s=self.config.run.stall_s / 4)

    def trainer(self, player: str, generation: int, init: str, *, rank: int = 0, device: str = "") -> Trainer:
        """Make the trainer of a player.

        Args:
            player: Whose.
            generation: How often the player has started anew.
            init: Hash of the model of this run from which it starts; empty: as the configuration says.
            rank: Of the process among those of its learner.
            device: Where it computes; empty: where the configuration says.

        Raises:
            ModelError: The model to start from cannot be loaded.
        """
        run, chosen = self.config.run, self.config.players[player]
        seed = seed_for(run.seed, "learner", player, *([generation] if generation else []))
        _, _, algorithm = self.parts_of(player, self.spec)
        trainer = algorithm.make_trainer(seed=seed, device=device or self._device(player, rank))
        path = self.run_dir / "models" / init if init else Path(chosen.init)
        if init or chosen.init:
            trainer.load_weights(load_arrays(path.parent, path.stem))
        return trainer

    def _device(self, player: str, rank: int) -> str:
        """Return where a process of a learner computes: where any GPU will do they are dealt out in turn."""
        device = self.config.run.device
        if device != "cuda":
            return device
        import torch  # noqa: PLC0415 - here it is loaded

        others = takewhile(lambda other: other.name != player, self.config.players.values())
        number = sum(other.learner_processes for other in others) + rank
        return f"cuda:{number % torch.cuda.device_count()}"

    def coordinator(self, store: Store, *, link: Link, clock: Callable[[], float]) -> Coordinator:
        """Make the coordinator on an open store."""
        return Coordinator(
            config=self.config,
            spec=self.spec,
            league=League(store, **self.taking_part(), ratings=partial(make, self.config.league.rating)),
            matchmakers={name: make_matchmaker(self.plugins, player) for name, player in self.config.players.items()},
            evaluation=make_evaluation_matchmaker(self.plugins, self.config),
            rules={rule.name: make(rule) for rule in self.config.league.rules},
            emitter=self.plugins,
            link=link,
            clock=clock,
        )

    def service(self, name: str, context: WorkerContext) -> Worker:
        """Make the service of the chosen inference component."""
        chosen = self.config.inference
        assert chosen is not None
        assert self.sockets is not None
        given = ServiceContext(
            name=name,
            sockets=self.sockets,
            networks={player: partial(self.networks, player) for player in self.config.players},
            link=context.link,
            clock=context.clock,
        )
        return make_service(chosen, given)

    def networks(self, player: str) -> list[Network]:
        """Make the networks that a policy of a player runs.

        Raises:
            ConfigError: The player has none and needs one, or it cannot be made with these options.
            PluginError: A factory raised something else.
        """
        chosen = self.config.players[player]
        return make_networks(chosen, player_role(chosen, learned_role(chosen, self.spec))[0])

    @property
    def _serves(self) -> bool:
        """Whether the run has an inference service."""
        chosen = self.config.inference
        return self.config.run.workers != 0 and chosen is not None and chosen.component.service is not None

    def samplers(self, cores: float) -> int:
        """Return the number of sampler processes: as configured, or the cores that learners leave.

        Learners get half of the cores, or one core each where they compute on another device.
        """
        run, learners = self.config.run, self.config.learner_processes
        if run.workers is not None:
            return run.workers
        taken = max(learners, round(int(cores) / 2)) if run.device == "cpu" else learners
        return max(1, (int(cores) - taken - self._serves) // run.sampler_threads)

    def opponents(self, worker: str, spec: EnvironmentSpec, rows: int) -> ActorCache:
        """Return the frozen models and anchors as a worker meets them, loaded on demand.

        Args:
            worker: Names the random stream.
            spec: The environment's.
            rows: Matches played at once.
        """
        config, seat_ids = self.config, rows * len(spec.seats)
        rng = generator(config.run.seed, worker, "opponents", self.session)

        def anchor(participant: str, role: str) -> AgentActor:
            return AgentActor(self.anchor(participant, role, spec), rng)

        def stack(player: str) -> StackActor:
            _, interface, algorithm = self.parts_of(player, spec, self._site(worker, player))
            return StackActor(policy=algorithm.make_policy(), interface=interface, rng=rng, seat_ids=seat_ids)

        return ActorCache(
            anchor=anchor,
            stack=stack,
            kin=_kin(config),
            read=lambda digest: load_arrays(self.run_dir / "models", digest),
            budget_bytes=config.sampling.opponent_cache_mb * 2**20,
        )

    def live(
        self, worker: str, player: str, spec: EnvironmentSpec, rows: int, *, memory: SharedMemory | None = None
    ) -> LiveActor:
        """Return a player's learning policy as a worker seats it, with a recorder of its own and without weights.

        Args:
            worker: Names the random stream.
            player: Whose.
            spec: The environment's.
            rows: Matches played at once.
            memory: Where its blocks are recorded; on the heap without.
        """
        role, interface, algorithm = self.parts_of(player, spec, self._site(worker, player))
        policy = algorithm.make_policy()
        layout = _layout(role, algorithm, policy)
        seat_ids = rows * role.num_seats
        return LiveActor(
            player=player,
            policy=policy,
            interface=interface,
            recorder=Recorder(layout, seat_ids, None if memory is None else partial(memory.allocate, player)),
            rng=generator(self.config.run.seed, worker, player, self.session),
            seat_ids=rows * len(spec.seats),
        )

    def _layout(self, player: str) -> SegmentLayout:
        """Return the layout of the segments of a player, which samplers everywhere must agree on."""
        chosen = self.config.players[player]
        role, _ = player_role(chosen, learned_role(chosen, self.spec))
        algorithm = make_algorithm(chosen, role)
        return _layout(role, algorithm, algorithm.make_policy())

    def taking_part(self) -> dict[str, Any]:
        """Return the players, anchors and seats of the league."""
        roles = {name: learned_role(player, self.spec) for name, player in self.config.players.items()}
        players = {name: (r.name, r.teams[0] if len(set(r.teams)) == 1 else None) for name, r in roles.items()}
        return {"players": players, "anchors": tuple(self.config.anchors), "seats": self.spec.seats}

    def _manifest(self, player: str) -> dict[str, Any]:
        chosen = self.config.players[player]
        versions = {report.distribution: report.version for report in self.plugins.reports if report.status == "ok"}
        return {
            "environment": self.config.environment.name,
            "algorithm": chosen.algorithm.name,
            "network": chosen.network.name if chosen.network else None,
            "config": self.config.data.get("players", {}).get(player, {}),
            "versions": {"ludus": __version__, **versions},
        }

    def frozen(
        self, player: str, weights: Weights, *, spec: EnvironmentSpec, rows: int = 0, deterministic: bool = False
    ) -> Agent:
        """Make the agent that plays weights of a player, through its interfaces.

        Args:
            player: Whose.
            weights: What it plays by.
            spec: The environment's.
            rows: Matches played at once, if that is known.
            deterministic: Take the most likely actions instead of sampling.

        Raises:
            ModelError: The weights do not fit the player's network.
        """
        _, interface, algorithm = self.parts_of(player, spec)
        policy = algorithm.make_policy()
        policy.load(weights)
        return PolicyAgent(policy, rows * len(spec.seats), deterministic, interface)

    def anchor(self, participant: str, role: str, spec: EnvironmentSpec) -> Agent:
        """Make the agent that plays an anchor in a role.

        Raises:
            ConfigError: There is no such anchor.
        """
        anchors = self.config.anchors
        if participant not in anchors:
            raise ConfigError(f"participant {participant!r}: no such anchor; there are {', '.join(anchors)}")
        return make_agent(anchors[participant].agent, spec, role)

    def parts_of(
        self, player: str, spec: EnvironmentSpec, site: ServiceEndpoint | None = None
    ) -> tuple[Role, Interface | None, Algorithm]:
        """Return a player's role as it sees it, the interface before it, and its algorithm."""
        chosen = self.config.players[player]
        role, interface = player_role(chosen, learned_role(chosen, spec))
        algorithm = make_algorithm(chosen, role, runtime=self.config.inference, site=site)
        return role, interface, algorithm

    def _site(self, worker: str, player: str) -> ServiceEndpoint | None:
        """Return where a worker's runtimes for a player run; None where they have no service."""
        chosen = self.config.inference
        if self.sockets is None or chosen is None or chosen.component.service is None:
            return None
        service = service_name(chosen.name)
        return ServiceEndpoint(worker=worker, player=_kin(self.config)[player], sockets=self.sockets, service=service)


def _layout(role: Role, algorithm: Algorithm, policy: Policy) -> SegmentLayout:
    state = policy.initial_state(1)
    return SegmentLayout.of(role, fields=algorithm.fields, decisions=algorithm.segment_decisions, state=state)


def service_name(component: str) -> str:
    """Return the worker name of a component's service."""
    return f"service-{component}"


def _kin(config: RunConfig) -> dict[str, str]:
    """Return for every player the first one whose models have the same architecture."""
    kinds = {name: (p.algorithm, p.network, p.interfaces, p.role) for name, p in config.players.items()}
    return {name: next(other for other in kinds if kinds[other] == kind) for name, kind in kinds.items()}
