"""Start states of matches, and scenarios that modify them.

A scenario has parameters that a league can draw at random [AET §3.3].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from ludus.environment import Scenario, checked_scenarios
from ludus.errors import ContractError

from ludus_chase.config import ChaseConfig
from ludus_chase.game import Rates
from ludus_chase.house import HEIGHT, MARGIN, WIDTH, FloorPlan, draw_floats, draw_permutations
from ludus_chase.world import AGENTS, ITEM_KINDS, THINGS, Cheese, Stage, Status, Thing, World

#: Every parameter: default, least and greatest value. Factors multiply; counts and levels are whole numbers.
PARAMETERS: Mapping[str, tuple[float, float, float]] = {
    "cat_speed": (1.0, 0.0, 3.0),
    "mouse_speed": (1.0, 0.0, 3.0),
    "hit_power": (1.0, 0.0, 10.0),
    "cheese_speed": (1.0, 0.1, 10.0),  # carrying and pushing
    "rocket_time": (1.0, 0.1, 10.0),
    "time": (1.0, 0.1, 1.0),  # the time limits of both stages
    "mice": (4, 2, 4),
    "cat_level": (1, 1, 20),
    "mouse_level": (1, 1, 20),
    "cat_boost": (1.0, 0.1, 10.0),  # power for `boost_s` after the preparation
    "mouse_boost": (1.0, 0.1, 10.0),
    "boost_s": (0.0, 0.0, 600.0),
    "eliminated": (0, 0, 2),  # mice out of the game from the start
    "pushed": (0, 0, 5),  # cheeses pushed at the start
    "health": (1.0, 0.01, 1.0),  # of the mice at the start
    "preparation": (1, 0, 1),  # 0: none
}
_WHOLE = {"mice", "cat_level", "mouse_level", "eliminated", "pushed", "preparation"}
#: The place of each parameter in `World.handicap`.
COLUMN = {name: column for column, name in enumerate(PARAMETERS)}

#: Parameters of each scenario and their defaults.
SCENARIOS: Mapping[str, Mapping[str, float]] = {
    "cat-speed": {"cat_speed": 0.85},
    "mouse-speed": {"mouse_speed": 1.15},
    "hit-power": {"hit_power": 0.5},
    "cheese-speed": {"cheese_speed": 2.0},
    "rocket-time": {"rocket_time": 2.0},
    "time": {"time": 0.6},
    "mice": {"mice": 3},
    "cat-level": {"cat_level": 4},
    "mouse-level": {"mouse_level": 4},
    "cat-boost": {"cat_boost": 1.5, "boost_s": 30.0},
    "mouse-boost": {"mouse_boost": 2.0, "boost_s": 30.0},
    "eliminated": {"eliminated": 1},
    "head-start": {"pushed": 3},
    "wounded": {"health": 0.5},
    "escape": {"pushed": 5, "preparation": 0},
    "no-preparation": {"preparation": 0},
    "custom": {name: default for name, (default, _, _) in PARAMETERS.items()},
}


def handicaps(scenarios: Sequence[Scenario] | None, count: int) -> np.ndarray:
    """Return the parameters ``[count, 16] float32`` of matches.

    Args:
        scenarios: One per match; None means the default scenario for all.
        count: Number of matches.

    Raises:
        ContractError: A scenario or parameter is unknown or out of range, or their number is wrong.
    """
    values = np.tile(np.array([default for default, _, _ in PARAMETERS.values()], np.float32), (count, 1))
    for row, scenario in enumerate(checked_scenarios(scenarios, count, known=SCENARIOS)):
        for name, value in _changes(scenario).items():
            values[row, COLUMN[name]] = value
    return values


def _changes(scenario: Scenario) -> dict[str, float]:
    """Return the parameters in which a scenario differs from the default one."""
    known = SCENARIOS.get(scenario.name, {})
    for name, value in scenario.parameters.items():
        _, low, high = PARAMETERS[name]
        if not low <= value <= high or (name in _WHOLE and value != round(value)):
            kind = "a whole number" if name in _WHOLE else "a number"
            expected = f"expected {kind} from {low:g} to {high:g} for {name}"
            raise ContractError(f"scenario {scenario.name}: {expected}, got {value!r}")
    values = {**known, **scenario.parameters}
    if values.get("mice", 4) - values.get("eliminated", 0) < 2:
        raise ContractError(
            f"scenario {scenario.name}: fewer than two mice are left, so the cat would win at the start"
        )
    return values


_CLEAR = 2.5  # cells: minimum distance of things to the walls of their rooms
_ORDERS = (Thing.CHEESES, Thing.HOLES, Thing.ROCKETS, Thing.ITEMS, Thing.CAKES)
#: Index of the first random number that start states do not use.
FIRST_HOUSE_DRAW = 2048


def new_world(plan: FloorPlan, seeds: np.ndarray, handicap: np.ndarray, *, config: ChaseConfig, rates: Rates) -> World:
    """Return the start states of matches.

    Args:
        plan: Rooms and walls of the houses.
        seeds: ``[n] uint64``.
        handicap: ``[n, 16] float32``.
        config: Options of the game.
        rates: The options in ticks.
    """
    world = World.blank(len(seeds))
    world.handicap[:] = handicap
    _place_agents(plan, seeds, world)
    _place_things(plan, seeds, world)
    world.health[:] = 100.0
    world.health[:, 1:] *= handicap[:, COLUMN["health"], None]
    world.level[:, 0] = handicap[:, COLUMN["cat_level"]]
    world.level[:, 1:] = handicap[:, COLUMN["mouse_level"], None]
    for array in (world.hold, world.item, world.rocket, world.hole):
        array[:] = -1
    world.running[:] = True
    world.spotted_age[:] = 1_000_000
    _begin_stage(world, rates)
    _push_at_start(world, config)
    begin_breaking(world, np.flatnonzero(world.pushed >= config.cheeses), rates)
    return world


def _place_agents(plan: FloorPlan, seeds: np.ndarray, world: World) -> None:
    """Place each agent in a room of its own, if there are enough, and remove absent mice."""
    order = draw_permutations(seeds, 0, plan.rooms)
    rooms = order[:, np.arange(AGENTS) % plan.rooms]
    world.start_x[:], world.start_y[:] = _points_in_rooms(plan, rooms, draw_floats(seeds, 32, 2 * AGENTS))
    world.x[:], world.y[:] = world.start_x, world.start_y
    world.history[..., 0], world.history[..., 1] = world.x[:, :, None], world.y[:, :, None]
    present = world.handicap[:, COLUMN["mice"], None]
    left = present - world.handicap[:, COLUMN["eliminated"], None]
    number = np.arange(1, AGENTS)
    out = np.where(number > present, Status.ABSENT, Status.ELIMINATED)
    world.status[:, 1:] = np.where(number > left, out, Status.FREE)


def _place_things(plan: FloorPlan, seeds: np.ndarray, world: World) -> None:
    """Place things of one kind in different rooms, if there are enough, and the crack in an outer wall."""
    rooms = np.zeros((len(seeds), THINGS), np.int64)
    for number, kind in enumerate(_ORDERS):
        order = draw_permutations(seeds, 64 + 32 * number, plan.rooms)
        rooms[:, kind] = order[:, np.arange(kind.stop - kind.start) % plan.rooms]
        world.present[:, kind] = True
    world.thing_x[:], world.thing_y[:] = _points_in_rooms(plan, rooms, draw_floats(seeds, 512, 2 * THINGS))
    world.kinds[:] = 1 + (draw_floats(seeds, 768, 6) * len(ITEM_KINDS)).astype(np.int64)
    along, side = draw_floats(seeds, 832, 2).T
    level, near = np.floor(side * 4) < 2, np.floor(side * 4) % 2 == 0  # a wall that runs from west to east, in front
    world.thing_x[:, Thing.CRACK] = np.where(level, 2 + along * (WIDTH - 4), np.where(near, MARGIN, WIDTH - MARGIN))
    world.thing_y[:, Thing.CRACK] = np.where(level, np.where(near, MARGIN, HEIGHT - MARGIN), 2 + along * (HEIGHT - 4))
    world.amount[:, Thing.CRACK] = 1.0


def _points_in_rooms(plan: FloorPlan, rooms: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return points in ``rooms [n, k]`` for numbers ``[n, 2k]`` in [0, 1)."""
    across, down = np.split(drawn, 2, axis=1)
    x = rooms % plan.columns * plan.width + _CLEAR + across * (plan.width - 2 * _CLEAR)
    y = rooms // plan.columns * plan.height + _CLEAR + down * (plan.height - 2 * _CLEAR)
    return x.astype(np.float32), y.astype(np.float32)


def _begin_stage(world: World, rates: Rates) -> None:
    prepares = (world.handicap[:, COLUMN["preparation"]] > 0) & (rates.preparation > 0)
    world.stage[:] = np.where(prepares, Stage.PREPARATION, Stage.PUSHING)
    world.left[:] = np.where(prepares, rates.preparation, scaled_time_limit(world, rates.push))


def scaled_time_limit(world: World, ticks: int) -> np.ndarray:
    """Return ``[n] int32``: a time limit in ticks, scaled by the scenarios."""
    limit: np.ndarray = np.ceil(world.handicap[:, COLUMN["time"]] * ticks - 1e-4).astype(np.int32)
    return limit


def _push_at_start(world: World, config: ChaseConfig) -> None:
    """Push the number of cheeses that the scenario sets."""
    count = np.minimum(world.handicap[:, COLUMN["pushed"]], config.cheeses)
    done = np.arange(5) < count[:, None]
    world.cheese[done] = Cheese.PUSHED
    world.hole[:] = np.where(done, np.arange(5), -1)
    world.present[:, Thing.CHEESES] = ~done
    world.amount[:, Thing.HOLES] = done


def begin_breaking(world: World, matches: np.ndarray, rates: Rates) -> None:
    """Start the last stage in matches ``[n] int64``: the crack appears, and all agents know its position."""
    world.stage[matches] = Stage.BREAKING
    world.left[matches] = scaled_time_limit(world, rates.escape)[matches]
    world.present[matches, Thing.CRACK] = True
    world.known[matches, :, Thing.CRACK] = world.seen_present[matches, :, Thing.CRACK] = True
    world.seen_amount[matches, :, Thing.CRACK] = 1.0
    world.seen_x[matches, :, Thing.CRACK] = world.thing_x[matches, Thing.CRACK][:, None]
    world.seen_y[matches, :, Thing.CRACK] = world.thing_y[matches, Thing.CRACK][:, None]
