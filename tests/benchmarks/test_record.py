"""What is recorded of `ludus bench`."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def record(monkeypatch, tmp_path):
    """Return the script as a module; its results go to a folder of the test."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import record

    monkeypatch.setattr(record, "RESULTS", tmp_path)
    return record


def test_no_record_is_replaced_when_a_command_is_misspelt(record, capsys, tmp_path):
    """What there is instead is told; those that are known are not run either."""
    (tmp_path / "mine.json").write_text("kept")
    with pytest.raises(SystemExit) as stopped:
        record.main(["mine", "transport", "upate"])
    assert stopped.value.code == 2
    assert "unknown: upate; there are env, forward, update," in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("mine.json", "kept")]
