"""Fixtures of the core tests: a scripted environment, actors that log their calls, a learner and small leagues."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from functools import partial

import numpy as np
import pytest
from attrs import define, field, frozen
from gymnasium import spaces
from ludus._learning.learner import Learner
from ludus._learning.state import LearnerOptions
from ludus._messaging.messages import Credit, Segments, Welcome
from ludus._sampling.segment_layout import SegmentLayout
from ludus.algorithm import UpdateResult
from ludus.environment import EnvironmentSpec, Role, RoleTick, Tick
from ludus.errors import ContractError
from ludus.launcher import COORDINATOR
from ludus.option import option
from ludus.records import Fixture
from ludus.recovery import ResumePoint
from ludus.segment import Field
from ludus.testing import league_runner
from ludus_dummy.config import GradientConfig
from tomli_w import dumps as write_toml


@define(eq=False, slots=False)
class ScriptedGame:
    """An environment in which functions determine acting seats, rewards and lengths of matches.

    Args:
        roles: Teams of the seats by role.
        num_matches: B.
        acting: Tick of the match → seats that act, as (role, index).
        length: Match index → number of ticks of a match.
        reward: Tick, role, index → reward of the seat on the step that leads to that tick.
        outcome: Match index → outcome of the first team.
        truncated: Whether matches are truncated instead of terminated.
        masked: Tick on which acting seats have no legal action.
        shown: Function of role, observation ``[B, seats, 2]`` and ticks ``[B]`` that may change the observation.
        broken: Method ("reset" or "step") that raises, and the number of ticks before that.
        ends: (role, index) → tick on which that seat ends, and "terminated" or "truncated"; then it does not act.
        statistics: Role → name → function of the match index and the seat that returns the statistic.
    """

    roles: dict
    num_matches: int = 2
    acting: object = None
    length: object = lambda row: 3
    reward: object = lambda tick, role, index: 0.0
    outcome: object = lambda row: 1.0
    truncated: bool = False
    masked: object = None
    shown: object = lambda role, observation, clock: None
    broken: tuple = ("", 0)
    ends: dict = field(factory=dict)
    statistics: dict = field(factory=dict)
    resets: list = field(init=False, factory=list)
    received: list = field(init=False, factory=list)  # actions per step
    closed: bool = field(init=False, default=False)

    def __attrs_post_init__(self):
        self.spec = EnvironmentSpec(
            name="scripted",
            roles=tuple(
                Role(
                    name=name,
                    observation_space=spaces.Box(0, 1e9, (2,), np.float32),
                    action_space=spaces.Discrete(4),
                    teams=teams,
                    seat_endings=bool(self.ends),
                    statistics=tuple(self.statistics.get(name, ())),
                )
                for name, teams in self.roles.items()
            ),
            turn="asynchronous",
        )
        self.clock = np.full(self.num_matches, -1)  # -1: idle
        self.seeds = np.zeros(self.num_matches, np.uint64)
        self._steps = 0

    def reset(self, seeds, *, indices=None, scenarios=None):
        """Start matches and log them."""
        if self.broken[0] == "reset":
            raise ZeroDivisionError("no board")
        indices = np.arange(self.num_matches) if indices is None else indices
        self.clock[indices], self.seeds[indices] = 0, seeds
        names = [None if scenarios is None else scenario.name for scenario in scenarios or indices]
        self.resets += list(zip(indices.tolist(), seeds.tolist(), names, strict=True))
        ended = np.zeros(self.num_matches, bool)
        return self._tick(ended, stepped=False)

    def step(self, actions):
        """Advance running matches."""
        self._steps += 1
        if self.broken[0] == "step" and self._steps > self.broken[1]:
            raise ZeroDivisionError("no board")
        self.received.append({role: action.copy() for role, action in actions.items()})
        running = self.clock >= 0
        self.clock[running] += 1
        ended = running & (self.clock >= [self.length(row) for row in range(self.num_matches)])
        tick = self._tick(ended, stepped=True)
        self.clock[ended] = -1
        return tick

    def _tick(self, ended, *, stepped):
        roles = {}
        for name, teams in self.roles.items():
            shape = (self.num_matches, len(teams))
            acting, reward = np.zeros(shape, bool), np.zeros(shape, np.float32)
            for row in np.flatnonzero(self.clock >= 0):
                now = int(self.clock[row])
                for seat in range(len(teams)):
                    acting[row, seat] = not ended[row] and (self.acting is None or (name, seat) in self.acting(now))
                    acting[row, seat] &= now < self.ends.get((name, seat), (now + 1, ""))[0]
                    reward[row, seat] = self.reward(now, name, seat) if stepped else 0.0
            observation = np.zeros((*shape, 2), np.float32)
            observation[..., 0] = (self.seeds % np.uint64(1000))[:, None]
            observation[..., 1] = self.clock[:, None]
            self.shown(name, observation, self.clock)
            mask = None
            if self.masked is not None:
                mask = np.ones((*shape, 4), bool)
                mask[self.clock == self.masked] = False
            roles[name] = RoleTick(observation={"obs": observation}, acting=acting, action_mask=mask, reward=reward)
            roles[name].statistics = {
                statistic: np.fromfunction(np.vectorize(value, otypes=[np.float32]), shape, dtype=int)
                for statistic, value in self.statistics.get(name, {}).items()
            }
            if self.ends:
                roles[name].terminated, roles[name].truncated = self._flags(name, shape, stepped=stepped)
        teams = 1 + max(team for all_teams in self.roles.values() for team in all_teams)
        outcome = np.zeros((self.num_matches, teams), np.float32)
        outcome[:, 0] = [self.outcome(row) for row in range(self.num_matches)]
        none = np.zeros_like(ended)
        return Tick(
            roles=roles,
            terminated=none if self.truncated else ended,
            truncated=ended if self.truncated else none,
            outcome=outcome,
        )

    def _flags(self, name, shape, *, stepped):
        flags = {"terminated": np.zeros(shape, bool), "truncated": np.zeros(shape, bool)}
        for (role, seat), (end, how) in self.ends.items():
            if role == name and stepped:
                flags[how][:, seat] = self.clock == end
        return flags.values()

    def close(self):
        """Log the call."""
        self.closed = True


@define(eq=False)
class LoggingActor:
    """An actor that plays its number and logs its calls."""

    number: int = 0
    started: list = field(factory=list)
    acted: list = field(factory=list)  # (match index, seat, tick of the match, reward, elapsed ticks)
    ended: list = field(factory=list)  # (match index, seat, reward, elapsed ticks)
    calls: int = 0

    @staticmethod
    def number_of(seats):
        """Return the numbers of seats within their role."""
        return seats.index % seats.tick.acting.shape[1]

    def start_matches(self, seat_ids):
        """Log the seat ids."""
        self.started += seat_ids.tolist()

    def act(self, seats, rewards):
        """Log the decisions and play the actor's number."""
        self.calls += 1
        times = seats.take(seats.tick.observation["obs"])[:, 1]
        lists = (seats.match_indices, self.number_of(seats), times, rewards.reward, rewards.elapsed_ticks)
        self.acted += list(zip(*(values.tolist() for values in lists), strict=True))
        return np.full((seats.match_indices.size, 1), self.number, np.int64)

    def end_seats(self, seats, rewards, *, terminated, truncated):
        """Log the ended matches."""
        lists = (seats.match_indices, self.number_of(seats), rewards.reward, rewards.elapsed_ticks)
        self.ended += list(zip(*(values.tolist() for values in lists), strict=True))


LAYOUT = SegmentLayout.for_role(
    Role(
        name="player",
        observation_space=spaces.Box(0, 1, (1,), np.float32),
        action_space=spaces.Discrete(2),
        teams=(0,),
        privileged_space=spaces.Box(0, 1, (3,), np.float32),
    ),
    fields=(Field("value"),),
    decisions=20,
    state={"memory": np.zeros((1, 5), np.float32)},
)


class Counter:
    """A trainer whose only weight is the number of updates."""

    batch_decisions = 11

    def __init__(self):
        self.updates, self.momentum, self.failing, self.batches, self.progress = 0, 0.0, False, [], []

    def update(self, batch, *, progress):
        if self.failing:
            raise ContractError("the loss is not finite")
        self.updates += 1
        self.momentum += 0.5
        self.batches.append(batch)
        self.progress.append(progress)
        return UpdateResult(metrics={"entropy": 0.25}, samples=2 * batch.num_decisions, gradient_steps=2)

    def weights(self):
        return {"w": np.array([self.updates], np.float32)}

    def load_weights(self, weights):
        self.updates = int(weights["w"][0])

    def state(self):
        return {"momentum": np.array([self.momentum])}

    def load_state(self, state):
        self.momentum = float(state["momentum"][0])


class Link:
    """A link that logs sent messages."""

    def __init__(self):
        self.sent = []

    def send(self, peer, message):
        self.sent.append((peer, message))
        return True

    def of(self, kind):
        return [message for _, message in self.sent if isinstance(message, kind)]


class LearnerHarness:
    """A learner with its trainer, its link and a fake clock."""

    def __init__(self, run_dir, *, memory=None, **options):
        self.now, self.link, self.trainer, self.run_dir = 0.0, Link(), Counter(), run_dir
        self.made = []
        self.learner = Learner(
            player="main",
            layout=LAYOUT,
            make_trainer=self.make_trainer,
            run_dir=run_dir,
            options=LearnerOptions(
                **{"credits": 2, "max_staleness": 3, "freeze_every_decisions": 10**6, "checkpoint_s": 1e9} | options
            ),
            link=self.link,
            clock=lambda: self.now,
            memory=memory,
        )
        self.learner.start()

    def make_trainer(self, generation, init):
        """Return the trainer of the first generation, or a new one for later generations."""
        self.made.append((generation, init))
        return Counter() if generation else self.trainer

    def welcome(self, *, elapsed_s=0.0, other_decisions=0, **resume):
        resume = ResumePoint(**resume)
        self.learner.handle(COORDINATOR, Welcome(elapsed_s=elapsed_s, other_decisions=other_decisions, resume=resume))

    def block(self, number, *, decisions=4, versions=(0,), empty=0, peer="sampler-0", pid=0):
        """Send a block with one segment per version; the last `empty` segments have no decisions."""
        segments = len(versions)
        arrays = {
            name: np.zeros(shape, dtype) for name, (shape, dtype) in self.learner.layout.block_shapes(segments).items()
        }
        for name in ("action_mask", "decided", "elapsed_ticks"):
            arrays[name][:] = 1
        arrays["length"][: segments - empty] = decisions
        arrays["version"][:] = versions
        self.learner.handle(peer, Segments(player="main", block=number, pid=pid, arrays=arrays))

    def acked(self, peer="sampler-0"):
        """Return the last acknowledged block of a sampler."""
        acked = [message.acked for to, message in self.link.sent if to == peer and isinstance(message, Credit)]
        return acked[-1] if acked else None


@pytest.fixture
def scripted():
    """Return the class of scripted games."""
    return ScriptedGame


@pytest.fixture
def logging_actor():
    """Return the class of actors that log their calls."""
    return LoggingActor


@pytest.fixture
def make_harness(tmp_path):
    """Return a factory of learners in one folder that have not received `Welcome`."""
    return partial(LearnerHarness, tmp_path)


@pytest.fixture
def harness(make_harness):
    """Return a learner that has received `Welcome`."""
    made = make_harness()
    made.welcome()
    return made


@pytest.fixture
def fixture_of():
    """Return a factory of fixtures."""

    def make(seats, *, number=1, matches=4, kind="train", **more):
        return Fixture(
            id=number, kind=kind, player="", participants=tuple(seats), seed=7, matches=matches, reason="test", **more
        )

    return make


@pytest.fixture
def tables():
    """Return a factory of TOML tables of a small league in NumPy: one player in self-play."""

    def make(*, environment="dummy-count", options=None, players=None, anchors=("random",), **sections):
        learner = {"segment_decisions": 4, "batch_decisions": 64}
        player = {
            "algorithm": "dummy-gradient",
            "dummy-gradient": learner,
            "matchmaker": "dummy-uniform",
            "freeze_every_decisions": 500,
        }
        all_players = players or {"main": {}}
        return {
            "run": {"seed": 3, "workers": 0, "decisions": 2000, **sections.get("run", {})},
            "environment": {"name": environment, environment: options or {}},
            "sampling": {"matches": 8, "fixture_matches": 8, "rows_per_fixture": 4, **sections.get("sampling", {})},
            "players": {
                name: {**player, **changes, "dummy-gradient": {**learner, **changes.get("dummy-gradient", {})}}
                for name, changes in all_players.items()
            },
            "anchors": {name: {"agent": f"dummy-{name}"} for name in anchors},
            "league": sections.get("league", {}),
            "metrics": sections.get("metrics", {}),
            "evaluation": {"matches": 8, "fixture_matches": 5, "final_matches": 20, **sections.get("evaluation", {})},
        }

    return make


@pytest.fixture
def ent_coef_final(monkeypatch):
    """Add an option that follows the training budget to the algorithm of these leagues."""

    @frozen(kw_only=True)
    class Scheduled(GradientConfig):
        ent_coef_final: float | None = option(None, help="At the end of the training budget.", scheduled=True)

    monkeypatch.setattr("ludus_dummy.config.GradientConfig", Scheduled)


@pytest.fixture
def league(tables, tmp_path):
    """Return a factory of running leagues, which the fixture closes."""
    with ExitStack() as stack:

        def make(*, run_dir=tmp_path / "run", **sections):
            return stack.enter_context(league_runner(tables(**sections), run_dir))

        yield make


def alive(pid):
    """Return whether a process exists and is no zombie."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(shown.strip()) and not shown.strip().startswith("Z")


@pytest.fixture
def is_alive():
    """Return a function that tests whether a process exists."""
    return alive


@pytest.fixture
def toml(tables, tmp_path):
    """Return a factory of TOML files of small runs."""

    def make(name="run.toml", **sections):
        path = tmp_path / name
        path.write_text(write_toml(tables(**sections)), encoding="utf-8")
        return path

    return make
