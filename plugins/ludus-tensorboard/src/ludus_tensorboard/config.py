"""Options of the TensorBoard sink."""

from __future__ import annotations

from attrs import frozen
from ludus import option
from ludus.option import name


@frozen(kw_only=True)
class TensorBoardConfig:
    """Options of the sink ``tensorboard``."""

    directory: str = option("tensorboard", name(), help="folder for event files, inside the run folder", path="write")
