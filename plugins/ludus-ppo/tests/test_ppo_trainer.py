"""The trainer: an update against a plain implementation, schedules, refused batches, resuming."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import ContractError, ModelError
from ludus.activity import UPDATING, listen
from ludus.algorithm import BoundedPolicy
from ludus.inference import Span

BUTTON_AND_MOVE = spaces.MultiDiscrete([3, 4])


def update(ppo, batch, *, progress=0.0, seed=1):
    """Return a fresh trainer after one update, and its result."""
    trainer = ppo.make_trainer(seed=seed)
    return trainer, trainer.update(batch, progress=progress)


def same(one, other) -> bool:
    """Return whether two sets of arrays are equal to the bit."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_one_update_is_the_textbook_one(make_ppo, make_batch):
    """A gradient step equals one written down with torch.distributions and scalar advantages."""
    ppo = make_ppo(num_minibatches=1, gamma=0.9, gae_lambda=0.8, max_grad_norm=0.3, learning_rate=1e-2)
    batch = make_batch(ppo)
    trainer, _ = update(ppo, batch)
    model = ppo._make_model()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in ppo.make_trainer(seed=1).weights().items()})
    advantage = np.zeros_like(batch.reward)
    value = batch.extras["value"]
    for t in reversed(range(8)):
        alive = 1.0 - batch.terminated[t]
        delta = batch.reward[t] + 0.9 * alive * value[t + 1] - value[t]
        advantage[t] = delta + 0.9 * 0.8 * alive * advantage[t + 1]
    target = torch.from_numpy((advantage + value)[:8].ravel())
    scaled = torch.from_numpy(((advantage - advantage[:8].mean()) / advantage[:8].std())[:8].ravel())
    logits, new_value = model({"obs": torch.from_numpy(batch.observation["obs"][:8].reshape(-1, 3))}, {})
    distribution = torch.distributions.Categorical(logits=logits)
    new = distribution.log_prob(torch.from_numpy(batch.action[:8].ravel()))
    ratio = (new - torch.from_numpy(batch.extras["log_prob"][:8].ravel())).exp()
    gain = torch.minimum(ratio * scaled, ratio.clamp(0.8, 1.2) * scaled).mean()
    loss = -gain + 0.5 * (new_value["value"] - target).square().mean() - 0.01 * distribution.entropy().mean()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-5)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
    optimizer.step()
    model.value_min.fill_(min(0.0, batch.extras["value"][batch.trainable()].min()))
    for name, array in trainer.weights().items():
        np.testing.assert_allclose(array, model.state_dict()[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_the_lowest_value_is_kept_with_the_weights(make_ppo, make_batch):
    """The minimum over all trainable decisions so far, at most 0: what exploiters shift their rewards by."""
    ppo, lowest = make_ppo(), []
    trainer = ppo.make_trainer(seed=1)
    for value in (3.0, -1.5, -0.5, -4.0):
        batch = make_batch(ppo)
        batch.extras["value"][:] = value + np.arange(6)
        batch.extras["value"][8] = -100.0  # bootstrap entries are no decisions
        trainer.update(batch, progress=0.0)
        lowest.append(float(trainer.weights()["value_min"]))
    assert lowest == [0.0, -1.5, -1.5, -4.0]
    policy = ppo.make_policy()
    for slot in (0, 3):
        policy.load(trainer.weights() | {"value_min": np.float32(-slot)}, slot=slot)
    assert policy.lowest_values(3, [Span(0, 0, 1), Span(3, 1, 3)]).tolist() == [0, -3, -3]
    assert isinstance(policy, BoundedPolicy)


@pytest.mark.parametrize("advantage", ["gae", "vtrace"])
def test_every_gradient_step_is_reported(make_ppo, make_batch, monkeypatch, advantage):
    """The launcher of a learner learns from that that a long update goes on."""
    ppo, reports, clock = make_ppo(num_minibatches=5, epochs=2, advantage=advantage), [], itertools.count()
    batch = make_batch(ppo)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))  # a second passes between two reports
    with listen(lambda text, done, total: reports.append((text, done, total))):
        update(ppo, batch)
    steps = [report for report in reports if report[2] == 5]
    assert steps == 2 * [(UPDATING, done, 5) for done in range(1, 6)]


def test_samples_and_gradient_steps_are_counted_per_pass(make_ppo, make_batch):
    """Three passes in five minibatches over 48 decisions."""
    ppo = make_ppo(epochs=3, num_minibatches=5)
    _, result = update(ppo, make_batch(ppo))
    assert (result.samples, result.gradient_steps) == (144, 15)


def test_a_fractional_pass_draws_a_share_of_the_batch(make_ppo, make_batch):
    """One and a quarter: all of 48 decisions in four minibatches, then 12 of them in one."""
    ppo = make_ppo(epochs=1.25, num_minibatches=4)
    _, result = update(ppo, make_batch(ppo))
    assert (result.samples, result.gradient_steps) == (60, 5)


def test_fewer_decisions_than_minibatches(make_ppo, make_batch):
    """A tiny batch has as many minibatches as decisions."""
    ppo = make_ppo(num_minibatches=5)
    _, result = update(ppo, make_batch(ppo, steps=1, segments=2))
    assert (result.samples, result.gradient_steps) == (2, 2)


def test_undefined_entries_have_no_influence(make_ppo, make_batch):
    """Entries that are not trainable may hold anything."""
    ppo = make_ppo()
    clean, dirty = make_batch(ppo), make_batch(ppo)
    for batch in (clean, dirty):
        batch.length[:3] = 4
        batch.truncated[1, 5] = True
        batch.decided[2, 5] = False
    dirty.reward[2, 5] = np.nan
    dirty.reward[4:, :3] = np.nan
    dirty.action[5:, :3] = 99
    dirty.observation["obs"][5:, :3] = np.nan
    dirty.extras["value"][5:, :3] = np.nan
    dirty.extras["log_prob"][5:, :3] = np.nan
    assert same(update(ppo, clean)[0].weights(), update(ppo, dirty)[0].weights())


def test_objectives_agree_on_a_single_label(make_ppo, make_batch):
    """With one label, the sum over labels equals the joint objective."""
    per_label, joint = (make_ppo(label_objective=name) for name in ("per-label", "joint"))
    batch = make_batch(per_label)
    assert same(update(per_label, batch)[0].weights(), update(joint, batch)[0].weights())


def test_objectives_differ_on_several_labels(make_ppo, make_batch):
    """With two labels they differ, once the policy has moved."""
    options = {"learning_rate": 0.05, "num_minibatches": 4}
    per_label = make_ppo(BUTTON_AND_MOVE, **options)
    joint = make_ppo(BUTTON_AND_MOVE, label_objective="joint", **options)
    batch = make_batch(per_label)
    assert not same(update(per_label, batch)[0].weights(), update(joint, batch)[0].weights())


@pytest.mark.parametrize(("label_objective", "clipped"), [("per-label", 0.0), ("joint", 1.0)])
def test_the_clip_fraction_counts_the_ratios_of_the_objective(make_ppo, make_batch, label_objective, clipped):
    """Two labels with ratio 1.16 are within the clip range of 0.2; the joint ratio is not."""
    ppo = make_ppo(BUTTON_AND_MOVE, label_objective=label_objective, learning_rate=1e-9)
    batch = make_batch(ppo)
    batch.extras["log_prob"] -= 0.15
    metrics = ppo.make_trainer(seed=1).update(batch, progress=0.0).metrics
    assert metrics["clip_fraction"] == clipped
    assert metrics["approx_kl"] == pytest.approx(math.exp(0.3) - 1.3, rel=1e-3)


def test_how_far_the_policy_moved_is_the_mean_over_all_steps(make_ppo, make_batch, monkeypatch):
    """Two steps of half a pass count half as much as four of a whole pass."""
    trainer = make_ppo(epochs=1.5, num_minibatches=4, learning_rate=0.05).make_trainer(seed=1)
    found, policy_loss = [], trainer._gradient_step._policy_loss
    monkeypatch.setattr(
        trainer._gradient_step, "_policy_loss", lambda *inputs: found.append(policy_loss(*inputs)) or found[-1]
    )
    metrics = trainer.update(make_batch(make_ppo()), progress=0.0).metrics
    kl, outside = (np.mean([step[i].item() for step in found]) for i in (1, 2))
    assert len(found) == 6
    assert kl > 0
    assert (metrics["approx_kl"], metrics["clip_fraction"]) == pytest.approx((kl, outside))


@pytest.mark.parametrize("label_objective", ["per-label", "joint"])
def test_unused_labels_are_not_learned(make_ppo, make_batch, label_objective):
    """The outputs of a label that no action uses do not change."""
    ppo = make_ppo(BUTTON_AND_MOVE, label_objective=label_objective, labels_used=((True, False),) * 3)
    batch = make_batch(ppo)
    before, after = ppo.make_trainer(seed=1).weights(), update(ppo, batch)[0].weights()
    head = "network.heads.policy.out.weight"
    np.testing.assert_array_equal(after[head][3:], before[head][3:])
    assert (after[head][:3] != before[head][:3]).all()


@pytest.mark.parametrize("label_objective", ["per-label", "joint"])
def test_declaring_all_labels_used_changes_nothing(make_ppo, make_batch, label_objective):
    """Compared with a role without `labels_used`."""
    ppo = make_ppo(BUTTON_AND_MOVE, label_objective=label_objective)
    batch = make_batch(ppo)
    expected = update(ppo, batch)[0].weights()
    declared = make_ppo(BUTTON_AND_MOVE, label_objective=label_objective, labels_used=((True, True),) * 3)
    for name, array in update(declared, batch)[0].weights().items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-6)


def test_every_update_has_its_own_minibatch_order(make_ppo, make_batch):
    """The order follows from the seed and the number of updates, both part of the state."""
    ppo = make_ppo()
    batch = make_batch(ppo)
    trainer, _ = update(ppo, batch)
    assert trainer.state()["updates"] == 1
    start, later, earlier = ppo.make_trainer(seed=1), ppo.make_trainer(seed=1), trainer.state()
    for name, array in start.state().items():
        earlier[name] = np.array(9) if name == "updates" else array
    later.load_state(earlier)
    for one in (start, later):
        one.update(batch, progress=0.0)
    assert not same(start.weights(), later.weights())


def test_schedules_follow_progress(make_ppo, make_batch):
    """Step size and entropy bonus are interpolated over the training budget."""
    ppo = make_ppo(
        learning_rate=1e-3,
        learning_rate_schedule="linear",
        ent_coef=0.01,
        ent_coef_final=0.002,
        clip_epsilon=0.2,
        clip_epsilon_final=0.1,
    )
    _, result = update(ppo, make_batch(ppo), progress=0.75)
    assert result.metrics["clip_epsilon"] == pytest.approx(0.125)
    assert result.metrics["learning_rate"] == pytest.approx(2.5e-4)
    assert result.metrics["ent_coef"] == pytest.approx(0.004)


def test_without_schedules_progress_has_no_influence(make_ppo, make_batch):
    """Which is the default."""
    ppo = make_ppo()
    batch = make_batch(ppo)
    early, late = (update(ppo, batch, progress=progress)[0].weights() for progress in (0.0, 0.9))
    assert same(early, late)


def test_entropy_bonus_raises_entropy(make_ppo, make_batch):
    """Without rewards, the policy becomes more random."""
    ppo = make_ppo(ent_coef=1.0, learning_rate=0.01, vf_coef=0.0, epochs=30)
    batch = make_batch(ppo)
    batch.reward[:] = 0
    batch.extras["value"][:] = 0
    first, trainer = update(ppo, batch)[1], ppo.make_trainer(seed=1)
    for _ in range(3):
        last = trainer.update(batch, progress=0.0)
    assert last.metrics["entropy"] > first.metrics["entropy"] - 1e-6
    assert last.metrics["entropy"] == pytest.approx(np.log(4), abs=1e-3)


def test_target_kl_stops_the_passes(make_ppo, make_batch):
    """No further pass is made once the policy has moved too far."""
    options = {"learning_rate": 0.05, "epochs": 10, "num_minibatches": 2}
    free, bound = make_ppo(**options), make_ppo(target_kl=1e-4, **options)
    batch = make_batch(free)
    assert update(free, batch)[1].gradient_steps == 20
    assert update(bound, batch)[1].gradient_steps == 2


def test_discount_per_tick_uses_the_elapsed_ticks(make_ppo, make_batch):
    """Returns of decisions far apart in time are discounted more."""
    per_decision, per_tick = make_ppo(gamma=0.5), make_ppo(gamma=0.5, discount_per="tick")
    batch = make_batch(per_decision)
    returns = [update(ppo, batch)[1].metrics["return_mean"] for ppo in (per_decision, per_tick)]
    assert returns[0] == returns[1]
    batch.elapsed_ticks[:] = 60
    far = update(per_tick, batch)[1].metrics["return_mean"]
    assert far == pytest.approx(batch.reward[:8].mean(), abs=1e-6)
    assert update(per_decision, batch)[1].metrics["return_mean"] == returns[0]


def test_explained_variance_of_perfect_values(make_ppo, make_batch):
    """Values that predict the returns explain all of their variance; constant returns count as 0."""
    ppo = make_ppo()
    batch = make_batch(ppo)
    batch.terminated[:] = True
    batch.extras["value"] = batch.reward.copy()
    assert update(ppo, batch)[1].metrics["explained_variance"] == pytest.approx(1.0)
    batch.reward[:] = 1.0
    assert update(ppo, batch)[1].metrics["explained_variance"] == 0.0


@pytest.mark.parametrize("array", ["reward", "observation", "value", "log_prob"])
def test_a_batch_with_nan_is_refused(make_ppo, make_batch, array):
    """The error states what to check, and the trainer is unchanged."""
    ppo = make_ppo()
    trainer, untouched = ppo.make_trainer(seed=1), ppo.make_trainer(seed=1)
    good, bad = make_batch(ppo), make_batch(ppo, seed=5)
    place = {"reward": bad.reward, "observation": bad.observation["obs"]} | bad.extras
    place[array][3, 2] = np.nan
    for _ in range(2):
        with pytest.raises(ContractError, match="not finite; the update was dropped — check observations and rewards"):
            trainer.update(bad, progress=0.0)
        trainer.update(good, progress=0.0)
        untouched.update(good, progress=0.0)
        assert same(trainer.weights(), untouched.weights())
        assert same(trainer.state(), untouched.state())


def test_a_batch_without_decisions_is_refused(make_ppo, make_batch):
    """There is nothing to learn from."""
    ppo = make_ppo()
    batch = make_batch(ppo)
    batch.decided[:] = False
    with pytest.raises(ContractError, match="without a single trainable decision"):
        update(ppo, batch)


def test_a_mask_that_forbids_a_recorded_action_is_refused(make_ppo, make_batch):
    """Actions and masks contradict each other."""
    ppo = make_ppo()
    batch = make_batch(ppo)
    batch.action_mask = np.ones((9, 6, 4), bool)
    batch.action_mask[2, 3, batch.action[2, 3, 0]] = False
    with pytest.raises(ContractError, match="forbidden by its own mask"):
        update(ppo, batch)


def close(one, other, *, atol) -> None:
    """Compare two sets of arrays up to rounding."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], rtol=1e-4, atol=atol, err_msg=name)


OPTIONS = {
    "num_minibatches": 2,
    "learning_rate": 1e-3,
    "adam_eps": 1e-3,
}  # a large epsilon, as the sign of tiny gradients is noise


@pytest.mark.parametrize("kernels", ["onednn", "torch"])
@pytest.mark.parametrize("action_space", [None, BUTTON_AND_MOVE, spaces.Box(-1, 1, (2,), np.float32)])
def test_kernels_make_no_difference(make_ppo, make_batch, action_space, kernels):
    """Updates with fused and with plain layers give equal weights up to rounding."""
    fast, plain = (make_ppo(action_space, cpu_kernels=name, **OPTIONS) for name in (kernels, "plain"))
    batch = make_batch(plain)
    (one, result), (other, expected) = update(fast, batch), update(plain, batch)
    close(one.weights(), other.weights(), atol=1e-6)
    assert result.metrics == pytest.approx(expected.metrics, rel=1e-4, abs=1e-5)


def test_threads_make_no_difference(make_ppo, make_batch):
    """One thread and three give equal weights up to rounding; equal numbers of threads, to the bit."""
    ppo = make_ppo(**OPTIONS)
    batch = make_batch(ppo, steps=32, segments=160)
    before, trained = torch.get_num_threads(), []
    try:
        for threads in (1, 3, 3):
            torch.set_num_threads(threads)
            trained.append(update(ppo, batch))
    finally:
        torch.set_num_threads(before)
    (alone, expected), (one, result), (other, again) = trained
    close(one.weights(), alone.weights(), atol=1e-6)
    assert result.metrics == pytest.approx(expected.metrics, rel=1e-4, abs=1e-5)
    assert same(one.weights(), other.weights())
    assert result.metrics == again.metrics


def test_a_critic_without_its_privileged_leaves_is_refused(make_ppo, make_batch):
    """Learning needs them, acting does not; the trainer is unchanged."""
    ppo = make_ppo(privileged=spaces.Dict({"fog": spaces.Box(-1, 1, (2,), np.float32)}))
    assert update(ppo, make_batch(ppo, privileged={"fog": 2}))[1].samples == 48
    trainer, untouched = ppo.make_trainer(seed=1), ppo.make_trainer(seed=1)
    with pytest.raises(ContractError, match="the batch carries none"):
        trainer.update(make_batch(ppo), progress=0.0)
    assert same(trainer.weights(), untouched.weights())
    assert same(trainer.state(), untouched.state())


def test_half_precision_stays_close(make_ppo, make_batch):
    """Only products of networks are rounded; weights, losses and Adam have 32 bits."""
    half, full = (make_ppo(precision=name, **OPTIONS) for name in ("bf16", "fp32"))
    batch = make_batch(full)
    (one, result), (other, expected) = update(half, batch), update(full, batch)
    assert {array.dtype for array in one.weights().values()} == {np.dtype(np.float32)}
    assert result.metrics == pytest.approx(expected.metrics, rel=0.05, abs=0.02)
    assert not same(one.weights(), other.weights())
    assert distance(one, other) < 0.2 * distance(full.make_trainer(seed=1), other)


def distance(one, other) -> float:
    """Return the distance between the weights of two trainers."""
    others = other.weights()
    return float(np.linalg.norm(np.concatenate([(others[name] - a).ravel() for name, a in one.weights().items()])))


WIDE = (48, 32)  # enough for gradients to be rounded


@pytest.mark.parametrize("kernels", ["auto", "torch", "plain"])
def test_rounded_gradients_do_not_change_losses(make_ppo, make_batch, kernels):
    """At the first step, losses are equal to the bit and the step is nearly equal."""
    options = {**OPTIONS, "num_minibatches": 1, "cpu_kernels": kernels, "hidden": WIDE}
    rounded, full = (make_ppo(precision=name, **options) for name in ("bf16-backward", "fp32"))
    batch = make_batch(full)
    (one, result), (other, expected) = update(rounded, batch), update(full, batch)
    norm = result.metrics.pop("grad_norm")
    assert norm == pytest.approx(expected.metrics.pop("grad_norm"), rel=0.01)
    assert result.metrics == expected.metrics
    assert 0 < distance(one, other) < 0.02 * distance(full.make_trainer(seed=1), other)


@pytest.mark.parametrize(("native", "same_as"), [(True, "bf16-backward"), (False, "fp32")])
def test_automatic_precision_follows_the_processor(make_ppo, make_batch, monkeypatch, native, same_as):
    """It chooses one of two others."""
    monkeypatch.setattr("ludus_ppo.numerics.has_bf16", lambda: native)
    names = ("auto", same_as, "fp32")
    automatic, chosen, full = (make_ppo(precision=name, hidden=WIDE, **OPTIONS) for name in names)
    batch = make_batch(chosen)
    weights = update(automatic, batch)[0].weights()
    assert same(weights, update(chosen, batch)[0].weights())
    assert same(weights, update(full, batch)[0].weights()) == (not native)


def test_read_only_views_give_the_same_update(make_ppo, make_batch):
    """As parts of shared blocks are."""
    ppo = make_ppo()
    batch = make_batch(ppo)

    def shared(array):
        block = np.zeros((array.shape[0], array.shape[1] + 3, *array.shape[2:]), array.dtype)
        block[:, 1:-2] = array
        block.flags.writeable = False
        return block[:, 1:-2]

    views = type(batch).from_arrays({name: shared(a) if a.ndim > 1 else a for name, a in batch.arrays().items()})
    assert same(update(ppo, batch)[0].weights(), update(ppo, views)[0].weights())


def test_resuming_is_bit_exact(make_ppo, make_batch, tmp_path):
    """Three updates, a file and three updates equal six updates."""
    ppo = make_ppo(epochs=2, learning_rate=0.01)
    batches = [make_batch(ppo, seed=seed) for seed in range(6)]
    straight, first, second = (ppo.make_trainer(seed=seed) for seed in (1, 1, 77))
    for batch in batches:
        straight.update(batch, progress=0.0)
    for batch in batches[:3]:
        first.update(batch, progress=0.0)
    np.savez(tmp_path / "weights.npz", **first.weights())
    np.savez(tmp_path / "state.npz", **first.state())
    with np.load(tmp_path / "weights.npz") as weights, np.load(tmp_path / "state.npz") as state:
        second.load_weights(dict(weights))
        second.load_state(dict(state))
    for batch in batches[3:]:
        second.update(batch, progress=0.0)
    assert same(second.weights(), straight.weights())
    assert same(second.state(), straight.state())


def test_the_state_of_another_network_is_refused(make_ppo):
    """Shapes that do not fit raise an error."""
    trainer, other = make_ppo().make_trainer(seed=1), make_ppo(spaces.Discrete(5)).make_trainer(seed=1)
    with pytest.raises(ModelError, match="has shape"):
        trainer.load_state(other.state())


def test_equal_seeds_give_equal_weights(make_ppo):
    """Torch's global generator is not used."""
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    one, same_seed, other = (make_ppo().make_trainer(seed=seed).weights() for seed in (3, 3, 4))
    assert torch.rand(1) == expected
    assert same(one, same_seed)
    assert not same(one, other)


def test_learning_imports_no_compiler():
    """Neither torch's compiler nor sympy, which cost half a second and 36 MB in every learner."""
    code = """
import sys
from ludus.testing import check_algorithm
from ludus_ppo.algorithm import PPO
from ludus_ppo.config import PPOConfig
check_algorithm(lambda context: PPO(PPOConfig(), context=context))
print("sympy" in sys.modules, "torch._dynamo" in sys.modules)
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]
