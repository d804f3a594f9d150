"""Detection of damaged model files while a run goes on: all files at its start, and those that workers report."""

from __future__ import annotations

import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from attrs import define, field

from ludus._league.changes import FreezeRequests
from ludus._league.damage import DamageContainment, damage_of
from ludus._league.fixtures import EvaluationFixtures
from ludus._league.outbox import Outbox
from ludus._store.model_files import check_model, load_manifest, save_manifest

_REPEAT_S = 10.0  # a file that was sound is not read again within this time, however many workers report it
_LOWEST_PRIORITY = 19
_MAX_PENDING = 4  # reports of one worker that wait; an honest one repeats what was not counted when it meets it again
_REST = 9  # times as long as the last inspection took nothing more is read because of reports


class ModelScan:
    """Compares all model files with their hashes, in a thread of lowest priority."""

    def __init__(self, folder: Path, hashes: Sequence[str]) -> None:
        self._folder, self._hashes = folder, hashes
        self._found: SimpleQueue[str] = SimpleQueue()
        if hashes:
            threading.Thread(target=self._scan, name="model-scan", daemon=True).start()

    def _scan(self) -> None:
        with suppress(OSError, AttributeError):  # where threads have no priorities
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
        for digest in self._hashes:
            if damage_of(check_model, self._folder, digest) or damage_of(load_manifest, self._folder, digest):
                self._found.put(digest)

    def found(self) -> Iterator[str]:
        """Yield the hashes of damaged models that were found since the last call."""
        with suppress(Empty):
            while True:
                yield self._found.get_nowait()


@define(kw_only=True)
class ModelInspector:
    """Quarantines the models that the scan or a worker reports, after it has read their files itself.

    Reports wait for `poll`, which reads one file at most and then rests: however many reports a worker sends, each
    costs constant time, and all together a tenth of the coordinator's.

    Args:
        containment: Quarantines models.
        evaluation: Rating fixtures; those of quarantined models are closed.
        requests: Freeze requests; resets to quarantined models are withdrawn.
        outbox: Outbox that schedules the next commit.
        clock: Seconds.
    """

    containment: DamageContainment
    evaluation: EvaluationFixtures
    requests: FreezeRequests
    outbox: Outbox
    clock: Callable[[], float]
    _scan: ModelScan | None = field(init=False, default=None)
    _sound_s: dict[str, float] = field(init=False, factory=dict)  # by hash: when its file was last found sound
    _reports: dict[str, set[str]] = field(init=False, factory=dict)  # by hash: workers that report it
    _pending: Counter[str] = field(init=False, factory=Counter)  # reports by worker
    _names: dict[str, list[str]] = field(init=False, factory=dict)  # of models, by hash
    _indexed: int = field(init=False, default=0)  # models in `_names`
    _rests_until_s: float = field(init=False, default=-math.inf)

    def start(self) -> None:
        """Start to compare the files of all models with their hashes."""
        league = self.containment.league
        hashes = [model.hash for name, model in league.models.items() if name not in league.roster.quarantined]
        self._scan = ModelScan(league.store.run_dir / "models", list(dict.fromkeys(hashes)))

    def poll(self) -> None:
        """Quarantine the models that the scan has found, and inspect one that workers have reported."""
        if self._scan is not None:
            for digest in self._scan.found():
                self.inspect(digest)
        if self._reports and self.clock() >= self._rests_until_s:
            self._inspect_reported()

    def handle_report(self, worker: str, hash: str) -> None:
        """Queue the inspection of a model that a worker cannot load, in constant time; unknown hashes are ignored."""
        quarantined = self.containment.league.roster.quarantined
        if all(name in quarantined for name in self._models_of(hash)):  # or there is none
            return
        workers = self._reports.get(hash, set())
        if worker not in workers and self._pending[worker] < _MAX_PENDING:
            self._reports[hash] = workers | {worker}
            self._pending[worker] += 1

    def _models_of(self, hash: str) -> list[str]:
        """Return the names of the models of a hash."""
        models = self.containment.league.models
        if len(models) != self._indexed:  # models are only added
            self._indexed, self._names = len(models), {}
            for name, model in models.items():
                self._names.setdefault(model.hash, []).append(name)
        return self._names.get(hash, [])

    def _inspect_reported(self) -> None:
        """Inspect the model that was reported first; if its file is sound here, other workers get the fixtures."""
        digest = next(iter(self._reports))
        workers = self._reports.pop(digest)
        self._pending -= Counter(workers)
        started_s = self.clock()
        if started_s - self._sound_s.get(digest, -math.inf) > _REPEAT_S:
            self.inspect(digest)
            now_s = self.clock()
            self._rests_until_s = now_s + _REST * (now_s - started_s)
        if digest in self._sound_s:
            for worker in sorted(workers):
                self.evaluation.reassign(worker)

    def inspect_participants(self, names: Iterable[str]) -> bool:
        """Inspect the files of the models among these participants, and return whether one is quarantined now."""
        league = self.containment.league
        before = set(league.roster.quarantined)
        for name in set(names) & league.models.keys():
            self.inspect(league.models[name].hash)
        return set(league.roster.quarantined) != before

    def inspect(self, hash: str) -> None:
        """Quarantine the models of a hash if their file is damaged, and write a damaged manifest again."""
        league = self.containment.league
        folder = league.store.run_dir / "models"
        if damage := damage_of(check_model, folder, hash):
            for name in self.containment.quarantine(hash, damage):
                self.evaluation.withdraw(name)
            self.requests.withdraw(hash)
            self.outbox.needs_commit = True
            return
        self._sound_s[hash] = self.clock()
        if damage_of(load_manifest, folder, hash):
            manifest = next(model.manifest for model in league.models.values() if model.hash == hash)
            save_manifest(folder, hash, manifest)
