"""`check_environment`: whether an environment keeps the contract of `ludus.environment`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias

import numpy as np
from attrs import field, frozen

from ludus.component import Component
from ludus.environment import Environment, EnvironmentSpec, Playable, Role, RoleTick, Scenario, Tick
from ludus.errors import ContractError
from ludus.spaces import is_continuous, label_sizes
from ludus.testing._other_process import digests_elsewhere, maker
from ludus.testing._rollout import Chooser, Difference, Picture, Rollout, difference, digest, match_seed, picture
from ludus.testing._spec_checks import check_spec
from ludus.testing._tick_checks import Watch, fail

__all__ = ["check_environment"]

Make: TypeAlias = "Callable[[int], Environment]"

_LINES = (0, 1, 2)


def check_environment(
    make: Make | Component,
    *,
    seed: int = 0,
    steps: int = 200,
    options: Mapping[str, Any] | None = None,
    max_idle_ticks: int = 100,
) -> None:
    """Play an environment with random legal actions and check everything its contract requires.

    Makes a few environments of at most three matches and plays each for `steps` ticks. Choose `steps` so that some
    matches end: properties of the end of a match are not checked where none ends.

    Args:
        make: Called with the number of matches. Give the registered `ludus.Component` instead, and it is also checked
            that another process plays the same matches.
        seed: Seed of the match seeds and actions.
        steps: How many ticks each environment is played for.
        options: For a component: fields of its configuration that differ from the defaults.
        max_idle_ticks: For how many ticks on end an asynchronous match may go on with nobody acting.

    Raises:
        ContractError: The contract is broken. The message names environment, role, seat, match index and tick where
            known, and what was expected.
    """
    made = maker(make, options or {}) if isinstance(make, Component) else make
    environment = made(len(_LINES))
    kit = _Kit(make=made, spec=environment.spec, seed=seed, steps=steps, max_idle_ticks=max_idle_ticks)
    before = _global_randomness()
    check_spec(kit.spec)
    if environment.num_matches != len(_LINES):
        kit.fail(f"num_matches is {environment.num_matches}, asked for {len(_LINES)}")
    trace = kit.check_ticks(environment)
    kit.check_again(environment, trace)
    _check_playable(kit.spec, environment)
    _check_close(kit.spec, environment)
    kit.check_twin(trace)
    kit.check_alone(trace)
    kit.check_reset_in_place()
    kit.check_scenarios()
    kit.check_illegal_action()
    if kit.spec.symmetric:
        kit.check_symmetric(trace)
    if _global_randomness() != before:
        kit.fail("it changed Python's or numpy's global random state; use only the seeds given to reset")
    if isinstance(make, Component):
        kit.check_other_process(trace, make, options or {})


@frozen(kw_only=True)
class _Kit:
    """The checks that play more than one rollout and compare them."""

    make: Make
    spec: EnvironmentSpec
    seed: int
    steps: int
    max_idle_ticks: int
    choose: Chooser = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "choose", Chooser(spec=self.spec))

    def fail(self, problem: str, **where: object) -> NoReturn:
        fail(self.spec, problem, **where)

    def play(
        self,
        environment: Environment,
        lines: tuple[int, ...] = _LINES,
        *,
        choose: Chooser | None = None,
        watch: Callable[[Tick, np.ndarray | None], None] | None = None,
    ) -> Rollout:
        """Return a play with the kit's seed and, unless others are given, its chooser and no watch."""
        chosen = self.choose if choose is None else choose
        return Rollout(environment=environment, seed=self.seed, lines=lines, choose=chosen, watch=watch)

    def compare(
        self, one: list[Picture], other: list[Picture], problem: str, *, pairs: tuple[tuple[int, int], ...]
    ) -> None:
        """Fail with the problem where two rollouts differ first."""
        for tick, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            self._require_equal(difference(mine, theirs, pairs), problem, tick=tick)

    def _require_equal(self, found: Difference | None, problem: str, *, tick: int) -> None:
        if found is not None:
            self.fail(f"{problem}: {found.what} differs", match=found.match, tick=tick)

    def check_ticks(self, environment: Environment) -> list[Picture]:
        """Check every tick of a rollout and return it."""
        watch = Watch(spec=self.spec, num_matches=len(_LINES), max_idle_ticks=self.max_idle_ticks)
        trace = self.play(environment, watch=watch).pictures(self.steps)
        watch.finish()
        return trace

    def check_again(self, environment: Environment, trace: list[Picture]) -> None:
        """Check that nothing of earlier matches is left after a reset of all matches."""
        again = self.play(environment).pictures(self.steps)
        self.compare(trace, again, "the same seeds and actions do not give the same match again", pairs=_same(_LINES))

    def check_twin(self, trace: list[Picture]) -> None:
        """Check that seeds and the actions of acting seats are all that matters, and that actions are only read."""
        with _other_global_randomness():
            twin = self.make(len(_LINES))
            play = self.play(twin, choose=Chooser(spec=self.spec, idle_filler=True))
            again = [picture(play.tick)]
            for tick in range(self.steps):
                self._advance_guarded(play, tick)
                again.append(picture(play.tick))
                play.renew()
            twin.close()
        problem = "a match depends on more than its seed and the actions of acting seats"
        self.compare(trace, again, problem, pairs=_same(_LINES))

    def _advance_guarded(self, play: Rollout, tick: int) -> None:
        actions = play.actions()
        given = {role: array.copy() for role, array in actions.items()}
        play.advance(actions)
        seen = picture(play.tick)
        for role, array in actions.items():
            if not np.array_equal(array, given[role]):
                self.fail("step wrote into the action arrays, which belong to the caller", role=role, tick=tick)
            np.add(array, 1, out=array)  # what a caller may do next
        found = difference(seen, picture(play.tick), _same(_LINES))
        problem = "the tick shows what the caller writes into the action arrays next; copy what is kept"
        self._require_equal(found, problem, tick=tick)

    def check_alone(self, trace: list[Picture]) -> None:
        """Check that a match is the same whether it is played alone or in a batch."""
        for match, line in enumerate(_LINES[1:], start=1):
            single = self.make(1)
            alone = self.play(single, (line,)).pictures(self.steps)
            single.close()
            self.compare(trace, alone, "a match played alone differs from the same in a batch", pairs=((match, 0),))

    def check_reset_in_place(self) -> None:
        """Check that resetting a match, mostly in mid-match, leaves the others alone and starts the right match."""
        environment, fresh = self.make(len(_LINES)), self.make(1)
        play = self.play(environment)
        for tick in range(1, min(10, self.steps + 1)):
            play.advance()
            match = tick % len(_LINES)
            before = picture(play.tick)
            play.restart(np.array([match]))
            after = picture(play.tick)
            others = tuple((other, other) for other in range(len(_LINES)) if other != match)
            found = difference(before, after, others)
            self._require_equal(found, "reset changed a match it was not asked for", tick=tick)
            start = picture(fresh.reset(play.seeds()[match : match + 1]))
            found = difference(after, start, ((match, 0),))
            self._require_equal(found, "reset left something of the old match", tick=tick)
        environment.close()
        fresh.close()

    def check_scenarios(self) -> None:
        """Check that the scenarios offered can be played, "default" is the default, and what is unknown is refused."""
        environment = self.make(len(_LINES))
        seeds = np.array([match_seed(self.seed, line, 0) for line in _LINES])
        plain = picture(environment.reset(seeds))
        named = picture(environment.reset(seeds, scenarios=[Scenario()] * len(_LINES)))
        found = difference(plain, named, _same(_LINES))
        self._require_equal(found, "scenario 'default' is not what scenarios=None starts", tick=0)
        for name in self.spec.scenarios:
            self._check_scenario(environment, seeds, name)
        for unknown in (Scenario(name="no-such-scenario"), Scenario(parameters={"no-such-parameter": 1.0})):
            self._check_refused(environment, seeds, unknown)
        environment.close()

    def _check_refused(self, environment: Environment, seeds: np.ndarray, unknown: Scenario) -> None:
        try:
            environment.reset(seeds, scenarios=[unknown] * len(_LINES))
        except ContractError:
            return
        what = "parameter 'no-such-parameter' of the" if unknown.parameters else "unknown"
        self.fail(f"reset accepted the {what} scenario {unknown.name!r}; expected ContractError")

    def _check_scenario(self, environment: Environment, seeds: np.ndarray, name: str) -> None:
        watch = Watch(spec=self.spec, num_matches=len(_LINES), max_idle_ticks=self.max_idle_ticks)
        scenarios = [Scenario(name=name)] * len(_LINES)
        tick = environment.reset(seeds, scenarios=scenarios)
        start = picture(tick)
        watch(tick, np.arange(len(_LINES)))
        for number in range(min(20, self.steps)):
            tick = environment.step(self.choose(tick, list(seeds), [number] * len(_LINES)))
            watch(tick, None)
        again = picture(environment.reset(seeds, scenarios=scenarios))
        found = difference(start, again, _same(_LINES))
        self._require_equal(found, f"scenario {name!r} starts differently with the same seeds", tick=0)

    def check_illegal_action(self) -> None:
        """Check that a masked action is refused with ContractError or affects its own match only.

        Where nothing is masked, a choice out of range must be refused: no rules can be about it.
        """
        played, control = self.make(len(_LINES)), self.make(len(_LINES))
        play, reference = self.play(played), self.play(control)
        masked = [role for role in self.spec.roles if play.tick.roles[role.name].action_mask is not None]
        spoiled = masked or [role for role in self.spec.roles if not is_continuous(role.action_space)]
        for tick in range(self.steps if spoiled else 0):
            actions = play.actions()
            if any(_spoil(role, play.tick.roles[role.name], actions[role.name]) for role in spoiled):
                refused = self._check_after_illegal(play, reference, actions, tick)
                if not (refused or masked):
                    self.fail("a choice out of range was accepted; expected ContractError", match=0, tick=tick)
                break
            for each in (play, reference):
                each.advance()
                each.renew()
        played.close()
        control.close()

    def _check_after_illegal(
        self, play: Rollout, reference: Rollout, actions: dict[str, np.ndarray], tick: int
    ) -> bool:
        """Return whether the action was refused."""
        pairs, refused = tuple((i, i) for i in (1, 2)), False
        try:
            play.advance(actions)
        except ContractError:
            pairs, refused = _same(_LINES), True
            self._advance_after_refusal(play, tick)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the wrong answer
            problem = f"an illegal action raised {type(error).__name__}: {error}"
            self.fail(f"{problem}; expected ContractError or a result of the rules", match=0, tick=tick)
        reference.advance()
        found = difference(picture(play.tick), picture(reference.tick), pairs)
        self._require_equal(found, "an illegal action in match 0 disturbed a match", tick=tick)
        return refused

    def _advance_after_refusal(self, play: Rollout, tick: int) -> None:
        try:
            play.advance()
        except Exception as error:  # noqa: BLE001 - legal actions must not fail
            problem = f"after an illegal action was refused, legal ones raised {type(error).__name__}: {error}"
            self.fail(f"{problem}; a refused step must not advance any match", tick=tick)

    def check_symmetric(self, trace: list[Picture]) -> None:
        """Check that exchanging the teams (each seat goes to the next team) exchanges rewards, outcomes and turns."""
        order = {role.name: _next_team(role.teams, self.spec.num_teams) for role in self.spec.roles}
        environment = self.make(len(_LINES))
        turned = self.play(environment, choose=Chooser(spec=self.spec, seat_names=order)).pictures(self.steps)
        environment.close()
        teams = [(team + 1) % self.spec.num_teams for team in range(self.spec.num_teams)]
        for tick, (one, other) in enumerate(zip(trace, turned, strict=True)):
            expected = {"outcome": one["outcome"][:, teams]}
            for role, seats in order.items():
                expected |= {f"{role} {what}": one[f"{role} {what}"][:, seats] for what in ("acting", "reward")}
            found = difference(expected, {what: other[what] for what in expected}, _same(_LINES))
            self._require_equal(found, "symmetric is declared, but with the seats exchanged", tick=tick)

    def check_other_process(self, trace: list[Picture], component: Component, options: Mapping[str, Any]) -> None:
        """Check that a new interpreter, with other hash seeds, plays the same matches."""
        there = digests_elsewhere(component, options, seed=self.seed, steps=self.steps, lines=_LINES)
        here = [{what: digest(array) for what, array in seen.items()} for seen in trace]
        for tick, (mine, theirs) in enumerate(zip(here, there, strict=True)):
            for what in sorted(mine.keys() | theirs.keys()):
                if mine.get(what) != theirs.get(what):
                    self.fail(f"the same seeds give another match in another process: {what} differs", tick=tick)


def _same(lines: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Pair each match index with itself."""
    return tuple((i, i) for i in range(len(lines)))


def _next_team(teams: tuple[int, ...], num_teams: int) -> list[int]:
    """Return for each seat the seat with the same rank in the next team."""
    members = [[seat for seat, team in enumerate(teams) if team == number] for number in range(num_teams)]
    return [members[(team + 1) % num_teams][members[team].index(seat)] for seat, team in enumerate(teams)]


def _spoil(role: Role, seen: RoleTick, actions: np.ndarray) -> bool:
    """Make one action in match 0 illegal, by the mask or else by its range, and return whether anybody's could be."""
    first = 0
    for label, size in enumerate(label_sizes(role.action_space)):
        for seat in np.flatnonzero(seen.acting[0]):
            masked = [size] if seen.action_mask is None else np.flatnonzero(~seen.action_mask[0, seat, first:][:size])
            if len(masked):
                actions[0, seat, label] = masked[0]
                return True
        first += size
    return False


def _check_playable(spec: EnvironmentSpec, environment: Environment) -> None:
    """Check an environment that people can play: text for every match, and names of actions that can be typed."""
    if not isinstance(environment, Playable):
        return
    for match in range(len(_LINES)):
        if not isinstance(environment.render(match), str):
            fail(spec, "render did not return a str", match=match)
    for role in spec.roles:
        sizes = label_sizes(role.action_space)
        for action in ([label % size for size in sizes] for label in range(max(sizes, default=0))):
            text = environment.action_name(role.name, np.array(action))
            if environment.parse_action(role.name, text).tolist() != action:
                fail(spec, f"parse_action does not read {text!r}, the name of action {action}", role=role.name)
        try:
            environment.parse_action(role.name, "\x00 not an action")
        except ValueError:
            continue
        fail(spec, "parse_action accepted a text that is no action; expected ValueError", role=role.name)


def _check_close(spec: EnvironmentSpec, environment: Environment) -> None:
    """Check that closing twice is harmless."""
    environment.close()
    try:
        environment.close()
    except Exception as error:  # noqa: BLE001 - any failure breaks the contract
        fail(spec, f"closing twice raised {type(error).__name__}: {error}")


def _global_randomness() -> tuple[object, ...]:
    """Return the state of the generators that code without a seed would use, in comparable form."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - this is what must not change
    return random.getstate(), kind, np.asarray(keys).tobytes(), *rest


@contextmanager
def _other_global_randomness() -> Iterator[None]:
    """Put the global generators into another state for a while."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
