"""Make samplers and evaluators, and the actors that decide in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from ludus._config.sections import RunConfig
from ludus._plugins.error_wrapping import close_environment
from ludus._run.agent_factory import make_anchor_agent
from ludus._run.context import RunContext
from ludus._run.factories import make_algorithm, make_environment
from ludus._run.worker_plan import service_name
from ludus._sampling.actors import AgentActor, LiveActor
from ludus._sampling.opponents import ActorCache, StackActor
from ludus._sampling.recorder import Recorder
from ludus._sampling.sampler import Sampler
from ludus._sampling.segment_layout import SegmentLayout
from ludus._seeding import generator
from ludus._store.model_files import load_arrays
from ludus.algorithm import Algorithm, Policy
from ludus.environment import Environment, EnvironmentSpec, Role
from ludus.launcher import SharedMemory, WorkerContext
from ludus.service import ServiceEndpoint


def make_sampler(run: RunContext, name: str, worker: WorkerContext) -> Sampler:
    """Make a sampler, which plays training matches and records the decisions of every player."""
    config = run.config
    with _open_environment(run, config.sampling.matches) as environment:
        spec, rows = environment.spec, environment.num_matches
        return Sampler(
            name=name,
            kind="train",
            environment=environment,
            live={
                player: make_live_actor(run, name, player, spec, rows, memory=worker.memory)
                for player in config.players
            },
            frozen=make_actor_cache(run, name, spec, rows),
            link=worker.link,
            clock=worker.clock,
            matches_per_lane=config.sampling.rows_per_fixture,
            memory=worker.memory,
            opponents_learn=config.sampling.opponents_learn,
        )


def make_evaluator(run: RunContext, name: str, worker: WorkerContext) -> Sampler:
    """Make an evaluator, which plays rating matches between frozen models and anchors."""
    evaluation = run.config.evaluation
    with _open_environment(run, evaluation.matches) as environment:
        return Sampler(
            name=name,
            kind="eval",
            environment=environment,
            live={},
            frozen=make_actor_cache(run, name, environment.spec, environment.num_matches),
            link=worker.link,
            clock=worker.clock,
            matches_per_lane=min(evaluation.matches, evaluation.fixture_matches),
            memory=worker.memory,
            opponents_learn=True,  # it has no live actors
        )


@contextmanager
def _open_environment(run: RunContext, num_matches: int) -> Iterator[Environment]:
    """Yield a new environment; close it, and the processes it may own, if the block raises."""
    environment = make_environment(run.config.environment, num_matches)
    try:
        yield environment
    except BaseException:
        close_environment(environment)
        raise


def make_live_actor(
    run: RunContext, worker: str, player: str, spec: EnvironmentSpec, rows: int, *, memory: SharedMemory | None = None
) -> LiveActor:
    """Make the actor of a learning player, with its own recorder and without weights.

    Args:
        run: The run.
        worker: Name of the worker; selects the random stream.
        player: The player.
        spec: Specification of the environment.
        rows: Number of matches in the environment's batch.
        memory: Shared memory for recorded blocks; None to allocate them on the heap.
    """
    components = run.player_components(player, spec, _service_endpoint(run, worker, player))
    policy = components.algorithm.make_policy()
    layout = _segment_layout(components.role, components.algorithm, policy)
    allocate = None if memory is None else partial(memory.allocate, player)
    return LiveActor(
        player=player,
        policy=policy,
        interface=components.interface,
        recorder=Recorder(layout, rows * components.role.num_seats, allocate),
        rng=generator(run.config.run.seed, worker, player, run.session),
        num_seats=rows * len(spec.seats),
    )


def make_actor_cache(run: RunContext, worker: str, spec: EnvironmentSpec, rows: int) -> ActorCache:
    """Make the cache of frozen models and anchors, which loads them on demand.

    Args:
        run: The run.
        worker: Name of the worker; selects the random stream.
        spec: Specification of the environment.
        rows: Number of matches in the environment's batch.
    """
    config, num_seats = run.config, rows * len(spec.seats)
    rng = generator(config.run.seed, worker, "opponents", run.session)

    def make_anchor(participant: str, role: str) -> AgentActor:
        return AgentActor(make_anchor_agent(config, participant, role, spec), rng)

    def make_stack(player: str) -> StackActor:
        components = run.player_components(player, spec, _service_endpoint(run, worker, player))
        policy = components.algorithm.make_policy()
        return StackActor(policy=policy, interface=components.interface, rng=rng, num_seats=num_seats)

    return ActorCache(
        make_anchor=make_anchor,
        make_stack=make_stack,
        architecture_owners=_same_architecture(config),
        read_model=lambda digest: load_arrays(run.run_dir / "models", digest),
        budget_bytes=config.sampling.opponent_cache_mb * 2**20,
    )


def make_segment_layout(run: RunContext, player: str) -> SegmentLayout:
    """Make the layout of a player's segments, on which its samplers and its learner must agree."""
    role = run.player_role(player)
    algorithm = make_algorithm(run.player(player), role)
    return _segment_layout(role, algorithm, algorithm.make_policy())


def _segment_layout(role: Role, algorithm: Algorithm, policy: Policy) -> SegmentLayout:
    state = policy.initial_state(1)
    return SegmentLayout.for_role(role, fields=algorithm.fields, decisions=algorithm.segment_decisions, state=state)


def _service_endpoint(run: RunContext, worker: str, player: str) -> ServiceEndpoint | None:
    """Return the endpoint of the service that runs a player's networks; None if they run in the worker."""
    inference = run.config.inference
    if run.sockets is None or inference is None or inference.component.service is None:
        return None
    owner = _same_architecture(run.config)[player]
    return ServiceEndpoint(worker=worker, player=owner, sockets=run.sockets, service=service_name(inference.name))


def _same_architecture(config: RunConfig) -> dict[str, str]:
    """Return for every player the first player whose models have the same architecture."""
    kinds = {name: (p.algorithm, p.network, p.interfaces, p.role) for name, p in config.players.items()}
    return {name: next(other for other in kinds if kinds[other] == kind) for name, kind in kinds.items()}
