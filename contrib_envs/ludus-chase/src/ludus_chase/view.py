"""Observations, mini-images ``[72, 48, 8] uint8`` [AET table 1] and privileged leaves of all seats.

A mini-image shows the knowledge of the team of a seat, one pixel per cell.
"""

from __future__ import annotations

import numpy as np
from ludus.environment import Leaves, RoleTick

from ludus_chase.game import Game
from ludus_chase.house import HEIGHT, WIDTH, FloorPlan, House
from ludus_chase.items import held_item_kind
from ludus_chase.layout import AGENT_TRUTH, LAGS, PATH
from ludus_chase.perception import Paths, find_paths
from ludus_chase.world import GONE, MICE, STATUSES, THINGS, Indices, Status, Thing, World

#: Channels: topography; cheeses; holes and the crack; rockets; items and cakes; hazards; the cat; the mice.
_CHANNELS = 8
_WALL, _DOOR_SHADE, _SEEN, _REMEMBERED = 255, 96, 255, 128
_DRAWN = (
    (Thing.CHEESES, 1),
    (Thing.HOLES, 2),
    (slice(Thing.CRACK, Thing.CRACK + 1), 2),
    (Thing.ROCKETS, 3),
    (Thing.ITEMS, 4),
    (Thing.CAKES, 4),
    (Thing.HAZARDS, 5),
)


class MiniImageView:
    """Draws the images of both teams; the pixels of the previous tick are cleared one by one.

    Args:
        plan: Rooms and walls of the houses.
        cat: ``[B, 1, 72, 48, 8] uint8``, the array to write to.
        mouse: ``[B, 4, 72, 48, 8] uint8``.
    """

    def __init__(self, plan: FloorPlan, *, cat: np.ndarray, mouse: np.ndarray) -> None:
        self._plan = plan
        self._leaves = (cat, mouse)
        self._drawn = [np.zeros(0, np.int64), np.zeros(0, np.int64)]

    def draw_house(self, house: House, at: Indices) -> None:
        """Draw the walls of new matches."""
        ground = np.zeros((len(house.open), WIDTH, HEIGHT), np.uint8)
        plan = self._plan
        for column in range(1, plan.columns):
            ground[:, int(column * plan.width)] = _WALL
        for row in range(1, plan.rows):
            ground[:, :, int(row * plan.height)] = _WALL
        matches, walls = np.nonzero(house.open)
        x, y = house.door_x[matches, walls].astype(np.int64), house.door_y[matches, walls].astype(np.int64)
        upright = plan.vertical[walls]
        for step in (-1, 0, 1):
            ground[matches, x + np.where(upright, 0, step), y + np.where(upright, step, 0)] = _DOOR_SHADE
        for leaf in self._leaves:
            leaf[at, :, :, :, 0] = ground[:, None]

    def update(self, world: World) -> None:
        """Draw all matches."""
        for team, leaf in enumerate(self._leaves):
            flat = leaf.reshape(-1)
            flat[self._drawn[team]] = 0
            places, shades = self._points(world, team, leaf.shape[1])
            flat[places] = shades
            self._drawn[team] = places

    def _points(self, world: World, team: int, seats: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of a team's pixels in the flat array, and their values."""
        layers = [self._thing_points(world, team, kind, channel) for kind, channel in _DRAWN]
        matches, x, y, channel, shade = (
            np.concatenate(parts) for parts in zip(*layers, self._agents(world, team), strict=True)
        )
        cell = (x.astype(np.int64).clip(0, WIDTH - 1) * HEIGHT + y.astype(np.int64).clip(0, HEIGHT - 1)) * _CHANNELS
        image = WIDTH * HEIGHT * _CHANNELS
        places = ((matches[:, None] * seats + np.arange(seats)) * image + (cell + channel)[:, None]).ravel()
        shades = np.repeat(shade, seats)
        if team:  # every mouse marks itself
            own, mice = np.nonzero(~GONE[world.status[:, 1:]])
            x, y = world.x[own, 1 + mice].astype(np.int64), world.y[own, 1 + mice].astype(np.int64)
            places = np.concatenate([places, (own * seats + mice) * image + (x * HEIGHT + y) * _CHANNELS + 7])
            shades = np.concatenate([shades, np.full(len(own), _SEEN)])
        return places, shades.astype(np.uint8)

    def _thing_points(self, world: World, team: int, kind: slice, channel: int) -> tuple[np.ndarray, ...]:
        """Return matches, x, y, channels and values of the known things of a kind."""
        known = world.known[:, team, kind] & world.seen_present[:, team, kind]
        matches, number = np.nonzero(known)
        thing = kind.start + number
        progress = world.seen_amount[matches, team, thing].clip(0, 1)
        shade = (_SEEN - _REMEMBERED * progress).astype(np.int64)
        return (
            matches,
            world.seen_x[matches, team, thing],
            world.seen_y[matches, team, thing],
            np.full(len(matches), channel),
            shade,
        )

    def _agents(self, world: World, team: int) -> tuple[np.ndarray, ...]:
        """Return the same for agents: teammates where they are, opponents where they were seen last."""
        own = (np.arange(1 + MICE) > 0) == bool(team)
        shown = ~GONE[world.status] & (own | world.spotted)
        matches, agent = np.nonzero(shown)
        mine = own[agent]
        x = np.where(mine, world.x[matches, agent], world.spotted_x[matches, agent])
        y = np.where(mine, world.y[matches, agent], world.spotted_y[matches, agent])
        sure = np.where(mine, team == 0, world.spotted_age[matches, agent] == 0)
        return matches, x, y, np.where(agent == 0, 6, 7), np.where(sure, _SEEN, _REMEMBERED)


_LONG_S = 30.0  # a time of 1 in observations
_OTHERS = np.array([[other for other in range(MICE) if other != mouse] for mouse in range(MICE)])
_KINDS = {
    "cheeses": Thing.CHEESES,
    "holes": Thing.HOLES,
    "rockets": Thing.ROCKETS,
    "items": Thing.ITEMS,
    "hazards": Thing.HAZARDS,
    "cakes": Thing.CAKES,
    "crack": slice(Thing.CRACK, Thing.CRACK + 1),
}
_SCALE = np.float32(1 / WIDTH)
_ONE_HOT = {count: np.eye(count, dtype=np.float32) for count in (3, 4, 5, len(STATUSES), 18)}


class ChaseView:
    """Writes the observations of both roles.

    Args:
        game: State of the matches.
        roles: Arrays to write to: ``[B, 1, …]`` for the cat and ``[B, 4, …]`` for the mice.
    """

    def __init__(self, game: Game, roles: dict[str, RoleTick]) -> None:
        self._game = game
        self._cat, self._mouse = roles["cat"], roles["mouse"]
        self._tick_share = np.float32(game.config.tick_ms / 1000 / _LONG_S)
        rates = game.rates
        self._limits = np.array([max(rates.preparation, 1), rates.push, rates.escape], np.float32)

    def update(self, at: Indices) -> Paths:
        """Write the leaves of the matches `at`, and return the paths of their mice."""
        world, house = self._game.world.take(at), self._game.house.take(at)
        plan = self._game.plan
        x, y = world.x, world.y
        cat = find_paths(plan, house, (x[:, :1], y[:, :1]), _targets(world, 0, (world.spotted_x, world.spotted_y)))
        mates = (
            np.concatenate([world.spotted_x[:, :1], x[:, 1:]], axis=1),
            np.concatenate([world.spotted_y[:, :1], y[:, 1:]], axis=1),
        )
        mice = find_paths(plan, house, (x[:, 1:], y[:, 1:]), _targets(world, 1, mates))
        body, common = self._bodies(world, house), self._global(world)
        for team, role, ways in ((0, self._cat, cat), (1, self._mouse, mice)):
            leaves, seats = role.observation, slice(1, 5) if team else slice(0, 1)
            leaves["global"][at] = common[:, None]
            leaves["self"][at, :, : body.shape[2]] = body[:, seats]
            leaves["memory"][at] = _memory(world)[:, seats]
            packed = _packed(ways)
            self._update_things(leaves, at, world, team, packed)
            self._update_doors(leaves, at, house, (x[:, seats], y[:, seats]))
            self._update_privileged(role.privileged, at, world)
            (self._update_cat, self._update_mouse)[team](leaves, at, world, packed)
        return mice

    def _bodies(self, world: World, house: House) -> np.ndarray:
        """Return ``[n, 5, 27] float32``: the common numbers of the leaf ``self``."""
        plan, share = self._game.plan, self._tick_share
        room = plan.room(world.x, world.y)
        row, column = np.divmod(room, plan.columns)
        body = np.empty((*world.x.shape, 27), np.float32)
        body[..., 0] = world.x * _SCALE
        body[..., 1] = world.y * _SCALE
        body[..., 2] = world.x / plan.width - column
        body[..., 3] = world.y / plan.height - row
        body[..., 4] = world.health * np.float32(0.01)
        for place, time in enumerate((world.safe, world.fast, world.cooldown), start=5):
            body[..., place] = np.minimum(time * share, 1)
        body[..., 8:12] = _ONE_HOT[5][held_item_kind(world)][..., 1:]
        body[..., 12] = np.minimum(world.fuse * share, 1)
        body[..., 13] = world.hold >= 0
        body[..., 14] = np.minimum(world.level * np.float32(0.05), 1)
        body[..., 15:27] = _own_doors(plan, house, world, room)
        return body

    def _global(self, world: World) -> np.ndarray:
        """Return ``[n, 12] float32``: the leaf ``global``."""
        config, common = self._game.config, np.empty((len(world.stage), 12), np.float32)
        status = world.status[:, 1:]
        pushed = world.pushed
        common[:, :3] = _ONE_HOT[3][world.stage]
        common[:, 3] = np.clip(world.left / self._limits[world.stage], 0, 1)
        common[:, 4] = pushed * np.float32(0.2)
        common[:, 5] = np.maximum(config.cheeses - pushed, 0) * np.float32(0.2)
        common[:, 6] = world.present[:, Thing.CRACK]
        common[:, 7] = world.amount[:, Thing.CRACK]
        for place, which in (
            (8, status == Status.ELIMINATED),
            (9, status == Status.ESCAPED),
            (10, status == Status.TIED),
            (11, ~GONE[status]),
        ):
            common[:, place] = which.sum(axis=1) * np.float32(0.25)
        return common

    def _update_things(self, leaves: Leaves, at: Indices, world: World, team: int, packed: np.ndarray) -> None:
        """Write the leaves of things as a team remembers them."""
        present = (world.known[:, team] & world.seen_present[:, team]).astype(np.float32)
        present[:, Thing.HOLES] = world.known[:, team, Thing.HOLES]
        packed[:, :, :THINGS] *= present[:, None, :, None]
        states = self._thing_states(world, team)
        for name, kind in _KINDS.items():
            leaf, state = leaves[name], states.get(name)
            leaf[at, :, :, : len(PATH)] = packed[:, :, kind]
            if state is not None:
                leaf[at, :, :, len(PATH) :] = (state * present[:, kind, None])[:, None]
            leaves[f"{name}_present"][at] = present[:, None, kind]

    def _thing_states(self, world: World, team: int) -> dict[str, np.ndarray]:
        """Return the last seen states of things by leaf, ``[n, k, f] float32`` each."""
        state, amount = world.seen_state[:, team], world.seen_amount[:, team]
        fuse = (amount[:, Thing.BOMBS] * self._tick_share).clip(0, 1)
        hazards = np.zeros((len(state), Thing.HAZARDS.stop - Thing.HAZARDS.start, 4), np.float32)
        for place, kind in enumerate((Thing.TRAPS, Thing.GLOVES, Thing.BOMBS)):
            hazards[:, kind.start - Thing.HAZARDS.start : kind.stop - Thing.HAZARDS.start, place] = 1.0
        hazards[:, Thing.BOMBS.start - Thing.HAZARDS.start :, 3] = fuse
        crack = amount[:, Thing.CRACK, None]
        return {
            "cheeses": _ONE_HOT[4][state[:, Thing.CHEESES]][..., :3],
            "holes": np.concatenate([_ONE_HOT[3][state[:, Thing.HOLES]], amount[:, Thing.HOLES, None]], axis=2),
            "rockets": np.stack([amount[:, Thing.ROCKETS] > 0, amount[:, Thing.ROCKETS]], axis=2),
            "items": _ONE_HOT[5][world.kinds][..., 1:],
            "hazards": hazards,
            "crack": np.stack([crack, crack <= 0], axis=2),
        }

    def _update_doors(self, leaves: Leaves, at: Indices, house: House, place: tuple[np.ndarray, np.ndarray]) -> None:
        """Write the leaf ``doors`` for seats at the positions ``[n, S]``."""
        leaf, open_ = leaves["doors"], house.open[:, None, :-1].astype(np.float32)
        leaf[at, :, :, 0] = (house.door_x[:, None, :-1] - place[0][:, :, None]) * (_SCALE * open_)
        leaf[at, :, :, 1] = (house.door_y[:, None, :-1] - place[1][:, :, None]) * (_SCALE * open_)
        leaf[at, :, :, 2] = self._game.plan.vertical * open_
        leaves["doors_present"][at] = open_

    def _update_cat(self, leaves: Leaves, at: Indices, world: World, packed: np.ndarray) -> None:
        """Write the leaves of cats only."""
        share = self._tick_share
        held = np.take_along_axis(world.clock, np.maximum(world.hold[:, :1], 0), axis=1)[:, 0]
        own = [world.weapons[:, 0] * share, world.weapons[:, 1] * share, held * share * (world.hold[:, 0] > 0)]
        leaves["self"][at, 0, -3:] = np.minimum(np.stack(own, axis=1), 1)
        spotted = world.spotted[:, 1:] & ~GONE[world.status[:, 1:]]
        present = spotted.astype(np.float32)
        about = np.empty((*spotted.shape, 4 + len(STATUSES)), np.float32)
        about[..., 0] = world.spotted_age[:, 1:] == 0
        about[..., 1] = np.minimum(world.spotted_age[:, 1:] * share, 1)
        about[..., 2] = world.spotted_holding[:, 1:]
        about[..., 3] = world.spotted_health[:, 1:] * np.float32(0.01)
        about[..., 4:] = _ONE_HOT[len(STATUSES)][world.spotted_status[:, 1:]]
        leaf = leaves["mice"]
        leaf[at, 0, :, : len(PATH)] = packed[:, 0, THINGS + 1 :] * present[..., None]
        leaf[at, 0, :, len(PATH) :] = about * present[..., None]
        leaves["mice_present"][at, 0] = present

    def _update_mouse(self, leaves: Leaves, at: Indices, world: World, packed: np.ndarray) -> None:
        """Write the leaves of mice only."""
        leaves["self"][at, :, -MICE:] = _ONE_HOT[MICE]
        spotted = world.spotted[:, :1].astype(np.float32)
        age = world.spotted_age[:, :1]
        cat = np.concatenate([age == 0, np.minimum(age * self._tick_share, 1), world.spotted_holding[:, :1]], axis=1)
        leaf = leaves["cat"]
        leaf[at, :, 0, : len(PATH)] = packed[:, :, THINGS] * spotted[..., None]
        leaf[at, :, 0, len(PATH) :] = (cat * spotted)[:, None]
        leaves["cat_present"][at] = spotted[:, None]
        self._update_teammates(leaves, at, world, packed)

    def _update_teammates(self, leaves: Leaves, at: Indices, world: World, packed: np.ndarray) -> None:
        status = world.status[:, 1:]
        present = (~GONE[status]).astype(np.float32)
        about = np.empty((*status.shape, 4 + len(STATUSES)), np.float32)
        about[..., 0] = world.health[:, 1:] * np.float32(0.01)
        about[..., 1:-3] = _ONE_HOT[len(STATUSES)][status]
        about[..., -3] = world.hold[:, 1:] >= 0
        about[..., -2] = world.item[:, 1:] >= 0
        about[..., -1] = np.minimum(world.clock[:, 1:] * self._tick_share, 1)
        about *= present[..., None]
        leaf = leaves["teammates"]
        own = np.arange(MICE)[:, None]
        leaf[at, :, :, : len(PATH)] = packed[:, own, THINGS + 1 + _OTHERS] * present[:, _OTHERS, None]
        leaf[at, :, :, len(PATH) :] = about[:, _OTHERS]
        leaves["teammates_present"][at] = present[:, _OTHERS]

    def _update_privileged(self, leaves: Leaves, at: Indices, world: World) -> None:
        """Write the privileged leaves."""
        share = self._tick_share
        agents = np.empty((*world.status.shape, len(AGENT_TRUTH)), np.float32)
        agents[..., 0], agents[..., 1] = world.x * _SCALE, world.y * _SCALE
        agents[..., 2] = world.health * np.float32(0.01)
        for place, time in enumerate((world.bound, world.clock, world.cooldown, world.safe), start=3):
            agents[..., place] = np.minimum(time * share, 1)
        agents[..., 7] = world.hold >= 0
        agents[..., 8:] = _ONE_HOT[len(STATUSES)][world.status]
        amount = world.amount.copy()
        amount[:, Thing.BOMBS] *= share
        things = np.stack([world.thing_x * _SCALE, world.thing_y * _SCALE, world.present, amount.clip(0, 1)], axis=2)
        leaves["all_agents"][at] = agents.reshape(len(agents), 1, -1)
        leaves["all_things"][at] = things.reshape(len(things), 1, -1)


def _targets(world: World, team: int, agents: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y ``[n, 33 + 5]`` of things as a team remembers them, and of agents."""
    x = np.concatenate([world.seen_x[:, team], agents[0]], axis=1)
    return x, np.concatenate([world.seen_y[:, team], agents[1]], axis=1)


def _packed(ways: Paths) -> np.ndarray:
    """Return ``[n, S, k, 6] float32``, see `layout.PATH`."""
    packed = np.empty((*ways.far.shape, len(PATH)), np.float32)
    packed[..., 0] = ways.dx * _SCALE
    packed[..., 1] = ways.dy * _SCALE
    packed[..., 2] = ways.step_x
    packed[..., 3] = ways.step_y
    packed[..., 4] = ways.far * np.float32(1 / (WIDTH + HEIGHT))
    packed[..., 5] = ways.same
    return packed


def _memory(world: World) -> np.ndarray:
    """Return ``[n, 5, 26] float32``: the last action, and how far the agent moved within the last ticks."""
    memory = np.empty((*world.x.shape, 18 + 2 * len(LAGS)), np.float32)
    memory[..., :18] = _ONE_HOT[18][world.last_action]
    slots = (world.ticks[:, None] - np.array(LAGS)) % world.history.shape[2]
    then = world.history[np.arange(len(slots))[:, None], :, slots]  # [n, lags, 5, 2]
    memory[..., 18::2] = (world.x[:, :, None] - then[..., 0].swapaxes(1, 2)) * _SCALE
    memory[..., 19::2] = (world.y[:, :, None] - then[..., 1].swapaxes(1, 2)) * _SCALE
    return memory


def _own_doors(plan: FloorPlan, house: House, world: World, room: np.ndarray) -> np.ndarray:
    """Return ``[n, 5, 12] float32``: for each side of the room, whether there is a door, and its offset."""
    walls = plan.sides.reshape(-1, 4)[room] + (np.arange(len(room)) * (plan.walls + 1))[:, None, None]
    open_ = house.open.reshape(-1).take(walls)
    doors = np.zeros((*walls.shape, 3), np.float32)
    doors[..., 0] = open_
    doors[..., 1] = np.where(open_, (house.door_x.reshape(-1).take(walls) - world.x[:, :, None]) * _SCALE, 0)
    doors[..., 2] = np.where(open_, (house.door_y.reshape(-1).take(walls) - world.y[:, :, None]) * _SCALE, 0)
    return doors.reshape(*room.shape, 12)
