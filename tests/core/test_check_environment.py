"""`check_environment` passes valid environments and reports the fault of broken ones.

The broken environments derive from two valid games: `Clash`, simultaneous, and `Pile`, turn-based.
"""

from __future__ import annotations

import itertools
import os
import random

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from ludus import Component, ContractError, EnvironmentSpec, Role, RoleTick, Scenario, Tick
from ludus.controls import Controls
from ludus.testing import check_environment

F32 = np.float32
STEPS = 30  # enough for several matches at each index
SEEN = {"last": spaces.Box(0, 1, (2, 4), np.int8), "lead": spaces.Box(-50, 50, (1,), F32)}
ROLE = Role(
    name="player",
    observation_space=spaces.Dict(SEEN),
    action_space=spaces.MultiDiscrete([3, 2]),
    teams=(0, 1),
    privileged_space=spaces.Dict({"limit": spaces.Box(0, 9, (1,), np.int64)}),
)
SPEC = EnvironmentSpec(
    name="clash",
    roles=(ROLE,),
    turn="simultaneous",
    max_ticks=7,
    scenarios=("head-start",),
    zero_sum=True,
    constant_sum=True,
    symmetric=True,
    reward_range=(-3, 3),
)


class Clash:
    """Rock, paper, scissors with stakes; a player must not repeat a choice. The seed sets the time limit."""

    spec = SPEC
    size = 2

    def __init__(self, num_matches: int) -> None:
        self.num_matches = num_matches
        self.seeds = np.zeros(num_matches, np.uint64)
        self.ticks = np.zeros(num_matches, int)
        self.lead = np.zeros(num_matches, int)  # of seat 0
        self.last = np.full((num_matches, 2), 3)
        self.running = np.zeros(num_matches, bool)
        self.won = np.zeros((num_matches, 2), F32)  # this tick's reward
        self.base = np.zeros((num_matches, 2), F32)
        self.flags = np.zeros((2, num_matches), bool)

    def reset(self, seeds, *, indices=None, scenarios=None):
        indices = np.arange(self.num_matches) if indices is None else indices
        for array in (self.ticks, self.lead, self.won, self.base):
            array[indices] = 0
        self.flags[:, indices] = False
        self.running[indices], self.last[indices], self.seeds[indices] = True, 3, seeds
        for index, seed, scenario in zip(indices, seeds, scenarios or [Scenario()] * len(indices), strict=True):
            self.start(index, seed, scenario)
        return self.tick()

    def start(self, index, seed, scenario):
        if scenario.name == "head-start":
            self.lead[index] = int(seed % 3) - 1
        elif scenario != Scenario():
            raise ContractError(f"unknown scenario {scenario}")

    def limit(self):
        return 4 + (self.seeds % np.uint64(4)).astype(int)

    def step(self, actions):
        shown, stakes = actions["player"][:, :, 0], actions["player"][:, :, 1]
        if (self.running[:, None] & (shown == self.last)).any():
            raise ContractError("a choice must not be repeated")
        self.advance(shown, stakes)
        return self.tick()

    def advance(self, shown, stakes):
        result = ((shown[:, 0] - shown[:, 1] + 1) % 3 - 1) * self.running
        sides = np.stack([result, -result], axis=1)
        self.base = sides.astype(F32)
        self.won = (sides * (1 + stakes.sum(axis=1, keepdims=True))).astype(F32)
        self.lead += self.won[:, 0].astype(int)
        self.last[self.running] = shown[self.running]
        self.ticks += self.running
        terminated = self.running & (abs(self.lead) >= 5)
        self.flags = np.stack([terminated, self.running & ~terminated & (self.ticks >= self.limit())])
        self.running &= ~self.flags.any(axis=0)

    def observe(self):
        last = np.eye(4, dtype=np.int8)[np.stack([self.last, self.last[:, ::-1]], axis=1)]
        lead = np.stack([self.lead, -self.lead], axis=1).astype(F32)
        return {"last": last, "lead": lead[:, :, None]}

    def tick(self):
        points = (np.sign(self.lead) + 1) / 2
        mask = np.ones((self.num_matches, 2, 5), bool)
        mask[:, :, :3] = self.last[:, :, None] != np.arange(3)
        player = RoleTick(
            observation=self.observe(),
            acting=np.repeat(self.running[:, None], 2, axis=1),
            action_mask=mask,
            reward=self.won.copy(),
            reward_parts={"clash": self.base.copy(), "stake": self.won - self.base},
            privileged={"limit": np.repeat(self.limit()[:, None, None], 2, axis=1)},
        )
        outcome = np.stack([points, 1 - points], axis=1).astype(F32)
        return Tick(
            roles={"player": player}, terminated=self.flags[0].copy(), truncated=self.flags[1].copy(), outcome=outcome
        )

    def close(self):
        pass


class Pile:
    """Take one to three from a pile; taking the last wins. A playable game with two roles."""

    spec = EnvironmentSpec(
        name="pile",
        roles=tuple(
            Role(name=name, observation_space=spaces.Discrete(20), action_space=spaces.Discrete(3), teams=(team,))
            for team, name in enumerate(("first", "second"))
        ),
        turn="turn-based",
        zero_sum=True,
        perfect_information=True,
    )

    def __init__(self, num_matches: int) -> None:
        self.num_matches = num_matches
        self.pile = np.zeros(num_matches, np.int64)
        self.turn = np.zeros(num_matches, int)
        self.ended = np.zeros(num_matches, bool)

    def reset(self, seeds, *, indices=None, scenarios=None):
        if any(scenario != Scenario() for scenario in scenarios or ()):
            raise ContractError("unknown scenario")
        indices = np.arange(self.num_matches) if indices is None else indices
        self.pile[indices] = 8 + (seeds % np.uint64(9)).astype(int)
        self.turn[indices], self.ended[indices] = 0, False
        return self.tick()

    def step(self, actions):
        running = self.pile > 0
        taken = np.where(self.turn == 0, actions["first"][:, 0, 0], actions["second"][:, 0, 0]) + 1
        self.pile -= np.where(running, np.minimum(taken, self.pile), 0)  # too large a number takes the rest
        self.turn = np.where(running, 1 - self.turn, self.turn)
        self.ended = running & (self.pile == 0)
        return self.tick()

    def tick(self):
        roles = {}
        for seat, name in enumerate(("first", "second")):
            roles[name] = RoleTick(
                observation={"obs": self.pile[:, None].copy()},
                acting=((self.pile > 0) & (self.turn == seat))[:, None],
                action_mask=(self.pile[:, None, None] > np.arange(3)),
                reward=np.where(self.ended, np.where(self.turn == seat, -1, 1), 0).astype(F32)[:, None],
            )
        outcome = np.stack([self.turn == 1, self.turn == 0], axis=1).astype(F32)
        never = np.zeros(self.num_matches, bool)
        return Tick(roles=roles, terminated=self.ended.copy(), truncated=never, outcome=outcome)

    def render(self, match):
        return "|" * self.pile[match]

    def action_name(self, role, action):
        return str(action[0] + 1)

    def parse_action(self, role, text):
        if text not in ("1", "2", "3"):
            raise ValueError("expected 1, 2 or 3")
        return np.array([int(text) - 1])

    def close(self):
        pass


def tampered(change, base=Clash):
    """Return a class whose ticks are edited by `change(tick, environment)`, or replaced by its result."""

    class Tampered(base):
        def tick(self):
            tick = super().tick()
            return change(tick, self) or tick

    return Tampered


def ended(tick):
    """Return the matches that ended on this tick."""
    return tick.terminated | tick.truncated


@pytest.mark.parametrize("valid", [Clash, Pile])
def test_valid_environments_pass(valid):
    """No error is raised."""
    check_environment(valid, steps=STEPS)


def test_games_that_do_not_repeat_pass_if_they_declare_it():
    """Matches are not compared with their repetition; all other checks remain."""

    class Declared(Clash):
        """Draws its time limit from a generator that no seed sets."""

        spec = attrs.evolve(SPEC, repeatable=False)
        rng = np.random.default_rng(0)

        def start(self, index, seed, scenario):
            super().start(index, seed, scenario)
            self.seeds[index] = self.rng.integers(1000)

    class Restarting(Declared):
        """Resets another match too."""

        def reset(self, seeds, *, indices=None, scenarios=None):
            if indices is not None:
                self.last[:] = 3
            return super().reset(seeds, indices=indices, scenarios=scenarios)

    check_environment(Declared, steps=STEPS)
    with pytest.raises(ContractError, match="reset changed another match"):
        check_environment(Restarting, steps=STEPS)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_seeds_pass_too(seed):
    """The result does not depend on the seed of the check."""
    check_environment(Clash, seed=seed, steps=40)


# --- specifications -------------------------------------------------------------------------------------------------


def role(**changes):
    """Return the changes of the specification for a changed role."""
    return {"roles": (attrs.evolve(ROLE, **changes),)}


SPECS = {
    "no roles": ({"roles": ()}, "at least one role"),
    "same name": ({"roles": (ROLE, ROLE)}, "role 'player': two roles have the same name"),
    "team gap": (role(teams=(0, 2)), r"without gaps, got \[0, 2\]"),
    "no seats": (
        {"roles": (ROLE, attrs.evolve(ROLE, name="ghost", teams=()))},
        "role 'ghost': expected at least one seat",
    ),
    "no leaves": (role(observation_space=spaces.Dict({})), "no leaves"),
    "empty leaf": (role(observation_space=spaces.Box(0, 1, (2, 0))), "leaf 'obs' holds no number"),
    "empty privileged": (
        role(privileged_space=spaces.Dict({"all": spaces.Box(0, 1, (0,))})),
        "leaf 'all' holds no number",
    ),
    "text leaf": (role(observation_space=spaces.Text(5)), "'obs' is a Text space"),
    "odd actions": (role(action_space=spaces.Text(5)), "action space Text is not supported"),
    "box matrix": (role(action_space=spaces.Box(0, 1, (2, 2), F32)), r"one-dimensional float32, got float32 \(2, 2\)"),
    "box float64": (role(action_space=spaces.Box(0, 1, (2,), np.float64)), "one-dimensional float32, got float64"),
    "no labels": (role(action_space=spaces.MultiDiscrete(np.zeros(0, int))), "at least one action label"),
    "offset": (role(action_space=spaces.Discrete(3, start=1)), "counted from 0"),
    "plain privileged": (role(privileged_space=spaces.Discrete(2)), "must be a Dict"),
    "privileged observed": (role(privileged_space=spaces.Dict(SEEN)), r"\['last', 'lead'\] are observation leaves too"),
    "turn": ({"turn": "realtime"}, "turn: expected turn-based"),
    "max_ticks": ({"max_ticks": 0}, "max_ticks: expected at least 1"),
    "tick_s": ({"tick_s": 0.0}, "tick_s: expected a positive number"),
    "reward range": ({"reward_range": (1, -1)}, "low ≤ high"),
    "scenario name": ({"scenarios": ("Head Start",)}, "scenario 'Head Start': expected a name"),
    "default listed": ({"scenarios": ("default",)}, "listed twice"),
    "uneven teams": (role(teams=(0, 1, 1)), r"symmetric is declared, but the teams have \[1, 2\] seats"),
}


@pytest.mark.parametrize("case", SPECS)
def test_an_invalid_specification_is_rejected(case):
    """The specification is checked before a match is played."""
    changes, message = SPECS[case]

    class Wrong(Clash):
        spec = attrs.evolve(SPEC, **changes)

        def reset(self, seeds, **more):
            raise AssertionError("no match is played")

    with pytest.raises(ContractError, match=f"environment 'clash'.*{message}"):
        check_environment(Wrong, steps=STEPS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sparse_rewards": True}, "before the end; sparse_rewards is declared, expected 0"),
        (
            {"roles": (attrs.evolve(ROLE, guidance=("stake", "hint")),)},
            r"guidance names \['stake', 'hint'\]; the reward parts are \['clash', 'stake'\]",
        ),
    ],
)
def test_declared_properties_of_rewards_must_hold(changes, message):
    """Exploiters and interfaces rely on them."""

    class Wrong(Clash):
        spec = attrs.evolve(SPEC, **changes)

    with pytest.raises(ContractError, match=message):
        check_environment(Wrong, steps=STEPS)


def test_the_number_of_matches_must_be_the_requested_one():
    """An environment that ignores num_matches is rejected."""
    with pytest.raises(ContractError, match="num_matches is 4, expected 3"):
        check_environment(lambda n: Clash(n + 1))


# --- single ticks ---------------------------------------------------------------------------------------------------


def set_player(**arrays):
    """Return a change that sets fields of the role's tick to the results of functions of it."""

    def change(tick, environment):
        for name, make in arrays.items():
            setattr(tick.roles["player"], name, make(tick.roles["player"]))

    return change


def leaf(name, make):
    """Return a change of one observation leaf."""
    return set_player(observation=lambda p: p.observation | {name: make(p.observation[name])})


def put(array, index, value):
    """Return a copy with one value set."""
    array = array.copy()
    array[index] = value
    return array


def set_tick(**arrays):
    """Return a change of fields of the tick."""

    def change(tick, environment):
        for name, make in arrays.items():
            setattr(tick, name, make(getattr(tick, name)))

    return change


def share_memory(tick, environment):
    """Make a privileged leaf and an observation leaf two views of one array."""
    both = np.zeros((environment.num_matches, 2, 1), np.int64)
    tick.roles["player"].privileged = {"limit": both}
    tick.roles["player"].observation |= {"lead": both.view(F32)[:, :, :1]}


def sometimes(change, every=3):
    """Return a change that is made on every n-th tick."""
    counter = itertools.count(1)
    return lambda tick, environment: change(tick, environment) if next(counter) % every == 0 else None


TICKS = {
    "no tick": (lambda tick, _: [1], "expected a Tick, got list"),
    "roles": (lambda tick, _: attrs.evolve(tick, roles={}), r"expected the roles \['player'\] in this order, got \[\]"),
    "terminated shape": (
        set_tick(terminated=lambda a: a[:, None]),
        r"terminated: expected bool \(3,\), got bool \(3, 1\)",
    ),
    "truncated dtype": (set_tick(truncated=lambda a: a.astype(int)), "truncated: expected bool"),
    "outcome teams": (set_tick(outcome=lambda a: a[:, :1]), r"outcome: expected float32 \(3, 2\)"),
    "acting list": (set_player(acting=lambda p: p.acting.tolist()), "acting: expected bool .*, got list"),
    "reward dtype": (set_player(reward=lambda p: p.reward.astype(float)), "reward: expected float32 .*, got float64"),
    "part shape": (set_player(reward_parts=lambda p: {"a": p.reward[:, :1]}), "reward part 'a': expected float32"),
    "mask width": (
        set_player(action_mask=lambda p: p.action_mask[:, :, :4]),
        r"action_mask: expected bool \(3, 2, 5\)",
    ),
    "leaf missing": (
        set_player(observation=lambda p: {"last": p.observation["last"]}),
        "expected the observation leaves",
    ),
    "leaf dtype": (leaf("last", lambda a: a.astype(float)), r"observation leaf 'last': expected int8 \(3, 2, 2, 4\)"),
    "leaf bounds": (
        leaf("last", lambda a: a * 2),
        "seat 0, match 0, tick 0: observation leaf 'last' is not in Box.*0 to 2",
    ),
    "leaf nan": (leaf("lead", lambda a: put(a, (1, 1), np.nan)), "seat 1, match 1, tick 0: .*'lead' is not finite"),
    "privileged missing": (
        set_player(privileged=lambda p: {}),
        r"expected the privileged leaves \['limit'\], got \[\]",
    ),
    "privileged bounds": (
        set_player(privileged=lambda p: {"limit": p.privileged["limit"] + 9}),
        "privileged leaf 'limit' is",
    ),
    "privileged shared": (share_memory, "privileged leaf 'limit' shares memory with observation leaf 'lead'"),
    "masked": (
        set_player(action_mask=lambda p: put(p.action_mask, (2, 1, [3, 4]), False)),
        "match 2, .*choice of label 1",
    ),
    "mask sometimes": (sometimes(set_player(action_mask=lambda p: None)), "action_mask is None on some ticks only"),
    "reward nan": (
        set_player(reward=lambda p: p.reward * np.nan),
        "reward: nan|reward nan; expected a finite number|0 right",
    ),
    "reward range": (
        set_player(reward=lambda p: p.reward * 2, reward_parts=lambda p: {}),
        r"reward -?[46]; expected a finite number in \[-3, 3\]",
    ),
    "parts change": (sometimes(set_player(reward_parts=lambda p: {})), r"the reward parts were \['clash', 'stake'\]"),
    "parts sum": (
        set_player(reward_parts=lambda p: {"all": p.reward + 1}),
        "the reward parts sum to 1, the reward is 0",
    ),
    "statistics unknown": (
        set_player(statistics=lambda p: {"hits": p.reward}),
        r"expected the statistics \(\), got \('hits',\)",
    ),
    "zero sum": (
        set_player(reward=lambda p: abs(p.reward), reward_parts=lambda p: {}),
        "zero_sum is declared, but the rewards sum to",
    ),
    "outcome range": (set_tick(outcome=lambda a: a * 2), r"outcome .*2.0.*: expected values in \[0, 1\]"),
    "outcome sum": (set_tick(outcome=lambda a: a / 2), "constant_sum is declared, expected a sum of 1"),
    "no seat acts": (set_player(acting=lambda p: p.acting & False), "no seat acts in a running simultaneous match"),
    "reset reward": (set_player(reward=lambda p: p.reward + 1), "the reward is not 0 right after a reset"),
    "reset flags": (set_tick(truncated=lambda a: a | True), "terminated or truncated is set right after a reset"),
}


@pytest.mark.parametrize("case", TICKS)
def test_an_invalid_tick_is_reported(case):
    """Names, shapes, dtypes, bounds, masks, rewards and outcomes of each tick are checked."""
    change, message = TICKS[case]
    with pytest.raises(ContractError, match=f"environment 'clash'.*({message})"):
        check_environment(tampered(change), steps=STEPS)


def test_real_actions_are_not_masked():
    """A mask of width 0 is not None."""

    class Steering(tampered(set_player(action_mask=lambda p: p.action_mask[..., :0]))):
        spec = attrs.evolve(SPEC, **role(action_space=spaces.Box(0, 1, (2,), F32)))

    with pytest.raises(ContractError, match="role 'player', tick 0: action_mask of real actions; expected None"):
        check_environment(Steering, steps=STEPS)


def test_a_message_names_role_seat_match_and_tick():
    """The location comes before the problem."""
    late = sometimes(leaf("lead", lambda a: put(a, (2, 1), 99)), every=4)
    with pytest.raises(
        ContractError, match=r"^environment 'clash', role 'player', seat 1, match 2, tick 3: observation"
    ):
        check_environment(tampered(late), steps=STEPS)


# --- matches --------------------------------------------------------------------------------------------------------


def idle_rows_act(tick, environment):
    """Let all seats act on every tick."""
    tick.roles["player"].acting |= True


def idle_matches_earn(tick, environment):
    """Give rewards after the end."""
    idle = ~environment.running & ~ended(tick)
    tick.roles["player"].reward[idle] = [1, -1]
    tick.roles["player"].reward_parts["clash"][idle] = [1, -1]


def idle_rows_end_again(tick, environment):
    """Keep the flag set after the end."""
    tick.truncated = ~environment.running


def show_the_start(tick, environment):
    """Show the first observation of a match on the tick that ends one."""
    player = tick.roles["player"]
    player.observation["last"][ended(tick)] = np.eye(4, dtype=np.int8)[[3, 3]]
    player.observation["lead"][ended(tick)] = 0


def show_zeros(tick, environment):
    """Clear the observation on the tick that ends a match."""
    for array in tick.roles["player"].observation.values():
        array[ended(tick)] = 0


def bad_final_observation(tick, environment):
    """Leave the space on the tick that ends a match."""
    tick.roles["player"].observation["lead"][ended(tick)] = 99


MATCHES = {
    "idle acts": (idle_rows_act, "a seat acts although the match has ended"),
    "idle earns": (idle_matches_earn, "an idle match got a reward"),
    "ends again": (idle_rows_end_again, "a match that had ended ended again"),
    "shows the start": (show_the_start, "shows the start of a match or zeros"),
    "shows zeros": (show_zeros, "shows the start of a match or zeros"),
    "final bounds": (bad_final_observation, "observation leaf 'lead' is not in Box"),
}


@pytest.mark.parametrize("case", MATCHES)
def test_a_wrong_end_of_a_match_is_reported(case):
    """Ended matches show the final observation and are idle until they are reset."""
    change, message = MATCHES[case]
    with pytest.raises(ContractError, match=message):
        check_environment(tampered(change), steps=STEPS)


def test_a_match_longer_than_max_ticks_is_reported():
    """max_ticks is part of the contract."""

    class Endless(Clash):
        spec = attrs.evolve(SPEC, max_ticks=5)

    with pytest.raises(ContractError, match="the match goes on after max_ticks = 5 ticks"):
        check_environment(Endless, steps=STEPS)


@pytest.mark.parametrize(("others", "count"), [(True, 2), (False, 0)])
def test_exactly_one_seat_acts_in_a_turn_based_match(others, count):
    """Two acting seats and no acting seat are reported."""

    def change(tick, environment):
        tick.roles["second"].acting[:] = others & (environment.pile > 0)[:, None]
        tick.roles["first"].acting &= others

    with pytest.raises(
        ContractError, match=f"environment 'pile', match 0, tick [01]: {count} seats act in a turn-based"
    ):
        check_environment(tampered(change, Pile), steps=STEPS)


class Pausing(Clash):
    """A match in which no seat acts on three of four ticks."""

    spec = attrs.evolve(SPEC, turn="asynchronous", max_ticks=None)

    def __init__(self, num_matches):
        super().__init__(num_matches)
        self.age = np.zeros(num_matches, int)

    def start(self, index, seed, scenario):
        super().start(index, seed, scenario)
        self.age[index] = 0

    def step(self, actions):
        awake, running = self.age % 4 == 0, self.running.copy()
        self.running &= awake
        try:
            super().step(actions)
        finally:
            self.running |= running & ~awake
        self.age += 1
        return self.tick()

    def tick(self):
        tick = super().tick()
        tick.roles["player"].acting &= (self.age % 4 == 0)[:, None]
        return tick


def test_pauses_of_an_asynchronous_match_are_limited():
    """Three ticks without a decision are reported if at most two are allowed."""
    check_environment(Pausing, steps=STEPS)
    with pytest.raises(ContractError, match="no seat has acted for 3 ticks of a running match"):
        check_environment(Pausing, max_idle_ticks=2, steps=STEPS)


# --- several rollouts -----------------------------------------------------------------------------------------------


class Remembers(Clash):
    """The first match at an index is longer than the later ones with the same seed."""

    def __init__(self, num_matches):
        super().__init__(num_matches)
        self.resets = 0

    def reset(self, seeds, *, indices=None, scenarios=None):
        self.resets += indices is None
        return super().reset(seeds, indices=indices, scenarios=scenarios)

    def limit(self):
        return super().limit() - (self.resets > 1)


class Numbered(Clash):
    """The second environment of this process has another time limit."""

    made = 0

    def __init__(self, num_matches):
        super().__init__(num_matches)
        Numbered.made += 1
        self.number = Numbered.made

    def limit(self):
        return super().limit() - (self.number == 2)


class Unseeded(Clash):
    """The time limit comes from Python's global generator."""

    def start(self, index, seed, scenario):
        super().start(index, random.getrandbits(60), scenario)
        self.seeds[index] = random.getrandbits(60)


class ReadsIdleActions(Clash):
    """Uses the actions of idle seats."""

    def step(self, actions):
        tick = super().step(actions)
        self.lead += actions["player"][:, 0, 0] * ~self.running * (self.ticks > 0)
        return tick


class WritesActions(Clash):
    """Clips the action array in place."""

    def step(self, actions):
        tick = super().step(actions)
        np.minimum(actions["player"], 0, out=actions["player"])
        return tick


class ShowsActions(Clash):
    """Shows the action array of the caller instead of a copy."""

    def step(self, actions):
        tick = super().step(actions)
        tick.roles["player"].privileged["limit"] = actions["player"][:, :, :1]
        return tick


class KeepsActions(Clash):
    """Reads the action array of the previous tick."""

    def step(self, actions):
        kept = getattr(self, "kept", actions)
        self.kept = actions
        tick = super().step(actions)
        self.lead[self.running] += (kept["player"][:, 0, 0] == 3)[self.running]
        return tick


class BatchDependent(Clash):
    """The time limit depends on the number of matches."""

    def limit(self):
        return super().limit() - (self.num_matches == 1)


class ResetsAll(Clash):
    """Resetting one match clears the lead of all."""

    def reset(self, seeds, *, indices=None, scenarios=None):
        if indices is not None and self.running.all():
            self.last[:] = 3
        return super().reset(seeds, indices=indices, scenarios=scenarios)


class KeepsLead(Clash):
    """A match that is reset before its end keeps state of the old one."""

    def reset(self, seeds, *, indices=None, scenarios=None):
        kept = self.last.copy()
        dropped = self.running.copy()
        super().reset(seeds, indices=indices, scenarios=scenarios)
        if indices is not None:
            self.last[indices] = np.where(dropped[indices, None], kept[indices], 3)
        return self.tick()


class OtherDefault(Clash):
    """The scenario "default" differs from a reset without scenarios."""

    def reset(self, seeds, *, indices=None, scenarios=None):
        super().reset(seeds, indices=indices, scenarios=scenarios)
        self.lead += scenarios is not None
        return self.tick()


class AnyScenario(Clash):
    """Accepts every scenario as the default."""

    def start(self, index, seed, scenario):
        pass


class AnyParameter(Clash):
    """Ignores the parameters of a scenario."""

    def start(self, index, seed, scenario):
        super().start(index, seed, Scenario(name=scenario.name))


class RandomScenario(Clash):
    """The scenario starts differently each time."""

    resets = 0

    def start(self, index, seed, scenario):
        super().start(index, seed, scenario)
        self.resets += 1
        self.lead[index] += self.resets % 40 if scenario.name == "head-start" else 0


class CrashesOnIllegal(Clash):
    """An illegal action is an unexpected error."""

    def step(self, actions):
        if (self.running[:, None] & (actions["player"][:, :, 0] == self.last)).any():
            raise IndexError("list index out of range")
        return super().step(actions)


class AdvancesBeforeRefusing(Clash):
    """Rejects an illegal action after the step."""

    def step(self, actions):
        illegal = (self.running[:, None] & (actions["player"][:, :, 0] == self.last)).any()
        self.advance(actions["player"][:, :, 0], actions["player"][:, :, 1])
        if illegal:
            raise ContractError("a choice must not be repeated")
        return self.tick()


class AdvancesOthersBeforeRefusing(Clash):
    """Rejects an illegal action after a change of the other matches."""

    def step(self, actions):
        illegal = self.running[:, None] & (actions["player"][:, :, 0] == self.last)
        if illegal.any():
            self.lead[1:] += 1
            raise ContractError("a choice must not be repeated")
        return super().step(actions)


class PunishesAll(Clash):
    """An illegal action in one match ends all matches."""

    def step(self, actions):
        illegal = self.running[:, None] & (actions["player"][:, :, 0] == self.last)
        self.advance(actions["player"][:, :, 0], actions["player"][:, :, 1])
        if illegal.any():
            self.flags[1] |= self.running
            self.running[:] = False
        return self.tick()


class TakesAnything(Pile):
    """Masks nothing and accepts choices out of range."""

    def tick(self):
        tick = super().tick()
        for observed in tick.roles.values():
            observed.action_mask = None
        return tick


class FavoursSeatOne(Clash):
    """A draw is a point for seat 1."""

    def advance(self, shown, stakes):
        super().advance(shown, stakes)
        draw = self.running & (shown[:, 0] == shown[:, 1])
        self.won[draw] = self.base[draw] = [-1, 1]


class SeedsNumpy(Clash):
    """Draws from NumPy's global generator, without an effect on the match."""

    def step(self, actions):
        np.random.rand()  # noqa: NPY002 - the fault
        return super().step(actions)


class ClosesOnce(Clash):
    """Fails when it is closed twice."""

    closed = False

    def close(self):
        if self.closed:
            raise OSError("closed already")
        self.closed = True


class DrawsNothing(Pile):
    """Returns no text."""

    def render(self, match):
        return None


class DrawsBadly(Pile):
    """Returns an image of floats."""

    def render_frame(self, match):
        return np.zeros((2, 2, 3))


class CountsFromZero(Pile):
    """Names actions differently than it parses them."""

    def action_name(self, role, action):
        return str((action[0] + 1) % 3 + 1)


class ReadsAnything(Pile):
    """Parses every text as an action."""

    def parse_action(self, role, text):
        return np.array([int(text) - 1 if text.isdigit() else 0])


class NamesKeysBadly(Pile):
    """Declares a key whose action does not exist."""

    def controls(self, role, seat):
        return Controls(keys={"a": "1", "b": "fly"})


class PointsBadly(Pile):
    """Returns actions that do not exist for some places."""

    def controls(self, role, seat):
        return Controls(keys={}, point=lambda match, x, y: "1" if x < 1 else "fly")


ROLLOUTS = {
    Remembers: "the same seeds and actions do not give the same match again: .* differs",
    Numbered: "a match depends on more than its seed and the actions of acting seats: .* differs",
    Unseeded: "do not give the same match again: .* differs",
    ReadsIdleActions: "a match depends on more than its seed and the actions of acting seats: .* differs",
    WritesActions: "step wrote into the action arrays",
    ShowsActions: "the tick changes when the caller writes into the action arrays.*privileged limit differs",
    KeepsActions: "a match depends on more than its seed and the actions of acting seats: .* differs",
    BatchDependent: "a match played alone differs from the same match in a batch: .* differs",
    ResetsAll: "match [02], .* reset changed another match: player .* differs",
    KeepsLead: "match 1, .* reset kept state of the old match: player .* differs",
    OtherDefault: "scenario 'default' differs from scenarios=None",
    AnyScenario: "accepted the unknown scenario 'no-such-scenario'; expected ContractError",
    AnyParameter: "accepted the parameter 'no-such-parameter' of the scenario 'default'; expected ContractError",
    RandomScenario: "scenario 'head-start' starts differently with the same seeds",
    CrashesOnIllegal: "an illegal action raised IndexError: list index out of range; expected ContractError",
    AdvancesBeforeRefusing: "a rejected step must not advance any match",
    AdvancesOthersBeforeRefusing: "match 1, .* an illegal action in match 0 disturbed a match",
    PunishesAll: "match 1, .* an illegal action in match 0 disturbed a match",
    TakesAnything: "match 0, tick 0: a choice out of range was accepted; expected ContractError",
    FavoursSeatOne: "symmetric is declared, but with the seats exchanged: .* differs",
    SeedsNumpy: "changed the global random state of Python or NumPy",
    ClosesOnce: "closing twice raised OSError: closed already",
    DrawsNothing: "render did not return a str",
    DrawsBadly: r"match 0.* render_frame returned an array \[2, 2, 3\] float64; expected \[H, W, 3\] uint8",
    CountsFromZero: "parse_action does not parse '2', the name of action",
    NamesKeysBadly: "controls name 'fly', which parse_action does not parse",
    PointsBadly: "controls name 'fly', which parse_action does not parse",
    ReadsAnything: "parse_action accepted a text that is no action",
}


@pytest.mark.parametrize("broken", ROLLOUTS, ids=lambda broken: broken.__name__)
def test_faults_of_rollouts_are_reported(broken):
    """Faults that appear only when rollouts are compared."""
    with pytest.raises(ContractError, match=ROLLOUTS[broken]):
        check_environment(broken, steps=STEPS)


def test_the_global_generators_are_not_changed():
    """The check draws no global random numbers, also if it fails."""
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    check_environment(Clash, steps=10)
    with pytest.raises(ContractError):
        check_environment(WritesActions, steps=10)
    assert before == (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002


# --- other processes ------------------------------------------------------------------------------------------------

MODULE = """
import importlib.util, os
from attrs import frozen
spec = importlib.util.spec_from_file_location("kit_cases", {path!r})
cases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)

@frozen
class Config:
    bonus: int = 0

class Hashed(cases.Clash):
    def observe(self):
        observed = super().observe()
        return observed | {{"lead": observed["lead"] + cases.F32(hash("ludus") % 2**20 / 2**20)}}

def valid(config, *, num_matches):
    assert config.bonus == 3
    return cases.Clash(num_matches)

def hashed(config, *, num_matches):
    return Hashed(num_matches)

def fragile(config, *, num_matches):
    if os.getpid() == {home}:
        return cases.Clash(num_matches)
    raise RuntimeError("failed on purpose")
"""


@pytest.fixture
def component(tmp_path, monkeypatch):
    """Return a function that makes a component of a factory in an importable module."""
    name = f"kit_games_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE.format(path=__file__, home=os.getpid()))
    monkeypatch.syspath_prepend(tmp_path)
    return lambda factory: Component(name=factory, factory=f"{name}:{factory}", config=f"{name}:Config")


def test_a_component_is_played_in_another_process(component):
    """A valid component with options passes."""
    check_environment(component("valid"), options={"bonus": 3}, steps=20)


def test_a_game_that_depends_on_hash_seeds_is_reported(component):
    """Python's string hashes differ between processes."""
    with pytest.raises(ContractError, match=r"the same seeds give another match in another process: .* differs"):
        check_environment(component("hashed"), steps=20)


def test_an_environment_that_fails_in_another_process_is_reported(component):
    """The message quotes the last line of the error output."""
    with pytest.raises(ContractError, match="'fragile' failed in another process: RuntimeError: failed on purpose"):
        check_environment(component("fragile"), steps=5)
