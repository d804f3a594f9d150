"""Damage to the files of a run and of a joined host."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from attrs import frozen
from ludus.errors import LudusError
from ludus.runs import kept_checkpoints, load_manifest, open_run, verify_database

from chaos.effect import Effect
from chaos.processes import send_signal, wait
from chaos.target import COORDINATOR, EVALUATOR, EVERYTHING, JOINED, LEARNER, SAMPLERS, Target


def spoil(path: Path, rng: random.Random) -> str:
    """Flip a bit of a file, cut it, or remove it, and return what was done."""
    data = path.read_bytes()
    way = rng.choice(("flipped", "cut", "removed")) if data else "removed"
    at = rng.randrange(len(data)) if data else 0
    if way == "flipped":
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
    elif way == "cut":
        path.write_bytes(data[:at])
    else:
        path.unlink()
    return way


@frozen(kw_only=True)
class _Damage:
    """A file to damage.

    Attributes:
        path: The file.
        report: Text that ludus prints when it finds the damage; empty if it need not report it.
        is_contained: See `Effect`.
    """

    path: Path
    report: str = ""
    is_contained: Callable[[], bool] = lambda: True


def _is_contained(damage: _Damage) -> bool:
    try:
        return damage.is_contained()
    except LudusError:
        return False


def _checkpoint(target: Target, rng: random.Random) -> _Damage | None:
    """Return the newest checkpoint of a player."""
    folder = target.league.folder
    kept = kept_checkpoints(folder)
    player = rng.choice(sorted(kept)) if kept else ""
    if not player:
        return None
    path = kept[player][0].path

    def is_contained() -> bool:
        return path not in {checkpoint.path for checkpoint in kept_checkpoints(folder)[player]}

    return _Damage(path=folder / path, report=path, is_contained=is_contained)


def _model(target: Target, rng: random.Random) -> _Damage | None:
    """Return a recent model that is neither quarantined nor retired."""
    folder = target.league.folder
    with open_run(folder) as run:
        sound = [model for model in run.models.values() if model.participant not in {*run.quarantined, *run.retired}]
    if not sound:
        return None
    model = rng.choice(sound[-4:])

    def is_contained() -> bool:
        with open_run(folder) as run:
            return model.participant in run.quarantined

    path = folder / "models" / f"{model.hash}.safetensors"
    return _Damage(path=path, report=model.hash, is_contained=is_contained)


def _manifest(target: Target, rng: random.Random) -> _Damage:
    path = rng.choice(sorted((target.league.folder / "models").glob("*.json")))

    def is_contained() -> bool:
        return bool(load_manifest(path.parent, path.stem))

    return _Damage(path=path, is_contained=is_contained)


def _verified_point(target: Target, _rng: random.Random) -> _Damage:
    """Return the point up to which the log was verified."""
    folder = target.league.folder

    def is_verified() -> bool:
        with open_run(folder) as run:
            return not verify_database(run, go_on=True).problems

    assert is_verified()
    return _Damage(path=folder / "verified.json", is_contained=is_verified)


def _metrics(target: Target, _rng: random.Random) -> _Damage:
    """Return the metric file, of which readers report damaged lines."""
    return _Damage(path=target.league.folder / "metrics.jsonl")


def _log(target: Target, rng: random.Random) -> _Damage:
    return _Damage(path=rng.choice(sorted((target.league.folder / "logs").iterdir())))


def _cached_model(target: Target, rng: random.Random) -> _Damage | None:
    """Return a model that the joined host has fetched."""
    if target.host is None:
        return None
    paths = sorted((target.host.folder / "models").glob("*.safetensors"))
    return _Damage(path=rng.choice(paths)) if paths else None


_FILES: Mapping[str, Callable[[Target, random.Random], _Damage | None]] = {
    "checkpoint": _checkpoint,
    "model": _model,
    "manifest": _manifest,
    "verified point": _verified_point,
    "metrics": _metrics,
    "log": _log,
    "cached model": _cached_model,
}
_FILES_OF_KINDS = {
    SAMPLERS: ("model",),
    EVALUATOR: ("model",),
    LEARNER: ("checkpoint",),
    COORDINATOR: ("checkpoint", "model", "manifest", "verified point", "metrics", "log"),
    JOINED: ("cached model",),
    EVERYTHING: tuple(_FILES),
}
_AT_ONCE = 3  # files that are damaged with all processes


def damage_files(target: Target, kind: str, rng: random.Random) -> Effect:
    """Damage files that processes of a kind read, and kill these, so that they read them again.

    With the coordinator and with everything, files are damaged after all processes have ended.
    """
    is_at_rest = kind in {COORDINATOR, EVERYTHING}
    if is_at_rest:
        _end_run(target, with_host=kind == EVERYTHING)
    names = rng.sample(_FILES_OF_KINDS[kind], _AT_ONCE if kind == EVERYTHING else 1)
    damages, done = list[_Damage](), list[str]()
    for name in names:
        damage = _FILES[name](target, rng)
        with suppress(FileNotFoundError):  # it was replaced meanwhile
            if damage is not None:
                done.append(f"{name} {spoil(damage.path, rng)}")
                damages.append(damage)
    killed = frozenset(() if is_at_rest else target.pids(kind).values())
    send_signal(killed, signal.SIGKILL)
    return Effect(
        summary=", ".join(done) or "nothing to damage",
        ends=killed,
        damages=bool(damages),
        reports=tuple(damage.report for damage in damages) if is_at_rest else (),
        is_contained=lambda: all(map(_is_contained, damages)),
    )


def _end_run(target: Target, *, with_host: bool) -> None:
    """Kill the coordinator, or everything, and wait for the end of all processes; the campaign counts those left."""
    commands = target.starts if with_host else (target.league.command,)
    send_signal(target.pids(EVERYTHING if with_host else COORDINATOR).values(), signal.SIGKILL)
    for command in commands:
        command.process.wait()
        with suppress(TimeoutError):
            wait(lambda one=command: not one.remaining(), timeout_s=10.0)  # type: ignore[misc]
