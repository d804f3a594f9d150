"""The commands of the core; each is imported when it is used."""

from __future__ import annotations

from ludus.component import Component

#: Commands of the core by name. Plugins cannot replace them.
BUILT_IN_COMMANDS = {
    "train": Component(
        name="train", factory="ludus._cli.train:train", summary="Train the players of a TOML file in a new run."
    ),
    "resume": Component(name="resume", factory="ludus._cli.train:resume", summary="Go on with an interrupted run."),
}
