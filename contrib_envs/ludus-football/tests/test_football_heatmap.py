"""``ludus football-heatmap``: where the players of a team are."""

from __future__ import annotations

import json

import ludus
import numpy as np
import pytest
from click.testing import CliRunner
from ludus.errors import ConfigError
from ludus_football.command import football_heatmap
from ludus_football.positions import SHAPE, PositionHistogram, team_positions
from ludus_football.representations import GlobalEncoder
from ludus_football.state import FIELD_Y, State


def test_cells_of_positions():
    """Corners are the cells at the corners, positions beyond a line count next to it."""
    histogram = PositionHistogram()
    rows, columns = SHAPE
    histogram.add(np.array([[-1.0, -FIELD_Y], [1.0, FIELD_Y], [1.07, 0.5], [0.01, 0.0], [0.01, 0.0]]))
    expected = np.zeros(SHAPE)
    expected[0, 0], expected[-1, -1], expected[rows // 2, columns // 2] = 1, 2, 2
    assert np.array_equal(histogram.counts, expected)
    assert histogram.shares[-1, -1] == pytest.approx(0.4)
    assert histogram.thirds() == pytest.approx((0.2, 0.4, 0.4))


def test_no_positions():
    """Shares are zeros then."""
    assert PositionHistogram().thirds() == (0.0, 0.0, 0.0)


def test_positions_of_both_teams():
    """Each team sees itself attack to the right; neither the goalkeeper nor players sent off are counted."""
    state = State.empty((3, 3), (1, 1))
    state.position[0] = [(-1, 0), (-0.5, 0.1), (0.2, -0.3)]
    state.position[1] = [(1, 0), (0.4, 0.1), (0.6, -0.2)]
    state.active[:] = True
    state.active[0, 1] = False
    encoder = GlobalEncoder((3, 3))
    states = np.zeros((2, *encoder.shape), np.float32)
    encoder.encode(state, states)
    assert team_positions(states[:1]) == pytest.approx(np.array([[0.2, -0.3]]))
    assert team_positions(states[1:]) == pytest.approx(np.array([[-0.4, -0.1], [-0.6, 0.2]]))


def test_positions_of_recorded_states(recording):
    """All outfield players of a team of five are counted."""
    states = recording.states("five")
    encoder = GlobalEncoder((5, 5))
    for state in states:
        out = np.zeros((len(state.team), *encoder.shape), np.float32)
        encoder.encode(state, out)
        assert team_positions(out[:1]) == pytest.approx(state.position[0, 1:5][state.active[0, 1:5]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a run of a few matches with the real engine."""
    pytest.importorskip("gfootball_engine", reason="needs the engine: pip install 'ludus-football[engine]'")
    tables = {
        "run": {"seed": 1, "workers": 0, "decisions": 1200},
        "environment": {"name": "football", "football": {"scenario": "5v5", "max_ticks": 40}},
        "sampling": {"matches": 2, "fixture_matches": 2, "rows_per_fixture": 8},
        "players": {
            "main": {
                "algorithm": "ppo",
                "network": "mlp",
                "matchmaker": "latest-self-play",
                "freeze_every_decisions": 600,
                "ppo": {"segment_decisions": 16, "batch_decisions": 256},
            }
        },
        "anchors": {"easy": {"agent": "builtin", "builtin": {"name": "easy"}}},
        "evaluation": {"matches": 2, "final_matches": 0},
    }
    run_dir = tmp_path_factory.mktemp("runs") / "football"
    with ludus.train(tables, run_dir=run_dir):
        return run_dir


def invoke(*arguments):
    """Run the command and return its output."""
    result = CliRunner().invoke(football_heatmap, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_matches_of_the_real_game(folder, tmp_path):
    """Every step but the last one of a match counts four players; the same seeds give the same figures."""
    command = (folder, "main@latest", "easy", "main@1", "--matches", 2, "--out", tmp_path / "maps")
    found = json.loads(invoke(*command, "--json"))
    assert [one["opponent"] for one in found["opponents"]] == ["easy", "main@1"]
    counts = [np.array(one["histogram"]) for one in found["opponents"]]
    assert [count.sum() for count in counts] == [4 * 2 * 39] * 2
    assert not np.array_equal(*counts)
    assert all(sum(one["thirds"]) == pytest.approx(1) for one in found["opponents"])
    names = sorted(path.name for path in (tmp_path / "maps").iterdir())
    assert names == ["heatmap-main@latest-easy.png", "heatmap-main@latest-main@1.png"]
    assert (tmp_path / "maps" / names[0]).read_bytes().startswith(b"\x89PNG")
    assert invoke(*command).count("own third") == 2


def test_built_in_bots_have_positions(folder, tmp_path):
    """No seat acts in their matches."""
    found = json.loads(invoke(folder, "easy", "easy", "--matches", 1, "--out", tmp_path, "--json"))
    assert np.sum(found["opponents"][0]["histogram"]) == 4 * 39


def test_unknown_participants_are_one_line(folder):
    """Nothing is played."""
    with pytest.raises(ConfigError, match="nobody"):
        invoke(folder, "main@latest", "nobody")
