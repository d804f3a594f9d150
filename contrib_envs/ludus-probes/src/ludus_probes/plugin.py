"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the probes."""
    return [
        Component(
            name="matrix-game",
            factory="ludus_probes.matrix_game:make_matrix_game",
            config="ludus_probes.config:MatrixGameConfig",
            summary="two seats choose at once and a matrix pays them: rock-paper-scissors, pennies, any other",
        ),
        Component(
            name="memory-game",
            factory="ludus_probes.memory_game:make_memory_game",
            config="ludus_probes.config:MemoryGameConfig",
            summary="name in the end what was shown at the start: decided by memory",
        ),
        Component(
            name="corridor",
            factory="ludus_probes.corridor:make_corridor",
            config="ludus_probes.config:CorridorConfig",
            summary="a long way to the reward, a small one beside the start: decided by exploration",
        ),
        Component(
            name="key-ring",
            factory="ludus_probes.key_ring:make_key_ring",
            config="ludus_probes.config:KeyRingConfig",
            summary="a few of many keys fit a lock, one of them opens it: decided by keeping to the action mask",
        ),
        Component(
            name="labels",
            factory="ludus_probes.labels:make_labels",
            config="ludus_probes.config:LabelsConfig",
            summary="three action labels, the first selects which other counts: decided by handling dependent labels",
        ),
        Component(
            name="luck",
            factory="ludus_probes.luck:make_luck",
            config="ludus_probes.config:LuckConfig",
            summary="easy questions with random rewards known to critics: decided by a critic with privileged input",
        ),
        Component(
            name="team-game",
            factory="ludus_probes.team_game:make_team_game",
            config="ludus_probes.config:TeamGameConfig",
            summary="a shared reward with noise that critics may observe: decided by a critic of the global state",
        ),
        Component(
            name="targets",
            factory="ludus_probes.targets:make_targets",
            config="ludus_probes.config:TargetsConfig",
            summary="choose one of a varying number of entities: decided by a network that knows no order",
        ),
        Component(
            name="steer",
            factory="ludus_probes.steer:make_steer",
            config="ludus_probes.config:SteerConfig",
            summary="two real numbers must follow the observation: decided by continuous actions",
        ),
    ]


def _perfect(environment: str, factory: str, summary: str) -> Component:
    return Component(
        name=f"{environment}-perfect", factory=f"ludus_probes.{factory}", summary=summary, environments=(environment,)
    )


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register a perfect agent for every probe, and an agent with a given mixture for matrix games."""
    return [
        Component(
            name="matrix-fixed",
            factory="ludus_probes.matrix_game:MatrixFixedAgent",
            config="ludus_probes.config:MatrixFixedConfig",
            summary="draws every choice of a matrix game from a fixed mixture",
            environments=("matrix-game",),
        ),
        _perfect("memory-game", "memory_game:MemoryAgent", "remembers the cue"),
        _perfect("corridor", "corridor:make_corridor_agent", "knows the way"),
        _perfect("key-ring", "key_ring:make_key_ring_agent", "knows the key of every lock"),
        _perfect("labels", "labels:make_labels_agent", "sets every label to what is asked of it"),
        _perfect("luck", "luck:make_luck_agent", "answers every sign"),
        _perfect("team-game", "team_game:make_team_game_agent", "every seat answers its sign"),
        _perfect("targets", "targets:make_targets_agent", "presses the right button on the entity that is sought"),
        _perfect("steer", "steer:make_steer_agent", "returns the best action to the bit"),
    ]
