"""Plays matches through hok_env, in a process of its own whose interpreter hok_env supports: Python 3.8 or 3.9.

`ludus_hok.bridge` starts this file as ``PYTHON bridge_process.py SOCKET PARENT``. It imports nothing of ludus and uses
no feature of later versions of Python. Requests and replies are JSON with their length before them. The current folder
holds ``config.json``, from which hok_env reads the factors of its rewards.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
NUM_CAMPS = 2
NUM_BUTTONS = 12
NUM_LABELS = 6
#: Type of a camp's crystal among the buildings.
CRYSTAL = 24
#: Names of what a hero has done, by our names.
STATISTICS = {"kills": "killCnt", "deaths": "deadCnt", "money": "moneyCnt", "hero_damage": "totalHurtToHero"}


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends: hok_env's library waits for the game without a timeout."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        sys.exit(1)  # it ended before the line above


class GameClient:
    """Matches on the game server, one after another.

    Args:
        settings: See `ludus_hok.bridge.Bridge`.

    Raises:
        ImportError: hok_env is not installed here, or was built for other versions.
    """

    def __init__(self, settings: Any) -> None:
        env1v1 = importlib.import_module("hok.hok1v1.env1v1")
        interface = importlib.import_module("hok.hok1v1.lib.interface")
        gamecore = importlib.import_module("hok.common.gamecore_client")
        heroes = importlib.import_module("hok.hok1v1.hero_config")
        self._runtime_id = settings["runtime_id"]
        self._launcher = gamecore.GamecoreClient(
            server_addr=settings["server"],
            gamecore_req_timeout=settings["action_timeout_ms"],
            default_hero_config=heroes.get_default_hero_config(),
            max_frame_num=settings["max_frames"],
        )
        processor = interface.Interface()
        processor.Init(settings["features"] or env1v1.interface_default_config)
        self._env = env1v1.HoK1v1(
            self._runtime_id,
            self._launcher,
            processor,
            ["tcp://0.0.0.0:{}".format(settings["port"] + camp) for camp in range(NUM_CAMPS)],
            predict_frequency=settings["frame_interval"],
            aiserver_ip=settings["client"],
        )
        self._was_used = False
        self._has_game = False
        self._bots = [False] * NUM_CAMPS

    def handle(self, request: Any) -> Any:
        """Do what a request asks for, and return the reply; None: there is none."""
        if request["do"] == "stop":
            self.close_game()
            return None
        if request["do"] == "reset":
            self._start(request["heroes"], request["bots"])
            info = self._info
        else:
            info = self._env.step(request["actions"])[3]
        return self._describe(info)

    def _start(self, heroes: Any, bots: Any) -> None:
        if not self._was_used:
            self._was_used = True
            self._launcher.stop_game(self._runtime_id)  # one that a killed process has left
        self.close_game()
        self._bots = list(bots)
        self._has_game = True
        camps = {"mode": "1v1", "heroes": [[{"hero_id": hero}] for hero in heroes]}
        self._info = self._env.reset(camps, use_common_ai=list(bots), eval=False)[3]

    def close_game(self) -> None:
        """End the match on the server, if there is one."""
        if self._has_game:
            self._has_game = False
            self._env.close_game()

    def _describe(self, info: Any) -> Any:
        seats = [None if self._bots[camp] else describe_seat(info[camp]) for camp in range(NUM_CAMPS)]
        first = 0 if seats[0] is not None else 1
        frame = self._env.cur_req_pb[first]
        heroes = find_heroes(frame, first, info[first]["player_id"])
        return {
            "seats": seats,
            "is_over": any(seat is not None and seat["is_over"] for seat in seats),
            "has_lost": [hero is not None and has_lost(frame, hero.camp) for hero in heroes],
            "frame": int(frame.frame_no),
            "statistics": [describe_hero(hero) for hero in heroes],
        }


def describe_seat(state: Any) -> Any:
    """Return what a camp observes: features, legal choices, labels used by each button, rewards, and the end."""
    used = state["sub_action_mask"]
    return {
        "observation": [float(value) for value in state["observation"]],
        "legal": [int(value > 0) for value in state["legal_action"]],
        "labels_used": [[int(value > 0) for value in used[button]] for button in range(NUM_BUTTONS)],
        "rewards": [float(value) for value in state["reward"]],
        "is_over": bool(state["done"]),
    }


def find_heroes(frame: Any, first: int, player: Any) -> Any:
    """Return the heroes of both camps in our order; None where a frame has none.

    Args:
        frame: State of the game.
        first: Position of a camp that is no bot.
        player: Its player, which is the identity of its hero.
    """
    own = [hero for hero in frame.hero_list if hero.runtime_id == player]
    others = [hero for hero in frame.hero_list if hero.runtime_id != player]
    heroes = [own[0] if own else None, others[0] if others else None]
    return heroes if first == 0 else heroes[::-1]


def has_lost(frame: Any, camp: Any) -> bool:
    """Return whether the crystal of a camp is destroyed."""
    return any(one.type == CRYSTAL and one.camp == camp and one.hp <= 0 for one in frame.organ_list)


def describe_hero(hero: Any) -> Any:
    """Return what a hero has done in its match."""
    return {ours: 0.0 if hero is None else float(getattr(hero, theirs)) for ours, theirs in STATISTICS.items()}


def describe_error(error: BaseException) -> str:
    """Return an error as one line, with the last place in the code unless a module is missing."""
    text = " ".join(str(error).split())
    if isinstance(error, ImportError):
        return text
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(place.filename).name}, line {place.lineno}, raised {type(error).__name__}: {text}"


def send(connection: socket.socket, message: Any) -> None:
    """Send a message."""
    data = json.dumps(message).encode()
    connection.sendall(len(data).to_bytes(4, "big") + data)


def receive(stream: Any) -> Any:
    """Return the next message; None if the other end has closed the socket."""
    size = stream.read(4)
    return json.loads(stream.read(int.from_bytes(size, "big"))) if size else None


def serve(connection: socket.socket) -> None:
    """Serve requests until the other end closes the socket."""
    stream = connection.makefile("rb")
    client = None
    try:
        client = GameClient(receive(stream))
        send(connection, {"is_ready": True})
        while True:
            request = receive(stream)
            if request is None:
                break
            reply = client.handle(request)
            if reply is not None:
                send(connection, reply)
                if reply["is_over"]:
                    client.close_game()
    except BrokenPipeError:
        pass
    except Exception as error:  # noqa: BLE001 - the other end reports any error of the library
        send(connection, {"error": describe_error(error), "is_import": isinstance(error, ImportError)})
    finally:
        if client is not None:
            client.close_game()


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file, whose modules have common names
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent closes the socket
    die_with(int(sys.argv[2]))
    os.dup2(2, 1)  # what the library prints is no result of the command that runs
    serve(socket.socket(fileno=int(sys.argv[1])))
