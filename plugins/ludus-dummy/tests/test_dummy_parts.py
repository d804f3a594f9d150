"""The small dummy components."""

from __future__ import annotations

import threading
import time
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import ContractError, WorkerError
from ludus.__main__ import main
from ludus.interface import SeatView, Spaces
from ludus.launcher import Session, WorkerSpec
from ludus.metrics import Metric
from ludus.network import NetworkRequest
from ludus.runs import open_run
from ludus.testing import FakeLeague, check_interface, check_matchmaker, check_rating, fake_player, opponent_shares
from ludus_dummy.agents import Perfect
from ludus_dummy.config import (
    CountConfig,
    GuessConfig,
    LinearConfig,
    PerfectConfig,
    ScaleConfig,
    ShareConfig,
    UniformConfig,
)
from ludus_dummy.count import Count
from ludus_dummy.events import MemorySink
from ludus_dummy.guess import Guess
from ludus_dummy.interfaces import Reverse, Scale
from ludus_dummy.launcher import Threads
from ludus_dummy.league import ShareTable, Uniform
from ludus_dummy.networks import linear

LEAGUE = """
[run]
launcher = "dummy-threads"
decisions = 500
[environment]
name = "dummy-count"
[sampling]
matches = 8
[players.main]
algorithm = "dummy-gradient"
matchmaker = "dummy-uniform"
[league]
rating = "dummy-share"
[league.dummy-share]
prior_matches = 8
[evaluation]
enabled = false
final_matches = 0
"""
COUNT = Count(CountConfig(), num_matches=1).spec
GUESS = Guess(GuessConfig(), num_matches=1).spec
STREAMS = np.arange(500)


def spaces_of(spec):
    """Return the spaces of the first role."""
    return Spaces(spec.roles[0].observation_space, spec.roles[0].action_space)


@pytest.mark.parametrize("spec", [COUNT, GUESS], ids=["plain", "dict"])
@pytest.mark.parametrize("make", [lambda: Scale(ScaleConfig(observation=2.0, reward=3.0)), lambda: Reverse(None)])
def test_interfaces_keep_the_contract(make, spec):
    """The checker finds no problem in either interface on either game."""
    check_interface(make, spaces_of(spec))


def view():
    """Return the view of one seat of dummy-guess, with a mask."""
    return SeatView(
        observation={"left": np.ones((1, 1), np.float32), "last": np.ones((1, 3), np.int8)},
        action_mask=np.array([[True, False, False]]),
        reward=np.ones(1, np.float32),
    )


def test_scale_leaves_whole_numbers_alone():
    """Real-valued leaves, their bounds and rewards are scaled; other leaves are unchanged."""
    scale = Scale(ScaleConfig(observation=2.0, reward=3.0))
    bound = scale.bind(spaces_of(GUESS))
    observed = scale.observe(view(), np.arange(1))
    assert observed.observation["left"].tolist() == [[2.0]]
    assert observed.observation["last"].tolist() == [[1, 1, 1]]
    assert observed.reward.tolist() == [3.0]
    assert bound.observation["left"].high.tolist() == [2.0]


def test_reverse_counts_from_the_other_end():
    """Masks and actions are reversed together."""
    reverse = Reverse(None)
    reverse.bind(spaces_of(GUESS))
    assert reverse.observe(view(), np.arange(1)).action_mask.tolist() == [[False, False, True]]
    assert reverse.act(np.array([[2]]), np.arange(1)).tolist() == [[0]]


def test_reverse_rejects_real_valued_actions():
    """Real-valued actions have no last choice."""
    with pytest.raises(ContractError, match="Box"):
        Reverse(None).bind(Spaces(spaces.Discrete(2), spaces.Box(0, 1, (1,))))


def observe_remainder(missing):
    """Return 500 rows that observe the same remainder, with their masks."""
    return {"obs": np.tile(np.eye(11, dtype=np.float32)[missing], (500, 1))}, np.tile(np.arange(3) < missing, (500, 1))


@pytest.mark.parametrize(("missing", "added"), [(1, 1), (3, 3), (5, 1), (10, 2)])
def test_perfect_leaves_a_multiple_of_four(missing, added):
    """Without errors it always adds the winning number."""
    observation, mask = observe_remainder(missing)
    agent = Perfect(PerfectConfig(), spec=COUNT, role="player")
    chosen = agent.act(observation, action_mask=mask, seat_ids=STREAMS, rng=np.random.default_rng(0))
    assert set(chosen[:, 0].tolist()) == {added - 1}


def test_perfect_errs_at_the_configured_rate():
    """At an error rate of ½, two thirds of the random half are wrong."""
    observation, mask = observe_remainder(10)
    agent = Perfect(PerfectConfig(error_rate=0.5), spec=COUNT, role="player")
    chosen = agent.act(observation, action_mask=mask, seat_ids=STREAMS, rng=np.random.default_rng(0))
    assert (chosen != 1).mean() == pytest.approx(1 / 3, abs=0.06)


def request(**critics):
    """Return a request for a policy head on dummy-guess."""
    role = GUESS.roles[0]
    return NetworkRequest(
        observation=role.observation_space.spaces,
        privileged=role.privileged_space.spaces,
        heads={"logits": 3},
        critic_heads=critics,
    )


def test_network_has_heads_and_critics():
    """Heads have the requested sizes; only critics depend on privileged leaves."""
    torch.manual_seed(0)
    network = linear(LinearConfig(), request=request(value=1))
    observed = {"left": torch.ones(2, 1), "last": torch.ones(2, 3, dtype=torch.int8)}
    one, _ = network(observed, {"score": torch.zeros(2, 1)}, {})
    other, _ = network(observed, {"score": torch.ones(2, 1)}, {})
    assert (one["logits"].shape, one["value"].shape) == ((2, 3), (2, 1))
    assert torch.equal(one["logits"], other["logits"])
    assert not torch.equal(one["value"], other["value"])


def test_network_plays_without_privileged_leaves():
    """Frozen models get no privileged leaves, so critics are left out."""
    network = linear(LinearConfig(bias=False), request=request(value=1))
    heads, state = network({"left": torch.zeros(1, 1), "last": torch.zeros(1, 3)}, {}, {"h": torch.ones(1)})
    assert heads.keys() == {"logits"}
    assert heads["logits"].tolist() == [[0, 0, 0]]
    assert state["h"].item() == 1


def test_matchmaker_keeps_the_contract():
    """The checker finds no problem in any kind of league."""
    for config in (UniformConfig(keep=1), UniformConfig(self_play=0.0), UniformConfig(self_play=1.0)):
        check_matchmaker(Uniform(config, build=None))


def test_matchmaker_shares():
    """Half of the fixtures are live, the other half is spread evenly over the pool."""
    player = fake_player("main", 2)
    league = FakeLeague(players=[player], pools={"dummy": player.models})
    shares = opponent_shares(Uniform(UniformConfig(), build=None), league, "main")
    assert shares == pytest.approx({player.live: 0.5, player.models[0]: 0.25, player.models[1]: 0.25}, abs=0.05)


def test_matchmaker_removes_the_oldest_model():
    """With a limit of two models, the third one replaces the first."""
    player = fake_player("main", 3)
    league = FakeLeague(players=[player], pools={"dummy": player.models[:2]})
    changes = Uniform(UniformConfig(keep=2), build=None).on_model_frozen(league, "main", player.models[2])
    assert [(change.model, change.enters) for change in changes] == [
        (player.models[2], True),
        (player.models[0], False),
    ]


def test_rating_by_hand():
    """Three wins and a draw are 3.5 of 4 points, and with four drawn prior matches 5.5 of 8."""
    check_rating(partial(ShareTable, ShareConfig()))
    table = ShareTable(ShareConfig(prior_matches=4), anchors=(), seats=(), sides={})
    table.add("a", "b", np.array([3, 1, 0]))
    rating = table.rating("a")
    assert (rating.mean, rating.matches) == (100 * 5.5 / 8, 4)
    assert rating.deviation == pytest.approx(50 / 8**0.5)
    assert (table.rating("c").mean, table.rating("c").matches) == (50, 0)


def test_launcher_runs_a_league(tmp_path):
    """Every worker is a thread, and all threads end."""
    before = threading.active_count()
    config = tmp_path / "run.toml"
    config.write_text(LEAGUE)
    outcome = main(["train", str(config), "--run", str(tmp_path / "run"), "--workers", "2"])
    assert outcome == 0
    assert threading.active_count() == before
    with open_run(tmp_path / "run") as run:
        assert run.league.players["main"].decisions >= 500
        assert run.num_matches() > 0


def test_launcher_ends_workers(tmp_path):
    """A worker that fails is reported, and closing the pool ends the others."""
    session = Session(run_dir=tmp_path, number=1, stall_s=60.0, restarts=3, print_line=lambda line: None)
    worker_pool = Threads().launch(session, [WorkerSpec(name="sampler-0", threads=1)])  # there is no run.toml
    ((peer, failure),) = worker_pool.receive(20.0)
    assert (peer, failure.fatal) == ("sampler-0", True)
    while worker_pool.alive:
        time.sleep(0.01)
    with pytest.raises(WorkerError, match="sampler-0: no file"):
        worker_pool.check(last_seen_s={}, errors={"sampler-0": "no file"})
    assert worker_pool.finish(timeout_s=0.0, poll=lambda: None) == worker_pool.alive == []


def test_sink_keeps_metrics(tmp_path):
    """The sink keeps its metrics, and whether it was closed."""
    sink = MemorySink(None, run_dir=tmp_path)
    metric = Metric(name="a", value=1.0, decisions=2, elapsed_s=3.0)
    sink.write([metric])
    sink.close()
    assert sink.metrics == [metric]
    assert sink.closed
