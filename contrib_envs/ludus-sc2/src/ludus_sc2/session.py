"""Matches of one match index: the processes of the game, one for each seat that is played, and their requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define

from ludus_sc2.commands import Command
from ludus_sc2.config import Sc2Config
from ludus_sc2.game_data import GameData
from ludus_sc2.game_process import GameProcess, free_ports
from ludus_sc2.installation import Installation
from ludus_sc2.names import BOTS, RACES

_PARTICIPANT, _COMPUTER, _OBSERVER = 1, 2, 3
_VICTORY, _DEFEAT = 1, 2
_POINTS = {_VICTORY: 1.0, _DEFEAT: 0.0}


@define
class Player:
    """A process of the game that takes part in a match.

    Args:
        process: The process.
        seat: The seat that it plays; -1 if it only observes a match of two bots.
        number: The game's number of the player.
    """

    process: GameProcess
    seat: int
    number: int = 0


class Session:
    """Starts processes and matches, and advances them. Processes stay for later matches.

    Args:
        config: Options of the environment.
        installation: Where the game is installed.
    """

    def __init__(self, config: Sc2Config, installation: Installation) -> None:
        self._config = config
        self._installation = installation
        self._map = installation.find_map(config.map)
        self._processes: list[GameProcess] = []
        self._players: list[Player] = []
        self._data: GameData | None = None
        self._computers: dict[int, int] = {}

    @property
    def processes(self) -> Sequence[GameProcess]:
        """Return the processes that were started."""
        return self._processes

    @property
    def data(self) -> GameData:
        """Return the data of the game, which is known once a match has started."""
        assert self._data is not None
        return self._data

    def launch(self, bots: Sequence[str]) -> None:
        """Start the processes that a match needs, without waiting for them."""
        needed = max(1, sum(not bot for bot in bots))
        while len(self._processes) < needed:
            self._processes.append(GameProcess(self._installation))

    def start(self, seed: int, bots: Sequence[str]) -> dict[int, Any]:
        """Start a match, and return the ``ResponseGameInfo`` of each player by seat.

        Args:
            seed: Seed of the game, below 2³².
            bots: Name of the built-in bot of each seat, empty where a participant plays.

        Raises:
            WorkerError: The game failed, refused the match, or did not start in time.
        """
        self.launch(bots)
        self._leave()
        seats = [seat for seat, bot in enumerate(bots) if not bot] or [-1]
        self._players = [Player(process, seat) for process, seat in zip(self._processes, seats, strict=False)]
        timeout_s = self._config.start_timeout_s
        for player in self._players:
            player.process.wait_until_ready(timeout_s)
        self._create(seed, bots)
        self._join()
        self._read_data()
        infos = {player.seat: response.game_info for player, response in self._ask("game_info", timeout_s)}
        self._computers = _computer_numbers(infos[seats[0]], bots)
        return infos

    def _read_data(self) -> None:
        """Ask for the data of the game at its first match."""
        if self._data is None:
            process = self._players[0].process
            request = process.request("data")
            request.data.ability_id = request.data.unit_type_id = request.data.upgrade_id = True
            process.send(request)
            self._data = GameData.read(process.receive("data", self._config.start_timeout_s).data)

    def _leave(self) -> None:
        """End the match that runs."""
        for player in self._players:
            player.process.send(player.process.request("leave_game"))
        for player in self._players:
            player.process.receive("leave_game", self._config.step_timeout_s)
        self._players = []

    def _create(self, seed: int, bots: Sequence[str]) -> None:
        host = self._players[0].process
        request = host.request("create_game")
        create = request.create_game
        create.local_map.map_path = self._map
        create.random_seed, create.realtime = seed, False
        for bot in bots:
            setup = create.player_setup.add()
            setup.type, setup.race = _PARTICIPANT, RACES["zerg"]
            if bot:
                setup.type, setup.race = _COMPUTER, RACES[self._config.bot_race]
                setup.difficulty = 1 + BOTS.index(bot)
        if all(bots):
            create.player_setup.add().type = _OBSERVER
        host.send(request)
        host.receive("create_game", self._config.start_timeout_s)

    def _join(self) -> None:
        """Join with all players at once: the game replies when the match begins."""
        ports = free_ports(4) if len(self._players) > 1 else []
        for player in self._players:
            request = player.process.request("join_game")
            join = request.join_game
            if player.seat < 0:
                join.observed_player_id = 1
            else:
                join.race = RACES["zerg"]
            join.options.raw = join.options.score = True
            if ports:
                join.server_ports.game_port, join.server_ports.base_port = ports[:2]
                own = join.client_ports.add()
                own.game_port, own.base_port = ports[2:]
            player.process.send(request)
        for player in self._players:
            response = player.process.receive("join_game", self._config.start_timeout_s)
            player.number = response.join_game.player_id

    def _ask(self, kind: str, timeout_s: float) -> list[tuple[Player, Any]]:
        """Send a request to all players, then return the response of each."""
        for player in self._players:
            player.process.send(player.process.request(kind))
        return [(player, player.process.receive(kind, timeout_s)) for player in self._players]

    def act(self, commands: dict[int, list[Command]]) -> None:
        """Send the commands of seats.

        Raises:
            WorkerError: The game failed, or did not reply in time.
        """
        acting = [player for player in self._players if commands.get(player.seat)]
        for player in acting:
            request = player.process.request("action")
            for command in commands[player.seat]:
                command.write(request.action.actions.add())
            player.process.send(request)
        for player in acting:
            player.process.receive("action", self._config.step_timeout_s)

    def step(self, loops: int) -> None:
        """Advance the match by game loops.

        Raises:
            WorkerError: The game failed, or did not reply in time.
        """
        for player in self._players:
            request = player.process.request("step")
            request.step.count = loops
            player.process.send(request)
        for player in self._players:
            player.process.receive("step", self._config.step_timeout_s)

    def observe(self) -> dict[int, Any]:
        """Return the ``ResponseObservation`` of each player by seat; of a match of two bots that of seat -1.

        Raises:
            WorkerError: The game failed, or did not reply in time.
        """
        responses = self._ask("observation", self._config.step_timeout_s)
        return {player.seat: response.observation for player, response in responses}

    def outcome(self, observations: dict[int, Any]) -> list[float] | None:
        """Return the points of both seats: 1, ½ or 0; None while the match goes on.

        Args:
            observations: What `observe` returned.
        """
        results = {one.player_id: one.result for seen in observations.values() for one in seen.player_result}
        if not results:
            return None
        numbers = {**{player.seat: player.number for player in self._players}, **self._computers}
        first, second = (_POINTS.get(results.get(numbers.get(seat, 0), 0), 0.5) for seat in (0, 1))
        # A seat without a result of its own has what the other one lacks.
        if first == second:
            return [0.5, 0.5]
        if 0.5 in (first, second):
            return [1.0 - second, second] if first == 0.5 else [first, 1.0 - first]
        return [first, second]

    def close(self) -> None:
        """End all processes; closing twice is harmless."""
        for process in self._processes:
            process.close()
        self._processes, self._players = [], []


def _computer_numbers(info: Any, bots: Sequence[str]) -> dict[int, int]:
    """Return the game's number of each player that is a bot, by seat: they grow in the order of the setups."""
    numbers = sorted(one.player_id for one in info.player_info if one.type == _COMPUTER)
    return dict(zip((seat for seat, bot in enumerate(bots) if bot), numbers, strict=False))
