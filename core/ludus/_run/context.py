"""What all workers of a run are made from: its configuration, the plugins and the run folder."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from attrs import frozen

from ludus._config.run_config import load_config
from ludus._config.sections import RunConfig
from ludus._plugins.error_wrapping import close_environment
from ludus._plugins.manager import Plugins, load_plugins
from ludus._run.factories import anchor_roles, learned_role, make_algorithm, make_environment, player_role
from ludus._training_budget import TrainingBudget
from ludus.algorithm import Algorithm
from ludus.environment import Environment, EnvironmentSpec, Playable, Role
from ludus.interface import Interface
from ludus.launcher import WorkerEnv
from ludus.service import ServiceEndpoint


@frozen(kw_only=True)
class PlayerComponents:
    """The components of one player for one environment.

    Attributes:
        role: The role as the player observes it, behind its interfaces.
        interface: The bound interfaces of the player; None without any.
        algorithm: The player's algorithm.
    """

    role: Role
    interface: Interface | None
    algorithm: Algorithm


@frozen(kw_only=True)
class RunContext:
    """The configuration, plugins and folders of one run, shared by all worker factories.

    Args:
        config: The run's configuration.
        plugins: The installed plugins.
        run_dir: The run folder.
        session: Number of the session, increased by every start of the run or of a worker; part of random seeds.
        sockets: Private folder for the sockets of services; None in a single-process run.
        known_spec: Specification of the environment, where it is known already: otherwise one environment is made.
    """

    config: RunConfig
    plugins: Plugins
    run_dir: Path
    session: int = 0
    sockets: Path | None = None
    known_spec: EnvironmentSpec | None = None

    @classmethod
    def load(cls, env: WorkerEnv) -> RunContext:
        """Load the context of a run from its ``run.toml``.

        Raises:
            ConfigError: The file is missing or wrong, or a component is not installed.
        """
        plugins = load_plugins()
        config = load_config(env.run_dir / "run.toml", plugins=plugins)
        return cls(config=config, plugins=plugins, run_dir=env.run_dir, session=env.session, sockets=env.sockets)

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the specification of the run's environment."""
        return self._closed_environment.spec if self.known_spec is None else self.known_spec

    @property
    def is_playable(self) -> bool:
        """Return whether a person can watch and play the run's environment in a terminal."""
        return isinstance(self._closed_environment, Playable)

    @cached_property
    def _closed_environment(self) -> Environment:
        environment = make_environment(self.config.environment, 1)
        close_environment(environment)
        return environment

    @property
    def budget(self) -> TrainingBudget:
        """Return the training budget of the run."""
        return TrainingBudget(decisions=self.config.run.decisions, seconds=self.config.run.minutes * 60)

    def player_components(
        self, name: str, spec: EnvironmentSpec, endpoint: ServiceEndpoint | None = None
    ) -> PlayerComponents:
        """Make the interfaces and the algorithm of a player.

        Args:
            name: The player.
            spec: Specification of the environment.
            endpoint: Service that runs the player's networks; None to run them in this process.

        Raises:
            ConfigError: The player's role or network is missing or wrong.
            PluginError: A factory raised.
        """
        player = self.config.players[name]
        role, interface = player_role(player, spec)
        algorithm = make_algorithm(player, role, runtime=self.config.inference, site=endpoint)
        return PlayerComponents(role=role, interface=interface, algorithm=algorithm)

    def league_members(self) -> dict[str, Any]:
        """Return the players, anchors and seats of the league, as keyword arguments of `League`.

        Raises:
            LudusError: An anchor plays no role.
        """
        roles = {name: learned_role(player, self.spec) for name, player in self.config.players.items()}
        players = {name: (r.name, r.teams[0] if len(set(r.teams)) == 1 else None) for name, r in roles.items()}
        return {
            "players": players,
            "anchors": tuple(self.config.anchors),
            "anchor_teams": self._anchor_teams(),
            "seats": self.spec.seats,
        }

    def _anchor_teams(self) -> dict[str, int]:
        """Return the team of every anchor that plays the roles of one team only."""
        spec = self.spec
        teams = {
            name: {seat.team for seat in spec.seats if seat.role in anchor_roles(anchor, spec)}
            for name, anchor in (self.config.anchors.items() if len(spec.roles) > 1 else ())
        }
        return {name: own.pop() for name, own in teams.items() if len(own) == 1 < spec.num_teams}
