"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


#: Summary of each probe. The game ``matrix-game`` is made by `matrix_game.make_matrix_game` from `MatrixGameConfig`.
_SUMMARIES = {
    "matrix-game": "two seats choose at once and a matrix pays them: rock-paper-scissors, pennies, any other",
    "memory-game": "name in the end what was shown at the start: decided by memory",
    "corridor": "a long way to the reward, a small one beside the start: decided by exploration",
    "exits": "a reward per tick, or a prize for leaving: decided by ends of seats that do not bootstrap",
    "key-ring": "a few of many keys fit a lock, one of them opens it: decided by keeping to the action mask",
    "labels": "three action labels, the first selects which other counts: decided by handling dependent labels",
    "luck": "easy questions with random rewards known to critics: decided by a critic with privileged input",
    "team-game": "a shared reward with noise that critics may observe: decided by a critic of the global state",
    "targets": "choose one of a varying number of entities: decided by a network that knows no order",
    "steer": "two real numbers must follow the observation: decided by continuous actions",
    "aim": "name a target and hit its place: decided by actions of a label and real numbers",
}


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the probes."""
    return [_probe(name, summary) for name, summary in _SUMMARIES.items()]


def _probe(name: str, summary: str) -> Component:
    module, options = name.replace("-", "_"), name.title().replace("-", "")
    factory, config = f"ludus_probes.{module}:make_{module}", f"ludus_probes.config:{options}Config"
    return Component(name=name, factory=factory, config=config, summary=summary)


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
        _perfect("exits", "exits:make_exits_agent", "stays"),
        _perfect("key-ring", "key_ring:make_key_ring_agent", "knows the key of every lock"),
        _perfect("labels", "labels:make_labels_agent", "sets every label to what is asked of it"),
        _perfect("luck", "luck:make_luck_agent", "answers every sign"),
        _perfect("team-game", "team_game:make_team_game_agent", "every seat answers its sign"),
        _perfect("targets", "targets:make_targets_agent", "presses the right button on the entity that is sought"),
        _perfect("steer", "steer:make_steer_agent", "returns the best action to the bit"),
        _perfect("aim", "aim:make_aim_agent", "shoots at the middle of the target that is sought"),
    ]
