"""Compare rollouts of an environment: a match may depend only on its seed, scenario and actions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import NoReturn, TypeAlias

import numpy as np
from attrs import field, frozen

from ludus.component import Component
from ludus.environment import Environment, EnvironmentSpec, Scenario
from ludus.errors import ContractError
from ludus.testing._builtin_bots import bot_scenarios
from ludus.testing._errors import fail_environment, rejects
from ludus.testing._rollout import (
    Rollout,
    SeededActions,
    TickArrays,
    TickCheck,
    copy_tick,
    digest,
    first_difference,
    match_seed,
    other_process_digests,
)
from ludus.testing._tick_checks import TickChecker

EnvironmentFactory: TypeAlias = "Callable[[int], Environment]"

SEQUENCES = (0, 1, 2)


@frozen(kw_only=True)
class RolloutChecks:
    """Checks that play several rollouts of an environment and compare them.

    Args:
        make: Makes the environment, given the number of matches.
        spec: Specification of the environment.
        seed: Seed of the match seeds and actions.
        steps: Steps of each rollout.
        max_idle_ticks: See `TickChecker`.
    """

    make: EnvironmentFactory
    spec: EnvironmentSpec
    seed: int
    steps: int
    max_idle_ticks: int
    choose: SeededActions = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "choose", SeededActions(spec=self.spec))

    def fail(self, problem: str, **location: object) -> NoReturn:
        """Raise a ContractError about the environment."""
        fail_environment(self.spec, problem, **location)

    def start(
        self,
        environment: Environment,
        sequences: tuple[int, ...] = SEQUENCES,
        *,
        choose: SeededActions | None = None,
        check: TickCheck | None = None,
        scenario: Scenario | None = None,
    ) -> Rollout:
        """Start a rollout with the seed and, unless others are given, the actions of these checks."""
        return Rollout(
            environment=environment,
            seed=self.seed,
            sequences=sequences,
            choose=choose or self.choose,
            check=check,
            scenario=scenario,
        )

    def require_equal(
        self,
        one: TickArrays,
        other: TickArrays,
        problem: str,
        *,
        tick: int,
        pairs: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Check that two ticks are equal in pairs of match indices; None: in all matches.

        Raises:
            ContractError: They differ; the message starts with `problem`.
        """
        found = first_difference(one, other, same_indices(SEQUENCES) if pairs is None else pairs)
        if found is not None:
            array, match = found
            self.fail(f"{problem}: {array} differs", match=match, tick=tick)

    def require_repeated(
        self,
        one: TickArrays,
        other: TickArrays,
        problem: str,
        *,
        tick: int,
        pairs: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Like `require_equal`, for ticks of matches that were played twice: nothing is checked in other games."""
        if self.spec.repeatable:
            self.require_equal(one, other, problem, tick=tick, pairs=pairs)

    def _require_equal_rollouts(
        self,
        one: list[TickArrays],
        other: list[TickArrays],
        problem: str,
        pairs: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        for tick, (expected, arrays) in enumerate(zip(one, other, strict=True)):
            self.require_repeated(expected, arrays, problem, tick=tick, pairs=pairs)

    def check_ticks(self, environment: Environment) -> list[TickArrays]:
        """Check every tick of a rollout and return the ticks."""
        checker = self._tick_checker()
        ticks = self.start(environment, check=checker).record(self.steps)
        checker.finish()
        return ticks

    def _tick_checker(self, *, is_bot: np.ndarray | None = None) -> TickChecker:
        num_matches, idle = len(SEQUENCES), self.max_idle_ticks
        return TickChecker(spec=self.spec, num_matches=num_matches, max_idle_ticks=idle, is_bot=is_bot)

    def check_builtin_bots(self) -> None:
        """Check matches of every built-in bot, and that unknown bots are rejected."""
        if not any(self.spec.builtin):
            return
        with closing(self.make(len(SEQUENCES))) as environment:
            for scenario in bot_scenarios(self.spec):
                self._check_bots(environment, scenario)
            seeds = np.array([match_seed(self.seed, sequence, 0) for sequence in SEQUENCES])
            scenario = Scenario(builtin=("no-such-bot",) * len(self.spec.seats))
            if not rejects(ContractError, environment.reset, seeds, scenarios=[scenario] * len(SEQUENCES)):
                self.fail("reset accepted the built-in bot 'no-such-bot'; expected ContractError")

    def _check_bots(self, environment: Environment, scenario: Scenario) -> None:
        """Check that the seats of bots never act, and that their matches depend on seeds and actions only."""
        checker = self._tick_checker(is_bot=np.array(list(map(bool, scenario.builtin))))
        ticks = self.start(environment, check=checker, scenario=scenario).record(self.steps)
        again = self.start(environment, scenario=scenario).record(self.steps)
        names = ", ".join(dict.fromkeys(filter(None, scenario.builtin)))
        problem = f"the same seeds and actions do not give the same match of the built-in bot {names} again"
        self._require_equal_rollouts(ticks, again, problem)

    def check_full_reset(self, environment: Environment, expected: list[TickArrays]) -> None:
        """Check that a reset of all matches leaves nothing of earlier matches."""
        again = self.start(environment).record(self.steps)
        self._require_equal_rollouts(expected, again, "the same seeds and actions do not give the same match again")

    def check_determinism(self, expected: list[TickArrays]) -> None:
        """Check that a match depends only on its seed and acting seats' actions, and that `step` copies actions."""
        with _other_global_random_state(), closing(self.make(len(SEQUENCES))) as environment:
            rollout = self.start(environment, choose=SeededActions(spec=self.spec, fill_idle=True))
            again = [copy_tick(rollout.tick)]
            for tick in range(self.steps):
                self._step_and_check_actions(rollout, tick)
                again.append(copy_tick(rollout.tick))
                rollout.restart_ended()
        problem = "a match depends on more than its seed and the actions of acting seats"
        self._require_equal_rollouts(expected, again, problem)

    def _step_and_check_actions(self, rollout: Rollout, tick: int) -> None:
        actions = rollout.actions()
        before = {role: array.copy() for role, array in actions.items()}
        rollout.step(actions)
        arrays = copy_tick(rollout.tick)
        for role, array in actions.items():
            if not np.array_equal(array, before[role]):
                self.fail("step wrote into the action arrays, which belong to the caller", role=role, tick=tick)
            np.add(array, 1, out=array)  # callers may reuse their arrays
        problem = "the tick changes when the caller writes into the action arrays; step must copy what it keeps"
        self.require_equal(arrays, copy_tick(rollout.tick), problem, tick=tick)

    def check_batch_size(self, expected: list[TickArrays]) -> None:
        """Check that a match is the same alone and in a batch."""
        for match, sequence in enumerate(SEQUENCES[1:], start=1):
            with closing(self.make(1)) as environment:
                alone = self.start(environment, (sequence,)).record(self.steps)
            problem = "a match played alone differs from the same match in a batch"
            self._require_equal_rollouts(expected, alone, problem, ((match, 0),))

    def check_partial_reset(self) -> None:
        """Check that a reset of one match, mostly before its end, affects only that match and keeps nothing of it."""
        with closing(self.make(len(SEQUENCES))) as environment, closing(self.make(1)) as single:
            rollout = self.start(environment)
            for tick in range(1, min(10, self.steps + 1)):
                rollout.step()
                match = tick % len(SEQUENCES)
                before = copy_tick(rollout.tick)
                rollout.restart(np.array([match]))
                after = copy_tick(rollout.tick)
                others = [(other, other) for other in range(len(SEQUENCES)) if other != match]
                self.require_equal(before, after, "reset changed another match", tick=tick, pairs=others)
                start = copy_tick(single.reset(rollout.seeds()[match : match + 1]))
                self.require_repeated(after, start, "reset kept state of the old match", tick=tick, pairs=[(match, 0)])

    def check_scenarios(self) -> None:
        """Check that declared scenarios can be played and that unknown scenarios and parameters are rejected."""
        with closing(self.make(len(SEQUENCES))) as environment:
            seeds = np.array([match_seed(self.seed, sequence, 0) for sequence in SEQUENCES])
            implicit = copy_tick(environment.reset(seeds))
            explicit = copy_tick(environment.reset(seeds, scenarios=[Scenario()] * len(SEQUENCES)))
            self.require_repeated(implicit, explicit, "scenario 'default' differs from scenarios=None", tick=0)
            for name in self.spec.scenarios:
                self._check_scenario(environment, seeds, name)
            for unknown in (Scenario(name="no-such-scenario"), Scenario(parameters={"no-such-parameter": 1.0})):
                self._check_rejected(environment, seeds, unknown)

    def _check_scenario(self, environment: Environment, seeds: np.ndarray, name: str) -> None:
        checker, scenarios = self._tick_checker(), [Scenario(name=name)] * len(SEQUENCES)
        tick = environment.reset(seeds, scenarios=scenarios)
        start = copy_tick(tick)
        checker(tick, np.arange(len(SEQUENCES)))
        for number in range(min(20, self.steps)):
            tick = environment.step(self.choose(tick, list(seeds), [number] * len(SEQUENCES)))
            checker(tick, None)
        again = copy_tick(environment.reset(seeds, scenarios=scenarios))
        self.require_repeated(start, again, f"scenario {name!r} starts differently with the same seeds", tick=0)

    def _check_rejected(self, environment: Environment, seeds: np.ndarray, unknown: Scenario) -> None:
        if not rejects(ContractError, environment.reset, seeds, scenarios=[unknown] * len(SEQUENCES)):
            subject = "parameter 'no-such-parameter' of the" if unknown.parameters else "unknown"
            self.fail(f"reset accepted the {subject} scenario {unknown.name!r}; expected ContractError")

    def check_symmetry(self, expected: list[TickArrays]) -> None:
        """Check that exchanging the teams exchanges rewards, outcomes and acting seats."""
        order = {role.name: _next_team_seats(role.teams, self.spec.num_teams) for role in self.spec.roles}
        with closing(self.make(len(SEQUENCES))) as environment:
            choose = SeededActions(spec=self.spec, seat_names=order)
            exchanged = self.start(environment, choose=choose).record(self.steps)
        teams = [(team + 1) % self.spec.num_teams for team in range(self.spec.num_teams)]
        for tick, (one, other) in enumerate(zip(expected, exchanged, strict=True)):
            arrays = {"outcome": one["outcome"][:, teams]}
            for role, seats in order.items():
                arrays |= {f"{role} {name}": one[f"{role} {name}"][:, seats] for name in ("acting", "reward")}
            problem = "symmetric is declared, but with the seats exchanged"
            self.require_repeated(arrays, {name: other[name] for name in arrays}, problem, tick=tick)

    def check_other_process(
        self, expected: list[TickArrays], component: Component, options: Mapping[str, object]
    ) -> None:
        """Check that a new interpreter, with another hash seed, plays the same matches."""
        if not self.spec.repeatable:
            return
        others = other_process_digests(component, options, seed=self.seed, steps=self.steps, sequences=SEQUENCES)
        own = [{name: digest(array) for name, array in arrays.items()} for arrays in expected]
        for tick, (one, other) in enumerate(zip(own, others, strict=True)):
            for name in sorted(one.keys() | other.keys()):
                if one.get(name) != other.get(name):
                    self.fail(f"the same seeds give another match in another process: {name} differs", tick=tick)


def same_indices(sequences: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of each match index with itself."""
    return tuple((match, match) for match in range(len(sequences)))


def _next_team_seats(teams: tuple[int, ...], num_teams: int) -> list[int]:
    """Return for each seat the seat of the same rank in the next team."""
    members = [[seat for seat, team in enumerate(teams) if team == number] for number in range(num_teams)]
    return [members[(team + 1) % num_teams][members[team].index(seat)] for seat, team in enumerate(teams)]


@contextmanager
def _other_global_random_state() -> Iterator[None]:
    """Replace the state of the global random generators temporarily."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
