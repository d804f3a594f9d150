"""The commands that the core itself registers; each is imported when it is used."""

from __future__ import annotations

from ludus.component import Component

_TRAIN = "Train the players of a TOML file, from the start or further."

#: Commands of the core by name. Plugins cannot replace them.
BUILT_IN_COMMANDS = {
    "train": Component(name="train", factory="ludus._cli.train:train", summary=_TRAIN),
    "resume": Component(name="resume", factory="ludus._cli.train:resume", summary="Go on with an interrupted run."),
}
