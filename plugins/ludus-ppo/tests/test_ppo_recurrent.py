"""Recurrent networks: states are recorded while playing and unrolled while learning."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import ContractError, Role
from ludus.algorithm import AlgorithmContext, PolicyInput
from ludus.inference import Span
from ludus.segment import SegmentBatch
from ludus_ppo.algorithm import PPO
from ludus_ppo.config import PPOConfig
from ludus_ppo.estimators import vtrace
from ludus_ppo.networks import Unrolled
from ludus_ppo.segment_minibatches import SegmentMinibatches
from torch import nn


class SharedMemory(nn.Module):
    """A GRU cell between observation and heads, in plain code."""

    def __init__(self, request):
        super().__init__()
        self.cell = nn.GRUCell(3, 8)
        sizes = {**request.heads, **request.critic_heads}
        self.heads = nn.ModuleDict({name: nn.Linear(8, size) for name, size in sizes.items()})

    def forward(self, observation, privileged, state):
        """Advance by one entry."""
        memory = self.cell(observation["obs"].float(), state["memory"])
        return {name: head(memory) for name, head in self.heads.items()}, {"memory": memory}

    def initial_state(self, rows):
        """Return a half everywhere: not what zeroed memory happens to hold."""
        return {"memory": torch.full((rows, 8), 0.5)}

    def unroll(self, observation, privileged, state, *, starts):
        """Step through the entries."""
        outputs = []
        for t in range(len(starts)):
            fresh = self.initial_state(starts.shape[1])["memory"]
            state = {"memory": torch.where(starts[t][:, None], fresh, state["memory"])}
            heads, state = self({"obs": observation["obs"][t]}, {}, state)
            outputs.append(heads)
        return {name: torch.stack([heads[name] for heads in outputs]) for name in outputs[0]}, state


@pytest.fixture
def ppo():
    """Return a function that makes PPO with a recurrent network."""
    role = Role(
        name="cat",
        observation_space=spaces.Box(-1, 1, (3,), np.float32),
        action_space=spaces.Discrete(4),
        teams=(0, 1),
    )

    def make(**options):
        context = AlgorithmContext(role=role, build_network=SharedMemory)
        plain = {"num_minibatches": 1, "epochs": 1, "normalize_value": False}
        return PPO(PPOConfig(**{**plain, **options}), context=context)

    return make


def play(ppo, *, steps=6, segments=5, seed=0, weights=None):
    """Return segments played by the policy of a trainer, with terminated and truncated matches."""
    rng = np.random.default_rng(seed)
    policy = ppo.make_policy()
    policy.load(ppo.make_trainer(seed=1).weights() if weights is None else weights)
    shape = (steps + 1, segments)
    observation = rng.uniform(-1, 1, (*shape, 3)).astype(np.float32)
    batch = SegmentBatch(
        observation={"obs": observation},
        action=np.zeros((*shape, 1), np.int64),
        action_mask=np.ones((*shape, 4), bool),
        reward=rng.standard_normal(shape).astype(np.float32),
        terminated=np.zeros(shape, bool),
        truncated=np.zeros(shape, bool),
        decided=np.ones(shape, bool),
        elapsed_ticks=np.ones(shape, np.int32),
        extras={"log_prob": np.zeros((*shape, 1), np.float32), "value": np.zeros(shape, np.float32)},
        length=np.full(segments, steps, np.int32),
        version=np.zeros(segments, np.int64),
    )
    batch.terminated[2, 0] = True  # a new match starts at entry 3
    batch.truncated[1, 1], batch.decided[2, 1] = True, False  # entry 2 is a final observation, entry 3 a new match
    state = {"memory": rng.uniform(-1, 1, (segments, 8)).astype(np.float32)}
    batch.initial_state = {name: leaf.copy() for name, leaf in state.items()}
    for t in range(steps + 1):
        fresh = np.zeros(segments, bool)
        if t:
            fresh = batch.terminated[t - 1] | ~batch.decided[t - 1]
        state["memory"][fresh] = policy.initial_state(int(fresh.sum()))["memory"]
        decision = policy.act(PolicyInput({"obs": observation[t]}, state=state), rng=rng)
        batch.action[t] = decision.action
        for name in batch.extras:
            batch.extras[name][t] = decision.extras[name]
        final = ~batch.decided[t]
        state["memory"] = np.where(final[:, None], state["memory"], decision.state["memory"])
    batch.extras["log_prob"][~batch.decided] = np.nan
    batch.length[4] = 3
    observation[4:, 4] = np.nan  # undefined
    return batch


def test_unrolling_reproduces_the_recorded_policy(ppo):
    """Before the first step all ratios are 1, across match ends, truncations and recorded states."""
    made = ppo(learning_rate=1e-12)
    metrics = made.make_trainer(seed=1).update(play(made), progress=0.0).metrics
    assert metrics["approx_kl"] == pytest.approx(0, abs=1e-9)
    assert metrics["clip_fraction"] == 0


def test_a_wrong_initial_state_is_noticed(ppo):
    """By the test above."""
    made = ppo(learning_rate=1e-12)
    batch = play(made)
    batch.initial_state["memory"][:] = 0
    assert made.make_trainer(seed=1).update(batch, progress=0.0).metrics["approx_kl"] > 1e-5


def test_no_match_starts_after_the_end_of_a_segment(ppo):
    """Segments have different lengths, and networks unroll from one start to the next."""
    batch = play(ppo())
    batch.decided[4:, 4] = False
    targets = {"advantage": np.zeros(batch.decided.shape, np.float32)}
    source = SegmentMinibatches(batch, trainable=batch.trainable(), targets=targets, device=torch.device("cpu"))
    starts = source.take(np.arange(5)).unrolled.starts
    assert starts.nonzero().tolist() == [[3, 0], [3, 1]]


def test_every_trainable_decision_counts(ppo):
    """Minibatches are whole segments."""
    made = ppo(num_minibatches=2, epochs=2)
    batch = play(made)
    result = made.make_trainer(seed=1).update(batch, progress=0.0)
    assert (result.samples, result.gradient_steps) == (2 * batch.num_decisions, 4)


@pytest.mark.parametrize("burn_in", [0, 2])
def test_statistics_count_the_trainable_decisions(ppo, burn_in):
    """Not final observations, undefined entries or the burn-in; once, after two passes."""
    made = ppo(burn_in=burn_in, epochs=2, num_minibatches=2)
    batch, trainer = play(made), made.make_trainer(seed=1)
    counted = []
    trainer._model.network.update_statistics = lambda observation, privileged: counted.append(dict(observation))
    trainer.update(batch, progress=0.0)
    learned = batch.trainable()
    learned[:burn_in] = False
    assert len(counted) == 1
    np.testing.assert_array_equal(counted[0]["obs"], batch.observation["obs"][learned])


def test_gradients_reach_back_through_the_segment(ppo):
    """Equal to a gradient step in plain torch."""
    made = ppo(learning_rate=1e-2, max_grad_norm=1e9, normalize_advantage=False, ent_coef=0.0, vf_coef=0.5)
    batch = play(made)
    trainer = made.make_trainer(seed=1)
    model = made._make_model()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in trainer.weights().items()})
    targets = trainer._estimate_targets(batch, batch.trainable())
    heads, losses = [], []
    memory = torch.from_numpy(batch.initial_state["memory"])
    for t in range(6):
        if t:
            fresh = torch.from_numpy(batch.terminated[t - 1] | ~batch.decided[t - 1])[:, None]
            memory = torch.where(fresh, torch.tensor(0.5), memory)
        observation = torch.from_numpy(np.nan_to_num(batch.observation["obs"][t]))
        out, state = model.network({"obs": observation}, {}, {"memory": memory})
        memory = state["memory"]
        heads.append(out)
    rows = {name: torch.stack([out[name] for out in heads]) for name in ("policy", "value")}
    trainable = torch.from_numpy(batch.trainable()[:6])
    log_prob = rows["policy"].log_softmax(-1).gather(-1, torch.from_numpy(batch.action[:6]))[trainable].squeeze(1)
    advantage, returns = (of_all[:6][trainable] for of_all in (targets.advantage, targets.returns["value"]))
    losses = [
        -((log_prob - log_prob.detach()).exp() * advantage).mean(),
        0.5 * (rows["value"].squeeze(-1)[trainable] - returns).square().mean(),
    ]
    sum(losses).backward()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-5)
    optimizer.step()
    trainer.update(batch, progress=0.0)
    model.value_min.fill_(min(0.0, batch.extras["value"][batch.trainable()].min()))
    for name, array in trainer.weights().items():
        np.testing.assert_allclose(array, model.state_dict()[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_the_burn_in_is_not_trained_on(ppo):
    """The first two decisions of every segment only update the state; normalizations ignore them."""
    made = ppo(burn_in=2, normalize_advantage=True, normalize_value=True)
    batch = play(made)
    result = made.make_trainer(seed=1).update(batch, progress=0.0)
    assert result.samples == int(batch.trainable()[2:].sum())
    assert result.metrics["approx_kl"] < 1e-4
    changed = play(made)
    changed.reward[:2] += 5
    one, other = (made.make_trainer(seed=1) for _ in range(2))
    one.update(batch, progress=0.0)
    other.update(changed, progress=0.0)
    assert all(np.array_equal(array, other.weights()[name]) for name, array in one.weights().items())


@pytest.mark.parametrize("burn_in", [0, 2])
def test_no_gradient_reaches_into_the_burn_in(ppo, burn_in):
    """Heads equal those of the whole segment, gradients those of unrolling from a constant state."""
    torch.manual_seed(0)
    network = ppo()._make_model().network
    observation = torch.rand(6, 3, 3)
    state = network.initial_state(3)["memory"].requires_grad_()
    kept = torch.arange(burn_in * 3, 18)
    starts = torch.zeros(6, 3, dtype=torch.bool)
    unrolled = Unrolled(state={"memory": state}, starts=starts, burn_in=burn_in, kept=kept)
    heads = unrolled.heads(network, {"obs": observation}, {})
    whole, _ = network.unroll({"obs": observation}, {}, {"memory": state}, starts=starts)
    torch.testing.assert_close(heads["policy"], whole["policy"].flatten(0, 1)[kept])
    heads["policy"].square().sum().backward()
    found = [parameter.grad for parameter in network.cell.parameters()]
    assert (state.grad is not None and bool(state.grad.abs().max() > 1e-6)) == (burn_in == 0)
    start = {"memory": state.detach()}
    for t in range(burn_in):
        _, start = network({"obs": observation[t]}, {}, start)
    start = {"memory": start["memory"].detach()}
    network.zero_grad()
    rest, _ = network.unroll({"obs": observation[burn_in:]}, {}, start, starts=starts[burn_in:])
    rest["policy"].square().sum().backward()
    for one, parameter in zip(found, network.cell.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad)


def test_a_burn_in_of_whole_segments_is_refused(ppo):
    """By the configuration, or by the batch."""
    with pytest.raises(ContractError, match="burn_in = 8 must be less than segment_decisions = 8"):
        ppo(burn_in=8, segment_decisions=8)
    made = ppo(burn_in=6)
    with pytest.raises(ContractError, match="no decision to train on after the first 6 of each segment"):
        made.make_trainer(seed=1).update(play(made), progress=0.0)


def test_vtrace_unrolls_too(ppo):
    """With fresh decisions at λ = 1 both estimators give the same update."""
    options = {"gae_lambda": 1.0, "adam_eps": 1e-3}
    plain, corrected = ppo(**options), ppo(advantage="vtrace", **options)
    batch = play(plain)
    trainers = [made.make_trainer(seed=1) for made in (plain, corrected)]
    for trainer in trainers:
        trainer.update(batch, progress=0.0)
    for name, array in trainers[0].weights().items():
        np.testing.assert_allclose(array, trainers[1].weights()[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_vtrace_unrolls_the_current_weights(ppo):
    """Ratios and values of stale decisions equal those of stepping the current weights through the segments."""
    made = ppo(advantage="vtrace", normalize_advantage=False, gamma=0.9, gae_lambda=0.8)
    batch, trainer = play(made), made.make_trainer(seed=2)  # played by the weights of another seed
    trainer.load_weights({name: array * np.float32(3) for name, array in trainer.weights().items()})
    batch.extras["value"] += 100  # recorded values have no influence
    memory, network = torch.from_numpy(batch.initial_state["memory"]), trainer._model.network
    values, log_prob = torch.zeros(7, 5), torch.zeros(7, 5)
    for t in range(7):
        if t:
            fresh = torch.from_numpy(batch.terminated[t - 1] | ~batch.decided[t - 1])[:, None]
            memory = torch.where(fresh, torch.tensor(0.5), memory)
        with torch.no_grad():
            heads, state = network({"obs": torch.from_numpy(batch.observation["obs"][t])}, {}, {"memory": memory})
        memory = state["memory"]
        values[t] = heads["value"][:, 0].nan_to_num()
        log_prob[t] = heads["policy"].log_softmax(-1).gather(-1, torch.from_numpy(batch.action[t]))[:, 0]
    trainable = torch.from_numpy(batch.trainable())
    log_ratio = torch.where(trainable, log_prob - torch.from_numpy(batch.extras["log_prob"][..., 0]), 0.0)
    assert log_ratio.min() < -0.2
    assert log_ratio.max() > 0.2
    advantage, returns = vtrace(
        torch.from_numpy(batch.reward),
        values,
        log_ratio=log_ratio,
        terminated=torch.from_numpy(batch.terminated),
        trainable=trainable,
        discount=torch.full((7, 5), 0.9),
        gae_lambda=0.8,
    )
    targets = trainer._estimate_targets(batch, batch.trainable())
    torch.testing.assert_close(targets.returns["value"][trainable], returns[trainable], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(targets.advantage[trainable], advantage[trainable], rtol=1e-4, atol=1e-4)


def test_vtrace_reevaluates_the_burn_in_in_parts(ppo, monkeypatch):
    """The number of parts depends on all observations, not on the trainable decisions."""
    made = ppo(advantage="vtrace", burn_in=4)
    batch, trainer = play(made), made.make_trainer(seed=1)
    trainable, parts = trainer._trainable_decisions(batch), []
    take = SegmentMinibatches.take

    def recorded(source, index):
        parts.append(source.entries(index))
        return take(source, index)

    monkeypatch.setattr(SegmentMinibatches, "take", recorded)
    monkeypatch.setattr("ludus_ppo.reevaluation._MAX_ROWS", 12)
    trainer._estimate_targets(batch, trainable)
    assert trainable.sum() <= 12 < sum(map(len, parts))
    assert max(map(len, parts)) <= 14  # of two segments


def test_a_batch_without_states_is_refused(ppo):
    """A network without recurrence played it."""
    made = ppo()
    batch = play(made)
    batch.initial_state = {}
    with pytest.raises(ContractError, match="the network is recurrent, but the batch carries no state"):
        made.make_trainer(seed=1).update(batch, progress=0.0)


def test_states_of_several_models_are_separate(ppo):
    """The weights of its span update the state of a row."""
    made = ppo()
    weights = [made.make_trainer(seed=seed).weights() for seed in (1, 2)]
    policy, rng = made.make_policy(), np.random.default_rng(0)
    for slot, one in enumerate(weights):
        policy.load(one, slot=slot)
    observation, state = rng.uniform(-1, 1, (4, 3)).astype(np.float32), policy.initial_state(4)
    spans = [Span(0, 0, 3), Span(1, 3, 4)]
    both = policy.act(PolicyInput({"obs": observation}, state=state, spans=spans), rng=rng)
    single = made.make_policy()
    single.load(weights[1])
    alone = single.act(PolicyInput({"obs": observation[3:]}, state=single.initial_state(1)), rng=rng)
    np.testing.assert_allclose(both.state["memory"][3:], alone.state["memory"], rtol=1e-5)
