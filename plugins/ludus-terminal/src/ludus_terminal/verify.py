"""Check a league against itself: payoffs against the log, files against their hashes, names against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from ludus.errors import ModelError, StoreError
from ludus.runs import ModelRecord, Run, check_model, load_checkpoint, load_manifest

__all__ = ["verify"]

_LOOKS = 3


def verify(run: Run) -> list[str]:
    """Recompute and compare everything; return one line for every contradiction, none if all is well."""
    return [problem for check in _CHECKS for problem in check(run)]


def _payoffs(run: Run) -> Iterator[str]:
    """Compare the stored sums with those counted from the log."""
    try:
        counted = run.recompute_payoffs()
    except StoreError as error:
        yield str(error)
        return
    stored, nothing = run.payoffs(), np.zeros(3, np.int64)
    for key in sorted(counted.keys() | stored.keys()):
        ours, theirs = counted.get(key, nothing), stored.get(key, nothing)
        if not np.array_equal(ours, theirs):
            kind, a, b = key
            yield f"payoff of {a} against {b} ({kind}): stored {theirs.tolist()}, the log says {ours.tolist()}"


def _participants(run: Run) -> Iterator[str]:
    """Look for frozen models that have played but are not in the league."""
    for participant in sorted({name for _, a, b in run.payoffs() for name in (a, b)} - run.models.keys()):
        if "@" in participant and not participant.endswith("+"):
            yield f"{participant} has played, but it is not among the models"


def _models(run: Run) -> Iterator[str]:
    folder = run.folder / "models"
    for model in run.models.values():
        yield from _complaint(model.participant, check_model, folder, model.hash)
        yield from _complaint(model.participant, load_manifest, folder, model.hash)


def _lineage(run: Run) -> Iterator[str]:
    """Follow each player's models: numbered from 1, each the child of the one before, generation after generation."""
    hashes, before = {model.hash for model in run.models.values()}, dict[str, ModelRecord]()
    for model in run.models.values():
        last, generation = before.get(model.player), model.manifest.get("generation", 0)
        number, begun = (1, 0) if last is None else (last.number + 1, last.manifest.get("generation", 0))
        if (model.number, model.participant) != (number, f"{model.player}@{number}"):
            yield f"{model.participant}: its number is {model.number}, expected {model.player}@{number} to be next"
        if model.parent != (None if last is None else last.hash):
            yield f"{model.participant}: its parent is not the model before it"
        if generation not in {begun, begun + 1}:
            yield f"{model.participant}: is of generation {generation}, expected {begun} or {begun + 1}"
        if model.manifest.get("init") and model.manifest["init"] not in hashes:
            yield f"{model.participant}: the model that its player started from is not in the league"
        before[model.player] = model


def _counters(run: Run) -> Iterator[str]:
    """Compare the counters that the log and the models imply; they are written in the same transactions."""
    counters, played = run.counters(), run.num_matches(kind="train")
    if counters.get("matches", played) != played:
        yield f"counter of training matches: stored {counters['matches']:.0f}, the log says {played}"
    learned: dict[str, int] = {}
    for model in run.models.values():
        learned[model.player] = max(model.decisions, learned.get(model.player, 0))
    for player, decisions in learned.items():
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
    for player in run.checkpoints():
        complaints: list[str] = []
        for _ in range(_LOOKS):  # a run that goes on may have replaced it since it was looked up
            saved = run.checkpoints()[player]
            complaints = [*_complaint(f"checkpoint of {player}", load_checkpoint, run.folder, saved.path, saved.hash)]
            if not complaints:
                break
        yield from complaints


def _complaint(subject: str, load: Callable[..., object], *arguments: object) -> Iterator[str]:
    """Yield what is wrong with a file, if something is."""
    try:
        load(*arguments)
    except ModelError as error:
        yield f"{subject}: {error}"


_CHECKS: tuple[Callable[[Run], Iterable[str]], ...] = (
    Run.damage,
    _payoffs,
    _participants,
    _models,
    _lineage,
    _pools,
    _counters,
    _checkpoints,
)
