"""Changes of a run that pages offer with ``--allow-actions``: promote, change a share, stop, resume."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from attrs import frozen
from ludus.errors import ConfigError, RunError
from ludus.rule import Share
from ludus.runs import Run, change_share, check_folder, running_pid
from ludus_terminal.promotion import add_to_pool

from ludus_dashboard.folders import read_end

__all__ = ["ACTIONS", "Action", "Field"]

_START_S = 3.0  # in which a run that cannot be resumed ends
_LOG = "resume.log"


@frozen
class Field:
    """A field of the form of an action: its label, its value, and values to choose from."""

    label: str
    value: str
    choices: tuple[str, ...] = ()


@frozen
class Action:
    """A change of a run.

    Attributes:
        title: Title of its form, and label of its button.
        describe: Returns what will happen, in one sentence.
        fields: Returns the fields of the form by name, given the parameters of the address.
        perform: Makes the change with the values of the form, and returns what has happened. May raise a `LudusError`.
    """

    title: str
    describe: str
    fields: Callable[[Run, Mapping[str, str]], Mapping[str, Field]]
    perform: Callable[[Path, Mapping[str, str]], str]


def _promotion_fields(run: Run, query: Mapping[str, str]) -> Mapping[str, Field]:
    models = tuple(reversed(list(run.models)))[:200]
    return {
        "model": Field("model", query.get("model", ""), models),
        "pool": Field("pool", query.get("pool", "chosen"), tuple(sorted(run.pools))),
    }


def _promote(folder: Path, values: Mapping[str, str]) -> str:
    change = add_to_pool(folder, values.get("model", ""), values.get("pool", "").strip())
    return f"{change['model']} is in the pool {change['pool']} now."


def _share_fields(run: Run, query: Mapping[str, str]) -> Mapping[str, Field]:
    player = query.get("player", next(iter(run.league.players), ""))
    share = run.league.players[player].share if player in run.league.players else 1.0
    return {
        "player": Field("player", player, tuple(run.league.players)),
        "share": Field("share, 0 to pause the player", f"{share:g}"),
    }


def _set_share(folder: Path, values: Mapping[str, str]) -> str:
    player, text = values.get("player", ""), values.get("share", "")
    try:
        change = Share(player=player, share=float(text))
    except ValueError:
        raise ConfigError(f"share: expected a number of 0 or more, got {text!r}") from None
    if not change_share(folder, change):
        return f"The share of {player} was {change.share:g} already."
    return f"The share of {player} is {change.share:g} now." if change.share else f"{player} is paused."


def _no_fields(run: Run, query: Mapping[str, str]) -> Mapping[str, Field]:  # noqa: ARG001 - the signature of actions
    return {}


_stopping: set[int] = set()  # processes that were asked to stop; a second signal would end them at once


def _stop(folder: Path, values: Mapping[str, str]) -> str:  # noqa: ARG001 - as above
    pid = running_pid(folder)
    if not pid:
        raise RunError(f"{folder}: no process of this user runs it")
    if pid in _stopping:
        return "The run is stopping already."
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    _stopping.add(pid)
    return "The run stops: learners write models and checkpoints, which may take half a minute."


def _resume(folder: Path, values: Mapping[str, str]) -> str:  # noqa: ARG001 - as above
    """Start ``ludus resume`` in a session of its own, so that it goes on after the dashboard has ended."""
    if running_pid(folder):
        raise RunError(f"{folder} is running already")
    check_folder(folder)
    log = folder / "logs" / _LOG
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - this command, and a folder that find_runs has found
            [sys.executable, "-m", "ludus", "resume", str(folder.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        status = process.wait(_START_S)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, daemon=True).start()  # so that no zombie stays
        return f"The run is being resumed; its output is in logs/{_LOG}."
    lines = read_end(log).splitlines() or [""]
    if status:
        raise RunError(f"the run was not resumed: {lines[-1]}")
    return f"The run has ended already: {lines[-1]}"


#: The actions by the last segment of their address.
ACTIONS: Mapping[str, Action] = {
    "promote": Action(
        "Add to a pool",
        "The model enters the pool, and matchmakers that read the pool choose it as an opponent.",
        _promotion_fields,
        _promote,
    ),
    "share": Action(
        "Change a share",
        "The player gets this share of the training ticks, relative to the others. A rule may change it again.",
        _share_fields,
        _set_share,
    ),
    "stop": Action(
        "Stop this run",
        "The run stops cleanly and can be resumed: nothing that was learned is lost.",
        _no_fields,
        _stop,
    ),
    "resume": Action(
        "Resume this run",
        "The run continues on this machine from its last commit, with the configuration in its folder.",
        _no_fields,
        _resume,
    ),
}
