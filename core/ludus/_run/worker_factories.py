"""Make the workers of a run, their trainers, and the agents and actors that decide in matches."""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from ludus._config.sections import RunConfig
from ludus._learning.data_parallel import GroupFormation, HelperWorker
from ludus._learning.learner import Learner
from ludus._learning.state import LearnerOptions
from ludus._learning.transfer import Transfer, input_layout, transfer_weights
from ludus._plugins.error_wrapping import close_environment
from ludus._run.context import RunContext
from ludus._run.deferred_environment import DeferredEnvironment
from ludus._run.evaluation_replays import make_evaluation_environment, make_replay_recorder
from ludus._run.factories import (
    make_algorithm,
    make_environment,
    make_networks,
    make_service,
    make_wrapped_agent,
    player_role,
)
from ludus._run.worker_plan import service_name
from ludus._sampling.actors import LiveActor, PolicyAgent, make_agent_actor
from ludus._sampling.opponents import ActorCache, StackActor
from ludus._sampling.recorder import Recorder
from ludus._sampling.sampler import Sampler
from ludus._sampling.seats import Actor
from ludus._sampling.segment_layout import SegmentLayout
from ludus._seeding import generator, seed_for
from ludus._store.model_files import load_arrays, load_manifest
from ludus._version import __version__
from ludus.agent import Agent
from ludus.algorithm import Algorithm, GroupTrainer, Policy, Trainer, Weights
from ludus.environment import Environment, EnvironmentSpec, Role
from ludus.errors import ConfigError
from ludus.launcher import Rendezvous, SharedMemory, Worker, WorkerContext
from ludus.service import Network, ServiceContext, ServiceEndpoint


def make_anchor_agent(config: RunConfig, anchor: str, role: str, spec: EnvironmentSpec) -> Agent:
    """Make the agent that plays an anchor in a role.

    Raises:
        ConfigError: The configuration has no such anchor.
    """
    if anchor not in config.anchors:
        raise ConfigError(f"participant {anchor!r}: no such anchor; there are {', '.join(config.anchors)}")
    configured = config.anchors[anchor]
    return make_wrapped_agent(configured.agent, configured.interfaces, spec, role, f"anchors.{anchor}.")


def make_model_agent(
    run: RunContext, player: str, weights: Weights, *, spec: EnvironmentSpec, rows: int = 0, deterministic: bool = False
) -> Agent:
    """Make the agent that plays fixed weights of a player, through the player's interfaces.

    Args:
        run: The run.
        player: Player that the weights belong to.
        weights: Weights of the policy.
        spec: Specification of the environment.
        rows: Number of matches in the environment's batch, if known.
        deterministic: Take the most likely actions instead of sampling.

    Raises:
        ModelError: The weights do not fit the player's network.
    """
    components = run.player_components(player, spec)
    policy = components.algorithm.make_policy()
    policy.load(weights)
    return PolicyAgent(policy, rows * len(spec.seats), deterministic, components.interface)


def make_sampler(run: RunContext, name: str, worker: WorkerContext) -> Sampler:
    """Make a sampler, which plays training matches and records the decisions of every player."""
    sampling = run.config.sampling
    return _make_sampler(run, name, worker, kind="train", matches=sampling.matches, lane=sampling.rows_per_fixture)


def make_evaluator(run: RunContext, name: str, worker: WorkerContext) -> Sampler:
    """Make an evaluator, which plays rating matches between frozen models and anchors."""
    matches = run.config.evaluation_matches
    lane = min(matches, run.config.evaluation.fixture_matches)
    return _make_sampler(run, name, worker, kind="eval", matches=matches, lane=lane)


def _make_sampler(run: RunContext, name: str, worker: WorkerContext, *, kind: str, matches: int, lane: int) -> Sampler:
    players = run.config.players if kind == "train" else ()
    if kind == "eval":
        environment: Environment = DeferredEnvironment(
            run.spec, matches, partial(make_evaluation_environment, run, matches)
        )
    else:
        environment = make_environment(run.config.environment, matches)
    spec, memory = environment.spec, worker.memory
    try:
        return Sampler(
            name=name,
            kind=kind,
            environment=environment,
            live={player: make_live_actor(run, name, player, spec, matches, memory=memory) for player in players},
            frozen=make_actor_cache(run, name, spec, matches),
            link=worker.link,
            clock=worker.clock,
            matches_per_lane=lane,
            memory=memory,
            opponents_learn=run.config.sampling.opponents_learn,
            replays=make_replay_recorder(run, name, environment, kind=kind),
        )
    except BaseException:  # the environment may own processes
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

    def make_anchor(participant: str, role: str) -> Actor:
        return make_agent_actor(make_anchor_agent(config, participant, role, spec), rng)

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
    config = run.config.players[player]
    role, _ = player_role(config, run.spec)
    algorithm = make_algorithm(config, role)
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


def make_learner(run: RunContext, player: str, worker: WorkerContext) -> Learner:
    """Make the learner of a player."""
    config = run.config
    role, _ = player_role(config.players[player], run.spec)
    return Learner(
        player=player,
        layout=make_segment_layout(run, player),
        make_trainer=partial(make_trainer, run, player),
        run_dir=run.run_dir,
        options=LearnerOptions(
            credits=config.sampling.credits,
            max_staleness=config.sampling.max_staleness,
            freeze_every_decisions=run.config.players[player].freeze_every_decisions,
            checkpoint_s=config.run.checkpoint_s,
            max_segments=config.sampling.matches * role.num_seats,
            budget=run.budget,
            manifest=_manifest(run, player),
        ),
        link=worker.link,
        clock=worker.clock,
        memory=worker.memory,
        group_formation=_group_formation(run, player, worker.rendezvous),
    )


def make_helper(run: RunContext, name: str, worker: WorkerContext) -> HelperWorker:
    """Make a helper of a learner; its name holds its rank, from 1, and the player."""
    _, rank, player = name.split("-", maxsplit=2)
    trainer = make_trainer(run, player, 0, "", rank=int(rank))
    assert isinstance(trainer, GroupTrainer)
    formation = _group_formation(run, player, worker.rendezvous)
    return HelperWorker(
        name=name,
        formation=formation,
        trainer=trainer,
        link=worker.link,
        clock=worker.clock,
        layout=make_segment_layout(run, player),
    )


def make_trainer(
    run: RunContext, player: str, generation: int, init: str, *, rank: int = 0, device: str = ""
) -> Trainer:
    """Make the trainer of a player.

    Args:
        run: The run.
        player: Player to train.
        generation: Number of resets of the player.
        init: Hash of the run's model to start from; empty for the ``init`` option of the player.
        rank: Rank of this process in the learner's process group.
        device: Torch device; empty for the configured one.

    Raises:
        ModelError: The model to start from cannot be loaded.
    """
    seed = seed_for(run.config.run.seed, "learner", player, *([generation] if generation else []))
    algorithm = run.player_components(player, run.spec).algorithm
    trainer = algorithm.make_trainer(seed=seed, device=device or learner_device(run.config, player, rank))
    configured = run.config.players[player].init
    if init or configured:
        path = run.run_dir / "models" / init if init else Path(configured)
        weights = load_arrays(path.parent, path.stem)
        source = load_manifest(path.parent, path.stem).get("player", player) if init else player
        if source != player and source in run.config.players:
            weights = transfer(run, player, source, own=trainer.weights(), weights=weights).weights
        trainer.load_weights(weights)
    return trainer


def transfer(run: RunContext, player: str, source: str, *, own: Weights, weights: Weights) -> Transfer:
    """Return the weights of a player that starts from those of another player; see `ludus._learning.transfer`.

    Args:
        run: The run.
        player: Player that starts.
        source: Player of the weights.
        own: Start weights of the player.
        weights: Weights of the source.

    Raises:
        ModelError: They do not fit.
    """
    own_inputs, source_inputs = (
        input_layout(network.module for network in make_player_networks(run, name)) for name in (player, source)
    )
    return transfer_weights(own, weights, own_inputs=own_inputs, source_inputs=source_inputs)


def learner_device(config: RunConfig, player: str, rank: int) -> str:
    """Return the torch device of a learner process; ``cuda`` assigns the GPUs of the host in turn."""
    device = config.run.device
    if device != "cuda":
        return device
    import torch  # noqa: PLC0415 - not needed to plan the workers of a run

    earlier = takewhile(lambda other: other.name != player, config.players.values())
    index = sum(other.learner_processes for other in earlier) + rank
    return f"cuda:{index % torch.cuda.device_count()}"


def _group_formation(run: RunContext, player: str, rendezvous: Rendezvous | None) -> GroupFormation | None:
    if rendezvous is None or run.config.players[player].learner_processes == 1:
        return None
    # A learner that waits for a helper sends nothing, and may have to repeat the update.
    return GroupFormation(player, rendezvous, timeout_s=run.config.run.stall_s / 4)


def _manifest(run: RunContext, player: str) -> dict[str, Any]:
    config = run.config.players[player]
    versions = {report.distribution: report.version for report in run.plugins.reports if report.status == "ok"}
    return {
        "environment": run.config.environment.name,
        "algorithm": config.algorithm.name,
        "network": config.network.name if config.network else None,
        "config": run.config.data.get("players", {}).get(player, {}),
        "versions": {"ludus": __version__, **versions},
    }


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
    config = run.config.players[player]
    role, _ = player_role(config, run.spec)
    return make_networks(config, role)


def make_worker(run: RunContext, name: str, worker: WorkerContext) -> Worker:
    """Make a worker of `ludus._run.worker_plan.plan_workers`; the name starts with the kind of worker."""
    kind, _, rest = name.partition("-")
    match kind:
        case "learner":
            return make_learner(run, rest, worker)
        case "helper":
            return make_helper(run, name, worker)
        case "service":
            return make_service_worker(run, name, worker)
        case "evaluator":
            return make_evaluator(run, name, worker)
    return make_sampler(run, name, worker)
