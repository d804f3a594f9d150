"""A small game with the Python client: rock, paper, scissors for prizes. Arguments: port, token, matches, behaviour."""

from __future__ import annotations

import os
import random
import runpy
import struct
import sys
import time
from pathlib import Path

CLIENT = runpy.run_path(str(Path(__file__).parents[1] / "clients" / "python" / "ludus_client.py"))
Client, ClientError, SeatClock = CLIENT["Client"], CLIENT["ClientError"], CLIENT["SeatClock"]

ROUNDS = 5
SCHEMA = {
    "roles": [
        {
            "name": "player",
            "teams": [0, 1],
            "leaves": {"obs": {"dtype": "float32", "shape": [5], "low": -1.0, "high": 3.0}},
            "labels": [3],
            "mask": True,
            "privileged": {"next": {"dtype": "int16", "shape": []}},
            "reward_parts": ["prize"],
            "statistics": ["wins"],
        }
    ],
    "turn": "simultaneous",
    "tick_s": 0.1,
    "scenarios": {"rich": ["prize"]},
    "zero_sum": True,
    "constant_sum": True,
    "outcome_rule": "the player with more prizes wins",
}


class Rounds:
    """A match: a round has a prize and a move that both must not choose; rock 0, paper 1, scissors 2."""

    def __init__(self, start):
        self.rng = random.Random(start["seed"])
        self.number = start["match"]
        self.has_frames = start.get("frames", False)
        factor = start["parameters"].get("prize", 2.0 if start["scenario"] == "rich" else 1.0)
        self.prizes = [factor * self.rng.choice([0.25, 0.5, 1.0]) for _ in range(ROUNDS + 1)]
        self.banned = [self.rng.randrange(3) for _ in range(ROUNDS + 1)]
        self.round, self.last, self.score, self.wins = 0, (-1, -1), [0.0, 0.0], [0, 0]
        self.reward = 0.0

    def entry(self, seat, *, acts=True):
        """Return the entry of a seat."""
        own, other = self.last[seat], self.last[1 - seat]
        shown = (own / 2, other / 2, self.prizes[self.round], self.banned[self.round] / 2, self.round / ROUNDS)
        reward = self.reward if seat == 0 else -self.reward
        mask = bytes(move != self.banned[self.round] for move in range(3))
        following = self.banned[min(self.round + 1, ROUNDS)]
        return {
            "seat": seat,
            "acts": acts,
            "leaves": {"obs": struct.pack("<5f", *shown)},
            "mask": mask if acts else b"",
            "privileged": {"next": struct.pack("<h", following)},
            "reward": reward,
            "parts": {"prize": reward},
        }

    def play(self, one, other):
        """Play a round."""
        winner = (0.0, 1.0, -1.0)[(one - other) % 3]
        self.reward = winner * self.prizes[self.round]
        self.score = [self.score[0] + self.reward, self.score[1] - self.reward]
        self.wins = [self.wins[0] + (winner > 0), self.wins[1] + (winner < 0)]
        self.last = (one, other)
        self.round += 1

    @property
    def frame(self):
        """Return a picture: the moves and the score of both seats; None unless some are wanted."""
        if not self.has_frames:
            return None
        shapes = [
            {
                "kind": "label",
                "x": 20.0 + 60 * seat,
                "y": 20.0,
                "text": f"{self.last[seat]} {self.score[seat]:+g}",
                "size": 9,
            }
            for seat in range(2)
        ]
        return {"width": 100.0, "height": 40.0, "shapes": shapes, "caption": f"round {self.round}"}

    @property
    def outcome(self):
        """Return the points of both teams."""
        one = 0.5 + 0.5 * ((self.score[0] > 0) - (self.score[0] < 0))
        return [one, 1 - one]

    def end(self, client, tick):
        """Report the end."""
        seats = [self.entry(seat, acts=False) for seat in range(2)]
        statistics = [{"wins": float(wins)} for wins in self.wins]
        fields = {"tick": tick, "ending": "terminated", "outcome": self.outcome}
        client.send("match_end", self.number, **fields, seats=seats, statistics=statistics, frame=self.frame)


def play_lock_step(client, crash_after):
    """Answer messages for ever; end with status 3 after some rounds if that is wanted."""
    games, rounds = {}, 0
    while True:
        for message in client.poll(None):
            number = message["match"]
            if message["type"] == "match_void":
                games.pop(number, None)
                continue
            if message["type"] == "match_start":
                games[number] = Rounds(message)
            else:
                chosen = {entry["seat"]: entry["action"][0] for entry in message["actions"]}
                games[number].play(chosen[0], chosen[1])
                rounds += 1
            if rounds == crash_after:
                os._exit(3)
            game = games[number]
            if game.round == ROUNDS:
                games.pop(number).end(client, game.round * 2)
            else:
                seats = [game.entry(seat) for seat in range(2)]
                client.send("observation", number, tick=game.round * 2, seats=seats, frame=game.frame)


def play_real_time(client, lag):
    """Play matches of a game that goes on by itself: a round every ten ticks of 2 ms, whatever was answered.

    Args:
        client: The client.
        lag: Ticks by which actions arrive later, except for those of the tick of a round.
    """
    while True:
        start = client.next_match()
        game, tick = Rounds(start), 0
        clocks = [SeatClock(timing, [0]) for timing in client.welcome["timing"]]
        is_void, arrived = False, []
        while game.round < ROUNDS and not is_void:
            due = [seat for seat in range(2) if clocks[seat].is_due(tick)]
            if due:
                entries = [game.entry(seat) | {"dropped": clocks[seat].ask(tick)} for seat in due]
                client.send("observation", game.number, tick=tick, seats=entries, frame=game.frame)
                game.reward = 0.0
            time.sleep(0.002)
            arrived += client.poll(0.0)
            for message in [
                one for one in arrived if tick >= one.get("tick", tick) + lag * (one.get("tick", 0) % 10 > 0)
            ]:
                arrived.remove(message)
                is_void |= message["type"] == "match_void"
                for entry in message.get("actions", ()):
                    clocks[entry["seat"]].receive(message["tick"], entry)
            tick += 1
            chosen = [clock.action(tick)[0] for clock in clocks]
            if tick % 10 == 0:
                game.play(*chosen)
        if not is_void:
            seats = [{"seat": seat, "dropped": clocks[seat].dropped} for seat in range(2)]
            fields = {"tick": tick, "ending": "terminated", "outcome": game.outcome, "frame": game.frame}
            client.send("match_end", game.number, **fields, seats=seats)


def main(port, token, matches="1", behaviour=""):
    """Connect and play."""
    client = Client("127.0.0.1", int(port), token=token, game="rounds", schema=SCHEMA, matches=int(matches), ports=1)
    try:
        if client.welcome["mode"] == "real-time":
            play_real_time(client, 4 if behaviour == "late" else 0)
        play_lock_step(client, int(behaviour or -1))
    except ClientError as error:
        if error.code != "bye":
            raise


if __name__ == "__main__":
    main(*sys.argv[1:])
