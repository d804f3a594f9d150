"""Many copies of a game that plays one match at a time, as one batched environment.

This is what adapters to other libraries are made of: an adapter implements `ScalarGame` for one match, `Copies` does
the rest. It is not meant for writing games; a game of one's own is a PettingZoo or Gymnasium environment, or a batched
`ludus.environment.Environment`.

::

    Copies ── slice of rows ── games 1 … n               in this process, one after another
       └───── worker process ── slice of rows …          spread over `workers` processes

Every game is bound once to views of its row: it reads its actions there and writes its tick there, so that nothing is
packed or copied on the way, in this process or another. Workers map the same unlinked temporary file; one socket each
carries a byte per step and back. They make their games from an import path and options that JSON can carry, never from
a pickle, and end when the socket closes. The same seeds give the same matches with any number of workers.
"""

from ludus_copies.copies import Copies
from ludus_copies.rows import Row, ScalarGame
from ludus_copies.spaces import (
    action_reader,
    fold_seed,
    mask_writer,
    observation_writer,
    plain_action_space,
    plain_observation_space,
)

__all__ = [
    "Copies",
    "Row",
    "ScalarGame",
    "action_reader",
    "fold_seed",
    "mask_writer",
    "observation_writer",
    "plain_action_space",
    "plain_observation_space",
]
