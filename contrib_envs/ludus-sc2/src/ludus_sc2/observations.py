"""The observation interfaces of Arena for the full game, by the names of the paper [Arena §A.3.1].

Each one appends leaves that it computes from those of the environment. Counts, scores and amounts x appear as
log(1 + x). The interface ``select-leaves`` keeps those that a network shall read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import numpy as np
from attrs import frozen
from gymnasium import spaces
from ludus.environment import Leaves
from ludus.errors import ContractError
from ludus.interface import Identity, Interface, SeatView, Spaces
from ludus.spaces import leaf_spaces

from ludus_sc2.config import LearnerConfig
from ludus_sc2.layout import COLUMN, MAX_AREAS, PLAYER, RESOURCE, SCORE, observation_space
from ludus_sc2.names import KIND, KINDS, PROGRESS, STRUCTURES, TECHNOLOGIES, TOWN_HALLS, UNITS

SIDES = ("own", "enemy")
_DEFENSES = ("spine-crawler", "spore-crawler", "nydus-worm")
#: Kinds that share a channel of the image. Every kind is in one of the groups.
GROUPS = (
    ("drone",),
    ("overlord", "overseer"),
    ("queen",),
    ("zergling", "baneling"),
    ("roach", "ravager"),
    ("hydralisk", "lurker"),
    ("mutalisk", "corruptor", "brood-lord"),
    ("viper", "swarm-host", "infestor", "ultralisk"),
    ("larva", "egg"),
    ("other",),
    TOWN_HALLS,
    ("extractor",),
    _DEFENSES,
    tuple(name for name in STRUCTURES if name not in (*TOWN_HALLS, "extractor", *_DEFENSES)),
)
_GROUP = np.zeros(len(KINDS), np.int64)
for _index, _names in enumerate(GROUPS):
    _GROUP[[KIND[_name] for _name in _names]] = _index
PERIODS = 20  # of the time limit
#: Numbers of the vector of `make_learner` before the counts of each kind: all, fighting, ground and air units.
_STATISTICS = 4
LEARNER_SIZE = 2 * _STATISTICS + 2 * len(KINDS) + len(PLAYER) + PERIODS + 3 + 1 + len(SCORE)
#: Numbers of an area: counts of both sides by kind, health of the base, vacancies for minerals and gas, idle workers,
#: minerals and gas that are left.
AREA_SIZE = 2 * len(KINDS) + 6
_IS_TOWN_HALL = np.isin(np.arange(len(KINDS)), [KIND[name] for name in TOWN_HALLS])


def make_learner(config: LearnerConfig) -> Interface:
    """Make ``zerg-sc2-learner-obs``."""
    shapes = {
        "learner_image": (config.cells, config.cells, 2 * len(GROUPS)),
        "learner_vector": (LEARNER_SIZE,),
    }

    def compute(seen: Leaves) -> Leaves:
        return {"learner_image": draw_units(seen, config.cells), "learner_vector": learner_vector(seen)}

    return AppendLeaves("zerg-sc2-learner-obs", shapes, compute)


def make_area(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``zerg-area-obs``."""
    return AppendLeaves("zerg-area-obs", {"area": (MAX_AREAS * AREA_SIZE,)}, lambda seen: {"area": area_vector(seen)})


def make_tech(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``zerg-tech-obs``: 1 for every technology that is researched."""
    return AppendLeaves(
        "zerg-tech-obs", {"tech": (len(TECHNOLOGIES),)}, lambda seen: {"tech": seen["upgrades"].astype(np.float32)}
    )


def make_unit_progress(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``zerg-unit-prog-obs``: whether each building and technology is in progress, then how far."""

    def compute(seen: Leaves) -> Leaves:
        progress = seen["in_progress"]
        return {"unit_prog": np.concatenate([progress > 0, progress], axis=1, dtype=np.float32)}

    return AppendLeaves("zerg-unit-prog-obs", {"unit_prog": (2 * len(PROGRESS),)}, compute)


@frozen
class AppendLeaves(Identity):
    """Appends leaves that are computed from those of the environment.

    Args:
        name: Name of the interface in messages.
        shapes: Shape of each new leaf; its values are at least 0.
        compute: Returns the new leaves ``[n, …] float32`` of the leaves of the environment.
    """

    name: str
    shapes: Mapping[str, tuple[int, ...]]
    compute: Callable[[Leaves], Leaves]

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with the new leaves.

        Raises:
            ContractError: The observation is not that of ``sc2``.
        """
        leaves = leaf_spaces(raw.observation)
        require_leaves(leaves, self.name)
        added = {name: spaces.Box(0.0, np.inf, shape, np.float32) for name, shape in self.shapes.items()}
        return Spaces(spaces.Dict({**leaves, **added}), raw.action)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002 - rows are independent
        """Return the view with the new leaves."""
        return attrs.evolve(view, observation={**view.observation, **self.compute(view.observation)})


def require_leaves(leaves: Mapping[str, spaces.Space[object]], interface: str) -> None:
    """Check that the leaves of the environment are there.

    Raises:
        ContractError: One is missing or has another shape.
    """
    for name, expected in leaf_spaces(observation_space(1)).items():
        shape, wanted = getattr(leaves.get(name), "shape", None) or (), expected.shape or ()
        is_table = name.removesuffix("_present") in (*SIDES, "resources")
        if len(shape) != len(wanted) or shape[is_table:] != wanted[is_table:]:
            raise ContractError(
                f"{interface}: expected the leaf {name!r} of the environment 'sc2', got {', '.join(leaves)}; place it "
                f"before interfaces that remove or change leaves"
            )


def draw_units(seen: Leaves, cells: int) -> np.ndarray:
    """Return the numbers of units by cell, ``[n, cells, cells, 28] float32``.

    Channels of the own side come first. Row 0 and column 0 are at the own start.
    """
    image = np.zeros((len(seen["own"]), cells, cells, 2 * len(GROUPS)), np.float32)
    for side, name in enumerate(SIDES):
        table, row, unit = _present_units(seen, name)
        numbers = table[row, unit]
        column, line = (
            np.clip((numbers[:, COLUMN[axis]] * cells).astype(np.int64), 0, cells - 1) for axis in ("x", "y")
        )
        np.add.at(image, (row, line, column, side * len(GROUPS) + _GROUP[_kinds(numbers)]), 1.0)
    return np.log1p(image)


def learner_vector(seen: Leaves) -> np.ndarray:
    """Return the numbers of the match ``[n, 129] float32``.

    UnitStatCount (8), UnitTypeCount (76), Player (9), GameProgress (20, one-hot), Worker (3: mining minerals, mining
    gas, idle) and Score (13) [Arena §A.3.1].
    """
    rows = len(seen["own"])
    counts = np.zeros((rows, len(SIDES), len(KINDS)), np.float32)
    statistics = np.zeros((rows, len(SIDES), _STATISTICS), np.float32)
    for side, name in enumerate(SIDES):
        table, row, unit = _present_units(seen, name)
        numbers = table[row, unit]
        np.add.at(counts[:, side], (row, _kinds(numbers)), 1.0)
        flying, army = numbers[:, COLUMN["flying"]], numbers[:, COLUMN["army"]]
        for column, values in enumerate((np.ones_like(army), army, 1.0 - flying, flying)):
            np.add.at(statistics[:, side, column], row, values)
    period = np.minimum((seen["time"] * PERIODS).astype(np.int64), PERIODS - 1)
    plain = [statistics.reshape(rows, -1), counts.reshape(rows, -1), seen["player"]]
    logs = [np.log1p(np.maximum(part, 0.0)) for part in (*plain, _workers(seen), seen["score"])]
    progress = period == np.arange(PERIODS)
    return np.concatenate([*logs[:3], progress, *logs[3:]], axis=1, dtype=np.float32)


def _workers(seen: Leaves) -> np.ndarray:
    """Return how many workers mine minerals, mine gas and are idle, ``[n, 3]``."""
    table, row, unit = _present_units(seen, "own")
    numbers, workers = table[row, unit], np.zeros((len(table), 3), np.float32)
    kinds, assigned = _kinds(numbers), numbers[:, COLUMN["assigned"]]
    idle = (kinds == KIND["drone"]) * numbers[:, COLUMN["idle"]]
    parts = (assigned * _IS_TOWN_HALL[kinds], assigned * (kinds == KIND["extractor"]), idle)
    for column, values in enumerate(parts):
        np.add.at(workers[:, column], row, values)
    return workers


def area_vector(seen: Leaves) -> np.ndarray:
    """Return the numbers of all resource areas ``[n, 16 · 82] float32``; a unit belongs to the nearest area."""
    found = np.zeros((len(seen["own"]), MAX_AREAS, AREA_SIZE), np.float32)
    for side, name in enumerate(SIDES):
        table, row, unit = _present_units(seen, name)
        numbers = table[row, unit]
        area = _nearest_areas(seen, row, numbers[:, [COLUMN["x"], COLUMN["y"]]])
        kinds = _kinds(numbers)
        np.add.at(found, (row, area, side * len(KINDS) + kinds), 1.0)
        if name == "own":
            _add_bases(found, (row, area), numbers, kinds)
    table, row, unit = _present_units(seen, "resources")
    numbers = table[row, unit]
    area = _nearest_areas(seen, row, numbers[:, :2])
    gas = numbers[:, RESOURCE.index("gas")] > 0
    np.add.at(found, (row, area, AREA_SIZE - 2 + gas), numbers[:, RESOURCE.index("amount")])
    health = 2 * len(KINDS)
    ratio = found[..., health].copy()
    found = np.log1p(found)
    found[..., health] = ratio
    return found.reshape(len(found), -1)


def _add_bases(found: np.ndarray, place: tuple[np.ndarray, np.ndarray], numbers: np.ndarray, kinds: np.ndarray) -> None:
    """Add health, vacancies and idle workers of own bases to the numbers of areas, which are at indices `place`."""
    first = 2 * len(KINDS)
    is_base = _IS_TOWN_HALL[kinds]
    np.maximum.at(found[..., first], place, numbers[:, COLUMN["health"]] * is_base)
    vacancies = np.maximum(0.0, numbers[:, COLUMN["ideal"]] - numbers[:, COLUMN["assigned"]])
    np.add.at(found[..., first + 1], place, vacancies * is_base)
    np.add.at(found[..., first + 2], place, vacancies * (kinds == KIND["extractor"]))
    np.add.at(found[..., first + 3], place, numbers[:, COLUMN["idle"]] * (kinds == KIND["drone"]))


def _present_units(seen: Leaves, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a table ``[n, N, …]`` of units or resources, and row and column of those that are present."""
    row, unit = np.nonzero(seen[f"{name}_present"])
    return seen[name], row, unit


def _kinds(numbers: np.ndarray) -> np.ndarray:
    """Return the kinds ``[m] int64`` of numbers of units ``[m, 12]``."""
    return np.clip(numbers[:, COLUMN["kind"]].astype(np.int64), 0, len(KINDS) - 1)


def _nearest_areas(seen: Leaves, row: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the nearest area of each position ``[m, 2]``, given the row of each."""
    distance = ((points[:, None] - seen["areas"][row]) ** 2).sum(axis=2)
    distance[seen["areas_present"][row] == 0] = np.inf
    return np.asarray(distance.argmin(axis=1))


assert sum(map(len, GROUPS)) == len(KINDS) == len(UNITS) + len(STRUCTURES)
