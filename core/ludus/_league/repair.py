"""Repair of a stopped run: damaged files are restored from others, and sums over the match log are counted again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import define, field

from ludus._league.damage import DamageContainment, damage_of, readmit
from ludus._league.league import League
from ludus._store.database import DATABASE, wrap_database_errors
from ludus._store.durable import write_durably
from ludus._store.foreign_files import open_regular
from ludus._store.journal import describe_loss
from ludus._store.model_files import (
    DAMAGED,
    check_checkpoint,
    check_model,
    encode_arrays,
    load_manifest,
    read_checkpoint_weights,
    save_manifest,
    set_aside,
    wrap_file_errors,
)
from ludus._store.store import Store
from ludus._store.sums import rebuild_sums
from ludus.errors import ModelError
from ludus.records import ModelRecord


def repair_files(run_dir: Path, copies: Sequence[Path] = ()) -> list[str]:
    """Restore the damaged files of a stopped run as far as possible, and take the others out of the league.

    A model is restored from a copy of its file, or from a checkpoint of the same weights; its manifest from the
    database. A quarantined model whose file is sound again returns to its pools. A model that cannot be restored is
    quarantined. A damaged checkpoint is set aside; its player resumes from the one before, or from a model. Payoffs,
    behaviour and numbers of matches that do not agree with the match log are counted again.

    Args:
        run_dir: The run folder.
        copies: Further folders to search for files of models, such as a copy of the run.

    Returns:
        One line for every change.

    Raises:
        RunError: The run goes on, the folder holds no run, or a file cannot be written.
        StoreError: The database is damaged.
    """
    lines: list[str] = []
    with wrap_file_errors(run_dir), wrap_database_errors(run_dir / DATABASE), Store.open(run_dir) as store:
        if store.lost_commits:
            lines.append(f"{describe_loss(store.lost_commits)}; the damaged file is in {run_dir / DAMAGED}")
        lines += rebuild_sums(store)
        league = League.of(store)
        containment, sources = DamageContainment(league, lines.append), _Sources(run_dir, copies)
        by_hash: dict[str, list[ModelRecord]] = {}
        for model in league.models.values():
            by_hash.setdefault(model.hash, []).append(model)
        retired = store.retired.names()
        for models in by_hash.values():
            if playing := [model for model in models if model.participant not in retired]:
                lines += _repair_model(league, containment, sources, playing)
            lines += _repair_manifest(run_dir, models)
        for player in league.players:
            containment.check_checkpoints(player)
            lines += _drop_older_checkpoints(store, player)
        store.commit()
    return lines


def _repair_model(
    league: League, containment: DamageContainment, sources: _Sources, models: Sequence[ModelRecord]
) -> Iterator[str]:
    """Repair the file of models of one hash; yield a line for every change."""
    run_dir, digest = league.store.run_dir, models[0].hash
    folder, names = run_dir / "models", ", ".join(model.participant for model in models)
    if damage := damage_of(check_model, folder, digest):
        path = folder / f"{digest}.safetensors"
        source = sources.find(digest)
        if source is None:
            containment.quarantine(digest, damage)
            return
        set_aside(run_dir, path)
        write_durably(path, source.data)
        yield f"{names}: {damage}; restored from {source.path}"
    for model in models:
        if model.participant in league.roster.quarantined:
            pools = readmit(league, model.participant)
            yield f"{model.participant}: not quarantined any more; pools: {', '.join(pools) or 'none'}"


def _repair_manifest(run_dir: Path, models: Sequence[ModelRecord]) -> Iterator[str]:
    """Repair the manifest of models of one hash; yield a line if it changes."""
    folder, digest = run_dir / "models", models[0].hash
    if damage := damage_of(load_manifest, folder, digest):
        set_aside(run_dir, folder / f"{digest}.json")
        save_manifest(folder, digest, models[0].manifest)
        names = ", ".join(model.participant for model in models)
        yield f"{names}: {damage}; written again from the database"


def _drop_older_checkpoints(store: Store, player: str) -> Iterator[str]:
    """Set aside damaged checkpoints that a newer one supersedes; yield a line for each."""
    for checkpoint in store.checkpoints.kept(player)[1:]:
        if damage := damage_of(check_checkpoint, store.run_dir, checkpoint.path, checkpoint.hash):
            set_aside(store.run_dir, store.run_dir / checkpoint.path)
            store.checkpoints.drop(checkpoint)
            yield f"player {player!r}: {damage}; set aside, there is a newer one"


@define
class _Source:
    """The bytes of a model, and the file that they come from."""

    data: bytes
    path: Path


@define
class _Sources:
    """Files that may hold the arrays of a damaged model.

    Args:
        run_dir: The run folder.
        copies: Folders with copies.
    """

    run_dir: Path
    copies: Sequence[Path]
    _checkpoints: Mapping[str, Path] | None = field(init=False, default=None)  # by hash of a model of their weights

    def find(self, hash: str) -> _Source | None:
        """Return the source of a model; None if there is none."""
        for path in self._copies_of(hash):
            try:
                with open_regular(path) as file:
                    data = file.read()
            except OSError:
                continue
            if hashlib.sha256(data).hexdigest() == hash:
                return _Source(data, path)
        if self._checkpoints is None:
            self._checkpoints = dict(_hash_checkpoints(self.run_dir.glob("learners/*/*.safetensors")))
        if (checkpoint := self._checkpoints.get(hash)) is not None:
            return _Source(encode_arrays(read_checkpoint_weights(checkpoint)), checkpoint)
        return None

    def _copies_of(self, hash: str) -> Iterator[Path]:
        name = f"{hash}.safetensors"
        for folder in (self.run_dir / DAMAGED, *self.copies):
            yield from (folder / name, folder / "models" / name)


def _hash_checkpoints(paths: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the hash of the model that the weights of a checkpoint would make, and the file of the checkpoint."""
    for path in paths:
        try:
            yield hashlib.sha256(encode_arrays(read_checkpoint_weights(path))).hexdigest(), path
        except ModelError:
            continue
