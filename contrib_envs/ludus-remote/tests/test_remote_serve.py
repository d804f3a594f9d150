"""`ludus serve`: policies that games request, newer models, draining, and what is refused."""

from __future__ import annotations

import io
import json
import runpy
import shutil
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import ludus
import numpy as np
import pytest
from attrs import evolve
from ludus.__main__ import main
from ludus.levels import Level, LevelSet
from ludus.matchmaker import PoolChange
from ludus.runs import change_pool, open_run
from ludus_board.rules import TicTacToe
from ludus_remote.action_server import ActionServer
from ludus_remote.config import RemoteConfig
from ludus_remote.schema import GameSchema
from ludus_remote.served_policies import ServedPolicies, ServedPolicy
from ludus_remote.server_status import serve_status
from ludus_remote.session import Limits
from ludus_remote.setup import make_options
from prometheus_client.parser import text_string_to_metric_families

GAME = runpy.run_path(str(Path(__file__).with_name("rounds_game.py")))
Client, ClientError, Rounds, SCHEMA = (GAME[name] for name in ("Client", "ClientError", "Rounds", "SCHEMA"))
TOKENS = ("token-of-the-first-game", "token-of-another-game")
EASY = {"easy": "main_agent@1,temperature=2", "newest": "main_agent@latest", "random": "random"}


@pytest.fixture
def serve(run_dir):
    """Return a function that starts a server in a thread; it is stopped after the test."""
    with ExitStack() as stack:

        def make(texts, *, path=run_dir, schema=SCHEMA, limits=None, results=None, **options):
            made = make_options(RemoteConfig(**options), TOKENS)
            server = ActionServer(
                options=evolve(made, limits=limits or Limits(resume_s=1.0)),
                policies=ServedPolicies(path=path, texts=texts),
                num_matches=4,
                batch_s=0.002,
                results=results,
                schema=schema and GameSchema(schema),
            )
            stack.enter_context(closing(server.gateway))
            thread = threading.Thread(target=server.run)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.drain, 0.0)
            return server

        yield make


@pytest.fixture
def join():
    """Return a function that connects a game to a server."""
    with ExitStack() as stack:

        def make(server, *, token=TOKENS[0], schema=SCHEMA, **hello):
            options = {"token": token, "game": "rounds", "schema": schema, "ports": 1, "connect_s": 30.0}
            return stack.enter_context(closing(Client("127.0.0.1", server.gateway.port, **options | hello)))

        yield make


def play(client, start, *, rounds=5):
    """Play rounds of a match, which ends with the fifth; return it."""
    game = start if isinstance(start, Rounds) else Rounds(start)
    for _ in range(rounds):
        entries = [game.entry(seat) for seat in range(2)]
        chosen = client.act({"match": game.number}, tick=2 * game.round, seats=entries)
        game.play(chosen[0][0], chosen[1][0])
    if game.round == 5:
        game.end(client, 10)
    return game


def wait_until(condition, seconds=30.0):
    """Wait until a condition holds."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def ended(server, end="finished"):
    """Return the number of matches that have ended."""
    return server.metrics.registry.get_sample_value("ludus_serve_matches_total", {"end": end})


def read_lines(results):
    """Return the lines of a file of results."""
    return [json.loads(line) for line in results.getvalue().splitlines()]


def test_games_choose_policies_by_seat(serve, join):
    """Two games play different ones at the same time; both learn which models these are."""
    results = io.StringIO()
    server = serve(EASY, results=results)
    one, other = join(server, policies=["easy", ""]), join(server, token=TOKENS[1], policies=["random", "newest"])
    starts = [one.next_match(), other.next_match()]
    newest = list(open_run(server.policies.path).models)[-1]
    assert [start["policies"] for start in starts] == [["main_agent@1,temperature=2"] * 2, ["random", newest]]
    outcomes = [play(client, start).outcome for client, start in zip((one, other), starts, strict=True)]
    wait_until(lambda: ended(server) == 2)
    lines = read_lines(results)
    assert [line["outcome"] for line in lines] == outcomes
    assert [line["seed"] for line in lines] == [start["seed"] for start in starts]
    assert [line["policies"] for line in lines] == [["easy", "easy"], ["random", "newest"]]


def test_a_game_that_requests_nothing_gets_the_first_policy(serve, join):
    """As one that trained through the gateway; it plays as many matches at once as it offers."""
    server = serve({"main": "random"})
    client = join(server, matches=3)
    starts = [client.next_match() for _ in range(3)]
    assert [start["policies"] for start in starts] == [["random", "random"]] * 3
    games = [play(client, start, rounds=2) for start in starts]
    play(client, games[1], rounds=3)
    assert client.next_match()["match"] == 4
    assert ended(server) == 1


def test_new_matches_are_played_by_the_promoted_model(serve, join, run_dir):
    """A running match keeps the model with which it started."""
    results = io.StringIO()
    server = serve({"best": "pool:chosen,temperature=2"}, results=results)
    client = join(server)
    game = play(client, client.next_match(), rounds=2)
    change_pool(run_dir, PoolChange(pool="chosen", model="main_agent@2", enters=True))
    try:
        server.refresh()
        play(client, game, rounds=3)
        start = client.next_match()
        assert start["policies"] == ["main_agent@2,temperature=2"] * 2
        play(client, start)
        wait_until(lambda: ended(server) == 2)
    finally:
        change_pool(run_dir, PoolChange(pool="chosen", model="main_agent@2", enters=False))
    assert [line["participants"][0] for line in read_lines(results)] == [
        "main_agent@1,temperature=2",
        "main_agent@2,temperature=2",
    ]


def test_a_policy_whose_model_is_gone_goes_on(serve, join, run_dir, caplog):
    """The last member leaves the pool: one line, and the model before plays new matches too."""
    server = serve({"best": "pool:chosen"})
    change_pool(run_dir, PoolChange(pool="chosen", model="main_agent@1", enters=False))
    try:
        server.refresh()
    finally:
        change_pool(run_dir, PoolChange(pool="chosen", model="main_agent@1", enters=True))
    assert [record.getMessage() for record in caplog.records if "newer" in record.getMessage()] == [
        "no newer models were loaded: pool:chosen: the pool chosen has no model; pools with models are main_agent"
    ]
    assert join(server).next_match()["policies"] == ["main_agent@1"] * 2


def test_draining_lets_matches_end(serve, join):
    """No game joins, no match starts, and a game without a match gets a bye."""
    server = serve({"main": "random"})
    client, idle = join(server), join(server, token=TOKENS[1])
    game = play(client, client.next_match(), rounds=2)
    play(idle, idle.next_match(), rounds=1)
    server.drain(60.0)
    idle.send("match_void", 1)
    with pytest.raises(ClientError, match="drains"):
        idle.poll(30.0)
    with pytest.raises(ConnectionError, match="wanted the game"):
        join(server, token=TOKENS[1], connect_s=0.1)
    play(client, game, rounds=3)
    with pytest.raises(ClientError, match="drains"):
        client.poll(30.0)
    wait_until(lambda: not server.gateway.games)
    assert ended(server) == 1


def test_draining_has_a_limit(serve, join):
    """A match that goes on is void."""
    server = serve({"main": "random"})
    client = join(server)
    play(client, client.next_match(), rounds=2)
    server.drain(0.2)
    with pytest.raises(ClientError, match="stops"):
        client.poll(30.0)
    assert ended(server) == 0


def test_the_state_is_on_two_pages(serve, join):
    """Prometheus can parse the metrics; /health answers 503 while the server drains."""
    server = serve(EASY)
    client = join(server, policies=["easy", "random"])
    play(client, client.next_match())
    client.next_match()
    with serve_status(server, "127.0.0.1", 0) as port:

        def get(page):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}") as answer:
                return answer.read().decode()

        health = json.loads(get("health"))
        assert (health["status"], health["games"], health["matches"]) == ("ok", 1, 1)
        assert health["policies"]["easy"] == "main_agent@1,temperature=2"
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(get("metrics"))
            for sample in family.samples
        }
        assert samples["ludus_serve_matches_total", "finished"] == 1
        assert samples["ludus_serve_actions_total", "easy"] == samples["ludus_serve_actions_total", "random"] == 5
        assert samples["ludus_serve_action_seconds_count",] == 5
        server.drain(60.0)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            get("health")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get("other")


WIDER = {**SCHEMA, "roles": [{**SCHEMA["roles"][0], "labels": [4], "no_op": [0]}]}
REFUSED = {
    "policy": ({"policies": ["nightmare", ""]}, "'nightmare' does not play the role 'player'; policies that do are"),
    "seats": ({"policies": ["easy"]}, "expected a name for each of 2 seats"),
    "schema": ({"schema": WIDER}, "the schema differs from that of the run: roles"),
    "token": ({"token": "a-token-that-is-wrong"}, "the token is wrong"),
}


@pytest.mark.parametrize(("hello", "text"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_disturbs_no_other_game(hello, text, serve, join, caplog):
    """The game and the log get one line, and the match of another game ends."""
    server = serve(EASY)
    client = join(server)
    game = play(client, client.next_match(), rounds=2)
    with pytest.raises(ClientError, match=text):
        join(server, **{"token": TOKENS[1]} | hello)
    play(client, game, rounds=3)
    wait_until(lambda: ended(server) == 1)
    assert len([record for record in caplog.records if text in record.getMessage()]) == 1


def test_a_flood_voids_only_the_matches_of_its_game(serve, join):
    """The other game's match ends."""
    server = serve({"main": "random"}, limits=Limits(messages_per_s=200))
    client, flooding = join(server), join(server, token=TOKENS[1])
    game = play(client, client.next_match(), rounds=2)
    play(flooding, flooding.next_match(), rounds=2)
    payload = GAME["CLIENT"]["pack"]({"type": "pong", "time": 0.0})
    flooding._socket.sendall(300 * (struct.pack(">I", len(payload)) + payload))
    with pytest.raises(ClientError, match="more than 200 messages"):
        flooding.poll(30.0)
    play(client, game, rounds=3)
    wait_until(lambda: ended(server) == 1)
    assert ended(server, "void") >= 1


def test_the_first_game_waits_for_the_models(serve, join):
    """Without a schema the first game decides; one with other spaces is refused in one line."""
    server = serve({"main": "main_agent@1"}, schema=None)
    with pytest.raises(ClientError, match="the models cannot play this game: main: the saved arrays do not fit"):
        join(server, schema=WIDER)
    client = join(server)
    play(client, client.next_match())
    with pytest.raises(ClientError, match="differs"):
        join(server, schema=WIDER, token=TOKENS[1])


def test_a_lost_connection_is_resumed(serve, join):
    """The match goes on where it was."""
    server = serve({"main": "random"})
    client = join(server)
    game = play(client, client.next_match(), rounds=2)
    client._drop()
    play(client, game, rounds=3)
    wait_until(lambda: ended(server) == 1)


class CountingAgent:
    """An agent whose action is the number of decisions of a seat in its match and the ticks since the last one."""

    def __init__(self):
        self.counts, self.ticks = Counter(), {}

    def reset(self, seat_ids):
        """Start counting again."""
        for seat_id in seat_ids.tolist():
            self.counts[seat_id] = 0

    def elapse(self, ticks, seat_ids):
        """Keep the ticks."""
        self.ticks = dict(zip(seat_ids.tolist(), ticks.tolist(), strict=True))

    def act(self, observation, *, seat_ids, **_):
        """Return counts and ticks."""
        self.counts.update(seat_ids.tolist())
        return np.array([[self.counts[seat_id], self.ticks[seat_id]] for seat_id in seat_ids.tolist()])


def test_every_seat_has_its_own_state(serve, join):
    """Also while two matches run at once, and in a match that follows another one."""
    server = serve({"main": "random"})
    server.policies.current = {"main": ServedPolicy("main", "main", {"player": CountingAgent()})}
    client = join(server, matches=2)
    games = [Rounds(client.next_match()) for _ in range(2)]
    for number in range(3):
        for game in games:
            entries = [game.entry(seat) for seat in range(2)]
            chosen = client.act({"match": game.number}, tick=2 * number, seats=entries)
            assert chosen == {seat: [number + 1, 2 * min(number, 1)] for seat in range(2)}
    client.send("match_void", games[0].number)
    game = Rounds(client.next_match())
    chosen = client.act({"match": game.number}, tick=0, seats=[game.entry(1)])
    assert chosen == {1: [1, 0]}


class FailingAgent:
    """An agent with a defect."""

    def reset(self, seat_ids):
        """Do nothing."""

    def act(self, observation, **_):
        """Fail."""
        raise ZeroDivisionError


def test_a_policy_that_fails_voids_its_matches(serve, join):
    """Those of other policies go on."""
    server = serve({"main": "random"})
    broken = ServedPolicy("broken", "broken", {"player": FailingAgent()})
    server.policies.current = {**server.policies.current, "broken": broken}
    client, failing = join(server), join(server, token=TOKENS[1], policies=["main", "broken"])
    with pytest.raises(GAME["CLIENT"]["MatchVoid"], match="a policy of the server failed"):
        play(failing, failing.next_match())
    play(client, client.next_match())
    wait_until(lambda: ended(server) == 1)


def test_real_time_answers_name_the_tick_of_their_observation(serve, join):
    """Also while a seat reports faster than it is answered: the newest observation is answered, and none twice."""
    server = serve({"main": "random"}, mode="real-time", period=5, delay=1, max_age=50)
    client = join(server)
    assert client.welcome["timing"] == [{"period": 5, "delay": 1, "max_age": 50, "missing": "repeat"}] * 2
    game = Rounds(client.next_match())
    answered = {0: [], 1: []}
    for tick in range(0, 50, 5):
        client.send("observation", game.number, tick=tick, seats=[game.entry(seat) for seat in range(2)])
    until = time.monotonic() + 30
    while not all(45 in ticks for ticks in answered.values()):
        assert time.monotonic() < until
        for message in client.poll(1.0):
            for entry in message["actions"]:
                assert (entry["apply"], entry["deadline"]) == (message["tick"] + 1, message["tick"] + 50)
                answered[entry["seat"]].append(message["tick"])
    assert all(ticks == sorted(set(ticks)) for ticks in answered.values())
    client.send("match_end", game.number, tick=50, ending="terminated", outcome=[1.0, 0.0])
    wait_until(lambda: ended(server) == 1)


def test_levels_and_files_are_served_without_their_run(serve, join, run_dir, tmp_path):
    """A folder of levels serves all of them; the file of a model serves its player."""
    with open_run(run_dir) as run:
        digest = run.models["main_agent@1"].hash
    for suffix in ("json", "safetensors"):
        (tmp_path / f"{digest}.{suffix}").write_bytes((run_dir / "models" / f"{digest}.{suffix}").read_bytes())
    levels = tuple(Level(model="main_agent@1", hash=digest, temperature=temperature) for temperature in (3.0, 1.0))
    LevelSet(environment="remote", role="player", levels=levels).save(tmp_path)
    first = f"{tmp_path}/1"
    assert join(serve({}, path=tmp_path), policies=[first, ""]).next_match()["policies"] == [first, first]
    client = join(serve({}, path=tmp_path / f"{digest}.safetensors"))
    start = client.next_match()
    assert start["policies"] == ["main_agent", "main_agent"]
    play(client, start)


def test_models_of_another_environment(serve, join, tmp_path):
    """A game that shows what they learned is served, and one whose arrays differ is refused."""
    config = {
        "run": {"decisions": 32, "workers": 0},
        "environment": {"name": "tictactoe"},
        "sampling": {"matches": 2},
        "evaluation": {"final_matches": 0, "matches": 1},
        "players": {
            "main_agent": {
                "algorithm": "ppo",
                "network": "mlp",
                "matchmaker": "latest-self-play",
                "ppo": {"batch_decisions": 32, "num_minibatches": 1},
            }
        },
    }
    with ludus.train(config, run_dir=tmp_path / "run") as run:
        assert run.models
    role = {
        "name": "player",
        "teams": [0, 1],
        "leaves": {"obs": {"dtype": "int8", "shape": [*TicTacToe.shape, 2]}},
        "labels": [9],
    }
    schema = {"roles": [role | {"mask": True}], "turn": "turn-based"}
    server = serve({}, path=tmp_path / "run", schema=None)
    with pytest.raises(ClientError, match=r"learned the leaves obs int8\[3, 3, 2\].*has .*\[3, 6\]"):
        join(server, schema={"roles": [role | {"leaves": {"obs": {"dtype": "int8", "shape": [3, 6]}}}]})
    client = join(server, schema=schema)
    entry = {"seat": 0, "acts": True, "leaves": {"obs": bytes(18)}, "mask": bytes([0] * 8 + [1])}
    assert client.act(client.next_match(), tick=0, seats=[entry]) == {0: [8]}


def test_a_game_in_javascript(serve):
    """A game that trains through the gateway is served by the same client, unchanged."""
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed")
    game = Path(__file__).parents[3] / "examples" / "game-browser" / "headless.js"
    server = serve({"main": "random"}, schema=None)
    with subprocess.Popen([node, str(game), str(server.gateway.port), TOKENS[0], "4"]) as process:
        try:
            wait_until(lambda: ended(server) >= 4)
        finally:
            process.kill()


MISTAKES = {
    "unknown": (["nightmare"], "error: participant 'nightmare': not in this league"),
    "live": (["main_agent"], "error: main_agent is no frozen model"),
    "pool": (["pool:none"], "error: pool:none: the pool none has no model; pools with models are chosen"),
    "twice": (["random", "random=main_agent@1"], "error: policy random=main_agent@1: the name random is there twice"),
    "token": (["random"], "error: tokens: LUDUS_REMOTE_TOKENS: expected at least one token"),
    "times": (
        ["random", "--mode", "real-time", "--delay", "9", "--max-age", "3"],
        "error: max_age: expected at least the delay of 9 ticks, got 3",
    ),
    "status": (["random", "--status", "7790"], "expected HOST:PORT, got '7790'"),
    "folder": (["--schema", "missing.json", "random"], "error: schema: missing.json: No such file"),
}


@pytest.mark.parametrize(("arguments", "text"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(arguments, text, run_dir, capsys, monkeypatch):
    """What is wrong, where, and what was expected."""
    if "token" not in text:
        monkeypatch.setenv("LUDUS_REMOTE_TOKENS", TOKENS[0])
    assert main(["serve", str(run_dir), *arguments]) in (1, 2)
    lines = capsys.readouterr().err.splitlines()
    assert text in lines[-1]
    assert len(lines) == 1 or lines[0].startswith("Usage")
