"""Who plays: from names that a person types to agents."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from ludus._build import make_agent
from ludus._config import RunConfig, choose_components
from ludus._league import League
from ludus._plugins import Plugins
from ludus.agent import Agent
from ludus.environment import EnvironmentSpec
from ludus.errors import ConfigError

__all__ = ["Cast"]


@frozen(kw_only=True)
class Cast:
    """The participants of a run and all agents installed.

    Args:
        run_dir: The run folder.
        config: Its configuration.
        league: Its league, for looking at.
        spec: The environment's.
        plugins: What is installed.
        rows: Matches played at once.
        deterministic: Models take their most likely actions instead of sampling.
    """

    run_dir: Path
    config: RunConfig
    league: League
    spec: EnvironmentSpec
    plugins: Plugins
    rows: int = 1
    deterministic: bool = False

    def agent(self, name: str, role: str) -> Agent:
        """Return a frozen model or an anchor of the run, or an installed agent with default options.

        Raises:
            ConfigError: There is no such participant, or it is not frozen.
        """
        from ludus._assembly import load_participant  # noqa: PLC0415 - heavy, and installed agents do without

        league = self.league
        known = name.partition("@")[0] in league.players or name in league.anchors
        if not known and name in self.plugins.components("agent"):
            [chosen] = choose_components(self.plugins, [("agent", name)])
            return make_agent(chosen, self.spec, role)
        participant = league.resolve(name)
        model = league.models.get(participant)
        if model is None and participant not in league.anchors:
            first = f"{name.partition('@')[0]}@1"
            raise ConfigError(f"{name} is no frozen model; name one, for example {first}, or a scripted agent")
        return load_participant(
            self.config,
            self.spec,
            run_dir=self.run_dir,
            participant=participant,
            digest=model.hash if model else "",
            role=role,
            rows=self.rows,
            deterministic=self.deterministic,
        )
