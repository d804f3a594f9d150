"""The commands of ``ludus``, each in a module of its own that is imported when the command is used."""

from __future__ import annotations

from attrs import frozen

__all__ = ["BUILT_IN", "Entry"]


@frozen
class Entry:
    """Where a command lives and the line that ``ludus --help`` shows for it."""

    path: str
    help: str


#: What trains, and what helps when no plugin works. Commands of plugins come after them and cannot replace them.
BUILT_IN = {
    "train": Entry("ludus._cli.train:train", "Train the players of a TOML file, from the start or further."),
    "resume": Entry("ludus._cli.train:resume", "Go on with an interrupted run."),
    "plugins": Entry("ludus._cli.plugins:plugins", "List what is installed and what each plugin offers."),
}
