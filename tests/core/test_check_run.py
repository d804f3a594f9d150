"""`check_run`: which mistakes of a run are found before it starts."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from attrs import evolve
from gymnasium import spaces
from ludus._plugins.loading import LoadedPlugin, PluginReport
from ludus._plugins.manager import Plugins, load_plugins
from ludus._run import check as _check
from ludus._store.model_files import save_arrays
from ludus.algorithm import Decision, UpdateResult
from ludus.component import Component
from ludus.environment import EnvironmentSpec, Role, RoleTick, Scenario, Tick
from ludus.errors import ConfigError, ContractError, PluginError, WorkerError
from ludus.matchmaker import Pairing, PoolChange, Rating
from ludus.network import NetworkRequest
from ludus.rule import Freeze, Reset, Share
from ludus.segment import SegmentBatch
from ludus.service import Network
from ludus.testing import _run, _run_participants, check_run
from ludus.testing._tiny_network import TinyNetwork
from tomli_w import dumps as write_toml

COUNT = """
[run]
launcher = "dummy-threads"
[environment]
name = "dummy-count"
[players.main]
algorithm = "dummy-gradient"
matchmaker = "dummy-uniform"
[anchors.perfect]
agent = "dummy-perfect"
"""

GUESS = """
[run]
workers = 0
[environment]
name = "dummy-guess"
[players.hider]
role = "hider"
algorithm = "dummy-gradient"
matchmaker = "dummy-uniform"
interfaces = ["dummy-scale"]
[players.seeker]
role = "seeker"
algorithm = "dummy-gradient"
matchmaker = "dummy-uniform"
[anchors.random]
agent = "dummy-random"
"""


@pytest.fixture(autouse=True)
def _only_dummy(monkeypatch):
    """Ignore other installed plugins."""
    monkeypatch.setenv("LUDUS_ALLOW_PLUGINS", "dummy,ratings")


@pytest.fixture
def path(tmp_path):
    """Return the path of a valid file."""
    path = tmp_path / "run.toml"
    path.write_text(COUNT)
    return path


def findings(path, *overrides, plugins=None):
    """Return the findings as lines, by status."""
    found = list(check_run(path, overrides=overrides, plugins=plugins or load_plugins()))
    return {
        status: [f"{f.subject}: {f.text}" for f in found if f.status == status] for status in ("ok", "warn", "fail")
    }


def broken(monkeypatch, target, change):
    """Apply a change to the objects that the factory of the component `target` makes."""
    original = Component.load_factory

    def load_factory(self):
        factory = original(self)
        if self.name != target:
            return factory

        def make(*args, **kwargs):
            return change(factory(*args, **kwargs))

        return make

    monkeypatch.setattr(Component, "load_factory", load_factory)


class Changed:
    """An object with some attributes replaced."""

    def __init__(self, inner, **changes):
        self._inner = inner
        self.__dict__.update(changes)

    def __getattr__(self, name):
        return getattr(self._inner, name)


def test_a_valid_file_passes(path):
    """Every part is checked once, within seconds."""
    started = time.perf_counter()
    found = findings(path)
    assert found["fail"] == []
    assert found["warn"] == []
    assert [line.partition(":")[0] for line in found["ok"]] == [
        "plugins",
        "configuration",
        "environment dummy-count",
        "environment dummy-count",
        "environment dummy-count",
        "player main",
        "player main",
        "player main",
        "anchor perfect",
        "matchmaking",
        "matchmaking",
        "processes",
    ]
    assert time.perf_counter() - started < 15


@pytest.mark.usefixtures("ent_coef_final")
def test_schedules_without_a_budget_are_a_warning(path):
    """Schedules have no effect without a training budget."""
    set_ = "players.main.dummy-gradient.ent_coef_final=0.0"
    found = findings(path, set_)
    (line,) = found["warn"]
    assert line == (
        "configuration: there is no training budget (run.minutes, run.decisions), so these have no effect: "
        "players.main.dummy-gradient.ent_coef_final"
    )
    assert found["fail"] == []
    assert findings(path, set_, "run.decisions=100")["warn"] == []


def test_players_and_agents_of_two_roles_are_checked(tmp_path):
    """Each player is checked in its role, with its interfaces; an agent in every role that it can play."""
    path = tmp_path / "run.toml"
    path.write_text(GUESS)
    found = findings(path)
    assert found["fail"] == []
    assert any(line.startswith("player hider: with its interfaces: observes ") for line in found["ok"])
    assert "anchor random: agent dummy-random plays hider, seeker" in found["ok"]
    matchmaking = [line for line in found["ok"] if line.startswith("matchmaking: ")]
    assert len(matchmaking) == 3
    assert matchmaking[-1] == "matchmaking: rating elo: participants start at 0 ± 1000"


def test_a_rating_that_is_not_installed_fails(path):
    """The finding suggests a similar name."""
    [problem] = findings(path, "league.rating=opensikll")["fail"]
    assert problem.startswith("configuration: --set league.rating: no installed plugin provides the rating 'opensikll'")
    assert "did you mean 'openskill'?" in problem


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Rating(float("nan"), 1.0, 0), r"returned Rating\(mean=nan, .*; expected a finite mean and .*"),
        (Rating(0.0, -1.0, 0), r"returned Rating\(.*=-1\.0, .*; expected a finite mean and a finite deviation >= 0"),
        (0.0, r"returned 0\.0; expected a ludus\.matchmaker\.Rating"),
    ],
)
def test_a_rating_of_the_wrong_type_fails(path, monkeypatch, answer, problem):
    """The finding has the name of the rating and the expected value."""
    broken(monkeypatch, "elo", lambda inner: Changed(inner, rating=lambda _participant: answer))
    (line,) = findings(path)["fail"]
    assert re.fullmatch(f"matchmaking: rating 'elo': rating {problem}", line)


def test_options_of_unused_matchmakers_fail(tmp_path, monkeypatch):
    """The findings list them for every player, with their origin."""
    monkeypatch.setenv("LUDUS_ALLOW_PLUGINS", "dummy,ratings,matchmakers")
    path = tmp_path / "run.toml"
    path.write_text(GUESS + "[players.seeker.pfsp]\np = 1.0\n")
    found = findings(path, "players.hider.matchmaker=mixture", "players.hider.msm.p=1.0", "players.hider.pfsp.p=1.0")
    text = "is neither chosen in this section nor a part of"
    assert [line.partition(" — ")[0] for line in found["fail"]] == [
        f"configuration: --set players.hider.msm: unknown key: the matchmaker 'msm' {text} 'mixture'",
        f"configuration: {path}:players.seeker.pfsp: unknown key: the matchmaker 'pfsp' {text} 'dummy-uniform'",
    ]


def test_a_rating_whose_factory_fails_is_a_finding(path, monkeypatch):
    """The finding names the rating and the exception."""
    broken(monkeypatch, "elo", lambda _inner: 1 / 0)
    assert findings(path)["fail"] == [
        "matchmaking: rating 'elo' failed: ZeroDivisionError: division by zero — LUDUS_DEBUG=1 shows where"
    ]


def test_all_mistakes_of_a_file_are_listed(path):
    """Every line of a configuration error is a failed finding, and nothing else is checked."""
    found = findings(path, "run.seed=x", "sampling.matches=0")
    assert found["fail"] == [
        "configuration: --set run.seed: expected an integer, got 'x'",
        "configuration: --set sampling.matches: expected a whole number from 1 to 1000000, got 0",
    ]
    assert [line.partition(":")[0] for line in found["ok"]] == ["plugins"]


def test_broken_plugins_are_warnings(path):
    """A run that does not use the plugin passes."""
    loaded = load_plugins()
    report = PluginReport(name="bad", distribution="bad", version="1", status="broken", problems=("ImportError: x",))
    plugins = Plugins([LoadedPlugin(report=one) for one in (report, *loaded.reports)])
    found = findings(path, plugins=plugins)
    assert found["warn"] == ["plugin bad: ImportError: x"]
    assert found["fail"] == []


def test_a_misspelt_plugin_to_block_is_a_warning(path, monkeypatch):
    """No plugin has the name that is to be blocked."""
    monkeypatch.setenv("LUDUS_BLOCK_PLUGINS", "dumy")
    [line] = findings(path)["warn"]
    assert line.startswith("plugins: 'dumy' is to be allowed or blocked, but no installed plugin has that name — did")


def test_an_environment_whose_factory_fails_is_a_finding(path, monkeypatch):
    """The check ends with a finding that names the environment."""
    broken(monkeypatch, "dummy-count", lambda _: 1 / 0)
    [line] = findings(path)["fail"]
    assert line.startswith("environment dummy-count: environment 'dummy-count' failed: ZeroDivisionError: division")


@pytest.mark.parametrize("steps", [3, 75])
def test_an_environment_that_crashes_is_a_finding(path, monkeypatch, steps):
    """The findings have the line of code, and do not recommend `ludus check`."""
    left = list(range(steps))

    def change(environment):
        return Changed(environment, step=lambda actions: left.pop() < 0 or environment.step(actions))

    broken(monkeypatch, "dummy-count", change)
    found = findings(path)["fail"]
    place, why = rf"{__name__}, line \d+, raised IndexError", "pop from empty list — LUDUS_DEBUG=1 shows how"
    player = rf"player main: environment 'dummy-count': {place} in step after \d+ ticks: {why}"
    assert any(re.fullmatch(player, line) for line in found)
    environment = rf"environment dummy-count: {place}: {why}"
    assert any(re.fullmatch(environment, line) for line in found) == (steps < 50)
    assert not any("ludus check" in line for line in found)


def test_an_environment_that_breaks_its_contract_is_a_finding(path, monkeypatch):
    """A reward of the wrong type is found in the first tick; the other parts are still checked."""

    def change(environment):
        def reset(*args, **kwargs):
            tick = environment.reset(*args, **kwargs)
            player = evolve(tick.roles["player"], reward=tick.roles["player"].reward.astype(np.float64))
            return evolve(tick, roles={"player": player})

        return Changed(environment, reset=reset)

    broken(monkeypatch, "dummy-count", change)
    [line] = findings(path)["fail"]
    assert line.startswith("environment dummy-count: ")
    assert "reward: expected float32" in line


def test_an_invalid_specification_is_a_finding(path, monkeypatch):
    """The specification is checked although matches follow it."""

    def change(environment):
        return Changed(environment, spec=evolve(environment.spec, max_ticks=0))

    broken(monkeypatch, "dummy-count", change)
    (line,) = findings(path)["fail"]
    assert line.startswith("environment dummy-count: ")
    assert line.endswith("max_ticks: expected at least 1 or None, got 0")


def test_an_environment_that_hides_the_final_observation_is_a_finding(path, monkeypatch):
    """Checks that need several matches are finished; training bootstraps from what is shown, so it is a warning."""

    def change(environment):
        def step(actions):
            tick = environment.step(actions)
            tick.roles["player"].observation["obs"][tick.terminated] = 0
            return tick

        return Changed(environment, step=step)

    broken(monkeypatch, "dummy-count", change)
    found = findings(path)
    assert not found["fail"]
    [line] = found["warn"]
    assert line.endswith("expected the final observation")


def test_a_policy_that_crashes_is_a_finding(path, monkeypatch):
    """The finding has location and type of the exception; the anchors are still checked."""

    def change(algorithm):
        policy = algorithm.make_policy()
        return Changed(algorithm, make_policy=lambda: Changed(policy, act=lambda *_args, **_kwargs: {}["key"]))

    broken(monkeypatch, "dummy-gradient", change)
    found = findings(path)
    (line,) = found["fail"]
    place = rf"{__name__}, line \d+"
    assert re.fullmatch(rf"player main: {place}, raised KeyError after 0 ticks: 'key' — LUDUS_DEBUG=1 shows how", line)
    assert "anchor perfect: agent dummy-perfect plays player" in found["ok"]


def test_a_metric_that_is_not_finite_is_a_finding(path, monkeypatch):
    """The metrics of the first update are checked."""

    def change(algorithm):
        def make_trainer(**kwargs):
            result = UpdateResult(metrics={"loss": float("nan")}, samples=1, gradient_steps=1)
            return Changed(algorithm.make_trainer(**kwargs), update=lambda *_args, **_kwargs: result)

        return Changed(algorithm, make_trainer=make_trainer)

    broken(monkeypatch, "dummy-gradient", change)
    assert findings(path)["fail"] == ["player main: update returned nan as metric 'loss', expected a finite number"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"act": lambda *_args, **_more: None}, "act returned None, expected a ludus.algorithm.Decision"),
        (
            {"act": lambda inputs, **_more: Decision(action=np.zeros(len(inputs.observation["obs"]), np.int64))},
            r"act's action is int64 \(\d+,\), expected int64 \(\d+, 1\)",
        ),
    ],
)
def test_invalid_decisions_are_a_finding(path, monkeypatch, changes, problem):
    """The finding names the algorithm."""

    def change(algorithm):
        return Changed(algorithm, make_policy=lambda: Changed(type(algorithm).make_policy(algorithm), **changes))

    broken(monkeypatch, "dummy-gradient", change)
    (line,) = findings(path)["fail"]
    assert re.fullmatch(f"player main: algorithm 'dummy-gradient': {problem}", line)


def test_invalid_fields_are_a_finding(path, monkeypatch):
    """Fields are checked before anything is recorded."""
    broken(monkeypatch, "dummy-gradient", lambda inner: Changed(inner, fields=("log_prob",)))
    (line,) = findings(path)["fail"]
    problem = "fields returned 'log_prob', expected a ludus.segment.Field"
    assert line == f"player main: algorithm 'dummy-gradient': {problem}"


def test_an_update_without_a_result_is_a_finding(path, monkeypatch):
    """The finding has the expected type."""

    def change(algorithm):
        trainer = algorithm.make_trainer(seed=0)
        return Changed(algorithm, make_trainer=lambda **_more: Changed(trainer, update=lambda *_args, **_given: None))

    broken(monkeypatch, "dummy-gradient", change)
    (line,) = findings(path)["fail"]
    problem = "update returned None, expected a ludus.algorithm.UpdateResult"
    assert line == f"player main: algorithm 'dummy-gradient': {problem}"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda view: evolve(view, observation={}), r"observe returned the leaves \[\], bind returned .*"),
        (lambda view: evolve(view, reward=view.reward.astype(np.float64)), "observe's reward is float64 .*"),
        (lambda _view: None, "observe returned None, expected a ludus.interface.SeatView"),
    ],
)
def test_views_that_do_not_match_the_bound_spaces_are_a_finding(tmp_path, monkeypatch, change, problem):
    """The finding names the interface, not the policy that reads the view."""
    path = tmp_path / "run.toml"
    path.write_text(GUESS)

    class Shown(Changed):
        def observe(self, view, seat_ids):
            return change(self._inner.observe(view, seat_ids))

        def act(self, action, seat_ids):
            return self._inner.act(action, seat_ids)

    broken(monkeypatch, "dummy-scale", Shown)
    (line,) = findings(path)["fail"]
    assert re.fullmatch(f"player hider: interface 'dummy-scale': {problem}", line)


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        ({"logits": 4, "value": 1}, r"returned \(8, 4\) as head 'logits', expected \(8, 3\)"),
        ({"logits": 3}, r"returned None as head 'value', expected \(8, 1\)"),
    ],
)
def test_a_network_with_other_heads_is_a_finding(path, monkeypatch, made, problem):
    """The finding has the requested shape."""
    asked = NetworkRequest(
        observation={"obs": spaces.Box(-1, 1, (2,), np.float32)}, heads={"logits": 3}, critic_heads={"value": 1}
    )
    module = TinyNetwork(evolve(asked, heads=made, critic_heads={}))
    monkeypatch.setattr(_run_participants, "make_networks", lambda *_args: [Network(module, asked)])
    (line,) = findings(path)["fail"]
    assert re.fullmatch(f"player main: algorithm 'dummy-gradient': {problem}", line)


def test_a_factory_without_a_result_is_a_finding(path, monkeypatch):
    """The finding names the component."""
    broken(monkeypatch, "dummy-perfect", lambda _inner: None)
    (line,) = findings(path)["fail"]
    problem = "its factory returned None — does it end without a return?"
    assert line == f"anchor perfect: agent 'dummy-perfect': {problem}"


def test_an_update_that_writes_to_its_batch_is_a_finding(path, monkeypatch):
    """Batches are read-only, as in a run."""

    def change(algorithm):
        def update(batch, **_kwargs):
            batch.reward[...] = 0

        return Changed(
            algorithm, make_trainer=lambda **kwargs: Changed(algorithm.make_trainer(**kwargs), update=update)
        )

    broken(monkeypatch, "dummy-gradient", change)
    (line,) = findings(path)["fail"]
    assert re.match(rf"player main: {__name__}, line \d+, raised ValueError: assignment destination is read-only", line)


def test_an_unknown_role_is_a_finding(path):
    """One finding has the file and the existing roles."""
    path.write_text(path.read_text().replace("[players.main]", '[players.main]\nrole = "dog"'))
    found = findings(path)["fail"]
    assert found == [f"configuration: {path}:players.main.role: expected one of player, got 'dog'"]


def test_a_role_without_a_player_or_anchor_is_a_finding(tmp_path):
    """The finding names the role and how to fill it; one player or one anchor is enough."""
    path, alone = tmp_path / "run.toml", GUESS.partition("[players.seeker]")[0]
    path.write_text(alone)
    add = 'add [players.NAME] with role = "seeker", or an anchor, [anchors.NAME]'
    assert findings(path)["fail"] == [
        f"configuration: {path}:players: role 'seeker' has no player and no anchor: {add}"
    ]
    path.write_text(alone + '[anchors.random]\nagent = "dummy-random"\n')
    assert findings(path)["fail"] == []
    path.write_text(GUESS.partition("[anchors.random]")[0])
    assert findings(path)["fail"] == []


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("run.device=nonsense", "run.device: expected a device that torch computes on here (cpu"),
        ("run.device=cuda:99", "run.device: expected a device that torch computes on here (cpu"),
        ("run.device=meta", "run.device: expected a device that torch computes on here (cpu"),
        ("players.main.share=0", "players.main.share: 0 for every player; expected one that trains"),
        ("players.main.init=none.safetensors", "players.main.init: none.safetensors: no such file"),
    ],
)
def test_options_that_this_machine_cannot_fulfil_are_a_finding(path, override, text):
    """They are checked before the players."""
    (line,) = findings(path, override)["fail"]
    assert line.startswith(f"configuration: --set {text}")


def test_too_many_workers_for_the_launcher_are_a_finding(path, monkeypatch):
    """Learners count as well as samplers."""

    def check(workers):
        if workers > 3:
            raise WorkerError(f"no room for {workers}")

    broken(monkeypatch, "dummy-threads", lambda launcher: Changed(launcher, check=check))
    assert findings(path, "run.workers=2")["fail"] == []
    assert findings(path, "run.workers=3")["fail"] == ["configuration: --set run.workers: no room for 4"]


def test_an_initial_model_of_another_network_is_a_finding(path, tmp_path):
    """The finding names option and file."""
    digest = save_arrays(tmp_path, {"other": np.zeros(3, np.float32)}, {})
    file = tmp_path / f"{digest}.safetensors"
    (line,) = findings(path, f"players.main.init={file}")["fail"]
    assert line.startswith(f"configuration: --set players.main.init: {file}: ")


@pytest.mark.parametrize("error", [SystemExit(0), BaseException("at lib.rs:3")], ids=repr)
def test_a_component_that_exits_does_not_end_the_check(path, monkeypatch, error):
    """SystemExit and other base exceptions are findings; the other parts are still checked."""

    def step(*_args):
        raise error

    broken(monkeypatch, "dummy-count", lambda environment: Changed(environment, step=step))
    found = findings(path)
    assert f"raised {type(error).__name__}: {error} — " in found["fail"][0]
    assert any(line.startswith("processes: ") for line in found["ok"])


def test_options_of_gpus_are_checked_on_the_cpu(path, monkeypatch):
    """A process that has used a GPU would keep its memory."""
    devices = []

    def change(algorithm):
        def make_trainer(*, seed, device="cpu"):
            devices.append(device)
            return algorithm.make_trainer(seed=seed)

        return Changed(algorithm, make_trainer=make_trainer)

    broken(monkeypatch, "dummy-gradient", change)
    monkeypatch.setattr(pytest.importorskip("torch").cuda, "device_count", lambda: 1)
    found = findings(path, "run.device=cuda", "players.main.learner_processes=2")["fail"]
    expected = "players.main.learner_processes: expected 1, as 'dummy-gradient' learns in one process"
    assert found == [f"configuration: --set {expected}"]
    assert devices == ["cpu"]


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        (lambda _n: None, "as player it returned None, expected a numpy.ndarray"),
        (lambda n: np.zeros((n, 2), np.int64), "as player it returned int64 (8, 2), expected actions (8, 1)"),
        (lambda n: np.zeros((n, 1), np.float32), "as player it returned float32 (8, 1), expected actions (8, 1)"),
    ],
)
def test_invalid_actions_of_an_agent_are_a_finding(path, monkeypatch, action, problem):
    """Type, shape and dtype are checked."""
    broken(
        monkeypatch,
        "dummy-perfect",
        lambda agent: Changed(agent, act=lambda _obs, *, seat_ids, **_kwargs: action(len(seat_ids))),
    )
    assert findings(path)["fail"] == [f"anchor perfect: {problem}"]


def test_illegal_actions_of_an_agent_are_a_finding(path, monkeypatch):
    """An agent must follow the action mask."""

    def act(_observation, *, action_mask, **_kwargs):
        return action_mask.argmin(axis=1)[:, None]

    broken(monkeypatch, "dummy-perfect", lambda agent: Changed(agent, act=act))
    found = findings(path, "environment.dummy-count.target=2")["fail"]
    assert found == ["anchor perfect: as player it chose an illegal action"]


class Pair:
    """Eight endless matches in which one seat chooses two labels; choice 1 of the second label is illegal."""

    num_matches = 8
    role = Role(
        name="solo",
        observation_space=spaces.Box(0, 1, (1,)),
        action_space=spaces.MultiDiscrete([3, 2]),
        teams=(0,),
    )
    spec = EnvironmentSpec(name="pair", roles=(role,), turn="simultaneous")

    def reset(self, seeds, *, indices=None, scenarios=None):
        mask = np.ones((8, 1, 5), bool)
        mask[:, :, 4] = False
        solo = RoleTick(
            observation={"obs": np.zeros((8, 1, 1), np.float32)},
            acting=np.ones((8, 1), bool),
            action_mask=mask,
            reward=np.zeros((8, 1), np.float32),
        )
        return Tick(
            roles={"solo": solo},
            terminated=np.zeros(8, bool),
            truncated=np.zeros(8, bool),
            outcome=np.zeros((8, 1), np.float32),
        )


@pytest.mark.parametrize(("choice", "legal"), [([2, 0], True), ([2, 1], False)])
def test_every_label_of_an_agent_must_be_legal(choice, legal):
    """The choice of each label is compared with the mask of that label."""

    class Constant:
        def reset(self, seat_ids):
            pass

        def act(self, observation, *, action_mask, seat_ids, rng):
            return np.tile(np.array(choice), (len(seat_ids), 1))

    if legal:
        _run_participants.check_agent(Constant(), Pair.role, Pair(), 0)
    else:
        with pytest.raises(ContractError, match="as solo it chose an illegal action"):
            _run_participants.check_agent(Constant(), Pair.role, Pair(), 0)


@pytest.mark.parametrize(
    ("opponents", "problem"),
    [
        ((), "next_fixture named 0 opponents; expected 1, one for every other team"),
        (
            ("ghost@3",),
            "opponents: 'ghost@3' cannot play there now; choose an anchor or a model of this league",
        ),
    ],
)
def test_invalid_pairings_are_a_finding(path, monkeypatch, opponents, problem):
    """A matchmaker must name one known participant for every other team."""
    answer = Pairing(opponents=opponents, reason="test")
    broken(monkeypatch, "dummy-uniform", lambda inner: Changed(inner, next_fixture=lambda *_args: answer))
    assert findings(path)["fail"] == [f"matchmaking: matchmaker of player 'main': {problem}"]


@pytest.mark.parametrize(
    ("scenario", "problem"),
    [
        (Scenario(name="start-at", parameters={"count": 3}), None),
        (
            Scenario(name="start"),
            "next_fixture chose Scenario.*'start'.*; dummy-count has the scenarios default, start-at$",
        ),
        (Scenario(name="start-at", parameters={"begin": 3}), "scenario start-at takes .*; got 'begin'"),
    ],
)
def test_rare_scenarios_are_checked(path, monkeypatch, scenario, problem):
    """Names and parameters are checked by a reset; the printed line is that of the first fixture."""

    def seldom(league, player, rng):
        pairing = Pairing(opponents=(league.players[player].live,), reason="test")
        return evolve(pairing, scenario=scenario) if rng.random() < 0.05 else pairing

    broken(monkeypatch, "dummy-uniform", lambda inner: Changed(inner, next_fixture=seldom))
    found = findings(path)
    if problem is None:
        assert found["fail"] == []
        assert "matchmaking: main would first play main@0+ (test)" in found["ok"]
    else:
        (failure,) = found["fail"]
        assert re.search(f"^matchmaking: matchmaker of player 'main': {problem}", failure)


@pytest.mark.parametrize(("loser", "winner"), [("hider", "seeker"), ("seeker", "hider")])
def test_matchmakers_are_checked_on_leagues_with_models(tmp_path, monkeypatch, loser, winner):
    """In one league the hider has always lost, in another one the seeker."""
    path = tmp_path / "run.toml"
    path.write_text(GUESS)

    def later(league, _player, _rng):
        lost = league.payoff(league.players[loser].live, league.players[winner].models)[:, 2].sum()
        return Pairing(opponents=("ghost@1" if lost else "random",), reason="test")

    broken(monkeypatch, "dummy-uniform", lambda inner: Changed(inner, next_fixture=later))
    (failure,) = findings(path)["fail"]
    assert "'ghost@1' cannot play there now" in failure


def test_invalid_evaluation_matches_are_a_finding(path, monkeypatch):
    """The evaluation's matchmaker must name one participant for every team."""
    broken(monkeypatch, "dummy-uniform", lambda inner: Changed(inner, next_evaluation=lambda *_args: ("perfect",)))
    assert findings(path)["fail"] == [
        "matchmaking: matchmaker of the evaluation: next_evaluation named 1 participants; expected 2"
    ]
    assert findings(path, "evaluation.enabled=false")["fail"] == []


def test_rules_are_checked(path, monkeypatch):
    """The first change is printed, and an exception is a finding."""
    league = 'league.rules=["dummy-reset"]'
    assert "matchmaking: rule dummy-reset would first change nothing" in findings(path, league)["ok"]
    broken(monkeypatch, "dummy-reset", lambda inner: Changed(inner, decide=lambda *_args: 1 / 0))
    why = "failed: ZeroDivisionError: division by zero — LUDUS_DEBUG=1 shows where"
    assert findings(path, league)["fail"] == [f"matchmaking: rule 'dummy-reset' {why}"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "decide returned None; expected a sequence of changes"),
        (["x"], "not a change of ludus.rule in 'x' — fix its decide"),
        ([Freeze(player="nobody", reason="x")], "there is no player 'nobody' in .* — fix its decide"),
        ([Reset(player="main", reason="x", init="main@9")], "there is no frozen model 'main@9' in .* — fix its decide"),
        (
            [Share(player="main", share=0)],
            "every player's share of the ticks would be 0; leave a share to at least one player",
        ),
    ],
)
def test_invalid_changes_of_a_rule_are_a_finding(path, monkeypatch, answer, problem):
    """Also if the rule returns them only in a league with models."""
    broken(monkeypatch, "dummy-reset", lambda inner: Changed(inner, decide=lambda *_args: answer))
    (line,) = findings(path, 'league.rules=["dummy-reset"]')["fail"]
    assert re.fullmatch(f"matchmaking: rule 'dummy-reset': {problem}", line)
    later = lambda league, _rng: answer if league.players["main"].models else []  # noqa: E731
    broken(monkeypatch, "dummy-reset", lambda inner: Changed(inner, decide=later))
    assert findings(path, 'league.rules=["dummy-reset"]')["fail"] == [line]


def test_a_rule_may_set_a_share_to_zero(tmp_path, monkeypatch):
    """If another player has a share."""
    path = tmp_path / "run.toml"
    path.write_text(GUESS)
    broken(
        monkeypatch,
        "dummy-reset",
        lambda inner: Changed(inner, decide=lambda *_args: [Share(player="hider", share=0)]),
    )
    rules = 'league.rules=["dummy-reset"]'
    assert findings(path, rules)["fail"] == []
    (line,) = findings(path, rules, "players.seeker.share=0")["fail"]
    assert "every player's share of the ticks would be 0" in line


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda _model: None, "on_model_frozen returned None; expected a sequence of changes"),
        (lambda model: [model], "on_model_frozen returned 'main@1'; expected a ludus.matchmaker.PoolChange"),
        (lambda _model: [PoolChange(pool="p", model="main@3", enters=True)], "there is no frozen model 'main@3' in .*"),
    ],
)
def test_invalid_pool_changes_are_a_finding(path, monkeypatch, answer, problem):
    """`on_model_frozen` is called with the first model of a player."""
    frozen = lambda _league, _player, model: answer(model)  # noqa: E731
    broken(monkeypatch, "dummy-uniform", lambda inner: Changed(inner, on_model_frozen=frozen))
    (line,) = findings(path)["fail"]
    assert re.fullmatch(f"matchmaking: matchmaker of player 'main': {problem}", line)


def test_a_sink_that_cannot_be_imported_is_a_finding(path, monkeypatch):
    """For example, because a dependency is missing."""
    original = Component.load_factory

    def load_factory(self):
        if self.name == "dummy-memory":
            raise PluginError("component 'dummy-memory': cannot import 'ludus_dummy.events:MemorySink'")
        return original(self)

    monkeypatch.setattr(Component, "load_factory", load_factory)
    found = findings(path, 'metrics.sinks=["dummy-memory"]')["fail"]
    assert found == ["processes: component 'dummy-memory': cannot import 'ludus_dummy.events:MemorySink'"]


def test_a_role_that_never_acts_is_a_finding(path, monkeypatch):
    """For the player and for the anchor."""

    def change(environment):
        def idle(tick):
            tick.roles["player"].acting[:] = False
            return tick

        return Changed(
            environment,
            reset=lambda *args, **kwargs: idle(environment.reset(*args, **kwargs)),
            step=lambda actions: idle(environment.step(actions)),
        )

    monkeypatch.setattr(_run_participants, "MAX_TICKS", 30)
    monkeypatch.setattr(_run_participants, "MAX_TICKS", 30)
    broken(monkeypatch, "dummy-count", change)
    found = findings(path)["fail"]
    assert "player main: no decision was recorded in 30 ticks" in found
    assert "anchor perfect: role player does not act in 30 ticks" in found


def test_debugging_shows_the_traceback(path, monkeypatch):
    """With LUDUS_DEBUG the exception of a plugin is not converted into a finding."""
    monkeypatch.setenv("LUDUS_DEBUG", "1")
    monkeypatch.setattr(_run_participants, "learned_role", lambda *_args: {}["key"])
    with pytest.raises(KeyError):
        findings(path)


def test_debugging_shows_the_traceback_of_every_step(path, monkeypatch):
    """Also where the configuration is wrong, or the environment cannot be made."""
    monkeypatch.setenv("LUDUS_DEBUG", "1")
    with pytest.raises(ConfigError, match="no installed plugin"):
        findings(path, "environment.name=nothing")
    monkeypatch.setattr(_run, "make_environment", lambda *_args: raise_plugin_error())
    with pytest.raises(PluginError, match="no board"):
        findings(path)


def raise_plugin_error():
    """Raise the error of a plugin."""
    raise PluginError("no board")


def test_the_environment_is_closed(path, monkeypatch):
    """Also after failures."""
    made, closed = [], []

    def watched(inner):
        made.append(inner)
        return Changed(inner, close=lambda: closed.append(inner))

    broken(monkeypatch, "dummy-count", watched)
    findings(path, "players.main.role=dog")
    assert made
    assert sorted(map(id, closed)) == sorted(map(id, made))


def test_a_missing_file_is_a_finding(tmp_path):
    """There is no traceback."""
    assert findings(tmp_path / "no.toml")["fail"] == [f"configuration: {tmp_path / 'no.toml'}: no such file"]


def test_all_installed_plugins_are_used_by_default(path):
    """The argument `plugins` is optional."""
    assert next(check_run(path)).text == "dummy, ratings"


def test_matches_that_do_not_fit_into_memory_are_a_finding(path, monkeypatch):
    """Nothing is allocated for them; the line states how many would fit."""
    monkeypatch.setattr(_check, "memory_bytes", lambda: 10_000)
    (text,) = findings(path, "sampling.matches=1000000")["fail"]
    assert "1,000,000 matches of dummy-count need " in text
    assert "expected at most " in text
    most = int(text.rsplit(" ", 1)[1].replace(",", ""))
    assert findings(path, f"sampling.matches={most}")["fail"] == []


def test_networks_that_do_not_fit_into_memory_are_a_finding(tmp_path, monkeypatch):
    """They are counted without memory: 4 layers of 65,536 units would need 200 GB."""
    monkeypatch.setenv("LUDUS_ALLOW_PLUGINS", "dummy,ratings,board,ppo,networks,matchmakers")
    monkeypatch.setattr(_run_participants, "memory_bytes", lambda: 25 * 10**9)
    player = {"algorithm": "ppo", "network": "mlp", "matchmaker": "latest-self-play"}
    tables = {"run": {"workers": 0}, "environment": {"name": "tictactoe"}, "players": {"main": player}}
    (tmp_path / "run.toml").write_text(write_toml(tables), encoding="utf-8")
    hidden = ", ".join(["65536"] * 4)
    (text,) = findings(tmp_path / "run.toml", f"players.main.mlp.hidden=[{hidden}]")["fail"]
    assert text.startswith("player main: players.main.mlp: 12,8")
    assert "weights need 206 GB while they learn, but this machine has 25 GB" in text


def make_batch(steps, segments):
    """Return full segments of zeros."""
    shape = (steps + 1, segments)
    return SegmentBatch(
        observation={"view": np.zeros((*shape, 1), np.float32)},
        action=np.zeros((*shape, 1), np.int64),
        reward=np.zeros(shape, np.float32),
        terminated=np.zeros(shape, bool),
        truncated=np.zeros(shape, bool),
        decided=np.ones(shape, bool),
        elapsed_ticks=np.ones(shape, np.int32),
        length=np.full(segments, steps, np.int32),
        version=np.zeros(segments, np.int64),
    )


class OverheadTrainer:
    """A trainer whose updates take 20 ms, whatever their size, and 10 µs for each decision."""

    batch_decisions = 16_384

    def __init__(self):
        self.sizes = []

    def update(self, batch, *, progress):
        """Wait."""
        self.sizes.append(batch.num_decisions)
        time.sleep(0.02 + 1e-5 * batch.num_decisions)
        return UpdateResult(metrics={}, samples=batch.num_decisions, gradient_steps=1)


def test_updates_are_estimated_without_the_overhead_of_small_ones():
    """A batch of 16,384 takes 0.18 s; 256 times an update of 64 would be 5.3 s."""
    trainer = OverheadTrainer()
    estimate_s = _run_participants._estimate_update(trainer, make_batch(steps=8, segments=8), 0.0207)
    assert trainer.sizes == [16 * 64]
    assert 0.4 < estimate_s < 2.0  # 16 times 0.03 s


def test_long_updates_are_not_repeated():
    """Their calls take a small part of the time."""
    trainer = OverheadTrainer()
    assert _run_participants._estimate_update(trainer, make_batch(steps=8, segments=8), 60.0) == 60.0 * 256
    assert trainer.sizes == []
