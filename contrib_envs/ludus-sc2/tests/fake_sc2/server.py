"""A fake of the StarCraft II program: its protocol over a websocket, with the tiny world of this folder.

The host of a match of two participants simulates it; the other process sends its requests on to the host.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
import time

from s2clientprotocol import sc2api_pb2 as api
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from .catalog import ABILITY, GENERAL, KINDS, RESEARCH, TECHNOLOGIES, UNIT_ID, UPGRADE_ID
from .world import SIZE, STARTS, World, shown_ability

FAULT = os.environ.get("FAKE_SC2_FAULT", "")
_NAMES = ("ability_id", "name", "mineral_cost", "vespene_cost")


class Match:
    """The match that this process hosts; each request of a player waits for the others where the game does."""

    def __init__(self, create):
        setups = create.player_setup
        players = [setup for setup in setups if setup.type != api.Observer]
        levels = {i: setup.difficulty for i, setup in enumerate(players, start=1) if setup.type == api.Computer}
        self.types = [setup.type for setup in players]
        self.participants = [i for i in (1, 2) if i not in levels]
        self.world = World(create.random_seed, levels)
        self.clients = max(1, len(self.participants))
        self.joined = self.stepping = self.turn = 0
        self.commands = {1: [], 2: []}
        self.changed = threading.Condition()

    def join(self, *, is_host):
        """Return the number of the player once all have joined: the host is the first participant."""
        with self.changed:
            self.joined += 1
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.joined >= self.clients)
            return self.participants[0 if is_host else 1] if self.participants else 3

    def step(self, loops):
        """Advance once all clients have asked for it."""
        with self.changed:
            turn, self.stepping = self.turn, self.stepping + 1
            if self.stepping >= self.clients:
                self.stepping, self.turn = 0, turn + 1
                for player, commands in self.commands.items():  # in a fixed order, whoever sent the first one
                    for command in commands:
                        self.world.command(player, *command)
                    commands.clear()
                self.world.step(loops)
                self.changed.notify_all()
            self.changed.wait_for(lambda: self.turn > turn)

    def leave(self, player):
        with self.changed:
            self.clients -= 1
            if player in self.participants:
                self.world.leave(player)
            if self.stepping and self.stepping >= self.clients:
                self.stepping, self.turn = 0, self.turn + 1
                self.changed.notify_all()


class Client:
    """Answers the requests of one player."""

    def __init__(self, match, *, is_host=False):
        self.match, self.player, self.is_host = match, 0, is_host

    def answer(self, request):
        kind = request.WhichOneof("request")
        response = api.Response(id=request.id)
        getattr(response, kind).SetInParent()
        getattr(self, kind)(getattr(request, kind), getattr(response, kind))
        response.status = api.ended if self.match.world.results else api.in_game
        return response

    def join_game(self, request, response):
        self.player = self.match.join(is_host=self.is_host)
        response.player_id = self.player

    def leave_game(self, request, response):
        self.match.leave(self.player)

    def step(self, request, response):
        if FAULT == "crash":
            print("fake: out of memory", flush=True)
            os._exit(3)
        if FAULT == "hang":
            time.sleep(60)
        self.match.step(request.count)
        response.simulation_loop = self.match.world.loop

    def action(self, request, response):
        for action in request.actions:
            command = action.action_raw.unit_command
            place = command.target_world_space_pos
            position = (place.x, place.y) if command.HasField("target_world_space_pos") else None
            self.match.commands[self.player].append(
                (command.ability_id, command.unit_tags, command.target_unit_tag, position)
            )
            response.result.append(1)

    def game_info(self, request, response):
        response.map_name = "Fake"
        for number, kind in enumerate(self.match.types, start=1):
            response.player_info.add(player_id=number, type=kind, race_requested=2)
        raw = response.start_raw
        raw.map_size.x = raw.map_size.y = SIZE
        write_grid(raw.placement_grid, lambda x, y: 4 <= x < 60 and 4 <= y < 60)
        raw.playable_area.p0.x = raw.playable_area.p0.y = 4
        raw.playable_area.p1.x = raw.playable_area.p1.y = 60
        for x, y in STARTS:
            if (x, y) != self.match.world.starts.get(self.player):
                raw.start_locations.add(x=x, y=y)

    def data(self, request, response):
        for number in (3674, 3794, 3666, 251, *ABILITY.values(), *RESEARCH.values()):
            response.abilities.add(ability_id=number, remaps_to_ability_id=GENERAL.get(number, 0))
        for kind in KINDS:
            unit = response.units.add(unit_id=UNIT_ID[kind.name], name=kind.name, ability_id=ABILITY.get(kind.name, 0))
            unit.mineral_cost, unit.vespene_cost, unit.food_required = kind.minerals, kind.vespene, kind.food
            unit.has_minerals, unit.has_vespene = kind.name == "MineralField", kind.name == "VespeneGeyser"
            if kind.structure:
                unit.attributes.append(8)
        for one in TECHNOLOGIES:
            upgrade = response.upgrades.add(upgrade_id=UPGRADE_ID[one.name])
            for name, value in zip(_NAMES, (RESEARCH[one.name], *one[:3]), strict=True):
                setattr(upgrade, name, value)

    def observation(self, request, response):
        with self.match.changed:
            self._observe(response)

    def _observe(self, response):
        world, seen = self.match.world, response.observation
        seen.game_loop = world.loop
        player = self.player if self.player in (1, 2) else 1
        side, common = world.sides[player], seen.player_common
        used, army, workers, limit = world.food(player)
        common.player_id, common.minerals, common.vespene = self.player, int(side.minerals), int(side.vespene)
        common.food_used, common.food_army, common.food_workers = int(used), int(army), workers
        common.food_cap = limit
        seen.score.score = int(sum(side.collected) + side.killed)
        details = seen.score.score_details
        details.killed_value_units = side.killed
        details.collected_minerals, details.collected_vespene = side.collected
        seen.raw_data.player.upgrade_ids.extend(UPGRADE_ID[name] for name in sorted(side.researched))
        halls = [unit for unit in world.of(player) if unit.kind.name in ("Hatchery", "Lair", "Hive")]
        near = lambda x, y: any(abs(hall.x - x) < 11 and abs(hall.y - y) < 11 for hall in halls)  # noqa: E731
        write_grid(seen.raw_data.map_state.creep, near)
        units = world.of(player)
        cells = {(int(unit.x) // 8, int(unit.y) // 8) for unit in units}
        write_grid(seen.raw_data.map_state.visibility, lambda x, y: (x // 8, y // 8) in cells, bits=8)
        assigned = {}
        for unit in units:
            if unit.order and unit.order[0] == 3666 and unit.order[1] is not None:
                assigned[unit.order[1].tag] = assigned.get(unit.order[1].tag, 0) + 1
        for unit in world.visible(player):
            write_unit(seen.raw_data.units.add(), unit, player, world, assigned)
        for number, result in world.results.items():
            response.player_result.add(player_id=number, result=result)


def write_unit(raw, unit, player, world, assigned):
    """Write a unit as a player sees it: orders and workers of own units only."""
    raw.tag, raw.unit_type, raw.owner = unit.tag, UNIT_ID[unit.kind.name], unit.owner
    raw.alliance = 3 if unit.owner == 0 else 1 if unit.owner == player else 4
    raw.display_type = 1
    raw.pos.x, raw.pos.y = unit.x, unit.y
    raw.health, raw.health_max, raw.build_progress = max(0, unit.health), unit.kind.health, unit.progress
    raw.energy, raw.is_flying = unit.energy, unit.kind.flying
    if unit.owner == 0:
        raw.mineral_contents = int(unit.contents) if unit.kind.name == "MineralField" else 0
        raw.vespene_contents = int(unit.contents) if unit.kind.name == "VespeneGeyser" else 0
    if unit.owner != player:
        return
    if unit.kind.name == "Extractor":
        raw.assigned_harvesters, raw.ideal_harvesters = assigned.get(unit.tag, 0), 3
    elif unit.kind.name in ("Hatchery", "Lair", "Hive") and unit.progress >= 1:
        raw.ideal_harvesters = 16
        raw.assigned_harvesters = sum(
            number
            for tag, number in assigned.items()
            if tag in world.units and world.units[tag].owner == 0 and world.units[tag].distance(unit.x, unit.y) < 11
        )
    if unit.order is not None:
        ability, target, position = unit.order
        order = raw.orders.add(ability_id=shown_ability(ability), progress=min(1.0, unit.order_progress))
        if target is not None:
            order.target_unit_tag = target.tag
        elif position is not None:
            order.target_world_space_pos.x, order.target_world_space_pos.y = position


def write_grid(image, is_set, *, bits=1):
    """Write an image of one or eight bits per cell."""
    image.bits_per_pixel = bits
    image.size.x = image.size.y = SIZE
    cells = [is_set(x + 0.5, y + 0.5) for y in range(SIZE) for x in range(SIZE)]
    if bits == 8:
        image.data = bytes(2 * cell for cell in cells)
        return
    packed = (int("".join("01"[cell] for cell in cells[i : i + 8]), 2) for i in range(0, len(cells), 8))
    image.data = bytes(packed)


def send_message(connection, message):
    """Send a message with its length before it."""
    data = message.SerializeToString()
    connection.sendall(struct.pack(">I", len(data)) + data)


def receive_message(connection, message):
    """Return the next message."""
    size = struct.unpack(">I", read_exactly(connection, 4))[0]
    message.ParseFromString(read_exactly(connection, size))
    return message


def read_exactly(connection, size):
    """Return so many bytes of a connection."""
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data


class Program:
    """The state of this process: the match that it hosts, or the connection to the host."""

    def __init__(self):
        self.match = self.client = self.host = self.listener = None

    def answer(self, request):
        kind = request.WhichOneof("request")
        if kind == "quit":
            os._exit(0)
        if kind == "create_game":
            return self.create(request)
        if kind == "join_game":
            self.prepare_join(request.join_game)
        if self.host is not None:
            send_message(self.host, request)
            response = receive_message(self.host, api.Response())
        elif self.client is not None:
            response = self.client.answer(request)
        else:
            return api.Response(error=[f"no game for {kind}"], status=api.launched)
        if kind == "leave_game":
            self.forget()
            response.status = api.launched
        return response

    def create(self, request):
        response = api.Response(status=api.init_game)
        response.create_game.SetInParent()
        if not request.create_game.local_map.map_path.endswith("Simple64.SC2Map"):
            response.create_game.error = api.ResponseCreateGame.InvalidMapPath
        self.match = Match(request.create_game)
        return response

    def prepare_join(self, join):
        if self.match is not None:
            self.client = Client(self.match, is_host=True)
            if self.match.clients > 1:
                self.listener = socket.create_server(("127.0.0.1", join.server_ports.game_port))
                threading.Thread(target=self.serve_guest, args=(self.listener, self.match), daemon=True).start()
            return
        deadline = time.monotonic() + 20
        while self.host is None:
            try:
                self.host = socket.create_connection(("127.0.0.1", join.server_ports.game_port))
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @staticmethod
    def serve_guest(listener, match):
        connection, _ = listener.accept()
        client = Client(match)
        try:
            while True:
                send_message(connection, client.answer(receive_message(connection, api.Request())))
        except ConnectionError:
            return

    def forget(self):
        for one in (self.host, self.listener):
            if one is not None:
                one.close()
        self.__init__()

    def serve(self, connection):
        try:
            for data in connection:
                connection.send(self.answer(api.Request.FromString(data)).SerializeToString())
        except ConnectionClosed:
            return


def main():
    """Serve requests until one of them is to quit."""
    arguments = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False))
    if FAULT == "start":
        print("fake: cannot open the display", flush=True)
        sys.exit(5)
    if FAULT == "silent":
        time.sleep(60)
    program = Program()
    with serve(program.serve, arguments["-listen"], int(arguments["-port"]), compression=None, max_size=None) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
