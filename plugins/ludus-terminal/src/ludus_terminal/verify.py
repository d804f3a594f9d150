"""Verify a league: its database, files against their hashes, and names against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs
from ludus.errors import ModelError
from ludus.runs import (
    ModelRecord,
    Run,
    Verification,
    check_model,
    kept_checkpoints,
    load_checkpoint,
    load_manifest,
    verify_database,
)

__all__ = ["verify"]

_ATTEMPTS = 3


def verify(run: Run, *, go_on: bool = False) -> Verification:
    """Compare a run's database with its checksums and its log, and files and names with the database.

    Quarantined models are no problem.

    Args:
        run: The run.
        go_on: As in `ludus.runs.verify_database`.
    """
    database = verify_database(run, go_on=go_on)
    others = [problem for check in _CHECKS for problem in check(run)]
    return attrs.evolve(database, problems=(*database.problems, *others))


def _participants(run: Run) -> Iterator[str]:
    """Find frozen models in the log that are not in the league."""
    played = {name.partition(",")[0] for _, *pair in run.payoffs() for name in pair}  # handicaps follow a comma
    for participant in sorted(played - run.models.keys()):
        if "@" in participant and not participant.endswith("+"):
            yield f"{participant} has played, but it is not among the models"


def _models(run: Run) -> Iterator[str]:
    folder = run.folder / "models"
    for model in run.models.values():
        if model.participant in run.quarantined:
            continue
        if model.participant not in run.retired:
            yield from _load_error(model.participant, check_model, folder, model.hash)
        yield from _load_error(model.participant, load_manifest, folder, model.hash)


def _lineage(run: Run) -> Iterator[str]:
    """Check the models of each player: numbered from 1, each the child of the previous one, generations in order."""
    hashes, previous = {model.hash for model in run.models.values()}, dict[str, ModelRecord]()
    for model in run.models.values():
        last, generation = previous.get(model.player), model.manifest.get("generation", 0)
        number, earlier = (1, 0) if last is None else (last.number + 1, last.manifest.get("generation", 0))
        if (model.number, model.participant) != (number, f"{model.player}@{number}"):
            yield f"{model.participant}: its number is {model.number}, expected {model.player}@{number} to be next"
        if model.parent != (None if last is None else last.hash):
            yield f"{model.participant}: its parent is not the model before it"
        if generation not in {earlier, earlier + 1}:
            yield f"{model.participant}: is of generation {generation}, expected {earlier} or {earlier + 1}"
        if model.manifest.get("init") and model.manifest["init"] not in hashes:
            yield f"{model.participant}: the model that its player started from is not in the league"
        previous[model.player] = model


def _counters(run: Run) -> Iterator[str]:
    """Compare the counters with the log and the models, which are written in the same transactions."""
    counters, played = run.counters(), run.num_matches(kind="train")
    if counters.get("matches", played) != played:
        yield f"counter of training matches: stored {counters['matches']:.0f}, the log has {played}"
    decisions_by_player: dict[str, int] = {}
    for model in run.models.values():
        decisions = max(model.decisions, decisions_by_player.get(model.player, 0))
        decisions_by_player[model.player] = decisions
    for player, decisions in decisions_by_player.items():
        counted = counters.get(f"decisions/{player}", 0)
        if counted < decisions:
            yield f"decisions of {player}: stored {counted:.0f}, a model of it has {decisions}"


def _pools(run: Run) -> Iterator[str]:
    """Replay the pool log."""
    members: set[tuple[str, str]] = set()
    for change in (record.change for record in run.pool_log()):
        entry = (change.pool, change.model)
        if change.model not in run.models:
            yield f"pool {change.pool}: {change.model} is not among the models"
        if (entry in members) == change.enters:
            yield f"pool {change.pool}: {change.model} {'enters twice' if change.enters else 'leaves but is not in it'}"
        (members.add if change.enters else members.discard)(entry)


def _checkpoints(run: Run) -> Iterator[str]:
    for player in kept_checkpoints(run.folder):
        errors: list[str] = []
        for _ in range(_ATTEMPTS):  # a running run may have replaced them since they were read
            errors = [
                error
                for saved in kept_checkpoints(run.folder)[player]
                for error in _load_error(f"checkpoint of {player}", load_checkpoint, run.folder, saved.path, saved.hash)
            ]
            if not errors:
                break
        yield from errors


def _load_error(subject: str, load: Callable[..., object], *arguments: object) -> Iterator[str]:
    """Yield the error of loading a file, if there is one."""
    try:
        load(*arguments)
    except ModelError as error:
        yield f"{subject}: {error}"


_CHECKS: tuple[Callable[[Run], Iterable[str]], ...] = (
    _participants,
    _models,
    _lineage,
    _pools,
    _counters,
    _checkpoints,
)
