"""Check the participants of a run: players decide in real matches and learn from them, agents decide once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from attrs import frozen
from gymnasium import spaces

from ludus._league.validation import wrap_answer_errors
from ludus._run.factories import (
    count_weights,
    learned_role,
    make_algorithm,
    make_networks,
    make_wrapped_agent,
    player_role,
)
from ludus._run.worker_factories import make_live_actor, make_trainer, transfer
from ludus._sampling.match_engine import MatchEngine
from ludus._sampling.seats import Actor, SeatRewards, Seats
from ludus._seeding import generator
from ludus.agent import BuiltinAgent
from ludus.algorithm import UpdateResult
from ludus.errors import ConfigError, ContractError, LudusError
from ludus.inference import Eager
from ludus.interface import Spaces
from ludus.network import AdvisedNetwork, RecurrentNetwork
from ludus.processes import memory_bytes
from ludus.records import Fixture
from ludus.segment import SegmentBatch
from ludus.spaces import action_width, label_sizes, leaf_spaces, legal_actions, random_actions, real_sizes
from ludus.testing._algorithm import check_decision, check_fields
from ludus.testing._errors import expect_type, require
from ludus.testing._estimates import BYTES_PER_WEIGHT, check_memory, check_update_time, estimate_memory
from ludus.testing._finding import Finding
from ludus.testing._interface import check_view
from ludus.testing._pace import Pace, PaceMeter, check_pace, configured_samplers
from ludus.testing._rollout import Rollout, SeededActions, TickCheck
from ludus.testing._synthetic import random_leaves

if TYPE_CHECKING:
    from torch import nn

    from ludus._config.sections import AnchorConfig, PlayerConfig
    from ludus._learning.transfer import Transfer
    from ludus._run.context import RunContext
    from ludus._sampling.actors import LiveActor
    from ludus.agent import Agent
    from ludus.algorithm import Algorithm, Decision, Policy, PolicyInput, Trainer
    from ludus.environment import Environment, Role, RoleTick, Scenario
    from ludus.interface import Interface, SeatView


NUM_MATCHES = 8
MAX_TICKS = 1000
_DECISIONS = 64  # to record, for every seat
_SHORT_UPDATE_S, _MAX_COPIES = (
    2.0,
    16,
)  # an update that takes less is timed again with up to so many copies of its segments


@frozen(eq=False)
class _RandomActor:
    """Plays the seats of other roles with random legal actions."""

    role: Role
    rng: np.random.Generator

    def start_matches(self, seat_ids: np.ndarray) -> None:
        """Do nothing."""

    def act(self, seats: Seats, rewards: SeatRewards) -> np.ndarray:  # noqa: ARG002 - required by the protocol
        """Return random legal actions."""
        mask = None if seats.tick.action_mask is None else seats.take(seats.tick.action_mask)
        return random_actions(self.role.action_space, seats.match_indices.size, self.rng, mask=mask)

    def end_seats(self, seats: Seats, rewards: SeatRewards, *, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Do nothing."""


@frozen(eq=False)
class _CheckedMethod:
    """A wrapper of an object that checks the return values of one method.

    Args:
        inner: Wrapped object.
        method: Name of the method.
        check: Called with the return value and the first argument of every call.
        subject: Start of error messages.
    """

    inner: Any
    method: str
    check: Callable[[Any, Any], None]
    subject: str

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.inner, name)
        return partial(self._call, attribute) if name == self.method else attribute

    def _call(self, function: Callable[..., Any], argument: Any, *args: Any, **options: Any) -> Any:
        result = function(argument, *args, **options)
        with wrap_answer_errors(self.subject):
            self.check(result, argument)
        return result


def check_player(player: PlayerConfig, environment: Environment, context: RunContext) -> Iterator[str | Finding]:
    """Check network, policy, interfaces and trainer of a player, and yield lines about them.

    Raises:
        LudusError: One of them breaks its contract.
    """
    run = context.config.run
    raw_role = learned_role(player, environment.spec)
    role, _ = player_role(player, environment.spec)
    if player.interfaces:
        yield f"with its interfaces: {describe_spaces(role)}"
    if role.guidance:
        budget = "the training budget" if run.minutes or run.decisions else "a training budget, which the run lacks"
        yield f"guidance fades over {budget}: {', '.join(role.guidance)}"
    num_weights = _check_weights(player, role)
    algorithm = make_algorithm(player, role)
    estimate = estimate_memory(
        context.config, player, role, num_weights=num_weights, segment_decisions=algorithm.segment_decisions
    )
    yield from check_memory(context.config, player, estimate, samplers=configured_samplers(context.config))
    yield from _check_networks(player, role)
    subject = f"algorithm {player.algorithm.name!r}"
    with wrap_answer_errors(subject):
        check_fields(algorithm)
    trainer = algorithm.make_trainer(seed=run.seed, device=run.device)
    weights = trainer.weights()
    actor = make_live_actor(context, "check", player.name, environment.spec, environment.num_matches)
    actor.load(weights, 0)
    _add_checks(actor, algorithm, player, role)
    batch, pace = _record_batch(environment, actor, raw_role, run.seed)
    num_weights = sum(array.size for array in weights.values())
    yield f"policy: {num_weights:,} weights; {batch.num_decisions} decisions in {batch.num_segments} segments"
    start = time.perf_counter()
    result = trainer.update(batch.read_only(), progress=0.0)
    elapsed_s = time.perf_counter() - start
    with wrap_answer_errors(subject):
        expect_type(UpdateResult, result, "update")
    actor.policy.load(trainer.weights())
    metrics = _describe_metrics(result)
    if result.samples:
        update_s = _estimate_update(trainer, batch, elapsed_s)
        yield f"update: {elapsed_s:.2f} s; {metrics}; of {trainer.batch_decisions:,} decisions about {update_s:,.1f} s"
        yield from check_update_time(context.config, player, update_s=update_s, batch=trainer.batch_decisions)
    else:
        text = f"the update trained on 0 of {batch.num_decisions} decisions, so it does not show that the player learns"
        yield Finding("warn", f"player {player.name}", f"{text} (expected before learning_starts)")
    yield from check_pace(context.config, player, pace, batch=trainer.batch_decisions, seats=raw_role.num_seats)


def _estimate_update(trainer: Trainer, batch: SegmentBatch, elapsed_s: float) -> float:
    """Return the seconds of an update of the trainer's batch, in proportion to an update that was measured.

    A small update takes mostly the time of its calls and, at first, of allocations. So a short one is repeated with
    copies of its segments.

    Args:
        trainer: Trainer that has updated with the batch.
        batch: Recorded segments.
        elapsed_s: Seconds of that update.
    """
    copies = min(_MAX_COPIES, -(-trainer.batch_decisions // batch.num_decisions))
    if elapsed_s < _SHORT_UPDATE_S and copies > 1:
        batch = SegmentBatch.concatenate([batch] * copies)
        start = time.perf_counter()
        trainer.update(batch.read_only(), progress=0.0)
        elapsed_s = time.perf_counter() - start
    return elapsed_s * trainer.batch_decisions / batch.num_decisions


def _add_checks(actor: LiveActor, algorithm: Algorithm, player: PlayerConfig, role: Role) -> None:
    """Check all decisions of the policy and all views of the interfaces of an actor."""

    def check_policy(decision: Decision, inputs: PolicyInput) -> None:
        rows = len(next(iter(inputs.observation.values())))
        check_decision(decision, algorithm, role, rows=rows, mask=inputs.action_mask)

    def check_interface(transformed: SeatView, view: SeatView) -> None:
        check_view(transformed, Spaces(role.observation_space, role.action_space), rows=view.reward.size)

    subject = f"algorithm {player.algorithm.name!r}"
    actor.policy = cast("Policy", _CheckedMethod(actor.policy, "act", check_policy, subject))
    if actor.interface is not None:
        names = ", ".join(repr(chosen.name) for chosen in player.interfaces)
        checked = _CheckedMethod(actor.interface, "observe", check_interface, f"interface {names}")
        actor.interface = cast("Interface", checked)


def _check_weights(player: PlayerConfig, role: Role) -> int:
    """Return the number of weights of a player, which are not allocated, after a check that they can learn here.

    Raises:
        ConfigError: They cannot.
    """
    count = count_weights(player, role)
    needed, machine = count * BYTES_PER_WEIGHT, memory_bytes()
    if needed > machine:
        name = (player.network or player.algorithm).name
        raise ConfigError(
            f"players.{player.name}.{name}: {count:,} weights need {needed / 1e9:,.0f} GB while they learn, but this "
            f"machine has {machine / 1e9:,.0f} GB; expected fewer or smaller layers, or inputs of fewer numbers"
        )
    return count


def _check_networks(player: PlayerConfig, role: Role) -> Iterator[str | Finding]:
    """Check that networks return the requested heads for random rows, and yield their numbers of parameters."""
    rng = generator(0, "check", "networks")
    subject = f"network {player.network.name!r}" if player.network else f"algorithm {player.algorithm.name!r}"
    for module, request in make_networks(player, role):
        groups = (dict(request.observation), dict(request.privileged))
        observation, privileged = (random_leaves(spaces.Dict(group), NUM_MATCHES, rng) for group in groups)
        initial = module.initial_state(NUM_MATCHES) if isinstance(module, RecurrentNetwork) else {}
        state = {name: leaf.detach().numpy() for name, leaf in initial.items()}
        with wrap_answer_errors(subject):
            heads = Eager(module, request).run(observation, privileged=privileged, state=state).heads
            _check_heads(heads, {**request.heads, **request.critic_heads})
        yield f"{subject}: {_describe_parameters(module, {**request.observation, **request.privileged})}"
        if isinstance(module, AdvisedNetwork) and (advice := module.advice()):
            yield Finding("warn", f"player {player.name}", f"{subject}: {advice}")


def _describe_parameters(module: nn.Module, leaves: Mapping[str, spaces.Space[Any]]) -> str:
    """Return the numbers of parameters of a network and its parts, and of its inputs."""
    parts = {name: _count_parameters(part) for name, part in module.named_children()}
    counts = ", ".join(f"{name} {count:,}" for name, count in parts.items() if count)
    inputs = sum(map(spaces.flatdim, leaves.values()))
    return f"{_count_parameters(module):,} parameters for {inputs:,} inputs ({counts})"


def _count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _check_heads(heads: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        got = heads[name].shape if name in heads else None
        require(got == (NUM_MATCHES, size), f"returned {got} as head {name!r}, expected {(NUM_MATCHES, size)}")


def _record_batch(environment: Environment, actor: LiveActor, learned: Role, seed: int) -> tuple[SegmentBatch, Pace]:
    """Play until some decisions are recorded; return them and how fast they were played.

    The actor plays all seats of the role that it learns.
    """
    seats = tuple(seat.role for seat in environment.spec.seats)
    actors: dict[str, Actor] = {
        role.name: _RandomActor(role, generator(seed, "check", role.name)) for role in environment.spec.roles
    }
    actors[learned.name] = actor
    meter = PaceMeter(environment)
    engine = MatchEngine(
        environment=meter,
        resolve=lambda _fixture, seat: (actors[seats[seat]], 0),
        on_results=meter.count_ended,
        matches_per_lane=environment.num_matches,
    )
    matches = environment.num_matches * MAX_TICKS  # more than can end
    fixture = Fixture(id=1, kind="train", player="", participants=seats, seed=seed, matches=matches, reason="check")
    engine.add_fixture(fixture)
    for _ in range(MAX_TICKS):
        if meter.is_warm and (engine.decisions >= _DECISIONS * len(seats) or actor.blocks):
            break
        meter.measure_step(engine)
    batch = actor.blocks[0] if actor.blocks else actor.recorder.flush()
    require(batch.num_decisions, f"no decision was recorded in {MAX_TICKS} ticks")
    return batch, meter.pace(engine, share_of_seats=learned.num_seats / len(seats))


def check_transfer(context: RunContext, player: str, source: str) -> Transfer:
    """Check that a player can start from the weights of another one, and return what it would start from.

    Raises:
        ModelError: No layer fits.
    """
    own, other = (make_trainer(context, name, 0, "", device="cpu").weights() for name in (player, source))
    return transfer(context, player, source, own=own, weights=other)


def _describe_metrics(result: UpdateResult) -> str:
    for name, value in result.metrics.items():
        require(np.isfinite(value), f"update returned {value} as metric {name!r}, expected a finite number")
    return ", ".join(f"{name} {value:.3g}" for name, value in list(result.metrics.items())[:4])


def start_rollout(
    environment: Environment, seed: int, check: TickCheck | None = None, *, scenario: Scenario | None = None
) -> Rollout:
    """Start a rollout with random legal actions."""
    return Rollout(
        environment=environment,
        seed=seed,
        sequences=range(environment.num_matches),
        choose=SeededActions(spec=environment.spec),
        check=check,
        scenario=scenario,
    )


def describe_spaces(role: Role) -> str:
    """Return observation leaves and actions of a role as text."""
    leaves = ", ".join(
        f"{name} {list(leaf.shape or ())} {leaf.dtype}" for name, leaf in leaf_spaces(role.observation_space).items()
    )
    labels = label_sizes(role.action_space)
    parts = [" by ".join(map(str, labels))] if labels else []
    if reals := sum(real_sizes(role.action_space)):
        parts.append(f"{reals} real numbers")
    return f"observes {leaves}; actions: {' and '.join(parts)}"


def check_anchor(anchor: AnchorConfig, environment: Environment, seed: int) -> Iterator[str]:
    """Check the agent of an anchor for every role that it can play, and yield a line about it.

    Raises:
        LudusError: The agent plays no role, or breaks its contract.
    """
    refusals = []
    roles = []
    for role in environment.spec.roles:
        try:
            table = f"anchors.{anchor.name}."
            agent = make_wrapped_agent(anchor.agent, anchor.interfaces, environment.spec, role.name, table)
        except LudusError as error:
            refusals.append(error)
            continue
        if not isinstance(agent, BuiltinAgent):  # matches of built-in bots are part of the environment's check
            check_agent(agent, role, environment, seed)
        roles.append(role.name)
    if not roles:
        raise refusals[0]
    yield f"agent {anchor.agent.name} plays {', '.join(roles)}"


def check_agent(agent: Agent, role: Role, environment: Environment, seed: int) -> None:
    """Check the actions of an agent on the first tick on which its role acts.

    Raises:
        ContractError: The role never acts, or the actions are invalid.
    """
    tick = _first_acting_tick(role, environment, seed)
    matches, seats = np.nonzero(tick.acting)
    mask = None if tick.action_mask is None else tick.action_mask[matches, seats].copy()
    seat_ids = matches * role.num_seats + seats
    agent.reset(seat_ids)
    action = agent.act(
        {name: leaf[matches, seats] for name, leaf in tick.observation.items()},
        action_mask=mask,
        seat_ids=seat_ids,
        rng=generator(seed, "check", "agent"),
    )
    expect_type(np.ndarray, action, f"as {role.name} it")
    shape = (matches.size, action_width(role.action_space))
    valid = action.shape == shape and bool(real_sizes(role.action_space)) == (action.dtype.kind == "f")
    require(valid, f"as {role.name} it returned {action.dtype} {action.shape}, expected actions {shape}")
    require(legal_actions(role.action_space, action, mask).all(), f"as {role.name} it chose an illegal action")


def _first_acting_tick(role: Role, environment: Environment, seed: int) -> RoleTick:
    rollout = start_rollout(environment, seed)
    for _ in range(MAX_TICKS):
        if rollout.tick.roles[role.name].acting.any():
            return rollout.tick.roles[role.name]
        rollout.step()
    raise ContractError(f"role {role.name} does not act in {MAX_TICKS} ticks")
