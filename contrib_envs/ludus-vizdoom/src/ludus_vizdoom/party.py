"""The engines of one deathmatch: one for each player that is not a bot.

The engines exchange the commands of every tic, and each spins until it has those of all others. Three rules follow.

* The start of the host returns only when all have joined, so that engines are started by several threads.
* Engines are advanced by one tic at a time. An engine that has done all its tics sends nothing more, so that another
  one, which lacks a command of it, would wait for ever.
* The host goes first. Guests compare the host's command of a tic with their own: if it has arrived before they make
  theirs, they make the next one too, and stay one ahead until the host is late four times in a row. If the order were
  left to chance, so would be the tic on which an action takes effect, and equal seeds would give different matches.
  Here a guest is always one ahead: its actions take effect a tic later, and those of the host are delayed alike.
"""

from __future__ import annotations

import functools
import queue
import socket
from collections.abc import Callable, Sequence
from typing import Any

from ludus.errors import WorkerError

from ludus_vizdoom.engine import Engine, PlayerThread, engine_errors, load_library, start_all
from ludus_vizdoom.inboxes import Inboxes

_ATTEMPTS = 3
_HOST = "127.0.0.1"
_KILLED_S = 5.0
_COLORS = 8
#: Tics after which all guests are one command ahead, since they lose one surplus command in four tics.
_SETTLE_TICS = 16
#: Rules of a deathmatch: players come back by themselves, far away from others, and aim themselves.
RULES = (
    "-deathmatch +timelimit 0 +fraglimit 0 +sv_forcerespawn 1 +sv_noautoaim 1 +sv_respawnprotect 1 +sv_spawnfarthest 1 "
    "+sv_nocrouch 1 +viz_respawn_delay 1 +viz_afk_timeout 0"
)


def free_port() -> int:
    """Return a UDP port that no process uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class Party:
    """Engines that play one match together.

    Args:
        configure: Sets up the game of a player, given its index.
        size: Number of players.
        rules: Further arguments of the host.
        start_timeout_s: Time in which all engines must start.
        step_timeout_s: Time in which all must advance by a tic.
        is_async: Whether the game runs by the clock, so that engines do not wait for each other.
        first_color: Colour of the first player; the next ones follow.
    """

    def __init__(
        self,
        configure: Callable[[Any, int], None],
        size: int,
        *,
        rules: str,
        start_timeout_s: float,
        step_timeout_s: float,
        is_async: bool = False,
        first_color: int = 0,
    ) -> None:
        self._configure = configure
        self._size = size
        self._rules = rules
        self._start_timeout_s = start_timeout_s
        self._step_timeout_s = step_timeout_s
        self._is_async = is_async
        self._first_color = first_color
        self._engines: list[Engine] = []
        self._threads: list[PlayerThread] = []
        self._inboxes: Inboxes | None = None
        self._held: list[float] | None = None  # last action of the host
        self._starter = PlayerThread()
        self._starter.call(self._start)

    @property
    def games(self) -> list[Any]:
        """Return the connection to the engine of every player."""
        return [engine.game for engine in self._engines]

    def wait_for_start(self) -> None:
        """Wait until all engines run.

        Raises:
            WorkerError: An engine failed, or was not ready in time.
        """
        self._starter.wait(None)
        self._number_players()
        if self._size == 1:
            return
        self._threads = [PlayerThread() for _ in range(self._size)]
        if not self._is_async:
            self._inboxes = Inboxes([process for engine in self._engines[1:] for process in engine.processes()])
            for _ in range(_SETTLE_TICS):
                self._advance_all(1, is_last=True)

    def _number_players(self) -> None:
        """Order the engines by the numbers that the host gave them as they joined, and name and colour them so."""
        number = load_library().GameVariable.PLAYER_NUMBER
        with engine_errors():
            self._engines.sort(key=lambda engine: engine.game.get_game_variable(number))
            for index, game in enumerate(self.games):
                game.send_game_command(f"name player{index}")
                game.send_game_command(f"colorset {(self._first_color + index) % _COLORS}")

    def _start(self) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            port = free_port()
            self._engines = [
                Engine(functools.partial(self._configure_player, index=index, port=port)) for index in range(self._size)
            ]
            try:
                start_all(self._engines, self._start_timeout_s)
            except WorkerError:
                if self._size == 1 or attempt == _ATTEMPTS:
                    raise
            else:
                return

    def _configure_player(self, game: Any, *, index: int, port: int) -> None:
        self._configure(game, index)
        if index:
            game.add_game_args(f"-join {_HOST}:{port}")
        else:
            network = f"-port {port} -netmode 0 " if self._size > 1 else ""
            game.add_game_args(f"-host {self._size} {network}{self._rules}")

    def advance(self, actions: Sequence[list[float]], tics: int) -> None:
        """Hold the actions of the players for some tics.

        Args:
            actions: State of the buttons, by player.
            tics: Number of tics.

        Raises:
            WorkerError: An engine failed, or did not advance in time.
        """
        with engine_errors():
            if self._size == 1:
                self._engines[0].game.make_action(actions[0], tics)
                return
            for game, action in zip(self.games, actions, strict=True):
                game.set_action(action)
        if self._is_async:
            self._advance_all(tics, is_last=True)
            return
        self._set_host_action(self._held or actions[0])
        self._held = actions[0]
        for left in range(tics, 0, -1):
            self._advance_all(1, is_last=left == 1)
            self._set_host_action(actions[0])

    def _set_host_action(self, action: list[float]) -> None:
        with engine_errors():
            self.games[0].set_action(action)

    def _advance_all(self, tics: int, *, is_last: bool) -> None:
        host, *guests = [functools.partial(game.advance_action, tics, is_last) for game in self.games]
        before = self._inboxes.read() if self._inboxes else {}
        self._threads[0].call(host)
        if self._inboxes:
            self._inboxes.wait_for_more(before)
        for thread, guest in zip(self._threads[1:], guests, strict=True):
            thread.call(guest)
        try:
            with engine_errors():
                for thread in self._threads:
                    thread.wait(self._step_timeout_s)
        except queue.Empty:
            self._kill()
            late = f"the {self._size} ViZDoom engines of a match did not advance within {self._step_timeout_s:g} s"
            raise WorkerError(late) from None

    def _kill(self) -> None:
        for engine in self._engines:
            engine.kill()

    def close(self) -> None:
        """Kill all engines; closing twice is harmless."""
        self._kill()
        for thread in (*self._threads, self._starter):
            thread.stop(_KILLED_S)  # the library must not be closed while a thread waits for an engine
        self._threads = []
        for engine in self._engines:
            engine.close()
        self._engines = []
