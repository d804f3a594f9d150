"""Policies of participants of a run in a small game, and their exploitability.

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
from ludus_openspiel.exploitability import Exploitability, measure
from ludus_openspiel.games import ROLE, OpenSpielSpec, require_spec
from ludus_openspiel.tabulation import required_seats, tabulate_policy
from ludus_openspiel.tree import InformationStates, information_states

__all__ = ["ParticipantPolicies"]


@frozen(kw_only=True)
class ParticipantPolicies:
    """Action probabilities of K participants in all N information states of a game.

    Args:
        spec: Spec of the game.
        states: Information states of the game.
        names: Names of the participants.
        decisions: Number of decisions each participant has learned from; None for participants that do not learn.
        probabilities: ``[K, N, A] float64``.
        samples: Number of decisions per information state that estimates use; 0 for exact probabilities.
    """

    spec: OpenSpielSpec
    states: InformationStates
    names: Sequence[str]
    decisions: Sequence[int | None]
    probabilities: np.ndarray
    samples: int

    @classmethod
    def load(cls, run: Run, name: str, *, all_models: bool = False, samples: int = 4096) -> ParticipantPolicies:
        """Tabulate the policies of participants of a run.

        Args:
            run: An open run of a turn-based game that is small enough to be enumerated.
            name: A player (its latest model), a model, an anchor, or an installed agent.
            all_models: Use all frozen models of the player instead, oldest first.
            samples: Number of samples for estimates, see `tabulate_policy`.

        Raises:
            ConfigError: The participant does not exist, the player has no model yet, or the game is not supported.
            ModelError: A model cannot be loaded.
        """
        names = _models(run, name) if all_models else [f"{name}@latest" if name in run.league.players else name]
        with closing(run.make_environment(1)) as environment:
            spec = require_spec(environment.spec)
        states = information_states(spec)
        with closing(run.make_environment(-(-required_seats(states) // len(spec.seats)))) as environment:
            found = [
                tabulate_policy(run.agent(one, ROLE, environment=environment), states, samples=samples) for one in names
            ]
        names = [run.resolve(one) if "@" in one else one for one in names]
        return cls(
            spec=spec,
            states=states,
            names=names,
            decisions=[run.models[one].decisions if one in run.models else None for one in names],
            probabilities=np.stack([policy.probabilities for policy in found]),
            samples=max(policy.samples for policy in found),
        )

    def measure(self, index: int) -> Exploitability:
        """Return the exploitability of one participant."""
        return measure(self.spec, self.probabilities[index], states=self.states)

    def measure_average(self, count: int | None = None, *, weights: np.ndarray | None = None) -> Exploitability:
        """Return the exploitability of the average of the first participants.

        See `ludus_openspiel.averaging.average_policy`.

        Args:
            count: Number of participants; None means all.
            weights: ``[count]``: relative frequencies of the participants; None means equal.
        """
        average = average_policy(self.probabilities[:count], states=self.states, weights=weights)
        return measure(self.spec, average, states=self.states)


def _models(run: Run, name: str) -> Sequence[str]:
    player = run.league.players.get(name.partition("@")[0])
    if player is None:
        raise ConfigError(f"unknown player {name}; the run has {', '.join(run.league.players)}")
    if not player.models:
        raise ConfigError(f"{player.name} has no frozen model yet; see freeze_every_decisions")
    return player.models
