"""Copies of a game that plays one match at a time, as one batched environment.

Adapters to other libraries are built on it: an adapter implements `ScalarGame` for one match, and `Copies` makes the
batched environment. To write a new game, write a PettingZoo or Gymnasium environment, or a batched
`ludus.environment.Environment`.

::

    Copies ── slice of matches ── games 1 … n              in this process, one after another
       └───── worker process ── slice of matches …         in `workers` processes

Every game is bound once to views of the arrays of its match. It reads its actions from them and writes its tick to
them, so that nothing is serialized or copied, also between processes. Workers map the same unlinked temporary file.
Each has a socket, which carries one byte per step in each direction. Workers make their games from an import path and
JSON options, never from a pickle, and exit when the socket closes. The same seeds give the same matches with any number
of workers.
"""

from ludus_copies.actions import action_reader, mask_writer, plain_action_space, random_action
from ludus_copies.arrays import MatchArrays, ScalarGame
from ludus_copies.copies import Copies
from ludus_copies.entities import MaxEntities, check_entity_names
from ludus_copies.frames import make_with_rendering, read_frame
from ludus_copies.images import ImageLayout, image_note
from ludus_copies.imports import import_attribute, is_own_function, is_subclass, missing_modules, returns
from ludus_copies.outcome import is_equal, is_reached, sign_points, winner_points
from ludus_copies.spaces import (
    fold_seed,
    observation_notes,
    observation_writer,
    plain_observation_space,
    reward_value,
    statistics_writer,
)
from ludus_copies.stepping import Stepping, SteppingOptions
from ludus_copies.wrappers import wrap

__all__ = [
    "Copies",
    "ImageLayout",
    "MatchArrays",
    "MaxEntities",
    "ScalarGame",
    "Stepping",
    "SteppingOptions",
    "action_reader",
    "check_entity_names",
    "fold_seed",
    "image_note",
    "import_attribute",
    "is_equal",
    "is_own_function",
    "is_reached",
    "is_subclass",
    "make_with_rendering",
    "mask_writer",
    "missing_modules",
    "observation_notes",
    "observation_writer",
    "plain_action_space",
    "plain_observation_space",
    "random_action",
    "read_frame",
    "returns",
    "reward_value",
    "sign_points",
    "statistics_writer",
    "winner_points",
    "wrap",
]
