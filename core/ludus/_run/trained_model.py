"""A frozen model of a run with the components that its player decides through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import frozen

from ludus._config.section_reader import SelectedComponent
from ludus._run.context import RunContext
from ludus._run.factories import learned_role, make_interfaces
from ludus._store.model_files import load_arrays
from ludus.algorithm import Algorithm, Weights
from ludus.environment import EnvironmentSpec, Role
from ludus.interface import Interface
from ludus.records import ModelRecord


@frozen(kw_only=True)
class TrainedModel:
    """A frozen model of a run with the components that its player decides through.

    Attributes:
        record: Record of the model.
        raw_role: Role of the environment that it plays.
        role: The same role behind the interfaces of the player.
        algorithm: Algorithm that makes its policy.
        weights: Weights of the policy.
    """

    record: ModelRecord
    raw_role: Role
    role: Role
    algorithm: Algorithm
    weights: Weights
    _interfaces: tuple[SelectedComponent, ...]

    @property
    def interfaces(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return names and options of the interfaces of the player, next to the environment first."""
        return [
            (selected.name, {} if selected.config is None else attrs.asdict(selected.config))
            for selected in self._interfaces
        ]

    def make_interfaces(self) -> list[Interface]:
        """Make new interfaces of the player, next to the environment first; the caller binds them.

        Raises:
            PluginError: A factory raised.
        """
        return [make_interfaces([selected], f"players.{self.record.player}.") for selected in self._interfaces]


def load_trained_model(run: RunContext, record: ModelRecord, spec: EnvironmentSpec) -> TrainedModel:
    """Load a frozen model.

    Args:
        run: The run.
        record: Record of the model.
        spec: Specification of the environment.

    Raises:
        ModelError: The file of the model is missing or damaged.
        ConfigError: A component of the player is missing or wrong.
    """
    player = run.config.players[record.player]
    components = run.player_components(record.player, spec)
    return TrainedModel(
        record=record,
        raw_role=learned_role(player, spec),
        role=components.role,
        algorithm=components.algorithm,
        weights=load_arrays(run.run_dir / "models", record.hash),
        interfaces=tuple(player.interfaces),
    )
