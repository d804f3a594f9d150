"""What models of a run play, and how exploitable they and their average are.

::

    with open_run("runs/kuhn") as run:
        played = Played.of(run, "main_agent", all_models=True)
    print(played.measure(-1).exploitability, played.measure_average().exploitability)
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import numpy as np
from attrs import frozen
from ludus.errors import ConfigError
from ludus.runs import Run

from ludus_openspiel.averaging import average_policy
from ludus_openspiel.games import ROLE, OpenSpielSpec, require_spec
from ludus_openspiel.measuring import Exploitability, measure
from ludus_openspiel.querying import query, rows_needed
from ludus_openspiel.tree import InformationStates, information_states

__all__ = ["Played"]


@frozen(kw_only=True)
class Played:
    """What K participants play in all N information states of a game.

    Args:
        spec: The game's.
        states: Its information states.
        names: Of the participants.
        decisions: How many each has learned from; None for who does not learn.
        probabilities: ``[K, N, A] float64``.
        samples: From how many decisions in each information state these were estimated; 0: exact.
    """

    spec: OpenSpielSpec
    states: InformationStates
    names: Sequence[str]
    decisions: Sequence[int | None]
    probabilities: np.ndarray
    samples: int

    @classmethod
    def of(cls, run: Run, name: str, *, all_models: bool = False, samples: int = 4096) -> Played:
        """Ask participants of a run.

        Args:
            run: An open run of a turn-based game that is small enough to be enumerated.
            name: A player, whose latest model is meant, a model, an anchor, or an installed agent.
            all_models: Ask all frozen models of the player instead, oldest first.
            samples: How often to ask where probabilities cannot be read, see `query`.

        Raises:
            ConfigError: There is no such participant, the player has no model yet, or the game is of the wrong kind.
            ModelError: A model cannot be loaded.
        """
        names = _models(run, name) if all_models else [f"{name}@latest" if name in run.league.players else name]
        with closing(run.make_environment(1)) as environment:
            spec = require_spec(environment.spec)
        states = information_states(spec)
        with closing(run.make_environment(-(-rows_needed(states) // len(spec.seats)))) as environment:
            found = [query(run.agent(one, ROLE, environment=environment), states, samples=samples) for one in names]
        names = [run.resolve(one) if "@" in one else one for one in names]
        return cls(
            spec=spec,
            states=states,
            names=names,
            decisions=[run.models[one].decisions if one in run.models else None for one in names],
            probabilities=np.stack([queried.probabilities for queried in found]),
            samples=max(queried.samples for queried in found),
        )

    def measure(self, index: int) -> Exploitability:
        """Measure one of the participants."""
        return measure(self.spec, self.probabilities[index], states=self.states)

    def measure_average(self, count: int | None = None, *, weights: np.ndarray | None = None) -> Exploitability:
        """Measure the average of the first participants; one is drawn at the start of a match and kept.

        See `ludus_openspiel.averaging.average_policy`.

        Args:
            count: Of how many; None: all.
            weights: ``[count]``: how often each is drawn, in any unit; None: all alike.
        """
        average = average_policy(self.probabilities[:count], states=self.states, weights=weights)
        return measure(self.spec, average, states=self.states)


def _models(run: Run, name: str) -> Sequence[str]:
    player = run.league.players.get(name.partition("@")[0])
    if player is None:
        raise ConfigError(f"{name} is no player of this run; there are {', '.join(run.league.players)}")
    if not player.models:
        raise ConfigError(f"{player.name} has no frozen model yet; see freeze_every_decisions")
    return player.models
