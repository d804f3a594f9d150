"""Check that the configuration of a resumed run fits the models, checkpoints and matches of its store."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import evolve, fields

from ludus._config.section_reader import ConfigReader, SelectedComponent
from ludus._config.structuring import Problem
from ludus._learning.publisher import checkpoint_arrays
from ludus._messaging.messages import Checkpoint
from ludus._plugins.error_wrapping import wrap_errors
from ludus._plugins.manager import Plugins
from ludus._run.agent_factory import make_model_agent
from ludus._run.context import RunContext
from ludus._store.model_files import load_checkpoint
from ludus._store.store import Store
from ludus.errors import ModelError

_NEW_RUN = "the run's matches and models are of that game — start a new run"
_NEW_PLAYER = 'start a new run, or add a player; its init = "…" may name a model whose weights fit'


def check_unchanged(run: RunContext, store: Store) -> None:
    """Check that the game and the options that models depend on are those of the run so far.

    Args:
        run: The resumed run.
        store: The run's store.

    Raises:
        ConfigError: With one line for every option that must not change.
    """
    problems = [*_environment_changes(run, store), *_player_changes(run, store)]
    evolve(run.config.reader, problems=problems).check()


def check_checkpoints(run: RunContext, store: Store) -> None:
    """Load the checkpoint of every configured player, as its learner and its samplers would.

    Raises:
        ModelError: A checkpoint does not fit, or its file is missing or damaged.
    """
    for player, checkpoint in store.checkpoints.latest().items():
        if player in run.config.players:
            _check_checkpoint(run, player, checkpoint)


def _check_checkpoint(run: RunContext, player: str, checkpoint: Checkpoint) -> None:
    arrays, _ = load_checkpoint(run.run_dir, checkpoint.path, checkpoint.hash)
    weights = checkpoint_arrays(arrays, "weights")
    algorithm = run.player_components(player, run.spec).algorithm
    try:
        with wrap_errors(f"player {player!r}"):
            make_model_agent(run, player, weights, spec=run.spec)
            trainer = algorithm.make_trainer(seed=0)  # on the CPU: GPUs belong to the learners
            trainer.load_weights(weights)
            trainer.load_state(checkpoint_arrays(arrays, "state"))
    except ModelError as error:
        raise ModelError(f"player {player!r} in environment {run.config.environment.name!r}: {error}") from error


def _environment_changes(run: RunContext, store: Store) -> Iterator[Problem]:
    environment = run.config.environment
    if (stored := store.meta("environment", environment.name)) != environment.name:
        yield Problem(("environment", "name"), f"was {stored!r}, got {environment.name!r}: {_NEW_RUN}")
    section = ConfigReader(run.plugins).section(tomllib.loads(store.meta("config", "")), "environment")
    before = options_where(section.select("environment", "name"), lambda metadata: metadata.get("lasting", False))
    for key, value in options_where(environment, lambda metadata: metadata.get("lasting", False)).items():
        if before.get(key, value) != value:
            text = f"was {before[key]!r}, got {value!r}: {_NEW_RUN}"
            yield Problem(("environment", *key.rsplit(".", 1)), text)


def _player_changes(run: RunContext, store: Store) -> Iterator[Problem]:
    stored_tables = _stored_player_tables(store)
    for name, table in run.config.data["players"].items():
        before = _architecture(run.plugins, name, stored_tables.get(name, table))
        for key, value in _architecture(run.plugins, name, table).items():
            if before.get(key, value) != value:
                text = f"was {before[key]!r}, got {value!r}: models of {name!r} would play differently — {_NEW_PLAYER}"
                yield Problem(("players", name, *key.rsplit(".", 1)), text)


def _stored_player_tables(store: Store) -> dict[str, Mapping[str, Any]]:
    """Return the configuration tables of all players that have saved a model or a checkpoint.

    A table is that of the player's newest model, or else that of the last session with the player.
    """
    tables: dict[str, Mapping[str, Any]] = tomllib.loads(store.meta("config", "")).get("players", {})
    tables |= store.meta("players", {})
    tables |= {model.player: model.manifest["config"] for model in store.models.records() if "config" in model.manifest}
    return {name: tables[name] for name in store.checkpoints.saved_decisions() if name in tables}


def _architecture(plugins: Plugins, player: str, table: Mapping[str, Any]) -> dict[str, object]:
    """Return the options of a player that its models depend on, by key; missing components have no options."""
    section = ConfigReader(plugins).section({"players": {player: table}}, "players", player)
    values = {"algorithm": None, "network": None, "interfaces": [], **section.table}
    options: dict[str, object] = {key: values[key] for key in ("algorithm", "network", "interfaces")}
    if values.get("role"):  # may be omitted if the environment has one role
        options["role"] = values["role"]
    for component in (section.select("network", "network"), *section.select_all("interface", "interfaces")):
        options |= options_where(component, lambda metadata: not metadata.get("learning"))
    return options


def options_where(
    component: SelectedComponent | None, predicate: Callable[[Mapping[str, Any]], bool]
) -> dict[str, object]:
    """Return the options of a component whose metadata fulfil a predicate, by ``component.option``."""
    if component is None or component.config is None:
        return {}
    names = [field.name for field in fields(type(component.config)) if predicate(field.metadata)]
    return {f"{component.name}.{name}": getattr(component.config, name) for name in names}
