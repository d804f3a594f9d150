"""The league that all receivers belong to: two players in NumPy, trained until both have a frozen model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from ludus._config.run_config import parse_config
from ludus._plugins.manager import load_plugins
from ludus._run.context import RunContext
from ludus._run.worker_factories import make_segment_layout
from ludus.testing import league_runner
from ludus.wire import Message
from tomli_w import dumps as write_toml

_PER_KIND = 4  # recorded messages of each kind, pair of sender and receiver

_PLAYER = {
    "algorithm": "dummy-gradient",
    "dummy-gradient": {"segment_decisions": 4, "batch_decisions": 64},
    "matchmaker": "dummy-uniform",
    "freeze_every_decisions": 300,
}

#: Tables of the run.
TABLES: Mapping[str, Any] = {
    "run": {"seed": 3, "decisions": 10**12, "stall_s": 1.0},
    "environment": {"name": "dummy-count"},
    "sampling": {"matches": 4, "fixture_matches": 4, "rows_per_fixture": 2},
    "players": {"main": _PLAYER, "other": _PLAYER},
    "anchors": {"random": {"agent": "dummy-random"}},
    "evaluation": {"matches": 4, "fixture_matches": 4, "final_matches": 4},
}


@frozen
class Trained:
    """A trained league that is not changed any more.

    Attributes:
        folder: Its run folder.
        sent: Messages that its workers have sent, as (sender, receiver, message).
        hashes: Hashes of its frozen models.
        participants: Names of its frozen models.
    """

    folder: Path
    sent: tuple[tuple[str, str, Message], ...]
    hashes: tuple[str, ...]
    participants: tuple[str, ...]

    def copy(self, folder: Path) -> RunContext:
        """Copy the run folder, in place of an earlier copy, and return the context of its workers."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        return RunContext(config=_config(), plugins=load_plugins(), run_dir=folder, session=7)


def helper_context(folder: Path) -> RunContext:
    """Return the context of a run in a new folder whose player ``main`` can learn in several processes."""
    folder.mkdir(parents=True)
    learner = {"segment_decisions": 4, "batch_decisions": 16, "num_minibatches": 1, "epochs": 1}
    player = {"algorithm": "ppo", "ppo": learner, "network": "mlp", "mlp": {"hidden": [8]}, "learner_processes": 2}
    players = {"main": {**player, "matchmaker": "dummy-uniform"}}
    tables = {**TABLES, "run": {**TABLES["run"], "workers": 1}, "players": players}
    plugins = load_plugins()
    return RunContext(config=parse_config(tables, source="fuzz", plugins=plugins), plugins=plugins, run_dir=folder)


def shard_arrays() -> dict[str, np.ndarray]:
    """Return the arrays of a shard of that player: two segments with three decisions each."""
    with tempfile.TemporaryDirectory() as folder:
        layout = make_segment_layout(helper_context(Path(folder) / "run"), "main")
    arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.block_shapes(2).items()}
    arrays["length"][:], arrays["elapsed_ticks"][:], arrays["action_mask"][:] = 3, 1, True
    arrays["decided"][:3] = True
    return arrays


def _config() -> Any:
    return parse_config({**TABLES, "run": {**TABLES["run"], "workers": 0}}, source="fuzz", plugins=load_plugins())


def train(folder: Path) -> Trained:
    """Train the league in a new folder."""
    with league_runner(TABLES, folder) as runner:
        runner.until(lambda: all(view.num_frozen >= 2 for view in runner.coordinator.league.players.values()))
        runner.until(lambda: runner.coordinator.counts.rating > 0)
        runner.coordinator.commit()
        models = runner.coordinator.league.models
        sent = _some_of_each(runner.sent)
        hashes, participants = tuple(model.hash for model in models.values()), tuple(models)
    (folder / "run.toml").write_text(write_toml(TABLES), encoding="utf-8")
    return Trained(folder, sent, hashes, participants)


def _some_of_each(sent: list[tuple[str, str, Message]]) -> tuple[tuple[str, str, Message], ...]:
    """Return the last few messages of every kind and pair of workers: those refer to the newest fixtures and models."""
    groups: dict[tuple[str, str, str], list[tuple[str, str, Message]]] = {}
    for one in sent:
        groups.setdefault((one[0], one[1], type(one[2]).__name__), []).append(one)
    return tuple(one for group in groups.values() for one in group[-_PER_KIND:])
