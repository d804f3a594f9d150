"""Check a league against itself: payoffs against the log, files against their hashes, names against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ludus._messages import Checkpoint
from ludus._models import check_model, load_checkpoint, load_manifest
from ludus._participants import parse
from ludus._store import Store
from ludus.errors import ModelError, StoreError

_LOOKS = 3


def verify(store: Store) -> list[str]:
    """Recompute and compare everything; return one line for every contradiction, none if all is well."""
    return [problem for check in _CHECKS for problem in check(store)]


def _payoffs(store: Store) -> Iterator[str]:
    """Compare the stored sums with those counted from the log."""
    try:
        counted = store.recompute_payoffs()
    except StoreError as error:
        yield str(error)
        return
    stored, nothing = store.payoffs(), np.zeros(3, np.int64)
    for key in sorted(counted.keys() | stored.keys()):
        ours, theirs = counted.get(key, nothing), stored.get(key, nothing)
        if not np.array_equal(ours, theirs):
            kind, a, b = key
            yield f"payoff of {a} against {b} ({kind}): stored {theirs.tolist()}, the log says {ours.tolist()}"


def _participants(store: Store) -> Iterator[str]:
    """Look for frozen models that have played but are not in the league."""
    known = {model.participant for model in store.models()}
    for participant in sorted({name for _, a, b in store.payoffs() for name in (a, b)} - known):
        name = parse(participant)
        if name.number is not None and not name.live:
            yield f"{participant} has played, but it is not among the models"


def _models(store: Store) -> Iterator[str]:
    folder = store.run_dir / "models"
    for model in store.models():
        yield from _complaint(model.participant, check_model, folder, model.hash)
        yield from _complaint(model.participant, load_manifest, folder, model.hash)


def _pools(store: Store) -> Iterator[str]:
    """Replay the pool log."""
    known = {model.participant for model in store.models()}
    members: set[tuple[str, str]] = set()
    for change in store.pool_changes():
        entry = (change.pool, change.model)
        if change.model not in known:
            yield f"pool {change.pool}: {change.model} is not among the models"
        if (entry in members) == change.enters:
            yield f"pool {change.pool}: {change.model} {'enters twice' if change.enters else 'leaves but is not in it'}"
        (members.add if change.enters else members.discard)(entry)


def _checkpoints(store: Store) -> Iterator[str]:
    for player, saved in store.checkpoints().items():
        complaints = list(_checkpoint(store, player, saved))
        for _ in range(_LOOKS):
            if complaints:  # a run that goes on may have replaced it since the store was read
                with Store.read(store.run_dir) as now:
                    complaints = list(_checkpoint(now, player, now.checkpoints()[player]))
        yield from complaints


def _checkpoint(store: Store, player: str, saved: Checkpoint) -> Iterator[str]:
    return _complaint(f"checkpoint of {player}", load_checkpoint, store.run_dir, saved.path, saved.hash)


def _complaint(subject: str, load: Callable[..., object], *arguments: object) -> Iterator[str]:
    """Yield what is wrong with a file, if something is."""
    try:
        load(*arguments)
    except ModelError as error:
        yield f"{subject}: {error}"


_CHECKS: tuple[Callable[[Store], Iterable[str]], ...] = (
    Store.damage,
    _payoffs,
    _participants,
    _models,
    _pools,
    _checkpoints,
)
