"""Gradient steps that run as CUDA graphs equal those that do not."""

from __future__ import annotations

from types import SimpleNamespace

import attrs
import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus_networks.config import ModularConfig
from ludus_networks.modular import make_modular
from ludus_ppo.numerics import Numerics
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
#: Minibatches differ in size.
SEGMENTS = (40, 41, 40, 57, 41, 40)


@pytest.fixture
def repeated(monkeypatch):
    """Record on the CPU. Return the list of recorded functions."""
    choose = Numerics.choose
    monkeypatch.setattr(
        Numerics, "choose", lambda config, device: attrs.evolve(choose(config, device), graphed=config.cuda_graphs)
    )
    with recorded_on_cpu() as made:
        yield made


@pytest.fixture
def updated(make_ppo, make_batch):
    """Return a function that makes several updates, and returns their metrics and the final weights."""

    def update(options, *, device="cpu", cuda_graphs):
        core = options.get("core", "")

        def build(request):
            return make_modular(ModularConfig(torso=(16,), core=core, core_size=8, activation="tanh"), request=request)

        ppo_options = {name: option for name, option in options.items() if name != "core"}
        ppo = make_ppo(
            **ppo_options,
            **({"build_network": build} if core else {}),
            cpu_kernels="onednn",
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
def test_graphed_steps_learn_the_same(updated, repeated, case):
    """Steps of a size that recurs are recorded; those of recurrent networks are not."""
    plain = updated(CASES[case], cuda_graphs=False)
    assert not repeated
    compare(updated(CASES[case], cuda_graphs=True), plain)
    assert bool(repeated) == (case not in ("lstm", "gru"))


def step_inputs(*, rows=64, unrolled=None, size=1):
    """Return the inputs that decide whether a step is graphed."""
    return SimpleNamespace(
        minibatch=SimpleNamespace(num_rows=rows, unrolled=unrolled), group=SimpleNamespace(rank=0, size=size)
    )


@pytest.mark.parametrize(
    ("inputs", "graphed"),
    [
        (step_inputs(), True),
        (step_inputs(rows=65), False),
        (step_inputs(unrolled=object()), False),
        (step_inputs(size=2), False),
    ],
    ids=["recurring size", "remainder", "recurrent", "process group"],
)
def test_which_steps_are_graphed(make_ppo, repeated, inputs, graphed):
    """Steps without communication and with a size that recurs."""
    step = make_ppo().make_trainer(seed=0)._gradient_step
    assert step._is_graphed(inputs) is graphed


def test_graphs_are_for_gpus_and_exclude_compiling(make_ppo):
    """On a CPU they are off."""
    cuda = torch.device("cuda")
    assert Numerics.choose(make_ppo()._config, cuda).graphed
    assert not Numerics.choose(make_ppo()._config, torch.device("cpu")).graphed
    for options in ({"compile": True}, {"cuda_graphs": False}):
        assert not Numerics.choose(make_ppo(**options)._config, cuda).graphed


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("case", CASES)
def test_a_gpu_learns_the_same(updated, caplog, monkeypatch, case):
    """Graphed or not."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    here = updated(CASES[case], cuda_graphs=False)
    for cuda_graphs in (False, True):
        compare(updated(CASES[case], device="cuda", cuda_graphs=cuda_graphs), here, rtol=1e-3, atol=1e-4)
    assert not caplog.records
