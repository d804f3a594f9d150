"""Houses: rooms that can be reached, ways that lead there, and the random numbers behind them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus_chase.house import DOOR, HEIGHT, WIDTH, FloorPlan, build_houses, draw_floats, draw_permutations, move_points
from ludus_chase.perception import find_paths

ROWS = np.zeros(1, np.int64)


def house_of(plan, seed, extra_doors=0.0):
    """Return one house."""
    return build_houses(plan, np.array([seed], np.uint64), first=0, extra_doors=extra_doors)


def points(*pairs):
    """Return x and y ``[1, n] float32``."""
    return tuple(np.array([values], np.float32) for values in zip(*pairs, strict=True))


@pytest.mark.parametrize(("columns", "rows", "walls"), [(2, 2, 4), (3, 3, 12), (4, 3, 17), (2, 4, 10)])
def test_a_plan_has_a_wall_between_neighbours(columns, rows, walls):
    """`sides` refers to it from both rooms."""
    plan = FloorPlan(columns=columns, rows=rows)
    assert plan.walls == walls
    for wall, (first, second) in enumerate(plan.joins):
        ahead, back = (0, 2) if plan.vertical[wall] else (1, 3)
        assert plan.sides[4 * first + ahead] == plan.sides[4 * second + back] == wall


def test_rooms_are_found_by_position():
    """Row by row; the far edges belong to the last rooms."""
    plan = FloorPlan(columns=3, rows=3)
    x, y = points((0, 0), (23.9, 15.9), (24, 0), (0, 16), (71.9, 47.9), (72, 48))
    assert plan.room(x, y).tolist() == [[0, 0, 1, 3, 8, 8]]


@given(seed=st.integers(0, 2**63), columns=st.integers(2, 4), rows=st.integers(2, 4))
@settings(deadline=None, max_examples=20)
def test_every_room_can_be_reached(seed, columns, rows):
    """Without extra doors there are exactly as many as needed."""
    plan = FloorPlan(columns=columns, rows=rows)
    house = house_of(plan, seed)
    assert house.open.sum() == plan.rooms - 1
    assert not house.open[0, -1]
    reached = {0}
    for _ in range(plan.rooms):
        for first, second in plan.joins[house.open[0, :-1]]:
            if {first, second} & reached:
                reached |= {int(first), int(second)}
    assert len(reached) == plan.rooms


def test_the_share_of_extra_doors():
    """All of them, or about half of those not needed."""
    plan, seeds = FloorPlan(columns=3, rows=3), np.arange(2000, dtype=np.uint64)
    assert build_houses(plan, seeds, first=0, extra_doors=1.0).open[:, :-1].all()
    mean = build_houses(plan, seeds, first=0, extra_doors=0.5).open.sum(axis=1).mean()
    assert mean == pytest.approx(8 + 4 / 2, abs=0.1)


@given(seed=st.integers(0, 2**63))
@settings(deadline=None, max_examples=20)
def test_doors_lie_in_their_walls(seed):
    """The whole door is inside its wall."""
    plan = FloorPlan(columns=3, rows=3)
    house = house_of(plan, seed)
    for wall in range(plan.walls):
        x, y = float(house.door_x[0, wall]), float(house.door_y[0, wall])
        along, size = (y, 16.0) if plan.vertical[wall] else (x, 24.0)
        across, step = (x, 24.0) if plan.vertical[wall] else (y, 16.0)
        assert across % step == 0
        assert DOOR < along % size < size - DOOR


@given(seed=st.integers(0, 2**63), drawn=st.tuples(*[st.floats(0.01, 0.99)] * 4))
@settings(deadline=None, max_examples=40)
def test_paths_lead_to_their_targets(seed, drawn):
    """Following the steps leads to the target within the stated distance, which is at least the straight distance."""
    plan = FloorPlan(columns=3, rows=3)
    house = house_of(plan, seed, 0.3)
    to = points((drawn[2] * 71 + 0.5, drawn[3] * 47 + 0.5))
    at = points((drawn[0] * 71 + 0.5, drawn[1] * 47 + 0.5))
    first = find_paths(plan, house, at, to)
    reported = float(first.far[0, 0, 0])
    assert reported >= np.hypot(first.dx, first.dy)[0, 0, 0] - 1e-3
    way, walked = first, 0
    while way.far[0, 0, 0] >= 1.0 and walked < 400:
        at = move_points(plan, house, ROWS[:, None], *at, dx=way.step_x[0], dy=way.step_y[0])
        way, walked = find_paths(plan, house, at, to), walked + 1
    assert walked <= 1.3 * reported + 8


def test_a_path_in_the_same_room_is_straight():
    """A 3-4-5 triangle."""
    plan = FloorPlan(columns=3, rows=3)
    way = find_paths(plan, house_of(plan, 0), points((5, 5)), points((8, 9)))
    assert (way.dx.item(), way.dy.item(), way.far.item(), bool(way.same.item())) == (3, 4, 5, True)
    assert (round(way.step_x.item(), 5), round(way.step_y.item(), 5)) == (0.6, 0.8)


def test_a_path_through_a_door_by_hand():
    """From (20, 8) to (28, 8) through a door at (24, 11): twice 5 cells, and a little for passing the door."""
    plan = FloorPlan(columns=3, rows=3)
    house = house_of(plan, 0, 1.0)
    house.first_x[0, 1], house.first_y[0, 1] = 24.0, 11.0
    house.last_x[0, 1], house.last_y[0, 1], house.between[0, 1] = 24.0, 11.0, 0.0
    way = find_paths(plan, house, points((20, 8)), points((28, 8)))
    assert way.far.item() == 10
    assert (way.dx.item(), round(way.step_x.item(), 5), round(way.step_y.item(), 5)) == (8, 0.8, 0.6)


def test_agents_stay_on_the_map():
    """After any random steps."""
    plan, rng = FloorPlan(columns=4, rows=4), np.random.default_rng(0)
    house = build_houses(plan, np.arange(50, dtype=np.uint64), first=0, extra_doors=0.5)
    x, y = np.full((2, 50), 5.0, np.float32)
    for _ in range(200):
        dx, dy = rng.uniform(-8, 8, (2, 50)).astype(np.float32)
        before = plan.room(x, y)
        x, y = move_points(plan, house, np.arange(50), x, y, dx=dx, dy=dy)
        assert (np.minimum(x, y) > 0).all()
        assert (np.maximum(x / WIDTH, y / HEIGHT) < 1).all()
        moved = before != plan.room(x, y)
        assert house.open[moved].any(axis=1).all()


def test_random_numbers_are_functions_of_seed_and_number():
    """Floats are uniform, and a permutation has every number once."""
    seeds = np.arange(4000, dtype=np.uint64)
    drawn = draw_floats(seeds, 5, 3)
    assert np.array_equal(drawn[:, 1:], draw_floats(seeds, 6, 2))
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 0.01
    order = draw_permutations(seeds, 0, 9)
    assert (np.sort(order, axis=1) == np.arange(9)).all()
    assert abs((order[:, 0] == 4).mean() - 1 / 9) < 0.02
