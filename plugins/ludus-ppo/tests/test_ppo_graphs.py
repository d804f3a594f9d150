"""Passes that are recorded as CUDA graphs: equal to those that are not."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus_networks.config import ModularConfig
from ludus_networks.modular import make_modular
from ludus_ppo.trainer import PPOTrainer
from ludus_torch.testing import recorded_on_cpu

LABELS = {"action_space": spaces.MultiDiscrete([3, 4]), "labels_used": ((True, True), (True, False), (True, True))}
CASES = {
    "discrete": {},
    "labels": LABELS,
    "joint": {**LABELS, "label_objective": "joint"},
    "continuous": {"action_space": spaces.Box(-1, 1, (2,), np.float32)},
    "values": {"value_clip": 0.1, "normalize_value": True},
    "schedules": {"ent_coef_final": 0.1, "clip_epsilon_final": 0.01, "learning_rate_schedule": "linear"},
    "passes": {"epochs": 2.5, "target_kl": 10.0},
    "vtrace": {"advantage": "vtrace"},
    "lstm": {"core": "lstm"},
    "gru": {"core": "gru", "burn_in": 3},
}
#: So that minibatches differ in size, and in what they are filled up to.
SEGMENTS = (40, 41, 40, 57, 41, 40)


@pytest.fixture
def repeated(monkeypatch):
    """Let a CPU record. Return the functions that were recorded."""
    monkeypatch.setattr(PPOTrainer, "_records", property(lambda trainer: trainer._config.cuda_graphs))
    with recorded_on_cpu() as made:
        yield made


@pytest.fixture
def updated(make_ppo, make_batch):
    """Return a function that learns from several batches, and returns the metrics of each and the weights."""

    def update(options, *, device="cpu", cuda_graphs):
        core = options.get("core", "")

        def build(request):
            return make_modular(ModularConfig(torso=(16,), core=core, core_size=8, activation="tanh"), request=request)

        given = {name: option for name, option in options.items() if name != "core"}
        ppo = make_ppo(
            **given,
            **({"build_network": build} if core else {}),
            cpu_kernels="plain",
            precision="fp32",
            num_minibatches=3,
            learning_rate=3e-3,
            cuda_graphs=cuda_graphs,
        )
        player = make_ppo() if core else ppo
        trainer = ppo.make_trainer(seed=7, device=device)
        metrics = []
        for number, segments in enumerate(SEGMENTS):
            batch = make_batch(player, segments=segments, seed=number)
            batch.reward *= number + 1.0
            batch.initial_state = {
                name: np.zeros((segments, *leaf.shape[1:]), leaf.dtype)
                for name, leaf in ppo.make_policy().initial_state(1).items()
            }
            result = trainer.update(batch, progress=number / len(SEGMENTS))
            metrics.append({**result.metrics, "samples": result.samples, "steps": result.gradient_steps})
        return metrics, trainer.weights()

    return update


def compare(one, other, *, rtol=2e-5, atol=2e-6):
    """Compare metrics and weights."""
    for ours, theirs in zip(one[0], other[0], strict=True):
        assert ours == pytest.approx(theirs, rel=50 * rtol, abs=50 * atol)
    for name, array in other[1].items():
        np.testing.assert_allclose(one[1][name], array, rtol=rtol, atol=atol)


@pytest.mark.parametrize("case", CASES)
def test_passes_that_are_repeated_learn_the_same(updated, repeated, case):
    """Rows that fill up to a size that was recorded count nothing."""
    plain = updated(CASES[case], cuda_graphs=False)
    assert not repeated
    compare(updated(CASES[case], cuda_graphs=True), plain)
    assert len(repeated) == (4 if case == "passes" else 1)  # sizes that came twice, of whole passes and of a half


def test_groups_and_compiled_steps_are_not_recorded(make_ppo, monkeypatch):
    """Nor are those on a CPU."""
    monkeypatch.setattr(torch, "compile", lambda function: function)
    trainer = make_ppo().make_trainer(seed=0)
    assert not trainer._records
    trainer._device = torch.device("cuda")
    assert trainer._records
    trainer.join(SimpleNamespace(rank=0, size=2))
    assert not trainer._records
    for options in ({"compile": True}, {"cuda_graphs": False}):
        trainer = make_ppo(**options).make_trainer(seed=0)
        trainer._device = torch.device("cuda")
        assert not trainer._records


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("case", CASES)
def test_a_gpu_learns_the_same(updated, caplog, monkeypatch, case):
    """Recorded or not, as a CPU does."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    here = updated(CASES[case], cuda_graphs=False)
    for cuda_graphs in (False, True):
        compare(updated(CASES[case], device="cuda", cuda_graphs=cuda_graphs), here, rtol=1e-3, atol=1e-4)
    assert not caplog.records
