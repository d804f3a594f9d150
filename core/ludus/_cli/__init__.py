"""The commands of ``ludus``, each in a module of its own that is imported when the command is used."""

from __future__ import annotations

from ludus.component import Component

_TRAIN = "Train the players of a TOML file, from the start or further."

#: What trains. Commands of plugins come after them and cannot replace them.
BUILT_IN = {
    "train": Component(name="train", factory="ludus._cli.train:train", summary=_TRAIN),
    "resume": Component(name="resume", factory="ludus._cli.train:resume", summary="Go on with an interrupted run."),
}
