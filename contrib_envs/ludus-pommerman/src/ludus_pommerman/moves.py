"""Movement of agents and bombs in one step: conflicts, kicks, and what agents pick up.

All agents and moving bombs want a cell. Who cannot have it stays, which may be the reason for others to stay; this is
repeated until nothing changes. Occupied cells are counted and never released, so the order does not matter.
"""

from __future__ import annotations

import numpy as np
from attrs import define

from ludus_pommerman.rules import (
    BOMB_LIFE,
    EXTRA_BOMB,
    ITEMS,
    KICK,
    LAY,
    LONGER_RANGE,
    MAX_AMMO,
    PASSAGE,
    RIGID,
    WOOD,
)  # fmt: skip
from ludus_pommerman.world import COLUMN, World


@define
class _Plan:
    """Where agents and bombs are, and where they want to be; cells are numbered through all matches.

    Attributes:
        active: ``[B, A] bool``: agents that take part.
        here: ``[B, A] int64``: cell of each agent.
        wanted: ``[B, A] int64``: cell that each agent wants.
        source: ``[M] int64``: cell of each bomb.
        goal: ``[M] int64``: cell that each bomb wants.
        match: ``[M] int64``: match of each bomb.
        agents: ``[B * C] int8``: number of agents that want a cell or stayed in it; likewise `bombs`.
        kicker: ``[M] int64``: seat that kicks the bomb; -1: none.
        kicked: ``[B, A] int64``: number of the bomb that the agent kicks; -1: none.
    """

    active: np.ndarray
    here: np.ndarray
    wanted: np.ndarray
    source: np.ndarray
    goal: np.ndarray
    match: np.ndarray
    agents: np.ndarray
    bombs: np.ndarray
    kicker: np.ndarray
    kicked: np.ndarray

    def return_agents(self, back: np.ndarray) -> None:
        """Let agents ``[B, A] bool`` stay where they are, and undo their kicks."""
        undone = self.kicked[back & (self.kicked >= 0)]
        self.kicked[back] = -1
        self.wanted[back] = self.here[back]
        np.add.at(self.agents, self.here[back], 1)
        if undone.size:
            self.kicker[undone] = -1
            self.goal[undone] = self.source[undone]
            self.bombs[self.source[undone]] += 1

    def return_bombs(self, back: np.ndarray) -> None:
        """Let bombs ``[M] bool`` stay where they are, and those who kick them, too."""
        self.goal[back] = self.source[back]
        self.bombs[self.source[back]] += 1
        undone = np.flatnonzero(back & (self.kicker >= 0))
        if undone.size:
            match, seat = self.match[undone], self.kicker[undone]
            self.kicker[undone], self.kicked[match, seat] = -1, -1
            self.wanted[match, seat] = self.here[match, seat]
            np.add.at(self.agents, self.here[match, seat], 1)


def move(world: World, action: np.ndarray, steps: np.ndarray, max_strength: int) -> None:
    """Lay bombs, and move agents and bombs.

    Args:
        world: State to change.
        action: ``[B, A] int64``.
        steps: From `rules.steps`.
        max_strength: Greatest strength of bombs.
    """
    active, here = world.acting, world.places()
    _lay_bombs(world, active & (action == LAY), here)
    board = world.board.reshape(-1)
    ahead = here + steps[action]
    is_wall = (board[ahead] == RIGID) | (board[ahead] == WOOD)
    wanted = np.where(active & ~is_wall, ahead, here)
    source = world.find(world.life)
    moving = world.direction.reshape(-1)[source]
    goal = source + steps[moving]
    goal = np.where(board[goal] == PASSAGE, goal, source)
    plan = _Plan(
        active, here, wanted, source, goal, source // world.board.shape[1],
        agents=np.zeros(board.size, np.int8), bombs=np.zeros(board.size, np.int8),
        kicker=np.full(source.size, -1), kicked=np.full(here.shape, -1),
    )  # fmt: skip
    _stop_swaps(plan)
    np.add.at(plan.agents, plan.wanted[active], 1)
    np.add.at(plan.bombs, plan.goal, 1)
    _bounce(plan)
    if source.size:
        blocked = _kick(plan, action, steps, world)
        if blocked.any():
            _settle(plan, blocked)
        _move_bombs(world, plan, action, moving)
    _move_agents(world, plan, max_strength)


def _lay_bombs(world: World, wish: np.ndarray, here: np.ndarray) -> None:
    """Lay the bombs of agents ``[B, A] bool`` that have some, in cells without a bomb."""
    match, seat = np.nonzero(wish & (world.ammo > 0) & (world.life.reshape(-1)[here] == 0))
    cell = world.position[match, seat]
    world.life[match, cell] = BOMB_LIFE + 1
    world.strength[match, cell] = world.reach[match, seat]
    world.direction[match, cell] = 0
    world.owner[match, cell] = seat
    world.ammo[match, seat] -= 1
    world.tally[match, seat, COLUMN["bombs"]] += 1


def _stop_swaps(plan: _Plan) -> None:
    """Let two agents or two bombs that would change places stay, and a bomb that would change places with an agent."""
    wanted, here, active = plan.wanted, plan.here, plan.active
    enters = (wanted[:, :, None] == here[:, None]) & active[:, :, None] & active[:, None]
    enters &= ~np.eye(here.shape[1], dtype=bool)
    swaps = (enters & enters.transpose(0, 2, 1)).any(axis=2)
    moving = np.flatnonzero(plan.goal != plan.source)
    if moving.size:
        source, goal, match = plan.source[moving], plan.goal[moving], plan.match[moving]
        meets = (here[match] == goal[:, None]) & (wanted[match] == source[:, None]) & active[match]
        other = np.searchsorted(plan.source, goal).clip(max=plan.source.size - 1)
        meets_bomb = (plan.source[other] == goal) & (plan.goal[other] == source)
        stays = moving[meets.any(axis=1) | meets_bomb]
        plan.goal[stays] = plan.source[stays]
    plan.wanted[swaps] = here[swaps]


def _bounce(plan: _Plan) -> None:
    """Let those stay who want a cell that two agents or two bombs want."""
    while True:
        crowded = (plan.agents[plan.wanted] > 1) | (plan.bombs[plan.wanted] > 1)
        agents = plan.active & (plan.wanted != plan.here) & crowded
        bombs = (plan.goal != plan.source) & ((plan.agents[plan.goal] > 1) | (plan.bombs[plan.goal] > 1))
        if not (agents.any() or bombs.any()):
            return
        plan.return_agents(agents)
        plan.return_bombs(bombs)


def _kick(plan: _Plan, action: np.ndarray, steps: np.ndarray, world: World) -> np.ndarray:
    """Let agents that enter the cell of a bomb kick it, or stay.

    Returns:
        ``[B] bool``: matches in which something has changed, so that other agents and bombs may have to stay.
    """
    meets = (plan.wanted[plan.match] == plan.goal[:, None]) & plan.active[plan.match]
    bomb = np.flatnonzero(meets.any(axis=1))
    match, seat = plan.match[bomb], meets[bomb].argmax(axis=1)
    source, goal = plan.source[bomb], plan.goal[bomb]
    enters = plan.wanted[match, seat] != plan.here[match, seat]
    beyond = goal + steps[np.where(enters, action[match, seat], 0)]
    is_free = (world.board.reshape(-1)[beyond] == PASSAGE) & (plan.agents[beyond] == 0) & (plan.bombs[beyond] == 0)
    kicks = enters & world.kick[match, seat] & is_free
    stays = (enters & ~kicks) | (~enters & (goal != source))
    plan.bombs[goal[kicks]] = 0
    plan.goal[bomb[kicks]] = beyond[kicks]
    np.add.at(plan.bombs, beyond[kicks], 1)
    back = np.zeros(plan.source.size, bool)
    back[bomb[stays]] = True
    plan.return_bombs(back)
    agents = np.zeros(plan.here.shape, bool)
    agents[match[stays & enters], seat[stays & enters]] = True
    plan.return_agents(agents)
    plan.kicker[bomb[kicks]], plan.kicked[match[kicks], seat[kicks]] = seat[kicks], bomb[kicks]
    changed = np.zeros(len(plan.here), bool)
    changed[match[kicks | stays]] = True
    return changed


def _settle(plan: _Plan, changed: np.ndarray) -> None:
    """Undo kicks and moves into cells that others could not leave.

    An agent and a bomb share a cell only if both were in it before.

    Args:
        plan: What everything wants.
        changed: ``[B] bool``: matches in which it may be necessary.
    """
    while True:
        taken = (plan.agents[plan.wanted] > 1) | (plan.bombs[plan.wanted] != 0)
        agents = plan.active & changed[:, None] & (plan.wanted != plan.here) & taken
        plan.return_agents(agents)
        moves = changed[plan.match] & ((plan.goal != plan.source) | (plan.kicker >= 0))
        bombs = moves & ((plan.bombs[plan.goal] > 1) | (plan.agents[plan.goal] != 0))
        plan.return_bombs(bombs)
        if not (agents.any() or bombs.any()):
            return


def _move_bombs(world: World, plan: _Plan, action: np.ndarray, moving: np.ndarray) -> None:
    is_kicked = plan.kicker >= 0
    moves = is_kicked | (plan.goal != plan.source)
    direction = np.where(is_kicked, action[plan.match, plan.kicker], moving)
    world.direction.reshape(-1)[plan.source[~moves]] = 0
    source, goal = plan.source[moves], plan.goal[moves]
    for name in ("life", "strength", "owner"):
        cells = getattr(world, name).reshape(-1)
        values = cells[source]
        cells[source] = 0
        cells[goal] = values
    world.direction.reshape(-1)[source] = 0
    world.direction.reshape(-1)[goal] = direction[moves]
    np.add.at(world.tally[..., COLUMN["kicks"]], (plan.match[is_kicked], plan.kicker[is_kicked]), 1)


def _move_agents(world: World, plan: _Plan, max_strength: int) -> None:
    match, seat = np.nonzero(plan.wanted != plan.here)
    cell = plan.wanted[match, seat] - match * world.board.shape[1]
    world.position[match, seat] = cell
    item = world.board[match, cell]
    found = np.isin(item, ITEMS)
    match, seat, cell, item = match[found], seat[found], cell[found], item[found]
    world.board[match, cell] = PASSAGE
    world.ammo[match, seat] = np.minimum(world.ammo[match, seat] + (item == EXTRA_BOMB), MAX_AMMO)
    longer = np.minimum(world.reach[match, seat] + 1, max_strength)
    world.reach[match, seat] = np.where(item == LONGER_RANGE, longer, world.reach[match, seat])
    world.kick[match, seat] |= item == KICK
    world.tally[match, seat, COLUMN["items"]] += 1
