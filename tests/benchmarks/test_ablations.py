"""Sweeps: what they try and what they choose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

RATE = "players.main.ppo.learning_rate"


@pytest.fixture
def ablations(monkeypatch):
    """Return the script as a module."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import ablations

    return ablations


def test_a_sweep_tries_every_value_with_every_variant(ablations):
    """In place of the variant's own value; nothing is expected of any."""
    proof = ablations.PROOFS["labels"]
    name, values = proof.swept
    tried = proof.sweep().variants
    assert list(tried) == [f"{label}, {value}" for label in proof.variants for value in values]
    for label, variant in tried.items():
        ratio, value = label.split(", ")
        assert sorted(variant.settings) == [f"players.main.ppo.label_objective={ratio}", f"{RATE}={value}"]
        assert variant.solves is None
    assert name == RATE


def test_the_rates_of_the_proof_are_among_those_tried(ablations):
    """What was chosen by a sweep can be chosen by it again."""
    name, values = ablations.PROOFS["labels"].swept
    for variant in ablations.PROOFS["labels"].variants.values():
        (own,) = [setting for setting in variant.settings if setting.startswith(name)]
        assert own.removeprefix(f"{name}=") in values


def test_a_sweep_chooses_by_the_mean_over_seeds(ablations, monkeypatch, tmp_path, capsys):
    """Of each variant; a single good seed does not decide."""
    scores = {
        "labels-per-label_5e-3-11": 0.5,
        "labels-per-label_5e-3-12": 0.6,
        "labels-per-label_1e-2-12": 0.9,
        "labels-joint_2.5e-3-11": 0.5,
    }
    monkeypatch.setattr(ablations, "train", lambda *_, **__: {"cpu_s": 1.0, "wall_s": 1.0})

    def evaluate(folder, **_):
        return {"return": scores.get(folder.name, 0.0), "won": 0.0}

    monkeypatch.setattr(ablations, "evaluate", evaluate)
    arguments = ["labels", "--sweep", "--seeds", "11", "12", "--runs", str(tmp_path)]
    assert ablations.main([*arguments, "--json", str(tmp_path / "told.json")]) == 0
    told = capsys.readouterr().out
    assert "best for per-label: 5e-3 (0.550 on average)" in told
    assert "best for joint: 2.5e-3 (0.250 on average)" in told
    assert len(json.loads((tmp_path / "told.json").read_text())["labels"]["variants"]) == 8
