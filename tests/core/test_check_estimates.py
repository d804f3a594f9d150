"""The check estimates memory and the time of updates."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from gymnasium import spaces
from ludus import ConfigError, Role
from ludus._config.run_config import load_config
from ludus._plugins.manager import load_plugins
from ludus.testing import _estimates
from ludus.testing._estimates import (
    MemoryEstimate,
    check_memory,
    check_update_time,
    decision_bytes,
    estimate_memory,
)

ROLE = Role(
    name="player",
    observation_space=spaces.Box(0, 255, (84, 84, 4), np.uint8),
    action_space=spaces.Discrete(6),
    teams=(0, 1),
    privileged_space=spaces.Dict({"state": spaces.Box(-1, 1, (10,), np.float32)}),
)
ROW = 84 * 84 * 4 + 10 * 4 + 6 + 8 + 64


@pytest.fixture
def config(tmp_path):
    """Return a run of PPO with 16 matches."""
    path = tmp_path / "run.toml"
    path.write_text(
        """
[environment]
name = "connect4"
[sampling]
matches = 16
[players.main]
algorithm = "ppo"
network = "mlp"
matchmaker = "latest-self-play"
ppo = { batch_decisions = 1000, segment_decisions = 32 }
""",
        encoding="utf-8",
    )
    return load_config(path, plugins=load_plugins())


def test_sizes_follow_shapes_and_options(config):
    """Segments: T + 1 entries of every seat; two batches; 16 bytes per weight."""
    assert decision_bytes(ROLE) == ROW
    estimate = estimate_memory(config, config.players["main"], ROLE, num_weights=500, segment_decisions=32)
    assert estimate == MemoryEstimate(weights=8_000, segments=33 * 16 * 2 * ROW, batch=2 * 1000 * ROW)
    assert estimate.learner == 8_000 + 2 * 1000 * ROW
    assert estimate.sampler == 33 * 16 * 2 * ROW + 2_000


@pytest.mark.parametrize(
    ("sizes", "advice"),
    [
        ({"weights": 3}, "fewer or smaller layers in players.main.mlp"),
        ({"batch": 3}, r"fewer players.main.ppo.batch_decisions \(now 1,000\)"),
        ({"segments": 3}, r"fewer sampling.matches \(now 16\), shorter players.main.ppo.segment_decisions \(now 32\)"),
    ],
)
def test_what_does_not_fit_names_the_largest_part(config, monkeypatch, sizes, advice):
    """An error above the memory of the machine, a warning above half of it, else a line."""
    estimate = evolve(MemoryEstimate(weights=0, segments=0, batch=0), **{key: v * 10**9 for key, v in sizes.items()})

    def lines(machine):
        monkeypatch.setattr(_estimates, "memory_bytes", lambda: machine)
        return list(check_memory(config, config.players["main"], estimate, samplers=1))

    assert len(lines(8 * 10**9)) == 1
    _, warning = lines(4 * 10**9)
    assert warning.status == "warn"
    with pytest.raises(ConfigError, match=rf"players.main: .* of the 2.0 GB of this machine; expected {advice}"):
        lines(2 * 10**9)


def test_a_long_update_is_a_warning(config):
    """Above half of the time after which a silent learner is restarted."""
    player, limit = config.players["main"], config.run.stall_s / 2
    assert not list(check_update_time(config, player, update_s=limit, batch=1000))
    (warning,) = check_update_time(config, player, update_s=2 * limit, batch=1000)
    assert "fewer players.main.ppo.batch_decisions, or a longer run.stall_s" in warning.text
